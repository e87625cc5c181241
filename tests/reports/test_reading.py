"""Which mechanism, claim and bound the cover speaks of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.claims import Outcome
from audit.core.results import AuditReport
from reports import answer, headline
from reports.pages import verdict
from reports.pages.blocks import Mark, Strong
from reports.pages.cover import claim, quotable
from tests.reports import sample


@pytest.mark.parametrize("outcome", Outcome)
def test_the_headline_is_the_gravest_mechanism_and_its_tightest_claim(outcome: Outcome) -> None:
    report = sample.run(outcome)
    head = headline.headline(report)
    assert head is not None
    assert head.mechanism.name == "dp_sgd"
    assert head.verdict.outcome is outcome
    assert head.verdict.claim.epsilon == min(claim.epsilon for claim in head.mechanism.claims)
    assert head.ceiling == 9.4
    assert head.proven is not None and head.proven.bound == head.verdict.bound


def test_no_claim_no_headline() -> None:
    assert headline.headline(sample.model()) is None


def test_a_bound_inside_another_family_does_not_count() -> None:
    report = sample.run()
    dp = report.mechanisms[1]
    bare = tuple(replace(claim, family=None) for claim in dp.claims)
    able = headline.admissible(bare[0], replace(dp, claims=bare))
    assert {item.bound.family for item in able} == {None}
    assert {item.bound.family for item in headline.admissible(dp.claims[0], dp)} == {None, "dp_sgd"}


def test_a_bound_at_another_delta_does_not_count() -> None:
    dp = sample.run().mechanisms[1]
    assert headline.admissible(replace(dp.claims[0], delta=1e-6), dp) == ()


@pytest.mark.parametrize("outcome", Outcome)
def test_the_quoted_sentence_names_all_a_reader_needs(outcome: Outcome) -> None:
    report = sample.run(outcome)
    head = headline.headline(report)
    assert head is not None
    message = quotable(report, head).replace("\xa0", " ")
    assert "ε ≤" in message and "δ = 10⁻⁵" in message and "per example" in message and "dp_sgd" in message
    if outcome is Outcome.INVALID:
        assert "void" in message and "ε ≥" not in message
    else:
        assert "the attack gradient_product proves" in message
        assert "ε ≥ 4.90 inside the family DP-SGD" in message and "95 % confidence" in message
    if outcome in (Outcome.CONSISTENT, Outcome.OUT_OF_REACH):
        assert "up to ε = 9.40" in message


def _pieces(report: AuditReport) -> list[Any]:
    head = headline.headline(report)
    return [
        piece for _, text in verdict.facts(report, head, claim(report, head)).items if isinstance(text, tuple) for piece in text
    ]


@pytest.mark.parametrize("kind", sample.ALL)
def test_no_status_of_the_cover_is_a_coloured_light(kind: str) -> None:
    assert not any(isinstance(piece, Mark) for piece in _pieces(sample.ALL[kind]()))


def test_claim_and_policy_are_two_verdicts() -> None:
    report = sample.run(notes=())
    word = verdict.policy(report)[0]
    assert (
        isinstance(word, Strong)
        and word.text == "Not met"
        and "was not contradicted" in str(claim(report, headline.headline(report)))
    )
    assert "TPR at 0.1 % FPR" in str(verdict.policy(report))
    met = verdict.policy(replace(report, policy=report.policy[:1]))[0]
    assert isinstance(met, Strong) and met.text == "Met"
    assert "No policy was set" in str(verdict.policy(replace(report, policy=())))


def test_a_headline_rate_needs_ten_expected_false_positives() -> None:
    attack = sample.run().mechanisms[0].games[0].attacks[0]
    result = answer.answers(sample.run())[0].rate
    assert result is not None and result.fpr == 0.01 and attack.roc.nonmembers == 2000  # 0.1 % would be two


@given(
    st.floats(min_value=1e-6, max_value=1),
    st.floats(min_value=0, max_value=30),
    st.floats(min_value=0, max_value=0.1),
)
def test_allowed_tpr_is_the_largest_that_both_constraints_leave(fpr: float, epsilon: float, delta: float) -> None:
    tpr = headline.allowed_tpr(fpr, epsilon, delta)
    slack = 1e-9 * math.exp(epsilon)
    assert tpr >= min(1.0, fpr) - 1e-12
    assert tpr <= math.exp(epsilon) * fpr + delta + slack
    assert 1 - fpr <= math.exp(epsilon) * (1 - tpr) + delta + slack
    more = tpr + 1e-6
    if more < 1:
        low = more > math.exp(epsilon) * fpr + delta
        high = 1 - fpr > math.exp(epsilon) * (1 - more) + delta
        assert low or high


def test_allowed_tpr_without_a_guarantee_is_everything() -> None:
    assert headline.allowed_tpr(0.01, math.inf, 1e-5) == 1.0


def test_the_box_counts_the_assumptions_that_no_test_carries() -> None:
    report = sample.run()
    message = str(claim(report, headline.headline(report)))
    assert "Assumptions behind the claim: 6 checked by this audit, 2 declared by the owner and 1 open." in message.replace(
        "\\xa0", " "
    )
