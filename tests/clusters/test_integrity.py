"""Damage to stores on an object store: members that change places, are lost, doubled, foreign or old."""

import copy
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from calibdask.calibrators import applying
from tests.clusters.object_stores import SERVERS, ObjectStore, missing
from tests.storage.integrity import cases, silent_differences
from tests.storage.test_recovery import FILES, HARM, check_recovered, made

# A state and netCDF are single files, which are read here as they are from a folder. A longer run, in which an object
# is fetched again only after it was changed: python -m tests.clusters.test_integrity 2000 [KIND ...]
KINDS = ("summary.zarr", "result.zarr", "periods.zarr", "cube.zarr", "applied.zarr", "applied.parquet", "map.json")
TIMES = 20


class Body:
    """Content of an object, as a response of botocore has it."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def read(self) -> bytes:
        return self.content

    def close(self) -> None:
        """Nothing is open."""


class Answers:
    """Answers of a server to requests of one process, which alone writes there: kept until an object is changed.

    A case changes three objects of a hundred, each of which is looked at and fetched several times.
    """

    reads = ("get_object", "head_object", "list_objects_v2")

    def __init__(self) -> None:
        self.call = fsspec.get_filesystem_class("s3")._call_s3
        self.known: dict[str, dict[str, tuple[Any, bytes | None]]] = {}

    def forget(self, changed: str) -> None:
        """Forget what was said of an object, and of everything that lists it."""
        for place in [place for place in self.known if place in ("", changed) or changed.startswith(place)]:
            del self.known[place]

    async def answered(self, files: Any, method: str, *options: Any, **request: Any) -> Any:
        """Stands for `s3fs.S3FileSystem._call_s3`."""
        if method not in self.reads:
            self.forget(request.get("Key", ""))
            assert "Key" in request or method.startswith(("head_", "list_", "create_")), method
            return await self.call(files, method, *options, **request)
        place, asked = request.get("Key", request.get("Prefix", "")), f"{method} {options} {sorted(request.items())}"
        known = self.known.setdefault(place, {})
        if asked not in known:
            try:
                answer = await self.call(files, method, *options, **request)
                body = answer.pop("Body", None)
                known[asked] = answer, None if body is None else await body.read()
            except FileNotFoundError as error:
                known[asked] = error, None
        answer, body = known[asked]
        if isinstance(answer, FileNotFoundError):
            raise copy.copy(answer)
        # s3fs changes listings as it reads them.
        return copy.deepcopy(answer) if body is None else {**answer, "Body": Body(body)}


@contextmanager
def reached(served: ObjectStore) -> Iterator[pytest.MonkeyPatch]:
    """A server as this process reaches it, with listings as they are: damage is done beside the readers."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in served.environment().items():
            patch.setenv(variable, value)
        patch.setitem(fsspec.config.conf, "s3", {"use_listings_cache": False})
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield patch


def silent_on(server: str, name: str, folder: Path, times: int, seed: int, *, every_request: bool = True) -> list[str]:
    """Damage a store of a kind on a server so often; what was done where other numbers were read without an error."""
    with SERVERS[server](folder) as served, reached(served) as patch:
        # Several chunks of few rows.
        patch.setattr(applying, "TARGET_BYTES", 1000)
        s3 = fsspec.get_filesystem_class("s3")
        if not every_request:
            answers = Answers()
            patch.setattr(s3, "_call_s3", lambda *request, **named: answers.answered(*request, **named))
        return silent_differences(cases(name, folder, served.put), times, seed)


@pytest.mark.s3
@pytest.mark.filterwarnings("ignore:Object at")  # of a folder that has lost what says that it is an array
@pytest.mark.parametrize("name", KINDS)
def test_no_damage_is_silent(name: str, tmp_path: Path) -> None:
    if reason := missing("moto"):
        pytest.skip(reason)
    assert not silent_on("moto", name, tmp_path, TIMES, seed=0)


@pytest.mark.s3
def test_logs_of_periods_are_recovered(tmp_path: Path) -> None:
    """As on a file system (`tests.storage.test_recovery`), each file once."""
    if reason := missing("moto"):
        pytest.skip(reason)
    before = made(str(tmp_path / "whole.zarr"))
    with SERVERS["moto"](tmp_path) as served, reached(served):
        for number, (name, kind) in enumerate(zip(FILES, HARM, strict=False)):
            url = served.put(Path(shutil.copytree(tmp_path / "whole.zarr", tmp_path / f"{number}.zarr")))
            check_recovered(url, name, kind, before)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for kind in sys.argv[2:] or KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            silent = silent_on("moto", kind, Path(scratch), int(sys.argv[1]), seed=2, every_request=False)
        sys.stdout.write("\n  ".join([f"{kind} on moto: {sys.argv[1]} cases, {len(silent)} silent", *silent]) + "\n")
        sys.stdout.flush()
