"""Classes and slices whose scores are too high or too low, on the first page."""

import re

import numpy as np

import calibdask as cd
from calibdask.report import measure
from calibdask.report.banners import banner
from calibdask.report.model_result import ModelResult


def _model(shrunken: float, rows: int = 6000) -> ModelResult:
    """Six classes, of which the outcomes of class 3 are this much rarer than predicted."""
    rng = np.random.default_rng(4)
    scores = rng.dirichlet(np.ones(6), rows)
    chances = scores * np.where(np.arange(6) == 3, shrunken, 1.0)
    chances /= chances.sum(1, keepdims=True)
    labels = (rng.random((rows, 1)) > chances.cumsum(1)).sum(1).clip(max=5)
    return ModelResult("model", measure(labels, scores, {"ece": cd.ECE()}, n_boot=20))


def test_the_class_that_is_twice_too_high_is_named() -> None:
    model = _model(0.5)
    sentences = banner(model, several=False).sentences
    (named,) = [words for words in sentences if words.startswith("Scores of class 3 ")]
    match = re.search(r"class 3 \(O/E ([\d.]+), ([\d.]+) to ([\d.]+)\)", named)
    assert match is not None
    ratio, low, high = map(float, match.groups())
    bins = dict(model.classes)["3"] if "3" in dict(model.classes) else dict(model.classes)[3]
    assert abs(ratio - bins.frequency / bins.mean_score) < 0.006
    assert low < ratio < high < 0.8
    assert "are too high; 95 % intervals, adjusted for 6 classes" in named


def test_calibrated_classes_are_not_named() -> None:
    assert not [words for words in banner(_model(1.0), several=False).sentences if "O/E" in words]


def _sliced(shift: float) -> list[str]:
    """Findings for two countries, of which the outcomes of the smaller one are this much more frequent."""
    rng = np.random.default_rng(6)
    scores, country = rng.uniform(0.1, 0.6, 5000), np.repeat(["de", "it"], [4000, 1000])
    labels = rng.random(5000) < scores + shift * (country == "it")
    measured = measure(labels, scores, {"ece": cd.ECE()}, by={"country": country}, n_boot=50)
    return list(banner(ModelResult("model", measured), several=False).sentences)


def test_a_slice_that_is_worse_than_all_rows_is_named() -> None:
    (named,) = [words for words in _sliced(0.3) if words.startswith("Worst by country: it, ")]
    assert "adjusted for 2 slices" in named
    assert not [words for words in _sliced(0.0) if "Worst by" in words]
