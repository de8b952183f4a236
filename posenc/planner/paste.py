"""What to paste where: config blocks of both generations, and flags of two inference servers.

vLLM: the names of `vllm serve` as in docs.vllm.ai, stable, "Context Extension", read in 2026: its
--rope-scaling is gone since 0.11.1 (vllm-project/vllm pull request 28006), --hf-overrides stays.
llama.cpp: tools/server/README.md of ggml-org/llama.cpp at commit 00dc8057, its list of options.

A script that measures loss by position on the user's own checkpoint, before and after a scaling.
"""

import json
import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from posenc.errors import SchemeArgumentError
from posenc.models.families import FAMILIES
from posenc.models.rope_formats import type_block
from posenc.planner.methods import CONFIGURED
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.text import counted

VLLM_SOURCE = "docs.vllm.ai, stable, Context Extension; vLLM 0.11.1 and later"
LLAMA_CPP_FACTORS = "ggml-org/llama.cpp, pull request 8676"
_IN_GGUF = ("linear", "yarn", "llama3", "longrope")  # that its convert_hf_to_gguf.py writes
_STAYS = "a GGUF file of this model holds its own scaling, which they are applied on top of"
LLAMA_CPP_SOURCE = "ggml-org/llama.cpp, tools/server/README.md at 00dc8057"
# Kinds whose scaling public code starts at the context, not at the trained length.
_STARTS_AT_CONTEXT = frozenset({"rope_dynamic"})  # max_position_embeddings is L0 in transformers
# Kinds by whose factor vLLM makes the context longer, without being asked.
_VLLM_COUNTS_FACTOR = frozenset({"rope_linear", "rope_yarn"})
_VLLM_DOUBTS = {
    "rope_dynamic": "No vLLM flags: that its dynamic NTK grows with the text as here was not verified."
}
_WITHOUT_BLOCK = {
    "rope_yarn_paper": "transformers has no rope_type for YaRN as printed: at equal numbers its "
    "frequencies are those of Llama 3's scaling, which has no attention factor"
}


@dataclass(frozen=True)
class Emitted:
    """What one method is written as. Each part is "" or empty where there is none, and `why` says why.

    rope_parameters: keys of config.json that transformers 5 reads. rope_scaling: those of 4 and before.
    vllm, llama_cpp: command lines, MODEL standing for the user's own.
    where: says where the keys belong, and instead of which; then which layers they rescale needlessly.
    """

    rope_parameters: dict[str, Any]
    rope_scaling: dict[str, Any]
    vllm: str
    llama_cpp: str
    why: tuple[str, ...]
    where: str = ""


def llama_cpp_flags(config: RopeConfig) -> str:
    """Return the options of llama.cpp, "" where it has none for this."""
    if type(config) is RopeConfig:
        return f"--rope-scaling none --rope-freq-base {config.base!r}"
    if type(config) is RopeNtkConfig:
        return f"--rope-scaling none --rope-freq-base {config.larger_base!r}"
    if isinstance(config, RopeLinearConfig):
        return f"--rope-scaling linear --rope-scale {config.factor:.10g}"
    own_scale = isinstance(config, RopeYarnConfig) and (
        config.mscale or config.mscale_all_dim or config.attention_factor
    )
    if not isinstance(config, RopeYarnConfig) or own_scale or not config.truncate:
        return ""
    return (
        f"--rope-scaling yarn --rope-scale {config.factor:.10g} "
        f"--yarn-orig-ctx {config.trained_length} --yarn-beta-fast {config.beta_fast:g} "
        f"--yarn-beta-slow {config.beta_slow:g}"
    )


def emit(plan: ContextPlan, one: MethodPlan) -> Emitted:
    """Return what reads the plan's target by one method."""
    config = one.config
    words = type_block(config)
    if words is None:
        known = _WITHOUT_BLOCK.get(config.kind, f"transformers has no rope_type for {config.label}")
        return Emitted({}, {}, "", "", (f"{known}, so there is nothing to paste.",))
    context = plan.trained_length if config.kind in _STARTS_AT_CONTEXT else plan.target
    why: list[str] = []
    block, old = _blocks(plan, config, context, why)
    if not block:
        return Emitted({}, {}, "", "", tuple(why))
    parameters = {"rope_parameters": block}
    longer: dict[str, Any] = {"max_position_embeddings": context}
    family = FAMILIES.get(plan.model.read_as)
    if family is not None and family.head_dim_unset:
        longer["head_dim"] = plan.kind.head_dim
    vllm = ""
    if config.kind in _VLLM_DOUBTS:
        why.append(_VLLM_DOUBTS[config.kind])
    else:
        overrides = parameters if config.kind in _VLLM_COUNTS_FACTOR else parameters | longer
        if plan.model.section:
            overrides = {plan.model.section: overrides}
        vllm = (
            f"vllm serve MODEL --hf-overrides '{json.dumps(overrides)}' "
            f"--max-model-len {plan.target}"
        )
    several = len(plan.model.layer_kinds) > 1
    in_file = one.method.name == CONFIGURED and words["rope_type"] in _IN_GGUF
    flags = "" if several or in_file else llama_cpp_flags(config)
    if in_file:
        why.append(
            "llama.cpp needs no option for it: a GGUF file of this model holds this scaling."
        )
    elif several:
        why.append(
            "No llama.cpp options: which of this model's kinds of layers they act on was not verified."
        )
    elif not flags:
        what = f"{one.method.label[:1].lower()}{one.method.label[1:]}"
        why.append(f"llama.cpp has no option for {what} with these numbers.")
    elif _stays_in_file(plan.kind.scheme, plan.trained):
        flags = ""
        why.append(f"No llama.cpp options: {_STAYS} ({LLAMA_CPP_FACTORS}).")
    return Emitted(
        rope_parameters=parameters | longer,
        rope_scaling=old | longer if old else {},
        vllm=vllm,
        llama_cpp=" ".join(filter(None, ("llama-server -m MODEL", flags, f"-c {plan.target}")))
        if flags or in_file
        else "",
        why=tuple(why),
        where=_where(plan, rescales=config != plan.kind.scheme),
    )


def _where(plan: ContextPlan, *, rescales: bool) -> str:
    """Say where the keys belong: an old rope_scaling left beside them is what transformers takes."""
    inside = f"Inside {plan.model.section}, in" if plan.model.section else "In"
    needless = needless_layers(plan) if rescales else ""
    return (
        f"{inside} place of all keys of RoPE that the config has, such as rope_theta and rope_scaling: "
        "transformers takes an old rope_scaling rather than new rope_parameters beside it."
        + (f" The block also rescales {needless}" if needless else "")
    )


def needless_layers(plan: ContextPlan) -> str:
    """Name the layers that share the block though their window shows no new distance; "" without any."""
    trained = plan.trained_length or 0
    shared = [
        kind
        for kind in plan.model.layer_kinds
        if _shares_block(plan) and kind is not plan.kind and kind.scheme == plan.kind.scheme
    ]
    spared = [kind for kind in shared if kind.window is not None and kind.window <= trained]
    if not spared:
        return ""
    layers = sum(len(kind.layers) for kind in spared)
    window = max(kind.window or 0 for kind in spared)
    return (
        f"{counted(layers, f'{spared[0].name} layer')} to which no distance is new: they see {window:,} "
        f"tokens at most, and {_class(plan)} has one RoPE for all layers."
    )


def _shares_block(plan: ContextPlan) -> bool:
    """Whether all kinds of layers of the model are turned by one block of its config."""
    family = FAMILIES.get(plan.model.read_as)
    return family is None or "" in family.bases


def _class(plan: ContextPlan) -> str:
    family = FAMILIES.get(plan.model.read_as)
    return "its class" if family is None else f"transformers' {family.config_class}"


def _stays_in_file(scheme: SchemeConfig | None, trained: RopeConfig | None) -> bool:
    """Whether a model's own scaling is no option of llama.cpp, and so none that an option replaces."""
    return isinstance(scheme, RopeConfig) and scheme != trained and not llama_cpp_flags(scheme)


def _blocks(
    plan: ContextPlan, config: RopeConfig, context: int | None, why: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what both generations have for RoPE, each empty where it has nothing; `why` says why.

    Layers of another kind keep their scheme where the config has a block for each kind; where all share
    one block, those that had the same scheme are read with the new one, too.
    """
    kinds = plan.model.layer_kinds
    family = FAMILIES.get(plan.model.read_as)
    words = type_block(config) or {}
    if family is not None and family.takes and words["rope_type"] not in family.takes:
        why.append(
            f"transformers' {family.config_class} takes no rope_type but {', '.join(family.takes)}, so "
            "there is nothing to paste."
        )
        return {}, {}
    own = tuple(replace(one, scheme=config) if one is plan.kind else one for one in kinds)
    alike = tuple(
        replace(one, scheme=config) if one.scheme == plan.kind.scheme else one for one in kinds
    )
    apart, together = (
        replace(plan.model, layer_kinds=found, context=context) for found in (own, alike)
    )
    models = (together,) if _shares_block(plan) else (apart, together)
    block = _first(*(model.to_rope_parameters for model in models))
    old = _first(*(model.to_rope_scaling for model in models))
    if not block or "rope_theta" not in json.dumps(block):
        why.append("This model's config has no keys for its RoPE, so there is nothing to paste.")
        return {}, {}
    if not old:
        why.append("transformers 4 has no keys for these layers.")
    return block, old


def _first(*writers: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the first writer writes that does not refuse; nothing if all do."""
    for write in writers:
        try:
            return write()
        except SchemeArgumentError:
            continue
    return {}


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
