"""Results to files: checked before anything is computed, written whole or not at all."""

import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fsspec.implementations.local import LocalFileSystem

from calibdask.safe_text import shown_address
from calibdask.storage.location import Location, read_error
from calibdask.storage.retry import with_retries

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Output", "check_apart", "checked_output", "replacing", "texts_settled", "write_dataset"]

Output = Path | Location

# Stores whose names begin with a bucket, which nothing makes on the way.
_BUCKETS = {"s3", "s3a", "gs", "gcs"}


def checked_output(path: str, suffixes: tuple[str, ...], *, overwrite: bool) -> Output:
    """The path, or where a URL leads, if a result can be written there.

    Raises
    ------
    ValueError
        If it ends in no known suffix, its folder or bucket does not exist or is not writable, or something is there
        and ``overwrite`` is false or it is not of that kind.

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
            f"Expected an output name that ends in one of {', '.join(suffixes)}, got {shown_address(path)!r}."
        )
    if location is not None and not location.local:
        _check_remote(location, overwrite=overwrite)
        return location
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(f"The folder of the output {path!r} does not exist; create {str(folder)!r} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"The folder of the output {path!r} is not writable.")
    if os.path.lexists(target):
        is_store = (target / "zarr.json").exists() or (target / ".zgroup").exists()
        _check_replaceable(path, target.suffix, target.is_dir(), is_store=is_store, overwrite=overwrite)
    return target


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
        _check_replaceable(location.url, location.suffix, is_folder, is_store=location.is_zarr, overwrite=overwrite)


def _check_replaceable(path: str, suffix: str, is_folder: bool, *, is_store: bool, overwrite: bool) -> None:
    if is_folder != (suffix.lower() == ".zarr") or (is_folder and not is_store):
        raise ValueError(f"{path!r} already exists and is not of that kind; choose another name.")
    if not overwrite:
        raise ValueError(
            f"{path!r} already exists; choose another name or give overwrite=True (--overwrite at the shell)."
        )


def check_apart(data: str, outputs: Mapping[str, str | None]) -> None:
    """Refuse an output, by the name of its option, that would replace what is read, or another output.

    Examples
    --------
    >>> check_apart("rows.zarr", {"--out": "./rows.zarr", "--plot": None})
    Traceback (most recent call last):
    ValueError: --out './rows.zarr' would replace the input 'rows.zarr' or be inside it; choose another name.
    """
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        shown = shown_address(path)
        if _overlap(data, path):
            raise ValueError(
                f"{option} {shown!r} would replace the input {shown_address(data)!r} or be inside it; choose another "
                "name."
            )
        for other, taken in seen.items():
            if _overlap(taken, path):
                both = f"{option} {shown!r} and {other} {shown_address(taken)!r}"
                raise ValueError(f"{both} would replace each other; choose two names.")
        seen[option] = path


def _local(url: str) -> str | None:
    """The path on this machine behind a URL."""
    last = url.rpartition("::")[2]
    if "://" in last and not last.startswith(("file://", "local://")):
        return None
    return str(LocalFileSystem._strip_protocol(last))


def _overlap(one_url: str, other_url: str) -> bool:
    """Whether two paths or URLs are the same, or one is in the other."""
    one, other = _local(one_url), _local(other_url)
    if one is None or other is None:
        urls = [PurePosixPath(url.rpartition("::")[2]) for url in (one_url, other_url)]
        return urls[0].is_relative_to(urls[1]) or urls[1].is_relative_to(urls[0])
    if os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other):
        return True
    paths = [Path(os.path.realpath(path)) for path in (one, other)]
    return paths[0].is_relative_to(paths[1]) or paths[1].is_relative_to(paths[0])


@contextmanager
def replacing(target: Output) -> Iterator[Path]:
    """A name on this machine to write a file or folder under; it takes the target's place if all went well."""
    if isinstance(target, Location):
        with TemporaryDirectory() as folder:
            part = Path(folder) / PurePosixPath(target.path).name
            yield part
            _upload(part, target)
        return
    token = secrets.token_hex(4)
    part = target.with_name(f".{target.stem}.{token}.part{target.suffix}")
    old = target.with_name(f".{target.stem}.{token}.old{target.suffix}")
    try:
        yield part
        # A folder cannot be renamed over one that is not empty.
        if target.is_dir():
            target.rename(old)
        part.replace(target)
    finally:
        for left in (part, old):
            if left.is_dir():
                # The old one comes back if the new one did not get there.
                if left is old and not target.exists():
                    old.rename(target)
                else:
                    shutil.rmtree(left)
            else:
                left.unlink(missing_ok=True)


def _upload(part: Path, target: Location) -> None:
    """Copy a file, or a folder whose own mark goes first and comes last: a store is whole, or none."""
    mark = part / "zarr.json"
    files = [part] if part.is_file() else sorted(path for path in part.rglob("*") if path.is_file())
    try:
        if part.is_dir() and target.fs.exists(target.path):
            with_retries(partial(target.fs.rm, f"{target.path}/{mark.name}"))
            with_retries(partial(target.fs.rm, target.path, recursive=True))
        for path in sorted(files, key=mark.__eq__):
            name = "" if path == part else f"/{path.relative_to(part).as_posix()}"
            with_retries(partial(target.fs.put_file, str(path), f"{target.path}{name}"))
    except Exception as error:
        raise ValueError(f"{target.url} cannot be written: {target.quoted(error)}") from error


def write_dataset(dataset: "xr.Dataset", path: Path) -> None:
    """Write a result or a summary as ``.nc`` or ``.zarr`` (version 3)."""
    writers: dict[str, Callable[[], object]] = {
        ".nc": lambda: dataset.to_netcdf(path, engine="h5netcdf", encoding=_compressed(dataset)),
        ".zarr": lambda: dataset.to_zarr(path, mode="w-", zarr_format=3, consolidated=False),
    }
    with texts_settled():
        writers[path.suffix.lower()]()


@contextmanager
def texts_settled() -> Iterator[None]:
    """Without the notes of Zarr that version 3 has no settled type for texts yet: what is written is read back."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        warnings.filterwarnings("ignore", category=FutureWarning, module="zarr")
        yield


def _compressed(dataset: "xr.Dataset") -> dict[Any, dict[str, Any]]:
    """Numbers deflated: netCDF compresses nothing unless told to."""
    return {
        name: {"zlib": True, "complevel": 4}
        for name, variable in dataset.data_vars.items()
        if variable.dims and variable.size and variable.dtype.kind in "iuf"
    }
