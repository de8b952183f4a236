"""The sizes of a model's attention, checked against one another."""

from dataclasses import dataclass

from posenc import fields, limits
from posenc.errors import shown
from posenc.interop.models.families import SIZES, RopeFamily
from posenc.interop.models.keys import Keys

HEAD_LIMIT = fields.Whole(low=1, high=limits.MAX_HEADS, label="")
WIDTH_LIMIT = fields.Whole(low=1, high=limits.MAX_MODEL_WIDTH, label="")
LAYER_LIMIT = fields.Whole(low=1, high=limits.MAX_MODEL_LAYERS, label="")
LENGTH_LIMIT = fields.Whole(low=2, high=limits.MAX_POSITION, label="")
EVEN_WIDTH_LIMIT = fields.Whole(low=2, high=limits.MAX_DIM, multiple_of=2, label="")
HEAD_WIDTH_LIMIT = fields.Whole(low=2, high=limits.MAX_DIM, label="")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Width of a token, number of layers and heads, width of a head, length the config speaks of.

    context: the key that says it, and its value.
    """

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: tuple[str, int]


def read_sizes(keys: Keys, family: RopeFamily | None) -> Sizes:
    """Return the sizes of a model with RoPE; without a family, which keys are absent is an error."""
    why = family.source if family else ""
    hidden = keys.whole(
        SIZES["hidden_size"], family.hidden_size if family else None, why, WIDTH_LIMIT
    )
    layers = keys.whole(SIZES["layers"], family.layers if family else None, why, LAYER_LIMIT)
    heads = keys.whole(SIZES["heads"], family.heads if family else None, why, HEAD_LIMIT)
    found = keys.find(SIZES["context"])
    context = keys.whole(SIZES["context"], family.context if family else None, why, LENGTH_LIMIT)
    kv_heads = _kv_heads(keys, family, heads, why)
    named = family is None or family.head_dim_key
    default = family.head_dim if family else None
    if named and (default is not None or keys.find("head_dim") is not None):
        head_dim = keys.whole("head_dim", default, why, HEAD_WIDTH_LIMIT)
    else:
        head_dim = divided_width(keys, SIZES["hidden_size"], hidden, SIZES["heads"], heads)
        written = keys.find("head_dim")
        if written is not None and written[1] != head_dim:
            raise keys.error(
                "head_dim",
                f"must be {head_dim}, which is hidden size / heads, or absent: this class has no such "
                f"key, got {shown(written[1])}",
            )
    if keys.record.get("kv_channels") == head_dim:
        keys.find("kv_channels")  # the head width, as Megatron and NVIDIA's Nemotron call it
    return Sizes(
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=(keys.named(found[0] if found else SIZES["context"][0]), context),
    )


def divided_width(
    keys: Keys, width_names: tuple[str, ...], width: int, head_names: tuple[str, ...], heads: int
) -> int:
    """Return width / heads, the head width where no key says it; raise where it is no whole number."""
    named = [(keys.find(names) or (names[0],))[0] for names in (width_names, head_names)]
    if width % heads or not 2 <= width // heads <= limits.MAX_DIM:
        raise keys.error(
            named[1],
            f"must divide {named[0]} {width:,} into heads of 2 to {limits.MAX_DIM:,}, got {heads:,}",
        )
    return width // heads


def _kv_heads(keys: Keys, family: RopeFamily | None, heads: int, why: str) -> int:
    if family is not None and family.config_class == "FalconConfig":
        return falcon_kv_heads(keys, heads)
    if family is not None and not family.kv_heads_key:
        return heads
    names = SIZES["kv_heads"]
    found = keys.find(names)
    if found is None:
        # null has always meant one per query head; only an absent key stands for the class's default.
        default = family.kv_heads if family and names[0] not in keys.record else None
        if default is None:
            return heads
        keys.assume(f"{keys.named(names[0])} is absent: {default} is taken, {why}.")
        kv_heads, name = default, names[0]
    else:
        kv_heads, name = keys.whole(names, None, "", HEAD_LIMIT), found[0]
    check_groups(keys, name, kv_heads, heads)
    return kv_heads


def check_groups(keys: Keys, name: str, kv_heads: int, heads: int) -> None:
    """Raise ConfigFileError unless the heads of keys are shared out evenly among the query heads."""
    if kv_heads > heads or heads % kv_heads:
        raise keys.error(name, f"must divide the {heads:,} query heads, got {kv_heads:,}")


def falcon_kv_heads(keys: Keys, heads: int) -> int:
    """Return Falcon's heads of keys: as told in its new design, one of multi_query, else one each."""
    names = ("num_kv_heads", "n_head_kv")
    told = keys.find(names)
    keys.find("multi_query")  # means nothing in the new design
    if keys.flag("new_decoder_architecture", False, ""):
        if told is None:
            return heads
        kv_heads = keys.whole(names, None, "", HEAD_LIMIT)
        check_groups(keys, told[0], kv_heads, heads)
        return kv_heads
    return (
        1 if keys.flag("multi_query", True, "the default of transformers' FalconConfig") else heads
    )
