"""Keywords of shorthands are those of what they stand for; what type checkers know is in typed_calls.py."""

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest

import calibdask as cd
from calibdask.analyses import shorthands
from calibdask.estimators import keywords


@pytest.mark.parametrize(
    ("keyword_type", "estimator", "without"),
    [
        (keywords.ECEKeywords, cd.ECE, ""),
        (keywords.MCEKeywords, cd.ECE, "norm"),
        (keywords.PresetKeywords, cd.ECE, "binning mapping"),
        (keywords.DiagramKeywords, cd.ReliabilityDiagram, ""),
        (keywords.SmoothKeywords, cd.SmoothECE, ""),
        (keywords.DensityKeywords, cd.DensityECE, ""),
        (keywords.CurveKeywords, cd.ReliabilityCurve, ""),
        (keywords.ScoreKeywords, cd.BrierScore, ""),
        (keywords.SKCEKeywords, cd.SKCE, "seed"),
    ],
)
def test_keywords_are_fields(keyword_type: type, estimator: type, without: str) -> None:
    known = get_type_hints(estimator)
    expected = {field.name: known[field.name] for field in fields(estimator) if field.name not in without.split()}
    assert get_type_hints(keyword_type) == expected


def test_shorthands_take_what_evaluate_takes() -> None:
    known = inspect.signature(cd.evaluate).parameters
    own = {"y_true", "y_prob", "metrics", "sample_weight", "keep_replicates"}
    documented = get_type_hints(shorthands._Curve).keys() - get_type_hints(keywords.CurveKeywords).keys()
    assert documented == known.keys() - own
