"""The demonstration: predictions of several classifiers are stored, evaluated from the store and reported."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import calibdask as cd
from calibdask.estimators.panel import default_metrics
from calibdask.report import write_report
from calibdask.results.models import joined_models
from calibdask.storage.atomic_replace import atomic_replacement
from calibdask.storage.open_store import read_rows
from calibdask.storage.writers import checked_output

_SEED = 0
_FOLDS = 5
_CHUNK_ROWS = 100
_LEVEL = 0.95
# One bandwidth for all: nearest neighbours have only six distinct scores, from which no rule finds one.
_BANDWIDTH = 0.05
_TITLES = {
    "digits": "Handwritten digits: confidence in the predicted one of 10 classes",
    "breast-cancer": "Breast cancer: probability of a benign tumour",
}
_ABOUT = {
    "Predictions": f"out of fold ({_FOLDS} folds), of scikit-learn classifiers, none of them recalibrated",
    "Chance": "with so few rows part of every gap is due to chance; the bands show how much",
}


@dataclass(frozen=True)
class Demo:
    """Results, numbers of chunks and reports by data set, and the predictions; results have a dimension ``model``."""

    results: dict[str, xr.Dataset]
    chunks: dict[str, int]
    store: Path
    pages: dict[str, Path]

    @property
    def example(self) -> Path:
        """The predictions of one model, as an example for further commands."""
        return self.store / "digits" / "naive-bayes"


def run(folder: Path, notify: Callable[[str], None] = lambda _: None) -> Demo:
    """Fit, predict, store, evaluate and report.

    Parameters
    ----------
    folder : Path
        Where ``predictions.zarr`` and a report on each data set are written; created if it does not exist. Results of
        an earlier run are replaced.
    notify : function
        Called with a description of each step before it starts.

    Raises
    ------
    ValueError
        If the path is not a folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The demonstration writes to a folder, but {str(folder)!r} is not a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    store, pages = folder / "predictions.zarr", {data: folder / f"{data}.html" for data in _TITLES}
    checked_output(str(store), (".zarr",), overwrite=True)
    for page in pages.values():
        checked_output(str(page), (".html",), overwrite=True)
    with atomic_replacement(store) as part:
        for data, model, labels, scores in _predictions(notify):
            _store(part, data, model, labels, scores)
    numbers, chunks = {}, {}
    for data, title in _TITLES.items():
        notify(f"evaluating {data}")
        of_models, reported, chunks[data] = _evaluated(store / data)
        numbers[data] = joined_models(of_models)
        write_report(pages[data], reported, title=title, facts=_ABOUT, overwrite=True)
    return Demo(numbers, chunks, store, pages)


def _predictions(notify: Callable[[str], None]) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Labels and out-of-fold scores for every data set and model."""
    import warnings

    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    for data, load in (("digits", load_digits), ("breast-cancer", load_breast_cancer)):
        features, labels = load(return_X_y=True)
        for model, classifier in _classifiers().items():
            notify(f"{data}: {model}")
            folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=_SEED)
            # Threads of boosted trees wait for each other busily: beside other work, 25 times the time of one thread.
            with warnings.catch_warnings(), threadpool_limits(1):
                # Deprecation warnings of scikit-learn do not concern the user.
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
    # Chunks of nothing but zeros too: those that are missing count as lost.
    for name, values in (("labels", labels), ("scores", scores)):
        group.create_array(
            name, data=values, chunks=(_CHUNK_ROWS, *values.shape[1:]), config={"write_empty_chunks": True}
        )


def _evaluated(folder: Path) -> tuple[dict[str, xr.Dataset], dict[str, xr.Dataset], int]:
    """Numbers, and what reports show, of all models of a data set, read lazily from the store; how many chunks."""
    numbers, reported, chunks = {}, {}, 0
    for model in _classifiers():
        table = read_rows(str(folder / model))
        rows, shape = (table.labels, table.scores), table.scores.shape
        chunks += int(table.scores.numblocks[0])
        numbers[model] = cd.evaluate(*rows)
        metrics = default_metrics(shape[1]) if len(shape) > 1 else default_metrics(2)
        pictures = {"diagram": cd.ReliabilityDiagram(), "curve": cd.ReliabilityCurve(bandwidth=_BANDWIDTH)}
        reported[model] = cd.evaluate(*rows, {**metrics, **pictures}, ci=_LEVEL)
    return numbers, reported, chunks
