"""A gate in words: text, Markdown for a pull request, JUnit XML for build servers, plain values for JSON."""

import math
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from calibdask.analyses.gating.check import Gate
from calibdask.analyses.gating.judging import Judgement
from calibdask.analyses.gating.profiles import profile_of
from calibdask.markup import in_markdown
from calibdask.results.cautions import of_metrics
from calibdask.results.decisions import OUTCOMES, Outcome
from calibdask.results.format import counted, figure
from calibdask.results.values import Results
from calibdask.safe_text import visible

FORMAT = 1
# Of a number that is next to its limit nobody waits for so many rows.
_MOST_TIMES, _MANY = 100, 1e7
WORDS: dict[Outcome, str] = {"met": "met", "broken": "BROKEN", "cannot be decided": "undecided"}
_MARKS: dict[Outcome, str] = {"met": "✅ met", "broken": "❌ broken", "cannot be decided": "❔ undecided"}
_HEAD = ("limit", "where", "rows", "number", "interval", "accepted", "decision")


def headline(gate: Gate) -> str:
    """The outcome in a line.

    Examples
    --------
    >>> from calibdask.analyses.gating.check import check
    >>> headline(check([0, 1] * 8, [0.4, 0.6] * 8, {"ece": 0.03}))
    'Undecided: the one limit cannot be decided with 16 rows.'
    """
    broken, undecided, every = (len(gate.of("broken")), len(gate.of("cannot be decided")), len(gate.judgements))
    rows = ", ".join(filter(None, (counted(gate.rows, "row"), gate.population)))
    if not every:
        return f"No limits: nothing is decided of {rows}."
    if broken:
        return f"Broken: {broken} of {counted(every, 'limit')}, with {rows}."
    if undecided and every == 1:
        return f"Undecided: the one limit cannot be decided with {rows}."
    if undecided:
        return f"Undecided: none of {counted(every, 'limit')} is broken, {undecided} cannot be decided with {rows}."
    return f"Met: {'the one limit' if every == 1 else f'all {every} limits'}, with {rows}."


def sentence(judgement: Judgement) -> str:
    """One judgement in a sentence.

    Examples
    --------
    >>> sentence(Judgement("ece", -0.03, 0.03, {"c": "a"}, 0.05, 0.04, 0.06, 1000.0))
    'c=a: ece 0.0500 (0.0400 to 0.0600) is outside the limit of 0.03'
    """
    verb = {"met": "is within", "broken": "is outside", "cannot be decided": "may be within or outside"}
    needed = f" ({judgement.reason})" if judgement.reason else ""
    if math.isfinite(judgement.rows_needed):
        needed += f"; {_rows_needed(judgement)}"
    interval = f" ({interval_text(judgement)})" if math.isfinite(judgement.low) else ", without an interval,"
    return (
        f"{judgement.place}: {judgement.name} {figure(judgement.value)}{interval} {verb[judgement.outcome]} "
        f"the limit of {accepted(judgement)}{needed}"
    )


def _rows_needed(judgement: Judgement) -> str:
    """How many rows would decide it, in three digits: nobody knows more of them; and how."""
    number = f"about {float(f'{judgement.rows_needed:.3g}'):,.0f}"
    if judgement.rows_needed > max(_MOST_TIMES * judgement.rows, _MANY):
        number = f"more than {_MOST_TIMES} times as many"
    rows = "rows of this slice" if judgement.where else "rows in all"
    if judgement.leaning == "cannot be decided":
        return f"{number} {rows} would decide it"
    return f"{number} {rows} would show it to be {judgement.leaning}, if the number stays what it is"


def interval_text(judgement: Judgement) -> str:
    """The ends that decide."""
    if math.isnan(judgement.low) or math.isnan(judgement.high):
        return "none"
    return f"{figure(judgement.low)} to {figure(judgement.high)}"


def accepted(judgement: Judgement) -> str:
    """The values that keep the limit."""
    least, most = (f"{end:g}".replace("-", "−") for end in (judgement.least, judgement.most))
    if math.isinf(judgement.least):
        return f"at most {most}"
    if math.isinf(judgement.most):
        return f"at least {least}"
    return most if judgement.least == -judgement.most else f"{least} to {most}"


def rows_of_table(gate: Gate) -> Iterator[tuple[str, ...]]:
    """A row for each judgement, the worst first."""
    for judgement in _worst_first(gate):
        rows = "–" if math.isnan(judgement.rows) else f"{judgement.rows:,.0f}"
        yield (
            judgement.name,
            judgement.place,
            rows,
            figure(judgement.value),
            interval_text(judgement),
            accepted(judgement),
            WORDS[judgement.outcome],
        )


def text_lines(gate: Gate) -> Iterator[str]:
    """A table for a terminal, what is wanting, and the numbers of the profile."""
    rows = [_HEAD, *rows_of_table(gate)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield headline(gate)
    if gate.judgements:
        yield level_text(gate)
    yield from (f"  {line}" for line in (*wanting(gate), *cautions(gate)))
    if gate.profile:
        yield ""
        yield from _named_lines(gate)


def level_text(gate: Gate) -> str:
    """The level of the decisions."""
    slices = ", adjusted for the slices of its column (Bonferroni)" if gate.slices else ""
    return f"Each decision holds at {100 * gate.confidence:g} %{slices}."


def wanting(gate: Gate) -> Iterator[str]:
    """What the limits that cannot be decided want, a sentence each."""
    for judgement in gate.of("cannot be decided"):
        would = _rows_needed(judgement) if math.isfinite(judgement.rows_needed) else ""
        if words := "; ".join(filter(None, (judgement.reason, would))):
            yield f"{judgement.limit} of {judgement.place}: {words}."


def cautions(gate: Gate) -> Iterator[str]:
    """What makes the numbers of the limits and of the profile less than they seem, a sentence each."""
    own = dict.fromkeys(of_metrics(Results(gate.result).numbers))
    yield from own
    for column, result in gate.slices.items():
        yield from (f"By {column}: {line}" for line in of_metrics(Results(result).numbers) if line not in own)


def named_rows(gate: Gate) -> Iterator[tuple[str, str, str]]:
    """The numbers of the profile: name, number, interval."""
    return ((one.name, one.text, one.ends) for one in profile_of(gate.profile).numbers(gate.result))


def _named_lines(gate: Gate) -> Iterator[str]:
    profile = profile_of(gate.profile)
    rows = [(profile.title, "number", f"{100 * gate.confidence:g} % interval"), *named_rows(gate)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
    if profile.note:
        yield profile.note


def markdown(gate: Gate, title: str) -> str:
    """A comment for a pull request."""
    lines = [f"### {in_markdown(title)}", "", f"**{headline(gate)}**", "", _line(_HEAD), _line(("---",) * len(_HEAD))]
    for row, judgement in zip(rows_of_table(gate), _worst_first(gate), strict=True):
        lines.append(_line((*map(in_markdown, row[:-1]), _MARKS[judgement.outcome])))
    lines += ["", level_text(gate)]
    notes = [*wanting(gate), *cautions(gate)]
    lines += ["", *(f"- {in_markdown(line)}" for line in notes)] if notes else []
    if gate.profile:
        interval = f"{100 * gate.confidence:g} % interval"
        lines += [
            "",
            _line((in_markdown(profile_of(gate.profile).title), "number", interval)),
            _line(("---",) * 3),
        ]
        lines += [_line((in_markdown(name), number, ends)) for name, number, ends in named_rows(gate)]
    return "\n".join(lines) + "\n"


def _worst_first(gate: Gate) -> list[Judgement]:
    return sorted(gate.judgements, key=lambda judgement: OUTCOMES.index(judgement.outcome))


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def junit(gate: Gate, title: str) -> str:
    """One test case for each judgement; what is broken, or cannot be decided, is a failure of that type."""
    failures = len(gate.judgements) - len(gate.of("met"))
    numbers = {"tests": str(len(gate.judgements)), "failures": str(failures), "errors": "0", "skipped": "0"}
    title = visible(title)
    suite = ElementTree.Element("testsuite", {"name": title, **numbers})
    for judgement in gate.judgements:
        name = visible(f"{judgement.limit} of {judgement.place}")
        case = ElementTree.SubElement(suite, "testcase", {"classname": title, "name": name})
        if judgement.outcome != "met":
            kind = WORDS[judgement.outcome].lower()
            failure = ElementTree.SubElement(case, "failure", {"type": kind, "message": visible(sentence(judgement))})
            failure.text = visible(judgement.meaning)
    if notes := "\n".join(visible(line) for line in cautions(gate)):
        ElementTree.SubElement(suite, "system-out").text = notes
    suites = ElementTree.Element("testsuites", numbers)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def plain(gate: Gate) -> dict[str, Any]:
    """Plain values for JSON; numbers that do not exist are null."""
    attributes = gate.result.attrs
    return {
        "format": FORMAT,
        "outcome": WORDS[gate.outcome].lower(),
        "rows": gate.rows,
        "rows_skipped": int(attributes.get("rows_skipped", 0)),
        "population": gate.population or "in the sample",
        "confidence": gate.confidence,
        "profile": gate.profile,
        "calibdask_version": str(attributes["calibdask_version"]),
        "limits": [_plain(judgement) for judgement in gate.judgements],
        "cautions": list(cautions(gate)),
        "measured": {
            part.variable: _number(part.value().value)
            for part in Results(gate.result).numbers
            if not part.values.ndim and not part.metric.startswith("evidence of ")
        },
    }


def _plain(judgement: Judgement) -> dict[str, Any]:
    numbers = {
        name: _number(getattr(judgement, name))
        for name in ("value", "low", "high", "least", "most", "rows", "rows_needed")
    }
    notes = {"scope": judgement.scope, "decision": WORDS[judgement.outcome].lower(), "reason": judgement.reason}
    return {"limit": judgement.limit, "where": dict(judgement.where), **numbers, **notes}


def _number(value: Any) -> float | int | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) >= 1 else number
