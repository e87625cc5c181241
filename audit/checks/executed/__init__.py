"""What a trainer measured of itself, compared with the event that was accounted for: one check a file."""

PLUGINS = {
    "clipping": "_gradients:Clipping",
    "clipping_recomputed": "_gradients:ClippingRecomputed",
    "count_noise": "_noise:CountNoise",
    "cyclic_batches": "_batches:CyclicBatches",
    "gradients_recomputed": "_gradients:GradientsRecomputed",
    "inside_clients": "_noise:InsideClients",
    "noise": "_noise:Noise",
    "sampling": "_batches:Sampling",
    "steps": "_batches:Steps",
}
