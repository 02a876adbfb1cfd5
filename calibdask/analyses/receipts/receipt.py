"""`receipt` and `verify`: measurements in a document that a second party can recompute exactly."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibdask.analyses.evaluation import evaluate
from calibdask.analyses.gating.check import Check, LimitSource
from calibdask.analyses.gating.gate import Gate
from calibdask.analyses.gating.limits import limits_of
from calibdask.analyses.gating.profiles import profile_of
from calibdask.analyses.receipts.document import (
    MISSING,
    Document,
    checksum_of,
    differences,
    document,
    hash_of,
)
from calibdask.analyses.receipts.fingerprint import fingerprint_of
from calibdask.analyses.receipts.stored_receipt import read_receipt
from calibdask.calibrators.comparing.refinement import Refinement
from calibdask.data.data import Data
from calibdask.data.options import InputOptions, Task
from calibdask.data.slices import named
from calibdask.engine.row_notes import warning_once
from calibdask.engine.sources.memory import MemorySource
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.expression import parse_metrics
from calibdask.estimators.hypothesis_tests.consistency import ConsistencyTest
from calibdask.estimators.interval import FromRows
from calibdask.estimators.kernel.base import KernelTest
from calibdask.estimators.kernel.skce import SKCE
from calibdask.estimators.without_interval import WithoutInterval, bare
from calibdask.inference.cluster_bootstrap import DESIGN_EFFECT
from calibdask.safe_text import listed, visible
from calibdask.statistics.layout import Layout
from calibdask.storage.row_table import RowTable

_USUAL = "ece,mean-gap,brier-score,log-loss"
# Those of a report, or a check, without limits and profile.
_DEFAULT = ("ece", "smooth-ece", "cutoff-error", "mean-gap", "brier-score", "log-loss")
# Options for reading rows that a receipt records.
_READING = ("task", "logits", "labels", "pos_label", "ignore_label")
# What a receipt says about how it was made.
_CHOICES = ("metrics", "confidence", "n_boot", "seed", "skip_missing")
# What kernels note whose bandwidth is that of a sample of rows.
_SAMPLED = "bandwidth_sample"
# Numbers with weights agree within rounding only.
_ROUNDING = 1e-9


def receipt(
    y_true: Any,
    y_prob: Any = None,
    metrics: str | Sequence[str] = _USUAL,
    *,
    limits: LimitSource = None,
    slice_limits: LimitSource = None,
    by: Any = None,
    sample_weight: Any = None,
    confidence: float = 0.95,
    n_boot: int = 200,
    seed: int = 0,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
) -> Document:
    """A receipt of a measurement that a second party can recompute to the last bit.

    Parameters
    ----------
    y_true, y_prob, by, sample_weight, label, score, skip_missing, task, logits, labels, pos_label, ignore_label, groups
        As in `calibdask.evaluate`.
    metrics : str or sequence of str
        Metrics, written as on the command line.
    limits, slice_limits
        As in `calibdask.check`: the decisions are stored in the receipt.
    confidence, n_boot, seed
        Level of the intervals and of the decisions, replicates and their seed.

    Returns
    -------
    dict
        Plain values for JSON: ``data`` with the rows and their fingerprint (see `calibdask.fingerprint`), ``request``
        with all settings, ``numbers`` with all digits, ``decisions`` with the numbers that they are based on, the
        version, and ``hash``, a SHA-256 that a second party can reproduce. ``made`` records the place and time,
        ``excluded`` the numbers of rows that were left out; both are not part of the hash; ``checksum`` is the SHA-256
        of all entries, including ``made`` and ``hash``.

    Raises
    ------
    TypeError
        If the input is a summary, which has no rows.
    ValueError
        If a metric depends on the order of rows: tests that draw outcomes or pairs at random, `SKCE` by pairs or blocks
        of rows, kernels with the median distance of a sample; and as in `calibdask.evaluate`.

    Notes
    -----
    Without weights the hash does not depend on chunks, workers, the order of tasks or rows, the file format or the
    machine. Intervals of metrics that cannot be computed from a histogram resample rows by their number, so they depend
    on the order of rows and are left out; decisions on limits of such metrics may depend on it. With weights, numbers
    agree up to rounding, and `verify` compares them within 1e-9. With ``groups`` clusters are resampled by their
    values, whatever the order of rows, and the fingerprint includes the clusters.

    A receipt does not prove who made it: sign the file, for example with minisign or sigstore.

    Examples
    --------
    >>> import calibdask as cd
    >>> first = cd.receipt([0, 1, 0, 1], [0.25, 0.5, 0.5, 0.75], "ece(bins=2)")
    >>> cd.verify(first, [1, 0, 0, 1], [0.75, 0.5, 0.25, 0.5]).agrees
    True
    """
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        label=label,
        score=score,
        skip_missing=skip_missing,
        groups=groups,
    )
    data = Data.of(y_true, y_prob, by, sample_weight, options)
    # Limits may have any form.
    choices: dict[str, Any] = {"limits": limits, "slice_limits": slice_limits}
    with warning_once():
        return receipt_and_gate(data, Check(**choices, confidence=confidence, n_boot=n_boot, seed=seed), metrics)[0]


def receipt_and_gate(
    given: Data, check: Check, metrics: str | Sequence[str] | None = None
) -> tuple[Document, Gate | None]:
    """A receipt, and the decisions that are on it; none where there are neither limits nor a profile.

    Without ``metrics`` it has those of the limits and of the profile, or the default ones of `calibdask.evaluate`.
    """
    if given.options.population is not None:
        raise ValueError("A receipt describes the rows themselves, without a population; omit population.")
    reading = {name: getattr(given.options, name) for name in _READING}
    data = given.rows_for("receipt", "whose fingerprint it contains").read(takes_groups=True)
    declared = [limit.metric for limit in (*limits_of(check.limits), *limits_of(check.slice_limits))]
    if metrics is None:
        profile = profile_of(check.profile or "").metrics(data.source.layout)
        metrics = list(dict.fromkeys((*map(str, declared), *profile))) or _DEFAULT
    texts = [metrics] if isinstance(metrics, str) else list(metrics)
    expressions = [expression for text in texts for expression in parse_metrics(text)]
    chosen = {str(expression): _same_in_any_order(expression.make(), data.source.layout) for expression in expressions}
    _refuse_ordered([name for name, metric in chosen.items() if _takes_order(bare(metric))])
    rows = fingerprint_of(data)
    intervals: dict[str, Any] = {"n_boot": check.n_boot, "seed": check.seed}
    result = evaluate(given, metrics=chosen, ci=check.level, **intervals)
    # It compares resampled clusters with rows that are resampled by their numbers, for some metrics.
    result = result.drop_vars([name for name in result.data_vars if str(name).endswith(f"_{DESIGN_EFFECT}")])
    _refuse_ordered({str(one.attrs["metric"]) for one in result.data_vars.values() if _SAMPLED in one.attrs})
    _refuse_ordered({str(metric) for metric in declared if _takes_order(metric.make())})
    gate = check.gate(given) if check.decides else None
    is_in_memory = isinstance(data.source, MemorySource) and not data.source.is_read_anew
    if not is_in_memory and fingerprint_of(data) != rows:
        raise ValueError(
            "The rows changed while they were measured; measure them again while no other process writes them."
        )
    names = sorted(map(str, given.slice_names))
    request = {
        "metrics": [str(expression) for expression in expressions],
        "limits": list(check.limits),
        "slice_limits": list(check.slice_limits),
        "by": names,
        "weighted": given.weights is not None,
        "skip_missing": given.options.skip_missing,
        "confidence": check.level,
        **intervals,
        **({"groups": data.options.groups_name or "groups"} if data.source.layout.clustered else {}),
        "reading": {name: value if value is None else _json(value) for name, value in reading.items()},
    }
    return document(result, rows, request, () if gate is None else gate.judgements), gate


def _same_in_any_order(metric: Estimator, layout: Layout) -> Estimator:
    """Without an interval where that would come from rows resampled by their numbers; clusters are by their values."""
    by_number = isinstance(metric.interval(layout), FromRows) and not layout.clustered
    return WithoutInterval(metric) if by_number else metric


def _takes_order(metric: Any) -> bool:
    """Whether it draws random numbers by the numbers of rows, or pairs rows by them."""
    return isinstance(metric, ConsistencyTest | KernelTest | Refinement) or (
        isinstance(metric, SKCE) and metric.estimator in ("linear", "block")
    )


def _refuse_ordered(names: Collection[str]) -> None:
    """Raise ValueError for metrics that depend on the order of rows."""
    if names:
        raise ValueError(
            f"{listed(sorted(names))} cannot be part of a receipt, as they depend on the order of the rows."
        )


def _json(value: Any) -> Any:
    """Class names and the like as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Verification:
    """Result of recomputing a receipt.

    Attributes
    ----------
    problems : tuple of str
        The differences, one sentence each; empty if everything agrees.
    again : dict
        The receipt of the second measurement.
    """

    problems: tuple[str, ...]
    again: Document

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.problems


def verify(receipt: Document | str | Path, y_true: Any, y_prob: Any = None, **options: Any) -> Verification:
    """Recompute the numbers of a receipt and compare them.

    Parameters
    ----------
    receipt : dict, or path of a JSON file
    y_true, y_prob
        As in `calibdask.receipt`; rows from `calibdask.read_rows` already have their slices and weights.
    **options
        Arguments that locate the data: ``by``, ``sample_weight``, ``groups``, ``label``, ``score``. All other settings
        are taken from the receipt.

    Returns
    -------
    Verification
        ``agrees``, and the differences in ``problems``.

    Raises
    ------
    ValueError
        If this is not a receipt; if slices or weights are missing; and as in `calibdask.evaluate`.

    Examples
    --------
    >>> import calibdask as cd
    >>> first = cd.receipt([0, 1, 0, 1], [0.25, 0.5, 0.5, 0.75], "ece(bins=2)")
    >>> cd.verify(first, [0, 1, 0, 1], [0.25, 0.5, 0.5, 0.875]).problems[0]
    'The scores differ from those of the receipt; labels, weights and slices are the same.'
    """
    given = read_receipt(receipt)
    request = given["request"]
    is_read = isinstance(y_true, RowTable)
    columns = {"by": y_true.by or None, "sample_weight": y_true.weights, "groups": y_true.groups} if is_read else {}
    _check_columns(request, {**options, **columns} if is_read else options)
    again = _measured(request, y_true, y_prob, options)
    problems = []
    if hash_of(given) != given["hash"]:
        problems.append("The receipt was changed after it was made: its hash does not match its contents.")
    elif "checksum" in given and checksum_of(given) != given["checksum"]:
        problems.append("The receipt was changed after it was made: its checksum does not match all its entries.")
    if given["calibdask"] != again["calibdask"]:
        problems.append(f"The receipt was made by calibdask {given['calibdask']}, and this is {again['calibdask']}.")
    problems += _of_data(given["data"], again["data"])
    tolerance = _ROUNDING if request["weighted"] else 0.0
    problems += [
        f"{visible(path)} was {_value_text(before)} in the receipt, and is {_value_text(after)} here."
        for parts in ((given["numbers"], again["numbers"]), (_decided(given), _decided(again)))
        for path, before, after in differences(*parts)
        if not _close(before, after, tolerance)
    ]
    decided = [[(one["limit"], one["where"]) for one in each["decisions"]] for each in (given, again)]
    if decided[0] != decided[1]:
        problems.append("The decisions are not those on the limits of the receipt, each once and in their order.")
    problems += [
        f"{visible(path)} is {_value_text(before)} in the receipt, and is written {_value_text(after)} here."
        for path, before, after in differences(request, again["request"], "request")
    ]
    # A limit may have the number of a metric that is measured in any case.
    return Verification(tuple(dict.fromkeys(problems)), again)


def _check_columns(request: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Slices and weights have to be there, or the fingerprint would differ for no good reason."""
    by = options.get("by")
    columns: Any = [by] if isinstance(by, str) else by
    are_names = isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns)
    names = sorted(columns) if are_names else sorted(map(str, named(by)))
    if names != request["by"] and not (request["by"] == [] and by is None):
        expected = listed(request["by"]) or "none"
        raise ValueError(f"The receipt has the slices {expected}, got {listed(names) or 'none'}; give them by `by`.")
    if (options.get("sample_weight") is not None) != request["weighted"]:
        there = "weights; give sample_weight" if request["weighted"] else "no weights; leave sample_weight out"
        raise ValueError(f"The receipt has {there}.")
    if (options.get("groups") is not None) != ("groups" in request):
        there = f"the groups {visible(request['groups'])}; give groups" if "groups" in request else "none; leave it out"
        raise ValueError(f"groups expects the clusters of the receipt: it has {there}.")


def _measured(request: Mapping[str, Any], y_true: Any, y_prob: Any, options: Mapping[str, Any]) -> Document:
    choices: dict[str, Any] = {name: request[name] for name in _CHOICES}
    reading: dict[str, Any] = dict(request["reading"])
    limits: dict[str, Any] = {name: request[name] or None for name in ("limits", "slice_limits")}
    if isinstance(y_true, RowTable):
        # What was left out was left out in reading.
        del choices["skip_missing"]
    return receipt(y_true, y_prob, **choices, **reading, **limits, **options)


def _decided(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that were held against limits, and the decisions, by what they are of."""
    decided: dict[str, Any] = {}
    for one in receipt["decisions"]:
        place = ", ".join(f"{name}={label}" for name, label in one["where"].items())
        everywhere = f"{one['limit']} of all rows" if receipt["request"]["by"] else one["limit"]
        name = f"{one['limit']}.{place}" if place else everywhere
        decided |= {name: one["number"], f"The decision on {name}": one["decision"]}
    return decided


def _of_data(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What of the rows differs."""
    if before == after:
        return []
    if before.get("rows") != after["rows"]:
        return [f"The receipt is of {before.get('rows'):,} rows, and these are {after['rows']:,}."]
    parts = before.get("parts", {})
    other = [name for name, digits in after["parts"].items() if parts.get(name) != digits]
    same = [name for name in after["parts"] if name not in other]
    if not other:
        return ["Labels, scores, weights and slices agree separately, but are combined differently into rows."]
    rest = f"; {_joined(same)} are the same" if same else ""
    return [f"The {_joined(other)} differ from those of the receipt{rest}."]


def _joined(names: Sequence[str]) -> str:
    # Slices and groups have one digest.
    words = [word for name in names for word in name.split(" and ")]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _close(before: Any, after: Any, tolerance: float) -> bool:
    """Whether two different numbers agree within rounding; only weighted numbers are rounded."""
    if not tolerance or type(before) is not float or type(after) is not float:
        return False
    return abs(before - after) <= tolerance * max(abs(before), abs(after))


def _value_text(value: Any) -> str:
    if value is None or value is MISSING:
        return "none" if value is None else "missing"
    return visible(repr(value) if isinstance(value, float) else value)
