"""A catalogue of misuse of arrays: calls that can be read in several ways or in none, and what they are told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from tests.front.ways_in import Tensor

_N = 12
_LABELS, _SCORES = np.arange(_N) % 3, np.tile([0.2, 0.3, 0.5], (_N, 1))
_OUTCOMES, _VECTOR = np.arange(_N) % 2, np.linspace(0.1, 0.9, _N)
_ONE_HOT = np.eye(3, dtype=int)[_LABELS]
_NAMES = np.array(["auk", "owl", "tit"])
_READINGS = (
    "which is ambiguous; set task='multiclass' if the rows of y_true are one-hot; "
    "task='multilabel' if every column is an independent label; task='binary' if the arrays are (models, n), a row "
    "of n scores for each model. At the shell: --task."
)


@dataclass(frozen=True)
class Misuse:
    """A call of `calibdask.evaluate`, and the whole sentence that it raises."""

    name: str
    make: Callable[[], dict[str, Any]]
    message: str


class Attached(Tensor):
    """A tensor of a model in training, which refuses as torch does."""

    requires_grad = True


class OnDevice(Tensor):
    """A tensor on a GPU, which refuses as torch does."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")


def _call(y_true: Any, y_prob: Any, **options: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"y_true": y_true, "y_prob": y_prob, **options}


def _second(array: np.ndarray, value: Any) -> np.ndarray:
    """The array with a value in its second row."""
    changed = array.astype(np.result_type(array, np.asarray(value)))
    changed[1] = value
    return changed


_SUM = (
    "If the columns are independent labels, say task='multilabel'; if they are several models, give them a dimension "
    "with a name, or task='binary' and the shape (models, n); if logits, logits=True; if they are rounded, a larger "
    "sum_tolerance."
)
_ONES = (
    "Expected one-hot rows of labels, a single 1 and zeros, but 1 of 12 rows differs; the first is row 1 {}. If every "
    "column is an independent label, say task='multilabel'."
)

_SURROGATE = (
    "with a lone surrogate, which cannot be written as UTF-8; read the texts again in the encoding in which they were "
    "written."
)

_LONG = "texts of at most 1,000 characters, got one of 1,200, 'longlonglonglonglong ...'"
_SHORT = "it is compared and printed whole: give a column of short labels, or a part of these texts."

CASES = (
    Misuse(
        "labels and scores of one shape",
        _call(_ONE_HOT, _SCORES),
        f"y_true and y_prob both have the shape (12, 3), {_READINGS}",
    ),
    Misuse(
        "labels with a dimension of classes",
        _call(xr.DataArray(_ONE_HOT, dims=("sample", "class")), xr.DataArray(_SCORES, dims=("sample", "class"))),
        "y_true has a dimension 'class' of classes; give task='multiclass' if its rows are one-hot, or "
        "task='multilabel' if every class is a separate problem.",
    ),
    Misuse(
        "a lone surrogate in a slice",
        _call(_OUTCOMES, _VECTOR, by={"country": np.array(["be", "se\ud800"])[np.arange(12) // 6]}),
        f"by 'country' expects texts of whole characters, got 'se\\ud800' in row 6 {_SURROGATE}",
    ),
    Misuse(
        "a text that is no label in a slice",
        _call(_OUTCOMES, _VECTOR, by={"remark": np.array(["none", "long" * 300])[np.arange(12) // 6]}),
        f"by 'remark' expects {_LONG} in row 6; {_SHORT}",
    ),
    Misuse(
        "a lone surrogate in a class",
        _call(np.array(["a", "b", "\ud800"])[_LABELS], _SCORES),
        f"Each class expects texts of whole characters, got '\\ud800' in row {_LABELS.tolist().index(2)} {_SURROGATE}",
    ),
    Misuse(
        "a vector of several classes",
        _call(_OUTCOMES, _VECTOR, task="multiclass"),
        "task='multiclass' expects scores with a column for each class, (..., n, K), got (12,) for labels (12,); a "
        "vector of P(y = 1) is task='binary'.",
    ),
    Misuse(
        "numbers of classes as independent labels",
        _call(_LABELS, _SCORES, task="multilabel"),
        "task='multilabel' expects 0 or 1 for every row and class, an array of the shape of y_prob, got labels (12,) "
        "and scores (12, 3).",
    ),
    Misuse(
        "columns of one problem as models",
        _call(_OUTCOMES, np.stack([1 - _VECTOR, _VECTOR], 1), task="binary"),
        "task='binary' reads scores (12, 2) as (models, n), but there are 12 labels; for several models transpose the "
        "scores, for two columns (1 - p, p) give y_prob[:, 1] or task='multiclass'.",
    ),
    Misuse(
        "a row without ones, of dask",
        _call(da.from_array(_second(_ONE_HOT, 0), chunks=(5, 2)), _SCORES, task="multiclass"),
        _ONES.format("with 0 ones"),
    ),
    Misuse(
        "one-hot rows of fewer classes",
        _call(_ONE_HOT[:, :2], _SCORES, task="multiclass"),
        "y_true expects a column for each of the 3 columns of y_prob, in their order, got 2.",
    ),
    Misuse(
        "labels in another order than the columns",
        _call(_NAMES[_LABELS], pd.DataFrame(_SCORES, columns=_NAMES), labels=_NAMES[::-1]),
        "labels expects the order of the columns of y_prob, which are called ['auk', 'owl', 'tit'], got ['tit', "
        "'owl', 'auk']; use the same order for both.",
    ),
    Misuse(
        "logits",
        _call(_OUTCOMES, _second(_VECTOR, -3.5)),
        "Expected scores in [0, 1] (within 1e-06), but 1 of 12 rows differs; the first is row 1 with score -3.5. If "
        "they are logits, say so by logits=True (--logits); divide percentages by 100.",
    ),
    Misuse(
        "logits in the place of scores",
        _call(_LABELS, _SCORES, logits=_SCORES.tolist()[:1]),
        "logits expects True or False, got [[0.2, 0.3, 0.5]]; the scores themselves are y_prob.",
    ),
    Misuse(
        "independent columns",
        _call(_LABELS, _second(_SCORES, 0.5)),
        "Expected the scores of a row to sum to 1 (within 0.001), but 1 of 12 rows differs; the first is row 1 with "
        f"sum 1.5. {_SUM}",
    ),
    Misuse(
        "classes from one on",
        _call(_LABELS + 1, _SCORES),
        "Expected labels that are whole numbers from 0 to 2, but 4 of 12 rows differ; the first is row 2 with label 3. "
        "Number the classes in the order of the score columns, or name them: labels=...; drop rows without a "
        "class by ignore_label=...; for shares, see soft_labels of evaluate or check.",
    ),
    Misuse(
        "names without a positive class",
        _call(_NAMES[_OUTCOMES], _VECTOR),
        "Class names require pos_label=... (--pos-label), the class whose probability the vector of scores holds; or "
        "labels=..., both classes with this one last. Without, y_true expects the class numbers 0 and 1, got type <U3.",
    ),
    Misuse(
        "a positive class of a matrix",
        _call(_LABELS, _SCORES, pos_label=1),
        "pos_label belongs to vectors of scores; name the 3 classes of a matrix by labels.",
    ),
    Misuse(
        "names of other classes",
        _call(_NAMES[_LABELS], _SCORES, labels=["auk", "owl", "hen"]),
        "y_true expects classes among ['auk', 'owl', 'hen'], got 'tit' in row 2, the first of 4 of 12 labels that are "
        "none of them.",
    ),
    Misuse(
        "rows of different indexes",
        _call(pd.Series(_OUTCOMES, np.arange(_N) + 100), pd.Series(_VECTOR)),
        "y_true and y_prob are pandas objects with different indexes, [100, 101, 102, ...] and [0, 1, 2, ...]: their "
        "rows cannot be matched. Select the rows of both by one index; or, if their order is the same, "
        "give y_true.to_numpy() and y_prob.to_numpy().",
    ),
    Misuse(
        "a tensor with gradients",
        _call(_OUTCOMES, Attached(_VECTOR)),
        "y_prob requires gradients; pass y_prob.detach().",
    ),
    Misuse(
        "a tensor on a device",
        _call(OnDevice(_OUTCOMES), _VECTOR),
        "y_true cannot be converted to a NumPy array: can't convert cuda:0 device type tensor to numpy. Use "
        "Tensor.cpu() first. Copy it to the host as float32 or float64 first.",
    ),
    Misuse(
        "too few dimensions of samples",
        _call(_OUTCOMES, _VECTOR, sample_dim=("y", "x")),
        "y_true expects the dimensions y, x, got an array of shape (12,).",
    ),
    Misuse(
        "a column of labels, as networks are given",
        _call(_LABELS[:, None], _SCORES),
        "y_true is a matrix of a single column, (12, 1); give the vector y_true[:, 0].",
    ),
    Misuse(
        "a matrix on its side",
        _call(_LABELS, _SCORES.T),
        "y_prob expects a row for each of the 12 labels, (n, K), got (3, 12); transpose it, y_prob.T, or, if these are "
        "several models, give task='binary'.",
    ),
    Misuse(
        "the list of a classifier of several outputs",
        _call(_ONE_HOT, [np.stack([1 - column, column], 1) for column in _SCORES.T], task="multilabel"),
        "task='multilabel' expects 0 or 1 for every row and class, an array of the shape of y_prob, got labels (12, 3) "
        "and scores (3, 12, 2); of a list of (n, 2) arrays give np.stack([p[:, 1] for p in y_prob], axis=1).",
    ),
    Misuse(
        "no scores",
        _call(_OUTCOMES, None),
        "A block expects (y_true, y_prob[, sample_weight[, groups]]), got int64; if these are all rows, pass both "
        "arguments: evaluate(y_true, y_prob).",
    ),
    Misuse(
        "probabilities as logits",
        _call(_LABELS, _SCORES, logits=True),
        "logits=True (--logits) expects logits, but all 12 rows lie in [0, 1] and sum to 1, like probabilities; "
        "omit it.",
    ),
    Misuse(
        "probabilities as logits, classes first",
        _call(xr.DataArray(_LABELS, dims="sample"), xr.DataArray(_SCORES.T, dims=("class", "sample")), logits=True),
        "logits=True (--logits) expects logits, but all 12 rows lie in [0, 1] and sum to 1, like probabilities; "
        "omit it.",
    ),
)
