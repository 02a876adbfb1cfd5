"""Recalibration of scikit-learn's models on its own data sets, measured on rows that nothing was fitted to."""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibdask as cd
from experiments.recalibration.calibrators import BINARY, MULTICLASS, fitted
from experiments.recalibration.study import LOSSES

Floats = npt.NDArray[np.float64]

# Rows of data sets that are drawn: to fit models to, to calibrate, and to test.
_DRAWN = (1000, 1000, 5000)
# Shares of the others.
_SHARES = (0.4, 0.3, 0.3)


def _separate(classes: int, informative: int, **more: Any) -> Callable[..., Any]:
    def drawn(random_state: int) -> Any:
        options = {"n_features": 20, "n_informative": informative, "n_classes": classes, "flip_y": 0.05, **more}
        return datasets.make_classification(sum(_DRAWN), random_state=random_state, **options)

    return drawn


# Features and labels: those that come with scikit-learn, and drawn ones, which are others in each split.
DATA: Mapping[str, Callable[..., Any]] = {
    "breast cancer": lambda random_state: datasets.load_breast_cancer(return_X_y=True),
    "iris": lambda random_state: datasets.load_iris(return_X_y=True),
    "wine": lambda random_state: datasets.load_wine(return_X_y=True),
    "digits": lambda random_state: datasets.load_digits(return_X_y=True),
    "moons": lambda random_state: datasets.make_moons(sum(_DRAWN), noise=0.35, random_state=random_state),
    "two classes": _separate(2, 6, class_sep=0.7),
    "rare": _separate(2, 6, weights=[0.95]),
    "three rings": lambda random_state: datasets.make_gaussian_quantiles(
        n_samples=sum(_DRAWN), n_features=4, n_classes=3, random_state=random_state
    ),
    "ten classes": _separate(10, 10, n_clusters_per_class=1),
}
_DRAWN_DATA = ("moons", "two classes", "rare", "three rings", "ten classes")

MODELS: Mapping[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "naive bayes": lambda seed: GaussianNB(),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
    "random forest, clipped": lambda seed: RandomForestClassifier(random_state=seed),
    "gradient boosting": lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed),
    "support vectors": lambda seed: make_pipeline(StandardScaler(), SVC()),
    "network": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((64,), random_state=seed)),
}
# A forest of 100 trees gives scores of 0 and 1, whose logits are infinite: half a tree for each class mends that.
_HALF_A_TREE = {"random forest, clipped": 0.5 / 100}
# Filters of warnings belong to the process.
_FITTING = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class RealModels(cd.Study):
    """Losses of recalibrated models on test rows.

    A cell is a data set, split into rows for models, for calibrators and for the test.

    Parameters
    ----------
    data, models : tuple of str
        Names in `DATA` and `MODELS`.
    splits : int
        Of each data set.
    sizes : tuple of int
        Rows that calibrators are fitted to; NaN where a data set has fewer.
    """

    data: tuple[str, ...] = tuple(DATA)
    models: tuple[str, ...] = tuple(MODELS)
    splits: int = 2
    sizes: tuple[int, ...] = (30, 100, 300, 1000)

    outputs: ClassVar = {
        "test_loss": ("model", "size", "calibrator", "loss"),
        "infinite": ("model", "size", "calibrator"),
        "refused": ("model", "size", "calibrator"),
        "accuracy": ("model",),
        "classes": (),
    }
    presets: ClassVar = {"quick": {"splits": 1, "sizes": (30, 300), "data": ("breast cancer", "iris", "digits")}}

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        for name, chosen, known in (("data", self.data, DATA), ("models", self.models, MODELS)):
            if unknown := sorted({*chosen} - {*known}):
                yield f"{name} expects some of {', '.join(known)}, got {', '.join(unknown)}."
        if not self.sizes or min(self.sizes) < 2 or self.splits < 1:
            yield "sizes expects numbers from 2 on, splits from 1 on."

    def cells(self) -> dict[str, Any]:
        """A cell for each split of a data set."""
        return {"data": self.data, "split": range(self.splits)}

    def inside(self) -> dict[str, Any]:
        """Models, rows that calibrators are fitted to, calibrators and losses."""
        axes = {"model": self.models, "size": self.sizes}
        return {**axes, "calibrator": tuple(dict.fromkeys((*BINARY, *MULTICLASS))), "loss": LOSSES}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Fit the models, then the calibrators to the first rows of those that are kept for them."""
        seed = int(seeds.generator(part="models").integers(2**31))
        features, labels = DATA[at["data"]](random_state=seed)
        order = seeds.generator(part="rows").permutation(len(labels))
        parts = _DRAWN if at["data"] in _DRAWN_DATA else [int(share * len(labels)) for share in _SHARES]
        train, calibrate, test = np.split(order, np.cumsum(parts))[:3]
        axes = self.inside()
        results = {name: np.full([len(axes[axis]) for axis in dims], np.nan) for name, dims in self.outputs.items()}
        results["classes"][...] = classes = int(labels.max()) + 1
        for i, model in enumerate(self.models):
            scores = _scores(model, seed, features[train], labels[train], features)
            results["accuracy"][i] = (_matrix(scores[test]).argmax(1) == labels[test]).mean()
            for j, size in enumerate(self.sizes):
                if size > len(calibrate):
                    continue
                few = calibrate[:size]
                for name in BINARY if classes == 2 else MULTICLASS:
                    place = i, j, axes["calibrator"].index(name)
                    fit = fitted(name, labels[few], scores[few])
                    *losses, infinite = _losses(fit.apply(scores[test]), labels[test])
                    results["test_loss"][place], results["infinite"][place] = losses, infinite
                    results["refused"][place] = fit.refused
        return results


def _scores(model: str, seed: int, train: Floats, labels: npt.NDArray[np.int64], features: Floats) -> Floats:
    """P(y = 1), or scores of all classes; of support vectors those of their decision functions as logits."""
    with _FITTING, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = MODELS[model](seed).fit(train, labels)
    if hasattr(fit, "predict_proba"):
        least = _HALF_A_TREE.get(model, 0.0)
        scores = np.maximum(fit.predict_proba(features), least)
        scores /= scores.sum(1, keepdims=True)
        return np.asarray(scores[:, 1] if scores.shape[1] == 2 else scores, np.float64)
    logits = fit.decision_function(features)
    return np.asarray(special.expit(logits) if logits.ndim == 1 else special.softmax(logits, 1), np.float64)


def _matrix(scores: Floats) -> Floats:
    return scores if scores.ndim == 2 else np.stack([1 - scores, scores], 1)


def _losses(scores: Floats, labels: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """Log loss, clipped as scikit-learn does it, Brier score, and the share of rows with an infinite log loss."""
    matrix = _matrix(scores)
    hit = matrix[np.arange(len(labels)), labels]
    precision = float(np.finfo(np.float64).eps)
    log_loss = -np.log(np.clip(hit, precision, 1 - precision)).mean()
    outcomes = np.eye(matrix.shape[1])[labels]
    squares = ((matrix - outcomes) ** 2).sum(1).mean() / (2 if scores.ndim == 1 else 1)
    return float(log_loss), float(squares), float((hit <= 0).mean())
