"""Files that results are written to."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibdask.results.document import Document
    from calibdask.storage.atomic_replace import Output

RESULTS = (".json", ".csv", ".parquet", ".nc", ".zarr")


def write_result(
    figures: Any,
    text: Callable[[], str],
    written: ExitStack,
    path: "Output",
    *,
    lines: Callable[[Any], list[dict[str, Any]] | None] | None = None,
    document: "Callable[[], Document] | None" = None,
) -> None:
    """Write a dataset in the format of the file name; it appears when ``written`` closes.

    Parameters
    ----------
    figures : xarray.Dataset
    text : function
        Makes its JSON.
    written : contextlib.ExitStack
    path : Output
    lines : function, optional
        Makes the lines of CSV and Parquet of the dataset; without it, or where it gives None, see `result_frame`.
    document : function, optional
        Makes its document, for Markdown and text.

    Raises
    ------
    ValueError
        If the file is a CSV, and the result has nothing but diagrams and values of classes.
    """
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.writers import write_dataset

    part = written.enter_context(atomic_replacement(path))
    match path.suffix.lower():
        case ".json":
            part.write_text(text() + "\n", encoding="utf-8")
        case ".csv":
            from calibdask.render.spreadsheet import without_formulas

            without_formulas(_frame(figures, lines)).to_csv(part, index=False)
        case ".parquet":
            # Arrow takes no names that are not UTF-8.
            with part.open("wb") as file:
                _frame(figures, lines).to_parquet(file, index=False)
        case ".md" if document is not None:
            part.write_text(document().to_markdown(), encoding="utf-8")
        case ".xml" if document is not None:
            from calibdask.render.junit import junit

            part.write_text(junit(document()), encoding="utf-8")
        case ".txt" if document is not None:
            part.write_text(document().to_text(), encoding="utf-8")
        case _:
            write_dataset(figures, part)


def _frame(figures: Any, lines: Callable[[Any], list[dict[str, Any]] | None] | None) -> Any:
    made = None if lines is None else lines(figures)
    if made is None:
        return result_frame(figures)
    import pandas as pd

    return pd.DataFrame(made)


def result_frame(figures: Any) -> Any:
    """A line for each slice, whose labels are the first columns; of a single curve one for each of its points."""
    from calibdask.render.own_tables import own_tables
    from calibdask.results.values import Results

    results = Results(figures)
    if all(part.kind == "pvalue" for part in results.numbers):
        tables = list(own_tables(results))
        if len(tables) == 1:
            # The bins of one diagram, the points of one curve, or the grades of a test.
            return tables[0].dataset.to_dataframe().reset_index()
    if not results.numbers:
        raise ValueError(
            "A table holds one number of a metric for each slice, or one curve, but these metrics are several curves; "
            "write them one by one, or to .nc or .zarr."
        )
    dims = list(results.shared_dims)
    numbers = figures[[name for name, variable in figures.data_vars.items() if {*variable.dims} <= {*dims}]]
    totals = [name for name, total in results.totals.items() if {*total.dims} <= {*dims}]
    numbers = numbers.drop_vars([name for name in results.totals if name not in totals])
    if not dims:
        frame = numbers.expand_dims("result").to_dataframe()
    else:
        frame = numbers.to_dataframe(dim_order=dims).reset_index()
    heads = [*dims, *totals]
    return frame[[*heads, *(name for name in frame.columns if name not in heads)]]
