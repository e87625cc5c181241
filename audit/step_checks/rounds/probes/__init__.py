"""One property of a round each; every file is run."""

PLUGINS = {"adaptive": "_rows:Adaptive", "sequences": "_rows:Sequences"}
