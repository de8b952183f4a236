"""Scalings of RoPE, one file and one line here for each; schemes like any other."""

from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
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
