"""What a language model holds beside trained parameters: one module reads all models of a job, so it has to be the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.errors import UnsupportedMechanism
from audit.engine.text.text_model import TextModel
from audit.engine.trial.mixing import alike
from audit.engine.trial.outside_state import State, digest, outside_state
from audit.models.language import quiet_libraries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnState:
    """A job's first model before its training."""

    state: State  # by path, after a call, so that what a first call draws and keeps is in it
    frozen: State  # digest of each buffer and frozen parameter, by name
    flat: Tensor  # `(width,)` its trainable parameters
    outputs: Tensor  # for `tokens` `(rows, T)`
    tokens: Tensor

    @classmethod
    def of(cls, model: TextModel, tokens: Tensor, *, classes: int) -> OwnState:
        """Return the state of a model before its training; `UnsupportedMechanism` if it cannot answer, or not twice alike."""
        with quiet_libraries(UnsupportedMechanism, "the language model cannot be asked about the texts"):
            outputs = _answer(model, tokens, classes)
        state = outside_state(model.module)
        if not alike(outputs, _answer(model, tokens, classes)):
            name = _difference(state, outside_state(model.module)) or "a value of its code"
            raise UnsupportedMechanism(
                f"the language model answers the same texts otherwise when it is asked again ('{name}' changes): a layer draws "
                "numbers, so no record has a gradient or a loss of its own; choose another architecture"
            )
        return cls(state=state, frozen=_frozen(model), flat=model.flat[0].clone(), outputs=outputs, tokens=tokens)

    def refuse_differing(self, model: TextModel, *, classes: int) -> None:
        """Raise `UnsupportedMechanism` if a model of another seed, not yet trained, differs in more than what is trained."""
        own = model.flat[0].clone()
        model.load(self.flat)
        outputs = _answer(model, self.tokens, classes)
        model.load(own)
        name = _difference(self.state, outside_state(model.module)) or _difference(self.frozen, _frozen(model))
        if not name and alike(self.outputs, outputs):
            return
        reason = f"'{name}' is not trained and differs" if name else "outputs for the same weights differ"
        raise UnsupportedMechanism(
            f"{reason} between language models of different seeds: attacks read all models through one module; let it follow "
            "from the model's config alone, or train it"
        )


def _answer(model: TextModel, tokens: Tensor, classes: int) -> Tensor:
    with torch.no_grad():
        return (model.class_logits if classes else model.token_log_probabilities)(tokens)


def _difference(first: State, second: State) -> str:
    """Return the first path whose values differ, "" if none does."""
    return next((path for path in {**first, **second} if first.get(path) != second.get(path)), "")


def _frozen(model: TextModel) -> State:
    module = model.module
    values = [*module.named_buffers(), *(pair for pair in module.named_parameters() if not pair[1].requires_grad)]
    return {name: digest(value) for name, value in values}
