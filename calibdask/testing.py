"""Assertions for test suites, in the manner of `numpy.testing`."""

from typing import Any

from calibdask.analyses.gating.check import check
from calibdask.analyses.gating.gate import sentence

_MOST_LINES = 10


def assert_calibrated(
    y_true: Any, y_prob: Any = None, limit: float = 0.03, confidence: float = 0.95, metric: str = "ece", **options: Any
) -> None:
    """Raise AssertionError unless a calibration error is shown to be within a limit.

    Parameters
    ----------
    y_true, y_prob
        As in `calibdask.check`.
    limit : float
        The maximum accepted error.
    confidence : float, default 0.95
        Confidence that the error is at most the limit: its whole interval must be below the limit.
    metric : str, default "ece"
        The error, as `calibdask.check` names it; ``"cutoff-error"`` has a guarantee that does not depend on bins.
    **options
        Further arguments of `calibdask.check`, such as ``by`` and ``sample_weight``.

    Raises
    ------
    AssertionError
        If the error is larger, or there are too few rows to show that it is not; the message says which, and how many
        rows would suffice, for up to ten slices, the significantly miscalibrated ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.testing import assert_calibrated
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> assert_calibrated(rng.random(20_000) < scores, scores, limit=0.03)
    >>> try:
    ...     assert_calibrated(rng.random(20_000) < scores**2, scores, limit=0.03)
    ... except AssertionError as error:
    ...     print(str(error).splitlines()[0])
    scores are not calibrated within 0.03 at 95 % confidence:
    """
    # pytest leaves out frames with this name.
    __tracebackhide__ = True
    gate = check(y_true, y_prob, {metric: limit}, confidence=confidence, **options)
    failed = [*gate.of("broken"), *gate.of("cannot be decided")]
    if failed:
        certain = "not" if gate.outcome == "broken" else "not shown to be"
        lines = "".join(f"\n  {sentence(judgement)}" for judgement in failed[:_MOST_LINES])
        if len(failed) > _MOST_LINES:
            lines += f"\n  and {len(failed) - _MOST_LINES} more of {len(gate.judgements)}"
        raise AssertionError(
            f"scores are {certain} calibrated within {limit} at {100 * confidence:g} % confidence:{lines}"
        )
