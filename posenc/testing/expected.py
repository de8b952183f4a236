"""The configs of which a table must match one."""

import math
from collections.abc import Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

import torch

from posenc.errors import SchemeArgumentError, quoted
from posenc.identification.columns import TableInput
from posenc.identification.comparison import TableScheme
from posenc.limits import MAX_POSITION
from posenc.models.config_json import HasToDict
from posenc.models.read_config import read_config
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig


def configs_of(
    scheme: SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str,
) -> tuple[dict[str, TableScheme], int, bool]:
    """Return the configs of which a table must match one, by kind of layer; then their context, 0 if they
    name none; then whether they are a model's.
    """
    if isinstance(scheme, str) and (scheme.endswith(".json") or isfile(scheme)):
        scheme = Path(scheme)
    if not isinstance(scheme, Mapping | HasToDict | Path | str) or (
        isinstance(scheme, str) and not scheme.lstrip().startswith("{")
    ):
        config = _with_table(scheme)
        return {"": config}, _reach(config), False
    model = read_config(scheme)
    configs: dict[str, TableScheme] = {
        name: kind.scheme
        for kind in model.layer_kinds
        for name in (kind.name, kind.block_name)
        if isinstance(kind.scheme, RopeConfig)
    }
    if not configs:
        raise SchemeArgumentError(f"No layer of this {model.model_type} model has RoPE.")
    return configs, max(model.context or 0, *map(_reach, configs.values())), True


def _reach(config: TableScheme) -> int:
    """Return the largest number of positions that a scheme's own fields name, 0 if they name none."""
    reach = getattr(config, "factor", 1.0) * getattr(config, "trained_length", 0)
    return min(max(math.ceil(reach), getattr(config, "length", 0)), MAX_POSITION)


def _with_table(scheme: object) -> SinusoidalConfig | RopeConfig:
    """Return the scheme's config if it has tables of sines and cosines."""
    config = scheme.config if isinstance(scheme, Scheme) else scheme
    if not isinstance(config, SchemeConfig):
        raise SchemeArgumentError(
            'scheme must be a config, such as SCHEMES["sinusoidal"](dim=512), what it builds, or a '
            f"config.json, got {quoted(config)}."
        )
    if isinstance(config, SinusoidalConfig | RopeConfig):
        return config
    raise SchemeArgumentError(
        f"{config.label} has no table of sines and cosines; sinusoidal schemes and RoPE have."
    )


def in_layout_of(source: TableInput, config: TableScheme) -> TableScheme:
    """Return the config in halves, if the columns are repeated in halves and the model pairs neighbours.

    transformers has such caches, and code that reorders: see `reordering_sentence`.
    """
    if not isinstance(config, RopeConfig) or source.width != config.rotary_dim:
        return config
    first, second = source.columns[:, : source.width].tensor_split(2, 1)
    return config.replace(layout="half") if torch.equal(first, second) else config


def widths(config: SinusoidalConfig | RopeConfig) -> str:
    """Return the widths that a scheme's table may have."""
    if isinstance(config, RopeConfig):
        return f"{config.rotary_dim // 2:,} cosines and sines, or {config.rotary_dim:,}"
    return f"width {config.dim:,}"
