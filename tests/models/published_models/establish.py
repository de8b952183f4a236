"""Observe what the layers of a published model do, by running its class of transformers.

The config of a model goes to the class that its model_type names, or to the one in `read_as`. The class is
built with the layers, heads and head widths of the config; feed-forward parts and layers with a state are
left out, which rotate nothing. It runs on two tokens, and on a short text with its windows made small:

- The function that rotates queries and keys is called with unit vectors. What it returns is the rotation as
  a matrix: which features it pairs, the angle of each pair at position 1, and the attention factor.
- The attention mask shows which keys a query sees.
- The tensors that reach the attention show its heads, their width, the softmax scale, and how many numbers
  the cache of a token and a layer holds.

Nothing here imports posenc. `python -m tests.models.published_models.establish` writes truth.json.
"""

import contextlib
import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent
TRUTH = HERE / "truth.json"
LENGTHS = (1_000, 100_000)
HELD = (3, 4, 131, 256)  # tokens, on both sides of a boundary where layers cache several as one
WINDOW = 6  # what replaces a window or a chunk while the mask is observed
TEXT = 20  # tokens of that text
SMALL = {
    "vocab_size": 64, "vocab_size_per_layer_input": 64, "intermediate_size": 16, "moe_intermediate_size": 8,
    "n_routed_experts": 4, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_num_experts": 4, "shared_expert_intermediate_size": 8,
    "intermediate_size_mlp": 16, "ffn_hidden_size": 16, "hidden_size_per_layer_input": 8, "n_inner": 16,
    "shared_intermediate_size": 8, "moe_shared_expert_intermediate_size": 8, "q_lora_rank": 8,
    "o_lora_rank": 8, "index_local_blocks": 0,
}  # fmt: skip
WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "local_attention")
FEED_FORWARD = ("mlp", "feed_forward", "block_sparse_moe", "ffn", "moe", "shared_mlp", "shared_moe")
STATE = re.compile(
    "Mamba|Mixer|GatedDelta|DeltaAttention|ShortConv|Lightning|(?<!Kimi)LinearAttention|MLP|MOE|Moe.*Block"
    "|MoE(?!V1(?:Attention|DecoderLayer))"
)
TWO_RESULTS = re.compile(
    "Lightning|VLMoeMoeBlock|PrivacyFilterMLP|Llama4TextMoe|GptOssMLP|ZayaSparseMoe"
)
ROTATES = re.compile(r"^apply_.*rot")
SHALLOW = 4  # layers of a class whose layers are all alike, where its width cannot be made small

# Classes whose layers are all alike and whose head width follows from the width of a token.
UNIFORM = {
    "falcon", "bitnet", "bloom", "mpt", "gptj", "gpt_neox", "stablelm", "persimmon", "helium", "olmoe",
    "codegen", "gpt_neox_japanese", "dbrx", "glm4v_text",
}  # fmt: skip
# Classes of narrow models whose head width follows from the width of a token.
NARROW = {
    "modernbert", "modernbert-decoder", "nomic_bert", "mllama_text_model", "qwen2_vl_text",
    "qwen2_5_vl_text", "zamba", "zamba2", "esm",
}  # fmt: skip
# Classes that compute attention themselves. None of them knows a window.
ENTRIES = ("compressed_kv", "compressor")
OWN_ATTENTION = {"falcon", "bloom", "mpt", "gptj", "codegen", "gpt_neox_japanese"}
# What these classes do before their attention is called: they scale queries, and copy keys.
BEFORE = {"esm": "scale", "jetmoe": "kv_heads", "openai_privacy_filter": "scale"}


class Observer:
    """What the layers of one run did, by their index."""

    def __init__(self) -> None:
        self.layer: int | None = None
        self.rotations: dict[int, torch.Tensor] = {}
        self.masks: dict[int, torch.Tensor | None] = {}
        self.keys: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.sizes: dict[int, dict[str, Any]] = {}
        self.known: dict[Any, torch.Tensor] = {}

    def attention(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None,
        scaling: Any = None, **_: Any,
    ) -> Any:  # fmt: skip
        """Stand in for the attention: write down what it is given, and return zeros."""
        assert self.layer is not None
        self.masks[self.layer] = attention_mask
        self.keys[self.layer] = key, value
        heads, width = query.shape[1], query.shape[-1]
        self.sizes[self.layer] = {
            "heads": heads, "kv_heads": key.shape[1], "head_dim": width, "scale": scaling
        }  # fmt: skip
        zeros = (query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
        return torch.zeros(zeros, dtype=query.dtype), None

    def rotation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that rotates; the first token of the run stands at position 1."""

        def wrapper(heads: torch.Tensor, *rest: Any, **named: Any) -> Any:
            if self.layer is None or self.layer in self.rotations:
                return function(heads, *rest, **named)
            angles = [one for one in (*rest, *named.values()) if isinstance(one, torch.Tensor)]
            key = (
                function,
                heads.shape[-1],
                *(str(one.tolist()) for one in angles if one.dim() < 4),
            )
            if key not in self.known:
                columns = []
                for feature in range(heads.shape[-1]):
                    unit = torch.zeros_like(heads)
                    unit[..., feature] = 1.0
                    found = function(unit, *rest, **named)
                    found = found[0] if isinstance(found, tuple) else found
                    columns.append(found.reshape(-1, found.shape[-1])[0])
                self.known[key] = torch.stack(columns, dim=1)
            self.rotations[self.layer] = self.known[key]
            return function(heads, *rest, **named)

        return wrapper


OBSERVER = Observer()


def stand_in(*arguments: Any, **named: Any) -> Any:
    return OBSERVER.attention(*arguments, **named)


@contextlib.contextmanager
def observed(model: torch.nn.Module, layers: Any) -> Iterator[Observer]:
    """Observe the layers of a model while it runs."""
    global OBSERVER
    OBSERVER = Observer()
    undo: list[Callable[[], Any]] = []
    for index, layer in enumerate(layers):

        def enter(*_: Any, index: int = index) -> None:
            OBSERVER.layer = index

        undo.append(layer.register_forward_pre_hook(enter).remove)
    for module in {sys.modules[type(one).__module__] for one in model.modules()}:
        for name, function in list(vars(module).items()):
            if ROTATES.match(name) and "vision" not in name and callable(function):
                setattr(module, name, OBSERVER.rotation(function))
                undo.append(partial(setattr, module, name, function))
    try:
        yield OBSERVER
    finally:
        for one in undo:
            one()


def read_rotation(matrix: torch.Tensor) -> dict[str, Any]:
    """Return the pairs, angles and factor of a rotation by position 1, and clockwise where it is so."""
    pairs: dict[tuple[int, int], int] = {}
    for row in range(matrix.shape[0]):
        features = tuple(int(one) for one in matrix[row].nonzero().flatten())
        if len(features) == 2:
            pairs.setdefault((features[0], features[1]), row)
    distances = {b - a for a, b in pairs}
    layout = "interleaved" if distances == {1} else "half" if len(distances) == 1 else "other"
    assert layout != "other", distances
    angles, factors, signs = [], set(), set()
    for (a, b), row in sorted(pairs.items()):
        cosine, sine = float(matrix[row, a]), abs(float(matrix[row, b]))
        signs.add(float(matrix[row, b]) > 0)  # the paper's has minus the sine there
        angles.append(math.atan2(sine, cosine))
        factors.add(round(math.hypot(sine, cosine), 5))
    assert len(factors) == len(signs) == 1, (factors, signs)
    turns = {"clockwise": True} if signs.pop() else {}
    return turns | {
        "rotated": 2 * len(pairs),
        "layout": layout,
        "attention_factor": factors.pop(),
        "frequencies": angles,
    }


def sampled(values: list[float]) -> list[float]:
    """Return the first, second, middle, last but one and last of a list."""
    return [values[index] for index in (0, 1, len(values) // 2, -2, -1)]


def text_config(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the text model, with the model_type of the class that reads it."""
    config = entry["config"]
    config = dict(config.get("text_config", config))
    return config | {"model_type": entry.get("read_as", {}).get("model_type", config["model_type"])}


def read(config: dict[str, Any]) -> Any:
    """Return the config object of transformers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    copied = json.loads(json.dumps(config))
    if "attn_config" in copied and copied["attn_config"].get("clip_qkv"):
        copied["attn_config"]["clip_qkv"] = float(copied["attn_config"]["clip_qkv"])
    return CONFIG_MAPPING[config["model_type"]].from_dict(copied)


def pass_on(*given: Any, **named: Any) -> Any:
    """Stand in for a part of a layer that bears on no position: return what it is given."""
    return given[0] if given else named["hidden_states"]


def pass_on_with_none(*given: Any, **named: Any) -> Any:
    return pass_on(*given, **named), None


@contextlib.contextmanager
def without_initial_values() -> Iterator[None]:
    """Build models without drawing their weights, which nothing here looks at."""
    from transformers import PreTrainedModel

    with pytest.MonkeyPatch.context() as patch:
        for layer in (torch.nn.Linear, torch.nn.Embedding, torch.nn.LayerNorm, torch.nn.Conv1d):
            patch.setattr(layer, "reset_parameters", lambda self: None)
        patch.setattr(PreTrainedModel, "init_weights", lambda self: None)
        yield


def model_class(config_class: type) -> Any:
    """Return the class of a model whose config is of this class and that no automatic class knows."""
    from transformers import PreTrainedModel

    module = importlib.import_module(config_class.__module__.replace("configuration_", "modeling_"))
    return next(
        part
        for name, part in vars(module).items()
        if name.endswith(("Model", "TextEncoder")) and not name.endswith("PreTrainedModel")
        and isinstance(part, type) and issubclass(part, PreTrainedModel)
        and part.config_class is config_class
    )  # fmt: skip


def build(config: dict[str, Any], window: int | None = None) -> tuple[torch.nn.Module, Any]:
    """Build a model with small feed-forward parts; return it and its list of layers."""
    from transformers import AttentionInterface, AutoModel
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register("observed", stand_in)
    AttentionMaskInterface.register("observed", eager_mask)
    made = read(config)
    # Layers of these classes hold several attentions, or run several times.
    depth = getattr(made, "num_layers_per_stack", made.num_hidden_layers)
    depth = made.num_layers if made.model_type == "longcat_flash" else depth
    made.pad_token_id = 0
    made.use_cache = True
    made.allow_global_per_layer_attribute_access = True
    if made.model_type in UNIFORM:
        made.num_hidden_layers = depth = min(depth, SHALLOW)
    elif made.model_type not in NARROW:
        if hasattr(made, "num_attention_heads") and getattr(made, "head_dim", None) is None:
            made.head_dim = made.hidden_size // made.num_attention_heads
        made.hidden_size = 64
    if hasattr(made, "compress_rates"):  # all heads share a key
        made.num_attention_heads = made.o_groups
    for name, value in SMALL.items():
        if (old := getattr(made, name, None)) is not None:
            setattr(made, name, [value] * depth if isinstance(old, list) else value)
    for name in WINDOWS:
        if window is not None and getattr(made, name, None):
            setattr(made, name, window)
    made._attn_implementation = "eager" if made.model_type in OWN_ATTENTION else "observed"
    with torch.no_grad(), without_initial_values():
        if type(made) in AutoModel._model_mapping:
            model = AutoModel.from_config(made, dtype=torch.float32).eval()
        else:  # a text model of several
            model = model_class(type(made))._from_config(made, dtype=torch.float32).eval()
    layers = next(
        one
        for one in model.modules()
        if isinstance(one, torch.nn.ModuleList)
        and len(one) == depth
        and len(list(one[0].children())) > 1
    )
    for layer in layers:
        for name, child in layer.named_modules():
            word = type(child).__name__
            if (name.split(".")[-1] in FEED_FORWARD or STATE.search(word)) and "Norm" not in word:
                child.forward = pass_on_with_none if TWO_RESULTS.search(word) else pass_on
    return model, layers


def run(model: torch.nn.Module, layers: Any, positions: list[int]) -> tuple[Observer, Any]:
    """Run a model on tokens at these positions; return what was observed, and the cache."""
    from transformers import DynamicCache

    named: dict[str, Any] = {"input_ids": torch.ones(1, len(positions), dtype=torch.long)}
    if "position_ids" in inspect.signature(model.forward).parameters:
        named["position_ids"] = torch.tensor([positions])
    if type(model).__name__ in ("Granite4VisionTextModel", "RecurrentGemmaModel"):  # make none
        named["past_key_values"] = DynamicCache()
    with observed(model, layers) as seen, torch.no_grad():
        result = model(**named)
    return seen, getattr(result, "past_key_values", named.get("past_key_values"))


def numbers_cached(seen: Observer, layers: Any, cache: Any) -> list[int | None]:
    """Return the numbers that each layer's cache holds for a token; None where they cannot be told."""
    found: list[int | None] = []
    for index, layer in enumerate(layers):
        if compresses(layer):  # see cached_numbers_by_layer
            found.append(None)
        elif cache is None or index >= len(cache.layers):
            found.append(0)
        else:
            keys, values = (getattr(cache.layers[index], one, None) for one in ("keys", "values"))
            both = [
                one for one in (keys, values) if isinstance(one, torch.Tensor) and one.dim() == 4
            ]
            indexer = getattr(cache.layers[index], "indexer_keys", None)  # also cached
            indexer = getattr(cache.layers[index], "idx_keys", indexer)  # of MiniMax M3
            width = 0 if indexer is None else indexer.shape[-1]
            is_shared = index in seen.keys and seen.keys[index][0] is seen.keys[index][1]
            both = both[:1] if is_shared else both  # one vector is key and value
            found.append(sum(one.shape[1] * one.shape[3] for one in both) + width)
    return found


def compresses(layer: torch.nn.Module) -> bool:
    """Return whether a layer caches several tokens as one."""
    return any("compressor" in name for name, _ in layer.named_modules())


def cached_numbers_by_layer(model: Any, layers: Any, length: int) -> dict[int, int]:
    """Return how many numbers each layer has cached when the last of `length` tokens attends."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    text = torch.ones(1, length, dtype=torch.long)
    with observed(model, layers) as seen, torch.no_grad():
        seen.rotations = dict.fromkeys(range(len(layers)), torch.empty(0))  # not asked for here
        for part in (text[:, :-1], text[:, -1:]):
            model(input_ids=part, past_key_values=cache)
    held = {}
    for index, (key, value) in seen.keys.items():
        tensors = [key] if key is value else [key, value]
        for name, states in vars(cache.layers[index]).items():
            if isinstance(states, dict):
                # Entries of the compressor are among the keys.
                tensors += [states[of] for of in states if (name, of) != ENTRIES]
        held[index] = sum(one.numel() for one in tensors if isinstance(one, torch.Tensor))
    return held


def seen_keys(mask: torch.Tensor | None) -> tuple[str, int | None]:
    """Return what a mask is of: full attention, a window or chunks; and the keys seen beyond WINDOW."""
    if mask is None:
        return "full", None
    visible = [int((~(row < -1e9)).sum()) for row in mask[0, 0]]
    if visible in ([one + 1 for one in range(TEXT)], [TEXT] * TEXT):
        return "full", None
    if visible == [one % WINDOW + 1 for one in range(TEXT)]:
        return "chunk", 0
    assert max(visible) < TEXT, visible
    return "window", max(visible) - WINDOW


def establish(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what the layers of a model do: what its entry states with a source, or what is observed."""
    if "stated" in entry:
        return dict(entry["stated"])
    config = text_config(entry)
    published = read(config)
    model, layers = build(config, WINDOW)
    near, cache = run(model, layers, [1, LENGTHS[0] - 1])
    fixed = published.model_type in (
        "gptj",
        "codegen",
    )  # its angles stand in a table of n_positions rows
    far = near if fixed else run(model, layers, [1, LENGTHS[1] - 1])[0]
    cached = numbers_cached(near, layers, cache)
    masked, _ = run(model, layers, list(range(TEXT)))
    held: dict[int, dict[int, int]] = {}
    if any(map(compresses, layers)):  # with the real window
        whole = build(config)
        held = {length: cached_numbers_by_layer(*whole, length) for length in HELD}
    own = published.model_type in OWN_ATTENTION
    kinds: dict[str, dict[str, Any]] = {}
    wider: Observer | None = None
    for index in range(published.num_hidden_layers):
        place = index % len(layers)  # of a uniform class only some layers were built
        attends = own or place in near.masks
        sparse = any(
            "indexer" in name or getattr(part, "skip_topk", False)
            for name, part in layers[place].named_modules()
        )
        kind: dict[str, Any] = {"attention": "state", "window": None}
        if attends:
            mask, grouped = masked.masks.get(place), compresses(layers[place])
            name, beyond = seen_keys(mask if mask is None else mask[..., :TEXT])
            slope = 1
            if beyond is not None and beyond > 1:  # such as a window that counts one side
                wider = wider or run(*build(config, WINDOW + 1), list(range(TEXT)))[0]
                slope = (seen_keys(wider.masks[place])[1] or 0) - beyond
            order = ("attention_chunk_size",) if name == "chunk" else _window_keys(published)
            size = next(
                (getattr(published, one) for one in order if getattr(published, one, None)), 0
            )
            kind = {
                "attention": "compressed" if grouped else "sparse" if sparse else name,
                "window": None if beyond is None else WINDOW + beyond + slope * (size - WINDOW),
            }
            if grouped and mask is not None:
                visible = (mask[0, 0, :, TEXT:] == 0).sum(dim=-1)
                kind["entries seen"] = visible.tolist()
                kind["held"] = {str(length): held[length][place] for length in HELD}
        kind["cached"] = cached[place]
        kind |= near.sizes.get(place, own_scale(layers[place]))
        kind.pop(BEFORE.get(published.model_type, ""), None)
        if place in near.rotations:
            rotation, other = (read_rotation(one.rotations[place]) for one in (near, far))
            kind["position"] = "rope"
            kind |= rotation | {
                "frequencies": {
                    str(length): sampled(one["frequencies"])
                    for length, one in zip(LENGTHS, (rotation, other), strict=True)
                }
            }
            kind |= named_block(published, index)
        else:
            kind["position"] = position_without_rotation(published) if attends else "none"
        kind |= entry.get("differs", {}).get("fields", {})
        for field in entry.get("left_out", {}).get("fields", ()):
            kind.pop(field, None)
        key = json.dumps(kind, sort_keys=True)
        kinds.setdefault(key, kind | {"layers": []})["layers"].append(index)
    return {
        "from": f"transformers {version()}, {type(published).__name__}",
        "layers": published.num_hidden_layers,
        "kinds": list(kinds.values()),
    }


def own_scale(layer: torch.nn.Module) -> dict[str, float]:
    """Return the softmax scale of a layer that computes attention itself, where it names one."""
    named = [getattr(part, "inv_norm_factor", None) for part in layer.modules()]
    return next(({"scale": float(scale)} for scale in named if scale is not None), {})


def _window_keys(published: Any) -> tuple[str, ...]:
    # The class of ModernBERT's decoder halves local_attention itself.
    halved = published.model_type == "modernbert-decoder"
    return WINDOWS if halved else ("local_attention", *WINDOWS)


def named_block(published: Any, index: int) -> dict[str, Any]:
    """Return the base and the type of scaling that transformers uses for a layer."""
    block = getattr(published, "rope_parameters", None)
    if block is None:
        return {"base": 10_000.0, "scaling": "default"}  # written in the modelling code of GPT-J
    words = getattr(published, "layer_types", None)
    if words and words[index] in block:
        block = block[words[index]]
    elif words and "compress" in block:  # of DeepSeek V4
        block = block["main" if words[index] == "sliding_attention" else "compress"]
    if block.get("alpha"):  # HunYuan's own type: a larger base
        power = published.head_dim / (published.head_dim - 2)
        name = "mrope" if "mrope_section" in block else "default"
        return {"base": block["rope_theta"] * block["alpha"] ** power, "scaling": name}
    if bases := getattr(published, "layer_rope_theta", None):  # of Granite
        block = block | {"rope_theta": bases[index]}
    name = "mrope" if "mrope_section" in block else block.get("rope_type", "default")
    return {"base": float(block["rope_theta"]), "scaling": name}


def position_without_rotation(published: Any) -> str:
    """Return what encodes position in a class whose attention rotates nothing."""
    alibi = published.model_type in ("bloom", "mpt") or getattr(published, "alibi", False)
    return "alibi" if alibi else "none"


def version() -> str:
    import transformers

    return str(transformers.__version__)


def published() -> dict[str, dict[str, Any]]:
    """Return the published models, by their names."""
    files = (path for path in sorted(HERE.glob("*.json")) if path != TRUTH)
    return {path.stem: json.loads(path.read_text()) for path in files}


def write(names: list[str]) -> None:
    """Establish what these models do, or all of them, and write it to truth.json."""
    torch.set_num_threads(1)
    truth = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    models = published()
    for name in names or models:
        truth[name] = establish(models[name])
        rows = [
            f"{json.dumps(one)}: {json.dumps(truth[one])}" for one in sorted(truth) if one in models
        ]
        TRUTH.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    write(sys.argv[1:])
