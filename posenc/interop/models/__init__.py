"""Real models: what their config.json says of position, and how it is written back."""

from posenc.errors import ConfigFileError
from posenc.interop.models.config_reader import model_types, read_config
from posenc.interop.models.config_word import config_word, read_config_word
from posenc.interop.models.model_config import LayerKind, ModelConfig
from posenc.interop.models.written import rope_parameters

__all__ = [
    "ConfigFileError",
    "LayerKind",
    "ModelConfig",
    "config_word",
    "model_types",
    "read_config",
    "read_config_word",
    "rope_parameters",
]
