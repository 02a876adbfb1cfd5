"""Reports to files."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xarray as xr

from calibdask.analyses.auditing.audit_document import audit_document, is_audit
from calibdask.cluster.versions import installed
from calibdask.render.html import page as html_page
from calibdask.report.analysis_page import Origin, analysis_page
from calibdask.report.contents import page_of
from calibdask.report.cubes import cube_page
from calibdask.report.measuring import Measured
from calibdask.report.model_result import ModelResult
from calibdask.results.document import Document
from calibdask.results.values import Results, is_result, named_strata
from calibdask.safe_text import without_credentials
from calibdask.storage.atomic_replace import Output, write_text
from calibdask.storage.open_store import StoredCube
from calibdask.storage.writers import checked_output
from calibdask.study.opening import open_stored_cube

FORMATS = (".html",)


def write_report(
    path: str | Path,
    results: Mapping[str, Measured | xr.Dataset] | Measured | xr.Dataset,
    *,
    title: str | None = None,
    command: str = "",
    facts: Mapping[str, str] | None = None,
    compared: xr.Dataset | str = "",
    overwrite: bool = False,
) -> None:
    """Write a report on one model or several: one HTML file that opens without a network.

    Parameters
    ----------
    path : str or Path
        Ends in ``.html``; may be a URL.
    results : mapping from name to result, or one result
        The results of `measure` for each model, with everything that a report can show. Or results of
        `calibdask.evaluate` without ``by``: then the report shows the metrics, diagrams, curves and tests that they
        contain. A further dimension, such as ``model``, is treated as several models. If `measure` was given limits,
        the page begins with the decisions of `calibdask.check`.
    title : str, optional
        Heading of the page.
    command : str
        How the results were made, so that they can be reproduced.
    facts : mapping from name to text, optional
        Facts at the top of the page: model, version, period, author, purpose.
    compared : xarray.Dataset or str
        The result of `calibdask.compare` for these models by name, with the first as the baseline: paired differences
        on the same rows. Or why there is no such comparison.
    overwrite : bool, default False
        Replace an existing file.

    Raises
    ------
    ValueError
        If the path has another suffix, its folder does not exist, or the file exists and ``overwrite`` is false; if a
        result has slices, or there are no results.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np, calibdask as cd
    >>> from calibdask.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> result = cd.evaluate(rng.random(1000) < scores, scores, ci=0.95)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(os.path.join(folder, "report.html"), {"oracle": result})
    ...     os.listdir(folder)
    ['report.html']
    """
    target = checked_output(str(path), FORMATS, overwrite=overwrite)
    models = list(_models(results))
    models = [replace(model, models=len(models)) for model in models]
    if not models:
        raise ValueError("A report expects at least one result, got none.")
    origin = replace(_origin("Calibration report" if title is None else title, command), facts=dict(facts or {}))
    _write(target, page_of(models, origin, compared))


def write_cube_report(
    path: str | Path, store: str | StoredCube, *, title: str | None = None, command: str = "", overwrite: bool = False
) -> None:
    """Write a report on the cube of a study: the study, its progress, its results in tables.

    Parameters
    ----------
    path, command, overwrite
        As for `write_report`.
    store : str or StoredCube
        The cube: a path, or a URL that fsspec knows; or a cube opened by `calibdask.storage.open_store.open_store`.
    title : str, optional
        Heading of the page.

    Raises
    ------
    ValueError
        If there is no cube; as `write_report`.

    Examples
    --------
    >>> import os, tempfile
    >>> from calibdask.report import write_cube_report
    >>> from calibdask.study.example import Means
    >>> from calibdask.study.running import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(Means(), os.path.join(folder, "means.zarr"))
    ...     write_cube_report(os.path.join(folder, "means.html"), os.path.join(folder, "means.zarr"))
    ...     "means.html" in os.listdir(folder)
    True
    """
    target = checked_output(str(path), FORMATS, overwrite=overwrite)
    cube = store if isinstance(store, StoredCube) else open_stored_cube(store)
    _write(target, cube_page(cube, _origin("Report on a study" if title is None else title, command)))


def write_audit_report(
    path: str | Path,
    result: xr.Dataset,
    *,
    source: str = "",
    title: str | None = None,
    command: str = "",
    overwrite: bool = False,
) -> None:
    """Write a report on an audit: findings, errors that cannot be ruled out, and a table of each column.

    Parameters
    ----------
    path, command, overwrite
        As for `write_report`.
    result : xarray.Dataset
        The complete result of `calibdask.audit`.
    source : str
        Description of the audited data: the name of a file.
    title : str, optional
        Heading of the page.

    Raises
    ------
    TypeError
        If it is not a result of `calibdask.audit`.
    ValueError
        As `write_report`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np, calibdask as cd
    >>> from calibdask.report import write_audit_report
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> result = cd.audit(rng.random(1000) < scores, scores, {"phone": rng.random(1000) < 0.5})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_audit_report(os.path.join(folder, "audit.html"), result)
    ...     os.listdir(folder)
    ['audit.html']
    """
    if not is_audit(result):
        raise TypeError(f"A report of an audit expects the output of calibdask.audit, got {type(result).__name__}.")
    target = checked_output(str(path), FORMATS, overwrite=overwrite)
    document = audit_document(result)
    origin = _origin(document.title if title is None else title, command)
    _write(target, analysis_page(document, result.attrs["rows"], source, origin))


def write_analysis_report(
    path: str | Path, document: Document, *, rows: int | None = None, source: str = "", command: str = ""
) -> None:
    """Write the document of an analysis as a page: one HTML file that opens without a network.

    Parameters
    ----------
    path : str or Path
        A file that may be written, such as one of `calibdask.storage.atomic_replace.atomic_replacement`.
    document : Document
    rows : int, optional
        Number of rows.
    source, command : str
        What was analysed, and how.
    """
    page = analysis_page(document, rows, source, _origin(document.title, command))
    Path(path).write_text(html_page(page), encoding="utf-8")


def _write(target: Output, page: Document) -> None:
    """Write a page as HTML."""
    html = html_page(page)
    write_text(target, html)


def _origin(title: str, command: str) -> Origin:
    """Where a report of this moment comes from."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Origin(title, without_credentials(command), now, installed())


def _models(results: Any) -> Iterator[ModelResult]:
    """The result of each model."""
    given = results if isinstance(results, Mapping) and not isinstance(results, xr.Dataset) else {"": results}
    for name, result in given.items():
        if isinstance(result, Measured):
            yield ModelResult(str(name) or "model", result)
        elif isinstance(result, xr.Dataset) and is_result(result):
            dims = Results(result).shared_dims
            if "slices" in result.attrs:
                raise ValueError(
                    "A report of cd.evaluate expects a result without by; calibdask.report.measure measures slices for "
                    "it."
                )
            for words, one in named_strata(result, dims):
                yield ModelResult(" ".join(filter(None, (str(name), words))) or "model", Measured(one))
        else:
            raise TypeError(
                "A report expects the output of calibdask.report.measure or calibdask.evaluate, got "
                f"{type(result).__name__}{', which is not a result' if isinstance(result, xr.Dataset) else ''}."
            )
