"""Encoders of images with axial RoPE: pairs rotate by the row or by the column of a patch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from posenc import fields, limits
from posenc.frequencies import Layout
from posenc.models.config_json import Keys
from posenc.models.families import Family, SizeNames
from posenc.models.layers import MAX_LAYERS, Sizes, read_sizes
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.text import count_of

_PIXELS = fields.IntRange(low=1, high=65_536)
_GRID = 16  # columns of a grid where the picture decides
_TRAINING = ("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale")


@dataclass(frozen=True, kw_only=True)
class VisionFamily(Family):
    """A configuration class of transformers whose layers see the patches of an image.

    base: default of rope_theta. patch, image: default widths in pixels; 0 where the class has none. axes: 2
    for row and column, 3 with the frame of a video first. ladders, normalized, layout, interleaved,
    column_first: of RopeSectionsConfig. rope_type: the only one that the class takes.
    blocks: tokens stand in blocks of spatial_merge_size patches in each direction. table: the key of the
    number of learned vectors that are added or the begin of several, "image" for one of each patch, or "".
    window: default
    window_size in pixels, 0 without windows; full: default indices of the layers that see the whole image.
    note: what tokens without a place in the image do.
    """

    base: float = 10_000.0
    patch: int = 0
    image: int = 0
    axes: Literal[2, 3] = 2
    ladders: Literal["each", "dealt"] = "each"
    normalized: bool = False
    layout: Layout = "half"
    interleaved: bool = False
    column_first: bool = False
    rope_type: str = "axial"
    blocks: bool = False
    table: str = ""
    window: int = 0
    full: tuple[int, ...] = ()
    note: str = ""


def _family(*, width_key: str, **own: Any) -> VisionFamily:
    names = SizeNames(
        (width_key,), ("depth", "num_hidden_layers"), ("num_heads", "num_attention_heads"), ()
    )
    return VisionFamily(**own | {"names": names, "full": tuple(own.get("full", ()))})


_DATA = Path(__file__).with_name("vision.json")  # written from transformers' classes
VISION_FAMILIES: dict[str, VisionFamily] = {
    name: _family(**own) for name, own in json.loads(_DATA.read_text("utf-8")).items()
}


def read_vision_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what the config of an encoder of images says; nothing of it is cached."""
    family = VISION_FAMILIES[model_type]
    sizes = read_sizes(keys, family)
    if family.kv_heads_key and keys.record.get("num_key_value_heads", 0) is None:
        raise keys.error("num_key_value_heads", "must be a whole number: the class takes no null")
    patch = keys.get("patch_size", _PIXELS, family.patch, family.source)
    scheme = _scheme(keys, family, sizes, _columns(keys, family, patch))
    count, total = scheme.sizes[0], scheme.rotary_dim // 2
    first, second = ("column", "row") if family.column_first else ("row", "column")
    axes = f"by the {first} of a patch and by its {second}"
    if family.axes == 3:
        axes = "by the frame, by the row of a patch and by its column"
    axes += ", in turn" if family.interleaved else ""
    ladder = f"each axis with the frequencies base^(-j/{count})"
    if family.ladders == "dealt":
        ladder = f"which take turns at the frequencies base^(-m/{total})"
    grid = count_of(scheme.grid, "column")
    notes = [f"{count_of(count, 'pair')} each rotate {axes}, {ladder}, in a grid of {grid}."]
    if scheme.normalized:
        notes.append(
            "A row and a column count from -1 to 1 over the image, so that frequencies per patch depend on "
            "its size."
        )
        notes.append("In training, places are moved and stretched at random (pos_embed_*).")
        keys.read.update(_TRAINING)
    kinds = _kinds(keys, family, sizes, scheme, patch)
    side = keys.get("spatial_merge_size", _PIXELS, 2, family.source) if family.blocks else 1
    if any(kind.window for kind in kinds):
        stand = "patches" if side == 1 else f"blocks of {side} x {side} patches"
        notes.append(f"In attention, {stand} stand window by window, not row by row.")
    elif side > 1:
        notes.append(f"Tokens come in blocks of {side} x {side} patches, not row by row.")
    if family.table:
        keys.read.update(name for name in keys.record if name.startswith(family.table))
        notes.append("Learned vectors of the places are added to the patches, too.")
    notes += [family.note] if family.note else []
    if keys.record.get("num_key_value_groups") == 1:
        keys.read.add("num_key_value_groups")  # as many heads of keys as of queries
    return ModelConfig(
        model_type=model_type,
        hidden_size=sizes.hidden_size,
        layers=sizes.layers,
        context=None,
        trained_length=None,
        layer_kinds=kinds,
        notes=tuple(notes),
    )


def _columns(keys: Keys, family: VisionFamily, patch: int) -> int:
    """Return the columns of the grid of patches."""
    if family.image:
        if family.normalized and isinstance(keys.record.get("image_size"), list):
            height, image = keys.entries("image_size", 2, _PIXELS, "numbers, height and width")
            if height != image:
                raise keys.error(
                    "image_size", f"must be of a square, or one number, got {height:,} x {image:,}"
                )
        else:
            image = keys.get("image_size", _PIXELS, family.image, family.source)
        if image < patch:
            raise keys.error("image_size", f"must be at least patch_size {patch:,}, got {image:,}")
        return image // patch
    keys.assume(f"The image decides on the grid of patches: {_GRID} columns are taken.")
    return _GRID


def _scheme(keys: Keys, family: VisionFamily, sizes: Sizes, columns: int) -> RopeSectionsConfig:
    block = keys.section("rope_parameters") or keys
    if block is not keys:
        rule = fields.Choice(options=(family.rope_type,))
        block.get("rope_type", rule, family.rope_type)
    place = block if block.find("rope_theta") else keys
    base = place.get("rope_theta", limits.BASE, family.base, family.source)
    if family.normalized and place is not keys:  # DINOv3's class reads no such block
        base = keys.get("rope_theta", limits.BASE, family.base, family.source)
        if block.get("rope_theta", limits.BASE) != base:
            raise block.error(
                "rope_theta",
                f"must be {base:g} or absent: the class reads rope_theta outside of it",
            )
    count = sizes.head_dim // (2 * family.axes)
    if family.axes == 2 and sizes.head_dim % 4:
        raise keys.error(
            keys.name(family.names.heads),
            f"must leave heads of a width that 4 divides, got {sizes.head_dim:,}",
        )
    return RopeSectionsConfig(
        dim=sizes.head_dim,
        base=base,
        layout=family.layout,
        partial_rotary_factor=2 * family.axes * count / sizes.head_dim,
        sections=(count,) * family.axes,
        ladders=family.ladders,
        normalized=family.normalized,
        interleaved=family.interleaved,
        column_first=family.column_first,
        grid=columns,
    )


def _kinds(
    keys: Keys, family: VisionFamily, sizes: Sizes, scheme: RopeSectionsConfig, patch: int
) -> tuple[LayerKind, ...]:
    """Return the layers that see the whole image, and those that see a window of it."""
    full, side = tuple(range(sizes.layers)), 0
    if family.window:
        pixels = keys.get("window_size", _PIXELS, family.window, family.source)
        rule = fields.Numbers(low=0, high=MAX_LAYERS, least=0, most=MAX_LAYERS, whole=True)
        listed = keys.get("fullatt_block_indexes", rule, family.full, family.source)
        full = tuple(index for index in full if index in listed)  # others have no effect
        merge = keys.get("spatial_merge_size", _PIXELS, 2, family.source)
        side = pixels // merge // patch * merge
        if not side:
            raise keys.error(
                "window_size",
                f"must be at least {merge * patch:,}, the width of a block of {merge} x {merge} patches, "
                f"got {pixels:,}",
            )
    shared: dict[str, Any] = {
        "scheme": scheme,
        "heads": sizes.heads,
        "kv_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "cache_width": 0,
        "softmax_scale": sizes.head_dim**-0.5,
    }
    kinds = [LayerKind(name="all" if not side else "full_attention", layers=full, **shared)]
    if rest := tuple(sorted({*range(sizes.layers)} - {*full})):
        note = f"A patch sees its window of {side} x {side} patches."
        kinds.append(
            LayerKind(name="window_attention", layers=rest, window=side**2, notes=(note,), **shared)
        )
    return tuple(kind for kind in kinds if kind.layers)
