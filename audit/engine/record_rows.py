"""The records that a job's models sample, as tensors: all at once, or a batch at a time if they are in another form."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.record_arrays import RecordArray, concatenate
from audit.core.training import TrainingJob
from audit.engine.losses import input_tensor, label_tensor
from audit.models.packed_inputs import refuse_fractions

_COPY_BYTES = 1 << 28
_DEVICE_SHARE = 4  # of a device's free memory that records may take


class RecordRows:
    """Records `(n, ...)` of which a batch becomes a tensor when it is asked for, with what the engine reads of tensors.

    It is of type `dtype`, if records are no whole numbers.
    """

    def __init__(self, records: RecordArray, dtype: torch.dtype, device: torch.device) -> None:
        self._records, self._dtype = records, dtype
        self.device, self.shape = device, torch.Size(records.shape)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def itemsize(self) -> int:
        return self._dtype.itemsize if self._records.dtype.kind == "f" else 8

    def index_select(self, axis: int, index: Tensor) -> Tensor:
        """The records of these numbers, `(len(index), ...)`, on the device; `ValueError` if `axis` is not theirs."""
        if axis != 0:
            raise ValueError(f"axis {axis}: records lie along axis 0")
        rows = torch.from_numpy(self._records.rows(index.cpu().numpy()))
        return rows.to(self.device, self._dtype if rows.is_floating_point() else torch.int64)

    def __getitem__(self, index: Any) -> Tensor:
        numbers = torch.arange(len(self))[index if isinstance(index, slice | int) else torch.as_tensor(index).cpu()]
        rows = self.index_select(0, numbers.reshape(-1))
        return rows.reshape(*numbers.shape, *self.shape[1:])


def client_records(job: TrainingJob, device: torch.device) -> tuple[Tensor | RecordRows, Tensor]:
    """The same for federations: inputs in another form become numbers at once if these take less than 256 MB.

    Compiled steps of clients read tensors alone.
    """
    inputs, labels = training_tensors(job, torch.float32, device)
    if isinstance(inputs, RecordRows) and inputs.shape.numel() * inputs.itemsize <= _COPY_BYTES:
        return inputs[:], labels
    return inputs, labels


def training_tensors(job: TrainingJob, dtype: torch.dtype, device: torch.device) -> tuple[Tensor | RecordRows, Tensor]:
    """All that a model of `job` may sample: the shared records, then the canaries that are records.

    Labels are on `device`; so are inputs, unless they are kept in another form than that of numbers and stay there. Raises as
    `refuse_fractions`.
    """
    parts = [job.dataset.train, *([] if job.canaries.records is None else [job.canaries.records])]
    labels = label_tensor(np.concatenate([part.labels for part in parts]), dtype).to(device)
    inputs = concatenate([part.inputs for part in parts])
    refuse_fractions(job.model, inputs)
    if not isinstance(inputs, RecordArray):
        return input_tensor(inputs, dtype).to(device), labels
    rows = RecordRows(inputs, dtype, device)
    if device.type == "cpu" or _DEVICE_SHARE * inputs.size * dtype.itemsize > torch.cuda.mem_get_info(device)[0]:
        return rows, labels
    full = inputs.dtype.kind != "f"
    copy = torch.empty(rows.shape, dtype=torch.int64 if full else dtype, device=device)
    for start, part in zip(range(0, len(rows), 4096), inputs.parts(), strict=True):
        copy[start : start + len(part)] = torch.from_numpy(part).to(device)
    return copy, labels
