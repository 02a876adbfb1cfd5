"""Reliability displays: pictures of one classifier, in the manner of scikit-learn's displays."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import xarray as xr

from calibdask.engine.class_names import numbered
from calibdask.estimators.curves import ReliabilityCurve
from calibdask.estimators.diagram import ReliabilityDiagram
from calibdask.evaluation import evaluate

__all__ = ["ReliabilityDisplay"]


@dataclass(frozen=True, eq=False)
class ReliabilityDisplay:
    """Reliability diagram and curve of a classifier, from one pass over the data; `plot` draws either.

    For users of `sklearn.calibration.CalibrationDisplay`: made by the same two methods, but it plots when it is asked
    to, with HoloViews rather than Matplotlib; takes more than two classes, slices, weights, Dask; and has intervals.

    Attributes
    ----------
    result : xarray.Dataset
        What `calibdask.evaluate` gives for ``diagram``, a `calibdask.ReliabilityDiagram`, and ``curve``, a
        `calibdask.ReliabilityCurve`: the variables ``diagram_outcome``, ``curve_reliability`` and so on. Any result
        with one of these may be given.
    name : str
        The name of the classifier, the heading of pictures.
    pos_label : label or None
        The class that scores are the probability of, where there are two and it was given or known.

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
        """Measure stored predictions.

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels: class numbers, or classes that ``labels`` or ``pos_label`` tell.
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
            Not negative.
        labels : sequence of K, optional
            The classes in the order of the columns of scores, where they are not 0..K-1.
        pos_label : label, optional
            For a vector of scores: the class whose probability they are. Not needed for labels 0 and 1.
        name : str, optional
            Heading of pictures.
        **options
            Further arguments of `calibdask.evaluate`, such as ``ci=0.95`` and ``by``.

        Raises
        ------
        ValueError
            As `calibdask.evaluate`; if labels, ``labels``, ``pos_label`` and scores do not fit each other.

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
        dims = {each: options[each] for each in ("sample_dim", "class_dim") if each in options}
        y_true, y_prob = numbered(y_true, y_prob, labels, pos_label, **dims)
        result = evaluate(y_true, y_prob, metrics, sample_weight=sample_weight, **options)
        return cls(result, name=name, pos_label=pos_label)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, pos_label: Any = None, name: str | None = None, **options: Any
    ) -> Self:
        """Measure what a fitted classifier predicts.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba`` and ``classes_``; a pipeline or a search of parameters too.
        X : array of shape (n, features)
            What it predicts from.
        y : array of shape (n,)
            Labels, as it knows them.
        pos_label : label, optional
            For two classes: the one whose probability is measured, the second by default.
        name : str, optional
            Heading of pictures; None: the name of the estimator's class.
        **options
            As for `from_predictions`, but for ``labels``.

        Raises
        ------
        ValueError
            If labels or ``pos_label`` are no classes of the estimator; as `from_predictions`.

        Notes
        -----
        With rows that the estimator was fitted on, calibration looks better than it is.
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
        """The picture, as `calibdask.plot.reliability_diagram` and `calibdask.plot.reliability_curve` draw it.

        Parameters
        ----------
        kind : {"diagram", "curve"}, default "diagram"
            Bins, or the continuous curve.
        title : str, optional
            Heading; None: the name of the classifier, and the class if it has a name.

        Returns
        -------
        holoviews.Layout
            For a notebook, `calibdask.plot.save` or further composition.

        Raises
        ------
        ValueError
            If the kind is unknown, or not in the result.
        """
        from calibdask import plot

        pictures = {"diagram": plot.reliability_diagram, "curve": plot.reliability_curve}
        if kind not in pictures:
            raise ValueError(f"kind expects 'diagram' or 'curve', got {kind!r}.")
        return pictures[kind](self.result, title=self._heading if title is None else title)

    @property
    def _heading(self) -> str:
        named = self.pos_label is not None and self.pos_label != 1
        return " · ".join(filter(None, (self.name, f"P({self.pos_label})" if named else "")))
