from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import reachable_bounds
from scipy import stats

from audit.stats.bounds import critical_ranks, gdp_area, least_favourable, rank_search, roc, roots
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.bounds.shifts import CurveShift, GdpShift
from audit.stats.curves import dp_sgd_curve, tradeoff


def ranked_normals(count: int, mu: float, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    values = np.concatenate([draw.normal(mu, 1, count), draw.normal(0, 1, count)])
    return (np.arange(2 * count) < count)[np.argsort(-values)]


def test_simulated_sums_equal_counting() -> None:
    draw = np.random.default_rng(0)
    members, nonmembers = (np.sort(draw.normal(size=(7, size)), axis=1) for size in (5, 9))
    scores = np.sort(draw.integers(0, 1000, 14))
    pooled = [np.sort(np.concatenate(row)) for row in zip(members, nonmembers, strict=True)]
    expected = [sum(scores[list(pooled[i]).index(value)] for value in members[i]) for i in range(7)]
    assert least_favourable.simulated_sums(members, nonmembers, scores).tolist() == expected
    won = [sum(a > b for a in members[i] for b in nonmembers[i]) for i in range(7)]
    by_auc = least_favourable.simulated_sums(members, nonmembers, least_favourable.auc_scores(14))
    assert (by_auc - by_auc[0]).tolist() == [item - won[0] for item in won]
    ranked = np.array([True, True, False, True, False])
    assert least_favourable.wins(ranked) == round(roc.auc(np.array([5.0, 4, 2]), np.array([3.0, 1])) * 6)
    assert least_favourable.rank_score_sum(ranked, np.array([0, 1, 10, 100, 1000])) == 1101


@pytest.mark.slow
def test_a_pruned_search_ends_where_the_plain_one_does() -> None:
    shift = CurveShift(tradeoff.gdp)
    scores = least_favourable.likelihood_scores(tradeoff.gdp(1.0), tradeoff.gdp(0.0), 25, 25)
    for seed in range(6):
        ranked = ranked_normals(25, 0.2 * seed, seed)
        observed = least_favourable.rank_score_sum(ranked, scores)

        def rejects(parameter: float, seed=seed, observed=observed) -> bool:
            test = least_favourable.PointTest(shift, parameter, scores, members=25, significance=0.05, stream=seed)
            answer = test.refutes(observed)
            assert answer == (observed > test.critical_sum())
            return answer

        expected = roots.last_rejected(rejects, resolution=1e-4)
        for guess in (0.0, 0.3, 5.0):
            assert rank_search.rank_bound(ranked, shift, scores, significance=0.05, stream=seed, guess=guess) == expected


@pytest.mark.parametrize(("members", "nonmembers"), [(200, 130), (131, 203)])
@pytest.mark.parametrize("shift", [GdpShift(), CurveShift(tradeoff.gdp)])
def test_sums_of_neighbours_that_stand_together_enclose_those_of_all(
    members: int, nonmembers: int, shift: GdpShift | CurveShift
) -> None:
    assert rank_search.group_size(members, nonmembers) == 2
    draws = least_favourable.simulate(members, nonmembers, 0.1, encode=shift.encode)
    place, rows = shift.lifted(1.0), np.arange(5, 200)
    scores = np.sort(np.random.default_rng(0).integers(0, 2**30, members + nonmembers))
    exact = least_favourable.shifted_sums(draws.members, draws.nonmembers, place, scores, rows)
    low, high = (rank_search.coarse_sums(draws, place, scores, rows, upper=upper) for upper in (False, True))
    assert (low <= exact).all() and (exact <= high).all()
    assert np.mean(high - low) < 2 * exact.std()


def test_likelihood_scores_are_monotone_and_normal_for_the_gaussian() -> None:
    scores = least_favourable.likelihood_scores(tradeoff.gdp(1.0), tradeoff.gdp(0.0), 200, 300)
    assert (np.diff(scores) >= 0).all()
    shares = 1 - (np.arange(500) + 0.5) / 500
    grid = np.linspace(-6, 6, 100_001)
    pooled = 0.6 * stats.norm.sf(grid) + 0.4 * stats.norm.sf(grid - 1)
    positions = np.interp(-shares, -pooled, grid)  # the log likelihood ratio is linear in them
    assert np.corrcoef(scores[5:-5], positions[5:-5])[0, 1] > 0.9999
    nothing = least_favourable.likelihood_scores(tradeoff.gdp(0.0), tradeoff.gdp(0.0), 20, 30)
    assert nothing.tolist() == least_favourable.auc_scores(50).tolist()


@pytest.mark.slow
def test_likelihood_scores_see_more_of_one_sampled_step_than_the_auc() -> None:
    """One step that takes the record one time in ten: the evidence is in the upper tail."""
    rate, noise, count, result = 0.1, 0.6, 250, {"likelihood": [], "auc": []}
    scores = {
        "likelihood": least_favourable.likelihood_scores(
            dp_sgd_curve.sgd(noise, rate, 1), tradeoff.epsilon_delta(0.0, 0.0), count, count
        ),
        "auc": least_favourable.auc_scores(2 * count),
    }
    shift = CurveShift(lambda signal: dp_sgd_curve.sgd(1 / signal if signal > 0 else math.inf, rate, 1))
    for seed in range(5):
        draw = np.random.default_rng(seed)
        chosen = (np.arange(2 * count) < count) & (draw.random(2 * count) < rate)
        ranked = (np.arange(2 * count) < count)[np.argsort(-(draw.normal(size=2 * count) * noise + chosen))]
        for name, item in scores.items():
            result[name].append(
                rank_search.rank_bound(ranked, shift, item, significance=0.05, stream=seed, largest=5.0, resolution=1e-2)
            )
    assert np.median(result["likelihood"]) > np.median(result["auc"]) + 0.1
    assert np.median(result["likelihood"]) < 1 / noise


def test_bound_is_the_order_statistic_of_critical_shifts() -> None:
    """For each simulated pair the shift at which its AUC reaches the observed one is an order statistic of differences."""
    ranked, significance = ranked_normals(12, 1.5, 1), 0.05
    auc = least_favourable.auc_scores(24)
    result = rank_search.rank_bound(ranked, GdpShift(), auc, significance=significance, stream=2)
    draws = least_favourable.simulate(12, 12, significance, 2)
    needed = least_favourable.wins(ranked)
    critical = np.array(
        [
            np.sort((nonmember[None, :] - member[:, None]).ravel())[needed - 1]
            for member, nonmember in zip(draws.members, draws.nonmembers, strict=True)
        ]
    )
    order = np.argsort(critical)
    spent = draws.costs[:, order].cumsum(axis=1)
    expected = min(critical[order][row.searchsorted(most, "right")] for row, most in zip(spent, draws.budgets, strict=True))
    assert result == pytest.approx(max(expected, 0), abs=2e-4)
    assert result > 0.3


def test_p_values_are_uniform_at_the_truth() -> None:
    draw, trials, rejected = np.random.default_rng(3), 1500, 0
    draws = least_favourable.simulate(15, 20, 0.1)
    scores = least_favourable.auc_scores(35)
    sums = least_favourable.simulated_sums(draws.members + 1.0, draws.nonmembers, scores)
    for _ in range(trials):
        observed = least_favourable.simulated_sums(
            np.sort(draw.normal(1.0, 1, (1, 15)), axis=1), np.sort(draw.normal(size=(1, 20)), axis=1), scores
        )[0]
        rejected += (draws.costs[:, sums >= observed].sum(axis=1) <= draws.budgets).all()
    assert rejected / trials == pytest.approx(0.1, abs=0.035)


def test_a_curve_gives_the_same_test_as_its_shift() -> None:
    ranked = ranked_normals(40, 1.5, 4)
    direct = rank_search.rank_bound(
        ranked,
        GdpShift(),
        least_favourable.auc_scores(len(ranked)),
        significance=0.05,
        stream=5,
    )
    looked_up = rank_search.rank_bound(
        ranked,
        CurveShift(tradeoff.gdp),
        least_favourable.auc_scores(len(ranked)),
        significance=0.05,
        stream=5,
    )
    assert direct - 0.005 < looked_up <= direct + 1e-4


@pytest.mark.slow
def test_quick_null_check_never_skips_a_rejection() -> None:
    for seed in range(40):
        ranked = ranked_normals(30, 0.35, seed)
        if least_favourable.plainly_null(ranked, least_favourable.auc_scores(60), 0.05):
            full = rank_search.rank_bound(
                ranked,
                GdpShift(),
                least_favourable.auc_scores(len(ranked)),
                significance=0.05,
                stream=seed,
            )
            assert full == 0


def test_pairs_are_binomial() -> None:
    draw, trials, over = np.random.default_rng(6), 600, 0
    truth = tradeoff.gdp_auc(1.0)
    for _ in range(trials):
        members, nonmembers = draw.normal(1, 1, 30), draw.normal(0, 1, 35)
        over += least_favourable.paired_auc_lower(members, nonmembers, significance=0.1) > truth
    assert over <= stats.binom.ppf(1 - 1e-4, trials, 0.1)
    assert over > 0


@pytest.mark.parametrize("count", [1, 20, 300])
def test_ceiling_is_where_perfect_separation_has_the_error_rate(count: int) -> None:
    mu = least_favourable.gdp_separation_ceiling(count, count, 0.05)
    draw, trials = np.random.default_rng(7), 4000
    separated = (draw.normal(mu, 1, (trials, count)).min(axis=1) > draw.normal(size=(trials, count)).max(axis=1)).mean()
    assert separated == pytest.approx(0.05, abs=0.015) if count > 1 else mu == 0


@pytest.mark.slow
def test_no_bound_beats_the_limit_on_average() -> None:
    for mu, count in ((1.0, 100), (2.0, 50)):
        result = [
            gdp_area.bound(count, count, least_favourable.wins(ranked_normals(count, mu, seed)), 0.05) for seed in range(12)
        ]
        assert tradeoff.gdp_epsilon(float(np.median(result)), 1e-5) < 1.15 * reachable_bounds.gdp_limit(mu, 1e-5, count, count)


def test_laws_have_the_epsilon_they_state() -> None:
    draw = np.random.default_rng(8)
    for law in (ScoreLaw(kind="flat", parameter=1.0), ScoreLaw(kind="laplace", parameter=1.0)):
        included = np.arange(400_000) < 200_000
        values = law.draw(included, draw)
        for cut in (0.5, 1.0, 1.5):
            ratio = np.log((values[included] >= cut).mean() / (values[~included] >= cut).mean())
            assert ratio <= law.epsilon + 0.04
        assert np.log((values[included] >= 1.0).mean() / (values[~included] >= 1.0).mean()) == pytest.approx(1.0, abs=0.05)
    with pytest.raises(ValueError, match="kind"):
        ScoreLaw(kind="cauchy")


@pytest.mark.slow
def test_less_significance_never_refutes_more() -> None:
    """Across decades too, if the number of simulations changes."""
    scores = least_favourable.auc_scores(40)
    for seed in range(3):
        ranked = ranked_normals(20, 1.5, seed)
        levels = [0.3, 0.11, 0.1, 0.099, 0.05, 0.0101, 0.01, 0.0099, 0.004]
        result = [rank_search.rank_bound(ranked, GdpShift(), scores, significance=level, stream=seed) for level in levels]
        assert result == sorted(result, reverse=True) and result[0] > result[-1]


def test_the_draws_of_a_coarser_test_are_the_first_of_a_finer_one() -> None:
    coarse, fine = (least_favourable.simulate(3, 4, level, 1) for level in (0.2, 0.05))
    assert (fine.members[: len(coarse.members)] == coarse.members).all()
    assert (fine.nonmembers[: len(coarse.members)] == coarse.nonmembers).all()
    assert coarse.costs.shape == (1, 14_000) and fine.costs.shape == (2, 28_000)
    assert (fine.costs[0, :14_000] == coarse.costs[0]).sum() == 0 < fine.costs[0, :14_000].min()  # 0.1 is finer than 0.2
    assert not fine.costs[0, 14_000:].any()
    raw = np.random.default_rng([3, 4, 1]).standard_normal((14_000, 7), dtype=np.float32)
    critical_ranks.move_apart(raw, 3, 0)
    members, nonmembers = np.sort(raw[:, :3], axis=1), np.sort(raw[:, 3:], axis=1)
    assert (coarse.members == members).all() and (coarse.nonmembers == nonmembers).all()
    encoded = least_favourable.simulate(3, 4, 0.2, 1, CurveShift.encode)
    assert (encoded.members == CurveShift.encode(members)).all() and (encoded.nonmembers == nonmembers).all()


def test_an_interrupted_simulation_is_made_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    expected = least_favourable._Draws(np.negative, 3, 4, 0).make_rows(20)
    draws = least_favourable._Draws(np.negative, 3, 4, 0)
    draws.make_rows(6)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(least_favourable, "move_apart", interrupt)
        draws.make_rows(20)
    for part, plain in zip(draws.make_rows(20), expected, strict=True):
        assert np.array_equal(part, plain)


@pytest.mark.parametrize(("count", "level"), [(14_000, 0.1), (28_000, 0.05), (80_000, 0.05 / 3), (3000, 0.05), (60, 0.05)])
def test_the_critical_rank_is_the_largest_whose_luck_is_paid_for(count: int, level: float) -> None:
    rank = critical_ranks.critical_rank(count, level)
    if rank:
        assert stats.binom.cdf(rank - 1, count, level) <= critical_ranks.LUCK
    assert stats.binom.cdf(rank, count, level) > critical_ranks.LUCK
    assert rank > 0 or count == 60
    assert rank < level * count


def chances_of_wins(members: int, nonmembers: int) -> np.ndarray:
    """The exact law of the number of pairs that members win if all orders are equally likely (Mann and Whitney 1947)."""
    tables = [np.array([1.0])] * (nonmembers + 1)  # of the first members with so many nonmembers, from none on
    for first in range(1, members + 1):
        after = [np.array([1.0])]
        for second in range(1, nonmembers + 1):
            # the highest score is a member's, who wins against all nonmembers, or a nonmember's
            law = np.zeros(first * second + 1)
            law[second : second + len(tables[second])] += tables[second] * first / (first + second)
            law[: len(after[-1])] += after[-1] * second / (first + second)
            after.append(law)
        tables = after
    return tables[-1]


LEVELS = (0.05, 0.05 / 2, 0.05 / 3, 0.01, 0.05 / 20)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(20, 20), (21, 20), (33, 47), pytest.param((100, 100), marks=pytest.mark.slow)])
def test_at_each_size_the_area_under_the_roc_refutes_nothing_as_seldom_as_stated(sizes: tuple[int, int]) -> None:
    """The exact level if nothing leaks, given the draws: their luck may not lift it, and costs a sixth at most."""
    members, nonmembers = sizes
    tail = np.append(np.cumsum(chances_of_wins(members, nonmembers)[::-1])[::-1], 0.0)
    scores = least_favourable.auc_scores(members + nonmembers)
    least = int(scores[:members].sum())  # the sum of members who win nothing
    for level in LEVELS:
        critical = least_favourable.PointTest(GdpShift(), 0.0, scores, members=members, significance=level).critical_sum()
        exact = float(tail[critical - least + 1])
        largest = float(tail[tail <= level].max())  # of the exact test
        assert 0.83 * largest < exact <= level, level


TABLE = Path(__file__).parents[2] / "benchmarks" / "levels.csv"


def exact_level(sides: tuple[int, int], share: int) -> float:
    """The exact level of the area under the ROC by draws, at a share of 5 %."""
    tail = np.append(np.cumsum(chances_of_wins(*sides)[::-1])[::-1], 0.0)
    scores = least_favourable.auc_scores(sum(sides))
    critical = least_favourable.PointTest(GdpShift(), 0.0, scores, members=sides[0], significance=0.05 / share).critical_sum()
    return float(tail[critical - int(scores[: sides[0]].sum()) + 1])


def test_no_size_of_the_shipped_table_has_more_than_the_stated_level() -> None:
    """Exact levels of each size from 20 to 500 and each share; a few rows are computed anew, by the draws in use."""
    rows = np.genfromtxt(TABLE, delimiter=",", skip_header=1)
    members, share = rows[:, 0], rows[:, 2]
    assert set(members) == set(range(20, 501)) and len(rows) == 7 * 481
    drawn = ~np.isnan(rows[:, 4])
    assert drawn[share <= 5].all() and drawn[members % 10 == 0].all()
    assert (rows[:, 3] <= 0.05 / share).all() and (rows[:, 3] > 0.9 * 0.05 / share).all()
    assert (rows[drawn, 4] <= rows[drawn, 3]).all()
    # what the luck of the draws costs of a power of 80 %: standard errors of the test, by the density of power there
    cost = stats.norm.pdf(stats.norm.ppf(0.8)) * (stats.norm.isf(rows[drawn, 4]) - stats.norm.isf(rows[drawn, 3]))
    assert cost.mean() < 0.01 and cost.max() < 0.02
    for size in (20, 27, 40):
        for row in rows[(members == size) & np.isin(share, (1, 3))]:
            assert exact_level((int(row[0]), int(row[1])), int(row[2])) == pytest.approx(row[4], abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [61, 113, 150, 222])
def test_further_shipped_rows_are_those_that_the_draws_in_use_give(size: int) -> None:
    rows = np.genfromtxt(TABLE, delimiter=",", skip_header=1)
    for row in rows[(rows[:, 0] == size) & ~np.isnan(rows[:, 4])]:
        assert exact_level((int(row[0]), int(row[1])), int(row[2])) == pytest.approx(row[4], abs=1e-7)


@pytest.mark.parametrize("significance", [0.07, 0.0125])
def test_a_sum_that_simulated_ones_equal_is_counted_among_them(significance: float) -> None:
    scores = least_favourable.auc_scores(78)
    test = least_favourable.PointTest(GdpShift(), 0.0, scores, members=37, significance=significance)
    largest = test.critical_sum()
    again = least_favourable.PointTest(GdpShift(), 0.0, scores, members=37, significance=significance)
    assert not again.refutes(largest) and again.refutes(largest + 1)
