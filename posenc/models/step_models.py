"""Step 3.5, whose config lists by layer what other configs say once for each kind of layer."""

from typing import Any

from posenc import fields, limits
from posenc.models.config_json import Keys
from posenc.models.families import FULL, SLIDING, RopeFamily, family_of
from posenc.models.layers import HEAD_LIMIT, HEAD_WIDTH_LIMIT, LAYER_LIMIT, MAX_LAYERS
from posenc.models.model_config import ModelConfig
from posenc.models.rope_models import read_rope_model

_SHARE = fields.FloatRange(low=0.0, high=1.0, closed=False)
_FURTHER = fields.IntRange(low=0, high=MAX_LAYERS)
_KIND = fields.Choice(options=(FULL, SLIDING))
_SCALE = fields.FloatRange(low=0.0, high=1e6, closed=False)
# Keys that are put in the words of other configs here.
_OWN = (
    "layer_types", "rope_theta", "partial_rotary_factors", "rope_scaling", "num_attention_groups",
    "num_sliding_attention_heads", "attention_other_setting", "per_layer_config",
)  # fmt: skip
# What the class does in any case.
_FIXED = {"yarn_only_types": [FULL], "use_rope_layers": []}


def read_step(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a Step 3.5 config says, of the text model."""
    family = family_of(model_type)
    layers = keys.get(family.names.layers, LAYER_LIMIT, family.layers, family.source)
    further = keys.get("num_nextn_predict_layers", _FURTHER, 0)  # which the lists may go on with
    kinds = _by_layer(keys, "layer_types", layers, further, _KIND) or (FULL,) * layers
    record = {name: value for name, value in keys.record.items() if name not in _OWN}
    if keys.section("rope_parameters") is None:
        record["rope_parameters"] = _blocks(keys, kinds, further)
    elif not all(isinstance(record["rope_parameters"].get(kind), dict) for kind in kinds):
        raise keys.error("rope_parameters", "must have an entry for each kind of layer")
    names = ("num_key_value_heads", "num_attention_groups")
    kv_heads = keys.get(names, HEAD_LIMIT, family.kv_heads, family.source)
    head_dim = keys.get("head_dim", HEAD_WIDTH_LIMIT, family.head_dim, family.source)
    record |= {
        "layer_types": list(kinds),
        "num_key_value_heads": kv_heads,
        "num_attention_heads_per_layer": _heads(keys, family, kinds, kv_heads, head_dim),
        "query_pre_attn_scalar": keys.get("query_pre_attn_scalar", _SCALE, float(head_dim)),
    }
    keys.read.update(name for name, value in _FIXED.items() if keys.record.get(name) == value)
    inner = Keys(record, keys.path, keys)
    model = read_rope_model(model_type, inner)
    for name, part in inner.sections.items():
        if name in keys.sections:
            keys.sections[name] = part
        elif unread := part.unread():
            raise keys.error("rope_scaling", f"has a key that is not read: {unread[0]}")
    keys.read |= inner.read
    return model


def _by_layer(
    keys: Keys, name: str, layers: int, further: int, rule: fields.Rule
) -> tuple[Any, ...] | None:
    """Return a value for each layer, without those of further layers, or None."""
    entry = keys.find(name)
    if entry is None:
        return None
    is_longer = isinstance(entry[1], list) and len(entry[1]) == layers + further
    count = layers + further * is_longer
    return keys.entries(name, count, rule, "entries, one per layer")[:layers]


def _blocks(keys: Keys, kinds: tuple[str, ...], further: int) -> dict[str, dict[str, Any]]:
    """Return a rope block for each kind of layer."""
    layers = len(kinds)
    values: dict[str, tuple[Any, ...] | None] = {
        "partial_rotary_factor": _by_layer(keys, "partial_rotary_factors", layers, further, _SHARE)
    }
    if isinstance(keys.record.get("rope_theta"), list):
        values["rope_theta"] = _by_layer(keys, "rope_theta", layers, further, limits.BASE)
    else:
        values["rope_theta"] = (keys.get("rope_theta", limits.BASE, 1e4),) * layers
    blocks: dict[str, dict[str, Any]] = {kind: {"rope_type": "default"} for kind in kinds}
    for name, listed in values.items():
        for kind, value in zip(kinds, listed or (), strict=listed is not None):
            if blocks[kind].setdefault(name, value) != value:
                raise keys.error(
                    "rope_theta" if name == "rope_theta" else "partial_rotary_factors",
                    f"must give all {kind} layers one number",
                )
    scaling = keys.section("rope_scaling")
    if scaling is not None:
        scaling.read.update(scaling.record)
        if FULL in blocks:  # the class scales no other layers
            blocks[FULL] |= scaling.record
    return blocks


def _heads(
    keys: Keys, family: RopeFamily, kinds: tuple[str, ...], kv_heads: int, head_dim: int
) -> list[int]:
    """Return the query heads of each layer."""
    heads: int = keys.get(family.names.heads, HEAD_LIMIT, family.heads, family.source)
    windowed = keys.optional("num_sliding_attention_heads", HEAD_LIMIT)
    other = keys.section("attention_other_setting")
    if other is not None:
        fixed = {
            "attention_type": SLIDING, "num_attention_groups": kv_heads, "head_dim": head_dim,
            "true_head_dim": head_dim,
        }  # fmt: skip
        for name, value in fixed.items():
            if (entry := other.find(name)) is not None and entry[1] != value:
                raise other.error(name, f"must be {value}: the class has no other")
        own = other.get("num_attention_heads", HEAD_LIMIT, heads)
        windowed = own if windowed is None else windowed
    per_layer = keys.section("per_layer_config")
    if keys.record.get("per_layer_config") is None:
        return [heads if kind == FULL else windowed or heads for kind in kinds]
    sections = [per_layer.section(str(index)) if per_layer else None for index in range(len(kinds))]
    return [
        heads if section is None else section.get("num_attention_heads", HEAD_LIMIT, heads)
        for section in sections
    ]
