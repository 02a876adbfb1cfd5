"""Values of features of other rows than those that they were learnt from, and codings as mappings that JSON holds."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.data.features import FeatureColumn, feature_column, series_feature
from calibdask.data.frames import is_frame
from calibdask.engine.arrays import is_dask
from calibdask.safe_text import listed
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import Categories, Codes, Coding, Cut, as_numbers, category_numbers, is_absent

_BOOLEANS = ("False", "True")
_KINDS = {"number": "numbers", "date": "dates", "category": "categories", "text": "texts"}


def by_text(coding: Coding) -> Coding:
    """The coding without numbers of labels, which other data may count otherwise; and numbers as between edges."""
    return replace(coding, top=None) if isinstance(coding, Cut) else replace(coding, labels=None)


def as_document(coding: Coding) -> dict[str, Any]:
    """A coding by texts, of types that JSON has."""
    document: dict[str, Any] = {"name": coding.name, "column": coding.column, "missing": coding.missing}
    if isinstance(coding, Cut):
        edges = [None if np.isinf(edge) else edge for edge in coding.edges.values.tolist()]
        return {**document, "edges": edges, "part": coding.part, "unit": coding.unit}
    return {**document, "values": list(coding.kept), "other": coding.other}


def of_document(document: Mapping[str, Any]) -> Coding:
    """The coding of such a mapping."""
    name, column, missing = str(document["name"]), int(document["column"]), bool(document["missing"])
    if "edges" in document:
        edges = np.array([np.inf if edge is None else edge for edge in document["edges"]], np.float64)
        return Cut(name, column, FrozenArray(edges), missing, str(document["part"]), str(document.get("unit", "")))
    return Categories(name, column, tuple(map(str, document["values"])), bool(document["other"]), missing)


@dataclass(frozen=True)
class Recoding:
    """The values of a column by a coding; those that were not there when it was learnt are one beyond its last.

    ``labels`` are those of the column, if it holds numbers of categories.
    """

    coding: Coding
    labels: tuple[str, ...] | None

    @classmethod
    def of(cls, coding: Coding, column: FeatureColumn) -> "Recoding":
        """For a column of other rows.

        Raises
        ------
        ValueError
            If it is of another kind.
        """
        kinds = ("category", "text")
        if isinstance(coding, Cut):
            kinds = ("date", "date") if coding.part else ("number", "number")
        if column.kind == "number" and isinstance(coding, Categories) and set(coding.kept) <= set(_BOOLEANS):
            # Booleans of a file come as numbers where some are missing.
            return cls(coding, _BOOLEANS)
        if column.kind not in kinds and not _is_empty(column):
            raise ValueError(
                f"Feature {coding.name!r} expects {_KINDS[kinds[0]]}, as when the map was fitted, got "
                f"{_KINDS[column.kind]}."
            )
        return cls(coding, column.labels)

    def __call__(self, values: npt.NDArray[Any]) -> Codes:
        """The value of each row."""
        if isinstance(self.coding, Cut):
            if values.dtype.kind == "O":
                values = np.full(values.shape, np.nan)
            return self.coding.codes_of(as_numbers(values, self.coding.part))
        if self.labels is not None:
            table = [self._code(label) for label in self.labels]
            return np.array([*table, self._code(None)], np.uint8)[category_numbers(np.asarray(values))]
        given = values.tolist()
        known = {value: self._code(value) for value in dict.fromkeys(given)}
        return np.fromiter(map(known.__getitem__, given), np.uint8, len(given))

    def _code(self, value: Any) -> int:
        coding = self.coding
        assert isinstance(coding, Categories)
        if is_absent(value):
            return coding.size - 1 if coding.missing else coding.size
        text = str(value)
        if text in coding.kept:
            return coding.kept.index(text)
        return len(coding.kept) if coding.other else coding.size


def _is_empty(column: FeatureColumn) -> bool:
    """Whether no row has a value: objects without one are of no kind."""
    values = column.values
    return column.kind == "text" and not is_dask(values) and all(map(is_absent, np.asarray(values).tolist()))


def check_names(names: Sequence[str], features: Mapping[str, Any]) -> None:
    """Raise ValueError unless the feature names match the fit."""
    lacking = [name for name in names if name not in features]
    further = [name for name in features if name not in names]
    if lacking or further:
        lacks = f"; {listed(lacking)} {'is' if len(lacking) == 1 else 'are'} not there" if lacking else ""
        more = f"; {listed(further)} {'was' if len(further) == 1 else 'were'} not among them" if further else ""
        raise ValueError(
            f"features expects the features that the map was fitted with, {listed([*names])}{lacks}{more}."
        )


def recoded(codings: Sequence[Coding], features: Mapping[str, Any], rows: float) -> Any:
    """The values of some codings, (n, codings) uint8; lazily if a feature is of Dask.

    Raises
    ------
    ValueError
        If a feature is of another kind, or of another number of rows.
    """
    columns = {coding.name: _column(coding.name, features[coding.name], rows) for coding in codings}
    functions: list[tuple[Callable[..., Codes], Any]] = [
        (Recoding.of(coding, columns[coding.name]), columns[coding.name].values) for coding in codings
    ]
    if any(is_dask(values) or is_frame(values) for _, values in functions):
        from calibdask.engine.mapped_rows import mapped_codes

        return mapped_codes(functions)
    return np.stack([function(np.asarray(values)) for function, values in functions], -1)


def _column(name: str, values: Any, rows: float) -> FeatureColumn:
    column = series_feature(values) if is_frame(values) else feature_column(name, values)
    if not is_frame(column.values):
        column.check_rows(rows)
    return column


def warn_of_unknown(codings: Sequence[Coding], codes: Codes, what: str, stacklevel: int) -> None:
    """Warn of rows with values of features that were not there when a map was fitted, and say what they have."""
    unknown = codes >= np.array([coding.size for coding in codings])
    if rows := int(unknown.any(-1).sum()):
        names = dict.fromkeys(codings[i].name for i in np.flatnonzero(unknown.any(0)).tolist())
        warnings.warn(
            f"{rows:,} of {len(codes):,} rows have values of {listed([*names])} that are unknown to the map; they get "
            f"{what}.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
