"""Results to files: checked before anything is computed, written with checksums."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from fsspec.implementations.local import LocalFileSystem

from calibdask.extras import check_extra
from calibdask.safe_text import visible_address
from calibdask.storage.atomic_replace import Output, restore
from calibdask.storage.checked_file import seal_file
from calibdask.storage.location import Location, read_error

if TYPE_CHECKING:
    import xarray as xr

# The file that says what a folder of Parquet files is, and that it is whole.
APPLIED = "_calibdask.json"
# Stores whose names begin with a bucket, which nothing makes on the way.
_BUCKETS = {"s3", "s3a", "gs", "gcs"}


def checked_output(
    path: str, suffixes: tuple[str, ...], *, overwrite: bool, folders: tuple[str, ...] = (".zarr",)
) -> Output:
    """The path, or where a URL leads, if a result can be written there; of some suffixes it is a folder.

    Raises
    ------
    ValueError
        If it ends in no known suffix, its folder or bucket does not exist or is not writable, or something is there
        and ``overwrite`` is false or it is not of that kind.
    calibdask.errors.NotInstalled
        If packages for files of netCDF are missing.

    Examples
    --------
    >>> checked_output("result.txt", (".json", ".csv"), overwrite=False)
    Traceback (most recent call last):
    ValueError: Expected an output name that ends in one of .json, .csv, got 'result.txt'.
    """
    location = Location.parse(path) if "://" in path else None
    target = Path(path if location is None else location.path)
    if target.suffix.lower() not in suffixes:
        raise ValueError(
            f"Expected an output name that ends in one of {', '.join(suffixes)}, got {visible_address(path)!r}."
        )
    if target.suffix.lower() == ".nc":
        check_extra("netcdf")
    if location is not None and not location.local:
        _check_remote(location, overwrite=overwrite)
        return location
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(f"The folder of the output {path!r} does not exist; create {str(folder)!r} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"The folder of the output {path!r} is not writable.")
    target = followed(target)
    if target.suffix.lower() not in suffixes:
        raise ValueError(f"{path!r} leads to {str(target)!r}, whose name should end in {' or '.join(suffixes)}.")
    restore(target)
    if os.path.lexists(target):
        is_store = any((target / mark).exists() for mark in ("zarr.json", ".zgroup", APPLIED))
        is_kind = target.is_dir() if target.suffix.lower() in folders else target.is_file()
        _check_replaceable(path, is_kind and (is_store or not target.is_dir()), overwrite=overwrite)
    return target


def followed(target: Path) -> Path:
    """Where a symbolic link leads, if a file or folder is there: others that read it get the new one too."""
    return target.resolve() if target.is_symlink() and (target.is_file() or target.is_dir()) else target


def _check_remote(location: Location, *, overwrite: bool) -> None:
    """Raise ValueError if a result cannot be written there."""
    protocols = location.fs.protocol
    if not _BUCKETS.isdisjoint([protocols] if isinstance(protocols, str) else protocols):
        try:
            location.fs.info(location.path.partition("/")[0])
        except FileNotFoundError:
            raise ValueError(f"The bucket of the output {location.url!r} does not exist; create it first.") from None
        except PermissionError:
            # Who may write to a bucket need not be allowed to look at it.
            pass
        except Exception as error:
            raise read_error(location, error) from error
    if location.exists:
        with location.reading():
            is_folder = location.fs.isdir(location.path)
        is_kind = is_folder == (location.suffix.lower() == ".zarr") and (location.is_zarr or not is_folder)
        _check_replaceable(location.url, is_kind, overwrite=overwrite)


def _check_replaceable(path: str, is_kind: bool, *, overwrite: bool) -> None:
    if not is_kind:
        raise ValueError(f"{path!r} already exists and has another type; choose another name.")
    if not overwrite:
        raise ValueError(
            f"{path!r} already exists; choose another name or give overwrite=True (--overwrite at the shell)."
        )


def check_apart(data: str, outputs: Mapping[str, str | Sequence[str] | None]) -> None:
    """Raise ValueError, naming the option, for an output that would overwrite an input or another output.

    Examples
    --------
    >>> check_apart("rows.zarr", {"--out": "./rows.zarr", "--plot": None})
    Traceback (most recent call last):
    ValueError: --out './rows.zarr' would replace the input 'rows.zarr' or be inside it; choose another name.
    """
    seen: list[tuple[str, str]] = []
    for option, path in _each_output(outputs):
        shown = visible_address(path)
        if _overlap(data, path):
            raise ValueError(
                f"{option} {shown!r} would replace the input {visible_address(data)!r} or be inside it; choose another "
                "name."
            )
        for other, taken in seen:
            if _overlap(taken, path):
                both = f"{option} {shown!r} and {other} {visible_address(taken)!r}"
                raise ValueError(f"{both} would replace each other; choose two names.")
        seen.append((option, path))


def _each_output(outputs: Mapping[str, str | Sequence[str] | None]) -> Iterator[tuple[str, str]]:
    """The paths of options that are given, of some several."""
    for option, paths in outputs.items():
        for path in [paths] if isinstance(paths, str) else paths or ():
            yield option, path


def _local(url: str) -> str | None:
    """The path on this machine behind a URL."""
    last = url.rpartition("::")[2]
    if "://" in last and not last.startswith(("file://", "local://")):
        return None
    return str(LocalFileSystem._strip_protocol(last))


def place_of(url: str) -> str:
    """Canonical path of a local file or folder; other addresses are unchanged."""
    local = _local(url)
    return url if local is None else os.path.realpath(local)


def _overlap(one_url: str, other_url: str) -> bool:
    """Whether two paths or URLs are equal or nested."""
    one, other = _local(one_url), _local(other_url)
    if one is None or other is None:
        urls = [PurePosixPath(url.rpartition("::")[2]) for url in (one_url, other_url)]
        return urls[0].is_relative_to(urls[1]) or urls[1].is_relative_to(urls[0])
    if os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other):
        return True
    paths = [Path(os.path.realpath(path)) for path in (one, other)]
    return paths[0].is_relative_to(paths[1]) or paths[1].is_relative_to(paths[0])


def write_dataset(dataset: "xr.Dataset", path: Path, chunks: Mapping[str, tuple[int, ...]] | None = None) -> None:
    """Write a result or a summary as ``.nc`` or ``.zarr`` (version 3), with the checksums that readers hold it to.

    ``chunks`` are those of variables of ``.zarr``; without, Zarr chooses them, and variables that hold their occupied
    cells alone are written so.
    """
    from calibdask.storage.sparse_files import encoded
    from calibdask.storage.summary_format import MARK

    # Chunk sizes are computed as if all cells were kept.
    dataset = dataset if chunks else encoded(dataset, MARK)
    with texts_settled():
        if path.suffix.lower() == ".nc":
            _write_netcdf(dataset, path)
        else:
            _write_zarr(dataset, path, chunks or {})


def _write_netcdf(dataset: "xr.Dataset", path: Path) -> None:
    for name, coordinate in dataset.coords.items():
        if coordinate.dtype.kind in "OUT" and any("\0" in str(label) for label in coordinate.values.ravel()):
            raise ValueError(
                f"netCDF cannot hold the labels of {name}: one contains the character NUL, which ends texts in netCDF; "
                "write to .zarr."
            )
    # In memory first: where a disk is full, HDF5 ends the interpreter as it closes the file.
    content = dataset.to_netcdf(engine="h5netcdf", encoding=_compressed(dataset))
    with path.open("wb") as file:
        file.write(content)
    seal_file(path)


def _write_zarr(dataset: "xr.Dataset", path: Path, chunks: Mapping[str, tuple[int, ...]]) -> None:
    from calibdask.storage.checked_store import seal, summed_encoding

    encoding = summed_encoding(dataset)
    for name, sizes in chunks.items():
        encoding[name]["chunks"] = sizes
    dataset.to_zarr(path, mode="w-", zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True)
    seal(path)


@contextmanager
def texts_settled() -> Iterator[None]:
    """Suppress Zarr's notes that version 3 has no final specification of text types."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        warnings.filterwarnings("ignore", category=FutureWarning, module="zarr")
        # What is being written, or was when somebody was killed.
        warnings.filterwarnings("ignore", message=r"Object at (\S*\.partial|finished|versions-\w+) is not recognized")
        yield


def _compressed(dataset: "xr.Dataset") -> dict[Any, dict[str, Any]]:
    """Encodings that deflate numbers, as netCDF does not compress by default."""
    return {
        name: {"zlib": True, "complevel": 4}
        for name, variable in dataset.data_vars.items()
        if variable.dims and variable.size and variable.dtype.kind in "iuf"
    }
