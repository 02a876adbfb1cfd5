"""`MulticalibratedScaling`: a map fitted where an audit finds scores off, segment by segment."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from calibdask.analyses.auditing.features import Values, check_values, is_whole
from calibdask.analyses.auditing.label_leakage import warn_of_leakage
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.analyses.multicalibration import recoding
from calibdask.analyses.multicalibration.boosting import BoostedFit, Boosting
from calibdask.analyses.multicalibration.choosing import Choosing
from calibdask.analyses.multicalibration.rows_by_segment import RowsBySegment
from calibdask.analyses.multicalibration.segment_map import SegmentMap
from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.comparing.refinement import MOST_FOLDS
from calibdask.calibrators.fit_input import labels_and_scores
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.calibrators.mapping import BlockMap, MapsRows, mapped_rows
from calibdask.calibrators.stored import to_dict
from calibdask.data.data import Data
from calibdask.data.frames import aligned
from calibdask.data.input import Input
from calibdask.data.named_features import data_with_features, features_by_name
from calibdask.data.options import InputOptions
from calibdask.engine.arrays import is_dask
from calibdask.engine.plan import run_requests
from calibdask.estimators.checks import check_whole
from calibdask.inference.choice import check_level
from calibdask.safe_text import listed
from calibdask.statistics.bins.binnings import EqualMass
from calibdask.statistics.counts import RowCount
from calibdask.statistics.lattice.coding import Coding
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.folds import RowFolds

# Cells of scores of the lattice: enough for a slope.
_SCORE_CELLS, LEVEL = 16, 0.95
_TERMS = ("round", "offset", "slope", "feature", "value")


class MulticalibratedScaling(Calibrator):
    """Recalibrate the segments that an audit finds miscalibrated, by offsets and slopes of the logit.

    ::

        z = logit(s);  each round:  z = z + a_k + b_k z  for rows of a segment k of that round;  q = sigmoid(z)

    A round fills the lattice of `calibdask.audit` with the scores mapped so far, selects the significantly
    miscalibrated segments, and adjusts those of one set of features; later rounds may adjust them again.

    Parameters
    ----------
    depth : int, default 2
        Largest number of features of a segment.
    min_rows : int, default 100
        Smaller segments are not tested, and categories with fewer rows count as rare.
    alpha : float, default 0.05
        Familywise level of the tests of a round.
    values : int, default 5
        Maximum number of bins or categories of a feature, including ``other`` but not missing.
    edges : mapping from name to sequence of float, optional
        Edges of numeric features instead of quantiles.
    rounds : int, default 30
        Maximum number of rounds.
    shrinkage : float, default 1.0
        Precision of the normal prior of offsets and slopes; 0 for maximum likelihood.
    folds : int, default 5
        Number of folds of the cross-fit, which decides when to stop and estimates the improvement.
    seed : int, default 0
        The fold of a row depends only on the seed and the row number.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    segments_ : tuple of str
        The adjusted segments, in the order of the rounds; empty if nothing is significantly miscalibrated.
    round_, offset_, slope_ : ndarray of shape (segments,)
        The round, offset a and slope b of each segment.
    improvement_, improvement_low_, improvement_high_, improvement_pvalue_ : float
        Reduction of the log loss, cross-fitted: a conservative estimate for the fitted map, which was fitted to more
        rows; the 95 % interval for the fitted map; and the p-value of no improvement.
    loss_ : ndarray
        Cross-fitted log loss before the first round and after each.
    feature_columns_ : tuple of str
        Names of the features, which `predict_proba` needs.
    classes_ : ndarray of shape (2,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If there are more than two classes, no features, only constant ones, or all outcomes are equal.

    Warns
    -----
    UserWarning
        For features that are left out (constant, all missing, different in every row), that mix types, or that
        determine the outcome.

    Notes
    -----
    *Tests* are those of `calibdask.audit`, of the mean gap over all scores of a segment and over either half of the
    cells of scores, adjusted by Holm's method. From the second round on they use the rows that the map was fitted to,
    and are conservative. Each round adjusts the set of features whose significant segments gain the most
    log-likelihood, minus log(tests / alpha) for each segment, so that a parent precedes its many children; a segment is
    adjusted again if that gains more than 2. Offsets and slopes are the mode of the posterior, from the mean scores of
    16 cells; slopes are at least -1, so that no segment reverses the order of its scores.

    *Stopping.* The rounds end when nothing is found, or when the cross-fitted log loss does not fall; in this case the
    last round is dropped. The improvement is estimated from the maps of the folds, with the same number of rounds; it
    errs low, as these maps are fitted to fewer rows and find less. The lower end of the interval is that of this
    improvement, as for `Refinement`; the upper end is at least the improvement of the fitted map on its own rows, which
    errs high.

    *Cost.* One pass per round, with one lattice for all rows and one for each fold: ``folds=2`` costs two fifths of
    the time of 5. Memory: folds + 1 lattices. Without weights the map does not depend on chunks or workers, to the last
    bit. Other calibrators fit a map per slice of ``by``; here a slice is a feature.

    *Values of features* that were not there when the map was fitted belong to ``other``, if there was any, else to no
    segment of their feature, which `predict_proba` warns of. The same holds for missing values.

    References
    ----------
    .. [1] Hébert-Johnson, Kim, Reingold & Rothblum, Multicalibration, 2018.
    .. [2] Tax et al., MCGrad: Multicalibration at web scale, 2025.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> n = 40_000
    >>> features = {"age": rng.integers(18, 90, n), "phone": rng.random(n) < 0.3}
    >>> y_prob = rng.random(n)
    >>> truth = np.where((features["age"] > 75) & features["phone"], y_prob**2, y_prob)
    >>> fitted = cd.MulticalibratedScaling().fit(rng.random(n) < truth, y_prob, features=features)
    >>> fitted.segments_
    ('age > 75, phone = True',)
    >>> fitted.predict_proba([0.5, 0.5], {"age": [80, 20], "phone": [True, True]})[:, 1].round(2)
    array([0.24, 0.5 ])
    """

    # Rows with values of features that are not known.
    of_unknown: ClassVar[str] = "no offset by these columns"

    __metadata_request__fit: ClassVar[dict[str, str]] = dict.fromkeys(
        ("y_prob", "features", "label", "score", "labels", "pos_label"), UNUSED
    )
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"y_prob": UNUSED, "features": UNUSED}
    __metadata_request__predict: ClassVar[dict[str, str]] = {"y_prob": UNUSED, "features": UNUSED}

    def __init__(
        self,
        *,
        depth: int = 2,
        min_rows: int = 100,
        alpha: float = 0.05,
        values: int = 5,
        edges: Mapping[str, Sequence[float]] | None = None,
        rounds: int = 30,
        shrinkage: float = 1.0,
        folds: int = 5,
        seed: int = 0,
        logits: bool = False,
    ) -> None:
        self.depth = depth
        self.min_rows = min_rows
        self.alpha = alpha
        self.values = values
        self.edges = edges
        self.rounds = rounds
        self.shrinkage = shrinkage
        self.folds = folds
        self.seed = seed
        self.logits = logits

    def fit(  # type: ignore[override]  # features take the place of slices
        self,
        y_true: Any = None,
        y_prob: Any = None,
        sample_weight: Any = None,
        *,
        features: Any = None,
        label: Any = None,
        score: Any = None,
        skip_missing: bool = False,
        labels: Any = None,
        pos_label: Any = None,
    ) -> Self:
        """Fit the map.

        Parameters
        ----------
        y_true, y_prob : array of shape (n,); y_prob (n,), (n, 1) or (n, 2)
            Labels, and P(y = 1) or scores of both classes; or, without ``y_prob``, a data frame, or the path of a file.
        sample_weight : array of shape (n,) or name of a column, optional
            Non-negative weights.
        features : data frame, mapping from name to array, or names of columns
            As for `calibdask.audit`. None: all other columns of the frame or the file.
        label, score, skip_missing, labels, pos_label : optional
            As for `Calibrator.fit`.

        Returns
        -------
        MulticalibratedScaling
            The fitted calibrator itself.

        Raises
        ------
        ValueError
            If the parameters, labels, scores or features are invalid.
        """
        self._check()
        options = InputOptions(
            None, self.logits, labels, pos_label, label=label, score=score, skip_missing=skip_missing
        )
        if y_prob is not None:
            y_true, y_prob = labels_and_scores(type(self).__name__, y_true, y_prob, None, None)
            y_true, y_prob = self._labels(y_true), self._scores(y_prob, reset=True)
        data = data_with_features(y_true, y_prob, features, sample_weight, options, type(self).__name__)
        return self._fit_data(data, 0)

    def _fit_data(self, given: Data, min_rows: int) -> Self:
        """Fit to rows with features. The argument ``min_rows`` is ignored; ``self.min_rows`` applies."""
        self._check()
        features = given.by if given.features is None else given.features
        data = replace(given, by={}, features=features).read()
        layout = data.source.layout
        if layout.classes != 2 or data.batch:
            raise ValueError(
                "MulticalibratedScaling expects the scores of one model of two classes, (n,) or (n, 2), got "
                f"{'several models' if data.batch else f'{layout.classes} classes'}; fit one to each class or model, "
                "y == c and its column of scores."
            )
        self.n_features_in_ = 1 if layout.vector else layout.classes
        codings, mended, rows = self._boosted(data)
        classes = np.arange(2) if data.classes is None else np.asarray(data.classes)
        self._take(tuple(map(recoding.by_text, codings)), [column.name for column in data.features])
        self.excluded_ = data.attributes
        return self._set(self._as_numbers(mended, rows), classes)

    def predict_proba(self, y_prob: Any, features: Any = None) -> Any:
        """Mended probabilities, shape (n, 2).

        Parameters
        ----------
        y_prob : array of shape (n,) or (n, 2)
            Scores (or logits) of the kind that the map was fitted to. Dask arrays are mapped lazily; xarray objects
            keep their dimensions and coordinates.
        features : data frame, or mapping from name to array
            The features of the rows, with the names and types of the fit.

        Raises
        ------
        ValueError
            If ``y_prob`` does not hold such scores, or the features differ.

        Warns
        -----
        UserWarning
            For values of features that did not occur in the fit, with the number of rows; not for Dask arrays, which
            are computed later.
        """
        check_is_fitted(self)
        named = {} if features is None else features_by_name(features)
        if isinstance(named, list):
            raise ValueError("features expects a data frame, or a mapping from name to array, got names.")
        arguments = {name: f"feature {name!r}" for name in named}
        rows = aligned({"y_prob": y_prob} | {arguments[name]: values for name, values in named.items()})
        scores = self._scores(rows["y_prob"], reset=False)
        values = {name: rows[argument] for name, argument in arguments.items()}
        recoding.check_names(self.feature_columns_, values)
        codes = self._codes_of(values, scores.shape[0])
        if codes is not None and not is_dask(codes):
            recoding.warn_of_unknown(self._moved, codes, self.of_unknown, 3)
        return mapped_rows(self._row_map(), scores, y_prob, codes, self.classes_)

    def predict(self, y_prob: Any, features: Any = None) -> Any:
        """The class with the largest recalibrated probability, shape (n,)."""
        return self._largest(self.predict_proba(y_prob, features))

    def to_dict(self) -> dict[str, Any]:
        """The parameters, the segments and how features are cut, of types that JSON has; see `Calibrator.to_dict`."""
        check_is_fitted(self)
        codings = [recoding.as_document(coding) for coding in self._codings]
        features = {"names": [*self.feature_columns_], "codings": codings}
        return to_dict(self, self._sliced, self.classes_, self.n_features_in_, {"features": features, **self._excluded})

    def _restored(self, stored: Mapping[str, Any], sliced: Sliced, classes: Any, columns: int) -> Self:
        try:
            features = stored["features"]
            self._take(tuple(map(recoding.of_document, features["codings"])), features["names"])
            self.n_features_in_ = columns
            return self._set(sliced, classes)
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError("from_dict expects what to_dict returned; its features are damaged.") from error

    def _requests(self) -> Requests[Numbers]:
        raise ValueError(
            "MulticalibratedScaling needs features: fit(y_true, y_prob, features=...) gives the cross-fitted "
            "reduction of the loss as improvement_"
        )

    def _map(self, numbers: Numbers) -> BlockMap:
        raise ValueError("MulticalibratedScaling maps scores by features: call predict_proba(y_prob, features).")

    _takes_features = True

    @property
    def _further_columns(self) -> tuple[str, ...]:
        """Features of the corrected segments; others have no effect."""
        return tuple(dict.fromkeys(coding.name for coding in self._moved))

    def _codes_of(self, columns: Mapping[str, Any], rows: float) -> Any:
        return recoding.recoded(self._moved, columns, rows) if self._moved else None

    def _row_map(self) -> MapsRows:
        return RowsBySegment(self._segment_map, logits=self.logits)

    def _check(self) -> None:
        check_level(self.alpha, "alpha")
        check_values(self.values)
        check_whole("folds", self.folds, 2, MOST_FOLDS)
        check_whole("seed", self.seed, 0)
        for name in ("depth", "min_rows", "rounds"):
            if not is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ValueError(f"{name} expects a whole number from 1 on, got {getattr(self, name)!r}.")
        if not 0 <= self.shrinkage < np.inf:
            raise ValueError(f"shrinkage expects a number from 0 on, got {self.shrinkage!r}.")

    def _boosted(self, data: Input) -> tuple[tuple[Coding, ...], BoostedFit, Any]:
        """How features are cut, the map, and the number of rows."""
        setting: Setting = data.source.layout.setting(1)
        values = Values.of(self.values, self.min_rows, self.edges)
        values.check_features(data.features)
        learnt: Any = run_requests(
            {
                # No user's feature has these numbers.
                -1: EqualMass(_SCORE_CELLS).edges(setting),
                -2: iter(RowCount()),
                **{number: values.learn(column, number) for number, column in enumerate(data.features)},
            },
            data.source,
        ).estimates
        of_features = [learnt[number] for number in range(len(data.features))]
        for feature in of_features:
            if feature.warning:
                warnings.warn(feature.warning, UserWarning, stacklevel=4)
        codings = tuple(coding for feature in of_features for coding in feature.codings)
        if not codings:
            notes = listed([feature.note for feature in of_features])
            raise ValueError(f"{type(self).__name__} expects a feature with two different values, got none: {notes}.")
        weighted, workers = data.source.layout.weighted, data.source.workers
        plan = LatticePlan(setting, learnt[-1], codings, self.depth, weighted, self.folds + 1, workers)
        choosing = Choosing(plan.segments, self.alpha, self.shrinkage)
        boosting = Boosting(plan, choosing, RowFolds(self.folds, self.seed), self.min_rows, self.rounds)
        mended = boosting.mend(data.source)
        warn_of_leakage(plan, mended.counts, 4)
        return codings, mended, learnt[-2].rows[0]

    def _as_numbers(self, mended: BoostedFit, rows: Any) -> Sliced:
        low = mended.improvement.ends(LEVEL)[0]
        high = np.maximum(mended.improvement.ends(LEVEL)[1], mended.resubstituted.ends(LEVEL)[1])
        numbers = {
            **mended.map.terms(),
            "improvement": mended.improvement.value.ravel(),
            "improvement_low": low.ravel(),
            "improvement_high": high.ravel(),
            "improvement_pvalue": mended.improvement.pvalue.ravel(),
            "loss": np.array(mended.losses),
        }
        of_one_map = {name: values[None] if name in (*_TERMS, "loss") else values for name, values in numbers.items()}
        return Sliced(of_one_map, np.asarray(rows))

    def _take(self, codings: tuple[Coding, ...], names: Iterable[str]) -> None:
        self._codings, self.feature_columns_ = codings, tuple(names)

    def _set(self, sliced: Sliced, classes: Any) -> Self:
        super()._set(sliced, classes)
        terms = {name: sliced.numbers[name][0] for name in _TERMS}
        moved = np.unique(terms["feature"][terms["feature"] >= 0]).astype(int)
        self._moved = tuple(self._codings[i] for i in moved.tolist())
        among = np.where(terms["feature"] >= 0, np.searchsorted(moved, terms["feature"]), -1)
        self._segment_map = SegmentMap.of_terms([coding.size for coding in self._moved], {**terms, "feature": among})
        texts = [coding.texts for coding in self._codings]
        self.segments_ = tuple(
            ", ".join(texts[int(i)][int(value)] for i, value in zip(*pair, strict=True) if i >= 0) or "all rows"
            for pair in zip(terms["feature"], terms["value"], strict=True)
        )
        # Of one map `Sliced` drops axes of one element, which these may have.
        for name in (*_TERMS, "loss"):
            setattr(self, f"{name}_", sliced.numbers[name][0])
        return self
