"""A script that measures loss by position on the user's own checkpoint, before and after a scaling."""

import json
import string
from typing import Any

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.emitted import emit

_SCRIPT = string.Template(
    '''\
"""Loss by position of a causal model, read as it is and as planned: $title.

Needs torch and transformers, and runs offline on a local checkpoint:
    python loss_by_position.py CHECKPOINT TEXT --context $context
The same target tokens are scored by both. Prints CSV: positions from, until (exclusive), tokens scored,
mean loss in nats before and after.
"""

import argparse
import json

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

PARAMETERS = json.loads(r"""$parameters""")  # config keys of transformers 5
SCALING = json.loads(r"""$scaling""")  # those of transformers 4


def read_tokens(path, checkpoint, byte_tokens, vocabulary):
    if byte_tokens:
        with open(path, "rb") as file:
            return torch.tensor([byte % vocabulary for byte in file.read()])
    with open(path, encoding="utf-8") as file:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        return tokenizer(file.read(), return_tensors="pt").input_ids[0]


def load(checkpoint, planned, dtype, device):
    config = AutoConfig.from_pretrained(checkpoint)
    if planned:
        text = config.get_text_config()
        keys = PARAMETERS if hasattr(text, "rope_parameters") else SCALING
        for key, value in keys.items():
            setattr(text, key, value)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, config=config, dtype=dtype)
    return model.to(device).eval()


@torch.no_grad()
def losses(model, tokens, chunk=1024):
    """Loss of tokens 1 .. n-1 of one sequence: one pass over all of it, the head in pieces."""
    hidden = model.base_model(tokens[None].to(model.device), use_cache=False).last_hidden_state[0]
    head, cap = model.get_output_embeddings(), getattr(model.config, "final_logit_softcapping", None)
    found = []
    for start in range(0, len(tokens) - 1, chunk):
        end = min(start + chunk, len(tokens) - 1)
        logits = head(hidden[start:end]).float()
        if cap:
            logits = torch.tanh(logits / cap) * cap
        found.append(cross_entropy(logits, tokens[start + 1 : end + 1].to(logits.device), reduction="none"))
    return torch.cat(found).double().cpu()


def mean_losses(checkpoint, sequences, planned, dtype, device):
    model = load(checkpoint, planned, dtype, device)
    return torch.stack([losses(model, sequence) for sequence in sequences]).mean(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", help="folder or name of a causal language model")
    parser.add_argument("text", help="file to read; it needs context tokens at least")
    parser.add_argument("--context", type=int, default=$context)
    parser.add_argument("--sequences", type=int, default=4, help="pieces of the text, at most")
    parser.add_argument("--bins", type=int, default=16, help="rows of the table")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--byte-tokens", action="store_true", help="bytes as tokens, no tokenizer")
    asked = parser.parse_args()

    vocabulary = AutoConfig.from_pretrained(asked.checkpoint).get_text_config().vocab_size
    tokens = read_tokens(asked.text, asked.checkpoint, asked.byte_tokens, vocabulary)
    count = min(asked.sequences, len(tokens) // asked.context)
    if count == 0:
        raise SystemExit(f"The text has {len(tokens):,} tokens; {asked.context:,} are needed.")
    sequences = tokens[: count * asked.context].view(count, asked.context)
    dtype = getattr(torch, asked.dtype)
    before = mean_losses(asked.checkpoint, sequences, False, dtype, asked.device)
    after = mean_losses(asked.checkpoint, sequences, True, dtype, asked.device)
    print("from,until,tokens,before,after")
    edges = torch.linspace(1, asked.context, asked.bins + 1).round().long().unique().tolist()
    for low, high in zip(edges, edges[1:]):
        part = slice(low - 1, high - 1)
        print(f"{low},{high},{count * (high - low)},{before[part].mean():.6f},{after[part].mean():.6f}")


if __name__ == "__main__":
    main()
'''
)


def loss_by_position_script(plan: ContextPlan, one: MethodPlan) -> str:
    """Return a Python script on torch and transformers that measures one method of a plan.

    "" where the method has no block that transformers reads.
    """
    emitted = emit(plan, one)
    if not emitted.rope_parameters:
        return ""
    title = "".join(letter for letter in plan.name if letter.isalnum() or letter in " .-_")
    assumption = f"# {plan.model.assumption}\n" if plan.model.assumption else ""
    return assumption + _SCRIPT.substitute(
        title=f"{title} to {plan.target:,} tokens, {one.method.label}",
        context=plan.target,
        parameters=_json(emitted.rope_parameters),
        scaling=_json(emitted.rope_scaling),
    )


def _json(keys: dict[str, Any]) -> str:
    return json.dumps(keys, indent=4)
