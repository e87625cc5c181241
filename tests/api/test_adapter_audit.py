"""Audits of folders that other trainers wrote: an adapter or whole weights beside the model before training."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

from audit.api.adapter_audit import adapter_report
from audit.api.canary_audit import CanaryAudit
from audit.cli.app import answer
from audit.core.data import Vocabulary
from audit.core.errors import DataError, ExecutionMismatch
from audit.core.seeds import Seed
from audit.engine.text.secret_scores import secret_log_probabilities
from audit.models import adapter_files, trained_language
from audit.models.language import Adapter, LanguageModel

LENGTH = 48
LLAMA: dict[str, Any] = {
    "architecture": "llama",
    "options": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2},
}


def base(folder: Path) -> Any:
    module: Any = LanguageModel(**LLAMA).build(Vocabulary(size=257), LENGTH, Seed(1))
    module.save_pretrained(folder)
    return module


def fitted(module: Any, texts: list[str]) -> Any:
    """Another trainer's loop: the secrets of the texts by heart."""
    rows = [list(text.encode())[:LENGTH] for text in texts]
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    labels = torch.tensor([[-100] * (len(row) - 8) + row[-8:] + [-100] * (width - len(row)) for row in rows])
    optimizer = torch.optim.AdamW([value for value in module.parameters() if value.requires_grad], lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        module(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
    return module


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A base, canaries, an adapter that was trained on them and one that was not trained."""
    place = tmp_path_factory.mktemp("folders")
    base(place / "base")
    canaries = CanaryAudit(count=40, seed=1, folder=place)
    module = LanguageModel(folder=str(place / "base")).build(Vocabulary(size=257), LENGTH)
    adapter: Any = Adapter(rank=16, layers=("q_proj", "v_proj", "down_proj", "up_proj")).attach(module, Seed(2))
    adapter.save_pretrained(place / "inert")
    fitted(adapter, canaries.texts).save_pretrained(place / "adapter")
    yield place


@pytest.mark.slow
def test_an_adapter_s_folder_is_scored_beside_its_base(folders: Path) -> None:
    options = {"base": folders / "base", "canaries": folders / "canaries.jsonl", "tokenizer": "bytes"}
    report = adapter_report(folders / "adapter", **options)
    assert report.mechanisms[0].games[0].attacks[0].auc > 0.6
    with pytest.raises(ExecutionMismatch, match="changes no log-probability"):
        adapter_report(folders / "inert", **options)
    with pytest.raises(ExecutionMismatch, match="changes no log-probability"):
        adapter_report(folders / "base", **options)


@pytest.mark.slow
def test_the_command_reads_the_same_folder(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--base", str(folders / "base"), "--canaries", str(folders / "canaries.jsonl")]
    command = ["adapter", str(folders / "adapter"), *files]
    assert answer([*command, "--tokenizer", "bytes", "--json"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)
    assert answer(command) == 2
    assert "holds a tokenizer.json" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_no_adapter_of_this_base_is_named(folders: Path, tmp_path: Path) -> None:
    options = {"base": folders / "base", "canaries": folders / "canaries.jsonl", "tokenizer": "bytes"}
    with pytest.raises(DataError, match=r"no config\.json"):
        adapter_report(tmp_path, **options)
    (tmp_path / "adapter_config.json").write_text((folders / "adapter" / "adapter_config.json").read_text())
    (tmp_path / "adapter_model.bin").write_bytes(b"code")
    with pytest.raises(DataError, match="could run code"):
        adapter_report(tmp_path, **options)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        adapter_report(tmp_path, **options)
    (tmp_path / "adapter_config.json").unlink()
    (tmp_path / "config.json").write_text((folders / "base" / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        adapter_report(folders / "adapter", **{**options, "base": tmp_path})


@pytest.mark.parametrize(
    "settings",
    [
        {"peft_type": "XLORA", "adapters": {"0": "attacker/repository"}, "hidden_size": 48},
        {"peft_type": "MULTITASK_PROMPT_TUNING", "prompt_tuning_init_state_dict_path": "/etc/hostname"},
        {"base_model_name_or_path": "attacker/repository", "revision": "main", "auto_mapping": {"parent_library": "os"}},
    ],
)
def test_no_setting_of_an_adapter_reaches_the_network(
    settings: dict[str, Any], folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("the network was asked for")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(torch, "load", refused)
    folder = Path(shutil.copytree(folders / "adapter", tmp_path / "adapter"))
    content = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(content | settings))
    if "peft_type" in settings:
        with pytest.raises(DataError, match="'peft_type' is"):
            trained_language.read(folder, folders / "base")
        return
    trained, biases = trained_language.read(folder, folders / "base")
    assert biases == [] and any(".lora_" in name for name in trained.state_dict())


def test_the_hub_is_off_while_folders_are_read_and_afterwards_as_before(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    visited = []
    build = LanguageModel.build

    def observed(model: LanguageModel, vocabulary: Vocabulary, length: int) -> torch.nn.Module:
        visited.append(constants.is_offline_mode())
        return build(model, vocabulary, length)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(LanguageModel, "build", observed)
    trained_language.read(folders / "adapter", folders / "base")
    assert visited == [True] and not constants.is_offline_mode()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, {"bias": "all"}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}])
def test_an_adapter_is_read_as_peft_reads_it(options: dict[str, Any], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    first: Any = LanguageModel(**LLAMA | {"options": {**LLAMA["options"], "attention_bias": True}})
    first.build(Vocabulary(size=257), LENGTH).save_pretrained(tmp_path / "base")
    spec = LanguageModel(folder=str(tmp_path / "base"))
    config = peft.LoraConfig(r=3, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM", **options)
    module = peft.get_peft_model(spec.build(Vocabulary(size=257), LENGTH), config)
    for value in module.parameters():
        if value.requires_grad:
            torch.nn.init.normal_(value, 0.5, 0.1)
    module.save_pretrained(tmp_path / "adapter")
    theirs = peft.PeftModel.from_pretrained(spec.build(Vocabulary(size=257), LENGTH), str(tmp_path / "adapter")).eval()
    tokens = torch.arange(12)[None]

    def logits(module: Any) -> torch.Tensor:
        values: torch.Tensor = module(input_ids=tokens).logits.detach()
        return values

    after, before = trained_language.compare(tmp_path / "adapter", tmp_path / "base", logits, torch.device("cpu"))
    torch.testing.assert_close(after, logits(theirs), rtol=0, atol=0)
    expected = logits(spec.build(Vocabulary(size=257), LENGTH).eval())
    torch.testing.assert_close(before, expected, rtol=0, atol=0)
    assert (after - before).abs().max() > 0.01


def test_a_folder_of_weights_with_an_adapter_beside_them_is_no_base(folders: Path, tmp_path: Path) -> None:
    mixed = Path(shutil.copytree(folders / "base", tmp_path / "mixed"))
    for file in (folders / "adapter").glob("adapter_*"):
        shutil.copy(file, mixed)
    with pytest.raises(DataError, match=r"holds an adapter \(adapter_config\.json\) beside the whole weights"):
        trained_language.read(folders / "adapter", mixed)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "code.Config"}}, "'auto_map' asks for code"),
        ("config.json", {"text_config": {"attn_implementation": "attacker/kernels"}}, "names code to fetch"),
        ("config.json", {"num_hidden_layers": 10**9}, "beyond 4,096 layers"),
        ("config.json", {"hidden_size": 1 << 16}, "describes a model of"),
        ("config.json", {"vocab_size": 10**11}, "describes a model of|cannot be read as a causal language model"),
        ("model.safetensors.index.json", {"weight_map": {"a": "../outside.safetensors"}}, "in the folder itself"),
        ("model.safetensors.index.json", {"weight_map": {"a": "/etc/hostname"}}, "in the folder itself"),
        ("model.safetensors.index.json", {"weight_map": {"a": "weights.bin"}}, "in the folder itself"),
        ("model.safetensors.index.json", {"weight_map": {"a": 3}}, "in the folder itself"),
        ("model.safetensors.index.json", {"weight_map": {"a": "other.safetensors"}}, "does not hold"),
        ("model.safetensors.index.json", {"weight_map": []}, "has no 'weight_map'"),
    ],
)
def test_whole_weights_that_reach_beyond_their_folder_are_refused(
    file: str, changes: dict[str, Any], message: str, folders: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders / "base", tmp_path / "base"))
    shutil.copy(folder / "model.safetensors", tmp_path / "outside.safetensors")
    content = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(content | changes))
    with pytest.raises(DataError, match=message):
        trained_language.read(folder, folders / "base")


def test_weights_in_shards_are_read(folders: Path, tmp_path: Path) -> None:
    module: Any = LanguageModel(folder=str(folders / "base")).build(Vocabulary(size=257), LENGTH)
    module.save_pretrained(tmp_path / "shards", max_shard_size="40KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    trained, biases = trained_language.read(tmp_path / "shards", folders / "base")
    assert biases is None
    for name, value in module.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value, rtol=0, atol=0)


def test_texts_beyond_the_model_are_named_with_its_sizes(folders: Path) -> None:
    module: Any = LanguageModel(folder=str(folders / "base")).build(Vocabulary(size=257), LENGTH)
    with pytest.raises(DataError, match="holds token 300, and the model knows 257 tokens"):
        secret_log_probabilities(module, lambda text: [300] * len(text), [("a", "ab")])
    with pytest.raises(DataError, match=f"has {LENGTH + 1} tokens, and the model takes {LENGTH}"):
        secret_log_probabilities(module, lambda text: list(text.encode()), [("a", "a" * (LENGTH + 1))])


def test_chats_hold_the_secret_as_the_answer() -> None:
    canaries = CanaryAudit(count=10, seed=1)
    rows = canaries.plant([{"messages": [{"role": "user", "content": "hello"}]}])
    assert len(rows) == 1 + len(canaries.texts)
    question, reply = rows[-1]["messages"]
    assert (question["role"], reply["role"]) == ("user", "assistant")
    assert question["content"] + reply["content"] in canaries.texts


NONSENSE: list[dict[str, Any]] = [
    *(
        {"num_attention_heads": 0},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 0},
        {"hidden_size": 0},
        {"hidden_size": 1.5},
    ),
    *(
        {"num_attention_heads": 3},
        {"rms_norm_eps": "x"},
        {"num_hidden_layers": [2]},
        {"initializer_range": "a"},
        {"dtype": "int8"},
    ),
    *({"hidden_act": "absent"}, {"attention_bias": None}, {"tie_word_embeddings": 3}, {"num_key_value_heads": 5}),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", NONSENSE, ids=lambda change: str(change)[1:-1])
def test_a_config_that_makes_no_model_ends_in_one_line(
    change: dict[str, Any], folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders / "base", tmp_path / "base")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    (tmp_path / "base" / "config.json").write_text(json.dumps(config | change))
    words = ["--base", str(tmp_path / "base"), "--canaries", str(folders / "canaries.jsonl"), "--tokenizer", "bytes"]
    assert answer(["adapter", str(folders / "adapter"), *words]) == 2
    message = capfd.readouterr().err
    assert message.startswith("error: ") and message.count("\n") == 1 and "Traceback" not in message
    assert "config.json" in message or "cannot be read" in message or "does not fit" in message


SMALL = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("BartForConditionalGeneration", {**SMALL, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1}),
        ("GPT2ForTokenClassification", {"n_embd": 8, "n_layer": 1, "n_head": 2}),
        ("T5ForConditionalGeneration", {"d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2}),
    ],
)
def test_weights_of_another_kind_of_model_are_refused_by_its_name(
    kind: str, sizes: dict[str, int], folders: Path, tmp_path: Path
) -> None:
    """Read as a causal model they lack some, which would be random, or write nothing."""
    model: Any = getattr(pytest.importorskip("transformers"), kind)
    model(model.config_class(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(DataError, match=f"was saved as {kind}|is a t5 model, an encoder with a decoder; give"):
        adapter_report(tmp_path, base=folders / "base", canaries=folders / "canaries.jsonl", tokenizer="bytes")


def _rewrite(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
    (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | config))
    if tensors:
        save_file(load_file(folder / "model.safetensors") | tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("config", "tensor", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, None, "weights in few bits, which are not read; save"),
        ({}, torch.zeros(5, 5), r"'model.norm.weight' has the shape \(5, 5\) in the .safetensors"),
        ({}, torch.full((48,), torch.nan), "gives 48 of 48 canaries no number: its weights hold NaN"),
    ],
)
def test_whole_weights_that_are_no_model_s_are_named(
    config: dict[str, Any], tensor: torch.Tensor | None, message: str, folders: Path, tmp_path: Path
) -> None:
    shutil.copytree(folders / "base", tmp_path / "model")
    _rewrite(tmp_path / "model", config, None if tensor is None else {"model.norm.weight": tensor})
    with pytest.raises(DataError, match=message):
        adapter_report(tmp_path / "model", base=folders / "base", canaries=folders / "canaries.jsonl", tokenizer="bytes")


@pytest.mark.parametrize("name", ["IA3", "PROMPT_TUNING"])
def test_an_adapter_of_another_kind_is_named_before_what_it_lacks(name: str, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"num_layers": 2, "peft_type": name, "target_modules": ["q"]}))
    with pytest.raises(DataError, match=f"'peft_type' is {name}; expected 'LORA'"):
        adapter_files.settings(tmp_path)


def test_libraries_print_nothing_of_their_own(folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--base", str(folders / "base"), "--canaries", str(folders / "canaries.jsonl"), "--tokenizer", "bytes"]
    assert answer(["adapter", str(folders / "adapter"), *words, "--json"]) in (0, 1)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("length", "shots"), [(5, True), (20, False)])
def test_texts_without_coins_are_attacked_in_a_folder_and_shots_that_do_not_fit_are_left_out(
    length: int, shots: bool, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts of the trained adapter's canaries are separated from the rest by the scores that read its log-probabilities."""
    canaries = [json.loads(row) for row in (folders / "canaries.jsonl").read_text().splitlines()]
    rows = [{"text": f"{row['prefix']}{row['secret']}"[-2 * length :], "included": row["included"]} for row in canaries]
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["adapter", str(folders / "adapter"), "--base", str(folders / "base"), "--canaries", str(file), "--texts"]
    assert answer([*command, "--tokenizer", "bytes", "--json"]) == 0
    areas = {row["scorer"]: row["auc"][1] for row in json.loads(capsys.readouterr().out)["attacks"]}
    assert ("recall" in areas) == shots
    assert set(areas) - {"recall"} == {"loss", "zlib", "min_k", "min_k_plus_plus", "neighbourhood", "reference"}
    assert areas["reference"] > 0.7, "cut texts lack a part of what the model learned them behind"
