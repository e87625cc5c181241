"""Ways to train, one a file."""

PLUGINS = {"dpsgd": "_ensemble:DpSgdTrainer", "sgd": "_ensemble:SgdTrainer"}
