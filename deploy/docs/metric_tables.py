"""The tables of ``metrics.md``, made from the classes: ``python deploy/docs/metric_tables.py`` writes them anew."""

import re
from pathlib import Path

from calibdask.estimators.signatures import CallSignature, signatures
from calibdask.statistics.layout import Layout

PAGE = Path(__file__).with_name("metrics.md")
# A table stands between two comments; the first has the kinds of what it lists.
_TABLE = re.compile(r"(<!-- metrics: ([a-z, ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| metric | at the shell | what it is | choices |\n|---|---|---|---|\n"
_LAYOUT = Layout(classes=3, vector=False)


def with_tables(text: str) -> str:
    """The page with tables as the classes have them."""
    return _TABLE.sub(lambda match: match[1] + _table(match[2].split(", ")) + match[3], text)


def _table(kinds: list[str]) -> str:
    return _HEAD + "".join(_row(signature) for signature in signatures().values() if _kind(signature) in kinds)


def _row(signature: CallSignature) -> str:
    summary = signature.summary.replace("``", "`").removesuffix(".").replace("|", r"\|")
    choices = ", ".join(f"`{name}`" for name in signature.choices)
    return f"| `{signature.public}` | `{signature.keyword}` | {summary} | {choices} |\n"


def _kind(signature: CallSignature) -> str | None:
    """That of the first part of the estimate; test for tests."""
    estimator = signature.constructor()
    parts = list(estimator.describe(_LAYOUT).values())
    return "test" if estimator.is_test(_LAYOUT) else parts[0].kind


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
