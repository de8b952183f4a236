"""The scalings of RoPE, by kind; each is a scheme."""

from collections.abc import Iterable

from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig, ScaledRopeConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig, RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig

ROPE_SCALINGS: dict[str, type[RopeConfig]] = {
    "rope_linear": RopeLinearConfig,
    "rope_ntk": RopeNtkConfig,
    "rope_dynamic": RopeDynamicConfig,
    "rope_yarn": RopeYarnConfig,
    "rope_yarn_paper": RopeYarnPaperConfig,
    "rope_longrope": RopeLongConfig,
    "rope_llama3": RopeLlama3Config,
    "rope_proportional": RopeProportionalConfig,
    "rope_sections": RopeSectionsConfig,
}

# Scalings that a factor and the trained length define; the others need searched numbers or training.
AFTER_TRAINING: dict[str, type[ScaledRopeConfig]] = {
    kind: config
    for kind, config in ROPE_SCALINGS.items()
    if issubclass(config, ScaledRopeConfig) and config.after_training
}


def length_extensions(
    trained: SchemeConfig, length: int, trained_length: int, kinds: Iterable[str] = AFTER_TRAINING
) -> dict[str, SchemeConfig]:
    """Return the scalings of `trained` to `length` positions, by name; none unless it is plain RoPE."""
    configs = (AFTER_TRAINING[kind].extending(trained, length, trained_length) for kind in kinds)
    return {config.scaling_name: config for config in configs if config is not None}
