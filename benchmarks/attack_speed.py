"""Time and memory of every array-only attack on 50,000 records and 64 references of 10 classes.

Signals are drawn, not trained: speed does not depend on them. Prints the seconds of each attack, wall and CPU, and the
peak memory of the process. An attack that reads signals of the weights or of queries gets drawn ones of the same size.
Confidences are computed once for all attacks, as in an audit.

    python benchmarks/attack_speed.py [--records 50000] [--references 64] [--classes 10] [--threads 2] [--outputs-alone]
        [--near-records]
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
    parser.add_argument("--outputs-alone", action="store_true", help="leave out attacks on weights, queries and checkpoints")
    parser.add_argument("--near-records", action="store_true", help="models show what they say of near records, too")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)

    import numpy as np  # after the number of threads is set

    from attacks.signals import _reading as reading
    from audit import plugins
    from audit.core.seeds import Seed
    from audit.core.views import View

    random = np.random.default_rng(0)
    shape = (options.references + 1, options.records)
    labels = random.integers(0, options.classes, options.records)
    included = random.random(shape) < 0.5
    logits = random.standard_normal((*shape, options.classes), dtype=np.float32)
    logits[:, np.arange(options.records), labels] += 1 + included
    signals = {"logits": logits}
    if not options.outputs_alone:
        lengths = ("gradient_norms", "last_gradient_norms", "class_distances", "boundary_distances_300")
        signals["predicted_labels"] = logits.argmax(-1)[:, None]
        signals["loss_trajectory"] = random.random((*shape, 8), dtype=np.float32)
        signals |= dict.fromkeys(lengths, random.random(shape, dtype=np.float32))
    if options.near_records:
        near = logits[..., 0, None] + random.standard_normal((*shape, 3))
        signals["nearby_confidences"] = near
    held = sum({id(signal): signal.nbytes for signal in (*signals.values(), included)}.values()) / 2**30
    began = time.perf_counter(), time.process_time()
    view = reading.with_confidences(View.of(included=included, **signals), labels)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    target = View(signals={key: signal[0] for key, signal in view.signals.items()}, labels=labels)
    reference = View(signals={key: signal[1:] for key, signal in view.signals.items()}, included=included[1:])
    print(f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, Python {platform.python_version()}")
    print(f"{options.records} records, {options.references} references, {options.classes} classes; signals {held:.2f} GB")
    print(f"  {'confidences, for all':22s} {wall:6.2f} s wall {cpu:6.2f} s CPU", flush=True)
    for name in plugins.names("attacks.scorers"):
        attack = plugins.build("attacks.scorers", {"kind": name})
        if not attack.needs.are_met_by(view.signals.keys()):
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
