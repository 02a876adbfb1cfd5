"""Periods cut from timestamps: days, weeks, months, quarters or years on the clock of a time zone."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from calibdask.data.frames import is_frame
from calibdask.engine.arrays import in_memory, is_dask, is_pandas, plain

Every = Literal["day", "week", "month", "quarter", "year"]

# A column of timestamps with more distinct values than this is not meant as periods.
MOST_PERIODS = 400
# An offset from UTC after the minutes, the seconds or their fractions.
_OFFSET = r"(:\d\d(?:\.\d+)?) ?(?:Z|[+-]\d\d(?::?\d\d)?)$"
# Rows that are looked at to find out.
LOOKED_AT = 1 << 16


def periods(values: Any, every: Every = "day", zone: str | None = None) -> Any:
    """The period of each timestamp, as text that sorts by time.

    Parameters
    ----------
    values : array of shape (n,)
        Timestamps, dates, or text in the format of ISO 8601; NumPy, Dask, pandas, or a series of Dask.
    every : {"day", "week", "month", "quarter", "year"}
        Periods are called ``2026-11-22``, ``2026-W47`` (weeks of ISO 8601), ``2026-11``, ``2026-Q4``, ``2026``.
    zone : str, optional
        A name of the IANA database, such as ``"Europe/Paris"``, on whose clock days begin. Timestamps without a zone
        are taken as UTC then. None: days begin on the clock of each timestamp, whatever its offset from UTC.

    Returns
    -------
    array of str, or None for missing timestamps
        Of the kind of ``values``; of Dask lazily.

    Raises
    ------
    ValueError
        If values are no timestamps, or the zone or the length of periods is unknown.

    Examples
    --------
    >>> periods(np.array(["2026-11-22T23:30", "NaT"], "M8[s]"), "month", "Europe/Paris").tolist()
    ['2026-11', None]
    """
    if every not in get_args(Every):
        raise ValueError(f"every (--every) expects one of {', '.join(get_args(Every))}, got {every!r}.")
    _check_zone(zone)
    cut = partial(_cut, every=every, zone=zone)
    if is_frame(values):
        import pandas as pd

        return values.map_partitions(_cut_series, cut, meta=pd.Series([], dtype=object))
    if is_dask(values):
        return values.map_blocks(cut, dtype=object, meta=np.empty(0, object))
    return _cut_series(values, cut) if is_pandas(values) else cut(values)


def check_periods(name: str, values: Any) -> None:
    """Raise ValueError for a column of so many timestamps that it is not meant as periods, by its first rows."""
    first = _first_rows(values)
    if first.dtype.kind != "M":
        return
    distinct = len(np.unique(first))
    if distinct > MOST_PERIODS:
        raise ValueError(
            f"--period {name} is a column of timestamps with {distinct:,} different values among its first "
            f"{len(first):,}; cut it into periods by --every day (week, month, quarter, year)."
        )


def _first_rows(values: Any) -> np.ndarray:
    if not is_dask(values):
        return np.asarray(plain(values))[:LOOKED_AT]
    parts = values.partitions if is_frame(values) else values.blocks
    first: list[np.ndarray] = []
    while len(first) < values.npartitions and sum(map(len, first)) < LOOKED_AT:
        first.append(np.asarray(plain(in_memory(parts[len(first)]))))
    return np.concatenate(first)[:LOOKED_AT]


def _check_zone(zone: str | None) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"zone (--zone) expects a name such as 'Europe/Paris', got {zone!r}.") from error


def _cut_series(part: Any, cut: Callable[[Any], np.ndarray]) -> Any:
    import pandas as pd

    return pd.Series(cut(part), part.index, dtype=object)


def _on_clocks(series: Any) -> Any:
    """The times on the clock where each was taken, of texts those without their offsets."""
    from pandas.api.types import infer_dtype

    return series.str.replace(_OFFSET, r"\1", regex=True) if infer_dtype(series, skipna=True) == "string" else series


def _cut(values: Any, every: Every, zone: str | None) -> np.ndarray:
    """Texts of the periods of timestamps in memory."""
    import pandas as pd

    series = pd.Series(plain(values) if zone is None else values)
    if series.dtype.kind in "iufb" and series.notna().any():
        first = series.dropna().iloc[0]
        raise ValueError(
            f"Periods expect timestamps, got numbers, such as {first}; convert seconds since 1970 by "
            "pandas.to_datetime(column, unit='s'), or slice by the numbers themselves: by (--by)."
        )
    try:
        # Other formats would be guessed: 05.10.2024 may be in May or in October.
        times = pd.to_datetime(_on_clocks(series) if zone is None else series, format="ISO8601", utc=zone is not None)
    except (ValueError, TypeError) as error:
        first = series.dropna().iloc[0]
        raise ValueError(
            f"Periods expect timestamps, or texts as of ISO 8601 such as 2026-11-22T23:30, got others; the first is "
            f"{first!r}. Convert them, for example by pandas.to_datetime(column, format='%d.%m.%Y')."
        ) from error
    if zone is not None:
        aware = times.dt.tz_localize("UTC") if times.dt.tz is None else times
        times = aware.dt.tz_convert(zone)
    if times.dt.tz is not None:
        times = times.dt.tz_localize(None)
    if every == "week":
        iso = times.dt.isocalendar()
        texts = iso["year"].astype("string") + "-W" + iso["week"].astype("string").str.zfill(2)
    elif every == "quarter":
        years, quarters = (part.astype("Int64").astype("string") for part in (times.dt.year, times.dt.quarter))
        texts = years + "-Q" + quarters
    else:
        texts = times.dt.strftime({"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}[every])
    result = np.empty(len(times), object)
    result[:] = texts.to_numpy(object)
    result[np.asarray(times.isna())] = None
    return result
