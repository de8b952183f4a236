"""posenc: positional encodings, exact, comparable and checked.

Schemes are configs in `SCHEMES`; `SCHEMES["rope"](dim=128).build()` gives a module with three hooks
into attention. `position_kernel` is the common object by which all of them are compared.
"""

from posenc.attention import attention
from posenc.device import best_device, device_name, run_with_fallback
from posenc.encoding import Encoding, encoding
from posenc.errors import (
    CheckpointError,
    ConfigError,
    ConfigFileError,
    NoPositionKernel,
    NoPositionTable,
    NoPositionVectors,
    NotStationary,
    PickleRefused,
    PosencError,
    PositionOutOfRange,
    SchemeArgumentError,
    SeveralPositionTables,
)
from posenc.formula import formula
from posenc.kernel import offset_curve, position_kernel, position_vectors
from posenc.modules import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
)
from posenc.rotation import apply_rope
from posenc.schemes import SCHEMES
from posenc.schemes.alibi import alibi_bias, alibi_slopes
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope import rope_frequencies
from posenc.tables import rope_tables, sinusoidal_table

__version__ = "0.1.0"

__all__ = [
    "SCHEMES",
    "CheckpointError",
    "ConfigError",
    "ConfigFileError",
    "Encoding",
    "LearnedPositionalEncoding",
    "NoPositionKernel",
    "NoPositionTable",
    "NoPositionVectors",
    "NotStationary",
    "PickleRefused",
    "PosencError",
    "PositionOutOfRange",
    "Scheme",
    "SchemeArgumentError",
    "SchemeConfig",
    "SeveralPositionTables",
    "SinusoidalPositionalEncoding",
    "TokenPlusPositionEmbedding",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "attention",
    "best_device",
    "device_name",
    "encoding",
    "formula",
    "offset_curve",
    "position_kernel",
    "position_vectors",
    "rope_frequencies",
    "rope_tables",
    "run_with_fallback",
    "sinusoidal_table",
]
