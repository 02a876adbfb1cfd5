"""A choice of an estimator as text gives it: which values it may have."""

import re
from dataclasses import dataclass
from typing import Any

# ``largest-2`` is cd.Lens.largest(2).
_LARGEST = re.compile(r"largest-(\d+)")
_NUMBERS = {
    frozenset({"int"}): "a whole number",
    frozenset({"float"}): "a number",
    frozenset({"int", "float"}): "a number",
}


@dataclass(frozen=True)
class Choice:
    """An option of an estimator and its allowed values.

    Parameters
    ----------
    name : str
        Name of the field.
    kinds : set of str
        ``int``, ``float``, ``bool``, ``none``, ``list``, ``metric``, ``metrics`` (by name), ``lens``, ``texts``,
        ``word`` (any text that ``words`` has), ``any`` (numbers, and lists of these).
    words : tuple of str
        The words that it may be.
    default : any
        Its default.
    description : str
        What its class says of it.
    placeholder : str
        What stands for a value in help texts; by default derived from the kinds.
    """

    name: str
    kinds: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    default: Any = None
    description: str = ""
    placeholder: str = ""

    def __or__(self, other: "Choice") -> "Choice":
        """Union of the values that two estimators allow, with the first description."""
        words = tuple(dict.fromkeys((*self.words, *other.words)))
        default = self.default if self.default == other.default else None
        return Choice(self.name, self.kinds | other.kinds, words, default, self.description or other.description)

    @property
    def is_flag(self) -> bool:
        """Whether it is yes or no."""
        return self.kinds == {"bool"}

    @property
    def is_text(self) -> bool:
        """Whether it is any text, also one that looks like a number."""
        return not self.words and self.kinds - {"none"} == {"word"}

    @property
    def takes_lists(self) -> bool:
        """Whether it may be several numbers."""
        return "list" in self.kinds or ("any" in self.kinds and not self.words)

    @property
    def expected(self) -> str:
        """Description of the allowed values.

        Examples
        --------
        >>> Choice("bins", frozenset({"int", "list", "none"}), ("sqrt",)).expected
        'sqrt, a whole number or a list such as [0, 0.5, 1]'
        """
        lens = ["largest-K"] if "lens" in self.kinds else []
        number = _NUMBERS.get(self.kinds & {"int", "float"}, "a number" if "any" in self.kinds else "")
        if self.name == "setting" and number:
            number = "the number of a class"
        sequence = "a list such as [0, 0.5, 1]" if self.takes_lists else ""
        metric = "a metric such as ece(bins=10)" if "metric" in self.kinds else ""
        flag = "true or false" if "bool" in self.kinds else ""
        return listed([*self.words, *lens, *filter(None, (number, sequence, metric, flag))])

    def accepts(self, value: Any) -> bool:
        """Whether this value is of a kind that it may be, or one of its words."""
        if value is None:
            return "none" in self.kinds
        if isinstance(value, bool):
            return "bool" in self.kinds
        if isinstance(value, int | float):
            return bool(self.kinds & {"float", "any"}) or ("int" in self.kinds and isinstance(value, int))
        if isinstance(value, tuple):
            return self.takes_lists and _are_numbers(value)
        if isinstance(value, str):
            lens = "lens" in self.kinds and _LARGEST.fullmatch(value) is not None
            # Where no words are declared, whatever the estimator knows.
            return value in self.words or lens or ("word" in self.kinds and not self.words)
        return "metric" in self.kinds

    def converted(self, value: Any) -> Any:
        """The value with numbers of the type that the field has."""
        if isinstance(value, tuple):
            return _floats(value)
        if isinstance(value, int) and not isinstance(value, bool) and {"float", "int"} & self.kinds == {"float"}:
            return float(value)
        return value

    def made(self, value: Any) -> Any:
        """Convert a value for the estimator; the name of a lens becomes the lens."""
        largest = _LARGEST.fullmatch(value) if isinstance(value, str) else None
        if largest is None:
            return self.converted(value)
        from calibdask.statistics.views.lens import Lens

        return Lens.largest(int(largest[1]))


def listed(words: list[str], last: str = "or") -> str:
    """Words with commas, and another word before the last one.

    Examples
    --------
    >>> listed(["l1", "l2", "max"])
    'l1, l2 or max'
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _are_numbers(values: tuple[Any, ...]) -> bool:
    return all(
        _are_numbers(value)
        if isinstance(value, tuple)
        else isinstance(value, int | float) and not isinstance(value, bool)
        for value in values
    )


def _floats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_floats(value) if isinstance(value, tuple) else float(value) for value in values)
