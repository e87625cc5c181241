"""Tables of a report, one function each; cells are text already rounded."""

from collections.abc import Iterator, Sequence

from audit.core.event_reading import is_non_private, noisy_steps, sample_rate, steps, unit
from audit.core.events import Event
from audit.core.lower_bounds import ReportedBound, VoidBound, largest_bound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, Check, MechanismResult
from reports import headline
from reports.pages.blocks import Column, Mark, Mono, Table, Text, Tone, layout, name_column, small_table
from reports.parties import PartyResult
from reports.words import named
from reports.words.language import count, down, figure, near, not_measured, percent, power, recorded, say, significant, up


def bound_cell(bound: ReportedBound | None) -> str:
    """Return a bound before its ceiling and with its family, called void if nothing can be concluded about its training."""
    if bound is None:
        return say("word.none")
    numbers = {"down": down(read_epsilon(bound)), "down_2": down(read_ceiling(bound))}
    text = say("table.of_2", family=named.family(bound.family), **numbers) if bound.family else say("table.of", **numbers)
    return say("table.void", bound=text) if isinstance(bound, VoidBound) else text


def overview(report: AuditReport) -> Table:
    """Every training and game on a line: claimed, proven with the ceiling of the same game, TPR."""
    rows: list[tuple[Text, ...]] = []
    for mechanism in headline.by_gravity(report):
        claim = min(mechanism.claims, key=lambda c: c.epsilon, default=None)
        for game in mechanism.games:
            best_rate = headline.rate_at(game, 0.01)
            rows.append(
                (
                    Mono(mechanism.name),
                    Mono(game.name),
                    up(claim.epsilon) if claim else say("word.none"),
                    bound_cell(largest_bound(bound for bound in game.bounds if bound.family is None)),
                    bound_cell(largest_bound(bound for bound in game.bounds if bound.family is not None)),
                    percent(best_rate[1].tpr) if best_rate else not_measured(),
                )
            )
    return Table(
        caption=say("table.every_training_and_game_at", power=power(report.delta)),
        columns=(
            name_column(say("page.training"), [mechanism.name for mechanism in report.mechanisms]),
            name_column(say("table.game"), [game.name for game in report.games]),
            *layout(">table.claimed >unclaimed.proven table.inside_a_family:1 >table.tpr_at_1_fpr_chance"),
        ),
        rows=tuple(rows),
    )


def claims(mechanism: MechanismResult) -> Table:
    """Every claim with where it comes from and how it was judged."""
    outcomes = {verdict.claim: verdict.outcome for verdict in mechanism.verdicts}
    deltas, units = {claim.delta for claim in mechanism.claims}, {claim.unit for claim in mechanism.claims}
    rows = tuple(
        (
            claim.source if len(units) == 1 else say("table.per", source=claim.source, unit=claim.unit),
            up(claim.epsilon),
            power(claim.delta),
            named.family(claim.family) if claim.family else say("table.any_with_this"),
            claim.note or say("word.none"),
            named.outcome_mark(outcomes.get(claim)),
        )
        for claim in mechanism.claims
    )
    columns = layout("table.source:1 >ε >δ table.asserted_mechanism:1 table.remarks:1.2 table.verdict")
    table = small_table(say("table.what_is_claimed_for_each", name=mechanism.name), columns, rows)
    return table.only([i for i, column in enumerate(columns) if column.title != "δ" or len(deltas) > 1])


def parameters(mechanism: Event) -> tuple[tuple[Text, ...], ...]:
    """The parameters of a mechanism as rows of two."""
    rate = sample_rate(mechanism)
    rate_row: tuple[tuple[Text, ...], ...] = ()
    if rate is not None:
        words = say("table.per_and_step", significant=significant(rate), record=named.protected_unit(unit(mechanism)))
        rate_row = ((say("table.sample_rate"), words),)
    noisy = noisy_steps(mechanism)
    if noisy is not None:
        return (
            (say("table.mechanism"), say("table.dp_sgd_poisson_batches_clipped")),
            (say("table.noise_multiplier"), say("table.times_the_clip_norm", significant=significant(noisy.noise_multiplier))),
            (say("table.clip_norm"), say("table.l2_over_all_parameters", significant=significant(noisy.clip_norm))),
            *rate_row,
            (say("table.steps"), count(noisy.steps)),
        )
    plain = say("table.plain_stochastic_gradient_training_no")
    name = plain if is_non_private(mechanism) else recorded(str(mechanism))
    return ((say("table.mechanism"), name), *rate_row, (say("table.steps"), count(steps(mechanism))))


def mechanism_table(mechanism: MechanismResult) -> Table | None:
    """Return what happens to the data, or None if the training is not known."""
    if mechanism.mechanism is None:
        return None
    caption = say("table.what_does_to_the_data", name=mechanism.name)
    caption += say("table.the_accountants_were_given_these" if mechanism.trajectories else "separator.end")
    return small_table(caption, layout("table.parameter:0.33 page.value:0.67"), parameters(mechanism.mechanism))


def checks(rows: Sequence[Check], has_claims: bool) -> Table:
    """Assumptions with their status."""
    caption = say("table.what_the_claim_rests_on" if has_claims else "table.what_was_checked")
    columns = layout("page.item:0.28 page.value:0.58 table.status:0.14")
    cells = ((check.item, check.value, named.status_mark(check.status)) for check in rows)
    return small_table(caption + say("table.checked_this_run_tested_it"), columns, cells)


def budget(mechanism: MechanismResult) -> Table:
    """Epsilon spent after each quarter of the training, by accountant."""
    stops = _quarters((mechanism,))
    rows = [(accountant, *cells) for accountant, cells in _costs(mechanism, stops)]
    first = (Column(title=say("table.accountant"), share=1),)
    return _budget_table(say("table.budget_of_epsilon_claimed_after", name=mechanism.name), first, stops, rows)


def budgets(mechanisms: Sequence[MechanismResult]) -> Table:
    """The same for several trainings in one table."""
    stops = _quarters(mechanisms)
    rows = [
        (Mono(mechanism.name), accountant, *cells) for mechanism in mechanisms for accountant, cells in _costs(mechanism, stops)
    ]
    first = layout("page.training:1.2 table.accountant:1.2")
    return _budget_table(say("table.budgets"), first, stops, rows)


def _quarters(mechanisms: Sequence[MechanismResult]) -> list[int]:
    trajectories = [trajectory for mechanism in mechanisms for trajectory in mechanism.trajectories]
    last = max((trajectory.steps[-1] for trajectory in trajectories if trajectory.steps), default=0)
    return sorted({max(1, round(last * part)) for part in (0.25, 0.5, 0.75, 1.0)})


def _costs(mechanism: MechanismResult, stops: Sequence[int]) -> Iterator[tuple[str, list[Text]]]:
    for trajectory in mechanism.trajectories:
        cells: list[Text] = []
        for stop in stops:
            later = [value for step, value in zip(trajectory.steps, trajectory.epsilon, strict=True) if step >= stop]
            cells.append(up(later[0]) if later else not_measured())
        yield trajectory.accountant, cells


def _budget_table(caption: str, first: tuple[Column, ...], stops: Sequence[int], rows: Sequence[tuple[Text, ...]]) -> Table:
    counts = (Column(title=say("table.steps_2", count=count(stop)), right=True, share=0.6) for stop in stops)
    return Table(caption=caption, columns=(*first, *counts), rows=tuple(rows), small=len(first) > 1)


def utility(report: AuditReport) -> Table:
    """Every utility figure of every training."""
    rows = tuple(
        (
            Mono(name),
            metric.name,
            figure(metric.value),
            say("table.one_model") if metric.models < 2 else significant(metric.spread, 2),
            count(metric.models),
        )
        for name, metrics in headline.utility(report)
        for metric in metrics
    )
    return Table(
        caption=say("table.mean_over_models_and_sample", utility_basis=named.utility_basis(report.kind)),
        columns=layout("page.training:1 table.metric:1 >table.mean:0.7 >table.deviation:0.7 >models.models:0.5"),
        rows=rows,
    )


def coverage(report: AuditReport) -> Table:
    """Classes of attack and whether they were run."""
    rows = tuple((row.attack_class, row.done, named.coverage_mark(row.status)) for row in report.coverage)
    return Table(
        caption=say("table.classes_of_attack_what_was"),
        columns=layout("table.class:0.3 table.what_was_done:0.52 table.status:0.18"),
        rows=rows,
    )


def policy(report: AuditReport) -> Table:
    """The gates of the configuration."""
    rows = tuple(
        (
            named.gate(gate.gate),
            significant(gate.limit),
            say("policy.no_figure") if gate.found is None else significant(gate.found),
            Mark(say("table.met"), Tone.GOOD) if gate.met else Mark(say("table.not_met"), Tone.BAD),
        )
        for gate in report.policy
    )
    return Table(
        caption=say("table.the_release_policy_as_the"),
        columns=layout("table.gate:1 >table.limit:0.4 >models.found:0.4 game_table.result:0.4"),
        rows=rows,
    )


def parties(results: Sequence[PartyResult], delta: float) -> Table:
    """Return a row for each training and party, in the order given."""
    caption = say("party_table.caption", power=power(delta))
    columns = layout(
        "page.training:1.1 party_table.unit:0.6 party_table.sees:1.3 >table.claimed:0.7 "
        ">unclaimed.proven:0.9 >table.inside_a_family:1.3 >party_table.estimate:0.8"
    )
    return small_table(caption, columns, map(_row, results))


def _row(party: PartyResult) -> tuple[Text, ...]:
    return (
        Mono(party.training),
        named.protected_unit(party.unit),
        named.level(party.access),
        up(party.claim.epsilon) if party.claim else say("word.none"),
        bound_cell(party.free),
        bound_cell(party.inside),
        not_measured() if party.estimate is None else near(party.estimate.epsilon),
    )


def settings(report: AuditReport) -> Table | None:
    """Return what differs from the defaults, or None if the report does not say."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for path, value in report.settings:
        part, key = _split(path)
        parts.setdefault(part, []).append((key, value))
    if not parts:
        return None
    rows: list[tuple[Text, ...]] = [(Mono(part or "config"), _setting_texts(entries)) for part, entries in parts.items()]
    return small_table(say("settings.the_settings_that_were_given"), layout("settings.part:0.2 settings.settings:0.8"), rows)


def _split(path: str) -> tuple[str, str]:
    """The part of the configuration that a path is in, and its key there.

    >>> _split("games.0.scorers.1.kind"), _split("data.kind"), _split("seed")
    (('games 1', 'scorers'), ('data', 'kind'), ('', 'seed'))
    """
    head, *remainder = path.split(".")
    if not remainder:
        return "", head
    if remainder[0].isdigit():
        part, remainder = f"{head} {int(remainder[0]) + 1}", remainder[1:]
    else:
        part = head
    words = [word for word in remainder if not word.isdigit()]
    words = words[:-1] if len(words) > 1 and words[-1] == "kind" else words
    return part, " ".join(words) or "value"


def _setting_texts(pairs: list[tuple[str, str]]) -> str:
    """Keys with their values; a list's values are behind its key once."""
    values_by_key: dict[str, list[str]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, []).append(value)
    return "; ".join(f"{key} {', '.join(values)}" for key, values in values_by_key.items())
