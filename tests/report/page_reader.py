"""What a page holds."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from calibdask.report import write_report


class Reader(HTMLParser):
    """What a page holds; raises where tags do not close in turn."""

    VOID = frozenset({"meta", "link", "circle", "line", "rect", "path", "polygon", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.numbers: list[float] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.numbers.append(float(dict(attrs)["value"]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.tags if name == tag and attributes.items() <= given.items()]


def scripts_allowed(html: str) -> bool:
    """Whether the page has no script, or the one that copies a command and that alone the page allows."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.S)
    given = html.count("<script")
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    return given == len(scripts) <= 1 and all(f"script-src 'sha256-{digest}'\">" in html for digest in digests)


def page_of(tmp_path: Path, results: Any, **options: Any) -> tuple[str, Reader]:
    write_report(tmp_path / "page.html", results, overwrite=True, **options)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    return html, Reader(html)
