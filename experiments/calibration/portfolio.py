"""A credit portfolio of any size whose model is good but for two mechanisms: what audits say of it, and mend.

Run: python -m experiments.calibration.portfolio [--rows 1000000] [--seed 0]; writes portfolio.md. With --parquet NAME
it writes the rows alone.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from scipy.special import expit

import calibdask as cd

Array = NDArray[Any]

PAGE = Path(__file__).with_name("portfolio.md")
MARKER = "<!-- Below: written by portfolio.py. -->\n"
# Rows that one generator draws.
UNIT = 1 << 18
REGIONS = pd.Index(["north", "south", "east", "west", "capital", "islands"])
CHANNELS = pd.Index(["branch", "web", "phone", "broker"])
PRODUCTS = pd.Index(["card", "car loan", "personal loan", "mortgage"])
WORK = pd.Index(["employed", "self-employed", "retired", "student", "none"])
# What the model does not know: shifts of the log-odds of default.
YOUNG_BY_BROKER, NO_INCOME_IN_THE_SOUTH = 0.7, -0.8
MECHANISMS = {
    "customers under 30 who come by a broker": YOUNG_BY_BROKER,
    "customers from the south without an income on file": NO_INCOME_IN_THE_SOUTH,
}
# Described groups on the page, and columns whose one-way tables are.
SHOWN = 20
ONE_WAY = ["channel", "region", "age", "income", "opened.year"]


def block(number: int, seed: int = 0, rows: int = UNIT) -> pd.DataFrame:
    """The first rows of a block: ``label``, ``score``, ``truth`` and 20 features that share two causes."""
    rng = np.random.default_rng((seed, number))
    wealth, risk = rng.normal(size=(2, UNIT))
    age = np.clip(44 + 9 * wealth + 13 * rng.normal(size=UNIT), 18, 90).astype(np.int16)
    region = _chosen(rng, len(REGIONS), 0.3 * wealth)
    channel = _chosen(rng, len(CHANNELS), 0.4 * risk - 0.02 * (age - 44))
    product = _chosen(rng, len(PRODUCTS), 0.6 * wealth)
    income = np.exp(7.8 + 0.4 * wealth - 0.1 * risk + 0.3 * rng.normal(size=UNIT)).astype(np.float32)
    # Employed, self-employed or without work; the others by their age.
    work = np.array([0, 1, 4])[_chosen(rng, 3, risk)]
    work = np.where(age > 66, 2, np.where((age < 25) & (rng.random(UNIT) < 0.5), 3, work))
    no_income = rng.random(UNIT) < np.where(channel == 1, 0.12, 0.06)
    income[no_income] = np.nan
    utilisation = expit(risk + rng.normal(size=UNIT)).astype(np.float32)
    frame = pd.DataFrame(
        {
            "age": age,
            "region": pd.Categorical.from_codes(region, REGIONS),
            "income": income,
            "channel": pd.Categorical.from_codes(channel, CHANNELS),
            "product": pd.Categorical.from_codes(product, PRODUCTS),
            "opened": np.datetime64("2019-01-01", "ms") + rng.integers(0, 6 * 365, UNIT) * np.timedelta64(1, "D"),
            "work": pd.Categorical.from_codes(np.where(rng.random(UNIT) < 0.04, -1, work), WORK),
            "homeowner": rng.random(UNIT) < expit(wealth + 0.03 * (age - 44)),
            "urban": rng.random(UNIT) < np.where(region == 4, 0.95, 0.5),
            "household": 1 + rng.poisson(1.3, UNIT).astype(np.int8),
            "tenure": np.minimum(rng.exponential(6, UNIT), age - 18).astype(np.float32),
            "amount": np.exp(8 + product + 0.4 * wealth + 0.5 * rng.normal(size=UNIT)).astype(np.float32),
            "term": (12 * rng.integers(1, 6, UNIT) * (1 + product)).astype(np.int16),
            "rate": (0.03 + 0.02 * expit(risk) + 0.01 * rng.random(UNIT)).astype(np.float32),
            "utilisation": utilisation,
            "arrears": rng.poisson(0.3 * np.exp(0.8 * risk)).clip(0, 12).astype(np.int8),
            "inquiries": rng.poisson(np.exp(0.4 * risk)).clip(0, 20).astype(np.int8),
            "savings": np.where(rng.random(UNIT) < 0.1, np.nan, np.exp(7 + wealth + rng.normal(size=UNIT))),
            "debt": expit(0.5 * risk - 0.4 * wealth + rng.normal(size=UNIT)).astype(np.float32),
            "guarantor": rng.random(UNIT) < 0.1,
        }
    )
    odds = -3.0 + 0.8 * frame.arrears.clip(upper=3) + 1.2 * (utilisation - 0.5) + 1.0 * (frame.debt - 0.5)
    odds += 0.1 * (frame.inquiries - 1) - 0.3 * frame.homeowner - 0.01 * (age - 44) + 0.3 * (channel == 3)
    # Accounts of a bad year.
    odds += 0.4 * (frame.opened.dt.year == 2021)
    shift = YOUNG_BY_BROKER * ((age < 30) & (channel == 3)) + NO_INCOME_IN_THE_SOUTH * (no_income & (region == 1))
    frame["score"], frame["truth"] = expit(odds), expit(odds + shift)
    frame["label"] = (rng.random(UNIT) < frame.truth).astype(np.int8)
    return frame[:rows]


def _chosen(rng: np.random.Generator, values: int, cause: Array) -> Array:
    """A value of each row, larger ones with a larger cause."""
    return np.clip(np.floor(values * expit(cause + 1.2 * rng.normal(size=UNIT))), 0, values - 1).astype(np.int8)


def blocks(rows: int, seed: int = 0, first: int = 0) -> Iterator[pd.DataFrame]:
    """Blocks from a number on; a row is the same for any number of rows."""
    for number, start in enumerate(range(0, rows, UNIT)):
        yield block(first + number, seed, min(UNIT, rows - start))


def write_parquet(path: Path, rows: int, seed: int = 0) -> None:
    """A file of any size in the memory of one block."""
    schema = pa.Schema.from_pandas(block(0, seed, 1), preserve_index=False)
    with parquet.ParquetWriter(path, schema) as writer:
        for part in blocks(rows, seed):
            writer.write_table(pa.Table.from_pandas(part, schema, preserve_index=False))


def split(frame: pd.DataFrame) -> tuple[Array, Array, pd.DataFrame]:
    """Labels, scores and features."""
    return frame.label.to_numpy(), frame.score.to_numpy(), frame.drop(columns=["label", "score", "truth"])


def planted(frame: pd.DataFrame) -> list[str]:
    """What was planted, as the rows have it."""
    groups = [
        (frame.age < 30) & (frame.channel == "broker"),
        frame.income.isna() & (frame.region == "south"),
    ]
    lines = ["| planted | shift of the log-odds | rows | mean of truth - score |", "|---" * 4 + "|"]
    for (name, shift), here in zip(MECHANISMS.items(), groups, strict=True):
        off = 100 * float((frame.truth - frame.score)[here].mean())
        lines.append(f"| {name} | {shift:+} | {int(here.sum()):,} | {off:+.2f} points |")
    return lines


def table(audit: Any, segments: Any) -> list[str]:
    """Some segments of an audit."""
    lines = ["| group | rows | events | gap in points | 95 % interval | adjusted p | found |", "|---" * 7 + "|"]
    for text in segments:
        here = audit.sel(segment=text)
        low, gap, high = (100 * float(here[name]) for name in ("gap_low", "gap", "gap_high"))
        said = "yes" if here.found else ""
        lines.append(
            f"| {text} | {int(here.rows):,} | {int(here.events):,} | {gap:+.2f} | {low:+.2f} to {high:+.2f} "
            f"| {float(here.pvalue_adjusted):.2g} | {said} |"
        )
    return lines


def page(rows: int, seed: int) -> str:
    """The results as Markdown: audit, one-way tables, the map, and fresh rows before and after it."""
    fitted_to = pd.concat(blocks(rows, seed), ignore_index=True)
    fresh = pd.concat(blocks(rows, seed, first=-(-rows // UNIT)), ignore_index=True)
    audit = cd.audit(*split(fitted_to))
    lines = [
        f"## {rows:,} rows, seed {seed}",
        "",
        *planted(fitted_to),
        "",
        f"{audit.attrs['segments']:,} subgroups of at least 100 rows.",
        "",
    ]
    described = audit.segment[audit.described].values.tolist()
    lines += [f"**{audit.attrs['conclusion']}** {int(audit.found.sum()):,} are found, {len(described)} described:", ""]
    lines += table(audit, described[:SHOWN])
    for name in ONE_WAY:
        here = audit.isel(segment=((audit.depth == 1) & (audit["features"] == name)).values).sortby("number")
        lines += ["", f"### {name}", "", *table(audit, here.segment.values.tolist())]
    y, p, features = split(fitted_to)
    mended = cd.MulticalibratedScaling(folds=2).fit(y, p, features=features)
    terms = ["| moved | round | offset | slope |", "|---|---|---|---|"]
    moved = zip(mended.segments_, mended.round_, mended.offset_, mended.slope_, strict=True)
    terms += [f"| {text} | {int(number)} | {a:+.3f} | {b:+.3f} |" for text, number, a, b in moved]
    ends = f"{1e6 * float(mended.improvement_low_):.1f} to {1e6 * float(mended.improvement_high_):.1f}"
    lines += ["", "## Mended by `MulticalibratedScaling(folds=2)`", "", *terms, ""]
    lines += [f"Log loss, cross-fitted: {1e6 * float(mended.improvement_):.1f} millionths less ({ends})."]
    y, p, features = split(fresh)
    after = mended.predict_proba(p, features)[:, 1]
    lines += ["", f"## {rows:,} fresh rows", "", "| scores | mean abs. error of P(default) | audit |", "|---|---|---|"]
    for name, scores in {"of the model": p, "mended": after}.items():
        off = 100 * float(np.abs(fresh.truth - scores).mean())
        said = cd.audit(y, scores, features).attrs["conclusion"]
        lines.append(f"| {name} | {off:.3f} points | {said} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the rows, or the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parquet", type=Path, help="write the rows there, and nothing else")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page whose results are replaced")
    options = parser.parse_args()
    if options.parquet:
        write_parquet(options.parquet, options.rows, options.seed)
        return
    prose = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    options.out.write_text(prose + MARKER + "\n" + page(options.rows, options.seed), encoding="utf-8")


if __name__ == "__main__":
    main()
