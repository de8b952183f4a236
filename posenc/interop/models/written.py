"""RoPE configs written back as a config.json has them, in both generations of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.interop.models.model_config import ModelConfig


def second_generation(model: ModelConfig) -> dict[str, Any]:
    """Return `rope_parameters`; per layer type where the config has them so."""
    raise NotImplementedError


def first_generation(model: ModelConfig) -> dict[str, Any]:
    """Return rope_theta, rope_scaling and their like."""
    raise NotImplementedError
