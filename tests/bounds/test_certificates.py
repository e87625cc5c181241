from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import audit
from audit import plugins
from audit.bounds import group_privacy, power, simulation_costs
from audit.bounds import simulation as certificates
from audit.bounds.estimators import one_run_secrets
from audit.bounds.known_laws import SecretResponse
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Claim
from audit.core.errors import ConfigError
from audit.core.events import dp_sgd
from audit.core.game import Assumption, Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import binomial
from audit.stats.curves import tradeoff
from tests.bounds.powers import power_at
from tests.marks import slow


def game(**changes: object) -> Game:
    rules: dict = {
        "adjacency": Adjacency.ADD_REMOVE,
        "access": Access.FINAL_MODEL,
        "inclusion": Inclusion.COINS,
        "canaries": 1,
        "runs": 400,
    }
    return Game(**{**rules, **changes})


def estimators(*names: str) -> tuple:
    return tuple(plugins.build("audit.bounds.estimators", {"kind": name}) for name in names)


def path(*chosen: object, attacks: int = 1, **changes: object) -> certificates.Path:
    options: dict = {"attacks": (chosen,) * attacks, "game": game(), "mechanism": None, "delta": 1e-9, "level": 0.95}
    return certificates.Path(**{**options, **changes})


@dataclass(frozen=True)
class Careless:
    """Takes the best threshold without paying for it, and the whole error rate for each side."""

    assumes: frozenset = frozenset()

    def lower_bound(self, scores, *, delta, confidence, seed):
        options = {"delta": delta, "significance": 2 * (1 - confidence)}
        best = binomial.best_threshold(scores.members, scores.nonmembers, **options)
        epsilon = binomial.fixed_bound(scores.members, scores.nonmembers, best, **options)
        return LowerBound(
            epsilon=epsilon, delta=delta, confidence=confidence, estimator="careless", comparisons=1, ceiling=99.0, assumes=()
        )


def test_recipes_share_the_certificate_of_a_bound_for_any_mechanism() -> None:
    """One audit is made for all of them; a bound inside a family and one of someone else's estimator get their own."""
    event = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.1, steps=20)
    shared, careless = path(*estimators("one_run"), game=game(runs=61)), path(Careless(), game=game(runs=61))
    before = certificates.certify.cache_info().currsize
    assert certificates.certify(replace(shared, mechanism=event), 20) is certificates.certify(shared, 20)
    assert certificates.certify(replace(careless, mechanism=event), 20) is not certificates.certify(careless, 20)
    assert certificates.certify.cache_info().currsize == before + 4


def test_more_audits_than_end_in_time_are_refused_before_the_first() -> None:
    """Those that were asked for are made, up to a limit that the message names; nothing runs without an end."""
    slow = path(*estimators("sequential"))
    with pytest.raises(ConfigError, match=r"about \d+ minutes for each law; ask for at most \d+") as refused:
        certificates.certify(slow, 10**9)
    most = int(str(refused.value).split("at most ")[1].split(",")[0])
    assert 1_000 < most < 10**6 and simulation_costs.within_limit(most, 0.0) == most
    with pytest.raises(ConfigError, match="minutes"):
        audit.lower_bound(range(50, 100), range(50), delta=1e-5, certificates=10**8)
    with pytest.raises(ConfigError, match="0 or more"):
        audit.lower_bound(range(50, 100), range(50), delta=1e-5, certificates=-1)


def test_a_certificate_tells_sound_from_careless() -> None:
    sound = certificates.certify(path(*estimators("rank_exact", "one_run"), attacks=2, level=0.975), 50)
    tied = "randomised response, epsilon 2.5, tied scores"
    assert [item.law for item in sound] == ["nothing leaks", "randomised response, epsilon 1", tied]
    assert [item.epsilon for item in sound] == [0.0, 1.0, 2.5]
    assert all(item.kept and item.repetitions == 50 and item.nominal == pytest.approx(0.1) for item in sound)
    careless = certificates.certify(path(Careless(), game=game(runs=2000), level=0.95), 50)
    assert careless[0].wrong > 0 and any(not item.kept for item in careless)


@pytest.mark.slow
def test_the_largest_of_many_attacks_is_what_is_counted() -> None:
    """At an unshared error rate the largest bound over twenty unlike views of nothing is wrong far more often than one."""
    item, many = (
        certificates.certify(path(*estimators("rank_exact"), attacks=attacks, level=0.9), 60)[0] for attacks in (1, 20)
    )
    assert item.nominal == pytest.approx(0.1) and many.nominal == 1.0
    assert many.wrong > item.wrong + 6


@pytest.mark.slow
def test_families_are_tried_at_a_positive_parameter_of_their_own() -> None:
    inside = certificates.certify(path(*estimators("gaussian"), delta=1e-5), 20)
    assert [item.law for item in inside] == ["nothing leaks", "Gaussian, mu 1"]
    assert inside[1].epsilon == pytest.approx(4.377, abs=1e-3) and inside[1].kept
    mechanism = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.5, steps=4)
    sampled = certificates.certify(path(*estimators("fdp_rank"), delta=1e-5, mechanism=mechanism), 20)
    assert [item.law for item in sampled] == ["nothing leaks", "DP-SGD as claimed"]
    assert sampled[1].kept and sampled[1].epsilon > 1


@pytest.mark.slow
def test_what_a_family_proves_of_a_mechanism_outside_of_it_is_not_its_certificate() -> None:
    inside = certificates.certify(path(*estimators("gaussian"), delta=1e-5), 20)
    assert "randomised" not in " ".join(item.law for item in inside)
    mixed = certificates.certify(path(*estimators("gaussian", "one_run"), delta=1e-5), 20)
    assert [item.nominal for item in mixed] == pytest.approx([0.1, 0.05, 0.1, 0.05])
    assert certificates.certify(path(*estimators("one_run"), game=game(inclusion=Inclusion.SPLIT)), 20) == ()
    assert certificates.certify(path(), 20) == ()


def test_the_number_of_simulations_depends_on_the_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation_costs, "BUDGET", 0.2)
    few = certificates.certify(path(*estimators("rank_exact"), attacks=2, level=0.96), 200)
    assert [item.repetitions for item in few] == [20, 20, 20]
    assert certificates.certify(path(*estimators("rank_exact"), attacks=40), 200) == ()
    assert certificates.detectable(path(Careless())) == ()


@pytest.mark.parametrize(
    ("wrong", "audits", "holds"), [(0, 200, True), (16, 200, True), (20, 200, False), (3, 20, True), (5, 20, False)]
)
def test_a_certificate_is_kept_where_its_interval_reaches_down_to_the_promise(wrong: int, audits: int, holds: bool) -> None:
    sides = {"lower": binomial.rate_lower, "upper": binomial.rate_upper}
    limits = {name: float(limit(wrong, audits, 0.005)) for name, limit in sides.items()}
    certificate = Certificate(law="nothing leaks", epsilon=0.0, wrong=wrong, repetitions=audits, nominal=0.05, **limits)
    assert certificate.kept is holds and limits["lower"] <= wrong / audits <= limits["upper"]


@dataclass(frozen=True)
class Searching:
    """An estimator with a test that is silent while its search for a bound goes too far, now and then."""

    assumes: frozenset = frozenset()
    share: float = 1.0

    def refutes(self, scores, *, epsilon, delta, confidence, seed):
        return False

    def lower_bound(self, scores, *, delta, confidence, seed):
        far = float(scores.values.sum()) % 1 < self.share
        return LowerBound(
            epsilon=7.0 if far else 0.0,
            delta=delta,
            confidence=confidence,
            estimator="searching",
            comparisons=1,
            ceiling=9.0,
            assumes=(),
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("share", "audits"), [(1.0, 20), (1.0, 300), (0.6, 300)])
def test_a_search_that_goes_further_than_its_test_is_seen_among_the_bounds_that_are_made(share: float, audits: int) -> None:
    for certificate in certificates.certify(path(Searching(share=share)), audits):
        assert certificate.wrong <= audits / 10, "every tenth bound is made"
        assert not certificate.kept and certificate.upper >= share


@dataclass(frozen=True)
class SplitByRank:
    """A split as it must not be: which ranks choose the threshold is fixed by the numbers of scores."""

    assumes: frozenset = frozenset({Assumption.INDEPENDENT_TRIALS})

    def lower_bound(self, scores, *, delta, confidence, seed):
        stream = (
            Seed(0).child("split").child("members", len(scores.members)).child("nonmembers", len(scores.nonmembers)).numpy()
        )
        sides = [np.sort(side)[stream.permutation(len(side))] for side in (scores.members, scores.nonmembers)]
        choosing, deciding = (
            [part(side) for side in sides] for part in (lambda v: v[: len(v) // 2], lambda v: v[len(v) // 2 :])
        )
        threshold = binomial.best_threshold(*choosing, delta=delta, significance=1 - confidence)
        epsilon = binomial.fixed_bound(*deciding, threshold, delta=delta, significance=1 - confidence)
        common = {"delta": delta, "confidence": confidence, "comparisons": 1, "assumes": (Assumption.INDEPENDENT_TRIALS,)}
        return LowerBound(epsilon=epsilon, estimator="split_by_rank", ceiling=max(epsilon, 9.0), **common)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("members", "nonmembers"), [(127, 99), (231, 231)])
def test_a_split_that_is_wrong_at_one_size_is_seen_by_its_certificate(members: int, nonmembers: int) -> None:
    """Wrong in 74 and 45 % of audits of tied answers; with as many members as nonmembers none of 226 scores shows it."""
    included = np.arange(members + nonmembers) < members
    scores = Scores(values=included * 1.0, included=included, game=game(runs=len(included)))
    planted = certificates.find_path(SplitByRank(), scores, delta=0.0, level=0.95)
    assert planted.members == members
    assert [row.kept for row in certificates.certify(planted, 200)][-1] is False
    beside = path(SplitByRank(), *estimators("one_run"), game=scores.game, delta=0.0).at_size_of(scores)
    assert [row.kept for row in certificates.certify(beside, 200)][-1] is False, "coins of another bound change no size"
    (sound,) = estimators("clopper_pearson")
    sound = replace(sound, threshold_by="split")
    audited = certificates.find_path(sound, scores, delta=0.0, level=0.95)
    assert all(row.kept for row in certificates.certify(audited, 200))


def claim(epsilon: float, family: str | None = None, delta: float = 1e-5) -> Claim:
    return Claim(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE, source="declared", family=family)


@pytest.mark.slow
def test_what_is_caught_is_caught_with_the_chance_stated() -> None:
    requested = path(*estimators("rank_exact"), delta=1e-5)
    (result,) = certificates.detectable(requested, (claim(1.0), claim(2.0), claim(0.1, delta=1e-6)))
    assert (result.estimator, result.claim, result.power, result.family) == ("rank_exact", 1.0, 0.8, None)
    question = power.Question(delta=1e-5, confidence=0.95, claim=1.0, draws=60)
    assert power_at(requested.estimators[0], requested.game, result.epsilon, question) > 0.6
    assert power_at(requested.estimators[0], requested.game, 0.6 * result.epsilon, question) < 0.6
    (free,) = certificates.detectable(requested)
    assert free.claim == 0.0 and free.epsilon < result.epsilon


@pytest.mark.slow
def test_claims_that_an_estimator_cannot_refute_do_not_count() -> None:
    mechanism = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.5, steps=4)
    requested = path(*estimators("fdp_rank"), delta=1e-5, mechanism=mechanism, game=game(runs=100))
    claims = (claim(1.0), claim(4.0, "dp_sgd"), claim(math.inf, "dp_sgd"))
    assert [item.claim for item in certificates.detectable(requested, claims)] == [4.0]


def test_a_tiny_audit_would_have_caught_nothing() -> None:
    (result,) = certificates.detectable(path(*estimators("rank_exact"), game=game(runs=6), delta=1e-5), (claim(8.0),))
    assert result.epsilon == math.inf


# ---------------------------------------------------------------------------------------- canaries in copies


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow(["one_run", "rank_exact"], ["one_run"]))
def test_copies_are_certified_as_a_group_and_judged_as_one_record(kind: str) -> None:
    copied = path(*estimators(kind), game=game(copies=3))
    nothing, flat, tied = certificates.certify(copied, 40)
    assert (nothing.epsilon, flat.epsilon, tied.epsilon) == (0.0, 1.0, 2.5) and "3 copies" in flat.law
    assert nothing.kept and flat.kept and tied.kept
    (result,) = certificates.detectable(copied, (claim(1.0),))
    (alone,) = certificates.detectable(path(*estimators(kind)), (claim(1.0),))
    assert result.claim == alone.claim == 0.0  # the claim is at another delta
    (result,) = certificates.detectable(path(*estimators(kind), game=game(copies=3), delta=1e-5), (claim(1.0),))
    bound = group_bound_at(copied.estimators[0], result.epsilon)
    assert 0.3 < bound <= result.epsilon


def group_bound_at(estimator: object, epsilon: float) -> float:
    """The median bound of audits of three copies if the record has this epsilon."""
    mu = tradeoff.gdp_mu(epsilon, 1e-5)
    rules, result = game(copies=3), []
    for draw in range(5):
        scores = power.ideal_scores(rules, mu, Seed(5).child("scores", draw))
        result.append(group_privacy.bound(estimator, scores, delta=1e-5, confidence=0.95, seed=Seed(draw)).epsilon)
    return sorted(result)[2]


@pytest.mark.slow
def test_a_careless_conversion_of_copies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on three copies together, passed on as one of a single record."""
    monkeypatch.setattr(group_privacy, "of_group", lambda family, epsilon, delta, copies: (epsilon, delta))
    certificates.certify.cache_clear()
    flat = certificates.certify(path(*estimators("rank_exact"), game=game(copies=3), level=0.9501), 40)[1]
    certificates.certify.cache_clear()
    assert flat.wrong == 40 and not flat.kept


@pytest.mark.slow
def test_families_that_copies_leave_are_not_certified() -> None:
    mechanism = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.5, steps=4)
    copied = path(*estimators("fdp_rank"), game=game(copies=2), mechanism=mechanism, delta=1e-5)
    assert certificates.certify(copied, 20) == () == certificates.detectable(copied)
    inside = path(*estimators("gaussian"), game=game(copies=2), delta=1e-5)
    assert certificates.certify(inside, 20)[0].kept
    (result,), (alone,) = certificates.detectable(inside), certificates.detectable(path(*estimators("gaussian"), delta=1e-5))
    assert result.epsilon < alone.epsilon  # twice the signal for one record


# ---------------------------------------------------------------------------------------- secrets of several values


def of_secrets(adjacency: Adjacency, choices: int, secrets: int = 300) -> Game:
    return game(adjacency=adjacency, canaries=secrets, runs=1, choices=choices, secret="candidate", independent_noise=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_secrets_are_certified_where_a_guarantee_allows_the_most(adjacency: Adjacency, delta: float) -> None:
    """And not far below what is promised: these bounds are sharp on the laws that they are tried on."""
    for family, law in (
        ("any", "randomised response, 4 values, epsilon 1"),
        ("gdp", "randomised response, 4 values, as mu 1 allows"),
    ):
        estimator = plugins.build("audit.bounds.estimators", {"kind": "reconstruction", "family": family})
        nothing, worst = certificates.certify(path(estimator, game=of_secrets(adjacency, 4), delta=delta, level=0.8), 100)
        assert (nothing.law, worst.law) == ("nothing leaks", law)
        assert nothing.kept and worst.kept and worst.wrong >= 8


@pytest.mark.slow
def test_one_run_of_secrets_is_certified_and_its_conversion_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under add/remove a replacement is two changes: the guesses of one run, compared with one, refute what is true."""
    estimator = plugins.build("audit.bounds.estimators", {"kind": "one_run_secrets", "conversion": "group"})
    requested = path(estimator, game=of_secrets(Adjacency.ADD_REMOVE, 10, 600), level=0.95)
    assert all(certificate.kept for certificate in certificates.certify(requested, 20))
    monkeypatch.setitem(one_run_secrets.CONVERSIONS, "group", 1)
    certificates.certify.cache_clear()
    careless = certificates.certify(requested, 20)[1]
    certificates.certify.cache_clear()
    assert careless.wrong > 5 and not careless.kept


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("choices", [2, 5])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_the_law_of_secrets_keeps_its_guarantee_and_needs_it(adjacency: Adjacency, choices: int, delta: float) -> None:
    response = SecretResponse.of(tradeoff.epsilon_delta(1.0, delta), of_secrets(adjacency, choices), delta)
    wrong = (1 - response.success) / (choices - 1)
    silent = np.full((choices, choices), wrong) + (response.success - delta - wrong) * np.eye(choices)
    laws = np.concatenate([silent, delta * np.eye(choices)], axis=1)
    without = np.concatenate([np.full(choices, 1 / choices), np.zeros(choices)])
    pairs = [(laws[0], laws[1])] if adjacency is Adjacency.REPLACE_ONE else [(laws[0], without), (without, laws[0])]
    divergences = {
        epsilon: max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in pairs) for epsilon in (0.99, 1.0)
    }
    assert divergences[1.0] <= delta + 1e-12 < divergences[0.99]
