"""The demonstration: predictions of several classifiers, stored, evaluated from the store and drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import calibdask as cd
from calibdask.engine.readers import read_rows
from calibdask.engine.writers import checked_output, replacing
from calibdask.plot import reliability_curve, reliability_diagram, save

__all__ = ["Demo", "run"]

_SEED = 0
_FOLDS = 5
_CHUNK_ROWS = 100
_DIAGRAM = "reliability_diagram"
_CURVE = "reliability_curve"
_LEVEL = 0.95
# One for all: the scores of nearest neighbours are six numbers, from which no rule finds a bandwidth.
_BANDWIDTH = 0.05
_TITLES = {
    "digits": "Handwritten digits: confidence in the predicted one of 10 classes",
    "breast-cancer": "Breast cancer: probability of a benign tumour",
}
_LEAD = (
    f"Out-of-fold predictions ({_FOLDS} folds) of scikit-learn classifiers, none of them calibrated afterwards: "
    "diagrams with 15 bins of equal width, and curves with bands. With so few rows part of every gap is chance; the "
    "bands show how much may be."
)


@dataclass(frozen=True)
class Demo:
    """Results by data set, with a dimension ``model``; how many chunks each was read in; and the files written."""

    results: dict[str, xr.Dataset]
    chunks: dict[str, int]
    store: Path
    page: Path

    @property
    def example(self) -> Path:
        """The predictions of one model, for whoever wants to go on."""
        return self.store / "digits" / "naive-bayes"


def run(folder: Path, tell: Callable[[str], None] = lambda _: None) -> Demo:
    """Fit, predict, store, evaluate, draw.

    Parameters
    ----------
    folder : Path
        Where ``predictions.zarr`` and ``reliability.html`` go; made if it is not there, results of an earlier run are
        replaced.
    tell : function
        Is told what comes next.

    Raises
    ------
    ValueError
        If there is something else of that name.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The demonstration expects a folder to write to, and {str(folder)!r} is none.")
    folder.mkdir(parents=True, exist_ok=True)
    store, page = folder / "predictions.zarr", folder / "reliability.html"
    checked_output(str(store), (".zarr",), overwrite=True)
    checked_output(str(page), (".html",), overwrite=True)
    with replacing(store) as part:
        for data, model, labels, scores in _predictions(tell):
            _store(part, data, model, labels, scores)
    results, chunks = {}, {}
    for data in _TITLES:
        tell(f"evaluating {data}")
        results[data], chunks[data] = _evaluated(store / data)
    tell("drawing")
    plots = {}
    for data, result in results.items():
        plots[_TITLES[data]] = reliability_diagram(_only(result, _DIAGRAM))
        plots[f"{_TITLES[data]}, as a curve"] = reliability_curve(_only(result, _CURVE))
    with replacing(page) as part:
        save(plots, part, title="How far can these classifiers be believed?", lead=_LEAD)
    figures = {data: _numbers(result) for data, result in results.items()}
    return Demo(figures, chunks, store, page)


def _predictions(tell: Callable[[str], None]) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Labels and out-of-fold scores for every data set and model."""
    import warnings

    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    for data, load in (("digits", load_digits), ("breast-cancer", load_breast_cancer)):
        features, labels = load(return_X_y=True)
        for model, classifier in _classifiers().items():
            tell(f"{data}: {model}")
            folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=_SEED)
            with warnings.catch_warnings():
                # What scikit-learn thinks of its own next versions is nothing to whoever looks on.
                warnings.simplefilter("ignore")
                scores = cross_val_predict(classifier, features, labels, cv=folds, method="predict_proba")
            yield data, model, labels, scores if scores.shape[1] > 2 else scores[:, 1]


def _classifiers() -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic-regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "naive-bayes": GaussianNB(),
        "nearest-neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "random-forest": RandomForestClassifier(random_state=_SEED),
        "gradient-boosting": HistGradientBoostingClassifier(max_iter=30, random_state=_SEED),
    }


def _store(store: Path, data: str, model: str, labels: np.ndarray, scores: np.ndarray) -> None:
    """Write labels and scores in chunks."""
    import zarr

    group = zarr.open_group(store, mode="a", zarr_format=3).require_group(data).create_group(model)
    for name, values in (("labels", labels), ("scores", scores)):
        group.create_array(name, data=values, chunks=(_CHUNK_ROWS, *values.shape[1:]))


def _evaluated(folder: Path) -> tuple[xr.Dataset, int]:
    """All models of a data set, read lazily from the store, and the number of chunks."""
    results, chunks = {}, 0
    for model in _classifiers():
        table = read_rows(str(folder / model))
        chunks += int(table.scores.numblocks[0])
        metrics = cd.default_metrics(table.classes, table.vector) | {
            "density_ece": cd.DensityECE(bandwidth=_BANDWIDTH),
            _DIAGRAM: cd.ReliabilityDiagram(),
        }
        result = cd.evaluate(table.labels, table.scores, metrics)
        curve = cd.evaluate(table.labels, table.scores, {_CURVE: cd.ReliabilityCurve(bandwidth=_BANDWIDTH)}, ci=_LEVEL)
        results[model] = result.merge(curve)
    models = xr.DataArray(list(results), dims="model", name="model")
    joined = xr.concat(
        list(results.values()), dim=models, combine_attrs="override", coords="minimal", compat="override"
    )
    return joined, chunks


def _only(result: xr.Dataset, metric: str) -> xr.Dataset:
    """The parts of one metric alone, named by their models only."""
    return result[[name for name in result.data_vars if str(name).startswith(metric)]]


def _numbers(result: xr.Dataset) -> xr.Dataset:
    """Diagrams and curves left out."""
    return result.drop_vars([name for name in result.variables if str(name).startswith((_DIAGRAM, _CURVE))])
