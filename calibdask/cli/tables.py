"""Results for people and for programs: a table that fits a terminal, and JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xarray as xr

from calibdask.cli.terminals import is_encodable
from calibdask.engine.row_notes import EXCLUDED_ROWS, NEGATIVE_LABELS
from calibdask.plot.style import OVER, UNDER
from calibdask.render.text_layout import Line, asides
from calibdask.render.text_table import foot_lines, result_lines
from calibdask.results.build import METRICS_LEFT_OUT
from calibdask.results.format import plain
from calibdask.results.values import BEHIND, PartResult, Results
from calibdask.safe_text import visible

# Of the JSON; it grows when what programs may rely on changes, and what is only added does not count.
_FORMAT = 2
# What is said once for all metrics, where it applies.
_HEAD = (
    *("rows", "passes", "calibdask_version", "map", "ci", "n_boot", "seed"),
    *("score_cautions", "conventions", METRICS_LEFT_OUT, NEGATIVE_LABELS, *EXCLUDED_ROWS),
)
_WIDTH = 100
_STYLES = {"": "", "head": "bold", "aside": "dim", "over": OVER, "under": UNDER}


def console(*, stderr: bool = False) -> Any:
    """A console no wider than 100 columns; colours only on a terminal."""
    from rich.console import Console

    class PipeConsole(Console):
        """Raises when nobody reads the output, in place of ending the program with status 1."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704

    made = PipeConsole(stderr=stderr, highlight=False)
    made.width = min(_WIDTH, made.width) if made.is_terminal else _WIDTH
    return made


def as_json(dataset: xr.Dataset, metrics: Iterable[str], strata: Sequence[int] | None = None) -> str:
    """The result as JSON text, in the form that ``calibdask evaluate --help`` promises; ``strata`` chooses slices."""
    results = Results(dataset)
    metrics = list(metrics)
    described = metric_values(dataset, metrics)
    slices = []
    if results.shared_dims:
        described = {name: _described(results.of(name)) for name in metrics}
        every = list(results.strata())
        for at, labels in every if strata is None else [every[place] for place in strata]:
            values = {name: _values(results.of(name), at) for name in metrics}
            by = {dim: plain(label) for dim, label in labels.items()}
            slices.append({"by": by, **_totals(results, at), "metrics": values})
    head: dict[str, Any] = {"format": _FORMAT}
    head |= {name: plain(dataset.attrs[name]) for name in _HEAD if name in dataset.attrs}
    if not results.shared_dims:
        # Rows of weight 0 are among those of the head.
        head |= {name: value for name, value in _totals(results, {}).items() if name != "rows"}
    return json_text({**head, "metrics": described, "slices": slices})


def json_text(document: Any) -> str:
    r"""A document as JSON, in which characters that do not show, or that stdout cannot encode, are escaped.

    Examples
    --------
    >>> json_text(["caf\xe9", "\x7f"]).isascii(), json_text("\x7f")
    (False, '"\\u007f"')
    """
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    if text.replace("\n", "").isprintable() and is_encodable(text):
        return text
    shows = {sign: sign == "\n" or (sign.isprintable() and is_encodable(sign)) for sign in set(text)}
    return "".join(sign if shows[sign] else json.dumps(sign)[1:-1] for sign in text)


def metric_values(dataset: xr.Dataset, metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Numbers of each metric of a dataset without slices, with their descriptions."""
    results = Results(dataset)
    return {name: {**_values(results.of(name), {}), **_described(results.of(name))} for name in metrics}


def show(
    dataset: xr.Dataset,
    out: Any,
    *,
    seconds: float | None = None,
    title: str = "",
    strata: Sequence[int] | None = None,
    order: str = "",
    classes: int | None = None,
) -> None:
    """Print a result: a line for each number, or with slices a line for each slice and a column for each number.

    ``order`` says what chosen slices are ordered by; ``classes`` is the number of classes of metrics that have many.
    """
    if title:
        out.print(visible(title), style="bold", markup=False)
    rest = "; --out gives them all." if strata is not None else "; --out or --json give them all."
    most = {} if classes is None else {"classes": classes}
    print_lines(result_lines(dataset, out.width, rule=rule_of(out), rest=rest, strata=strata, **most), out)
    if order:
        print_lines(asides(order, out.width), out)
    further = () if seconds is None else (f"{seconds:.2f} s",)
    print_lines([(), *foot_lines(dataset, out.width, *further)], out)


def print_lines(lines: Iterable[Line], out: Any) -> None:
    """Print lines that fit, with the styles that a console has for their parts."""
    from rich.text import Text

    errors = getattr(out.file, "errors", None)
    errors = "replace" if errors in (None, "strict") else errors
    for line in lines:
        # A console whose encoding lacks a character must not fail for it.
        texts = (
            (visible(text).encode(out.encoding, errors).decode(out.encoding), _STYLES[role]) for text, role in line
        )
        shown = Text.assemble(*texts)
        shown.rstrip()
        out.print(shown, soft_wrap=True)


def print_document(document: Any) -> None:
    """Character that draws lines."""
    from calibdask.render.text import document_lines

    terminal = console()
    print_lines(document_lines(document, terminal.width, rule_of(terminal)), terminal)


def rule_of(out: Any) -> str:
    """What lines are drawn with."""
    return "─" if has_signs(out) else "-"


def has_signs(out: Any) -> bool:
    """Whether the console has lines, blocks and other signs beyond letters."""
    return str(out.encoding).lower().replace("-", "").startswith("utf")


def _totals(results: Results, at: Mapping[str, int]) -> dict[str, Any]:
    """Rows, events, mean score and frequency of a slice."""
    return {
        name: plain(total.isel({dim: i for dim, i in at.items() if dim in total.dims}).values)
        for name, total in results.totals.items()
    }


def _values(parts: Sequence[PartResult], at: Mapping[Any, int]) -> dict[str, Any]:
    """The numbers of a metric in a slice, those that bound others last."""
    here = [part.at(at) for part in parts]
    values = {part.part or "value": plain(part.values.values) for part in here}
    bounds = {
        "_".join(filter(None, (part.part, bound))): plain(variable.values)
        for part in here
        for bound, variable in part.bounds.items()
    }
    return {**values, **bounds}


def _described(parts: Sequence[PartResult]) -> dict[str, Any]:
    """Description of a metric and of each of its numbers; a single number needs no name."""
    if not parts:
        return {}
    first = min(parts, key=lambda part: part.part != "")
    # The rows behind a number are no number that needs words of its own.
    parts = [part for part in parts if (part.part, part.kind) != BEHIND]
    notes = {
        "kind": {part.part or "value": part.kind for part in parts},
        "direction": {part.part or "value": part.direction for part in parts if part.direction},
        "meaning": {part.part or "value": part.meaning for part in parts if part.meaning},
    }
    described = {
        "estimator": first.estimator,
        **{name: plain(value) for name, value in first.notes.items()},
        "label": first.label,
        "definition": first.definition,
        "setting": first.setting,
        **{name: words["value"] if list(words) == ["value"] else words for name, words in notes.items()},
    }
    return {name: value for name, value in described.items() if value not in ("", {})}
