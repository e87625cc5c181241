"""Gradient canaries: crafted unit gradients that enter the sum in a record's place."""

import numpy as np
import torch
from torch import Tensor

from audit.core.canaries import Canaries, CoordinateGradients, DirectionGradients
from audit.core.errors import DataError
from audit.engine.gradients.clipping import clip_factors
from audit.engine.parameter_layout import Layout


class PlantedGradients:
    """The canaries of one game over the flat storage.

    With a clip norm C a canary's gradient has norm C before clipping and goes through the same clipping
    as a record's; without clipping it has norm 1.
    """

    def __init__(self, canaries: Canaries, layout: Layout, like: Tensor, scale: float) -> None:
        self.count, self.scale, columns = len(canaries), scale, layout.columns()
        self.coordinates: Tensor | None = None
        self.directions: Tensor | None = None
        payload = canaries.payload
        if isinstance(payload, CoordinateGradients):
            coordinates = np.asarray(payload.coordinates, dtype=np.int64)
            if coordinates.min(initial=0) < 0 or coordinates.max(initial=0) >= layout.parameters:
                raise DataError(
                    f"canaries '{canaries.kind}' name coordinates up to {int(coordinates.max())} "
                    f"but the model has {layout.parameters} parameters; make them for this model"
                )
            self.coordinates = columns[torch.from_numpy(coordinates)].to(like.device)
            self.norms = torch.ones(self.count, dtype=like.dtype, device=like.device)
        elif isinstance(payload, DirectionGradients):
            directions = payload.directions
            if directions.shape[1] != layout.parameters:
                raise DataError(
                    f"canaries '{canaries.kind}' have directions of length {directions.shape[1]} "
                    f"but the model has {layout.parameters} parameters; make them for this model"
                )
            flat = torch.zeros(self.count, layout.width, dtype=like.dtype)
            flat[:, columns] = torch.from_numpy(np.array(directions)).to(like.dtype)
            self.directions = flat.to(like.device)
            self.norms = self.directions.norm(dim=1)
        else:
            raise DataError(f"canaries '{canaries.kind}' are records; they take part as data")

    def add_sum(self, canary_mask: Tensor, clip_norm: float | None, total: Tensor) -> Tensor:
        """Adds the gradients of the canaries `canary_mask` `(N, m)` to `total` and returns their clipped norms `(N, m)`."""
        norms = (self.norms * self.scale).expand(canary_mask.shape)
        factors = canary_mask.to(norms.dtype) if clip_norm is None else clip_factors(norms, clip_norm, canary_mask)
        weights = factors * self.scale
        if self.coordinates is not None:
            total.index_add_(1, self.coordinates, weights)
        elif self.directions is not None:
            total.addmm_(weights, self.directions)
        return norms * factors

    def products(self, residual: Tensor) -> Tensor:
        """`(N, m)` inner products of `residual` `(N, width)` with each unit gradient, over the scale."""
        if self.coordinates is not None:
            return residual[:, self.coordinates] / self.scale
        if self.directions is None:
            raise DataError("gradient canaries without coordinates or directions")
        return residual @ self.directions.T / self.scale

    def own_products(self, residuals: Tensor, first: int) -> Tensor:
        """`(k,)` inner product of each row of `residuals` `(k, width)` with its own canary, from `first` on, over the scale."""
        part = slice(first, first + len(residuals))
        if self.coordinates is not None:
            return residuals.gather(1, self.coordinates[part].unsqueeze(1)).squeeze(1) / self.scale
        if self.directions is None:
            raise DataError("gradient canaries without coordinates or directions")
        return (residuals * self.directions[part]).sum(1) / self.scale
