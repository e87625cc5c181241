"""What a file with a trained model is, by its name and by what it holds, and which options its reader takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit import plugins
from audit.core.errors import ConfigError

FOLDER = plugins.FOLDERS["targets"]
KINDS = plugins.names(FOLDER)
WITHOUT_TARGET = "predictions"  # the kind where no target is named: the members and nonmembers are files of outputs then

_RECORDS = {"members", "nonmembers"}


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """How files of models are read: `common` options by kinds that take them, `explicit` ones by all, or refused."""

    common: Mapping[str, Any] = field(default_factory=dict)
    explicit: Mapping[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Any]:
        """Return the options for files of this kind; `ConfigError` if it does not take what was asked for."""
        keys = taken_keys(kind)
        for name in self.explicit:
            if name not in keys:
                option, takes = f"--{name.replace('_', '-')}", ", ".join(key for key in keys if key != "path")
                raise ConfigError(f"{option} means nothing to a target of the kind '{kind}', which takes {takes}; leave it out")
        return {name: value for name, value in {**self.common, **self.explicit}.items() if name in keys}


PICKLE_SUFFIXES = (".joblib", ".pkl", ".pickle")
PICKLED = (
    ". A pickled model runs code when it is read, so none is read: call audit.check(model, members, nonmembers) in Python, "
    "or save what the model predicts (--kind predictions)"
)


def taken_keys(kind: str) -> tuple[str, ...]:
    """Return the options of the class that reads files of this kind; `ConfigError` if there is none."""
    return plugins.keys(plugins.find(FOLDER, kind, "--kind"))[0]


def holds_records(kind: str) -> bool:
    """Return whether files of this kind hold the audited records themselves, not a model that answers for any record."""
    return set(taken_keys(kind)) >= _RECORDS


def guess_kind(target: Path | None, explicit: Collection[str] = ()) -> str:
    """Return the kind of a path by suffix, `explicit` options and contents; `ConfigError` if these do not say it."""
    if target is None:
        return WITHOUT_TARGET
    classes = {kind: plugins.find(FOLDER, kind) for kind in KINDS}
    takers = [kind for kind in KINDS if set(explicit) <= set(taken_keys(kind))]
    by_suffix = [kind for kind in KINDS if target.suffix.lower() in classes[kind].suffixes]
    fitting = [kind for kind in by_suffix if kind in takers] or by_suffix
    if not fitting and explicit and len(takers) == 1:  # only one kind of file has a use for these options
        return takers[0]
    if not fitting:
        pickled = PICKLED if target.suffix.lower() in PICKLE_SUFFIXES else ""
        raise ConfigError(f"the suffix of '{target.name}' does not show its kind; add --kind {'|'.join(KINDS)}{pickled}")
    # of several that share a suffix, the one that finds its own marks in the file goes before those that look for none
    certain = [kind for kind in fitting if hasattr(classes[kind], "recognises") and classes[kind].recognises(target)]
    plain = [kind for kind in fitting if not hasattr(classes[kind], "recognises")]
    return [*certain, *plain, *fitting][0]
