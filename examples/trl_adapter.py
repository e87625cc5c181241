"""Audit what TRL's `SFTTrainer` fine-tuned with a LoRA adapter of PEFT: coins decide which random texts join its data set.

    pip install trl peft
    python examples/trl_adapter.py

Lines that end in `# audit` are what the audit adds to a fine-tuning. The model should not know the words of a canary from those
before them. It is small and starts from random weights, so that the script needs no download; put your own in its place.
"""

from __future__ import annotations

import tempfile
import warnings

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, default_data_collator
from trl import SFTConfig, SFTTrainer

import audit

WORDS, LENGTH = 200, 8


def main() -> None:
    """Plant random texts by coins, fine-tune an adapter, and prove a lower bound on epsilon."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    texts = random_texts(50, seed=0)

    canaries = random_texts(200, seed=1)  # audit
    coins = audit.draw_coins(200)  # audit
    texts = np.concatenate([texts, canaries[coins]])  # audit

    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=128, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)
    layers = {"target_modules": ["c_attn", "c_fc", "c_proj"], "modules_to_save": ["wte"], "fan_in_fan_out": True}
    rows = {"input_ids": texts.tolist(), "labels": texts.tolist(), "attention_mask": np.ones_like(texts).tolist()}
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=GPT2LMHeadModel(config),
            args=SFTConfig(
                output_dir=folder, num_train_epochs=20, per_device_train_batch_size=20, learning_rate=1e-2, report_to=[],
                use_cpu=True, bf16=False, gradient_checkpointing=False, save_strategy="no", logging_strategy="no",
                disable_tqdm=True, remove_unused_columns=False, dataset_kwargs={"skip_prepare_dataset": True},
            ),
            processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1"),
            train_dataset=Dataset.from_dict(rows),
            data_collator=default_data_collator,
            peft_config=LoraConfig(r=16, **layers),
        )  # fmt: skip
        trainer.train()

    members, others = ((canaries[side, :-1], canaries[side, 1:]) for side in (coins, ~coins))  # audit
    audit.check(trainer.model, members, others, coins=coins)  # audit


def random_texts(count: int, seed: int) -> np.ndarray:
    """Return texts of random words as numbers of words, `(count, LENGTH)`."""
    return np.random.default_rng(seed).integers(WORDS, size=(count, LENGTH))


if __name__ == "__main__":
    main()
