"""Keys that bear on position and that a class does not read.

A class declares its keys: those of its expressions and lists, and those under `also` in its row.
Another key that bears on position is refused, unless it says what the model does anyway.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.position_keys import bears_on_position
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import printable_name

_LENGTH = re.compile(r"^n_ctx$|context_len|max_seq|seq_len|seq_length|sequence_len|model_max_len")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_PATTERNS = (
    "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
    "prefix_dense_sliding_window_pattern", "global_attn_every_n_layers",
)  # fmt: skip
# False there switches off what most models do.
_ON_BY_DEFAULT = re.compile(r"^(?:use_|is_)?(?:rope|rotary|causal)|neox|interleave")


def unread_keys(
    content: Mapping[str, Any],
    read: Collection[str],
    model: ModelConfig,
    row: Mapping[str, Any],
    path: str,
) -> Iterator[str]:
    """Yield the keys of a config that bear on position, that are not read and that say something.

    read: the keys that the class reads. row: of the class. path: the key of the object.
    """
    stated = _stated(model, content, row)
    for name in content:
        if name in read or not bears_on_position(name):
            continue
        if not _says_nothing(name, content, read, stated):
            yield printable_name(f"{path}.{name}" if path else name)
    for section, keys in row.get("sections", {}).items():
        inner = content.get(section) or {}
        for name in inner:
            if name in keys or not bears_on_position(name) or _says_nothing(name, inner, keys, {}):
                continue
            key = f"{section}.{name}"
            yield printable_name(f"{path}.{key}" if path else key)


def _says_nothing(
    name: str,
    content: Mapping[str, Any],
    read: Collection[str],
    stated: Mapping[str, tuple[Any, ...]],
) -> bool:
    """Return whether a key changes nothing with the value that it has."""
    value = content[name]
    if value is None or (name in stated and _agrees(value, stated[name])):
        return True
    if name == "use_sliding_window":
        # A class that ignores this key uses its window anyway.
        has_none = "sliding_window" in content and content["sliding_window"] is None
        return value is False and (has_none or "sliding_window" not in read)
    if name in _PATTERNS and content.get("layer_types") is not None and "layer_types" in read:
        return True  # that list was made from it
    if name in ("sliding_window", "max_window_layers"):
        return content.get("use_sliding_window") is False and "sliding_window" not in read
    if "window" in name and value == -1:
        return True
    if _LENGTH.search(name):
        return any(content.get(key) is not None for key in _CONTEXT if key in read)
    if name == "cla_share_factor":
        return content.get("use_cla") is False
    if name == "use_mla":
        return value is ("kv_lora_rank" in read)
    is_number = name in ("rotary_scaling_factor", "rope_ratio", "rotary_pct")
    return value is False and not is_number and not _ON_BY_DEFAULT.search(name)


def _agrees(value: Any, stated: tuple[Any, ...]) -> bool:
    return any(value == each and type(value) is type(each) for each in stated)


def _stated(
    model: ModelConfig, content: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, tuple[Any, ...]]:
    """Return what keys of other classes would say of this model: such values change nothing."""
    main = model.main
    stated: dict[str, tuple[Any, ...]] = {
        "num_key_value_heads": (main.kv_heads,),
        "rotary_scaling_factor": (1, 1.0),
        "rope_ratio": (1, 1.0),
        "rotary_pct": (1, 1.0),
        "num_kv_shared_layers": (0,),
        "n_positions": (model.context,),
        "layer_types": tuple([word] * model.layers for word in (main.block_name, "attention")),
        "sliding_window_size": (content.get("sliding_window"),),
    }
    if "rope_dim" not in row:  # of a latent head the width is said by its two parts
        widths = ("kv_channels", "attention_head_dim", "head_dim")
        stated |= dict.fromkeys(widths, (main.head_dim,))
    if main.cache_width and main.facts.stack != "decoder":
        stated["is_causal"] = (True,)
    if isinstance(main.scheme, LearnedConfig):
        stated["position_embedding_type"] = ("absolute",)
    ropes = [kind.scheme for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    return stated | (_stated_of_rope(ropes, model.layer_kinds) if ropes else {})


def _stated_of_rope(
    ropes: list[RopeConfig], kinds: tuple[LayerKind, ...]
) -> dict[str, tuple[Any, ...]]:
    interleaved = any(rope.layout == "interleaved" for rope in ropes)
    stated: dict[str, tuple[Any, ...]] = {
        "position_embedding_type": ("rope", "rotary", *(("rope_gptj",) if interleaved else ())),
        "use_rotary_pos_emb": (True,),
        "rotary_emb_fraction": (ropes[0].partial_rotary_factor,),
    }
    stated |= dict.fromkeys(("rope_interleaved", "interleaved"), (interleaved,))
    widths = ("rotary_dim", "attn_rotary_emb", "qk_rope_head_dim")
    stated |= dict.fromkeys(widths, (ropes[0].rotary_dim,))
    if next(kind for kind in kinds if 0 in kind.layers).window is not None:
        stated["order_of_interleaved_layers"] = ("local_attn_first",)
    bases = {rope.base for rope in ropes}
    if len(bases) == 1:
        (base,) = bases
        stated |= dict.fromkeys(("rope_theta", "rotary_emb_base"), (base, int(base)))
    shares = {rope.partial_rotary_factor for rope in ropes}
    if len(shares) == 1:
        (share,) = shares
        alike = (share, int(share)) if share == 1 else (share,)
        stated |= {"partial_rotary_factor": alike, "rotary_pct": (*alike, 1, 1.0)}
    return stated
