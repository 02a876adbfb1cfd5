"""A fitted calibrator in a file, applied to other rows: by the names of its slices, block by block."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from calibdask.calibrators.base import MIN_ROWS, Calibrator
from calibdask.calibrators.mapping import MapsRows, beside_missing, scores_through, warn_of_unknown
from calibdask.calibrators.stored import FINGERPRINT
from calibdask.data.data import Data
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array
from calibdask.storage.documents import parse_json, read_bytes
from calibdask.storage.location import Location


def fit_to_data(calibrator: Calibrator, data: Data, min_rows: int = MIN_ROWS) -> Calibrator:
    """`Calibrator.fit` to the rows of a file or to a summary; cautions are not warned of."""
    return calibrator._fit_data(data, min_rows)


@dataclass(frozen=True)
class StoredMap:
    """A map as `calibdask calibrate` writes it.

    Attributes
    ----------
    url : str
        What messages call it.
    document : mapping
        What `Calibrator.to_dict` gave.
    calibrator : Calibrator
    """

    url: str
    document: Mapping[str, Any]
    calibrator: Calibrator

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "StoredMap":
        """The map in a file, at a path or a URL.

        Raises
        ------
        ValueError
            If it cannot be read, is no map, is of a later format or damaged.
        """
        location = Location.parse(os.fspath(path))
        location.check_file()
        with location.reading():
            content = read_bytes(location)
        mend = "calibdask calibrate writes maps"
        try:
            document = parse_json(content)
        except ValueError as error:
            raise ValueError(f"{location.url} is not a map: it is not JSON ({error}); {mend}.") from error
        try:
            calibrator: Calibrator = Calibrator.from_dict(document)
            stored = cls(location.url, document, calibrator)
            stored._check_numbers()
        except ValueError as error:
            reason = str(error).removeprefix("from_dict ")
            raise ValueError(f"{location.url} is not a map that can be applied: it {reason}") from error
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"{location.url} is not a complete map; it is damaged, {mend}.") from error
        return stored

    def _check_numbers(self) -> None:
        """Raise ValueError, or anything else, unless all numbers are there."""
        columns, codes = self.columns, self.row_map.all_codes
        shape = (len(codes),) if columns == 1 else (len(codes), columns)
        mapped = self.row_map(np.full(shape, 1 / max(2, columns)), codes)
        if mapped.shape != shape or not ((mapped >= 0) & (mapped <= 1)).all():
            raise ValueError("holds numbers that do not give probabilities; it is damaged.")

    @property
    def rows(self) -> int:
        """Number of rows that it was fitted to."""
        return int(self.calibrator._sliced.rows[-1])

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the rows that it was fitted to, without slices; empty if it is not known."""
        return str(self.document.get(FINGERPRINT, ""))

    @property
    def columns(self) -> int:
        """Number of columns of scores, 1 for a vector of P(y = 1)."""
        return int(self.calibrator.n_features_in_)

    @property
    def further(self) -> tuple[str, ...]:
        """Names of the columns that it needs besides scores: of slices, or of features whose values it mends."""
        return self.calibrator._further_columns

    @property
    def takes_features(self) -> bool:
        """Whether its further columns are features, whose numbers count, and not slices."""
        return type(self.calibrator)._takes_features

    @property
    def takes_logits(self) -> bool:
        """Whether scores are logits."""
        return self.calibrator.logits

    @property
    def described(self) -> str:
        """Short description of the map."""
        by = f", by {listed(self.further)}" if self.further else ""
        return f"{type(self.calibrator).__name__} of {self.url}, fitted to {self.rows:,} rows{by}"

    @cached_property
    def row_map(self) -> MapsRows:
        """The maps of all slices."""
        return self.calibrator._row_map()

    def check(self, data: str, columns: int, classes: Sequence[Any] | None) -> None:
        """Refuse data with other scores; ``columns`` is 1 for a vector, ``classes`` what columns say their names are.

        Raises
        ------
        ValueError
            If there are more or fewer columns, or they are of other classes.
        """
        if columns != self.columns:
            ours, theirs = ("P(y = 1)" if number == 1 else f"{number:,} classes" for number in (self.columns, columns))
            raise ValueError(f"The map {self.url} expects scores of {ours}, but {data} has scores of {theirs}.")
        known = self.calibrator.classes_
        if classes is None or known.dtype.kind in "iub":
            return
        mapped, given = [*map(str, known.tolist())], [*map(str, classes)]
        if mapped != given:
            order = ", in this order" if sorted(mapped) == sorted(given) else ""
            raise ValueError(
                f"The map {self.url} is for the classes {listed(mapped)}, but the columns of {data} are for "
                f"{listed(given)}; name the columns of these classes by --score{order}."
            )

    def codes(self, by: Mapping[str, Any], rows: float) -> Any:
        """Slice codes from the columns of the rows; None for a map of scores alone.

        Raises
        ------
        ValueError
            If values of a column cannot be compared with those that the map knows.
        """
        try:
            return self.calibrator._codes_of({name: by[name] for name in self.further}, rows)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The columns {listed(self.further)} do not have the types of {self.url}: {error}"
            ) from error

    def apply(self, scores: Array, by: Mapping[str, Array], *, skip_missing: bool = False) -> tuple[Array, int]:
        """Calibrated scores of a block, of their shape, and how many rows have values that the map does not know.

        With ``skip_missing`` rows without a score stay without one.
        """
        codes = self.codes(by, len(scores))
        return self._maps(skip_missing)(scores, codes), 0 if codes is None else self.row_map.unknown(codes)

    def _maps(self, skip_missing: bool) -> Callable[[Any, Any], Array]:
        """The function that maps scores."""
        return partial(beside_missing, self.row_map) if skip_missing else self.row_map

    def apply_lazily(self, scores: Any, by: Mapping[str, Any], *, skip_missing: bool = False) -> Any:
        """Calibrated scores in the input's container type, as `apply`; Dask arrays stay lazy."""
        codes = self.codes(by, scores.shape[0])
        warn_of_unknown(self.row_map, codes, self.further, self.calibrator.of_unknown, 2)
        return scores_through(self.row_map, scores, codes, self.calibrator.classes_, skip_missing=skip_missing)
