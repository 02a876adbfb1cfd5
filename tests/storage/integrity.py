"""Random sequences of damage to stores of all kinds; a store must give its own numbers afterwards, or an error."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import fsspec
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.calibrators.applying import apply_map
from calibdask.calibrators.stored_map import StoredMap
from calibdask.cli.watch_state import WatchState
from calibdask.inference.sequential.saved import SavedState
from calibdask.storage.open_store import StoredRows, open_store
from calibdask.storage.resumable_output import ResumableOutput
from calibdask.storage.summary import Summary
from calibdask.storage.writers import write_dataset
from calibdask.study.example import Means
from calibdask.study.running import lay_out
from tests.storage import damage
from tests.storage.kills import Killed

ROWS = 60
Content = dict[str, bytes]


@dataclass
class Tree:
    """The files of a store, anywhere: changed, and put back."""

    url: str
    changed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fs, self.root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else str(self.root)

    def content(self) -> Content:
        if not self.fs.isdir(self.root):
            return {"": self.fs.cat_file(self.root)}
        names = sorted(path.removeprefix(f"{self.root}/") for path in self.fs.find(self.root))
        return {name: self.fs.cat_file(self.path(name)) for name in names}

    def write(self, name: str, content: bytes) -> None:
        self.changed.add(name)
        if "file" in self.fs.protocol:
            Path(self.path(name)).parent.mkdir(parents=True, exist_ok=True)
        self.fs.pipe_file(self.path(name), content)

    def remove(self, name: str) -> None:
        self.changed.add(name)
        self.fs.rm_file(self.path(name))

    def put_back(self, whole: Content) -> None:
        for name in [*self.changed]:
            if name in whole:
                self.write(name, whole[name])
            elif self.fs.exists(self.path(name)):
                self.remove(name)
        self.changed.clear()


@dataclass(frozen=True)
class Case:
    """A store, another one of equal shape, an older state of the first one, and what the first one holds."""

    tree: Tree
    whole: Content
    other: Content
    older: Content
    truth: Any
    read: Callable[[str], Any]

    def damaged(self, draw: random.Random) -> list[str]:
        """Do one to three kinds of damage, and return their names."""
        now, done = dict(self.whole), []
        for _ in range(draw.choice((1, 1, 2, 3))):
            kind = draw.choice([*(DAMAGE if "" not in self.whole else FILE_DAMAGE)])
            done.append(kind)
            for name, content in (FILE_DAMAGE | DAMAGE)[kind](self, now, draw).items():
                if content is None:
                    self.tree.remove(name)
                    del now[name]
                else:
                    self.tree.write(name, content)
                    now[name] = content
        return done

    def silent(self) -> str:
        """How a damaged store is read, if it is neither refused nor the same as before; else an empty text."""
        try:
            found = self.read(self.tree.url)
        except ValueError:
            return ""
        except Exception as error:
            # Of a damaged store, this is no message.
            return f"{type(error).__name__}: {error}"
        return "" if damage.same(found, self.truth) else "other numbers"


Change = dict[str, bytes | None]


def any_file(now: Content, draw: random.Random) -> str:
    return draw.choice(sorted(name for name in now if now[name]) or [""])


def flip(case: Case, now: Content, draw: random.Random) -> Change:
    name = any_file(now, draw)
    content = bytearray(now.get(name) or b"\0")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return {name: bytes(content)}


def truncate(case: Case, now: Content, draw: random.Random) -> Change:
    name = any_file(now, draw)
    return {name: now[name][: draw.randrange(len(now[name]))]} if now.get(name) else {}


def delete(case: Case, now: Content, draw: random.Random) -> Change:
    return {any_file(now, draw): None} if now and any(now.values()) else {}


def like(name: str, names: Any) -> list[str]:
    """Files that have the same place in another part of a store: of the same depth and suffix."""
    return [one for one in names if one.count("/") == name.count("/") and Path(one).suffix == Path(name).suffix]


def duplicate(case: Case, now: Content, draw: random.Random) -> Change:
    """A member under another name: that of another one, or a new one."""
    name = any_file(now, draw)
    folder, _, last = name.rpartition("/")
    stem, dot, suffix = last.partition(".")
    new = f"{int(stem) + 1:0{len(stem)}d}" if stem.isdecimal() else f"{stem}-copy"
    copy = f"{folder}/{new}{dot}{suffix}" if folder else f"{new}{dot}{suffix}"
    return {draw.choice([copy, *like(name, now)]): now[name]} if name in now else {}


def swap(case: Case, now: Content, draw: random.Random) -> Change:
    one = any_file(now, draw)
    two = draw.choice(like(one, now)) if one in now else one
    return {one: now[two], two: now[one]} if one in now else {}


def swap_between(case: Case, now: Content, draw: random.Random) -> Change:
    """A member of another store of equal shape in the place of one."""
    name = any_file(now, draw)
    if name in case.other:
        return {name: case.other[name]}
    # Names that are drawn at random differ: files have the same place in the order.
    mine, others = like(name, sorted(case.whole)), like(name, sorted(case.other))
    return {name: case.other[others[mine.index(name) % len(others)]]} if name in mine and others else {}


def restore_older(case: Case, now: Content, draw: random.Random) -> Change:
    name = draw.choice(sorted(case.older))
    return {name: case.older[name]}


def remove_last(case: Case, now: Content, draw: random.Random) -> Change:
    """The last record, part or chunk."""
    members = sorted(name for name in now if not name.endswith(".json"))
    logs = [name for name in members if name.startswith("log/")]
    return {(logs or members)[-1]: None} if members else {}


def blocks(name: str, content: bytes) -> list[bytes]:
    """The members of a single file: what is between commas in JSON, else blocks of a fixed size."""
    if content.lstrip().startswith(b"{"):
        return content.split(b",")
    return [content[start : start + _BLOCK] for start in range(0, len(content), _BLOCK)]


def within_file(case: Case, now: Content, draw: random.Random) -> Change:
    """Blocks of a single file change places, are doubled or lost, or come from another or an older file."""
    (name,) = case.whole
    mine = blocks(name, now.get(name, b""))
    others = blocks(name, draw.choice((case.other, case.older)).get(name, b""))
    if not mine or not others:
        return {}
    joint = b"," if now[name].lstrip().startswith(b"{") else b""
    one, two = (draw.randrange(len(mine)) for _ in range(2))
    match draw.choice(("swap", "double", "lose", "other")):
        case "swap":
            mine[one], mine[two] = mine[two], mine[one]
        case "double":
            mine.insert(one, mine[one])
        case "lose":
            del mine[one]
        case _:
            mine[one] = others[one % len(others)]
    return {name: joint.join(mine)}


_BLOCK = 64
Harm = Callable[[Case, Content, random.Random], Change]
_ANYWHERE: Mapping[str, Harm] = {"flip": flip, "truncate": truncate, "delete": delete}
FILE_DAMAGE: Mapping[str, Harm] = {**_ANYWHERE, "within a file": within_file}
DAMAGE: Mapping[str, Harm] = {
    **_ANYWHERE,
    "duplicate": duplicate,
    "swap within": swap,
    "swap between": swap_between,
    "restore older": restore_older,
    "remove last": remove_last,
}


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.random(ROWS)
    return (rng.random(ROWS) < scores).astype(int), scores, np.array(["a", "b"])[np.arange(ROWS) % 2]


def summary(seed: int) -> xr.Dataset:
    labels, scores, country = rows(seed)
    made = cd.summarize(labels, scores, by={"country": country}, settings=["binary"], step=1 / 300)
    return made.chunk({"country": 1})


def write_summary(url: str, seed: int) -> None:
    write_dataset(summary(seed), Path(url))


def write_result(url: str, seed: int) -> None:
    labels, scores, country = rows(seed)
    metrics = {"ece": cd.ECE(), "brier": cd.BrierScore()}
    write_dataset(cd.evaluate(labels, scores, metrics, by={"country": country}).chunk({"country": 1}), Path(url))


def write_periods(url: str, seed: int, days: int = 3) -> None:
    for day in range(days):
        cd.append(summary(10 * seed + day), url, {"day": f"2026-11-2{day}"})


def write_cube(url: str, seed: int) -> None:
    cd.run(Means(seed=seed, replicates=2, rows=(10, 20, 30)), url, "threads:1")


def write_applied(url: str, seed: int) -> None:
    labels, scores, country = rows(seed)
    source = Path(url).with_name(f"rows-{Path(url).stem}-{seed}.parquet")
    frame = pd.DataFrame({"label": labels, "score": scores, "country": country})
    frame.to_parquet(source, row_group_size=ROWS // 3)
    fitted = cd.PlattScaling().fit(labels, scores)
    file = source.with_suffix(".json")
    file.write_text(json.dumps(fitted.to_dict()))
    given = open_store(str(source))
    assert isinstance(given, StoredRows)
    apply_map(StoredMap.read(file), given, url, overwrite=True)


def apply_platt(folder: Path, seed: int, out: Path) -> None:
    """Apply a map to rows; both are written where they are not there, so that an output can be gone on with."""
    labels, scores, country = rows(seed)
    source, file = folder / f"rows-{seed}.parquet", folder / f"map-{seed}.json"
    if not source.exists():
        frame = pd.DataFrame({"label": labels, "score": scores, "country": country})
        frame.to_parquet(source, row_group_size=ROWS // 3)
        file.write_text(json.dumps(cd.PlattScaling().fit(labels, scores).to_dict()))
    given = open_store(str(source))
    assert isinstance(given, StoredRows)
    apply_map(StoredMap.read(file), given, str(out))


def write_unfinished(url: str, seed: int, saves: int = 3) -> None:
    """What a kill leaves of an output after some of its states were saved: the first one is that of no rows."""
    out = Path(tempfile.mkdtemp(dir=Path(url).parent)) / f"out{Path(url).suffix}"
    done = []

    def save(output: ResumableOutput) -> None:
        if len(done) == saves:
            raise Killed
        done.append(saved(output))

    saved = ResumableOutput._save
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(ResumableOutput, "_save", save)
        apply_platt(Path(url).parent, seed, out)
    out.with_name(f".{out.name}.unfinished").rename(url)


def read_unfinished(url: str) -> Any:
    """What comes of going on with an output that was not finished."""
    place = Path(url)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        out = Path(folder, f"out{place.suffix}")
        if place.is_dir():
            shutil.copytree(place, out.with_name(f".{out.name}.unfinished"))
        apply_platt(place.parent, 1, out)
        return read_store(str(out))


def accumulator() -> cd.Accumulator:
    return cd.Accumulator([cd.ECE(bins=3), cd.BrierScore()], step=0.01)


def write_accumulator(url: str, seed: int) -> None:
    labels, scores, _ = rows(seed)
    Path(url).mkdir()
    for name, array in accumulator().update(labels, scores).state_dict().items():
        np.save(Path(url, name.replace("/", "-")), array)


def read_accumulator(url: str) -> Any:
    names = {name.replace("/", "-"): name for name in accumulator().update(*rows(1)[:2]).state_dict()}
    try:
        state = {names.get(path.stem, path.stem): np.load(path) for path in sorted(Path(url).iterdir())}
    except Exception as error:
        # Of the container, which is NumPy's.
        raise ValueError(str(error)) from error
    return accumulator().load_state_dict(state).result().to_dict()


def write_map(url: str, seed: int) -> None:
    labels, scores, country = rows(seed)
    fitted = cd.PlattScaling().fit(labels, scores, by={"country": country}, min_rows=5)
    Path(url).write_text(json.dumps(fitted.to_dict()))


def write_state(url: str, seed: int) -> None:
    parts = [summary(10 * seed + day).sum("country").expand_dims(day=[f"2026-11-2{day}"]) for day in range(2)]
    totals = [name for name in parts[0].data_vars if str(name).startswith("total_")]
    days = cd.merge(*(part.assign(part[totals].isel(day=0, drop=True)).load() for part in parts))
    state = json.loads(cd.watch(days).attrs["state"])
    WatchState(Path(url)).after(state, [], []).written()


def read_store(url: str) -> Any:
    store = open_store(url)
    if isinstance(store, StoredRows):
        table = store.read()
        return [np.asarray(array).tolist() for array in (table.labels, table.scores)]
    with store.dataset as dataset:
        loaded = dataset.load().to_dict()
    totals = store.by_period.dataset.load().to_dict() if isinstance(store, Summary) and store.by_period else None
    return loaded, totals


def read_map(url: str) -> Any:
    return json.dumps(StoredMap.read(url).document, sort_keys=True)


def read_state(url: str) -> Any:
    known = WatchState.read(Path(url))
    if known.text is None:
        raise ValueError("There is no state, which a watch says.")
    saved = SavedState.from_dict(known.processes)
    return saved.to_dict(), known.alarms, sorted(known.untold)


WRITERS: Mapping[str, tuple[Callable[[str, int], None], Callable[[str], Any]]] = {
    "summary.zarr": (write_summary, read_store),
    "summary.nc": (write_summary, read_store),
    "result.zarr": (write_result, read_store),
    "periods.zarr": (write_periods, read_store),
    "cube.zarr": (write_cube, read_store),
    "applied.zarr": (write_applied, read_store),
    "applied.parquet": (write_applied, read_store),
    "unfinished.zarr": (write_unfinished, read_unfinished),
    "unfinished.parquet": (write_unfinished, read_unfinished),
    "unfinished.csv": (write_unfinished, read_unfinished),
    "map.json": (write_map, read_map),
    "state.json": (write_state, read_state),
    "accumulator": (write_accumulator, read_accumulator),
}


def older_content(name: str, folder: Path) -> Content:
    """The files of a store at an earlier time; of stores that are written once those of an earlier store."""
    write, _ = WRITERS[name]
    url = folder / f"older-{name}"
    if name == "periods.zarr":
        write_periods(str(url), 1, days=2)
        before = Tree(str(url)).content()
        cd.append(summary(12), url, {"day": "2026-11-22"})
        url.rename(folder / name)
        return before
    if name == "cube.zarr":
        study = Means(seed=1, replicates=2, rows=(10, 20, 30))
        lay_out(study, url)
        cd.run(study, url, shard=(0, 2))
        before = Tree(str(url)).content()
        cd.run(study, url, "threads:1")
        url.rename(folder / name)
        return before
    if name.startswith("unfinished"):
        write_unfinished(str(url), 1, saves=2)
    else:
        write(str(url), 3)
    write(str(folder / name), 1)
    return Tree(str(url)).content()


def cases(name: str, folder: Path, put: Callable[[Path], str] = str) -> Case:
    """A store of a kind in a folder, or where ``put`` copies it to."""
    write, read = WRITERS[name]
    older = older_content(name, folder)
    write(str(folder / f"other-{name}"), 2)
    url = put(folder / name)
    tree = Tree(url)
    whole, other = tree.content(), Tree(str(folder / f"other-{name}")).content()
    return Case(tree, whole, other, older, read(url), read)


def silent_differences(case: Case, times: int, seed: int, first: int = 0) -> list[str]:
    """Damage a store so often, each time anew; what was done where other numbers were read without an error.

    What is done depends on the seed and the number of the time, which counts from ``first`` on.
    """
    found = []
    # Threads take longer to start than chunks to be read.
    with dask.config.set(scheduler="synchronous"):
        for number in range(first, first + times):
            draw = random.Random(f"{seed} {number}")
            done = case.damaged(draw)
            if silent := case.silent():
                found.append(f"{number}: {', '.join(done)}: {silent} ({', '.join(sorted(case.tree.changed))})")
            case.tree.put_back(case.whole)
    return found
