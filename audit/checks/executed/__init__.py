"""What a trainer measured of itself, compared with the event that was accounted for: one check a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _batches="cyclic_batches sampling steps",
    _gradients="clipping clipping_recomputed gradients_recomputed",
    _noise="count_noise inside_clients noise",
)
