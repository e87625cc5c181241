"""A private plugin of Synthcity (privbayes, aim, ...) as the command of an audit, run by a Python that has it and opacus 1.4.1.

audit table --generator "PYTHON synthcity_table.py {input} {output} {seed} privbayes" --training people.csv --epsilon 1
"""

import sys

import pandas as pd
from synthcity.plugins import Plugins
from synthcity.plugins.core.dataloader import GenericDataLoader

source, target, seed, kind = [*sys.argv[1:], "privbayes"][:4]
table = pd.read_csv(source)
plugin = Plugins(categories=["privacy"]).get(kind, epsilon=1.0, random_state=int(seed) % 2**31)
plugin.fit(GenericDataLoader(table))
plugin.generate(20 * len(table)).dataframe().to_csv(target, index=False)
