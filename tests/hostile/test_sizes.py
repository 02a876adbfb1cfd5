"""What is absurd is refused in a sentence, without working through them, within a gigabyte."""

import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.storage.sizes import MOST_BLOCKS
from tests.hostile.sizes import (
    CALLS,
    CASES,
    ECE,
    LABELS,
    LISTS,
    SCORES,
    STRUCTS,
    arrays,
    columns,
    declared,
    linked,
    objects,
)

pytestmark = pytest.mark.usefixtures("without_recalibration")

# To work through any of these would take hours; a refusal takes a tenth of a second on a slow machine.
SECONDS, BYTES = 60.0, 10**9


@contextmanager
def bounded() -> Iterator[None]:
    """A gigabyte more than there is, or memory ends; seconds of this process, however busy the machine is."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, before[1]))
    begun = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - begun < SECONDS


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands import, and kernels that are loaded, count for none of them."""
    folder = tmp_path_factory.mktemp("first")
    assert main(["report", columns(folder / "a.parquet"), "--out", str(folder / "o.html"), "--n-boot", "5"]) == 0
    assert main(["evaluate", linked(folder / "a.nc", "soft"), *ECE]) == 0
    assert main(["evaluate", arrays(folder / "a.zarr"), *ECE]) == 0


@pytest.mark.parametrize("case", CASES)
def test_absurd_sizes_and_files_that_are_none(case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make, expected = CASES[case]
    arguments = make(tmp_path)
    capfd.readouterr()
    with bounded():
        status = main(arguments)
    out, err = capfd.readouterr()
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("calibdask: ")
    assert re.search(expected, err), err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("o.")]


@pytest.mark.parametrize("case", CALLS)
def test_absurd_arguments(case: str) -> None:
    call, expected = CALLS[case]
    with bounded(), pytest.raises(ValueError, match=expected):
        call()


@pytest.mark.parametrize("values", [STRUCTS, LISTS], ids=["mappings", "lists"])
def test_slices_without_an_order_in_dask(values: list[object]) -> None:
    by = da.from_array(objects(values), chunks=20)
    labels, scores = (da.from_array(array, chunks=20) for array in (LABELS, SCORES))
    with pytest.raises(ValueError, match="by 's' expects numbers, texts or dates"):
        cd.evaluate(labels, scores, cd.ECE(), by={"s": by})


def test_blocks_grow_with_the_rows(tmp_path: Path) -> None:
    """Of the largest number of rows that is read, blocks are still few enough to schedule."""
    table = cd.read_rows(declared(tmp_path / "a.zarr", 10**11, 1000))
    assert table.scores.numblocks[0] <= MOST_BLOCKS
    with pytest.raises(ValueError, match=r"would be read in 100,000,000 blocks of \(1000,\), and at most 100,000"):
        cd.read_rows(declared(tmp_path / "b.zarr", 10**11, 1000), chunk_rows=1000)


def test_links_within_a_file_are_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", linked(tmp_path / "a.nc", "soft"), "--json", *ECE]) == 0
    assert '"rows": 60' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            KeyError("n\x1b[31m"),
            1,
            r"This should not have happened: KeyError: .n\\x1b\[31m. \(calibdask --debug shows where\)",
        ),
        (RecursionError("deep"), 1, "This should not have happened: RecursionError: deep"),
        (MemoryError("Unable to allocate"), 1, "The memory of this machine does not suffice: Unable to allocate"),
        (EOFError("no input"), 1, "This should not have happened: EOFError: no input"),
        (ValueError("x"), 2, "x"),
    ],
)
def test_no_command_ends_in_a_traceback(
    error: Exception,
    status: int,
    said: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cd, "evaluate", fail)
    command = ["evaluate", columns(tmp_path / "a.parquet"), *ECE]
    assert main(command) == status
    assert re.fullmatch(f"calibdask: {said}.*\n", capfd.readouterr().err)
    for debugged in (["--debug", *command], [*command, "--debug"]):
        assert main(debugged) == status
        shown, *_, sentence = capfd.readouterr().err.splitlines()
        assert shown == "Traceback (most recent call last):"
        assert re.fullmatch(f"calibdask: {said}.*", sentence)
