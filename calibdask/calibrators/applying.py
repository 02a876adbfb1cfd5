"""A stored map applied to stored rows of any size: streamed, and gone on with where it was stopped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask import __version__
from calibdask.calibrators.stored_map import StoredMap
from calibdask.engine.arrays import StrayValue
from calibdask.engine.progress_events import Stage, advance, start_stage
from calibdask.storage.applied_files import FOLDERS, FORMATS
from calibdask.storage.applied_output import AppliedFile, ChunkRecord, mark_of, scores_of
from calibdask.storage.arrow_columns import to_numpy
from calibdask.storage.arrow_parts import ArrowParts, Place
from calibdask.storage.atomic_replace import named_errors
from calibdask.storage.location import Location, MissingChunks, read_error
from calibdask.storage.resumable_output import ResumableOutput, digest, files_digest
from calibdask.storage.row_table import ColumnChoice
from calibdask.storage.sizes import TARGET_BYTES
from calibdask.storage.writers import checked_output, followed

if TYPE_CHECKING:
    from calibdask.storage.readers import StoredRows

# Of what is written; it grows when the same map and rows give other files. Format 2 has a manifest.
_FORMAT = 2


@dataclass(frozen=True)
class Applied:
    """Summary of a finished application of a map.

    Attributes
    ----------
    rows : int
        All rows.
    resumed : int
        The first row that this run wrote; 0 unless it went on.
    unknown : int
        Rows with values of slices or features that the map does not know.
    missing : int
        Rows without a score, which stay without one.
    left_out : sequence of str
        Columns that the format cannot hold.
    means : sequence of float
        The mean score before and after, of rows with one score that is no logit; otherwise empty.
    """

    rows: int
    resumed: int
    unknown: int
    missing: int
    left_out: Sequence[str]
    means: Sequence[float] = ()


def apply_map(
    stored_map: StoredMap,
    rows: "StoredRows",
    out: str,
    *,
    label: str | Sequence[str] | None = None,
    score: str | Sequence[str] | None = None,
    score_name: str | None = None,
    missing_chunks: MissingChunks = "error",
    text: Sequence[str] = (),
    skip_missing: bool = False,
    overwrite: bool = False,
) -> Applied:
    """Write rows with calibrated scores to a Zarr group, a folder of Parquet files or a CSV file.

    Killed at any time and started again it goes on after the last chunk, with the same result to the last bit. Memory
    is bounded by the parts in which the rows are stored.

    Raises
    ------
    ValueError
        If there is something that is not to be replaced, the map is of other scores or columns, scores are invalid, or
        what was begun was begun with another map, other data or other options.
    """
    target = _checked_target(out, overwrite=overwrite)
    slices, features = ((), stored_map.further) if stored_map.takes_features else (stored_map.further, ())
    choice = ColumnChoice(label, score, slices, None, None, missing_chunks, features, text=tuple(text))
    parts = _parts(rows, choice)
    options = {"label": label, "score": score, "score_name": score_name, "format": _FORMAT}
    options |= {"text": list(text)} if text else {}
    options |= {"skip_missing": True} if skip_missing else {}
    kind = FORMATS[target.suffix.lower()]
    chunk_rows = max(1, TARGET_BYTES // (parts.row_bytes + 8 * stored_map.columns))
    key = {
        "map": digest(stored_map.document),
        "data": files_digest(rows.location),
        "options": digest({**options, "chunk_rows": chunk_rows}),
    }
    unfinished = ResumableOutput(target, key, mark_of)
    # Not a random one: the same map, rows and options give the same files to the last bit.
    store = digest(key)
    output = kind(unfinished.part, parts.schema, parts.names, parts.of_arrays, chunk_rows, score_name, store)
    _check_columns(stored_map, rows.url, parts)
    if not unfinished.folder.exists():
        checked_output(out, tuple(FORMATS), overwrite=overwrite, folders=FOLDERS)
    with named_errors(target, unfinished.folder):
        if unfinished.begin(output.check, anew=overwrite):
            mark = mark_of(target) or unfinished.state
            counts = (mark["rows"], mark["rows"], mark["unknown"], mark.get("missing", 0))
            return Applied(*counts, output.left_out, mark.get("means", ()))
    checked_output(out, tuple(FORMATS), overwrite=overwrite, folders=FOLDERS)
    try:
        with named_errors(target, unfinished.folder):
            return _streamed(stored_map, rows.url, parts, output, unfinished, skip_missing=skip_missing)
    except ValueError:
        # No other run gets any further.
        unfinished.remove()
        raise


def _checked_target(out: str, *, overwrite: bool) -> Path:
    """The output folder, checked; it may already exist."""
    if "://" in out and not Location.parse(out).local:
        raise ValueError(
            f"--out expects a path on this machine, where writing can resume after a kill, got "
            f"{Location.parse(out).url!r}; copy the whole store there afterwards."
        )
    path = followed(Path(Location.parse(out).path if "://" in out else out))
    if path.suffix.lower() not in FORMATS or not path.parent.is_dir():
        checked_output(out, tuple(FORMATS), overwrite=overwrite, folders=FOLDERS)
    return path


def _parts(rows: "StoredRows", choice: ColumnChoice) -> ArrowParts:
    try:
        parts = rows.parts(choice)
    except (OSError, RuntimeError, ImportError) as error:
        raise read_error(rows.location, error) from error
    if not parts.parts:
        raise ValueError(f"{rows.url} holds no rows.")
    return parts


def _check_columns(stored_map: StoredMap, url: str, parts: ArrowParts) -> None:
    """Refuse scores of other classes before anything is written."""
    first = parts.typed(parts.load(parts.parts[0]).slice(0, 1))
    scores = scores_of(first, parts.names)
    stored_map.check(url, 1 if scores.ndim == 1 else scores.shape[1], parts.names.classes)
    stored_map.codes({name: to_numpy(first.column(name)) for name in stored_map.further}, first.num_rows)


def _streamed(
    stored_map: StoredMap,
    url: str,
    parts: ArrowParts,
    output: AppliedFile,
    unfinished: ResumableOutput,
    *,
    skip_missing: bool,
) -> Applied:
    state = unfinished.state
    resumed, written = state.get("rows", 0), state.get("rows", 0)
    number, unknown, missing = state.get("chunks", 0), state.get("unknown", 0), state.get("missing", 0)
    # Added up chunk by chunk, so that a run that goes on has the same sums.
    sums: list[float] = [*state.get("sums", ())]
    records: list[ChunkRecord] = [*state.get("records", ())]
    start_stage(Stage("rows", "parts", len(parts.parts)))
    for stored, place in parts.tables(output.chunk_rows, Place(*state.get("place", (0, 0)))):
        values, calibrated, unseen = _calibrated(stored_map, url, parts, stored, written, skip_missing=skip_missing)
        if calibrated.ndim == 1 and not getattr(stored_map.calibrator, "logits", False):
            both = (scores_of(values, parts.names), calibrated)
            of_chunk = [float(np.nansum(one, dtype=np.float64)) for one in both]
            sums = [total + own for total, own in zip(sums or (0.0, 0.0), of_chunk, strict=True)]
        missing += int(np.isnan(calibrated).any(tuple(range(1, calibrated.ndim))).sum())
        table = stored if output.keeps_texts else values
        if number == 0:
            unfinished.clear()
            unfinished.state["layout"] = output.lay_out(table, calibrated)
        records.append({"rows": table.num_rows, "hashes": output.write(number, table, calibrated)})
        number, written = number + 1, written + table.num_rows
        unknown += unseen
        place_in_rows = [place.part, place.row]
        unfinished.save(
            chunks=number,
            rows=written,
            unknown=unknown,
            missing=missing,
            sums=sums,
            place=place_in_rows,
            records=records,
        )
        advance(place.part, len(parts.parts))
    if not written:
        raise ValueError(f"{url} holds no rows.")
    made: dict[str, Any] = {"map": stored_map.described, "calibdask": __version__}
    made |= {"missing": missing} if missing else {}
    means = [total / (written - missing) for total in sums] if written > missing else []
    made |= {"means": means} if means else {}
    mark = {"rows": written, "unknown": unknown, "key": dict(unfinished.key), **made}
    output.seal(mark, records)
    unfinished.finish()
    return Applied(written, resumed, unknown, missing, output.left_out, means)


def _calibrated(
    stored_map: StoredMap, url: str, parts: ArrowParts, stored: Any, first: int, *, skip_missing: bool
) -> tuple[Any, np.ndarray, int]:
    """A table with its types, whose first row has this number; its scores; how many rows the map does not know."""
    try:
        table = parts.typed(stored)
        by = {name: to_numpy(table.column(name)) for name in stored_map.further}
        return table, *stored_map.apply(scores_of(table, parts.names), by, skip_missing=skip_missing)
    except ValueError as error:
        located = error.after(first) if isinstance(error, StrayValue) else error
        raise ValueError(f"{url}, rows {first:,} to {first + stored.num_rows - 1:,}: {located}") from error
