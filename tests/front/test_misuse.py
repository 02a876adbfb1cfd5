"""Each misuse of arrays is answered by one sentence that says what came, what was expected and how to mend it."""

import re

import numpy as np
import pytest

import calibdask as cd
from calibdask.errors import SuspectScoresWarning
from tests.front.misuse import CASES, Misuse


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_misuse(case: Misuse) -> None:
    with pytest.raises(ValueError, match=re.escape(case.message)) as raised:
        cd.evaluate(**case.make(), metrics=cd.ECE())
    assert str(raised.value) == case.message


def test_numbers_as_text_are_warned_of_where_their_order_is_not_theirs() -> None:
    names = np.arange(12).astype(str)
    scores = np.full((24, 12), 1 / 12)
    with pytest.warns(UserWarning, match=r"sorted as text, \['0', '1', '10', '11', '2', \.\.\.\].* give labels=\.\.\."):
        cd.ece(np.tile(names, 2), scores)
    assert cd.ece(np.tile(names, 2), scores, labels=names) >= 0


def test_a_vector_of_probabilities_as_logits_is_warned_of() -> None:
    labels, scores = np.arange(200) % 2, np.linspace(0, 1, 200)
    with pytest.warns(SuspectScoresWarning, match=r"The first 200 logits lie between 0 and 1; if they are prob"):
        cd.ece(labels, scores, logits=True)
    assert cd.ece(labels, scores - 0.5, logits=True) > 0
