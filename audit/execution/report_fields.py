"""The places in report.json that nothing else in a run folder decides, by what they hold in words: only a signature vouches.

Every other place is compared with what follows from scores, config and the rest, and must be there.
"""

from __future__ import annotations

OPEN_PLACES: dict[str, tuple[str, ...]] = {  # a place stands for all within it
    "title": ("title",),
    "date": ("created",),
    "name of the model": ("model",),
    "name, origin and sizes of the data": ("data",),
    "notes": ("notes", "mechanisms.claims.note", "mechanisms.verdicts.claim.note", "mechanisms.games.note"),
    "command, commit and platform": tuple(
        f"provenance.{key}" for key in ("command", "code_commit", "platform", "device", "threads")
    ),
    "versions": tuple(f"provenance.{key}" for key in ("version", "packages", "python")),
    "engagement": ("engagement",),
    "ledger": ("ledger",),
    "origins of settings": ("origins", "config_lines"),
    "measurements of the training": ("mechanisms.checks",),
    "accuracies": ("mechanisms.utility", "mechanisms.games.groups.accuracy"),
    "the first look at scores": ("mechanisms.preflight",),
    "bounds over the steps": ("mechanisms.bound_trajectories",),
    "what canaries are": ("mechanisms.games.game.canary", "mechanisms.games.game.independent_noise"),
    "names and labels of records": ("mechanisms.games.records.record", "mechanisms.games.records.label"),
    "lists of exposed records": ("mechanisms.games.records",),
    "guesses of secrets": tuple(
        f"mechanisms.games.{key}" for key in ("attacks.guesses", "attacks.secrets", "trigger", "game.secret")
    ),
    "figures over several targets": ("mechanisms.games.evaluation",),
    "bounds and verdicts of games that stop early": ("mechanisms.games.watched",),
    "columns, predicates, guesses and closeness of tables": (
        "table.columns", "table.closeness", "table.risks.attack", "table.risks.baseline", "table.risks.p_value",
        "table.risks.training", "table.risks.control",
    ),
}  # fmt: skip
OF_RUNS = (
    "lists of exposed records",
    "ledger",
    "origins of settings",
    "bounds over the steps",
    "bounds and verdicts of games that stop early",
)
WITHOUT_SEED = {"false alarms of controls": ("mechanisms.games.attacks.control",)}  # decided if the seed is there


def find_undecided(kind: str, *, has_seed: bool, has_log: bool, has_bounds: bool = True) -> dict[str, tuple[str, ...]]:
    """Return what nothing decides in a report of a kind, and the places that hold it.

    Args:
        has_seed: whether the folder holds the seed of all draws.
        has_log: whether it holds the log of the run, with its date.
        has_bounds: whether the report has bounds, which depend on delta.
    """
    rows = OPEN_PLACES | ({} if has_seed else WITHOUT_SEED)
    if kind == "run":
        rows = {words: places for words, places in rows.items() if words != "title" and (words != "date" or not has_log)}
    else:
        rows = {words: places for words, places in rows.items() if words not in OF_RUNS}
        rows |= {"seed": ("provenance.seed",)} | ({} if has_bounds else {"delta": ("delta",)})
    elsewhere = "mechanisms" if kind == "table" else "table"
    return {words: places for words, places in rows.items() if not all(place.startswith(elsewhere) for place in places)}
