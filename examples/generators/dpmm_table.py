"""A generator of dpmm as the command of an audit, run by a Python that has dpmm; kinds are mst, aim and privbayes.

audit table --generator "PYTHON dpmm_table.py {input} {output} {seed} mst" --training people.csv --epsilon 1
"""

import sys

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

KINDS = {"mst": MSTPipeline, "aim": AIMPipeline, "privbayes": PrivBayesPipeline}
source, target, seed, kind = [*sys.argv[1:], "mst"][:4]
table = pd.read_csv(source)
pipeline = KINDS[kind](epsilon=1.0, delta=1e-5, proc_epsilon=0.1)
pipeline.fit(table, domain={}, random_state=int(seed) % 2**32)  # no domain is declared, so categories are read off the data
pipeline.generate(20 * len(table)).to_csv(target, index=False)
