"""Time and memory of every array-only attack on 50,000 records and 64 references of 10 classes.

Signals are drawn, not trained: speed does not depend on them. Prints the seconds of each attack, wall and CPU, and the
peak memory of the process. An attack that reads signals of the weights or of queries gets drawn ones of the same size.

    python benchmarks/attack_speed.py [--records 50000] [--references 64] [--classes 10] [--threads 2]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)

    import numpy as np  # after the number of threads is set

    from audit import plugins
    from audit.core.seeds import Seed
    from audit.core.views import View

    random = np.random.default_rng(0)
    shape = (options.references + 1, options.records)
    labels = random.integers(0, options.classes, options.records)
    included = random.random(shape) < 0.5
    logits = random.standard_normal((*shape, options.classes), dtype=np.float32)
    logits[:, np.arange(options.records), labels] += 1 + included
    norms = random.random(shape, dtype=np.float32)
    trajectory = random.random((*shape, 8), dtype=np.float32)

    def seen(models: int | slice) -> dict[str, np.ndarray]:
        lengths = ("gradient_norms", "last_gradient_norms", "class_distances", "boundary_distances_300")
        each = {
            "logits": logits,
            "predicted_labels": logits.argmax(-1)[:, None],
            "loss_trajectory": trajectory,
            **dict.fromkeys(lengths, norms),
        }
        return {name: signal[models] for name, signal in each.items()}

    target = View.of(labels=labels, **seen(0))
    reference = View.of(included=included[1:], **seen(slice(1, None)))
    held = sum(signal.nbytes for signal in (logits, norms, trajectory, included)) / 2**30
    print(f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, Python {platform.python_version()}")
    print(f"{options.records} records, {options.references} references, {options.classes} classes; signals {held:.2f} GB")
    wall = cpu = 0.0
    for name in plugins.names("attacks.scorers"):
        attack = plugins.build("attacks.scorers", {"kind": name})
        if name in ("gradient_product", "weight_difference"):
            continue
        began = time.perf_counter(), time.process_time()
        attack.score(target, reference, Seed(0))
        spent = time.perf_counter() - began[0], time.process_time() - began[1]
        wall, cpu = wall + spent[0], cpu + spent[1]
        print(f"  {name:22s} {spent[0]:6.2f} s wall {spent[1]:6.2f} s CPU", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"all: {wall:.1f} s wall, {cpu:.1f} s CPU, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
