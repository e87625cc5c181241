"""What a record's confidence would be, had the model not seen it: predicted from other records that are known nonmembers."""

from dataclasses import dataclass

from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class NonmemberMedians:
    """Predicted median confidence of each record under the model, by who knows which other records are nonmembers.

    No plug-in: `audit.experiment.external.nonmember_medians` fits it when a trained model is audited, since only then
    nonmembers are known beforehand. It knows coins of other records, so no epsilon follows from it.
    """

    key = "nonmember_medians"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        return 1

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if it was not fitted."""
        medians: Array | None = getattr(models, "nonmember_medians", None)
        return medians
