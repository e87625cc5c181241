"""Trained torch models read from files: the same outputs as in memory, and nothing hostile is run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from audit import plugins
from audit.core.errors import ConfigError, DataError
from audit.engine.read.inference import ModuleTarget, batched_logits

pytestmark = pytest.mark.usefixtures("models_in_this_process")
INPUTS = np.random.default_rng(0).normal(size=(37, 1, 6, 6)).astype(np.float32)


class Small(nn.Module):
    def __init__(self, classes: int = 3, dropout: float = 0.5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(4 * 9, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.head(nn.functional.gelu(self.drop(x.flatten(1)), approximate="tanh"))


def build_module(classes: int = 3, **arguments) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        return Small(classes, **arguments).eval()


def expected() -> np.ndarray:
    with torch.no_grad():
        return build_module()(torch.from_numpy(INPUTS)).numpy()


def build(kind: str, path: Path, **options):
    return plugins.build("audit.subjects", {"kind": kind, "path": str(path), **options})


def exported(path: Path, *, batch: int = 5, fixed: bool = False, train: bool = False) -> Path:
    model = build_module().train(train)
    shapes = None if fixed else ({0: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (torch.zeros(batch, 1, 6, 6),), dynamic_shapes=shapes), path)
    return path


# ---- torch.export


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("batch", "fixed"), [(5, False), (5, True), (1, True)])
def test_exported_program_gives_the_outputs_of_the_module(tmp_path, batch, fixed):
    target = build("torch_export", exported(tmp_path / "m.pt2", batch=batch, fixed=fixed), batch_size=16)
    result = target.logits(INPUTS)
    assert result.dtype == np.float32
    assert np.allclose(result, expected(), atol=1e-5)


def test_a_program_is_read_where_no_cache_of_torch_was_chosen(tmp_path, monkeypatch):
    """A program saved in this process has set the variable that the worker inherits; the command's own process has not."""
    path = exported(tmp_path / "m.pt2")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert np.allclose(build("torch_export", path).logits(INPUTS), expected(), atol=1e-5)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.layer = nn.TransformerEncoderLayer(12, 2, 16, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.head(self.layer(self.lstm(x)[0]).mean(1))}


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.weight = nn.Parameter(torch.ones(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = nn.functional.interpolate(nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"), scale_factor=2.0, mode="bilinear")
        return torch.einsum("bchw,ck->bk", self.norm(self.conv(wide)).clamp(min=0), self.weight)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "shape"), [(Recurrent, (5, 8)), (Convolutional, (3, 8, 8))])
def test_the_vetting_lets_ordinary_architectures_pass(tmp_path, module, shape):
    net, x = module().eval(), torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    torch.export.save(torch.export.export(net, (x[:4],), dynamic_shapes=({0: torch.export.Dim.AUTO},)), tmp_path / "m.pt2")
    with torch.no_grad():
        plain = net(x)
    plain = plain["logits"] if isinstance(plain, dict) else plain
    assert np.allclose(build("torch_export", tmp_path / "m.pt2").logits(x.numpy()), plain.numpy(), atol=1e-5)


def test_exported_in_training_mode_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"exported in training mode.*dropout.*call \.eval\(\)"):
        build("torch_export", exported(tmp_path / "m.pt2", train=True))


def rewritten(source: Path, changes: dict) -> Path:
    """A copy of an archive with entries replaced, added or (None) left out."""
    target = source.with_name("changed.pt2")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        entries = {name.partition("/")[2]: old.read(name) for name in old.namelist()}
        for name, change in changes.items():
            entries[name] = change(entries.get(name)) if callable(change) else change
        for name, body in entries.items():
            if body is not None:
                new.writestr(f"{root}/{name}", body)
    return target


def program_with(find: str, replace: str):
    def change(body: bytes) -> bytes:
        assert find in body.decode(), "the program has changed: this test would prove nothing"
        return body.decode().replace(find, replace).encode()

    return change


class Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_hostile_sample_inputs_are_never_unpickled(tmp_path):
    buffer = io.BytesIO()
    torch.save((Hostile(tmp_path / "ran"),), buffer)
    path = rewritten(exported(tmp_path / "m.pt2"), {"data/sample_inputs/model.pt": buffer.getvalue()})
    assert np.allclose(build("torch_export", path).logits(INPUTS), expected(), atol=1e-5)
    assert not (tmp_path / "ran").exists()
    with contextlib.suppress(AssertionError, RuntimeError, TypeError):
        torch.export.load(path)
    assert (tmp_path / "ran").exists(), "torch's own loader did not run it: the test's file is harmless and proves nothing"


def pickled_weight(body: bytes) -> bytes:
    config = json.loads(body)
    next(iter(config["config"].values()))["use_pickle"] = True
    return json.dumps(config).encode()


EVIL = "__import__('os').mkdir('ran')"
HOSTILE = {
    "a pickled weight": (
        {"data/weights/model_weights_config.json": pickled_weight},
        "weight 'conv.weight' is stored as a pickle",
    ),
    "an opaque object": ({"data/constants/opaque_obj_0": pickle.dumps(1)}, "it holds 'data/constants/opaque_obj_0'"),
    "compiled code": ({"data/aotinductor/model/m.so": b"\x7fELF"}, r"it holds 'data/aotinductor/model/m\.so'"),
    "a second program": ({"models/other.json": b"{}"}, r"it holds 'models/other\.json'"),
    "legacy weights": ({"data/weights/model.pt": b"x"}, r"it holds 'data/weights/model\.pt'"),
    "an operator of Python": (
        {"models/model.json": program_with("torch.ops.aten.relu.default", "torch.serialization.os.system")},
        r"target = 'torch\.serialization\.os\.system'",
    ),
    "a path that only begins like torch": (
        {"models/model.json": program_with("torch.ops.aten.relu.default", "torchx.serialization.os.system")},
        r"target = 'torchx\.serialization\.os\.system'",
    ),
    "a class of the runtime": (
        {"models/model.json": program_with('"as_string": "tanh"', '"as_custom_obj": {"name": "a", "class_fqn": "b"}')},
        "the key 'as_custom_obj'",
    ),
    "a file operator": (
        {"models/model.json": program_with("torch.ops.aten.relu.default", "torch.ops.aten.from_file.default")},
        "from_file",
    ),
    "code as a symbol": (
        {"models/model.json": program_with("Symbol('s", f"{EVIL} or Symbol('s")},
        "expr_str = ",
    ),
    "code as a name": ({"models/model.json": program_with('"name": "x"', '"name": "x=print(1)"')}, r"name = 'x=print\(1\)'"),
    "a module in a tree": (
        {"models/model.json": program_with("builtins.tuple", "collections.defaultdict")},
        "_spec = ",
    ),
    "text in an argument": ({"models/model.json": program_with('"tanh"', '"tanh\\nimport os"')}, "as_string = "),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes, message = HOSTILE[name]
    path = rewritten(exported(tmp_path / "m.pt2"), changes)
    with pytest.raises(DataError, match=message) as caught:
        build("torch_export", path)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "ran").exists()


EXPRESSIONS = [
    EVIL,
    "exec(chr(112))",
    "Symbol('s1').__class__",
    "Symbol('s1', **s2)[0]",
    "(lambda: s1)()",
    "[s1 for s1 in s2]",
    'Symbol("s1\'); import os")',
    "open(0)",
    "breakpoint()",
    "s1 if s1 else s2",
    "f'{s1}'",
    "Symbol",
    "getattr",
    "eval",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_text_that_the_loader_would_evaluate(tmp_path, text):
    def change(body: bytes) -> bytes:
        program = json.loads(body)
        sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        assert "as_expr" in sizes[0], "the program has changed: this test would prove nothing"
        sizes[0]["as_expr"]["expr_str"] = text
        return json.dumps(program).encode()

    with pytest.raises(DataError, match="expr_str = "):
        build("torch_export", rewritten(exported(tmp_path / "m.pt2"), {"models/model.json": change}))


def test_guards_and_stack_traces_do_not_reach_the_loader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def guarded(body: bytes) -> bytes:
        program = json.loads(body)
        program["guards_code"] = [EVIL]
        program["graph_module"]["graph"]["nodes"][0]["metadata"]["nn_module_stack"] = EVIL
        return json.dumps(program).encode()

    path = rewritten(exported(tmp_path / "m.pt2"), {"models/model.json": guarded})
    assert np.allclose(build("torch_export", path).logits(INPUTS), expected(), atol=1e-5)
    assert not (tmp_path / "ran").exists()


def test_what_is_no_export(tmp_path):
    (tmp_path / "a.pt2").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"a\.pt2 is not a complete torch\.export archive"):
        build("torch_export", tmp_path / "a.pt2")
    torch.save(build_module().state_dict(), tmp_path / "b.pt2")
    with pytest.raises(DataError, match="archive_format is not 'pt2'"):
        build("torch_export", tmp_path / "b.pt2")
    with pytest.raises(DataError, match="no file"):
        build("torch_export", tmp_path / "c.pt2")


def test_two_inputs_are_refused(tmp_path):
    class Two(nn.Module):
        def forward(self, a, b):
            return a + b

    torch.export.save(torch.export.export(Two(), (torch.zeros(2, 3), torch.zeros(2, 3))), tmp_path / "m.pt2")
    with pytest.raises(DataError, match=r"m\.pt2 takes 2 inputs"):
        build("torch_export", tmp_path / "m.pt2")


# ---- TorchScript


def scripted(path: Path, model: nn.Module) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(model), str(path))
    return path


def test_torchscript_gives_the_outputs_of_the_module_without_warnings(tmp_path):
    path = scripted(tmp_path / "m.ts", build_module().train())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = build("torchscript", path, batch_size=10).logits(INPUTS)
    assert np.allclose(result, expected(), atol=1e-5)  # saved in training mode, read in evaluation mode


def test_a_traced_module_whose_example_inputs_are_stored_with_it(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(build_module(), torch.from_numpy(INPUTS[:4])), str(tmp_path / "m.ts"))
    assert np.allclose(build("torchscript", tmp_path / "m.ts").logits(INPUTS), expected(), atol=1e-5)


def test_torchscript_that_touches_files_is_refused(tmp_path):
    class Saves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.save(x, "written")
            return x

    path = scripted(tmp_path / "m.ts", Saves())
    with pytest.raises(DataError, match=r"m\.ts is refused: its method forward of Saves calls aten::save"):
        build("torchscript", path)


def test_a_pickled_module_is_no_torchscript(tmp_path):
    torch.save(build_module(), tmp_path / "m.ts")
    with pytest.raises(DataError, match=r"a plain torch\.save file, not TorchScript.*state_dict.*--factory"):
        build("torchscript", tmp_path / "m.ts")
    (tmp_path / "n.ts").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="not a complete TorchScript archive"):
        build("torchscript", tmp_path / "n.ts")


# ---- state dicts


@pytest.fixture
def factory(monkeypatch):
    import sys
    import types

    module = types.ModuleType("my_models")
    module.made = build_module
    monkeypatch.setitem(sys.modules, "my_models", module)
    return {"factory": "my_models:made", "arguments": {"classes": 3}}


def test_state_dicts_of_both_formats(tmp_path, factory):
    state = build_module().state_dict()
    torch.save(state, tmp_path / "m.pt")
    safetensors.torch.save_file(state, tmp_path / "m.safetensors")
    torch.save({"epoch": 3, "weights": state}, tmp_path / "c.pt")
    torch.save({f"_module.{key}": value for key, value in state.items()}, tmp_path / "w.pt")
    options = {"m.pt": {}, "m.safetensors": {}, "c.pt": {"key": "weights"}, "w.pt": {"strip_prefix": "_module."}}
    for name, extra in options.items():
        result = build("state_dict", tmp_path / name, **factory, **extra).logits(INPUTS)
        assert np.allclose(result, expected(), atol=1e-5), name


def test_weights_that_do_not_fit(tmp_path, factory):
    state = build_module().state_dict()
    torch.save({f"_module.{key}": value for key, value in state.items()}, tmp_path / "w.pt")
    with pytest.raises(DataError, match=r"All names start with '_module\.': set strip_prefix"):
        build("state_dict", tmp_path / "w.pt", **factory)
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(DataError, match=r"'head.weight' is \(3, 36\) in the file and \(4, 36\) in the module"):
        build("state_dict", tmp_path / "m.pt", **(factory | {"arguments": {"classes": 4}}))
    torch.save({"epoch": 3, "weights": state}, tmp_path / "c.pt")
    with pytest.raises(DataError, match=r"not a state dict: it holds epoch, weights; name the one with the weights as 'key'"):
        build("state_dict", tmp_path / "c.pt", **factory)
    with pytest.raises(ConfigError, match="--factory"):
        build("state_dict", tmp_path / "m.pt")
    with pytest.raises(ConfigError, match="cannot load 'my_models:absent'"):
        build("state_dict", tmp_path / "m.pt", factory="my_models:absent")


def test_a_hostile_state_dict_is_refused_and_not_run(tmp_path, factory):
    torch.save({"head.weight": Hostile(tmp_path / "ran")}, tmp_path / "m.pt")
    with pytest.raises(DataError, match=r"m\.pt is refused.*posix\.mkdir.*could run code.*--factory") as caught:
        build("state_dict", tmp_path / "m.pt", **factory)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "ran").exists()
    with pytest.raises(DataError, match=r"p\.pt is refused"):
        (tmp_path / "p.pt").write_bytes(pickle.dumps(Hostile(tmp_path / "ran")))
        build("state_dict", tmp_path / "p.pt", **factory)
    assert not (tmp_path / "ran").exists()
    torch.save(build_module(), tmp_path / "whole.pt")
    with pytest.raises(DataError, match=r"Save module\.state_dict\(\) alone"):
        build("state_dict", tmp_path / "whole.pt", **factory)
    (tmp_path / "d.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(DataError, match="not a complete safetensors file"):
        build("state_dict", tmp_path / "d.safetensors", **factory)


# ---- running


def test_a_module_in_memory_is_left_in_the_mode_it_was_in():
    module = build_module().train()
    module.norm.eval()
    modes = [layer.training for layer in module.modules()]
    result = ModuleTarget(module=module, batch_size=8).logits(INPUTS)
    assert np.allclose(result, expected(), atol=1e-5)
    assert [layer.training for layer in module.modules()] == modes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.sum(), r"shape \(\); expected real numbers of shape \(n, classes\)"),
        (lambda x: x[..., None, None], r"of shape \(37, 1, 6, 6, 1, 1\); expected real numbers"),
        (lambda x: x.flatten(1)[:5], "for 37 records"),
        (lambda x: x.flatten(1).long(), "torch.int64"),
        (lambda x: "no", "returns str"),
        (lambda x: x @ torch.zeros(5, 5), r"cannot be run on a batch of shape \(37, 1, 6, 6\)"),
    ],
)
def test_outputs_of_the_wrong_shape(call, message):
    with pytest.raises(DataError, match=message):
        batched_logits(call, INPUTS)


def test_cuda_asked_for_and_absent(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ConfigError, match="CUDA"):
        build("torch_export", exported(tmp_path / "m.pt2"), device="cuda")
