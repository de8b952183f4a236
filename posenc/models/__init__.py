"""Real models: what their config.json says of position, and how it is written back."""

from posenc.models.config_token import config_token, read_config_token
from posenc.models.family import model_types
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.presets import MODELS
from posenc.models.projections import Projections, read_projections
from posenc.models.read_config import read_config
from posenc.models.rope_writing import rope_parameters

__all__ = [
    "MODELS",
    "LayerKind",
    "ModelConfig",
    "Projections",
    "config_token",
    "model_types",
    "read_config",
    "read_config_token",
    "read_projections",
    "rope_parameters",
]
