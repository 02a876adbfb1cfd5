"""Record what other packages compute: ``pip install statsmodels dcurves mapie crepes``, then run this file.

Written to validators.json beside it by statsmodels 0.15.0, dcurves 1.1.7, MAPIE 1.6.0 and crepes 0.9.1.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TABLE = Path(__file__).with_name("validators.json")
THRESHOLDS = (0.05, 0.1, 0.2, 0.5, 0.8)
ALPHAS = (0.01, 0.05, 0.1, 0.25)
CLASSES = 4


def rows(case: str) -> tuple[Array, Array, Array]:
    """Labels, scores and whole weights: few, many, rare or tied, with scores that are too extreme."""
    count = {"few": 30, "many": 2000, "rare": 3000, "tied": 500}[case]
    rng = np.random.default_rng([count, 25])
    scores = rng.beta(1, 40, count) if case == "rare" else rng.beta(0.8, 1.6, count)
    if case == "tied":
        scores = np.clip(scores.round(1), 0.05, 0.95)
    z = np.log(scores / (1 - scores))
    labels = (rng.random(count) < 1 / (1 + np.exp(0.3 - 0.7 * z - 0.05 * z**2))).astype(np.int64)
    return labels, scores, rng.integers(1, 5, count)


def matrix(case: str) -> tuple[Array, Array]:
    """Labels and scores of four classes, of a third of which the label is drawn at random."""
    count = {"few": 30, "many": 2000}[case]
    rng = np.random.default_rng([count, CLASSES])
    scores = rng.dirichlet(np.full(CLASSES, 0.5), count)
    labels = (scores.cumsum(1) < rng.random((count, 1))).sum(1).clip(max=CLASSES - 1)
    return np.where(rng.random(count) < 0.3, rng.integers(0, CLASSES, count), labels), scores


def regressions(labels: Array, scores: Array, weights: Array) -> dict[str, Any]:
    """Of statsmodels: slope, intercept and their errors, deviances of polynomials, and of the diagonal."""
    import statsmodels.api as sm

    z = np.log(scores / (1 - scores))
    family = sm.families.Binomial()

    def fit(terms: Array, offset: Array | None = None, weight: Array | None = None) -> Any:
        model = sm.GLM(labels, terms, family=family, offset=offset, freq_weights=weight)
        return model.fit(tol=1e-14, maxiter=200)

    def error(fitted: Any) -> float:
        """Of the last parameter, at the parameters: ``bse`` is that of the step before the last."""
        return float(np.sqrt(np.linalg.inv(-fitted.model.hessian(fitted.params))[-1, -1]))

    line, shift = fit(sm.add_constant(z)), fit(np.ones_like(z), z)
    weighted, shifted = fit(sm.add_constant(z), weight=weights), fit(np.ones_like(z), z, weights)
    return {
        "slope": [float(line.params[1]), error(line)],
        "intercept": [float(shift.params[0]), error(shift)],
        "log_likelihoods": [float(fit(np.stack([z**p for p in range(m + 1)], 1)).llf) for m in (1, 2, 3, 4)],
        "log_likelihood_of_scores": float(family.loglike(labels, scores)),
        "weighted": [float(weighted.params[1]), float(shifted.params[0])],
    }


def net_benefits(labels: Array, scores: Array) -> dict[str, list[float]]:
    """Of dcurves: the model and treating all."""
    import pandas as pd
    from dcurves import dca

    data = pd.DataFrame({"outcome": labels, "score": scores})
    found = dca(data, outcome="outcome", modelnames=["score"], thresholds=np.array(THRESHOLDS)).set_index("model")
    return {name: found.loc[of].sort_values("threshold").net_benefit.tolist() for name, of in _CURVES.items()}


_CURVES = {"model": "score", "treat_all": "all"}


def conformal(labels: Array, scores: Array) -> dict[str, list[Any]]:
    """Thresholds of MAPIE, and for the same rows the number of classes of its sets and of those of crepes."""
    from crepes import ConformalClassifier
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        """Scores as they are."""

        classes_ = np.arange(CLASSES)
        n_features_in_ = CLASSES
        fitted_ = True

        def fit(self, x: Array, y: Array) -> "Given":
            return self

        def predict_proba(self, x: Array) -> Array:
            return x

        def predict(self, x: Array) -> Array:
            return np.asarray(x.argmax(1))

    found: dict[str, list[Any]] = {"thresholds": [], "sizes": [], "crepes_sizes": []}
    losses = 1 - scores
    crepes = ConformalClassifier()
    crepes.fit(losses[np.arange(len(labels)), labels])
    for alpha in ALPHAS:
        if (len(labels) + 1) * alpha < 1:
            # MAPIE refuses so few rows; the sets of crepes hold all classes.
            found["thresholds"].append(None)
            found["sizes"].append(None)
        else:
            mapie = SplitConformalClassifier(Given(), confidence_level=1 - alpha, conformity_score="lac", prefit=True)
            mapie.conformalize(scores, labels)
            found["sizes"].append(int(mapie.predict_set(scores)[1].sum()))
            found["thresholds"].append(float(np.ravel(mapie._mapie_classifier.quantiles_)[0]))
        found["crepes_sizes"].append(int(crepes.predict_set(losses, confidence=1 - alpha, smoothing=False).sum()))
    return found


def main() -> None:
    """Compute all cases and write the table."""
    table: dict[str, Any] = {"binary": {}, "matrix": {case: conformal(*matrix(case)) for case in ("few", "many")}}
    for case in ("few", "many", "rare", "tied"):
        labels, scores, weights = rows(case)
        table["binary"][case] = {
            **regressions(labels, scores, weights),
            "net_benefit": net_benefits(labels, scores),
        }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
