"""`ReliabilityDisplay`: reliability plots of a classifier, in the manner of scikit-learn's displays."""

from dataclasses import KW_ONLY, dataclass
from importlib.util import find_spec
from typing import Any, Literal, Self

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.binned.scikit_learn_names import translated
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram
from calibdask.estimators.smooth.curves import ReliabilityCurve


@dataclass(eq=False)
class ReliabilityDisplay:
    """Reliability diagram and curve of a classifier, from one pass over the data; `plot` draws either.

    The counterpart of `sklearn.calibration.CalibrationDisplay`, created by the same two methods; it supports several
    classes, slices, weights, Dask and intervals. It draws with Matplotlib if axes are given, or on request;
    `calibdask.plot.reliability_diagram` and `calibdask.plot.reliability_curve` draw its ``result`` with HoloViews.

    Bins and the axis adapt to the scores: for skewed scores, bins have equal masses, and the axis ends at the 99.5th
    percentile or is on the logit scale; a note below the axis gives the number of rows beyond it.

    Attributes
    ----------
    result : xarray.Dataset
        The result of `calibdask.evaluate` for ``diagram``, bins, and ``curve``: the variables ``diagram_outcome``,
        ``curve_reliability`` and so on. A result with a `calibdask.ReliabilityDiagram`, or a
        `calibdask.ReliabilityCurve`, suffices.
    name : str
        The name of the classifier in legends.
    pos_label : label or None
        The class whose probability the scores are; only for two classes, and if known.
    line_, lines_, ax_, figure_
        Once drawn: the line, all lines of several classes or slices, and the Matplotlib axes and figure that hold them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import calibdask as cd
    >>> X, y = load_iris(return_X_y=True)
    >>> display = cd.ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, bins=5)
    >>> display.name
    'GaussianNB'
    >>> display.plot(name="naive Bayes").ax_.get_ylabel()
    'accuracy'
    """

    result: xr.Dataset
    _: KW_ONLY
    name: str = ""
    pos_label: Any = None

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        bins: Any = "auto",
        binning: Literal["auto", "uniform", "equal-mass"] = "auto",
        n_bins: int | None = None,
        strategy: Literal["uniform", "quantile"] | None = None,
        axis: Literal["auto", "full", "quantile", "logit"] = "auto",
        bandwidth: Any = None,
        setting: Any = None,
        sample_weight: Any = None,
        labels: Any = None,
        pos_label: Any = None,
        name: str = "",
        ci: float | None = 0.95,
        ax: Any = None,
        ref_line: bool = True,
        **options: Any,
    ) -> Self:
        """Evaluate stored predictions.

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels: class numbers, or class names as in ``labels`` or ``pos_label``.
        y_prob : array of shape (n,) or (n, K)
            Scores.
        bins : int, "auto", "sqrt" or edges, default "auto"
            Number of bins; ``"auto"``: 15, fewer with fewer than 300 rows. Edges and ``"sqrt"`` as for `calibdask.ECE`,
            on a full axis.
        binning : {"auto", "uniform", "equal-mass"}, default "auto"
            Bins of equal widths, on the scale of the axis, or of equal masses. ``"auto"``: equal masses if a third of
            the rows would fall into one bin of equal width.
        n_bins : int, optional
            scikit-learn's name for ``bins``.
        strategy : {"uniform", "quantile"}, optional
            scikit-learn's name for ``binning``; ``"quantile"``: bins of equal masses.
        axis : {"auto", "full", "quantile", "logit"}, default "auto"
            The axis of scores: from 0 to 1, without the lowest and the highest 0.5 % of the rows, or the latter on the
            logit scale. ``"auto"``: the scale that shows these scores best.
        bandwidth : float or "silverman", optional
            The curve is `calibdask.ReliabilityCurve` with this bandwidth, on a full axis; None: a local linear fit to
            the nearest rows, which is smooth where rows are sparse, and ends where fewer than 20 are near.
        setting
            Setting of both: ``"confidence"``, ``"classwise"`` (a panel for each class), a class number. None: binary
            for a vector of scores, confidence for a matrix.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        labels : sequence of K, optional
            The classes in the order of the columns of scores, if they are not 0..K-1.
        pos_label : label, optional
            For a vector of scores: the class whose probability the scores are. Not needed for labels 0 and 1.
        name : str, optional
            The name in legends.
        ci : float, optional
            Level of the intervals; None: no intervals.
        ax, ref_line
            Axes to draw on immediately, as for `plot`; None: draw on request.
        **options
            Further arguments of `calibdask.evaluate`, such as ``by``.

        Raises
        ------
        ValueError
            As `calibdask.evaluate`; if ``y_true``, ``labels``, ``pos_label`` and scores do not match.

        Examples
        --------
        >>> import calibdask as cd
        >>> labels = ["ham", "spam", "spam", "spam"]
        >>> scores = [0.2, 0.4, 0.6, 0.8]
        >>> display = cd.ReliabilityDisplay.from_predictions(labels, scores, pos_label="spam", bins=2, bandwidth=0.1)
        >>> display.result.diagram_outcome.values[:2]
        array([0.5, 1. ])
        """
        bins, binning = _named_as_in_scikit_learn(bins, binning, n_bins, strategy)
        metrics = {
            "diagram": _diagram(bins, binning, axis, setting),
            "curve": AdaptiveCurve(axis=axis, setting=setting)
            if bandwidth is None
            else ReliabilityCurve(bandwidth=bandwidth, setting=setting),
        }
        classes = {"labels": labels, "pos_label": pos_label}
        result = evaluate(y_true, y_prob, metrics, sample_weight=sample_weight, ci=ci, **classes, **options)
        display = cls(result, name=name, pos_label=pos_label)
        return display if ax is None else display.plot(ax=ax, ref_line=ref_line)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, pos_label: Any = None, name: str | None = None, **options: Any
    ) -> Self:
        """Evaluate the predictions of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba`` and ``classes_``; also a pipeline or a parameter search.
        X : array of shape (n, features)
            Features.
        y : array of shape (n,)
            Labels, among the classes of the estimator.
        pos_label : label, optional
            For two classes: the class whose probability is evaluated, by default the second.
        name : str, optional
            The name in legends; None: the name of the estimator's class.
        **options
            As for `from_predictions`, except ``labels``.

        Raises
        ------
        ValueError
            If labels or ``pos_label`` are not classes of the estimator; as `from_predictions`.

        Notes
        -----
        On the training rows of the estimator, calibration appears better than it is.
        """
        classes = np.asarray(estimator.classes_).tolist()
        y_prob = estimator.predict_proba(X)
        if len(classes) == 2:
            pos_label = classes[1] if pos_label is None else pos_label
            if pos_label not in classes:
                raise ValueError(f"pos_label expects a class of the estimator, {classes}, got {pos_label!r}.")
            y_prob = y_prob[:, classes.index(pos_label)]
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_prob, labels=classes, pos_label=pos_label, name=name, **options)

    def plot(
        self,
        kind: Literal["diagram", "curve"] = "diagram",
        *,
        ax: Any = None,
        name: str | None = None,
        ref_line: bool = True,
        figsize: tuple[float, float] | None = None,
        dpi: float | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw with Matplotlib, with the intervals that the result has.

        To draw several classifiers over each other, give each the axes of the first: ``other.plot(ax=display.ax_)``.
        They share the axis of scores of the first, long enough for all; a note below the axis counts the rows beyond
        it.

        Parameters
        ----------
        kind : {"diagram", "curve"}, default "diagram"
            Bins, or the continuous curve.
        ax : matplotlib.axes.Axes, optional
            Where to draw. None: a figure with the rows by score beneath.
        name : str, optional
            The name in the legend; None: that of the classifier.
        ref_line : bool, default True
            Draw the diagonal of calibrated scores, once per axes.
        figsize : tuple of float, optional
            Width and height of the figure in inches, by default 5 and 5.6; dpi : float, optional, its dots per inch.
            Without effect on given axes.
        **kwargs
            Options of ``matplotlib.axes.Axes.plot`` for the line, such as ``color``.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with ``ax_``, ``figure_``, ``line_`` and, for several classes or slices, ``lines_``.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the kind is unknown, or the result contains none or more than 10 of it.
        """
        if kind not in ("diagram", "curve"):
            raise ValueError(f"kind expects 'diagram' or 'curve', got {kind!r}.")
        if find_spec("matplotlib") is None:
            raise ImportError(
                "ReliabilityDisplay.plot expects matplotlib; install it, or draw with HoloViews: "
                f"calibdask.plot.reliability_{kind}(display.result)."
            )
        from calibdask.plot.axes import drawn

        words = self._heading if name is None else name
        self.lines_ = drawn(self.result, kind, words, ax, ref_line=ref_line, size=figsize, dpi=dpi, style=kwargs)
        self.line_ = self.lines_[0]
        self.ax_, self.figure_ = self.line_.axes, self.line_.figure
        return self

    @property
    def _heading(self) -> str:
        named = self.pos_label is not None and self.pos_label != 1
        return " · ".join(filter(None, (self.name, f"P({self.pos_label})" if named else "")))


def _diagram(bins: Any, binning: Any, axis: Any, setting: Any) -> Estimator:
    """The diagram on a chosen axis; that of given edges, or of as many bins as the root of the rows, on a full one."""
    given: dict[str, Any] = {"bins": bins, "binning": binning, "setting": setting}
    if isinstance(bins, int | np.integer) or (isinstance(bins, str) and bins == "auto"):
        return AdaptiveDiagram(**given, axis=axis)
    return ReliabilityDiagram(**{**given, "binning": "uniform" if binning == "auto" else binning})


def _named_as_in_scikit_learn(bins: Any, binning: Any, n_bins: Any, strategy: Any) -> tuple[Any, Any]:
    """The options of bins, each given by its name or by that of scikit-learn."""
    options = {"bins": bins, "binning": binning}
    given = {name: value for name, value in options.items() if not (isinstance(value, str) and value == "auto")}
    aliases = {name: value for name, value in (("n_bins", n_bins), ("strategy", strategy)) if value is not None}
    chosen = {"bins": "auto", "binning": "auto"} | translated({**given, **aliases})
    return chosen["bins"], chosen["binning"]
