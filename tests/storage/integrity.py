"""Random sequences of damage to stores of all kinds; a store must give its own numbers afterwards, or an error."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import xarray as xr

import calibdask as cd
from calibdask.calibrators.applying import apply_map
from calibdask.calibrators.stored_map import StoredMap
from calibdask.cli.watch_state import WatchState
from calibdask.inference.sequential.saved import SavedState
from calibdask.storage.open_store import StoredRows, open_store
from calibdask.storage.summary import Summary
from calibdask.storage.writers import write_dataset
from calibdask.study.example import Means
from calibdask.study.running import lay_out
from tests.storage import damage

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
        """What a damaged store is read as, if it is neither refused nor the same as before; else an empty text."""
        try:
            found = self.read(self.tree.url)
        except ValueError:
            return ""
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


Harm = Callable[[Case, Content, random.Random], Change]
FILE_DAMAGE: Mapping[str, Harm] = {"flip": flip, "truncate": truncate, "delete": delete}
DAMAGE: Mapping[str, Harm] = {
    **FILE_DAMAGE,
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
    return StoredMap.read(url).document


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
    "map.json": (write_map, read_map),
    "state.json": (write_state, read_state),
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


def silent_differences(case: Case, times: int, seed: int) -> list[str]:
    """Damage a store so often, each time anew; what was done where other numbers were read without an error."""
    found = []
    for number in range(times):
        draw = random.Random(f"{seed} {number}")
        done = case.damaged(draw)
        if silent := case.silent():
            found.append(f"{number}: {', '.join(done)}: {silent} ({', '.join(sorted(case.tree.changed))})")
        case.tree.put_back(case.whole)
    return found
