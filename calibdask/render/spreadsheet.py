"""Tables for spreadsheets: texts that they would take for formulas."""

import re
from typing import Any

# How a formula begins, in full width too, or what is skipped before one; where a semicolon or a tab separates cells,
# also behind these.
_SIGN = r"(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])"
_FORMULA = re.compile(rf"^(?=[\t\n])|^{_SIGN}|(?<=;){_SIGN}|(?<=\S\t){_SIGN}")


def without_formulas(frame: Any) -> Any:
    r"""A data frame whose texts, and names of columns, are texts in a spreadsheet too; numbers stay numbers.

    An apostrophe before what looks like a formula, at the start or behind a separator of other regions, makes
    spreadsheets show it instead of computing it; carriage returns are written as ``\r``.

    Examples
    --------
    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"@day": ["=1+1", "monday"], "gap": [-0.5, 0.25]})).to_csv(index=False)
    "'@day,gap\n'=1+1,-0.5\nmonday,0.25\n"
    >>> without_formulas(pd.DataFrame({"day": ["a;=1+1", " =1"]}))["day"].tolist()
    ["a;'=1+1", "' =1"]
    """
    made = frame.copy()
    for name, column in frame.items():
        if column.dtype.kind not in "fiubcmM":
            made[name] = column.astype(object).map(_text)
    return made.rename(columns=_text)


def _text(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # Readers begin a line at a carriage return that is not between quotes, and pandas puts none around it.
    cell = cell.replace("\r", "\\r")
    return _FORMULA.sub("'", cell)
