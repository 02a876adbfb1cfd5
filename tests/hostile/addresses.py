"""Addresses that give access to whoever reads them, and where they are shown or stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import calibdask as cd
from calibdask.storage.open_store import open_store
from calibdask.study.seeds import Seeds
from calibdask.study.study import Study

SECRET = "S3CRETvalue"
# What is shown of an address.
SHOWN = {
    f"https://me:{SECRET}@host/rows.csv": "https://***@host/rows.csv",
    f"https://me:p@{SECRET}@host/rows.csv": "https://***@host/rows.csv",
    f"https://{SECRET}@host/rows.csv": "https://***@host/rows.csv",
    f"s3://AKIAKEY:{SECRET}@bucket/rows.zarr": "s3://***@bucket/rows.zarr",
    f"simplecache::https://me:{SECRET}@host/rows.csv": "simplecache::https://***@host/rows.csv",
    f"zip://rows.csv::https://me:{SECRET}@host/a.zip": "zip://rows.csv::https://***@host/a.zip",
    f"https://host/rows.csv?X-Amz-Signature={SECRET}&part=3": "https://host/rows.csv?X-Amz-Signature=***&part=3",
    f"https://host/rows.csv?{SECRET}": "https://host/rows.csv?***",
    f"https://host/rows.csv?entry=a,{SECRET}": "https://host/rows.csv?entry=***",
    f"https://host/rows.csv?entry={SECRET}, and more": "https://host/rows.csv?entry=***, and more",
    f"https://host/rows.csv?X-Amz-Credential={SECRET}%2F2026": "https://host/rows.csv?X-Amz-Credential=***",
    f"https://host/rows.csv?AWSAccessKeyId={SECRET}&Expires=1": "https://host/rows.csv?AWSAccessKeyId=***&Expires=1",
    f"abfs://box@account/rows.csv?sv=2024&sig={SECRET}": "abfs://box@account/rows.csv?sv=2024&sig=***",
    f"https://host/rows.csv?sig=a/{SECRET}=&part=3": "https://host/rows.csv?sig=***&part=3",
    f"https://host/rows.csv?token={SECRET}": "https://host/rows.csv?token=***",
    f"https://host/rows.csv?access_token={SECRET}#top": "https://host/rows.csv?access_token=***#top",
    f"https://host/rows.csv?entry={SECRET}&part=2&x={SECRET}": "https://host/rows.csv?entry=***&part=2&x=***",
    f"https://host/rows.csv?part=2;door={SECRET}": "https://host/rows.csv?part=2;door=***",
    f"https://host/rows.csv#door={SECRET}": "https://host/rows.csv#door=***",
    f"'gs://b/c?door={SECRET}', \"s3://b/c?%74oken={SECRET}\"": "'gs://b/c?door=***', \"s3://b/c?%74oken=***\"",
    f"https://host/token={SECRET}/rows.csv": "https://host/token=***/rows.csv",
    f"https://host/token/{SECRET}/rows.csv": "https://host/token/***/rows.csv",
    f"https://host/rows.csv;sig={SECRET}": "https://host/rows.csv;sig=***",
    f"https://host/eyJhbGciOiJI.eyJ{SECRET}.x/rows.csv": "https://host/***/rows.csv",
    f"'https://me:{SECRET}@host/a' and 'gs://b/c?sig={SECRET}'": "'https://***@host/a' and 'gs://b/c?sig=***'",
}
# What says nothing that gives access stays as it is.
HARMLESS = [
    "s3://bucket/day=1/rows.parquet",
    "abfs://container@account.dfs.core.windows.net/rows.zarr",
    "sftp://me@host/rows.csv",
    "hf://datasets/owner@main/rows.parquet",
    "tcp://127.0.0.1:8786",
    "https://host:8080/a@v1/rows.csv",
    "https://host/rows.csv?versionId=1&part=2&format=csv",
    "rows/token=1/a.csv",
    "C:\\rows\\a.csv",
]

ROWS = 60
LABELS, SCORES = np.arange(ROWS) % 2, np.linspace(0.02, 0.98, ROWS)
ECE = ["--metric", "ece"]


def address(folder: str, name: str) -> str:
    return f"memory://me:{SECRET}@{folder}/token={SECRET}/{name}"


def rows(folder: str, name: str = "rows.parquet", **columns: Any) -> str:
    path = address(folder, name)
    pd.DataFrame({"label": LABELS, "score": SCORES, **columns}).to_parquet(path)
    return path


@dataclass(frozen=True, kw_only=True)
class Readers(Study):
    """A study that reads from somewhere; the last of its cells fails with the address in its message."""

    data: str = "memory://rows.parquet"
    fails: bool = False

    outputs: ClassVar = {"number": ()}

    def cells(self) -> dict[str, Any]:
        return {"file": (f"{self.data}/a", f"{self.data}/b")}

    def inside(self) -> dict[str, Any]:
        return {}

    def inputs(self) -> dict[str, Any]:
        return {"where": self.data}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if self.fails and at["file"].endswith("b"):
            raise ValueError(f"{at['file']} cannot be read")
        return {"number": seeds.generator().random()}


STUDY = f"{__name__}:Readers"
Command = Callable[[str], list[str]]


def run(folder: str, *more: str) -> list[str]:
    data = f"https://me:{SECRET}@host/rows?sig={SECRET}"
    return ["run", STUDY, "--store", address(folder, "cube.zarr"), "--set", f"data={data}", *more]


COMMANDS: dict[str, Command] = {
    "no file": lambda f: ["evaluate", address(f, "none.parquet")],
    "no format": lambda f: ["evaluate", f"{rows(f)}?sig={SECRET}"],
    "no column": lambda f: ["evaluate", rows(f), "--by", "day"],
    "bad values": lambda f: ["evaluate", rows(f, score=SCORES * 100)],
    "texts": lambda f: ["evaluate", rows(f, score=["a"] * ROWS)],
    "damaged": lambda f: ["evaluate", address(f, "cube.zarr") + "/rows.npz"],
    "unknown protocol": lambda f: ["evaluate", f"nowhere://me:{SECRET}@host/rows.csv"],
    "result": lambda f: ["evaluate", rows(f), "--json", *ECE],
    "models": lambda f: ["evaluate", rows(f), rows(f, "b.parquet"), *ECE],
    "models of one name": lambda f: ["evaluate", rows(f), rows(f), *ECE],
    "other rows": lambda f: ["compare", rows(f), rows(f, "b.parquet", label=1 - LABELS), *ECE],
    "output": lambda f: ["evaluate", rows(f), "--out", address(f, "result.json"), *ECE],
    "suffix of an output": lambda f: ["evaluate", rows(f), "--out", address(f, "result.xls"), *ECE],
    "output in the input": lambda f: ["evaluate", rows(f), "--out", rows(f) + "/result.json", *ECE],
    "report": lambda f: ["report", rows(f), "--out", address(f, "page.html"), "--n-boot", "5"],
    "summary": lambda f: ["summarize", rows(f), "--out", address(f, "summary.zarr")],
    "rows as a cube": lambda f: ["status", rows(f)],
    "explore": lambda f: ["explore", rows(f), "--no-browser"],
    "run": run,
    "lay out": lambda f: run(f, "--lay-out"),
    "failing run": lambda f: run(f, "--set", "fails=true"),
    "scheduler": lambda f: ["evaluate", rows(f), "--cluster", f"tcp://me:{SECRET}@127.0.0.1:1"],
}
CALLS: dict[str, Callable[[], Any]] = {
    "open": lambda: open_store(address("calls", "none.zarr")),
    "read": lambda: cd.read_rows(rows("calls"), by=["day"]),
    "cube": lambda: cd.open_cube(rows("calls")),
    "run": lambda: cd.run(Readers(), rows("calls") + "/cube.zarr"),
}
