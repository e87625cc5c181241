"""A generator of smartnoise-synth as the command of an audit, run by a Python that has it; kinds are mst, mwem and aim.

audit table --generator "PYTHON smartnoise_table.py {input} {output} {seed} mst" --training people.csv --epsilon 1
"""

import sys

import numpy as np
import pandas as pd
from snsynth import Synthesizer

source, target, seed, kind = [*sys.argv[1:], "mst"][:4]
np.random.seed(int(seed) % 2**32)  # noqa: NPY002  the stream that the library draws from
table = pd.read_csv(source)
categories = list(table.select_dtypes(exclude="number").columns)
numbers = [name for name in table.columns if name not in categories]
synthesizer = Synthesizer.create(kind, epsilon=1.0)
synthesizer.fit(table, categorical_columns=categories, continuous_columns=numbers, preprocessor_eps=0.2 if numbers else 0.0)
synthesizer.sample(20 * len(table)).to_csv(target, index=False)
