"""The tables of metrics on the pages are those of the classes."""

import sys

from calibdask.estimators.signatures import signatures
from tests.docs.test_docs import DOCS

sys.path.append(str(DOCS))

from metric_tables import PAGE, with_tables  # type: ignore[import-not-found]


def test_tables_are_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run python deploy/docs/metric_tables.py"
    for word, signature in signatures().items():
        assert text.count(f"| `{signature.public}` | `{word}` |") == 1
