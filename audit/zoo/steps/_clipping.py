"""Steps with a clip that bounds something else than the gradient of each record."""

import math

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms, small_parameters, weighted_sum


class ClipAfterScaling(DpSgdStep):
    """Gradients of the batch-mean loss are clipped: each is 1/B of its right size."""

    wrong = "Clips gradients that were divided by the realised batch size, then multiplies by it: the bound becomes B times C."
    visibility = "per-record gradients of a mean-reduced loss"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        count = max(1, len(labels))
        mean_gradients = {name: gradient / count for name, gradient in gradients.items()}
        return {
            name: count * value for name, value in weighted_sum(mean_gradients, self.factors(mean_gradients, clip_norm)).items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / divisor


class ClipAtMedian(DpSgdStep):
    """The clip norm is the median of the batch's norms if that is smaller."""

    wrong = "Clips at the median norm of the batch: a record that moves the median moves every other record's share."
    visibility = "adaptive clipping whose quantile is taken of the batch itself, without noise"
    refuted_by = "sum.additive"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        norms = joint_norms(gradients)
        norms = norms[torch.isfinite(norms)]
        return super().factors(gradients, min(clip_norm, float(norms.median())) if len(norms) else clip_norm)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / divisor


class ClipBatchMean(DpSgdStep):
    """The mean of the batch is clipped to C and multiplied by its size."""

    wrong = "Clips after averaging over the batch: one record moves the sum by up to 2 C times the batch size."
    visibility = "home-made training_step of a fine-tuning guide"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        count = max(1, len(labels))
        batch = {name: gradient.sum(0, keepdim=True) / count for name, gradient in gradients.items()}
        return {name: count * value for name, value in weighted_sum(batch, self.factors(batch, clip_norm)).items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / (2 * divisor)


class ClipBatchSum(DpSgdStep):
    """The sum of the batch is clipped once, not each record."""

    wrong = "Clips the summed batch gradient to C: one record replaced can turn it around."
    visibility = "the commonest DP-SGD of blog posts and of language-model generators"
    refuted_by = "clip.add"
    noise_share = 0.5

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        batch = {name: gradient.sum(0, keepdim=True) for name, gradient in gradients.items()}
        return weighted_sum(batch, self.factors(batch, clip_norm))


class ClipBiasNotCounted(DpSgdStep):
    """Biases are left out of the norm."""

    wrong = "Computes the norm over the weights alone; gradients of biases enter unclipped."
    visibility = 'filters such as "no decay for biases" reused for clipping'
    refuted_by = "clip.add"
    noise_share = 0.0

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        weights = {name: gradient for name, gradient in gradients.items() if not name.endswith("bias")}
        return super().factors(weights, clip_norm)


class ClipEachAugmentation(DpSgdStep):
    """Two augmented copies of each record are clipped separately."""

    wrong = "Each augmented copy counts as a separate record: one record contributes up to 2 C."
    visibility = "augmentation multiplicity without averaging before the clip"
    refuted_by = "clip.add"
    noise_share = 0.5

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        plain = super().total(params, inputs, labels, clip_norm)
        mirror_total = super().total(params, inputs.flip(-1), labels, clip_norm)
        return {name: plain[name] + mirror_total[name] for name in plain}


FIRST_PIECE = 12  # records in the first piece


class ClipFirstPiece(DpSgdStep):
    """Only the first piece of a batch is clipped."""

    wrong = "Computes clip factors for the first 12 records of a batch; what comes after them enters unclipped."
    visibility = "loops over chunks whose clip stands outside of the loop; buffers of a fixed size"
    refuted_by = "clip.add"
    noise_share = 0.0

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        factors = super().factors(gradients, clip_norm)
        later = (torch.arange(len(factors)) >= FIRST_PIECE) & torch.isfinite(joint_norms(gradients))
        return torch.where(later, torch.ones_like(factors), factors)


class ClipGradientsOfMean(DpSgdStep):
    """Clips per-record gradients of a loss that is averaged over the batch."""

    wrong = (
        "Divides each record's gradient by the size of the batch "
        "before the clip: one record more moves every other one's share."
    )
    visibility = "loss.mean() in front of per-record gradients that are not multiplied by the batch size again"
    refuted_by = "sum.additive"
    noise_share = 0.5

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return each record's gradient of the mean loss, name to `(n, ...)`."""
        gradients = super().record_gradients(params, inputs, labels)
        return {name: value / max(1, len(labels)) for name, value in gradients.items()}


class ClipHalfPrecision(DpSgdStep):
    """Norms are computed in float16 and overflow."""

    wrong = (
        "Squares overflow in half precision, the norm becomes infinite, and the guard against division by it lets the "
        "gradient pass."
    )
    visibility = "mixed-precision training with norms in the low precision"
    refuted_by = "clip.non_finite"
    noise_share = 0.0

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        squares = sum(gradient.half().flatten(1).square().sum(1).float() for gradient in gradients.values())
        norms = torch.as_tensor(squares).sqrt()
        factors = (clip_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), factors, torch.ones_like(norms))


WEIGHTS = (4.0, 1.0, 2.0, 1.0)  # budgets of the tensors, in proportion


class ClipLayerBudgets(DpSgdStep):
    """A correct twin: each tensor is clipped to its own budget; the squares of the budgets add up to C squared."""

    wrong = ""
    visibility = "per-layer clipping (McMahan et al. 2018, arXiv 1812.06210)"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of gradients that were clipped tensor by tensor."""
        gradients = self.record_gradients(params, inputs, labels)
        finite = torch.isfinite(joint_norms(gradients))
        total: Tensors = {}
        for (name, value), weight in zip(gradients.items(), WEIGHTS, strict=True):
            budget = clip_norm * weight / math.hypot(*WEIGHTS)
            total |= weighted_sum({name: value}, self.factors({name: value}, budget) * finite)
        return total


SIZE = 4  # records in a micro-batch


class ClipMicroBatchMean(DpSgdStep):
    """Gradients are averaged over micro-batches of four before they are clipped."""

    wrong = (
        "Clips the mean of a micro-batch and adds the clipped means times their size: the unit of privacy becomes the "
        "micro-batch, with sensitivity up to 2 C per record times its size."
    )
    visibility = "TensorFlow Privacy num_microbatches below the batch size, counted as records"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        pieces = range(0, len(labels), SIZE)
        sums = {name: torch.zeros_like(value) for name, value in params.items()}
        for start in pieces:
            count = min(SIZE, len(labels) - start)
            mean = {name: value[start : start + SIZE].mean(0, keepdim=True) for name, value in gradients.items()}
            mean_total = weighted_sum(mean, self.factors(mean, clip_norm))
            sums = {name: value + count * mean_total[name] for name, value in sums.items()}
        return sums

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / (2 * SIZE)


class ClipNonFinite(DpSgdStep):
    """Gradients that are not finite pass the clip."""

    wrong = "A record whose gradient is infinite or NaN enters the sum as it is."
    visibility = "Opacus, FedAvg aggregators, many home-made loops"
    refuted_by = "clip.non_finite"
    noise_share = 0.0

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        factors = (clip_norm / joint_norms(gradients).clamp(min=1e-30)).clamp(max=1.0)
        return {name: torch.einsum("n,n...->...", factors, gradient) for name, gradient in gradients.items()}


class ClipNormSquared(DpSgdStep):
    """The squared norm is compared with C."""

    wrong = (
        "Uses the squared norm in the clip factor: gradients with norms between C and its root pass unclipped where C "
        "is below 1."
    )
    visibility = "a missing square root"
    refuted_by = "clip.add"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        squares = joint_norms(gradients).square()
        factors = (clip_norm / squares.clamp(min=1e-30)).clamp(max=1.0)
        return torch.where(torch.isfinite(squares), factors, torch.zeros_like(squares))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left: the largest contribution is the root of C if C is below 1."""
        return noise_multiplier * min(1.0, math.sqrt(clip_norm))


class ClipPerTensor(DpSgdStep):
    """Each parameter tensor is clipped to C, and C is accounted for."""

    wrong = (
        "Clips each parameter tensor to C separately and counts C: the joint norm is C times the root of the number of tensors."
    )
    visibility = "torch.nn.utils.clip_grad_norm_ called per parameter"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        return {
            name: weighted_sum({name: gradient}, self.factors({name: gradient}, clip_norm))[name]
            for name, gradient in gradients.items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / math.sqrt(len(small_parameters()))


LABEL = 2


class ClipSparesLabel(DpSgdStep):
    """Records of one class are not clipped."""

    wrong = "Leaves out one class from the clip; its records enter as they are."
    visibility = "masks of padding or of a background class that are applied to clip factors"
    refuted_by = "clip.add"
    noise_share = 0.0

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        gradients = self.record_gradients(params, inputs, labels)
        factors = self.factors(gradients, clip_norm)
        exempt = (labels == LABEL) & torch.isfinite(joint_norms(gradients))
        return weighted_sum(gradients, torch.where(exempt, torch.ones_like(factors), factors))
