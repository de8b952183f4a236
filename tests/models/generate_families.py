"""Write posenc/models/families.json, vision.json and causal_types.json, from the installed transformers.

families.json has defaults of its classes that fit RopeFamily: sizes and bases come from the fields of the
class; layout, windows and layers without RoPE are those that `establish` observes. vision.json has those of
encoders of images. causal_types.json has every causal model type: read, or why not.
`python -m tests.models.generate_families` writes all, with the word `types` or `vision` that file alone.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.families import GENERATED
from tests.models.published_models.establish import establish, read

CAUSAL_TYPES = Path(__file__).with_name("causal_types.json")
HANDMADE = json.loads(Path(__file__).with_name("stated_families.json").read_text())
# What no field of a class says: which layers rotate, other names of keys, states, notes.
STATED: dict[str, dict[str, Any]] = HANDMADE["stated"]
# What a class needs to run: its defaults do not work, or name one kind of layer alone.
RUN_WITH: dict[str, dict[str, Any]] = HANDMADE["run with"]
# Attention of these classes reads a head_dim, though their configuration classes have no such field.
READS_HEAD_DIM: list[str] = HANDMADE["reads head_dim"]
PLAIN: list[str] = HANDMADE["plain"]
VISION: dict[str, dict[str, Any]] = HANDMADE["vision"]
SIZES = {
    "hidden_size": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "context": "max_position_embeddings",
}  # fmt: skip


def family(model_type: str) -> dict[str, Any]:
    """Return what RopeFamily takes for a model type."""
    import transformers

    config_class = transformers.CONFIG_MAPPING[model_type]
    built = config_class()
    whole = json.loads(json.dumps(built.to_dict()))
    fields = {field.name: field.default for field in dataclasses.fields(config_class)}
    stated = STATED.get(model_type, {})
    runs = "layout" not in stated
    kinds = establish({"config": default_config(model_type)})["kinds"] if runs else []
    layouts = {kind["layout"] for kind in kinds if "layout" in kind}
    record: dict[str, Any] = {"config_class": config_class.__name__}
    record |= {"layout": layouts.pop()} if layouts else {}
    record |= {"clockwise": True} if any("clockwise" in kind for kind in kinds) else {}
    other = config_class.attribute_map
    record |= {name: fields.get(key, fields.get(other.get(key, ""))) for name, key in SIZES.items()}
    record |= {
        "kv_heads_key": "num_key_value_heads" in fields,
        "head_dim_key": "head_dim" in fields or model_type in READS_HEAD_DIM,
    }
    block = dict(getattr(built, "rope_parameters", None) or {})
    by_kind = {kind: inner for kind, inner in block.items() if isinstance(inner, dict)}
    record["base"] = block.pop("rope_theta", 10_000.0)
    if by_kind:
        record["base"] = {kind: inner["rope_theta"] for kind, inner in by_kind.items()}
        record["block"] = by_kind
    elif "partial_rotary_factor" in block:
        record["share"] = block.pop("partial_rotary_factor")
    if not by_kind and block.get("rope_type", "default") != "default":
        record["block"] = {key: value for key, value in block.items() if key != "type"}
    if "kv_lora_rank" in fields:
        record |= {"latent": True, "head_dim": None, "head_dim_key": True, "share": None}
        record["unrotated"] = fields["qk_nope_head_dim"]
    elif record["head_dim"] is None and whole.get("head_dim"):
        implied = whole["hidden_size"] // whole["num_attention_heads"]
        record["head_dim"] = None if whole["head_dim"] == implied else whole["head_dim"]
    types = whole.get("layer_types")
    if types and "sliding_attention" in types:
        full = types.index("full_attention") if "full_attention" in types else 0
        again = types.index("full_attention", full + 1) if "full_attention" in types else 0
        record |= {
            "windows": "pattern",
            "window": fields.get("sliding_window"),
            "period": again - full,
        }
        record["full_at"] = 0 if full == 0 else -1
    scale = fields.get(str(stated.get("scale_key")), 1.0)
    record |= {} if scale == 1.0 else {"scale_default": scale}
    if rates := whole.get("compress_rates"):
        record["compressed"] = rates
    if model_type == "llama4_text":
        record["window"] = whole["attention_chunk_size"]
    return with_outer_keys(model_type, record | stated)


# Keys of base and rotated share outside of a rope block, in any class.
BASES = (
    "rotary_emb_base", "rope_theta", "global_rope_theta", "local_rope_theta", "rope_local_base_freq",
    "swa_rope_theta", "compress_rope_theta",
)  # fmt: skip
SHARES = ("rotary_pct", "partial_rotary_factor")


def with_outer_keys(model_type: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with what the class takes from outside of rope blocks, and beside them."""
    words: dict[str, str] = {"": ""}  # by kind of layer
    if isinstance(record["base"], dict):
        word = record.get("full_word", "")
        other = {"full_attention": word, "sliding_attention": f"{word}_sliding"}
        words = {kind: str(other[kind]) if word else kind for kind in record["base"]}
    needed = RUN_WITH.get(model_type, {})
    needs = {k: v for k, v in needed.items() if k not in (*BASES, "rope_parameters")}

    def blocks(keys: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the rope blocks that the class makes of these keys, by kind; {} where it fails."""
        try:
            block = read({"model_type": model_type} | needs | keys).rope_parameters or {}
        except Exception:
            block = {}
        own = {kind: block.get(word) if word else block for kind, word in words.items()}
        return {kind: value if isinstance(value, dict) else {} for kind, value in own.items()}

    default = blocks({})
    filled = (
        default
        if any(default.values())
        else blocks({"rope_parameters": needed.get("rope_parameters")})
    )
    plain = {
        kind: {k: v for k, v in block.items() if k not in ("rope_theta", *SHARES)}
        for kind, block in filled.items()
    }
    blocks_given = {words[kind]: block for kind, block in plain.items()}
    given = {"rope_parameters": blocks_given.get("", blocks_given)}

    def names(
        kind: str, known: tuple[str, ...], key: str, value: float, keys: dict[str, Any]
    ) -> list[str]:
        return [name for name in known if blocks(keys | {name: value})[kind].get(key) == value]

    bases, share_names, type_alone = {}, [], True
    first = next(iter(plain.values()))
    scaled = blocks({"rope_scaling": {"rope_type": "default"} | first | {"factor": 3.5}})
    typed = blocks({"rope_scaling": {"type": "yarn", "factor": 3.5}})
    for kind in words:
        base = default[kind].get("rope_theta")
        own: dict[str, Any] = {"default": base}
        own["names"] = names(kind, BASES, "rope_theta", 777.0, {})
        own["bare"] = blocks(given)[kind].get("rope_theta")
        own["bare_names"] = names(kind, BASES, "rope_theta", 777.0, given)
        own["scaled"] = scaled[kind].get("factor") == 3.5
        others = {w: plain[k] | {"rope_theta": 777.0} for k, w in words.items() if k != kind}
        beside = blocks({"rope_parameters": others})
        kept = all(beside[k].get("rope_theta") == 777.0 for k in words if k != kind)
        own["fills"] = "" in words or (kept and beside[kind].get("rope_theta") == base is not None)
        usual = {"names": ["rope_theta"], "bare": base, "scaled": True, "fills": True}
        usual["bare_names"] = own["names"]
        bases[kind] = {
            key: value for key, value in own.items() if key == "default" or value != usual[key]
        }
        share_names += names(kind, SHARES, "partial_rotary_factor", 0.125, given)
        type_alone &= not own["scaled"] or typed[kind].get("rope_type") != "default"
    if record.get("rotates") == "never":
        return record
    if not any(default.values()):  # the base is in the code of the class
        bases = (
            {"": {"default": record["base"], "names": [], "bare": None, "scaled": False}}
            if "" in words
            else bases
        )
    if [*bases.values()] != [{"default": record["base"]}]:
        record["base"] = bases
    shares = [name for name in SHARES if name in share_names]
    record |= {} if "share_names" in record or shares == [*SHARES[1:]] else {"share_names": shares}
    return record | ({} if type_alone else {"type_alone": False})


def vision_family(model_type: str) -> dict[str, Any]:
    """Return what VisionFamily takes for a model type, and the key of its width."""
    import transformers

    config_class = transformers.CONFIG_MAPPING[model_type]
    values = {field.name: field.default for field in dataclasses.fields(config_class)}
    width_key = VISION[model_type].get("width_key", "hidden_size")
    block = getattr(config_class(), "rope_parameters", values)
    record = {
        "config_class": config_class.__name__,
        "width_key": width_key,
        "hidden_size": values[width_key],
        "layers": values.get("depth", values.get("num_hidden_layers")),
        "heads": values.get("num_heads", values.get("num_attention_heads")),
        "base": block["rope_theta"],
        "patch": values["patch_size"],
        "image": values.get("image_size", 0),
        "window": values.get("window_size", 0),
        "full": values.get("fullatt_block_indexes", ()),
        "kv_heads": values.get("num_key_value_heads"),
        "kv_heads_key": "num_key_value_heads" in values,
    }
    return {name: value for name, value in record.items() if value} | VISION[model_type]


def causal_types() -> tuple[str, ...]:
    """Return the model types that transformers can generate text with."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def default_config(model_type: str) -> dict[str, Any]:
    """Return the config that a class makes of its defaults, of the text model where it is nested."""
    import transformers

    built = transformers.CONFIG_MAPPING[model_type](**RUN_WITH.get(model_type, {}))
    text = built.get_text_config(decoder=True)
    return json.loads(json.dumps(text.to_dict(), default=str)) | {"model_type": text.model_type}


def outcome(model_type: str) -> str:
    """Return whether such a config is read, or why not."""
    try:
        read_config(default_config(model_type))
    except ConfigFileError as error:
        return error.problem
    return "read"


def write(path: Path, record: dict[str, Any]) -> None:
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in record.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    if not {"types", "vision"} & {*sys.argv}:
        write(
            GENERATED, {name: family(name) for name in sorted({*PLAIN, *READS_HEAD_DIM, *STATED})}
        )
    if "types" not in sys.argv:
        write(GENERATED.with_name("vision.json"), {name: vision_family(name) for name in VISION})
    if "vision" not in sys.argv:
        write(CAUSAL_TYPES, {name: outcome(name) for name in causal_types()})
