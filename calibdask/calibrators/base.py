"""The base class of calibrators: fitted to rows of any kind or to a summary, applied block by block."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from calibdask.calibrators.fit_input import aligned_rows, label_vector, labels_and_scores, score_columns
from calibdask.calibrators.fitted import Numbers, Sliced, fit_slices, fitted
from calibdask.calibrators.mapping import BlockMap, MapsRows, RowMap, mapped_rows, warn_of_unknown
from calibdask.calibrators.stored import from_dict, to_dict
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions
from calibdask.engine.row_notes import warning_once
from calibdask.results.build import excluded_rows
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

# Fewer rows of a slice than this have no map of their own unless the user says so.
MIN_ROWS = 100


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A map fitted to scores, as an estimator in the manner of scikit-learn.

    A subclass requests statistics in ``_requests`` and returns the parameters of its map for all slices at once;
    ``_map`` builds the map from the parameters of one slice. Calibrators differ only in these two methods: the base
    class fits by slice, to a summary or to all rows but a fold, and stores and applies maps.

    Examples
    --------
    >>> import calibdask as cd
    >>> fitted = cd.PlattScaling().fit([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.8])
    >>> again = cd.Calibrator.from_dict(fitted.to_dict())
    >>> (again.predict_proba([0.3]) == fitted.predict_proba([0.3])).all()
    np.True_
    """

    # `fit` takes its arguments by other names than scikit-learn's metadata.
    __metadata_request__fit: ClassVar[dict[str, str]] = dict.fromkeys(
        ("y_prob", "by", "min_rows", "label", "score", "labels", "pos_label"), UNUSED
    )
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"y_prob": UNUSED, "by": UNUSED}
    __metadata_request__predict: ClassVar[dict[str, str]] = {"y_prob": UNUSED, "by": UNUSED}
    __metadata_request__predict_interval: ClassVar[dict[str, str]] = {"y_prob": UNUSED, "by": UNUSED, "level": UNUSED}

    # Whether the numbers have an axis of columns, each of which is fitted by itself.
    by_column: ClassVar[bool] = False

    # What rows have whose slice is not known.
    of_unknown: ClassVar[str] = "the map of all rows"

    logits: bool

    @abstractmethod
    def _requests(self) -> Requests[Numbers]:
        """Check the parameters, ask for statistics, and return the numbers of the map, each with an axis of slices.

        Slices that cannot be fitted have NaN. The batch axis of the states has one element.
        """

    @abstractmethod
    def _map(self, numbers: Numbers) -> BlockMap:
        """The map of one slice, from scores to scores of equal shape; ``numbers`` have no slice axis."""

    def _fit_slices(self, data: Input, all_rows: Input | None, min_rows: int) -> Sliced:
        """The map of every slice, by itself, and of all rows; ``all_rows`` are the pooled rows of a summary."""
        return fit_slices(self, data, all_rows, min_rows)

    def _setting(self, layout: Layout) -> Setting:
        """The columns of scores and outcomes that it is fitted to; both outcomes have to occur."""
        return layout.setting(1 if layout.classes == 2 else "classwise")

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        """Warnings about the fit, in sentences; `fit` issues them and ``cautions_`` keeps them."""
        return ()

    def fit(
        self,
        y_true: Any = None,
        y_prob: Any = None,
        sample_weight: Any = None,
        *,
        by: Any = None,
        min_rows: int = MIN_ROWS,
        label: Any = None,
        score: Any = None,
        skip_missing: bool = False,
        labels: Any = None,
        pos_label: Any = None,
        ignore_label: Any = None,
        X: Any = None,
        y: Any = None,
    ) -> Self:
        """Fit the map.

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels, as for `calibdask.evaluate`. Without ``y_prob``: a summary of `calibdask.summarize`, if the map
            depends on scores only; a container of columns, the path of a file, or blocks.
        y_prob : array of shape (n,), (n, 1) or (n, K)
            P(y = 1), or scores of all classes; logits if the calibrator has ``logits=True``.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        by : array of shape (n,), mapping from name to array, or names of columns, optional
            Slices: each has its own map, all fitted in the same pass. For a summary, the names of its slices; all
            others are pooled.
        min_rows : int, default 100
            Slices with fewer rows, or in which all outcomes are equal, use the map of all rows; a warning and the
            attribute ``pooled_slices_`` name them.
        label, score : optional
            The columns of a container, as for `calibdask.evaluate`.
        skip_missing : bool, default False
            Leave out rows without a label, a score or a weight.
        labels, pos_label : optional
            The classes in the order of the columns of scores, or the class whose probability a vector holds, if labels
            are not 0..K-1, as for `calibdask.evaluate`.
        ignore_label : optional
            Leave out rows with this label.
        X, y : arrays, optional
            Scores and labels under scikit-learn's names.

        Returns
        -------
        Calibrator
            The fitted calibrator itself.

        Raises
        ------
        ValueError
            If labels or scores are invalid, all outcomes are equal, or the summary does not determine the map.

        Notes
        -----
        scikit-learn calls ``fit(X, y)``: two-dimensional scores followed by one-dimensional labels are recognised as
        such, so that pipelines and cross-validation work; there, pass a vector of scores as a column. Two vectors are
        interpreted as labels and scores, in this order.
        """
        options = InputOptions(
            None, self.logits, labels, pos_label, ignore_label, label=label, score=score, skip_missing=skip_missing
        )
        if y_prob is None and X is None and y is None and not _is_array(y_true):
            return self._fit_data(Data.of(y_true, None, by, sample_weight, options), min_rows)._warned()
        targets, scores = labels_and_scores(type(self).__name__, y_true, y_prob, X, y)
        targets, scores, sample_weight, by = aligned_rows(targets, scores, sample_weight, by)
        targets, scores = self._labels(targets), self._scores(scores, reset=True)
        if targets.dtype.kind == "f" and scores.dtype.kind in "iub" and not self.logits:
            raise ValueError(
                "fit expects labels first, fit(y_true, y_prob), or fit(X, y) with scores in columns; got real numbers "
                "as labels and whole numbers as scores."
            )
        data = Data(targets, scores, by, sample_weight, options=options).read()
        # Numbers need no names, whatever their columns are called.
        numbered = labels is None and targets.dtype.kind in "biuf" and np.asarray(data.classes).dtype.kind not in "iu"
        self._fit_to(replace(data, classes=None) if numbered else data, None, min_rows)
        return self._warned()

    def predict_proba(self, y_prob: Any, by: Any = None) -> Any:
        """Calibrated probabilities, shape (n, K); for a vector of P(y = 1) shape (n, 2).

        Parameters
        ----------
        y_prob : array of shape (n,) or (n, K)
            Scores (or logits) of the classes that the map was fitted to. Dask arrays are mapped lazily; xarray objects
            keep their dimensions and coordinates.
        by : array of shape (n,), or mapping from name to array, optional
            The slice of each row, if the map was fitted by slices; other values use the map of all rows. Without ``by``
            all rows use it.

        Raises
        ------
        ValueError
            If ``y_prob`` does not hold scores of the same classes; for Dask arrays, this is raised when they are
            computed.

        Warns
        -----
        UserWarning
            For values of slices that did not occur in the fit, with the number of rows; not for slices in Dask arrays,
            which are computed later.
        """
        check_is_fitted(self)
        scores = self._scores(y_prob, reset=False)
        row_map, codes = self._row_map(), self._sliced.codes(by, scores.shape[0])
        warn_of_unknown(row_map, codes, self._further_columns, self.of_unknown, 2)
        return mapped_rows(row_map, scores, y_prob, codes, self.classes_)

    def predict(self, y_prob: Any, by: Any = None) -> Any:
        """The class with the largest calibrated probability, shape (n,)."""
        return self._largest(self.predict_proba(y_prob, by))

    def _largest(self, probabilities: Any) -> Any:
        """The class of the largest probability of each row."""
        classes = probabilities.argmax(-1)
        return classes if (self.classes_ == np.arange(len(self.classes_))).all() else self.classes_[classes]

    def to_dict(self) -> dict[str, Any]:
        """The parameters and the fitted numbers as JSON types; floats keep every bit.

        With a checksum, by which `from_dict` notices numbers that were changed or damaged on the way.
        """
        check_is_fitted(self)
        return to_dict(self, self._sliced, self.classes_, self.n_features_in_, self._excluded)

    @property
    def _excluded(self) -> dict[str, Any]:
        """The counts of rows that were left out, as `to_dict` has them."""
        return {"excluded": counts} if (counts := excluded_rows(getattr(self, "excluded_", {}))) else {}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The fitted calibrator that `to_dict` stored; of any class, if called on `Calibrator`.

        Raises
        ------
        ValueError
            If the mapping is not of this kind, has a later format, was changed, or stores another calibrator.

        Notes
        -----
        Mappings of format 1 (from earlier versions, or written by hand) have no checksum.
        """
        calibrator, sliced, classes, columns = from_dict(cls, stored)
        return calibrator._restored(stored, sliced, classes, columns)

    def _restored(self, stored: Mapping[str, Any], sliced: Sliced, classes: Any, columns: int) -> Self:
        """With all that was stored."""
        self.n_features_in_ = columns
        return self._set(sliced, classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.logits
        return tags

    # Whether the further columns are features and not slices.
    _takes_features: ClassVar[bool] = False

    @property
    def _further_columns(self) -> tuple[str, ...]:
        """Names of the columns that the map needs besides scores."""
        return tuple(str(axis.name) for axis in self._sliced.axes)

    def _codes_of(self, columns: Mapping[str, Any], rows: float) -> Any:
        """Slice codes of these columns, ``_further_columns``; None if there are none."""
        return self._sliced.codes(columns, rows) if columns else None

    def _fit_data(self, given: Data, min_rows: int) -> Self:
        """Fit to rows or states; cautions are not warned of."""
        if not given.has_rows and not self.by_column:
            raise ValueError(
                f"{type(self).__name__} expects rows: its map uses all classes together, and cannot be computed from a "
                "summary, which counts the scores of each class separately; PlattScaling, for example, can be."
            )
        with warning_once():
            data = given.pooled().read()
            layout = data.source.layout
            self._set_columns(1 if layout.vector else layout.classes)
            all_rows = None if given.has_rows else given.sliced(()).read()
            self._fit_to(data, all_rows, min_rows)
        return self

    def _row_map(self) -> MapsRows:
        """The maps of all slices, for blocks of rows."""
        maps = tuple(self._map(numbers) for numbers in self._sliced.numbers_of_slices())
        return RowMap(maps, logits=self.logits)

    def _fit_to(self, data: Input, all_rows: Input | None, min_rows: int) -> None:
        classes = np.arange(data.source.layout.classes) if data.classes is None else np.asarray(data.classes)
        self._set(fitted(self, data, all_rows, min_rows), classes)
        self.excluded_ = data.attributes

    def _warned(self) -> Self:
        for caution in self.cautions_:
            warnings.warn(f"{type(self).__name__}: {caution}", UserWarning, stacklevel=3)
        return self

    def _set(self, sliced: Sliced, classes: Any) -> Self:
        self._sliced, self.classes_ = sliced, classes
        self.pooled_slices_, self.cautions_ = sliced.pooled, sliced.cautions
        for name, values in sliced.attributes().items():
            setattr(self, f"{name}_", values)
        return self

    def _set_columns(self, columns: int) -> None:
        self.n_features_in_ = columns
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _labels(self, array: Any) -> Any:
        """Labels as a vector."""
        return label_vector(array)

    def _scores(self, array: Any, *, reset: bool) -> Any:
        """Scores as an array, a single column as a vector; ``reset`` records the columns, otherwise they must match."""
        return score_columns(self, array, reset=reset)


def _is_array(given: Any) -> bool:
    """Whether it is one array, or nothing, where two belong."""
    return given is None or (isinstance(given, np.ndarray) and given.dtype.names is None)
