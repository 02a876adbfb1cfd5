"""Cross-fitting: the map of a fold is fitted to all other folds, and rows are calibrated by maps that know them not."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.fitted import Fit, Marks, Numbers, known_only, padded, unfitted, with_counts
from calibdask.calibrators.mapping import BlockMap
from calibdask.statistics.block import Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import together
from calibdask.statistics.request import Requests
from calibdask.statistics.views.folds import Folds, OneModel, OneSlice, OtherFolds
from calibdask.statistics.views.view import View, view_requests

_ONE_CLASS = "without one of its folds there are no rows of both outcomes to fit it to"
_ALIKE = "without one of its folds the rows do not determine it: there are too few distinct scores"


@dataclass(frozen=True, repr=False)
class CalibratorChoice:
    """The class of a calibrator and its parameters, frozen."""

    kind: type[Calibrator]
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, calibrator: Any) -> "CalibratorChoice":
        """Choice of calibrator from a class, an instance or a fitted calibrator.

        Raises
        ------
        TypeError
            If it is none of calibdask.
        """
        if isinstance(calibrator, CalibratorChoice):
            return calibrator
        made = calibrator() if isinstance(calibrator, type) and issubclass(calibrator, Calibrator) else calibrator
        if not isinstance(made, Calibrator):
            raise TypeError(f"Expected a calibrator such as cd.PlattScaling(), got {calibrator!r}.")
        if made.logits:
            raise ValueError(
                f"Expected a calibrator of scores, got {made!r}; declare logits for the data: evaluate(..., "
                "logits=True)."
            )
        parameters = made.get_params(deep=False)
        return cls(type(made), tuple((name, _frozen(value)) for name, value in sorted(parameters.items())))

    def make(self) -> Calibrator:
        """A calibrator that is not fitted."""
        return self.kind(**dict(self.parameters))

    def __repr__(self) -> str:
        return " ".join(repr(self.make()).split())


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class FrozenMaps:
    """The numbers of the maps of all slices, and which slices could be fitted; ``reason`` says why not all."""

    numbers: tuple[tuple[str, FrozenArray], ...]
    fitted: FrozenArray
    reason: str = ""

    def of_slice(self, group: int) -> Numbers:
        """The numbers of one map."""
        return {name: array.values[group] for name, array in self.numbers}


@dataclass(frozen=True)
class FoldMaps(Derived[FrozenMaps]):
    """The maps of all slices, of one model, fitted to all folds but one, or to all."""

    choice: CalibratorChoice
    folds: Folds
    left_out: int | None
    model: int = 0

    def derive(self) -> Requests[FrozenMaps]:
        """Fit all slices at once; each by itself where that fails for one of them."""
        batch = (yield from Layout()).batch
        views: tuple[View, ...] = (*((OneModel(self.model),) if batch > 1 else ()),)
        views = (OtherFolds(self.folds, self.left_out), *reversed(views))
        groups = self.folds.layout((yield from Layout())).groups
        maps = yield from _fitted(self.choice, views, groups)
        if not maps.reason or groups == 1 or maps.numbers:
            return maps
        return _together((yield from together(_SliceMaps(self.choice, views, group) for group in range(groups))))


@dataclass(frozen=True)
class _SliceMaps(Derived[FrozenMaps]):
    """The map of one slice, by itself."""

    choice: CalibratorChoice
    views: tuple[View, ...]
    group: int

    def derive(self) -> Requests[FrozenMaps]:
        return (yield from _fitted(self.choice, (OneSlice(self.group), *self.views), 1))


def _fitted(choice: CalibratorChoice, views: tuple[View, ...], groups: int) -> Requests[FrozenMaps]:
    calibrator = choice.make()
    requests: Requests[Fit] = with_counts(calibrator)
    for view in views:
        requests = view_requests(view, requests)
    try:
        fit = yield from requests
    except (ValueError, np.linalg.LinAlgError) as error:
        return FrozenMaps((), FrozenArray(np.zeros(groups, bool)), str(error))
    # As `Calibrator.fit` takes it: of several columns those with one outcome are left as they are.
    both = fit.both[:, 0] if fit.both.shape[1] == 1 else fit.both.any(-1)
    numbers = known_only(fit.both, fit.numbers) if calibrator.by_column else fit.numbers
    frozen = tuple((name, FrozenArray(values)) for name, values in sorted(numbers.items()))
    determined = both & ~unfitted(calibrator, fit)
    reason = _ONE_CLASS if not both.all() else "" if determined.all() else _ALIKE
    return FrozenMaps(frozen, FrozenArray(determined), reason)


def _together(singles: list[FrozenMaps]) -> FrozenMaps:
    """Join the maps of single slices; lists of knots are padded with their last knot."""
    known = [single for single in singles if single.numbers]
    fitted = FrozenArray(np.concatenate([single.fitted.values for single in singles]))
    reason = next((single.reason for single in singles if single.reason), "")
    if not known:
        return FrozenMaps((), fitted, reason)
    numbers = []
    for name, _ in known[0].numbers:
        arrays = [dict(single.numbers).get(name) for single in singles]
        longest = np.max([array.values.shape[1:] for array in arrays if array is not None], axis=0)
        values = np.full((len(singles), *map(int, longest)), np.nan)
        for group, array in enumerate(arrays):
            if array is not None:
                values[group] = padded(array.values[0], longest)
        numbers.append((name, FrozenArray(values)))
    return FrozenMaps(tuple(numbers), fitted, reason)


@dataclass(frozen=True)
class CrossFitted(View):
    """Rows with the scores that the map of their fold, fitted to the other folds, makes of them.

    ``maps`` by (model, fold). ``shift``: that many folds further on instead; rows then have a map that knows them.
    """

    choice: CalibratorChoice
    folds: Folds
    maps: tuple[tuple[FrozenMaps, ...], ...]
    shift: int = 0

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether folds go by the position of rows."""
        return self.folds.ordered

    @property
    def fitted(self) -> Marks:
        """Where the maps of all folds could be fitted, (models, slices)."""
        return np.array([np.all([fold.fitted.values for fold in model], axis=0) for model in self.maps])

    @property
    def reason(self) -> str:
        """Why some could not; empty if all could."""
        return next((fold.reason for model in self.maps for fold in model if fold.reason), "")

    def layout(self, layout: Layout) -> Layout:
        """Scores are float64."""
        return self.folds.layout(replace(layout, dtype="float64", half=False))

    def block(self, block: Block) -> Block:
        """Rows with calibrated scores; as they are where there is no map."""
        layout, models = self.layout(block.layout), max(len(block.scores), len(self.maps))
        group = self.folds.group(block)
        fold = (self.folds.of_rows(block) + self.shift) % self.folds.count
        values = np.empty((models, *block.scores.shape[1:]))
        strata = list(_strata(fold, group))
        for b in range(models):
            scores = np.nan_to_num(block.scores_of(b).astype(np.float64)).clip(0.0, 1.0)
            for f, g, index in strata:
                block_map = self._block_map(b % len(self.maps), f, g)
                rows = scores[index, 0] if layout.vector else scores[index]
                calibrated = rows if block_map is None else block_map(rows)
                values[b, index] = calibrated[:, None] if layout.vector else calibrated
        return replace(block, layout=layout, scores=values, group=group, numbers=block.row_numbers)

    def _block_map(self, model: int, fold: int, group: int) -> BlockMap | None:
        maps = self.maps[model][fold]
        if not maps.fitted.values[group]:
            return None
        if (model, fold, group) not in self._made:
            self._made[model, fold, group] = self._calibrator._map(maps.of_slice(group))
        return self._made[model, fold, group]

    @cached_property
    def _calibrator(self) -> Calibrator:
        return self.choice.make()

    @cached_property
    def _made(self) -> dict[tuple[int, int, int], BlockMap]:
        return {}


def _strata(fold: Any, group: Any) -> Iterator[tuple[int, int, Any]]:
    """Fold, slice and numbers of the rows of each."""
    both = fold if not group.size else fold + (int(fold.max(initial=0)) + 1) * group.astype(np.int64)
    order = np.argsort(both, kind="stable")
    for index in np.split(order, np.flatnonzero(np.diff(both[order])) + 1):
        if index.size:
            yield int(fold[index[0]]), int(group[index[0]]) if group.size else 0, index


@dataclass(frozen=True)
class CrossFit(Derived[CrossFitted]):
    """Scores calibrated by maps fitted to the other folds."""

    choice: CalibratorChoice
    folds: Folds

    def derive(self) -> Requests[CrossFitted]:
        """Fit the maps of all folds and models in shared passes."""
        models = (yield from Layout()).batch
        places = [(fold, model) for model in range(models) for fold in range(self.folds.count)]
        maps = yield from together(FoldMaps(self.choice, self.folds, *place) for place in places)
        fitted = [tuple(maps[start : start + self.folds.count]) for start in range(0, len(maps), self.folds.count)]
        return CrossFitted(self.choice, self.folds, tuple(fitted))

    @property
    def fixed_in_replicates(self) -> bool:
        """Replicates are of the rows that are evaluated; the maps are not refitted."""
        return True

    def tiled(self, answer: CrossFitted, times: int) -> CrossFitted:
        """Maps fitted to the data; replicates of a model share its maps."""
        return answer
