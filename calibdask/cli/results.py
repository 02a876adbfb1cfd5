"""Files that results are written to."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibdask.engine.writers import Output

__all__ = ["RESULTS", "write_result"]

RESULTS = (".json", ".csv", ".nc", ".zarr")


def write_result(figures: Any, text: str, written: ExitStack, path: "Output") -> None:
    """Write a dataset, or the text that says the same, by the name of the file; it appears when ``written`` closes."""
    from calibdask.engine.writers import replacing, write_dataset

    part = written.enter_context(replacing(path))
    if path.suffix.lower() == ".json":
        part.write_text(text + "\n", encoding="utf-8")
    else:
        write_dataset(figures, part)
