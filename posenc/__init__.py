"""posenc: positional encodings, exact, comparable and checked.

A scheme is a config, such as `RopeConfig(dim=128)`; its `build()` gives a module with three hooks into
attention. `SCHEMES` holds every config class by its kind; `register` adds your own. `position_kernel` is
the common object by which all of them are compared.
"""

from posenc.device import best_device, device_name, run_with_fallback
from posenc.errors import (
    CheckpointError,
    ConfigError,
    ConfigFileError,
    NoPositionKernel,
    NoPositionTable,
    NoPositionVectors,
    NotStationary,
    PickleRefused,
    PluginError,
    PosencError,
    PositionOutOfRange,
    SchemeArgumentError,
    SeveralPositionTables,
)
from posenc.kernel import offset_curve, position_kernel, position_vectors
from posenc.latex import formula
from posenc.modules import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
)
from posenc.plugins import load_entry_points, load_plugin, register
from posenc.rotation import apply_rope
from posenc.scheme_numbers import Encoding, encoding
from posenc.schemes import SCHEMES
from posenc.schemes.alibi import AlibiConfig, alibi_bias, alibi_slopes
from posenc.schemes.base import NoneConfig, Request, Scheme, SchemeConfig
from posenc.schemes.cope import CopeConfig
from posenc.schemes.fire import FireConfig
from posenc.schemes.fox import FoxConfig
from posenc.schemes.kerple import KerpleLogConfig, KerplePowerConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.pope import PopeConfig
from posenc.schemes.rnope import RnopeConfig
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig, RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig
from posenc.schemes.sandwich import SandwichConfig
from posenc.schemes.shaw import ShawConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.sizes import Sizes
from posenc.schemes.ssmax import SsmaxConfig, SsmaxRopeConfig
from posenc.schemes.stick_breaking import StickBreakingConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from posenc.schemes.xpos import XposConfig
from posenc.sdpa import attention
from posenc.tables import rope_tables, sinusoidal_table

__version__ = "0.1.0"

__all__ = [
    "SCHEMES",
    "AlibiConfig",
    "CheckpointError",
    "ConfigError",
    "ConfigFileError",
    "CopeConfig",
    "Encoding",
    "FireConfig",
    "FoxConfig",
    "KerpleLogConfig",
    "KerplePowerConfig",
    "LearnedConfig",
    "LearnedPositionalEncoding",
    "NoPositionKernel",
    "NoPositionTable",
    "NoPositionVectors",
    "NoneConfig",
    "NotStationary",
    "PickleRefused",
    "PluginError",
    "PopeConfig",
    "PosencError",
    "PositionOutOfRange",
    "Request",
    "RnopeConfig",
    "RopeConfig",
    "RopeDynamicConfig",
    "RopeLinearConfig",
    "RopeLlama3Config",
    "RopeLongConfig",
    "RopeNtkConfig",
    "RopeProportionalConfig",
    "RopeSectionsConfig",
    "RopeYarnConfig",
    "RopeYarnPaperConfig",
    "SandwichConfig",
    "Scheme",
    "SchemeArgumentError",
    "SchemeConfig",
    "SeveralPositionTables",
    "ShawConfig",
    "SinusoidalConfig",
    "SinusoidalPositionalEncoding",
    "Sizes",
    "SsmaxConfig",
    "SsmaxRopeConfig",
    "StickBreakingConfig",
    "T5Config",
    "TokenPlusPositionEmbedding",
    "TransformerXLConfig",
    "XposConfig",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "attention",
    "best_device",
    "device_name",
    "encoding",
    "formula",
    "load_plugin",
    "offset_curve",
    "position_kernel",
    "position_vectors",
    "register",
    "rope_frequencies",
    "rope_tables",
    "run_with_fallback",
    "sinusoidal_table",
]

load_entry_points()  # last: their modules import this package
