"""Corrections by `MulticalibratedScaling` and the reduction of the loss, as text."""

from collections.abc import Iterator

import numpy as np

from calibdask.analyses.multicalibration.scaling import LEVEL, MulticalibratedScaling
from calibdask.render.text_layout import plain_columns
from calibdask.results.format import PLAIN, figure, pvalue_text
from calibdask.safe_text import listed


def improvement_lines(fitted: MulticalibratedScaling) -> Iterator[str]:
    """A table with a line for each segment and round, and the improvement with its interval.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> y_prob = np.tile([0.2, 0.4, 0.6, 0.8], 250)
    >>> calibrated = np.arange(1000) // 4 % 10 < 10 * y_prob
    >>> fitted = cd.MulticalibratedScaling().fit(calibrated, y_prob, features={"day": np.arange(1000) // 40 % 3})
    >>> [*improvement_lines(fitted)]
    ['No subgroup is significantly miscalibrated: scores unchanged.', '1,000 rows, by day.']
    """
    moved, given = len(fitted.segments_), int(fitted._sliced.rows[-1])
    if moved:
        terms = zip(fitted.round_, fitted.segments_, fitted.offset_, fitted.slope_, strict=True)
        rows = [
            (str(int(number) + 1), segment, f"{offset:+.4f}", f"{slope:+.4f}")
            for number, segment, offset, slope in terms
        ]
        yield from plain_columns([("round", "group", "offset", "slope"), *rows])
        yield ""
        yield _improvement(fitted)
    elif given < fitted.min_rows:
        # All rows are a group, and no other is larger.
        yield f"No subgroup has {fitted.min_rows:,} rows: undecided, scores unchanged."
    else:
        yield "No subgroup is significantly miscalibrated: scores unchanged."
    yield f"{given:,} rows, by {listed(fitted.feature_columns_)}."


def _improvement(fitted: MulticalibratedScaling) -> str:
    gain, low, high = (float(getattr(fitted, f"improvement{part}_")) for part in ("", "_low", "_high"))
    pvalue = pvalue_text(float(fitted.improvement_pvalue_))
    certain = "" if np.isnan(low) else f" ({PLAIN.interval(low, high, LEVEL)}, {pvalue})"
    return (
        f"Improvement {figure(gain)}{certain}: reduction of the log loss on rows that the map was not fitted to; the "
        "interval is for this map, which was fitted to all rows. The log loss is "
        f"{figure(float(np.ravel(fitted.loss_)[0]))} before."
    )
