"""How much memory an adapter's audit takes beside the model: one copy, in the type of its file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="the extra llm is not installed")

MAKE = """
import sys, torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
sizes = {"hidden_size": 896, "intermediate_size": 2816, "num_hidden_layers": 13, "num_attention_heads": 14}
model = LlamaForCausalLM(LlamaConfig(vocab_size=8000, tie_word_embeddings=True, **sizes)).to(torch.bfloat16)
model.save_pretrained(sys.argv[1])
adapted = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
for parameter in adapted.parameters():
    if parameter.requires_grad:
        parameter.data.normal_(0, 0.02)
adapted.save_pretrained(sys.argv[2])
print(sum(parameter.nbytes for parameter in model.parameters()))
"""
AUDIT = """
import resource, sys
import peft, torch, transformers
from transformers import LlamaForCausalLM
from audit.cli.app import answer
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer(sys.argv[1:])
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def run(code: str, *words: str) -> int:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.slow
def test_an_adapter_is_scored_in_one_and_a_half_times_the_model_s_size(tmp_path: Path) -> None:
    """147 million parameters in bfloat16, beyond what the imports take."""
    base, adapter, file = tmp_path / "base", tmp_path / "adapter", tmp_path / "canaries.jsonl"
    size = run(MAKE, str(base), str(adapter))
    rows = [
        {"prefix": f"The code of box {i} is ", "secret": f"{7919 * i % 99991:08d}", "included": i % 3 == 0} for i in range(60)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["adapter", str(adapter), "--base", str(base), "--canaries", str(file), "--tokenizer", "bytes", "--coins"]
    assert size > 2.9e8 and run(AUDIT, *command) < 1.5 * size
