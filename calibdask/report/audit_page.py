"""The page of an audit: what it found, how large an error is not excluded, each column by itself."""

import json
from collections.abc import Iterator

import xarray as xr

from calibdask.analyses.auditing.audit_document import conclusion_of
from calibdask.report.audit_section import audit_group_blocks, meanings, not_excluded, one_way
from calibdask.report.contents import Origin
from calibdask.results.document import Code, Document, Element, Listing, Section
from calibdask.results.format import counted, percent, rests_on


def audit_page(result: xr.Dataset, source: str, origin: Origin) -> Document:
    """The page of the result of `calibdask.audit` on what is called ``source``."""
    parts = {
        "groups": ("Groups", audit_group_blocks(result)),
        "excluded": ("Errors that cannot be ruled out", not_excluded(result)),
        "columns": ("One column at a time", one_way(result)),
        "audited": ("Audited data", _audit_facts(result, source)),
        "meanings": ("Definitions", meanings()),
        "reproduce": ("How to reproduce", _reproduce(origin)),
    }
    sections = [Section(anchor, title, elements) for anchor, (title, made) in parts.items() if (elements := list(made))]
    lead = ", ".join(filter(None, [source, counted(result.attrs["rows"], "row"), origin.date]))
    foot = f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}."
    return Document(origin.title, lead, sections, foot, headline=conclusion_of(result))


def _audit_facts(result: xr.Dataset, source: str) -> Iterator[Element]:
    attributes = result.attrs
    depth, least = attributes["depth"], attributes["min_rows"]
    listed = [
        f"{source or 'Data'}: {', '.join(rests_on(attributes))}; scores and outcomes: {attributes['setting']}.",
        f"All groups by up to {counted(depth, 'column')} with at least {least:,} rows: {attributes['segments']:,}.",
        f"Of calibrated models at most {percent(attributes['alpha'])} have any group found.",
        f"Up to {attributes['values']} values of a column besides missing ones; calibration errors over "
        f"{attributes['score_cells']} cells of scores.",
    ]
    for name, why in (("rows_skipped", "without a label, a score or a weight"), ("rows_ignored", "by their label")):
        if attributes.get(name):
            listed.append(f"{counted(attributes[name], 'row')} left out, {why}.")
    yield Listing([*listed, *(f"{note}." for note in json.loads(attributes.get("notes", "[]")))])


def _reproduce(origin: Origin) -> Iterator[Element]:
    if origin.command:
        yield Code(origin.command, copied=True)
    yield Listing([f"{name} {version}" for name, version in origin.versions.items()])
