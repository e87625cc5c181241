"""A synthesizer of SDV as the command of an audit, run by a Python that has it; copula and ctgan make no claim.

audit table --generator "PYTHON sdv_table.py {input} {output} {seed} copula" --training people.csv --epsilon 1
"""

import sys

import numpy as np
import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table import CTGANSynthesizer, GaussianCopulaSynthesizer

KINDS = {"copula": GaussianCopulaSynthesizer, "ctgan": CTGANSynthesizer}
source, target, seed, kind = [*sys.argv[1:], "copula"][:4]
np.random.seed(int(seed) % 2**32)  # noqa: NPY002  the stream that the library draws from
table, metadata = pd.read_csv(source), Metadata()
metadata.add_table("table")
for name in table:
    metadata.add_column(name, "table", sdtype="numerical" if table[name].dtype.kind in "iuf" else "categorical")
synthesizer = KINDS[kind](metadata)
synthesizer.fit({"table": table})
synthesizer.sample(20 * len(table))["table"].to_csv(target, index=False)
