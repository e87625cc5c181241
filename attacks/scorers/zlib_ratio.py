"""zlib ratio: a text that is likelier than it is simple."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals.compressed_sizes import CompressedSizes
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ZlibRatio:
    """Scores each text with minus its loss over the size that zlib compresses it to.

    References:
        Carlini et al. 2021, arXiv 2012.07805.
    """

    @property
    def needs(self) -> Needs:
        """Losses and compressed sizes; no references."""
        return Needs(signals={Losses(), CompressedSizes()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus loss over size, `(m,)` float64."""
        sizes = canary_reading.text_signal(target, "compressed_sizes", "zlib_ratio")
        if not (sizes > 0).all():
            raise ObservationError("attack 'zlib_ratio' got sizes that are not above 0; zlib gives at least 8 bytes")
        return -canary_reading.text_signal(target, "losses", "zlib_ratio") / sizes


PLUGIN = ZlibRatio
