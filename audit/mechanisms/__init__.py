"""What trainings do to the data, one file each: from the keys of a config to an event."""

PLUGINS = {"dp_sgd": "_sgd:DpSgd", "non_private": "_sgd:NonPrivate"}
