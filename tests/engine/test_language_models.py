"""Training of language models: exact per-record gradients, the mechanism that is accounted for, adapters that move alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.canaries._planted_texts import SearchedToken
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients
from audit.core.data import Records
from audit.core.errors import ConfigError, DataError, ExecutionMismatch, UnsupportedMechanism
from audit.core.event_reading import noisy_steps
from audit.core.events import Repeated, sgd
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip
from audit.engine.text.adapters import AdapterModels
from audit.engine.text.text_model import Precision, TextModel
from audit.engine.text.text_subject import TextModels
from audit.models.language import Adapter, LanguageModel
from audit.stats.scoring import texts
from audit.trainers.language_model import LanguageModelTrainer
from tests.engine.texts import GPT2, LLAMA, PLAIN, PRIVATE, sentences, text_job, tokens_of

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

CPU = torch.device("cpu")


def silent(steps: int) -> None:
    pass


def text_model(spec: dict[str, Any] = GPT2, adapter: Adapter | None = None, precision: Precision | None = None) -> TextModel:
    dataset = sentences()
    assert dataset.vocabulary is not None
    module = LanguageModel.of(spec).build(dataset.vocabulary, 12, Seed(5))
    if adapter is not None:
        module = adapter.attach(module, Seed(6))
        with torch.no_grad():  # both matrices of a pair away from zero, so that neither has a gradient of zero
            for name, value in module.named_parameters():
                if "lora_B" in name:
                    value.normal_(generator=torch.Generator().manual_seed(1))
    return TextModel(module, CPU, precision)


def rows(count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, labels = (torch.from_numpy(values[:count].copy()) for values in tokens_of(sentences()))
    tokens[1, 7:], labels[1, 7:] = -1, -1  # a shorter text
    return tokens, labels


CASES: dict[str, tuple[dict[str, Any], Adapter | None]] = {
    "gpt2": (GPT2, None),
    "llama": (LLAMA, None),
    "gpt2-adapter": (GPT2, Adapter(rank=3, layers=("c_attn", "c_fc"))),
    "llama-adapter": (LLAMA, Adapter(rank=2, layers=("q_proj", "v_proj", "down_proj"))),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_records_are_those_of_a_loop(name: str) -> None:
    model = text_model(*CASES[name])
    assert model.test_gradients(*rows()) < 1e-5
    norms = [float(value.norm()) for value in model.record_gradients(*rows()).values()]
    assert min(norms) > 0, "no parameter is left out"


@pytest.mark.parametrize("name", ["gpt2", "llama-adapter"])
def test_checkpointing_changes_no_gradient(name: str) -> None:
    plain = text_model(*CASES[name]).record_gradients(*rows())
    again = text_model(*CASES[name], precision=Precision(checkpointing=True)).record_gradients(*rows())
    for key, value in plain.items():
        torch.testing.assert_close(again[key], value)


def test_a_clipped_sum_is_that_of_clipped_records() -> None:
    model, (tokens, labels) = text_model(), rows()
    gradients = model.record_gradients(tokens, labels)
    vectors = torch.cat([gradients[slot.name].flatten(1) for slot in model.layout.slots], dim=1).double()
    norm = float(vectors.norm(dim=1).median())
    total = torch.zeros_like(model.flat)
    clipping = model.add(tokens, labels, torch.zeros(5, dtype=torch.int64), Clip(norm=norm), total)
    assert clipping is not None
    expected = (vectors * (norm / vectors.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
    sums = torch.cat([slot.view(total)[0].flatten() for slot in model.layout.slots]).double()
    torch.testing.assert_close(sums, expected, rtol=1e-4, atol=1e-6)
    assert float(clipping.left.max()) <= norm * (1 + 1e-5)


def test_bfloat16_is_clipped_exactly() -> None:
    model, (tokens, labels) = text_model(precision=Precision(bfloat16=True)), rows()
    total, sums = torch.zeros_like(model.flat), []
    for row in range(5):  # one record at a time: its share of the sum is what clipping left of it
        total.zero_()
        model.add(tokens[row : row + 1], labels[row : row + 1], torch.zeros(1, dtype=torch.int64), Clip(norm=0.01), total)
        sums.append(float(total.double().norm()))
    assert max(sums) <= 0.01 * (1 + 1e-5)


def test_a_record_s_gradient_does_not_depend_on_its_neighbours() -> None:
    """The loss of transformers itself is a mean over the tokens of the batch: there it does."""
    model, (tokens, labels) = text_model(), rows(2)
    short_tokens, short_labels = tokens.clone(), labels.clone()
    short_tokens[1, 3:], short_labels[1, 3:] = -1, -1
    beside_long, beside_short = model.record_gradients(tokens, labels), model.record_gradients(short_tokens, short_labels)
    for key, value in beside_long.items():
        torch.testing.assert_close(beside_short[key][0], value[0], rtol=1e-4, atol=1e-6)


def test_a_parameter_used_outside_of_its_layer_fails_the_self_test() -> None:
    model = text_model()
    module: Any = model.module
    forward, weight = module.lm_head.forward, module.transformer.h[0].mlp.c_fc.weight
    module.lm_head.forward = lambda hidden: forward(hidden) + (hidden @ weight).sum(-1, keepdim=True) * torch.arange(277)
    with pytest.raises(UnsupportedMechanism, match=r"c_fc\.weight.*plain autograd"):
        model.test_gradients(*rows())


def test_a_wrong_gradient_that_begins_as_zero_fails_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter's second matrix begins as 0, and with it every gradient of the first."""
    run = AdapterModels._run

    def seven_times(self: AdapterModels, tokens: Any, labels: Any, owner: Any, gradients: Any, **options: Any) -> None:
        run(self, tokens, labels, owner, gradients, **options)
        for slot in self.layout.slots:
            slot.view(gradients).mul_(7 if "lora_A" in slot.name else 1)

    monkeypatch.setattr(AdapterModels, "_run", seven_times)
    with pytest.raises(UnsupportedMechanism, match=r"lora_A.*plain autograd"):
        LanguageModelTrainer(adapter={"rank": 2, "layers": ["c_attn"]}, micro_batch=7).fit(text_job(PRIVATE), silent)


def test_a_layer_that_takes_all_tokens_as_one_list_is_named() -> None:
    model = text_model()
    module: Any = model.module
    layer = module.transformer.h[1].mlp
    forward = layer.forward
    layer.forward = lambda hidden: forward(hidden.flatten(0, 1)).view_as(hidden)
    with pytest.raises(UnsupportedMechanism, match=r"h\.1\.mlp\.c_.*one list"):
        model.test_gradients(*rows())


def test_a_layer_that_mixes_records_is_refused() -> None:
    module: Any = text_model().module
    module.transformer.ln_f = torch.nn.BatchNorm1d(16)
    with pytest.raises(UnsupportedMechanism, match="mixes the examples"):
        TextModel(module, CPU)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", [PRIVATE, PLAIN], ids=["dp", "plain"])
@pytest.mark.parametrize("adapter", [None, {"rank": 2, "layers": ["c_attn"]}], ids=["full", "adapter"])
def test_the_trainer_executes_what_is_accounted_for(mechanism: Repeated, adapter: dict[str, Any] | None) -> None:
    job = text_job(mechanism)
    trainer = LanguageModelTrainer(adapter=adapter, micro_batch=7)
    subject = trainer.fit(job, silent)
    execution = subject.executed
    assert execution is not None and execution.steps == mechanism.count
    assert execution.batch_sizes.shape == (2, mechanism.count)
    np.testing.assert_array_equal(execution.population, 40 + job.included.sum(1))
    assert abs(execution.batch_sizes.mean() / (execution.population.mean() * 0.25) - 1) < 0.35
    if noisy_steps(mechanism) is None:
        np.testing.assert_array_equal(execution.recomputed, -1)
    else:
        assert execution.noise_draws == trainer.parameters(job.model, job.dataset) * mechanism.count
        np.testing.assert_allclose(execution.noise_multiplier, 1.3, rtol=5 / np.sqrt(2 * execution.noise_draws))
        assert (execution.largest_norm <= 1 + 1e-5).all() and (execution.largest_norm > 0.9).all()
        assert ((execution.recomputed >= 0) & (execution.recomputed < 1e-4)).all()
    if adapter is not None:
        assert all("lora" in name for name in subject.weights), "frozen weights are not released as trained ones"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [PRIVATE, PLAIN], ids=["dp", "plain"])
def test_micro_batches_change_a_model_by_rounding_alone(mechanism: Repeated) -> None:
    optimizer = {"kind": "sgd", "learning_rate": 0.05}  # Adam would blow rounding of tiny gradients up
    full, again, parts = (
        LanguageModelTrainer(micro_batch=size).fit(text_job(mechanism, optimizer=optimizer), silent) for size in (64, 64, 3)
    )
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, again.weights[name])
        np.testing.assert_allclose(value, parts.weights[name], rtol=1e-3, atol=1e-5)


def test_a_model_does_not_depend_on_others_of_its_job() -> None:
    both = text_job(PRIVATE)
    second = text_job(PRIVATE, models=1, included=both.included[1:], seeds=both.seeds[1:])
    together, alone = (LanguageModelTrainer().fit(job, silent) for job in (both, second))
    for name, value in alone.weights.items():
        np.testing.assert_array_equal(value[0], together.weights[name][1])


def test_what_the_trainer_does_not_do_is_refused() -> None:
    units = Canaries(kind="dirac", description="units", payload=CoordinateGradients(coordinates=np.arange(12)))
    with pytest.raises(UnsupportedMechanism, match="plants texts"):
        LanguageModelTrainer().fit(text_job(canaries=units), silent)
    images = Canaries(
        kind="images",
        description="no texts",
        payload=CanaryRecords(records=Records(inputs=np.zeros((12, 12)), labels=np.zeros(12))),
    )
    with pytest.raises(UnsupportedMechanism, match="plants texts"):
        LanguageModelTrainer().fit(text_job(canaries=images), silent)
    with pytest.raises(ConfigError, match="trains models of kind 'language_model'"):
        LanguageModelTrainer().fit(text_job(model={"kind": "mlp"}), silent)
    with pytest.raises(ConfigError, match=re.escape("unknown key 'ranks'. Did you mean 'rank'?")):
        LanguageModelTrainer(adapter={"ranks": 2})
    with pytest.raises(ConfigError, match="The model has: c_attn"):
        LanguageModelTrainer(adapter={"layers": ["q_proj"]}).fit(text_job(), silent)
    with pytest.raises(ConfigError, match="gpt3"):
        LanguageModelTrainer().fit(text_job(model={"kind": "language_model", "architecture": "gpt3"}), silent)
    for wrong in ({"architecture": ["gpt2"]}, {"architecture": "gpt2", "options": None}, {"folder": {"a": 1}}):
        with pytest.raises(ConfigError, match=r"(architecture|options|folder) is .*; expected (text|names with values)"):
            LanguageModelTrainer().fit(text_job(model={"kind": "language_model", **wrong}), silent)


def test_a_training_that_moves_nothing_is_an_error() -> None:
    model = text_model()
    with pytest.raises(ExecutionMismatch, match="moved no parameter"):
        model.refuse_inert(model.flat, model.flat[0].clone(), model.frozen_digest())


def test_frozen_weights_that_move_are_an_error() -> None:
    model = text_model(*CASES["gpt2-adapter"])
    digest, initial = model.frozen_digest(), model.flat[0].clone()
    model.flat.add_(1.0)
    model.refuse_inert(model.flat, initial, digest)
    next(value for value in model.module.parameters() if not value.requires_grad).data.add_(1e-3)
    with pytest.raises(ExecutionMismatch, match="frozen"):
        model.refuse_inert(model.flat, initial, digest)


@pytest.mark.parametrize("model", [GPT2, LLAMA])
def test_parameters_are_counted_as_they_are_trained(model: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, trainer = sentences(), LanguageModelTrainer()
    expected = trainer._text_model(model, dataset, None, "cpu").layout.parameters
    monkeypatch.setattr(LanguageModelTrainer, "_text_model", None)  # no weights are made
    assert trainer.parameters(model, dataset) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layer": 5000}, "'n_layer' is beyond 4,096 layers"),
        ({"n_embd": -1}, "'n_embd' is -1; expected a whole number from 1 on"),
        ({"vocab_size": 10**7}, "'vocab_size' is 10000000; the texts have"),
        ({"attn_implementation": "someone/kernels"}, "names code to fetch"),
        ({"auto_map": {"AutoConfig": "x.Y"}}, "asks for code"),
    ],
)
def test_options_of_a_model_without_end_or_with_code_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LanguageModelTrainer().parameters({**GPT2, "options": {**GPT2["options"], **options}}, sentences())


def test_a_local_folder_of_weights_is_read_as_it_is(tmp_path: Path) -> None:
    dataset = sentences()
    assert dataset.vocabulary is not None
    module: Any = LanguageModel.of(GPT2).build(dataset.vocabulary, 12, Seed(5))
    module.save_pretrained(tmp_path / "weights")
    spec: dict[str, Any] = {"kind": "language_model", "folder": str(tmp_path / "weights")}
    again = LanguageModel.of(spec).build(dataset.vocabulary, 12)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value)
    subject = LanguageModelTrainer(adapter={"rank": 2, "layers": ["c_attn"]}).fit(text_job(model=spec, models=1), silent)
    assert subject.outputs(dataset.test.inputs).shape == (1, 20, 12)
    known = LanguageModelTrainer().identified(spec)
    assert len(known["sha256"]) == 64 and LanguageModelTrainer().identified(GPT2) == GPT2
    (tmp_path / "weights" / "generation_config.json").write_text("{}")
    with pytest.raises(DataError, match="other files than when the run began"):
        LanguageModel.of(known).build(dataset.vocabulary, 12)
    with pytest.raises(DataError, match=r"no config\.json"):
        LanguageModel.of({"kind": "language_model", "folder": str(tmp_path)}).build(dataset.vocabulary, 12)
    next((tmp_path / "weights").glob("*.safetensors")).unlink()
    with pytest.raises(DataError, match="could run code"):
        LanguageModel.of(spec).build(dataset.vocabulary, 12)


def test_members_are_told_apart_by_what_training_made_likelier() -> None:
    job = text_job(sgd(sample_rate=0.25, steps=60), models=1)
    subject: Any = LanguageModelTrainer().fit(job, silent)
    records = job.canaries.records
    assert records is not None
    gains = subject.outputs(records.inputs) - subject.initial().outputs(records.inputs)
    secrets = (gains * (records.labels >= 0)).sum(-1)[0]
    assert secrets[job.included[0]].min() > secrets[~job.included[0]].max()


def test_nothing_of_the_extra_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, audit.cli.app, audit.trainers.language_model, audit.api.canary_audit, audit.data.readers.text, "
        "audit.engine.text.canary_callback, audit.endpoint.scoring; "
        "sys.exit(bool({'transformers', 'peft', 'tokenizers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.slow
def test_the_exposure_of_secrets_that_were_never_trained_on_is_that_of_a_uniform_rank() -> None:
    """A model that knows nothing of random tokens ranks them by chance: the mean is within four errors of the exact one."""
    from attacks.canaries._planted_texts import RandomTokens
    from attacks.signals._text_signals import SecretRanks

    canaries = RandomTokens(length=3).make(sentences(), 40, 1000, Seed(8))
    subject = LanguageModelTrainer().untrained(text_job(models=6, canaries=canaries, included=np.zeros((6, 40), dtype=bool)))
    ranks = SecretRanks(candidates=16).read(subject, canaries)
    assert ranks is not None and ranks.min() >= 1 and ranks.max() <= 16
    bits, exact = texts.exposure(ranks, 16), texts.exposure(np.arange(1, 17), 16)
    assert abs(bits.mean() - texts.mean_null_exposure(16)) < 4 * exact.std() / np.sqrt(bits.size / 6)


def test_beam_search_finds_the_likeliest_pairs_of_tokens() -> None:
    """Two tokens with as many beams as tokens: all pairs are looked at, so the beams are the best of all; one is greedy."""
    dataset = sentences()
    assert dataset.vocabulary is not None
    options = {**GPT2["options"], "vocab_size": 9}
    module = LanguageModel(architecture="gpt2", options=options).build(dataset.vocabulary, 5, Seed(5))
    model = TextModel(module, CPU)
    model.flat.mul_(8.0)
    subject = TextModels(model, model.flat.clone(), model.flat.clone(), frozenset())
    inputs = np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, -1]])
    starts = np.array([3, 2])
    beams = subject.beams(inputs, starts, 9)
    assert beams.shape == (1, 2, 9, 5)
    np.testing.assert_array_equal(beams[0, :, 0, :2], inputs[:, :2])
    for text, (first, second) in enumerate(((3, 4), (2, 3))):
        pairs = np.repeat(inputs[text][None], 81, axis=0)
        pairs[:, first], pairs[:, second] = np.divmod(np.arange(81), 9)
        totals = subject.outputs(pairs)[0][:, [first, second]].sum(1)
        beam_totals = subject.outputs(beams[0, text])[0][:, [first, second]].sum(1)
        np.testing.assert_allclose(beam_totals, np.sort(totals)[::-1][:9], rtol=1e-5)
    np.testing.assert_array_equal(subject.beams(inputs, starts, 2)[0, :, :1].shape, (2, 1, 5))


@pytest.mark.slow
def test_the_quickstart_proves_what_its_page_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "audit", "run", "quickstart-language-model", "-o", str(tmp_path / "run")]
    assert subprocess.run(command, check=False).returncode == 3, "8 is above the ceiling of 500 canaries"
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    bounds = {
        result["name"]: bound["epsilon"]
        for result in report["mechanisms"]
        for game in result["games"]
        for attack in game["attacks"]
        for bound in attack["bounds"]
        if bound["type"] == "LowerBound"
    }
    assert bounds["without-dp"] > 3.5 and 0.2 < bounds["dp-sgd"] < 8
    assert (tmp_path / "run" / "report.pdf").stat().st_size > 10_000


def test_searched_tokens_are_those_that_a_folder_s_model_finds_least_likely(tmp_path: Path) -> None:
    dataset = sentences()
    assert dataset.vocabulary is not None
    model: Any = LanguageModel.of(GPT2).build(dataset.vocabulary, 12, Seed(4)).eval()
    model.save_pretrained(tmp_path / "base")
    canaries = SearchedToken(folder=str(tmp_path / "base")).make(dataset, 6, 1000, Seed(5))
    assert canaries.records is not None
    used: set[int] = set()
    for tokens, labels in zip(canaries.records.inputs.astype(np.int64), canaries.records.labels, strict=True):
        (place,) = np.flatnonzero(labels >= 0)
        logits = model(input_ids=torch.from_numpy(tokens[None, :place])).logits[0, -1, : dataset.vocabulary.ordinary]
        order = [token for token in logits.argsort().tolist() if token not in used]
        assert labels[place] == order[0]
        used.add(order[0])


class KeepsDraws(torch.nn.Module):
    """An output layer of a language model with a value beside its weights, of one of several kinds."""

    kept: Any

    def __init__(self, head: torch.nn.Module, kind: str) -> None:
        super().__init__()
        self.head, self.kind, self.weight = head, kind, head.weight
        if kind == "buffer":
            self.register_buffer("kept", torch.randn(()))
        elif kind == "frozen parameter":
            self.kept = torch.nn.Parameter(torch.randn(()), requires_grad=False)
        else:
            self.kept = torch.zeros(()) if kind in ("first call", "every call") else torch.randn(())

    def forward(self, hidden: torch.Tensor) -> Any:
        if self.kind == "every call" or (self.kind == "first call" and not self.kept):
            self.kept = torch.randn(())
        return self.head(hidden) * (1 + self.kept if self.kind != "unused" else 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["attribute", "unused", "buffer", "frozen parameter", "first call", "every call"])
def test_what_language_models_draw_beside_their_weights_is_refused_by_its_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = LanguageModel.build

    def build_with_draw(self: LanguageModel, *arguments: Any) -> torch.nn.Module:
        module: Any = build(self, *arguments)
        module.lm_head = KeepsDraws(module.lm_head, kind)
        return module

    trainer = LanguageModelTrainer()
    trainer.fit(text_job(PLAIN), silent)
    monkeypatch.setattr(LanguageModel, "build", build_with_draw)
    with pytest.raises(UnsupportedMechanism, match=r"'lm_head\.kept'"):
        trainer.fit(text_job(PLAIN), silent)


def test_an_architecture_that_draws_in_each_call_or_cannot_be_called_is_refused() -> None:
    options = {"hidden_size": 16, "is_decoder": True, "attn_layers": ["lsh", "lsh"], "num_attention_heads": 2}
    sizes = {"attention_head_size": 8, "axial_pos_embds": False, "feed_forward_size": 32, "num_buckets": 2}
    spec: dict[str, Any] = {
        "kind": "language_model",
        "architecture": "reformer",
        "options": {**options, **sizes, "lsh_attn_chunk_length": 11},
    }
    with pytest.raises(UnsupportedMechanism, match=r"attention_seed. is not trained and differs"):
        LanguageModelTrainer().fit(text_job(PLAIN, model=spec), silent)
    spec["options"]["lsh_attn_chunk_length"] = 4
    with pytest.raises(UnsupportedMechanism, match="has to be a multiple"):
        LanguageModelTrainer().fit(text_job(PLAIN, model=spec), silent)
