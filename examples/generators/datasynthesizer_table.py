"""DataSynthesizer's PrivBayes as the command of an audit, run by a Python that has DataSynthesizer.

audit table --generator "PYTHON datasynthesizer_table.py {input} {output} {seed}" --training people.csv --epsilon 1
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator

source, target, seed = sys.argv[1:4]
table = pd.read_csv(source)
texts = {name: table[name].dtype.kind not in "iuf" for name in table}
describer = DataDescriber(category_threshold=len(table) + 1)
options = {"epsilon": 1.0, "k": 2, "seed": int(seed) % 2**32}  # the seed of the library is 0 unless it is told another
options |= {"attribute_to_is_categorical": texts, "attribute_to_is_candidate_key": dict.fromkeys(table, False)}
describer.describe_dataset_in_correlated_attribute_mode(source, **options)
with tempfile.TemporaryDirectory() as folder:
    description = str(Path(folder) / "description.json")
    describer.save_dataset_description_to_file(description)
    generator = DataGenerator()
    generator.generate_dataset_in_correlated_attribute_mode(20 * len(table), description, seed=int(seed) % 2**32)
generator.synthetic_dataset.to_csv(target, index=False)
