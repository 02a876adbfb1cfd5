"""Metrics as text: what is written is read, read back it is the same, and what is wrong is said in one sentence."""

import math
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibdask as cd
from calibdask.estimators.expression import Expression, parse_metrics, parse_value
from calibdask.estimators.signatures import signatures

READ: list[tuple[str, Any]] = [
    ("ece", cd.ECE()),
    ("ECE(bins=10)", cd.ECE(bins=10)),
    ("ece( bins = 10 , setting=classwise )", cd.ECE(bins=10, setting="classwise")),
    ("ece(setting=\"classwise\", norm='l2', debias=True)", cd.ECE(setting="classwise", norm="l2", debias=True)),
    ("ece(bins=[0, 0.5, 1], setting=2)", cd.ECE(bins=(0.0, 0.5, 1.0), setting=2)),
    ("ece(bins=sqrt,range=[0, 0.5])", cd.ECE(bins="sqrt", range=(0.0, 0.5))),
    ("ece_a(norm=l2)", cd.ece_a(norm="l2")),
    ("brier", cd.BrierScore()),
    ("skce(estimator=features, setting=largest-2)", cd.SKCE(estimator="features", setting=cd.Lens.largest(2))),
    ("skce(max-pairs=1e6, bandwidth=1)", cd.SKCE(max_pairs=1e6, bandwidth=1.0)),
    ("skce-test(delta=none)", cd.SKCETest()),
    ("consistency-test(statistic=ece(bins=5), resamples=9)", cd.ConsistencyTest(statistic=cd.ECE(bins=5), resamples=9)),
    ("consistency_test(statistic=mce)", cd.ConsistencyTest(statistic=cd.MCE())),
    ("excess-cost(costs=[[0, 1], [5, 0]])", cd.ExcessCost(costs=[[0.0, 1.0], [5.0, 0.0]])),
]


@pytest.mark.parametrize(("text", "estimator"), READ, ids=[text for text, _ in READ])
def test_text_is_read_as_the_estimator(text: str, estimator: Any) -> None:
    (expression,) = parse_metrics(text)
    assert expression.make() == estimator
    assert parse_metrics(str(expression)) == [expression]


WRONG = [
    ("acc", "There is no metric 'acc'; there are atb, brier-decomposition, brier-score,"),
    ("smoothece", "Did you mean smooth-ece?"),
    ("ece,acc", "There is no metric 'acc'"),
    ("consistency-test(statistic=acc)", "There is no metric 'acc'"),
    ("ece(bin=10)", "ece has no option 'bin'; its options are bins, binning,"),
    ("ece(bin=10)", "Did you mean bins?"),
    ("spiegelhalter-test(bins=10)", "spiegelhalter-test has no option 'bins';"),
    ("log-loss(bins=10)", "log-loss has no option 'bins'; its options are clip."),
    ("ece(norm=l7)", "norm of ece expects l1, l2 or max, got 'l7'."),
    ("ece(bins=many)", "bins of ece expects sqrt, a whole number or a list such as [0, 0.5, 1], got 'many'."),
    ("ece(bins=2.5)", "bins of ece expects sqrt, a whole number"),
    ("ece(bins=[0, x])", "bins of ece expects sqrt, a whole number or a list such as [0, 0.5, 1], got '[0, x]'."),
    ("ece(setting=largest-2)", "setting of ece expects confidence, classwise, binary, top-k or the number of a class"),
    ("ece(debias=3)", "debias of ece expects true or false, got '3'."),
    ("ece(bins=ece(bins=3))", "bins of ece expects sqrt"),
    ("consistency-test(statistic=3)", "statistic of consistency-test expects a metric such as ece(bins=10), got '3'."),
    ("ece(bins=10", "cannot be read: a closing parenthesis is missing;"),
    ("ece(bins=[0, 1)", "cannot be read: ')' is not expected;"),
    ("ece(bins=[0, 1", "cannot be read: a closing bracket is missing;"),
    ("ece)", "a parenthesis or bracket is closed that was not opened"),
    ("ece(10)", "'10' is not a name=value pair"),
    ("ece(bins=)", "a value is missing before ')'"),
    ("ece(bins=10 norm=l2)", "'norm' is not expected"),
    ("ece(bins=10, bins=5)", "bins is chosen twice"),
    ("ece(bins=10) brier", "'brier' does not belong there"),
    ("ece,", "the name of a metric is missing at the end"),
    ("", "the name of a metric is missing at the end"),
    ("ece(setting='classwise)", "a quotation mark is not closed"),
    (f"ece(bins={'[' * 9000}", "...' cannot be read: it is nested more than 32 levels deep;"),
    (f"{'consistency-test(statistic=' * 9000}", "it is nested more than 32 levels deep"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[f"{text[:60]}: {message}" for text, message in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        parse_metrics(text)
    assert "\n" not in str(error.value)


NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.sampled_from(["sqrt", "equal-mass", "largest-2"]),
    lambda values: st.lists(values, max_size=3).map(tuple),
    max_leaves=6,
)


@given(VALUES)
def test_values_are_read_back(value: Any) -> None:
    # An expression writes any value, though it would be refused when read.
    written = str(Expression("ece", {"bins": value})).removeprefix("ece(bins=").removesuffix(")")
    assert parse_value(written) == value


@given(st.data())
def test_any_choice_of_any_metric_is_read_back(data: st.DataObject) -> None:
    signature = signatures()[data.draw(st.sampled_from(sorted(signatures())))]
    choices = {}
    for name, choice in signature.choices.items():
        allowed = [value for value in (*choice.words, 3, 0.5, True, None, (0.0, 1.0)) if choice.accepts(value)]
        if allowed and data.draw(st.booleans()):
            choices[name] = data.draw(st.sampled_from(allowed))
    expression = Expression(signature.keyword, choices)
    assert parse_metrics(f"{expression}, {expression}") == [expression, expression]


@given(st.text("ecbins10=(),[]\"' .x", max_size=12))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(ValueError):
        parse_metrics(text)


def test_choices_of_all_metrics_come_after_those_of_one() -> None:
    ece, skce, test = parse_metrics("ece(bins=10), skce, consistency-test(statistic=ece(norm=l2))")
    given = {"bins": 5, "seed": 3}
    assert ece.make(given) == cd.ECE(bins=10)
    assert skce.make(given) == cd.SKCE(seed=3)
    assert test.make(given) == cd.ConsistencyTest(statistic=cd.ECE(bins=5, norm="l2"), seed=3)


def test_evaluate_takes_texts() -> None:
    labels, scores = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]
    texts = cd.evaluate(labels, scores, ["ece(bins=2)", "ece(bins=3), brier", cd.LogLoss()])
    assert list(texts.data_vars) == ["ece_bins_2", "ece_bins_3", "brier_score", "log_loss"]
    mapped = cd.evaluate(labels, scores, {"mine": "ece(bins=2)"})
    np.testing.assert_array_equal(mapped.mine, texts.ece_bins_2)
    with pytest.raises(ValueError, match="refers to one estimator"):
        cd.evaluate(labels, scores, {"mine": "ece, brier"})
    with pytest.raises(ValueError, match="no metric 'acc'"):
        cd.evaluate(labels, scores, "acc")
    assert not math.isnan(texts.log_loss)
