"""Calibrators for scikit-learn's checks of estimators, which have any features for scores and any names for labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

import calibdask as cd

Array = NDArray[Any]


def taking_anything(kind: type[cd.Calibrator]) -> type[cd.Calibrator]:
    """A calibrator that takes any features and names of classes; all else, all validation before all, is the kind's."""

    class Anything(kind):  # type: ignore[misc, valid-type]
        def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "Anything":
            super().fit(X, y, sample_weight)
            self.classes_ = self.names_
            return self

        def _labels(self, array: Any) -> Array:
            labels = super()._labels(array)
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
            self.names_, codes = np.unique(labels, return_inverse=True)
            return codes

        def _scores(self, array: Any, *, reset: bool) -> Array:
            values = super()._scores(array, reset=reset)
            if values.ndim == 1 and self.n_features_in_ == 1 and np.asarray(array).ndim == 1:
                return values
            columns = values.reshape(len(values), -1)
            mixed = np.outer(np.arange(1, columns.shape[1] + 1), np.arange(max(2, len(self.names_))))
            with np.errstate(invalid="ignore"):  # of infinities, which the calibrator is to find itself
                return softmax(columns @ np.cos(mixed), axis=1)

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.positive_only = False
            tags.classifier_tags.poor_score = True
            return tags

    # Pickled by name: the module that makes the class has it under this one.
    Anything.__name__ = Anything.__qualname__ = f"Anything{kind.__name__}"
    Anything.__module__ = __name__
    globals()[Anything.__name__] = Anything
    return Anything
