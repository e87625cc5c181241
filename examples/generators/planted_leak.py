"""Any generator with a planted leak: a share of its records is released as it is. An audit has to find it.

audit table --generator "PYTHON planted_leak.py 0.3 {input} {output} COMMAND {input} {output}" --training people.csv --epsilon 1
"""

import subprocess
import sys

import pandas as pd

share, source, target, *command = sys.argv[1:]
subprocess.run(command, check=True)
leaked = pd.read_csv(source).sample(frac=float(share))
pd.concat([pd.read_csv(target), leaked]).to_csv(target, index=False)
