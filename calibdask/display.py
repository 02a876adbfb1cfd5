"""`ReliabilityDisplay`: reliability plots of a classifier, in the manner of scikit-learn's displays."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import xarray as xr

from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.smooth.curves import ReliabilityCurve
from calibdask.evaluation import evaluate


@dataclass(frozen=True, eq=False)
class ReliabilityDisplay:
    """Reliability diagram and curve of a classifier, from one pass over the data; `plot` draws either.

    The counterpart of `sklearn.calibration.CalibrationDisplay`, created by the same two methods. It plots only on
    request, with HoloViews rather than Matplotlib, and supports several classes, slices, weights, Dask and intervals.

    Attributes
    ----------
    result : xarray.Dataset
        The result of `calibdask.evaluate` for ``diagram``, a `calibdask.ReliabilityDiagram`, and ``curve``, a
        `calibdask.ReliabilityCurve`: the variables ``diagram_outcome``, ``curve_reliability`` and so on. A result
        with one of the two suffices.
    name : str
        The name of the classifier, used as heading of plots.
    pos_label : label or None
        The class whose probability the scores are, if there are two classes and it is known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import calibdask as cd
    >>> X, y = load_iris(return_X_y=True)
    >>> display = cd.ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, bins=5)
    >>> display.name
    'GaussianNB'
    >>> picture = display.plot()
    >>> picture = display.plot("curve")
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
        bins: Any = 15,
        binning: Literal["uniform", "equal-mass"] = "uniform",
        bandwidth: Any = "silverman",
        setting: Any = None,
        sample_weight: Any = None,
        labels: Any = None,
        pos_label: Any = None,
        name: str = "",
        **options: Any,
    ) -> Self:
        """Evaluate stored predictions.

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels: class numbers, or classes as in ``labels`` or ``pos_label``.
        y_prob : array of shape (n,) or (n, K)
            Scores.
        bins, binning
            Of the diagram, as for `calibdask.ECE`.
        bandwidth
            Of the curve, as for `calibdask.DensityECE`.
        setting
            Of both: ``"confidence"``, ``"classwise"`` (a panel for each class), a class number. None: binary for a
            vector of scores, confidence for a matrix.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        labels : sequence of K, optional
            The classes in the order of the columns of scores, where they are not 0..K-1.
        pos_label : label, optional
            For a vector of scores: the class whose probability they are. Not needed for labels 0 and 1.
        name : str, optional
            Heading of plots.
        **options
            Further arguments of `calibdask.evaluate`, such as ``ci=0.95`` and ``by``.

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
        >>> display.result.diagram_outcome.values
        array([0.5, 1. ])
        """
        metrics = {
            "diagram": ReliabilityDiagram(bins=bins, binning=binning, setting=setting),
            "curve": ReliabilityCurve(bandwidth=bandwidth, setting=setting),
        }
        classes = {"labels": labels, "pos_label": pos_label}
        result = evaluate(y_true, y_prob, metrics, sample_weight=sample_weight, **classes, **options)
        return cls(result, name=name, pos_label=pos_label)

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
            For two classes: the one whose probability is evaluated, by default the second.
        name : str, optional
            Heading of plots; None: the name of the estimator's class.
        **options
            As for `from_predictions`, except ``labels``.

        Raises
        ------
        ValueError
            If labels or ``pos_label`` are not classes of the estimator; as `from_predictions`.

        Notes
        -----
        On the rows that the estimator was fitted on, calibration appears better than it is.
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

    def plot(self, kind: Literal["diagram", "curve"] = "diagram", *, title: str | None = None) -> Any:
        """Plot with `calibdask.plot.reliability_diagram` or `calibdask.plot.reliability_curve`.

        Parameters
        ----------
        kind : {"diagram", "curve"}, default "diagram"
            Bins, or the continuous curve.
        title : str, optional
            Heading; None: the name of the classifier, with the class unless it is 1.

        Returns
        -------
        holoviews.Layout
            For a notebook, `calibdask.plot.save` or further composition.

        Raises
        ------
        ValueError
            If the kind is unknown, or the result does not contain it.
        """
        from calibdask import plot

        plots = {"diagram": plot.reliability_diagram, "curve": plot.reliability_curve}
        if kind not in plots:
            raise ValueError(f"kind expects 'diagram' or 'curve', got {kind!r}.")
        return plots[kind](self.result, title=self._heading if title is None else title)

    @property
    def _heading(self) -> str:
        named = self.pos_label is not None and self.pos_label != 1
        return " · ".join(filter(None, (self.name, f"P({self.pos_label})" if named else "")))
