"""Probes of a step, one property each."""

PLUGINS = {"elsewhere": "_state:Elsewhere", "state": "_state:State"}
