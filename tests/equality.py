"""When states, and results, are the same."""

from typing import Any

import numpy as np
import xarray as xr


def same_states(a: Any, b: Any, weighted: bool) -> None:
    """Equal to the last bit, or within 1e-12 where weights make floating sums.

    Terms of pairs and of features have both signs: what is left where they cancel is off by the rounding of the terms,
    at most 60 of a size below 1, however small it is itself.
    """
    for name, x, y in zip(a._fields, a, b, strict=True):
        # Compared by the hundred thousand, and nearly always the same bytes, which are told much sooner than values.
        if (x.dtype, x.shape) == (y.dtype, y.shape) and x.tobytes() == y.tobytes():
            continue
        if weighted and x.dtype == np.float64:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13, err_msg=name)
        else:
            assert x.dtype == y.dtype, name
            np.testing.assert_array_equal(x, y, err_msg=name)


def same_results(a: xr.Dataset, b: xr.Dataset, weighted: bool) -> None:
    """Same variables and values; passes and notes may differ."""
    if weighted:
        xr.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    else:
        # Looks at no attributes, as identity without them; taking them away takes seconds where variables are hundreds.
        xr.testing.assert_equal(a, b)
