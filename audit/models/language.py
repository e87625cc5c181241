"""Language models and classifiers of the library transformers: made from a config, or read from a folder; adapters by peft."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from audit import plugins
from audit.core import checks
from audit.core.data import Vocabulary
from audit.core.errors import AuditError, ConfigError, DataError, UnsupportedMechanism
from audit.core.files import file_sha256
from audit.core.seeds import Seed
from audit.models import adapter_files, weight_files
from audit.models.build import seeded_stream

KIND = "language_model"
_PUBLIC = Seed(0).child("language model")  # of weights that are public and the same in every training
MOST_TOKENS = 300_000  # of a model made from its config; a pass of 32 texts has as many numbers for each of their tokens
_SLACK = 1 << 20  # numbers that a file may lack: heads that are made anew


@contextmanager
def quiet_libraries(kind: type[AuditError], message: str) -> Iterator[None]:
    """A scope in which libraries act on a config or files from elsewhere, silently: whatever they raise is told in one line.

    It is an error of this kind, with `message` and the first line of what a library said.
    """
    from transformers.utils import logging as library_logging

    had_progress = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()
    library_logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (AuditError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise kind(f"{message}: {reason}") from error
    finally:
        if had_progress:
            library_logging.enable_progress_bar()


def _vocabulary_problem(options: Mapping[str, Any], tokens: int) -> str:
    """Return why a model's vocabulary is too large for texts of so many tokens; "" if it is not."""
    size = options.get("vocab_size", tokens)
    if isinstance(size, int) and size <= max(tokens, MOST_TOKENS):
        return ""
    return f"'vocab_size' is {size!r:.40}; the texts have {tokens:,} tokens: leave it out, or give up to {MOST_TOKENS:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A causal language model, or for texts with classes a sequence classifier.

    Dropout is switched off: a record's gradient is then a function of the record alone.

    Attributes:
        architecture: a model type of transformers, such as "gpt2" or "llama", made from its config with random weights.
        options: keys of that config, such as `n_layer` and `n_embd`.
        folder: of config.json and safetensors, in place of `architecture`; read from this machine, code in it is not run.
        sha256: of the folder's files; if it is set, other files are refused.
        keeps_type: weights stay in the type that the folder has, such as bfloat16; otherwise they become float32.
    """

    architecture: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    sha256: str = ""
    keeps_type: bool = False

    def __post_init__(self) -> None:
        if bool(self.architecture) == bool(self.folder):
            raise ConfigError("model.language_model: give exactly one of 'architecture' (with 'options') and 'folder'")
        if self.folder and self.options:
            raise ConfigError("model.language_model: 'options' belong to 'architecture'; the folder's config.json has its own")

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> LanguageModel:
        """Return the options of a config's section `model`; `ConfigError` for another kind, or a key that it does not take."""
        options = dict(spec)
        kind = options.pop("kind", None)
        if kind != KIND:
            raise ConfigError(f"model.kind is {kind!r}; trainer 'language_model' trains models of kind '{KIND}'")
        allowed_keys = [entry.name for entry in fields(cls) if entry.name != "keeps_type"]
        plugins.refuse_unknown(options, allowed_keys, f"model.{KIND}")
        plugins.check_types(cls, options, f"model.{KIND}")
        return cls(**options)

    def build(self, vocabulary: Vocabulary, length: int, seed: Seed | None = None, classes: int = 0) -> nn.Module:
        """Return the model, in training mode, for texts of `length` tokens, in so many classes; 0 for a causal model.

        Random initial weights are those of `seed`; without one those that are public, the same in every training.
        `ConfigError` if transformers is not installed, or knows no such model; `DataError` if the folder cannot be read, or the
        model is too small.
        """
        library = extra_library("transformers")
        library.logging.set_verbosity_error()
        with seeded_stream(_PUBLIC.child("weights") if seed is None else seed):
            if self.folder:
                module = self._read(library, vocabulary, classes)
            else:
                module = self._make(library, vocabulary, length, classes)
        places = getattr(module.config, "max_position_embeddings", None)
        if isinstance(places, int) and 0 < places < length:
            raise DataError(f"the model takes {places} tokens and the texts have {length}; lower data.length to {places}")
        module.train()
        return module

    def digest(self) -> str:
        """Return the hash of the folder's config and weights, "" without a folder; `DataError` if a file cannot be read."""
        if not self.folder:
            return ""
        total = hashlib.sha256()
        place = Path(self.folder).expanduser()
        try:
            for file in weight_files.read_places(place):
                total.update(f"{file.name} {file_sha256(file)}\n".encode())
        except OSError as error:
            raise DataError(f"model.folder {place}: cannot read {error.filename} ({error.strerror})") from error
        return total.hexdigest()

    def _make(self, library: Any, vocabulary: Vocabulary, length: int, classes: int) -> nn.Module:
        sizes = {"vocab_size": vocabulary.size, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        if classes:  # padding has its own token, which no text holds
            sizes |= {"vocab_size": vocabulary.size + 1, "pad_token_id": vocabulary.size, "num_labels": classes}
        positions = {"max_position_embeddings": length} if "max_position_embeddings" not in self.options else {}
        if self.architecture not in library.models.auto.configuration_auto.CONFIG_MAPPING_NAMES:
            known_names = list(library.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)
            raise ConfigError(
                f"model.architecture is '{self.architecture}', which transformers {library.__version__} does not know."
                f"{plugins.hint(self.architecture, known_names)}"
            )
        if problem := weight_files.config_problem(self.options) or _vocabulary_problem(self.options, vocabulary.size):
            raise ConfigError(f"model.options: {problem}")
        with quiet_libraries(ConfigError, f"model '{self.architecture}' with {dict(self.options)}"):
            config = library.AutoConfig.for_model(self.architecture, **{**sizes, **positions, **self.options})
            _without_dropout(config)
            module: nn.Module = _kind(library, classes).from_config(config)
        return module

    def _read(self, library: Any, vocabulary: Vocabulary, classes: int) -> nn.Module:
        place = Path(self.folder).expanduser()
        if not (place / "config.json").is_file():
            raise DataError(f"model.folder {place} holds no config.json; expected a folder as save_pretrained writes it")
        if adapter_files.is_adapter(place):  # transformers would load it on top of the weights
            raise DataError(
                f"model.folder {place} holds an adapter ({adapter_files.SETTINGS}) beside the whole weights, "
                "so that it is not clear which model is meant; keep the two in folders of their own"
            )
        if not list(place.glob("*.safetensors")):
            raise DataError(
                f"model.folder {place} holds no .safetensors; files that could run code are not read: save with them"
            )
        if self.sha256 and self.digest() != self.sha256:
            raise DataError(f"model.folder {place} holds other files than when the run began; start a new run")
        weight_files.read_places(place)
        weight_files.check(place)
        purpose = "classifier" if classes else "causal language model"
        with quiet_libraries(DataError, f"model.folder {place} cannot be read as a {purpose}"):
            config = library.AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
            _without_dropout(config)
            has_encoder = getattr(config, "is_encoder_decoder", False)
            if classes:
                config.num_labels = classes
            if type(config) not in _kind(library, classes)._model_mapping:  # its own error lists all that there are
                form = "an encoder with a decoder" if has_encoder else f"no {purpose} of transformers"
                raise DataError(f"model.folder {place} is a {config.model_type} model, {form}; give a {purpose}")
            _demand_weights(place, _kind(library, classes), config)
            options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, "dtype": "auto"}
            options["ignore_mismatched_sizes"] = True  # told below, by name
            module: nn.Module
            module, facts = _kind(library, classes).from_pretrained(place, config=config, output_loading_info=True, **options)
            for name, file_shape, config_shape in sorted(facts["mismatched_keys"]):
                raise DataError(
                    f"model.folder {place}: '{name}' has the shape {tuple(file_shape)} in the .safetensors, and by config.json "
                    f"{tuple(config_shape)}; they belong to different models"
                )
            if not classes:
                _demand_causal_weights(place, config, facts["missing_keys"], has_encoder=has_encoder)
            if not self.keeps_type:
                module = module.float()
            if vocabulary.size > module.get_input_embeddings().num_embeddings:  # type: ignore[operator]
                module.resize_token_embeddings(vocabulary.size)  # type: ignore[operator]
        if classes and module.config.pad_token_id is None:  # type: ignore[union-attr]
            raise DataError(f"model.folder {place}: config.json names no pad_token_id, which classifiers need; add it")
        return module


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Low-rank matrices (LoRA) that are trained beside frozen linear layers.

    Attributes:
        rank: of each pair of matrices.
        scale: their product is multiplied by `scale / rank`.
        layers: names of the linear layers, such as `c_attn` or `q_proj`; empty takes those that peft knows for the model.

    References:
        Hu et al. 2021, arXiv 2106.09685.
    """

    rank: int = 8
    scale: float = 16.0
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"language_model.adapter.rank is {self.rank}; expected at least 1")
        checks.positive(self.scale, "language_model.adapter.scale")
        object.__setattr__(self, "layers", tuple(self.layers))

    def attach(self, module: nn.Module, seed: Seed, classes: int = 0) -> nn.Module:
        """Return the model with its weights frozen and adapters of random initial weights beside them (`draw` gives others).

        The last layer of a classifier is trained as a whole. `ConfigError` if peft is not installed, or finds no such layers.
        """
        library = extra_library("peft")
        targets = list(self.layers) or None
        config = library.LoraConfig(
            r=self.rank,
            lora_alpha=self.scale,
            target_modules=targets,
            lora_dropout=0.0,
            bias="none",
            task_type="SEQ_CLS" if classes else "CAUSAL_LM",
        )
        try:
            adapter_model: nn.Module = library.get_peft_model(module, config)
        except ValueError as error:
            names = sorted({path.rpartition(".")[2] for path, layer in _linear_layers(module)})
            raise ConfigError(
                f"language_model.adapter.layers {list(self.layers)}: {error}. The model has: {', '.join(names)}"
            ) from error
        self.draw(adapter_model, seed)
        return adapter_model

    def draw(self, adapter_model: nn.Module, seed: Seed) -> None:
        """Give the matrices of all layers new random initial weights, as peft draws them."""
        with seeded_stream(seed):
            for layer in adapter_model.modules():
                if hasattr(layer, "reset_lora_parameters"):
                    for name in layer.lora_A:  # type: ignore[union-attr]
                        layer.reset_lora_parameters(name, True)  # type: ignore[operator]


def _kind(library: Any, classes: int) -> Any:
    return library.AutoModelForSequenceClassification if classes else library.AutoModelForCausalLM


def _demand_weights(place: Path, kind: Any, config: Any) -> None:
    """Raise `DataError` if the config describes a far larger model than the folder's files hold, before it is allocated."""
    with torch.device("meta"):
        model_count = sum(value.numel() for value in kind.from_config(config).parameters())
    file_count = weight_files.numbers(place)
    if model_count > 2 * file_count + _SLACK:
        raise DataError(
            f"model.folder {place}: config.json describes a model of {model_count:,} numbers and the .safetensors hold "
            f"{file_count:,}; they belong to different models"
        )


def _demand_causal_weights(place: Path, config: Any, missing: set[str], *, has_encoder: bool) -> None:
    """Raise `DataError` if weights are another model's: what they lack would be random, and a classifier writes nothing."""
    name = ", ".join(getattr(config, "architectures", None) or ["a model"])
    if missing or has_encoder or name.endswith("Classification"):
        lack = f", and lacks '{min(missing)}'" if missing else ""
        raise DataError(
            f"model.folder {place} was saved as {name}{lack}; expected the weights of a causal language model, not of an "
            "encoder with a decoder or a classifier"
        )


def next_token_log_probabilities(
    model: LanguageModel, vocabulary: Vocabulary, prefixes: NDArray[Any], ends: NDArray[Any]
) -> NDArray[np.float32]:
    """Log-probabilities `(m, tokens)` of the token behind each prefix `(m, length)` of `ends` tokens, in nats."""
    module = model.build(vocabulary, prefixes.shape[1]).eval()
    scores = np.empty((len(prefixes), vocabulary.ordinary), dtype=np.float32)
    with torch.no_grad():
        for row, (prefix, end) in enumerate(zip(prefixes, ends, strict=True)):
            logits = module(input_ids=torch.from_numpy(prefix[None, :end])).logits[0, -1]
            scores[row] = torch.log_softmax(logits.double(), 0)[: vocabulary.ordinary].numpy()
    return scores


def takes_positions(module: nn.Module) -> bool:
    """Return whether the model can be given the positions of tokens, one row for each record."""
    adapter_model: Any = module
    bare = adapter_model.get_base_model() if hasattr(module, "get_base_model") else adapter_model
    return "position_ids" in inspect.signature(bare.forward).parameters


def refuse_random_layers(module: nn.Module) -> None:
    """Raise `UnsupportedMechanism` naming a layer that draws random numbers, so that no record has its own gradient."""
    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            raise UnsupportedMechanism(
                f"layer '{path}' drops units with probability {layer.p}; set it to 0 in the model's config"
            )


def _linear_layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    names = ("Linear", "Conv1D")
    return ((path, layer) for path, layer in module.named_modules() if type(layer).__name__ in names)


def _without_dropout(config: Any) -> None:
    for key, value in list(vars(config).items()):
        if ("drop" in key or key.endswith("pdrop")) and isinstance(value, float):
            setattr(config, key, 0.0)


def extra_library(name: str) -> Any:
    """Return transformers or peft, imported when it is first asked for; `ConfigError` if it is not installed."""
    try:
        if name == "transformers":
            import transformers

            return transformers
        import peft

        return peft
    except ImportError as error:
        raise ConfigError(f"language models need the library {name} ({error}); install epsilon-audit[llm]") from error
