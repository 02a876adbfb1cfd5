"""The four classifiers of the benchmark, and their scores of many rows at once."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from experiments.ece_benchmark.forest import ForestScorer
from experiments.ece_benchmark.support_vectors import SupportVectorScorer

Floats = npt.NDArray[np.float32]

_MAKERS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "naive-bayes": GaussianNB,
    "svc": lambda: SVC(probability=True, random_state=1),
    "forest": lambda: RandomForestClassifier(random_state=1),
}
MODELS = tuple(_MAKERS)
# Rows scored at once: what is made of them stays in the cache.
_ROWS = 1 << 14
# libsvm has one random number generator for the whole process and releases the GIL: of two fits side by side, one takes
# numbers from the other. Filters of warnings belong to the process too.
_FITTING = threading.Lock()


def fitted(name: str, features: npt.NDArray[Any], labels: npt.NDArray[Any], classes: int | None = None) -> Any:
    """Fit one of `MODELS`, with scikit-learn's defaults.

    Parameters
    ----------
    name : str
    features : array (rows, d)
    labels : integer array (rows,)
    classes : int, optional
        Number of classes, by default the largest label plus one.

    Raises
    ------
    ValueError
        If no row has a class.
    """
    expected = range(int(labels.max()) + 1 if classes is None else classes)
    missing = sorted(set(expected) - set(labels.tolist()))
    if missing:
        raise ValueError(f"labels expects rows of each class from 0 to {expected[-1]}, got none of {missing}.")
    model = _MAKERS[name]()
    with _FITTING, warnings.catch_warnings():
        # scikit-learn 1.9 announces that 1.11 drops probability=True; what replaces it is another model.
        warnings.filterwarnings("ignore", "The `probability` parameter was deprecated", FutureWarning)
        return model.fit(features, labels)


def scores(model: Any, features: Floats) -> Floats:
    """Scores (rows, classes) of a fitted model: its ``predict_proba``, to the precision of float32."""
    score = _scorer(model)
    probabilities = np.empty((len(features), len(model.classes_)), np.float32)
    for start in range(0, len(features), _ROWS):
        here = slice(start, start + _ROWS)
        probabilities[here] = score(features[here])
    return probabilities


def _scorer(model: Any) -> Callable[[Floats], npt.NDArray[Any]]:
    if isinstance(model, LogisticRegression):
        return _linear(model)
    if isinstance(model, GaussianNB):
        return _gaussian(model)
    if isinstance(model, SVC):
        return SupportVectorScorer.of(model)
    return ForestScorer.of(model) or model.predict_proba


def _linear(model: Any) -> Callable[[Floats], npt.NDArray[Any]]:
    weights = np.column_stack([model.coef_, model.intercept_]).astype(np.float64)
    if len(weights) == 1:  # of the second of two classes against the first
        weights = np.vstack([np.zeros_like(weights), weights])

    def score(features: Floats) -> npt.NDArray[Any]:
        return _softmax(weights[:, :-1] @ features.T.astype(np.float64) + weights[:, -1:])

    return score


def _gaussian(model: Any) -> Callable[[Floats], npt.NDArray[Any]]:
    # Fitted to float32, they are float32.
    means, variances = model.theta_.astype(np.float64), model.var_.astype(np.float64)
    weights = np.hstack([means / variances, -0.5 / variances])
    constants = np.log(model.class_prior_) - 0.5 * (np.log(2 * np.pi * variances) + means**2 / variances).sum(1)

    def score(features: Floats) -> npt.NDArray[Any]:
        x = features.T.astype(np.float64)
        return _softmax(weights @ np.vstack([x, x**2]) + constants[:, None])

    return score


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Probabilities (rows, classes) of logits (classes, rows), which are overwritten."""
    logits -= logits.max(0)
    np.exp(logits, out=logits)
    logits /= logits.sum(0)
    return logits.T
