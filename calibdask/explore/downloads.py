"""Download buttons of a page: tables as CSV, plots as PNG and SVG."""

from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

from calibdask.render.spreadsheet import without_formulas

# The browser renders the file: exactly what is shown, and no renderer to install.
_SAVE = """
const view = Bokeh.index.find_one(picture)
view.export(kind).to_blob().then((blob) => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
})
"""


def downloads(name: str, tables: Mapping[str, Callable[[], Any]], picture: Any = None) -> Any:
    """Buttons that download what a page shows.

    Parameters
    ----------
    name : str
        First part of the file names.
    tables : mapping from str to function
        The function makes a data frame when the button is used; saved as ``<name>-<name of the table>.csv``.
    picture : panel layout, optional
        Saved as ``<name>.png`` and ``<name>.svg``: a `panel.Column` that
        stays when the plots in it change.

    Returns
    -------
    panel.FlexBox
    """
    import panel as pn

    buttons: list[Any] = [
        pn.widgets.FileDownload(
            callback=lambda table=table: StringIO(without_formulas(table()).to_csv(index=False)),
            filename=f"{name}-{table_name}.csv",
            label=f"CSV: {table_name}",
            height=32,
        )
        for table_name, table in tables.items()
    ]
    if picture is not None:
        for kind in ("png", "svg"):
            button = pn.widgets.Button(label=kind.upper(), height=32)
            button.js_on_click(args={"picture": picture, "kind": kind, "name": f"{name}.{kind}"}, code=_SAVE)
            buttons.append(button)
    return pn.FlexBox(*buttons, align_items="center")
