"""A choice among more labels than a browser should be sent: some of them at a time, found by a part of their text."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from calibdask.explore.html_widgets import multi_choice

# Labels that are offered at a time.
_MOST_OFFERED = 50


class LongChoice:
    """A box of chosen labels, which has few of many options, and one that finds others.

    Parameters
    ----------
    label : str
    options : mapping from str to int
        All labels with their positions from 0.
    """

    def __init__(self, label: str, options: Mapping[str, int], **look: Any) -> None:
        import panel as pn

        self._options, self._texts = options, list(options)
        self.box: Any = multi_choice(
            dict(islice(options.items(), _MOST_OFFERED)),
            label=label,
            placeholder=f"all {len(options):,}",
            option_limit=_MOST_OFFERED,
            search_option_limit=_MOST_OFFERED,
            **look,
        )
        # What links name, and what has to be done before a value is set, see `explore.url_state`.
        vars(self.box).update(all_options=options, offer=self.offer)
        self.find = pn.widgets.TextInput(label=f"{label}: find", placeholder="part of a label", **look)
        self.find.param.watch(lambda event: self._offer_matches(str(event.new)), "value_input")

    def offer(self, positions: Iterable[int]) -> None:
        """Make options of labels, so that they can be chosen."""
        missing = {self._texts[position]: position for position in positions} | dict(self.box.options)
        if len(missing) > len(self.box.options):
            self.box.options = missing

    def _offer_matches(self, text: str) -> None:
        words = text.casefold()
        found = islice((label for label in self._texts if words in label.casefold()), _MOST_OFFERED)
        # Options that go take their values with them.
        chosen = [self._texts[position] for position in self.box.value]
        self.box.options = {label: self._options[label] for label in (*chosen, *found)}
