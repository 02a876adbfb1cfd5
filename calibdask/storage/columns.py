"""Selection of label and score columns: by given names, or by common names."""

import difflib
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from calibdask.safe_text import visible

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
    labels : tuple of str
        One column of labels, or one for each class, in the order of the scores.
    scores : tuple of str
        One column of P(y = 1), or one for each class, in their order.
    classes : tuple of str or None
        Names of the classes: of columns that the user listed, or what a pattern's ``*`` stands for.
    guess : str
        A sentence about what was taken for labels and scores because of its name; empty without any.
    """

    labels: tuple[Any, ...]
    scores: tuple[Any, ...]
    classes: tuple[Any, ...] | None = None
    guess: str = ""

    @property
    def columns(self) -> tuple[Any, ...]:
        """All of them."""
        return (*self.labels, *self.scores)


def alike_classes(models: Mapping[Any, ColumnNames]) -> dict[Any, ColumnNames]:
    """The columns of several models; classes are their numbers where the models name them differently.

    Examples
    --------
    >>> models = {name: ColumnNames(("y",), (f"{name}_0", f"{name}_1"), (f"{name}_0", f"{name}_1")) for name in "ab"}
    >>> [names.classes for names in alike_classes(models).values()]
    [(0, 1), (0, 1)]
    """
    if len({names.classes for names in models.values()}) == 1:
        return dict(models)
    return {model: replace(names, classes=tuple(range(len(names.scores)))) for model, names in models.items()}


@dataclass(frozen=True)
class _Columns:
    """Columns of one role, and the names of classes that they carry."""

    names: tuple[Any, ...]
    classes: tuple[Any, ...] | None = None
    is_pattern: bool = False


def choose_columns(
    there: Iterable[Any], label: Any, score: Any, where: str, *, used: Collection[Any] = ()
) -> ColumnNames:
    """The columns of labels and scores among ``there``.

    Parameters
    ----------
    there : iterable of names
    label, score : name or sequence of names, optional
        One name stands for that column, or for the columns ``<name>_0``, ``<name>_1``, ...; one with a ``*`` for the
        columns that fit, which are then called by what it stands for.
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
    >>> choose_columns(["y_auk", "y_owl", "p_owl", "p_auk"], "y_*", "p_*", "rows.csv").labels
    ('y_owl', 'y_auk')
    """
    names = list(there)
    # Names that are wrong are said of the labels first.
    labels = None if label is None else _named(names, label, "label", where)
    scores = None if score is None else _named(names, score, "score", where)
    if labels is None:
        labels = _Columns(_common_columns(names, "label", where, used, () if scores is None else scores.names))
    if scores is None:
        scores = _Columns(_common_columns(names, "score", where, used, labels.names))
    guess = _guess(
        where,
        None if label is not None or re.fullmatch(r"label(_\d+)?", str(labels.names[0])) else listed(labels.names),
        None if score is not None or str(scores.names[0]).startswith("score") else listed(scores.names),
    )
    return ColumnNames(_in_order(labels, scores, where), scores.names, scores.classes, guess)


def choose_scores(
    there: Iterable[Any], label: Any, score: Any, where: str, *, used: Collection[Any] = ()
) -> ColumnNames:
    """As `choose_columns`, for rows that may have no labels: without any, these are no columns.

    Examples
    --------
    >>> names = choose_scores(["id", "prob", "country"], None, None, "rows.csv")
    >>> names.labels, names.scores
    ((), ('prob',))
    """
    names = list(there)
    labels = () if label is None else _named(names, label, "label", where).names
    scores = (
        _Columns(_common_columns(names, "score", where, used, labels))
        if score is None
        else _named(names, score, "score", where)
    )
    if label is None:
        with suppress(ValueError):
            labels = _common_columns(names, "label", where, used, scores.names)
    is_said = score is not None or str(scores.names[0]).startswith("score")
    return ColumnNames(
        labels, scores.names, scores.classes, _guess(where, None, None if is_said else listed(scores.names))
    )


def choose_score_arrays(
    there: Iterable[str], label: Any, score: Any, where: str, kind: str, used: Collection[str]
) -> ColumnNames:
    """As `choose_arrays`, for rows that may have no labels."""
    names = list(there)
    for given in filter(None, (label, score)):
        if given not in names:
            raise unknown(where, kind, given, names, NAMING.replace("columns", f"{kind}s"))
    scores = score or _common_array(names, "scores", "score", where, kind, used, label)
    labels = label
    if label is None:
        with suppress(ValueError):
            labels = _common_array(names, "labels", "label", where, kind, used, scores)
    guess = _guess(where, None, None if score is not None or scores == "scores" else repr(scores))
    return ColumnNames(() if labels is None else (labels,), (scores,), guess=guess)


def _in_order(labels: _Columns, scores: _Columns, where: str) -> tuple[Any, ...]:
    """The columns of labels in the order of the classes of the scores, where a pattern found them."""
    if not labels.is_pattern or labels.classes is None:
        return labels.names
    ours, theirs = map(str, labels.classes), None if scores.classes is None else [*map(str, scores.classes)]
    by_class = dict(zip(ours, labels.names, strict=True))
    if theirs is None and list(by_class) == [*map(str, range(len(by_class)))]:
        return labels.names
    if theirs is None or sorted(theirs) != sorted(by_class):
        raise ValueError(
            f"{where}: the columns of labels stand for {listed([*by_class])}, the scores for "
            f"{'the classes 0, 1, ...' if theirs is None else listed(theirs)}; give patterns with the same names, "
            "such as label='y_*' and score='p_*', or list the columns of both in one order."
        )
    return tuple(by_class[name] for name in theirs)


def _named(names: Sequence[Any], given: Any, role: str, where: str) -> _Columns:
    """The columns that the user means."""
    listing = _listing(given, names, role)
    if listing is not None:
        absent = [name for name in listing if name not in names]
        if absent:
            raise unknown(where, "column", absent[0], names, NAMING)
        return _Columns(tuple(listing), tuple(listing) if len(listing) > 1 else None)
    if isinstance(given, str) and "*" in given and given not in names:
        return _fitting(names, given, where)
    if role == "label" and not _numbered(names, given):
        if given not in names:
            raise unknown(where, "column", given, names, NAMING)
        return _Columns((given,))
    # Labels and their one-hot columns may be there side by side.
    if role == "label" and given in names:
        return _Columns((given,))
    return _Columns(_class_columns(names, given, role, where))


def _fitting(names: Sequence[Any], pattern: str, where: str) -> _Columns:
    """The columns that fit a pattern, called by what its ``*`` stands for; numbers in their order."""
    sign = re.compile("(.+)".join(map(re.escape, pattern.split("*", 1))))
    fits = [(match[1], name) for name in names if (match := sign.fullmatch(str(name)))]
    if not fits:
        raise ValueError(f"{where} has no columns {pattern!r}; {_nearest(pattern, names)} {NAMING}")
    if all(re.fullmatch(r"\d+", part) for part, _ in fits):
        fits.sort(key=lambda fit: int(fit[0]))
    columns = tuple(name for _, name in fits)
    return _Columns(columns, tuple(part for part, _ in fits) if len(fits) > 1 else None, is_pattern=True)


def choose_arrays(
    there: Iterable[str], label: Any, score: Any, where: str, kind: str, used: Collection[str]
) -> ColumnNames:
    """The arrays of labels and scores among ``there``, called ``labels`` and ``scores`` unless others are named.

    Raises
    ------
    ValueError
        If a name is not there, or several could be meant where none is named.
    """
    names = list(there)
    for role, given in (("label", label), ("score", score)):
        if not (given is None or isinstance(given, str)):
            raise ValueError(f"{where}: {role} expects the name of one {kind}, (n,) or (n, K), got {listed(given)}.")
    for name in (*([] if label is None else [label]), *([] if score is None else [score])):
        if name not in names:
            raise unknown(where, kind, name, names, NAMING.replace("columns", f"{kind}s"))
    label_name, score_name = label, score
    if label is None:
        label_name = _common_array(names, "labels", "label", where, kind, used, score)
    if score is None:
        score_name = _common_array(names, "scores", "score", where, kind, used, label_name)
    guess = _guess(
        where,
        None if label is not None or label_name == "labels" else repr(label_name),
        None if score is not None or score_name == "scores" else repr(score_name),
    )
    return ColumnNames((label_name,), (score_name,), guess=guess)


def _guess(where: str, label: str | None, scores: str | None) -> str:
    """Sentence about the columns that were chosen by common names."""
    parts = [] if label is None else [f"labels from {label}"]
    parts += [] if scores is None else [f"scores from {scores}"]
    if not parts:
        return ""
    return f"{where}: read {' and '.join(parts)}, by their names; --label and --score (label=, score=) name others."


def _listing(given: Any, names: Sequence[Any], role: str) -> list[Any] | None:
    """Columns that are listed one by one; at the shell between commas."""
    if isinstance(given, str) and "," in given and given not in names:
        given = [name.strip() for name in given.split(",")]
    if isinstance(given, Hashable) and not (isinstance(given, tuple) and given not in names):
        return None
    if not isinstance(given, list | tuple):
        raise ValueError(
            f"{role} expects the name of a column, or a list of names, got {type(given).__name__}; with a frame, name "
            "all columns; pass arrays without it: evaluate(y_true, y_prob)."
        )
    if not given:
        raise ValueError(f"{role} expects a column, or one column for each class, got an empty list.")
    if len(set(given)) != len(given):
        raise ValueError(f"{role} expects different columns, got {listed(given)}.")
    return list(given)


def _common_array(
    names: Sequence[Any], own: str, role: str, where: str, kind: str, used: Collection[Any], other: Any
) -> Any:
    """The array that usually stands for a role; ``own`` goes before others, and last if it is a slice or weight too."""
    taken = {*used, other}
    if own in names and own not in taken:
        return own
    usual = _LABELS if role == "label" else _SCORES
    candidates = [name for name in names if name.lower() in usual and name not in taken]
    if len(candidates) > 1:
        raise _ambiguous(where, role, candidates, kind)
    if candidates:
        return candidates[0]
    if own in names and own != other:
        return own
    raise unknown(where, kind, own, names, NAMING.replace("columns", f"{kind}s"))


def _class_columns(names: Sequence[Any], stem: Any, role: str, url: str) -> tuple[Any, ...]:
    """The column with this name, or its numbered columns in the order of the classes."""
    numbered = _numbered(names, stem)
    shown = ", ".join(visible(name) for _, name in numbered[:_SHOWN]) + (", ..." if len(numbered) > _SHOWN else "")
    if stem in names:
        if numbered:
            raise ValueError(
                f"{url} has both {stem!r} and {shown}; drop one of the two, or use other names for the {role}s."
            )
        return (stem,)
    if not numbered:
        raise ValueError(
            f"{url} has neither a column {stem!r} nor columns {stem}_0, {stem}_1, ...; {_nearest(stem, names)} {NAMING}"
        )
    if [number for number, _ in numbered] != list(range(len(numbered))):
        raise ValueError(f"{url}: {role} columns expect the numbers 0, 1, 2, ... without gaps, got {shown}.")
    if len(numbered) == 1:
        raise ValueError(f"{url} has {role}s of one class only, {shown}; call the column of P(y = 1) {stem!r}.")
    return tuple(name for _, name in numbered)


def _numbered(names: Sequence[Any], stem: Any) -> list[tuple[int, str]]:
    matches = [(re.fullmatch(rf"{re.escape(str(stem))}_(\d+)", str(name)), name) for name in names]
    return sorted((int(match[1]), name) for match, name in matches if match)


def _common_columns(
    names: Sequence[Any], role: str, where: str, used: Collection[Any], others: Collection[Any]
) -> tuple[Any, ...]:
    """Columns of a role that has no given name; names ``label`` and ``score`` come first.

    Of labels one column goes before several, which would be one-hot. A column that is a slice or weight too is taken
    where no other can be meant.
    """
    free = [name for name in names if name not in used and name not in others]
    usual = _LABELS if role == "label" else _SCORES
    if role in free or (role == "score" and _numbered(free, role)):
        return (role,) if role == "label" else _class_columns(free, role, role, where)
    groups: dict[str, list[tuple[int, Any]]] = {}
    for name in free:
        match = re.fullmatch(r"(\D*?)_?(\d+)", str(name))
        if match and match[1].lower() in usual:
            groups.setdefault(match[1], []).append((int(match[2]), name))
    single = [(name,) for name in free if str(name).lower() in usual]
    classwise = [
        tuple(name for _, name in sorted(group))
        for group in groups.values()
        if len(group) > 1 and sorted(number for number, _ in group) == list(range(len(group)))
    ]
    candidates = single if single and role == "label" else [*single, *classwise]
    if len(candidates) > 1:
        raise _ambiguous(where, role, [group[0] if len(group) == 1 else f"{group[0]}, ..." for group in candidates])
    if candidates:
        return candidates[0]
    if role in names and role not in others:
        return (role,)
    if role == "label":
        raise unknown(where, "column", role, names, NAMING)
    return _class_columns(free, role, role, where)


def _ambiguous(where: str, role: str, candidates: Sequence[Any], kind: str = "column") -> ValueError:
    return ValueError(
        f"{where} has several {kind}s that may be the {role}s: {', '.join(map(repr, candidates))}. "
        f"{NAMING.replace('columns', f'{kind}s')}"
    )


def unknown(where: str, kind: str, name: Any, there: Collection[Any], mend: str = "") -> ValueError:
    """The error about a name that is not there; lists those that are, the closest first."""
    several = str(name).split(",")
    if len(several) > 1 and {part.strip() for part in several} <= {str(known) for known in there}:
        mend = f"Those are {len(several)} names: give each by itself."
    elif where.lower().endswith(".npy"):
        mend = (
            "A .npy file holds one array: name a .npy file for each of labels, weights and slices, or put all of them "
            "into one file, such as .npz or Parquet."
        )
    return ValueError(f"{where} has no {kind} {name!r}; {_nearest(name, there)}{mend and ' '}{mend}")


def _nearest(name: Any, there: Iterable[Any]) -> str:
    """Available names, the closest matches first."""
    texts = [str(name) if str(name) == str(name).strip() else repr(name) for name in there]
    lower = {text.lower(): text for text in texts}
    close = [lower[match] for match in difflib.get_close_matches(str(name).lower(), lower, n=3)]
    ordered = [*close, *(text for text in texts if text not in close)]
    shown = ", ".join(map(visible, ordered[:_SHOWN])) + (", ..." if len(ordered) > _SHOWN else "")
    return f"it has {shown or 'none'}."


def listed(names: Sequence[Any]) -> str:
    """Names in words, the first few."""
    few = ", ".join(map(repr, names[:3]))
    return f"{few}, ... ({len(names)} columns)" if len(names) > 3 else few
