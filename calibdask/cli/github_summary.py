"""``--github``: results as Markdown on the summary page of a GitHub Actions job."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

VARIABLE = "GITHUB_STEP_SUMMARY"
# GitHub drops the whole summary of a step that is longer than 1 MiB.
_MOST_BYTES = 1024 * 1024

github_option: Callable[[Any], Any] = click.option(
    "--github", is_flag=True, help="Append the result to the summary of a GitHub Actions job."
)


@dataclass(frozen=True)
class GithubSummary:
    """The file to which GitHub Actions takes the summary of a step; None without ``--github``."""

    path: Path | None = None

    @classmethod
    def asked(cls, github: bool) -> "GithubSummary":
        """The file that GitHub Actions names, checked before the work.

        Raises
        ------
        click.UsageError
            If it names none, or a folder that does not exist.
        """
        if not github:
            return cls()
        named = os.environ.get(VARIABLE)
        if not named:
            raise click.UsageError(
                f"--github expects the environment variable {VARIABLE}, which GitHub Actions sets; elsewhere write "
                "Markdown by --out FILE.md."
            )
        path = Path(named)
        if not path.parent.is_dir():
            raise click.UsageError(f"--github: the folder of {VARIABLE}, {path.parent}, does not exist.")
        return cls(path)

    def append(self, markdown: Callable[[], str]) -> None:
        """Append the Markdown; of a text that is too long for GitHub the first lines, and a sentence."""
        if self.path is None:
            return
        text = markdown().rstrip("\n") + "\n\n"
        room = _MOST_BYTES - (self.path.stat().st_size if self.path.exists() else 0)
        if len(text.encode()) > room:
            note = "\n\nThe rest is too long for a job summary; --out FILE writes all.\n\n"
            if room < len(note):
                # GitHub shows nothing of a file that is too long, earlier steps included.
                return
            kept = text.encode()[: room - len(note)].decode(errors="ignore").rpartition("\n")[0]
            text = kept + note
        with self.path.open("a", encoding="utf-8") as summary:
            summary.write(text)
