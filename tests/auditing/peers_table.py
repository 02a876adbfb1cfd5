"""Record what peers say: ``pip install mcgrad==0.1.5 sliceline==0.3.0 && python -m tests.auditing.peers_table``.

Written to peers.json beside this file: ECCE and sigma of segments by mcgrad's metrics, in float64; the log loss and the
multicalibration error of scores mended by MCGrad, on rows that it was not fitted to; and the slices of sliceline with
the highest scores, where the error of a row is its outcome.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TABLE = Path(__file__).with_name("peers.json")
SIZES = (4, 3, 5)
NAMES = tuple(f"x{number}" for number in range(len(SIZES)))
MIN_ROWS, ALPHA, SLICES = 100, 0.99, 15


def rows(n: int, seed: int) -> tuple[Array, Array, dict[str, Array]]:
    """Labels, scores that are all different, and features; two segments are off."""
    rng = np.random.default_rng(seed)
    features = {name: rng.integers(0, size, n) for name, size in zip(NAMES, SIZES, strict=True)}
    z = rng.normal(-1, 1.2, n)
    truth = np.where((features["x0"] == 1) & (features["x2"] == 3), z + 1.0, z)
    truth = np.where(features["x1"] == 2, 0.5 * truth, truth)
    return (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(int), 1 / (1 + np.exp(-z)), features


def multicalibration(y: Array, p: Array, features: dict[str, Array]) -> float:
    """The largest ratio of ECCE and sigma of segments of up to two features, by mcgrad."""
    import pandas as pd
    from mcgrad.metrics import MulticalibrationError

    frame = pd.DataFrame({"label": y, "score": p, **features})
    options: dict[str, Any] = {"max_depth": 2, "max_values_per_segment_feature": 10, "max_n_segments": None}
    error = MulticalibrationError(
        frame,
        "label",
        "score",
        categorical_segment_columns=list(NAMES),
        min_samples_per_segment=MIN_ROWS,
        precision_dtype="float64",
        **options,
    )
    return float(error.mce_sigma)


def of_segments(y: Array, p: Array, features: dict[str, Array]) -> list[list[Any]]:
    """Name, value, ECCE and sigma of the segments of one feature, and of all rows."""
    from mcgrad.metrics import _calculate_cumulative_differences, _ecce_standard_deviation_per_segment

    order = np.argsort(p, kind="stable")
    table = []
    for name, value in [("", 0), *((name, v) for name, size in zip(NAMES, SIZES, strict=True) for v in range(size))]:
        here = features[name][order] == value if name else np.full(len(y), True)
        given = {"segments": here[None], "precision_dtype": np.float64}
        path = _calculate_cumulative_differences(y[order], p[order], **given)
        sigma = _ecce_standard_deviation_per_segment(p[order], y[order], **given)
        table.append([name, value, float(np.ptp(path)), float(sigma[0])])
    return table


def mended(y: Array, p: Array, features: dict[str, Array], fresh: tuple[Array, Array, dict[str, Array]]) -> list[float]:
    """Log loss and multicalibration error of fresh rows, before and after MCGrad."""
    import pandas as pd
    from mcgrad.methods import MCGrad

    columns = {"categorical_feature_column_names": list(NAMES)}
    model = MCGrad().fit(pd.DataFrame({"label": y, "score": p, **features}), "score", "label", **columns)
    q = model.predict(pd.DataFrame({"score": fresh[1], **fresh[2]}), "score", **columns)

    def loss(s: Array) -> float:
        return float(-np.log(np.where(fresh[0] == 1, s, 1 - s)).mean())

    errors = [multicalibration(fresh[0], s, fresh[2]) for s in (fresh[1], q)]
    return [loss(fresh[1]), loss(q), *errors]


def slices(y: Array, features: dict[str, Array]) -> list[list[Any]]:
    """Values of the features of the slices with the highest scores, with the score and the rows."""
    from sliceline import Slicefinder

    finder = Slicefinder(alpha=ALPHA, k=SLICES, max_l=2, min_sup=MIN_ROWS, verbose=False)
    finder.fit(np.stack(list(features.values()), -1), y.astype(float))
    return [
        [[None if value is None else int(value) for value in found], float(of["slice_score"]), int(of["slice_size"])]
        for found, of in zip(finder.top_slices_, finder.top_slices_statistics_, strict=True)
    ]


def main() -> None:
    """Ask the peers and write the table."""
    y, p, features = rows(20_000, 0)
    table = {
        "versions": {name: version(name) for name in ("mcgrad", "sliceline")},
        "segments": of_segments(y, p, features),
        "multicalibration": multicalibration(y, p, features),
        "mended": mended(y, p, features, rows(20_000, 1)),
        "slices": slices(y, features),
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
