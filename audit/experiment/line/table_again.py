"""Figures of a synthetic table's risks that follow from its counts, sizes and config, written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attacks.tables import neighbours
from audit.core.results import AuditReport
from audit.core.table_risks import TableAudit
from audit.experiment.line.run_source import Difference
from audit.stats.bounds import binomial, excess_success


def differences(report: AuditReport, config: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield sizes, names and risks of a report on a table, each with what follows from the rest."""
    table, data = report.table, report.data
    if table is None or data is None:
        yield "table", [table is None, data is None], [False, False]
        return
    names = "{synthetic} of {training}, beside {control}".format_map(config)
    sizes = [table.training_records, table.control_records, 0, 0, f"{len(table.columns)} columns"]
    yield "data", [data.train, data.pool, data.test, data.classes, data.features], sizes
    yield "data: name, origin and hash", [data.name, data.source, data.sha256], [
        names, "training (train) and control (pool) records as given", config["sha256"]
    ]  # fmt: skip
    yield "model", report.model, f"{table.synthetic_records:,} synthetic records"
    yield "confidence and comparisons", [table.confidence, report.comparisons], [report.confidence, len(table.risks)]
    yield "categorical columns", list(table.categorical), config["categorical"]
    yield "columns", set(table.columns) >= {*table.categorical, *config["secrets"]}, True
    yield "training, games and attacks", [report.mechanisms, report.coverage, report.outcome], [(), (), None]
    predicates = ["one column", f"{config['predicate_columns']} columns"]
    attacks = [(risk.risk, risk.attack) for risk in table.risks]
    links = [risk for risk in table.risks if risk.risk == "linkability"]
    rows = [("singling out", name) for name in predicates if ("singling out", name) in attacks]  # none, if nobody meets it
    rows += [(risk.risk, risk.attack) for risk in links[:1]] + [("inference", name) for name in config["secrets"]]
    yield "risks", attacks, rows
    by_chance = neighbours.link_by_chance(table.synthetic_records, config["neighbours"])
    yield "guesses of links", [risk.baseline for risk in links], [by_chance]
    yield from _risks(table, config)


def _risks(table: TableAudit, config: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield excess, limits and chance of each risk of a table beside those of its counts; predicates have no limits."""
    count = 3 + len(config.get("secrets") or ())
    significance = (1 - table.confidence) / count
    for risk in table.risks:
        place, sides = f"{risk.risk}, {risk.attack}", (risk.training, risk.control)
        hits, attacks = (sides[0].successes, sides[1].successes), (sides[0].attacks, sides[1].attacks)
        excess, *limits = excess_success.excess_limits(hits, attacks, significance)
        if risk.risk == "singling out":
            ends, limits = [[0.0, 1.0]] * 2, [-1.0, 1.0]
        else:
            tails = (binomial.rate_lower, binomial.rate_upper)
            ends = [[float(tail(hits[k], attacks[k], significance / 4)) for tail in tails] for k in (0, 1)]
            yield f"{place}: chance", risk.p_value, excess_success.fisher_tail(hits, attacks)
        yield f"{place}: excess", [risk.excess, risk.excess_lower, risk.excess_upper], [excess, *limits]
        yield f"{place}: limits", [[side.lower, side.upper] for side in sides], ends
        yield f"{place}: beyond chance", risk.beyond_chance, risk.p_value <= significance
        most = [min(int(config["attacks"]), size) for size in (table.training_records, table.control_records)]
        yield f"{place}: attacks", risk.risk == "singling out" or list(attacks) == most, True
