"""Options of ``calibdask summarize --append``: store, period, replacement, merging."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.safe_text import listed, visible, visible_address

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.period_log import Label
    from calibdask.storage.period_store import PeriodStore

COARSER = ("day", "month", "year")
# Exit status of a recovery without some of what was appended.
INCOMPLETE = 3


@dataclass(frozen=True, kw_only=True)
class PeriodRequest:
    """The options of periods, as they were given."""

    append: str | None
    period: str | None
    replace: bool
    reason: str | None
    expire: str | None
    into: str | None
    drop: tuple[str, ...] = ()
    recover: bool = False

    def check(self, data: tuple[str, ...], out: str | None, *, overwrite: bool) -> None:
        """Raise UsageError for options that do not go together."""
        if out is not None and self.append is not None:
            raise click.UsageError("--out writes a summary, --append adds to one: give only one of them.")
        alone = bool(self.expire or self.drop or self.recover)
        if not data and (self.append is None or self.period or not alone):
            raise click.UsageError(
                "Missing argument 'DATA...'; without it --append expects --expire, --drop or --recover."
            )
        if self.drop and (data or self.replace or self.expire):
            raise click.UsageError("--drop removes periods, and expects --append and --reason alone.")
        if self.recover and (data or self.replace or self.expire or self.drop):
            raise click.UsageError("--recover mends a damaged log, and expects --append and --reason alone.")
        if self.append is None:
            if out is None:
                raise click.UsageError("Missing option '--out', or '--append' to add a period to a summary.")
            given: dict[str, Any] = {"--period NAME=LABEL": self.period is not None and self.column is None}
            given |= {"--replace": self.replace, "--reason": self.reason}
            given |= {"--expire": self.expire, "--into": self.into, "--drop": self.drop}
            given["--recover"] = self.recover
            if unused := [option for option, value in given.items() if value]:
                raise click.UsageError(f"{listed(unused)} has no effect without --append.")
            return
        if overwrite:
            raise click.UsageError(
                "--overwrite has no effect on --append; give --replace --reason TEXT for one period."
            )
        if (self.replace or self.recover or bool(self.drop)) != bool(self.reason):
            raise click.UsageError(
                "--replace, --drop and --recover require a --reason, which is stored; --reason requires one of them."
            )
        if self.into and not self.expire:
            raise click.UsageError("--into has no effect without --expire.")
        if data and not self.period:
            raise click.UsageError("--append expects the --period that DATA is of, such as day=2026-11-22.")

    @property
    def column(self) -> str | None:
        """The column whose values are periods, if DATA is of several."""
        return None if self.period is None or "=" in self.period else self.period

    def cuts(self) -> "xr.Dataset | None":
        """An existing summary with features, whose cuts new periods must use; None without features."""
        from calibdask.storage.period_store import PeriodStore

        if self.append is None:
            return None
        store = PeriodStore.at(self.append)
        there = store.readable(store.log(recover=self.replace), self._replaced)
        return None if there is None or there.cuts is None else there.dataset

    def check_new(self) -> None:
        """Raise ValueError, before any rows are read, if the period is there already."""
        from calibdask.storage.period_labels import as_label
        from calibdask.storage.period_store import PeriodStore

        store = PeriodStore.at(str(self.append))
        name, label = self._named()
        labels = [] if label is None else [as_label(name, label)]
        store.check_new(store.log(recover=self.replace), name, labels, replacing=self.replace)

    def add(self, summary: "xr.Dataset", described: str) -> None:
        """Append the summary and print a confirmation."""
        import calibdask as cd
        from calibdask.storage.period_labels import labels_of
        from calibdask.storage.period_store import PeriodStore

        name, label = self._named()
        with shown_warnings():
            period: str | Mapping[str, Any] = name if label is None else {name: label}
            cd.append(summary, str(self.append), period, replace=self.reason)
        stored = PeriodStore.at(str(self.append)).log(recover=True).periods
        labels = labels_of(name, summary[name].values, stored) if label is None else [label]
        self._say(
            f"{'put' if self.replace else 'added'} {name} {listed(labels)} {'in' if self.replace else ''}to", described
        )

    def change_old(self) -> None:
        """Remove periods, merge old ones, or recover a damaged log, and print a confirmation."""
        if self.recover:
            self._recover()
            return
        if not self.drop:
            self.merge_old()
            return
        import calibdask as cd
        from calibdask.storage.period_store import PeriodStore

        has_texts = self._has_texts(PeriodStore.at(str(self.append)))
        labels = [int(text) if text.isdecimal() and not has_texts else text for text in self.drop]
        with shown_warnings():
            cd.drop_periods(str(self.append), labels, str(self.reason))
        self._say(f"removed {listed(labels)} from")

    def _recover(self) -> None:
        import calibdask as cd
        from calibdask.results.format import counted

        found = cd.recover_periods(str(self.append), str(self.reason))
        if not found["damaged"]:
            self._say("nothing to recover: the log is intact in")
            return
        details = {
            "damaged": found["damaged"],
            "state of": [found["date"]],
            "undone changes of": found["undone"],
            "left out, as their numbers are damaged": found["missing"],
            "files that are not part of this state": found["lost"],
            "periods now": found["periods"],
        }
        words = "; ".join(f"{name}: {listed(values)}" for name, values in details.items() if values)
        self._say(f"recovered {counted(len(found['periods']), 'period')} in", words)
        if found["undone"] or found["missing"] or found["lost"]:
            click.get_current_context().exit(INCOMPLETE)

    def merge_old(self) -> None:
        """Merge old periods and print a confirmation."""
        import calibdask as cd

        with shown_warnings():
            merged = cd.expire(str(self.append), str(self.expire), self.into or "month")
        count = sum(map(len, merged.values()))
        coarser = self.into or "month"
        self._say(
            f"merged {count} periods into {listed(merged)} in"
            if merged
            else f"nothing to merge: no {coarser} ended {self.expire} before the latest period in"
        )

    def _named(self) -> "tuple[str, Label | None]":
        """The name of the period and its label: whole numbers are numbers, unless the store has texts."""
        name, equals, text = str(self.period).partition("=")
        if not name or (equals and not text):
            raise click.UsageError(f"--period expects NAME=LABEL, or the NAME of a column, got {self.period!r}.")
        if not equals:
            return name, None
        from calibdask.storage.period_store import PeriodStore

        has_texts = self._has_texts(PeriodStore.at(str(self.append)))
        return name, int(text) if text.isdecimal() and not has_texts else text

    @property
    def _replaced(self) -> "list[Label]":
        """The period that is put in the place of one that is there, if it is named."""
        label = self._named()[1] if self.replace else None
        return [] if label is None else [label]

    def _has_texts(self, store: "PeriodStore") -> bool:
        recover = self.replace or bool(self.drop)
        return any(isinstance(label, str) for label in store.log(recover=recover).periods)

    def _say(self, *parts: str) -> None:
        said, *more = parts
        click.echo(visible(": ".join([f"{said} {visible_address(str(self.append))}", *more])))
