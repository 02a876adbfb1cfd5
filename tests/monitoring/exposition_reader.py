"""A strict reader of gauges in text that is both version 0.0.4 of Prometheus' format and OpenMetrics."""

import math
import re
from collections.abc import Mapping

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,(?!\})|(?=\}))')
_SAMPLE = re.compile(rf"({_NAME})\{{(.*)\}} (\S+)")
_ESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


class Labels(dict[str, str]):
    """Labels of a sample, which tell it apart."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __lt__(self, other: "Labels") -> bool:
        return sorted(self.items()) < sorted(other.items())


def read_exposition(text: str) -> Mapping[str, dict[Labels, float]]:
    """The samples of each gauge; AssertionError where one of the two formats does not allow the text.

    Of OpenMetrics: ends in ``# EOF`` and a line feed, no empty line, HELP without quotation marks, samples right after
    the description of their family, of which there is one. Of both: no time stamps, no sample twice.
    """
    assert text.endswith("\n# EOF\n")
    families: dict[str, dict[Labels, float]] = {}
    lines = text.removesuffix("# EOF\n").splitlines()
    described = ""
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            described, words = line.removeprefix("# HELP ").split(" ", 1)
            assert re.fullmatch(_NAME, described)
            assert not re.search(r'["\\]', words)
            assert described not in families
            # Counters, infos and the like have names that differ between the two.
            assert not described.endswith(("_total", "_created", "_info", "_bucket", "_count", "_sum"))
            families[described] = {}
        elif line.startswith("# "):
            assert line == f"# TYPE {described} gauge"
            assert lines[number - 1].startswith(f"# HELP {described} ")
        else:
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] == described
            labels = read_labels(match[2])
            assert labels not in families[described]
            families[described][labels] = float(match[3])
            assert math.isfinite(float(match[3]))
    return families


def read_labels(text: str) -> Labels:
    """Labels between braces."""
    labels, at = Labels(), 0
    while at < len(text):
        match = _LABEL.match(text + "}", at)
        assert match is not None, text[at:]
        assert match[1] not in labels
        assert not match[1].startswith("__")
        labels[match[1]] = re.sub(r"\\.", lambda escaped: _ESCAPED[escaped[0]], match[2])
        at = match.end()
    return labels
