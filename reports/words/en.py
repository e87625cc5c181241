"""The words of a report that do not depend on its numbers: verdicts, limits, glossary. Reviewed prose, no placeholders."""

from __future__ import annotations

from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Outcome
from audit.core.game import Assumption, Game, Inclusion
from audit.core.results import Status
from reports.pages.blocks import Tone

VERDICTS = {
    Outcome.VIOLATED: "The claim is contradicted",
    Outcome.CONSISTENT: "The claim was not contradicted",
    Outcome.OUT_OF_REACH: "Not testable: this audit could not have contradicted the claim",
    Outcome.INVALID: "Invalid: this audit says nothing about the claim",
}
INTERNAL_MARK = "INTERNAL"
INTERNAL_REASON = " This edition lists single records; audit report --edition external leaves them out."
NO_CLAIM = "No claim was tested"

OUTCOMES = {
    Outcome.VIOLATED: ("contradicted", Tone.BAD),
    Outcome.CONSISTENT: ("not contradicted", Tone.GOOD),
    Outcome.OUT_OF_REACH: ("not testable", Tone.OPEN),
    Outcome.INVALID: ("invalid", Tone.BAD),
    None: ("no claim", Tone.PLAIN),
}

STATUS = {
    Status.CHECKED: ("checked", Tone.GOOD),
    Status.DECLARED: ("declared", Tone.OPEN),
    Status.GAP: ("gap", Tone.BAD),
    Status.FAILED: ("failed", Tone.BAD),
}

COVERAGE = {"run": Tone.GOOD, "partly": Tone.OPEN, "not run": Tone.BAD}

ADJACENCY = {
    Adjacency.ADD_REMOVE: "add or remove one record",
    Adjacency.REPLACE_ONE: "replace one record by another",
    Adjacency.ZERO_OUT: "replace one record by an empty one",
}

ACCESS = {
    Access.LABEL_ONLY: "predicted labels of the model",
    Access.FINAL_MODEL: "outputs of the model",
    Access.FINAL_WEIGHTS: "final weights",
    Access.ALL_STEPS: "every noisy step",
}


def sees_of(access: Access) -> str:
    """What an adversary with this access sees, after "the"."""
    return ACCESS.get(access, access.words)


LEVELS = {
    Access.LABEL_ONLY: "predicted labels",
    Access.FINAL_MODEL: "model outputs",
    Access.FINAL_WEIGHTS: "final weights",
    Access.ALL_STEPS: "every noisy step",
}

ASSUMPTIONS = {
    Assumption.INDEPENDENT_COINS: "independent coins",
    Assumption.INDEPENDENT_TRIALS: "independent trials",
    Assumption.INDEPENDENT_SECRETS: "values drawn independently from declared laws",
    Assumption.INDEPENDENT_ANSWERS: "releases that do not depend on each other's secrets",
    Assumption.REPLACED_VALUES: "claims about replacing one value",
}

_FAMILIES = {
    "gdp": "Gaussian DP",
    "dp_sgd": "DP-SGD with Poisson sampling",
}

GATES = {
    "max_claimed_epsilon": "Claimed ε, at most",
    "max_proven_epsilon": "Proven ε, at most",
    "max_tpr_at_1_percent_fpr": "TPR at 1 % FPR, at most",
    "max_auc": "Attack AUC, at most",
    "min_accuracy": "Accuracy, at least",
}

HOW_TO_READ = (
    "A claim is an upper bound: whoever trained the model says that one record changes the outcome by no more than ε "
    "allows. An attack gives a lower bound: it shows that one record changes the outcome by at least so much. An audit "
    "can contradict a claim, by a lower bound above it. It cannot prove one: a stronger attack may exist."
)

HOW_TO_READ_ATTACKS = (
    "A trained model can give away which records were in its training data. An attack gives every record a score; the more of "
    "the true members it finds while it calls few others members, the more the model gives away. An audit can show that a "
    "model leaks. It cannot show that it does not: a stronger attack may exist."
)

NEVER_SAYS = (
    "It does not say that a claim is true. A claim that was not contradicted withstood the attacks listed here, no more.",
    "It does not say that the model or its data fall outside data protection law, nor that any law or standard is met. "
    "Those are decisions of the controller and the authorities; this report is evidence for them.",
    "It does not speak about attacks that were not run, about other releases from the same data, or about a model that "
    "was trained later with another configuration.",
    "It does not turn an average into a statement about each person: the most exposed record may be worse off than any "
    "figure here.",
)

LIMITATIONS = (
    "Every lower bound holds for the game it was measured in. A game in which the attacker sees less proves less, and "
    "says nothing about an attacker who sees more.",
    "The guarantee is about one unit of privacy, one record unless the claim says otherwise. A person with several "
    "records is protected less.",
    "Bounds hold at the stated δ. Figures at different δ, units or adjacencies cannot be compared.",
    "Floating-point arithmetic, the random generator and timing can leak beside the mechanism; this audit does not test them.",
)

GLOSSARY = (
    ("Accountant", "A program that adds up the privacy cost of all training steps into one ε at a given δ."),
    ("Adjacency", "Which two data sets count as neighbours: one record added or removed, or one replaced."),
    ("Canary", "A record, or a crafted gradient, that is planted in training by a coin so that its traces can be looked for."),
    (
        "Ceiling",
        "The largest ε that this audit could have proven with perfect scores. A claim above it cannot be contradicted here.",
    ),
    (
        "Confidence",
        "How often a procedure is right when it is repeated: a 95 % lower bound is too high in at most 5 of 100 audits.",
    ),
    ("δ (delta)", "The small probability with which the ε guarantee may fail."),
    (
        "DP-SGD",
        "Training in which each record's gradient is clipped to a fixed length and Gaussian noise is added to every sum.",
    ),
    ("ε (epsilon)", "How much one record may change the probability of any outcome: by a factor of at most e to the power ε."),
    ("False positive rate", "The share of nonmembers that an attack wrongly calls members (FPR)."),
    ("Membership inference", "Telling from a model whether a given record was in its training data."),
    (
        "Negative control",
        "The same statistics on coins that mean nothing. If they prove anything too often, the audit is void.",
    ),
    ("True positive rate", "The share of members that an attack finds (TPR)."),
)

USES = {
    "Accountant": r"accountant",
    "Adjacency": r"neighbour|adjacen",
    "Canary": r"canar",
    "Ceiling": r"ceiling",
    "Confidence": r"confidence",
    "δ (delta)": r"δ",
    "DP-SGD": r"DP-SGD",
    "ε (epsilon)": r"ε",
    "False positive rate": r"FPR|false positive|false alarm",
    "Membership inference": r"membership inference",
    "Negative control": r"negative control",
    "True positive rate": r"TPR|true positive",
}
"""The words by which a page uses a term of the glossary."""

NO_EPSILON = (
    "No ε is stated. A lower bound on ε needs membership to be decided by coins that the training could not foresee; here it "
    "was decided by a split of the data. Whatever tells the two parts apart, leakage or not, would count."
)

INTERNAL = "Internal: whoever reads this table learns who was in the training set. Take it out before the report is passed on."

DESCRIPTIVE = (
    "Every model that was trained for this game takes the target's place once. These figures describe how strong an attack is "
    "on such a model, who is exposed and whether it is the same records every time. They prove no ε, because the scores "
    "of models that served as each other's references must not be pooled into a bound."
)

SIGNATURES = ("Carried out by", "Reviewed by", "Released by")


def family(name: str) -> str:
    """A trade-off family in words."""
    return _FAMILIES.get(name, name)


def utility(kind: str) -> str:
    """What utility figures of a kind of report are measured on."""
    return "Utility on test records that no model was trained on." if kind == "run" else "Utility on the records given."


def game(rules: Game) -> str:
    """The rules of a game in plain sentences.

    >>> from audit.core.game import Game
    >>> game(Game(adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.SPLIT, canaries=10))
    '10 canaries. Membership was decided by a split of the data, not by coins. The attacker sees the outputs of the model.'
    """
    kind = rules.canary or "canaries"
    if rules.inclusion is Inclusion.SPLIT:
        return (
            f"{rules.canaries:,} {kind}. Membership was decided by a split of the data, not by coins. The attacker sees the "
            f"{sees_of(rules.access)}."
        )
    runs = "one training run" if rules.runs == 1 else f"each of {rules.runs:,} training runs"
    if rules.choices > 1:
        return _game_of_secrets(rules, runs)
    chance = "a fair coin" if rules.inclusion_probability == 0.5 else f"a coin of probability {rules.inclusion_probability:g}"
    sees = (
        f"The attacker sees the {sees_of(rules.access)}"
        if rules.access != Access.ALL_STEPS
        else ("The attacker sees every noisy step, and knows all other records and which of them each step used")
    )
    own = {0: "", 1: ", and has trained one model of its own"}.get(
        rules.references, f", and has trained {rules.references:,} models of its own"
    )
    noise = " The canaries do not touch each other, so each of them is a trial of its own." if rules.independent_noise else ""
    coins = f"for each of {rules.canaries:,} canaries ({kind}) whether it is in the training set"
    if rules.canaries == 1:
        coins, noise = f"whether one canary (of {kind}) is in the training set", " Each run is a trial of its own."
    return (
        f"In {runs}, {chance} decides {coins}. "
        f"{sees}{own}, and has to tell from that how each coin fell. Neighbouring data sets: "
        f"{ADJACENCY[rules.adjacency]}.{noise}"
    )


def _game_of_secrets(rules: Game, runs: str) -> str:
    """The rules of a game in which values are guessed."""
    steps = rules.access == Access.ALL_STEPS
    sees = "every noisy step" if steps else f"the {sees_of(rules.access)}"
    own = f", has trained {rules.references:,} models of its own" if rules.references else ""
    noise = " No release depends on two secrets, so each of them is a trial of its own." if rules.independent_noise else ""
    return (
        f"In {runs}, each of {rules.canaries:,} secrets ({rules.canary or rules.secret}) takes one of {rules.choices:,} "
        "values, drawn by the auditor from a law that was declared before training. The attacker knows everything but the "
        f"values, sees {sees}{own}, and names the value of each secret. Neighbouring data sets: "
        f"{ADJACENCY[rules.adjacency]}.{noise}"
    )
