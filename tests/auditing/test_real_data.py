"""Real data of a few hundred rows: nothing is found, and what is not excluded is large."""

import json
from functools import cache
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibdask as cd

Array = NDArray[Any]


@cache
def held_out(name: str) -> tuple[Array, Array, pd.DataFrame]:
    """Labels, scores of a logistic regression and features of the half that it was not fitted to."""
    data = (load_breast_cancer if name == "breast cancer" else load_digits)(as_frame=True)
    y = data.target == 0 if name == "digit 0" else data.target == 1
    x, x_held, y, y_held = train_test_split(data.data, y.to_numpy(), test_size=0.5, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x, y)
    return y_held, model.predict_proba(x_held)[:, 1], x_held


def audited(name: str, rows: int | None = None, **options: Any) -> xr.Dataset:
    y, p, features = held_out(name)
    # Pixels at the border are dark in all images.
    varied = features.columns[(features.nunique() > 1) & (features[:rows].nunique() > 1)]
    return cd.audit(y[:rows], p[:rows], features.loc[:, varied][:rows], **options)


@pytest.mark.filterwarnings("ignore:Feature .* determines the outcome:UserWarning")
@pytest.mark.parametrize(("name", "groups"), [("breast cancer", 400)])
def test_a_few_hundred_rows_say_next_to_nothing(name: str, groups: int) -> None:
    result = audited(name, min_rows=30)
    assert result.sizes["segment"] > groups
    assert not result.found.any()
    assert not result.discovery.any()
    assert result.attrs["conclusion"].startswith("No finding, but little power: errors of ")
    assert min(json.loads(result.attrs["not_excluded"]).values()) > 0.1
    # Of all rows together something is known.
    rows = len(held_out(name)[0])
    whole = audited(name, depth=1, min_rows=rows)
    assert whole.segment.values.tolist() == ["all rows"]
    assert json.loads(whole.attrs["not_excluded"])[str(rows)] < 0.07


@pytest.mark.filterwarnings("ignore:Feature .* determines the outcome:UserWarning")
@pytest.mark.parametrize("name", ["breast cancer"])
def test_thirty_rows_have_a_clear_sentence(name: str) -> None:
    few = audited(name, 30)
    assert few.sizes["segment"] == 0
    assert few.attrs["conclusion"] == "No subgroup has 100 rows: undecided."
    smaller = audited(name, 30, min_rows=5)
    assert smaller.sizes["segment"] > 100
    assert not smaller.found.any()
    assert "errors of " in smaller.attrs["conclusion"]
    assert min(json.loads(smaller.attrs["not_excluded"]).values()) > 0.5
