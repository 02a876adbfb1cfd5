"""Tables written as CSV."""

import csv
import io
from pathlib import Path
from typing import Any


def write_csv(table: Any, path: Path, *, has_names: bool) -> None:
    """Values between commas, in quotation marks only where they need them."""
    import pyarrow
    from pyarrow import csv as arrow

    options = arrow.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        if has_names:
            names = io.StringIO(newline="")
            csv.writer(names, lineterminator="\n").writerow(table.column_names)
            file.write(names.getvalue().encode())
        start = file.tell()
        try:
            arrow.write_csv(table, file, options)
        except pyarrow.ArrowInvalid:
            # Some need them; Arrow would put all texts between them.
            file.seek(start)
            file.truncate()
            texts = table.cast(pyarrow.schema([(name, pyarrow.string()) for name in table.column_names]))
            with io.TextIOWrapper(file, encoding="utf-8", newline="") as stream:
                rows = zip(*(column.to_pylist() for column in texts.columns), strict=True)
                csv.writer(stream, lineterminator="\n").writerows(rows)
