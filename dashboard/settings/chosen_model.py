"""The model of a setting, by its name or its config as a link token; presets of sizes."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.settings.field_text import describe
from posenc import fields
from posenc.errors import ConfigFileError, quoted
from posenc.models.config_token import PATTERN, PREFIX, read_config_token
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.presets import MODELS, ModelPreset
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import printable_name

MAX_SHOWN_DIM = 4_096
MAX_SHOWN_HEAD_WIDTH = 512  # of a model with RoPE
MAX_SHOWN_MODEL_HEADS = 128
_NAME = r"[a-z0-9](?:[a-z0-9.]|-(?!-)){0,38}[a-z0-9]"
_SHOWN_TYPE = 40  # characters of a config's model_type


@dataclass(frozen=True, kw_only=True)
class ModelRule(fields.Word):
    """The name of a model or the token of a config, "" for none; `chosen_model` reads it."""

    pattern: str = rf"|{PATTERN}|{_NAME}"
    in_words: str = "the name of a model, such as llama-3-8b, or the token of a config"


@describe.register
def _(rule: ModelRule, value: str) -> str:
    return chosen_model(value).preset.label if value else "none"


@dataclass(frozen=True, kw_only=True)
class ChosenModel:
    """A model, and which part of it is compared with the schemes of a setting.

    token: its name, or its config as a link token. preset: its label, and what its config does not say.
    """

    token: str
    preset: ModelPreset
    config: ModelConfig

    @property
    def is_config(self) -> bool:
        """Whether the token holds the config itself."""
        return self.token.startswith(PREFIX)

    @property
    def layer_kind(self) -> LayerKind:
        """The layers that are compared: those with RoPE that see farthest, or the main ones."""
        return self.config.rotary_kind

    @property
    def scheme(self) -> SchemeConfig | None:
        """The scheme of these layers; None where there is none, or it is too large."""
        return None if self.too_large else self.layer_kind.scheme

    @property
    def too_large(self) -> str:
        """Why the scheme is too large to be compared, "" where it is not."""
        scheme = self.layer_kind.scheme
        width, heads = getattr(scheme, "dim", 0), getattr(scheme, "heads", 0)
        if width > MAX_SHOWN_DIM:
            return (
                f"Its width of {width:,} is more than {MAX_SHOWN_DIM:,}, the most that is compared."
            )
        if heads > MAX_SHOWN_MODEL_HEADS:
            return f"Its {heads:,} heads are more than {MAX_SHOWN_MODEL_HEADS}, the most that are compared."
        return ""


@functools.lru_cache(maxsize=256)
def chosen_model(token: str) -> ChosenModel:
    """Return the model of a name or of a config's token.

    A preset is read without a scaling that its makers only recommend. Raises ConfigFileError for a name
    that is not known and a config that cannot be read or is too wide.
    """
    if not token.startswith(PREFIX):
        preset = MODELS.get(token)
        if preset is None:
            raise ConfigFileError(
                f"there is no model of the name {quoted(token)}; it must be a well-known one, such as "
                "llama-3-8b, or the token of a config."
            )
        return ChosenModel(token=token, preset=preset, config=preset.read(scaled=False))
    config = read_config_token(token)
    for layer_kind in config.layer_kinds:
        width = layer_kind.scheme.dim if isinstance(layer_kind.scheme, RopeConfig) else 0
        if width > MAX_SHOWN_HEAD_WIDTH:
            raise ConfigFileError(
                f"a head of {width:,} is wider than {MAX_SHOWN_HEAD_WIDTH:,}, the most of a model "
                "with RoPE that is compared."
            )
    type_name = printable_name(config.model_type)[:_SHOWN_TYPE]
    if config.assumption and config.read_as != config.model_type:
        type_name = f"{type_name} read as {config.read_as or 'llama'}".strip()
    preset = ModelPreset(label=f"Your model ({type_name})", source="", model=config)
    return ChosenModel(token=token, preset=preset, config=config)


@dataclass(frozen=True)
class Preset:
    """The sizes of a model as changes to a setting. source: where they stand."""

    label: str
    scheme: str
    source: str
    changes: Mapping[str, Any]


# What a model's paper does not say is left as it is.
PRESETS: Mapping[str, Preset] = {
    "transformer": Preset(
        "Transformer base", "sinusoidal",
        "Vaswani et al. 2017, arXiv 1706.03762, sections 3.1, 3.2.2 and 3.5",
        {"dim": 512, "heads": 8, "base": 1e4},
    ),
    "bert": Preset(
        "BERT base", "learned",
        "Devlin et al. 2019, arXiv 1810.04805, section 3; 512 positions, appendix A.2",
        {"dim": 768, "heads": 12, "train_length": 512},
    ),
    "llama-2": Preset(
        "Llama 2 7B", "rope",
        "Touvron et al. 2023, arXiv 2307.09288, table 1; sizes and base as in its config.json",
        {"dim": 4_096, "heads": 32, "base": 1e4, "train_length": 4_096},
    ),
    "alibi": Preset(
        "ALiBi on WikiText-103", "alibi",
        "Press et al. 2022, arXiv 2108.12409, sections 2.1 and 3; trained on 512 tokens",
        {"dim": 1_024, "heads": 8, "train_length": 512},
    ),
}  # fmt: skip
