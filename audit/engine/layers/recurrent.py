"""`nn.RNN`, `nn.GRU`, `nn.LSTM` and their cells, of N models: linear layers that the tape records, and what is between them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.layers.layers import LinearLayer, Tape
from audit.engine.layers.parameter_facts import ParameterOwner, UncoveredUse
from audit.engine.parameter_layout import Slot

KINDS, CELLS = (nn.RNN, nn.GRU, nn.LSTM), (nn.RNNCell, nn.GRUCell, nn.LSTMCell)
_SIZES = ("input_size", "hidden_size", "num_layers", "bidirectional", "batch_first", "mode")


def covers(plain: nn.RNNBase) -> bool:
    """True if `RecurrentLayer` does what `plain` does, as far as the layer's attributes show."""
    return plain.proj_size == 0 and (plain.dropout == 0.0 or plain.num_layers == 1)


class RecurrentLayer(ParameterOwner):
    """A `covers`-ed recurrent layer of N models, over sequences of one length; packed ones are an `UncoveredUse`."""

    def __init__(self, plain: nn.RNNBase, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        for name in _SIZES:
            setattr(self, name, getattr(plain, name))
        self.directions = [
            f"l{depth}{suffix}" for depth in range(plain.num_layers) for suffix in ("", "_reverse")[: 1 + plain.bidirectional]
        ]
        for name in self.directions:
            for part in (f"ih_{name}", f"hh_{name}"):
                self.add_module(part, LinearLayer.inside(f"{{}}_{part}", tape, values, slots))

    def flatten_parameters(self) -> None:
        """Does nothing: there are no parameters to lay out."""

    def forward(self, inputs: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Return what `plain` returns: outputs of all times, and the last state or states of each layer and direction."""
        if not isinstance(inputs, Tensor) or inputs.dim() != 3:
            raise UncoveredUse("a recurrent layer is given a packed sequence, or one without a batch axis")
        sequence = inputs if self.batch_first else inputs.transpose(0, 1)
        states = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
        ways = 1 + self.bidirectional
        last: list[tuple[Tensor, ...]] = []
        for depth in range(self.num_layers):
            outputs = []
            for way in range(ways):
                number = depth * ways + way
                output, state = self._run(number, sequence, [state[number] for state in states], backwards=way == 1)
                outputs.append(output)
                last.append(state)
            sequence = torch.cat(outputs, -1) if ways > 1 else outputs[0]
        final = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        return sequence if self.batch_first else sequence.transpose(0, 1), final if self.mode == "LSTM" else final[0]

    def _run(
        self, number: int, sequence: Tensor, start: Sequence[Tensor], *, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs `(rows, times, hidden)` of one layer in one direction, and its last states."""
        name = self.directions[number]
        inward, onward = self.get_submodule(f"ih_{name}"), self.get_submodule(f"hh_{name}")
        input_gates = inward(sequence).unbind(1)  # of all times at once
        state = tuple(start) or (input_gates[0].new_zeros(len(sequence), self.hidden_size),) * (2 if self.mode == "LSTM" else 1)
        outputs = []
        for gates in reversed(input_gates) if backwards else input_gates:
            state = _next_state(self.mode, gates, onward(state[0]), state)
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if backwards else outputs, 1), state


class CellLayer(ParameterOwner):
    """One step of a recurrent layer of N models, which a module of a user's own calls at each time."""

    def __init__(self, plain: nn.RNNCellBase, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        self.input_size, self.hidden_size = plain.input_size, plain.hidden_size
        self.mode = type(plain).__name__.removesuffix("Cell").upper()
        if isinstance(plain, nn.RNNCell):
            self.mode = f"RNN_{plain.nonlinearity.upper()}"
        self.inward, self.onward = (LinearLayer.inside(f"{{}}_{part}", tape, values, slots) for part in ("ih", "hh"))

    def forward(self, inputs: Tensor, hx: Any = None) -> Any:
        """Return what the cell returns: the next state, or the pair of states of an LSTM."""
        if inputs.dim() != 2:
            raise UncoveredUse("a recurrent cell is given one record without a batch axis")
        count = 2 if self.mode == "LSTM" else 1
        zeros = inputs.new_zeros(len(inputs), self.hidden_size)
        state = (zeros,) * count if hx is None else hx if isinstance(hx, tuple) else (hx,)
        following = _next_state(self.mode, self.inward(inputs), self.onward(state[0]), state)
        return following if count == 2 else following[0]


def _next_state(mode: str, input_gates: Tensor, state_gates: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the states after one time, of what inputs and the state before give to each gate."""
    if mode == "GRU":
        (reset, update, new), (old_reset, old_update, old_new) = input_gates.chunk(3, -1), state_gates.chunk(3, -1)
        candidate = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
        return (torch.lerp(candidate, state[0], torch.sigmoid(update + old_update)),)
    if mode == "LSTM":
        enter, forget, new, out = (input_gates + state_gates).chunk(4, -1)
        cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(out) * torch.tanh(cell), cell
    return (torch.relu(input_gates + state_gates) if mode == "RNN_RELU" else torch.tanh(input_gates + state_gates),)
