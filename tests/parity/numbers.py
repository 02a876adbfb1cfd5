"""Record every number of the package on fixed inputs, and compare recordings bit by bit.

A refactoring is to change no number. Record them before, on a commit that is known to be good, and compare after::

    python -m tests.parity.numbers record before.pkl
    ...                                                          # the refactoring
    python -m tests.parity.numbers compare before.pkl            # with what is computed now
    python -m tests.parity.numbers compare before.pkl after.pkl  # with another recording

``--only TEXT`` takes the cases whose names contain a text, such as "interval | binary" or "skce". To record on an older
commit, bring this folder and the catalogue there. Recordings compare on one machine with the same packages: other
versions of NumPy or SciPy may round otherwise.

Recorded are the dimensions, type and bytes of each variable of a dataset and its attributes ``rows`` and ``passes``,
each leaf of JSON by its path, and of an exception the built-in type that it is. Differing or missing values are
failures, and the exit status is 1; additional values and reworded sentences are only listed. Attributes of variables
are not compared.
"""

import argparse
import pickle
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
import xarray as xr

from tests.parity.cases import Case, cases

# Values, dimensions and array, by case and variable.
Recording = dict[str, dict[str, tuple[tuple[str, ...], Any]]]

_FAILURES = ("differs", "missing")
_LISTED = ("additional", "reworded")
# Leaves of JSON that are sentences or versions.
_PROSE = {"assumes", "calibdask_version", "definition", "estimator", "format", "meaning", "note"}


class Difference(NamedTuple):
    """One of "differs", "missing", "additional" or "reworded", where it is, and the values."""

    kind: str
    case: str
    variable: str
    values: str = ""


def record(chosen: Iterable[Case]) -> Recording:
    """The values of the cases, computed one after the other."""
    recording: Recording = {}
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in chosen:
            if case.name in recording:
                raise ValueError(f"Two cases have the name {case.name!r}.")
            try:
                recording[case.name] = dict(_values("", case.compute()))
            except Exception as error:
                kind = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
                recording[case.name] = {"raises": ((), _plain(kind))}
    return recording


def _values(path: str, result: Any) -> Iterator[tuple[str, tuple[tuple[str, ...], Any]]]:
    """Every array of a result with its path."""
    if isinstance(result, xr.DataArray):
        result = result.to_dataset(name=result.name or "value")
    if isinstance(result, xr.Dataset):
        for name, variable in result.variables.items():
            yield f"{path}{name}", (tuple(map(str, variable.dims)), _plain(variable.values))
        result = {f"attributes.{name}": result.attrs[name] for name in ("rows", "passes") if name in result.attrs}
    if isinstance(result, dict | list):
        if not result:
            yield f"{path}empty", ((), _plain(type(result).__name__))
        for name, value in result.items() if isinstance(result, dict) else enumerate(result):
            yield from _values(f"{path}{name}.", value)
    else:
        yield path.removesuffix(".") or "value", ((), _plain(result))


def _plain(values: Any) -> Any:
    """An array of numbers, or of texts as long as the longest: how texts are stored does not matter."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biufcmM" else array.astype(object).astype(str)


def compare(old: Recording, new: Recording) -> Iterator[Difference]:
    """All differences, case by case."""
    for case in dict.fromkeys([*old, *new]):
        before, after = old.get(case, {}), new.get(case, {})
        for variable in dict.fromkeys([*before, *after]):
            if variable not in after:
                yield Difference("missing", case, variable, _shown(*before[variable]))
            elif variable not in before:
                yield Difference("additional", case, variable)
            elif values := _difference(before[variable], after[variable]):
                prose = not _PROSE.isdisjoint(variable.split("."))
                yield Difference("reworded" if prose else "differs", case, variable, values)


def _difference(old: tuple[tuple[str, ...], Any], new: tuple[tuple[str, ...], Any]) -> str:
    """Both values where they differ, empty if they are the same to the last bit."""
    (old_dims, before), (new_dims, after) = old, new
    if (old_dims, before.dtype, before.shape) != (new_dims, after.dtype, after.shape):
        return f"{_shown(*old)} -> {_shown(*new)}"
    rows, others = (np.frombuffer(a.tobytes(), np.uint8).reshape(a.size, -1) for a in (before, after))
    places = np.flatnonzero((rows != others).any(1)) if before.size else ()
    if not len(places):
        return ""
    index = tuple(map(int, np.unravel_index(places[0], before.shape)))
    where = f"{len(places)} of {before.size}, the first at {index}: " if before.ndim else ""
    return f"{where}{before[index].item()!r} -> {after[index].item()!r}"


def _shown(dims: tuple[str, ...], values: Any) -> str:
    if values.ndim == 0:
        return repr(values.item())
    sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(dims, values.shape, strict=False)) or values.shape
    return f"{values.dtype} ({sizes})"


def _report(old: Recording, differences: Sequence[Difference]) -> Iterator[str]:
    """Lines: what is only listed, by variable; all failures; the numbers of them."""
    listed = [difference for difference in differences if difference.kind in _LISTED]
    for (kind, variable), count in Counter((d.kind, d.variable) for d in listed).items():
        example = next(d for d in listed if (d.kind, d.variable) == (kind, variable))
        yield f"{kind}: {variable} in {count} cases, such as {example.case} {example.values}".rstrip()
    for kind, case, variable, values in differences:
        if kind in _FAILURES:
            yield f"{kind}: {case} / {variable}: {values}"
    counts = Counter(difference.kind for difference in differences)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in (*_FAILURES, *_LISTED))
    yield f"{_size(old)}: {words}"


def _size(recording: Recording) -> str:
    arrays = [array for values in recording.values() for _, array in values.values()]
    numbers = sum(array.size for array in arrays)
    return f"{len(recording):,} cases, {len(arrays):,} variables, {numbers:,} values"


def _computed(only: str) -> Recording:
    begun = time.process_time()
    recording = record(case for case in cases() if only in case.name)
    sys.stdout.write(f"computed {_size(recording)} in {time.process_time() - begun:.0f} s of one core\n")
    return recording


def _read(path: Path, only: str) -> Recording:
    recording: Recording = pickle.loads(path.read_bytes())
    return {name: values for name, values in recording.items() if only in name}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.numbers", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="compute all numbers and write them to a file")
    recording.add_argument("file", type=Path)
    comparing = commands.add_parser("compare", help="compare with another recording, or with what is computed now")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path, nargs="?")
    for command in (recording, comparing):
        command.add_argument("--only", default="", metavar="TEXT", help="cases whose names contain this")
    given = parser.parse_args(arguments)
    if given.command == "record":
        given.file.write_bytes(pickle.dumps(_computed(given.only)))
        return 0
    old = _read(given.old, given.only)
    new = _computed(given.only) if given.new is None else _read(given.new, given.only)
    differences = list(compare(old, new))
    sys.stdout.writelines(f"{line}\n" for line in _report(old, differences))
    return int(any(difference.kind in _FAILURES for difference in differences))


if __name__ == "__main__":
    sys.exit(main())
