"""Warnings while a report is measured: kept for the page, or not shown."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about single slices: the report says which of them are small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextmanager
def noting(noted: list[warnings.WarningMessage]) -> Iterator[None]:
    """Keep warnings for the page, and pass them on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        noted.append(warning)
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def sentences(noted: Sequence[warnings.WarningMessage], category: type[Warning]) -> tuple[str, ...]:
    """The messages of warnings of one category, each once."""
    return tuple(dict.fromkeys(" ".join(str(one.message).split()) for one in noted if one.category is category))
