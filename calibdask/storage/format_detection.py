"""Format of a file, folder or pattern, by name or content."""

from pathlib import PurePosixPath

from calibdask.storage.file_sets import FileSet, is_pattern
from calibdask.storage.formats import COLUMN_FORMATS, column_format
from calibdask.storage.location import Location

_FORMATS = (".npz", ".zarr", ".nc", *COLUMN_FORMATS, ".npy")
_NETCDF = {".nc4", ".netcdf", ".cdf"}


def format_of(location: Location) -> str:
    """Format by name; for a neutral name or a pattern, the format of the files.

    Raises
    ------
    ValueError
        If there is nothing, or what is there is of no known format or of several.
    """
    path = PurePosixPath(location.named)
    suffix = path.suffix.lower()
    named = ".nc" if suffix in _NETCDF else column_format(location.named) or (suffix if suffix in _FORMATS else None)
    # A folder inside a store, or a store under any name.
    if named == ".zarr" or (
        named is None and (any(part.lower().endswith(".zarr") for part in path.parts) or location.is_zarr)
    ):
        return ".zarr"
    if is_pattern(location):
        return _format_of_files(location)
    if not location.exists:
        raise ValueError(f"{location.url} does not exist.")
    location.check_file()
    if location.is_folder:
        if location.has("_delta_log"):
            return "delta"
        if location.has(".hoodie"):
            raise ValueError(
                f"{location.url} is a Hudi table, which is not read here: its files hold rows of several versions; "
                "read it by Spark or Daft (read_hudi), and give the frame to calibdask.evaluate, or write it to "
                "Parquet."
            )
        if location.has("metadata") and location.holds(".metadata.json"):
            raise ValueError(
                f"{location.url} is an Iceberg table, which is not read here; scan it by Polars (scan_iceberg), DuckDB "
                "(iceberg_scan) or pyiceberg (to_arrow), and give the frame to calibdask.evaluate, or write it to "
                "Parquet."
            )
    known = ", ".join(_FORMATS)
    if named is not None:
        return named
    if location.is_folder:
        return _format_of_files(location)
    raise ValueError(f"{location.url} expects a name that ends in one of {known}, or a folder of a Zarr store.")


def _format_of_files(location: Location) -> str:
    """The format of the files in a folder, or that a pattern names."""
    files = FileSet.of(location)
    formats = files.formats
    if len(formats) == 1 and formats[0] in COLUMN_FORMATS:
        return formats[0]
    columns = [name for name in formats if name in COLUMN_FORMATS]
    if len(columns) > 1:
        raise ValueError(
            f"{location.url} matches files of several formats, {', '.join(columns)}; give a pattern for one of them, "
            "such as "
            f"'*{columns[0]}'."
        )
    known = ", ".join(_FORMATS)
    if location.is_folder:
        raise ValueError(
            f"{location.url} is a folder of unknown format; expected a name that ends in one of {known}, "
            f"a Zarr store, a Delta table, or files of {', '.join(COLUMN_FORMATS)} in it."
        )
    raise ValueError(
        f"{location.url} expects a pattern of {', '.join(COLUMN_FORMATS)} files, got {', '.join(formats) or 'none'}."
    )
