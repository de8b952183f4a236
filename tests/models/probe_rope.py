"""What a class of transformers takes from outside of its rope blocks, found by trying values."""

import copy
from typing import Any

from tests.models.published_models.establish import read

# Keys of base and rotated share outside of a rope block, in any class.
BASES = (
    "rotary_emb_base", "rope_theta", "global_rope_theta", "local_rope_theta", "rope_local_base_freq",
    "swa_rope_theta", "compress_rope_theta",
)  # fmt: skip
SHARES = ("rotary_pct", "partial_rotary_factor")
VALUE = 777.0  # a base that no class has


def outer_keys(model_type: str, needs: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a row on bases and shares outside of rope blocks.

    needs: keys without which the class cannot be made. default: the block of its defaults, or the
    blocks by kind of layer; empty where the base is in the code of the class.
    """
    by_kind = {kind: block for kind, block in default.items() if isinstance(block, dict)}
    kinds = [*by_kind] or [""]
    needs = {key: value for key, value in needs.items() if key not in (*BASES, "rope_parameters")}

    def blocks(keys: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the rope blocks that the class makes of these keys, by kind; {} where it fails."""
        try:
            block = read(copy.deepcopy({"model_type": model_type} | needs | keys)).rope_parameters
        except Exception:  # of many kinds
            block = {}
        own = {kind: (block or {}).get(kind) if kind else block for kind in kinds}
        return {kind: value if isinstance(value, dict) else {} for kind, value in own.items()}

    plain = {
        kind: {key: value for key, value in block.items() if key not in ("rope_theta", *SHARES)}
        for kind, block in (by_kind or {"": default}).items()
    }
    given = {"rope_parameters": plain.get("", plain)}
    of_defaults = blocks({})

    def names(kind: str, known: tuple[str, ...], key: str, value: float, keys: Any) -> list[str]:
        return [name for name in known if blocks(keys | {name: value})[kind].get(key) == value]

    bases, shares, type_alone = {}, [], True
    first = next(iter(plain.values()))
    scaled = blocks({"rope_scaling": {"rope_type": "default"} | first | {"factor": 3.5}})
    typed = blocks({"rope_scaling": {"type": "yarn", "factor": 3.5}})
    for kind in kinds:
        base = of_defaults[kind].get("rope_theta")
        others = {other: plain[other] | {"rope_theta": VALUE} for other in kinds if other != kind}
        beside = blocks({"rope_parameters": others})
        is_kept = all(beside[other].get("rope_theta") == VALUE for other in others)
        own = {
            "default": base,
            "names": names(kind, BASES, "rope_theta", VALUE, {}),
            "block_default": blocks(given)[kind].get("rope_theta"),
            "block_names": names(kind, BASES, "rope_theta", VALUE, given),
            "takes_scaling": scaled[kind].get("factor") == 3.5,
            "may_be_absent": not kind
            or (is_kept and beside[kind].get("rope_theta") == base is not None),
        }
        usual = {
            "names": ["rope_theta"], "block_default": base, "block_names": own["names"],
            "takes_scaling": True, "may_be_absent": True,
        }  # fmt: skip
        bases[kind] = {
            key: value for key, value in own.items() if key == "default" or value != usual[key]
        }
        shares += names(kind, SHARES, "partial_rotary_factor", 0.125, given)
        type_alone &= not own["takes_scaling"] or typed[kind].get("rope_type") != "default"
    if not any(of_defaults.values()) and not by_kind:
        bases = {
            "": {"default": 10_000.0, "names": [], "block_default": None, "takes_scaling": False}
        }
    known = [name for name in SHARES if name in shares]
    return {
        **_base(bases),
        **({} if known == [SHARES[1]] else {"share_names": known}),
        **({} if type_alone else {"type_alone": False}),
    }


def _base(bases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the base, or the bases by kind of layer where a kind has more than a default."""
    if [*bases] == [""] and [*bases[""]] == ["default"]:
        return {"base": bases[""]["default"]}
    return {"bases": bases}
