"""Which columns hold labels and scores: those that are named, or else those with common names."""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calibdask.safe_text import visible

__all__ = [
    "NAMING",
    "ColumnNames",
    "choose_arrays",
    "choose_columns",
    "common_name",
    "listed",
    "score_columns",
    "unknown",
]

# Names that are taken for labels and scores where none are given, in any case of letters.
_LABELS = {"label", "labels", "y_true", "y", "y_test", "target", "targets", "outcome", "true_label", "ground_truth"}
_SCORES = {"score", "scores", "y_prob", "y_score", "y_proba", "prob", "probs", "proba", "probability", "p"}
# How many names a message lists.
_SHOWN = 20

# How to mend a wrong guess or a wrong name.
NAMING = "Name the columns by --label and --score, in Python by label= and score=."


@dataclass(frozen=True)
class ColumnNames:
    """The columns to read.

    Attributes
    ----------
    label : str
    scores : tuple of str
        One column of P(y = 1), or one for each class, in their order.
    classes : tuple of str or None
        Names of the classes: of columns that the user listed.
    guess : str
        A sentence about what was taken for labels and scores because of its name; empty without any.
    """

    label: Any
    scores: tuple[Any, ...]
    classes: tuple[Any, ...] | None = None
    guess: str = ""


def choose_columns(
    there: Iterable[Any], label: Any, score: Any, where: str, *, used: Collection[Any] = ()
) -> ColumnNames:
    """The columns of labels and scores among ``there``.

    Parameters
    ----------
    there : iterable of names
    label : name, optional
    score : name or sequence of names, optional
        One name stands for that column, or for the columns ``<score>_0``, ``<score>_1``, ...
    where : str
        What messages call the container.
    used : collection of names
        Columns that serve as slices or weights.

    Raises
    ------
    ValueError
        If a name is not there, or several columns could be meant where none is named.

    Examples
    --------
    >>> choose_columns(["y_true", "prob", "country"], None, None, "rows.csv").scores
    ('prob',)
    """
    names = list(there)
    if label is not None and label not in names:
        raise unknown(where, "column", label, names, NAMING)
    listing = _listing(score, names)
    if listing is not None:
        absent = [name for name in listing if name not in names]
        if absent:
            raise unknown(where, "column", absent[0], names, NAMING)
        scores, classes = tuple(listing), tuple(listing) if len(listing) > 1 else None
    else:
        scores, classes = (), None
        if score is not None:
            scores = score_columns(names, score, where)
    taken = {*used, *scores}
    label_name = common_name(names, "label", "label", where, taken=taken) if label is None else label
    if not scores:
        scores = _common_scores(names, where, {*used, label_name})
    guess = _guess(
        where,
        None if label is not None or label_name == "label" else label_name,
        None if score is not None or str(scores[0]).startswith("score") else listed(scores),
    )
    return ColumnNames(label_name, scores, classes, guess)


def choose_arrays(
    there: Iterable[str], label: str | None, score: Any, where: str, kind: str, used: Collection[str]
) -> ColumnNames:
    """The arrays of labels and scores among ``there``, called ``labels`` and ``scores`` unless others are named.

    Raises
    ------
    ValueError
        If a name is not there, or several could be meant where none is named.
    """
    names = list(there)
    if not (score is None or isinstance(score, str)):
        raise ValueError(f"{where}: score expects the name of one {kind}, (n,) or (n, K), got {listed(score)}.")
    for name in (*([] if label is None else [label]), *([] if score is None else [score])):
        if name not in names:
            raise unknown(where, kind, name, names, NAMING.replace("columns", f"{kind}s"))
    taken = {*used, *([] if score is None else [score])}
    label_name = common_name(names, "labels", "label", where, kind, taken) if label is None else label
    score_name = common_name(names, "scores", "score", where, kind, {*used, label_name}) if score is None else score
    guess = _guess(
        where,
        None if label is not None or label_name == "labels" else label_name,
        None if score is not None or score_name == "scores" else repr(score_name),
    )
    return ColumnNames(label_name, (score_name,), guess=guess)


def _guess(where: str, label: Any, scores: str | None) -> str:
    """What was taken because of its name, in a sentence."""
    parts = [] if label is None else [f"labels from {label!r}"]
    parts += [] if scores is None else [f"scores from {scores}"]
    if not parts:
        return ""
    return f"{where}: read {' and '.join(parts)}, by their names; --label and --score (label=, score=) name others."


def _listing(score: Any, names: Sequence[Any]) -> list[Any] | None:
    """Columns that are listed one by one; at the shell between commas."""
    if isinstance(score, str) and "," in score and score not in names:
        return [name.strip() for name in score.split(",")]
    if score is None or isinstance(score, str) or not isinstance(score, Sequence):
        return None
    if not score:
        raise ValueError("score expects a column, or one column for each class, got an empty list.")
    if len(set(score)) != len(score):
        raise ValueError(f"score expects different columns, got {listed(score)}.")
    return list(score)


def common_name(
    names: Sequence[Any], own: str, role: str, where: str, kind: str = "column", taken: Collection[Any] = ()
) -> Any:
    """The name among these that usually stands for a role, ``"label"`` or ``"score"``; ``own`` goes before others."""
    if own in names and own not in taken:
        return own
    usual = _LABELS if role == "label" else _SCORES
    candidates = [name for name in names if str(name).lower() in usual and name not in taken]
    if len(candidates) > 1:
        raise _ambiguous(where, role, candidates, kind)
    if not candidates:
        raise unknown(where, kind, own, names, NAMING.replace("columns", f"{kind}s"))
    return candidates[0]


def score_columns(there: Iterable[Any], score: Any, url: str) -> tuple[Any, ...]:
    """The columns that hold the scores, in the order of the classes.

    Examples
    --------
    >>> score_columns(["score_0", "score_10", "score_1", "label"], "score", "rows.csv")
    Traceback (most recent call last):
    ValueError: rows.csv: score columns expect the numbers 0, 1, 2, ... without gaps, got score_0, score_1, score_10.
    """
    names = list(there)
    numbered = _numbered(names, score)
    shown = ", ".join(visible(name) for _, name in numbered[:_SHOWN]) + (", ..." if len(numbered) > _SHOWN else "")
    if score in names:
        if numbered:
            raise ValueError(
                f"{url} has both {score!r} and {shown}; drop one of the two, or name the scores otherwise."
            )
        return (score,)
    if not numbered:
        raise ValueError(
            f"{url} has neither a column {score!r} nor columns {score}_0, {score}_1, ...; {_nearest(score, names)} "
            f"{NAMING}"
        )
    if [number for number, _ in numbered] != list(range(len(numbered))):
        raise ValueError(f"{url}: score columns expect the numbers 0, 1, 2, ... without gaps, got {shown}.")
    if len(numbered) == 1:
        raise ValueError(f"{url} has scores of one class only, {shown}; call the column of P(y = 1) {score!r}.")
    return tuple(name for _, name in numbered)


def _numbered(names: Sequence[Any], stem: Any) -> list[tuple[int, str]]:
    matches = [(re.fullmatch(rf"{re.escape(str(stem))}_(\d+)", str(name)), name) for name in names]
    return sorted((int(match[1]), name) for match, name in matches if match)


def _common_scores(names: Sequence[Any], where: str, taken: Collection[Any]) -> tuple[Any, ...]:
    """Columns of scores, none of which was named: those called ``score`` go first."""
    free = [name for name in names if name not in taken]
    if "score" in free or _numbered(free, "score"):
        return score_columns(free, "score", where)
    groups: dict[str, list[tuple[int, Any]]] = {}
    for name in free:
        match = re.fullmatch(r"(\D*?)_?(\d+)", str(name))
        if match and match[1].lower() in _SCORES:
            groups.setdefault(match[1], []).append((int(match[2]), name))
    single = [(name,) for name in free if str(name).lower() in _SCORES]
    classwise = [
        tuple(name for _, name in sorted(group))
        for group in groups.values()
        if len(group) > 1 and sorted(number for number, _ in group) == list(range(len(group)))
    ]
    candidates = [*single, *classwise]
    if len(candidates) > 1:
        raise _ambiguous(where, "score", [group[0] if len(group) == 1 else f"{group[0]}, ..." for group in candidates])
    if not candidates:
        return score_columns(free, "score", where)
    return candidates[0]


def _ambiguous(where: str, role: str, candidates: Sequence[Any], kind: str = "column") -> ValueError:
    return ValueError(
        f"{where} has several {kind}s that may be the {role}s: {', '.join(map(repr, candidates))}. "
        f"{NAMING.replace('columns', f'{kind}s')}"
    )


def unknown(where: str, kind: str, name: Any, there: Iterable[Any], mend: str = "") -> ValueError:
    """The error about a name that is not there; lists those that are, the closest first."""
    return ValueError(f"{where} has no {kind} {name!r}; {_nearest(name, there)}{mend and ' '}{mend}")


def _nearest(name: Any, there: Iterable[Any]) -> str:
    """What there is in words, the closest first."""
    texts = list(map(str, there))
    lower = {text.lower(): text for text in texts}
    close = [lower[match] for match in difflib.get_close_matches(str(name).lower(), lower, n=3)]
    ordered = [*close, *(text for text in texts if text not in close)]
    shown = ", ".join(map(visible, ordered[:_SHOWN])) + (", ..." if len(ordered) > _SHOWN else "")
    return f"it has {shown or 'none'}."


def listed(names: Sequence[Any]) -> str:
    """Names in words, the first few."""
    few = ", ".join(map(repr, names[:3]))
    return f"{few}, ... ({len(names)} columns)" if len(names) > 3 else few
