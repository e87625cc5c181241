"""Reads what is seen of crafted updates and of texts: inner products with gradient canaries, and numbers of tokens."""

import numpy as np

from attacks.signals._reading import checked
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.views import View


def products(target: View, attack: str, key: str) -> Array:
    """Inner products with gradient canaries, `(m, steps)` or `(m,)` float64, checked; `ObservationError` if there are none,
    they have another shape or are not finite.
    """
    signal_values = target.get(key)
    if signal_values is None:
        raise ObservationError(
            f"attack '{attack}' reads inner products with gradient canaries and none were recorded; use canaries "
            "dirac_gradient or random_gradient, with access all_steps for gradient_product and final_weights for "
            "weight_difference; in federated training, signed_cosine with update_product, sum_product or model_product"
        )
    products = np.asarray(signal_values, dtype=np.float64)
    axes = 1 if key == "weight_products" else 2
    bad = int(products.size - np.isfinite(products).sum())
    if products.ndim != axes or bad:
        raise ObservationError(
            f"attack '{attack}' got products of shape {products.shape}, {bad} of them not finite; "
            f"expected finite {'(m, steps)' if axes == 2 else '(m,)'}"
        )
    return products


def sum_groups(values: Array, canaries: Canaries) -> Array:
    """Return what was seen of each planted record in rounds `(N, m copies, rounds)`, summed over each canary's group."""
    models, planted, rounds = values.shape
    if planted == len(canaries):
        return values
    return np.asarray(values.reshape(models, len(canaries), -1, rounds).sum(axis=2))


def text_signal(target: View, key: str, attack: str) -> Array:
    """A signal of texts under the target, float64, checked; `ObservationError` if it was not observed, or is not finite."""
    values = target.get(key)
    if values is None:
        raise ObservationError(
            f"attack '{attack}' reads {key} of texts and the target shows none; use trainer language_model with canaries "
            "that are texts"
        )
    return np.asarray(checked(values, attack), dtype=np.float64)


def text_labels(target: View, attack: str) -> Array:
    """The tokens to predict, `(m, T)`, -1 elsewhere; `ObservationError` if the target's records are no texts."""
    if target.labels is None or np.ndim(target.labels) != 2:
        raise ObservationError(f"attack '{attack}' reads the tokens of texts and the target shows none")
    return np.asarray(target.labels)
