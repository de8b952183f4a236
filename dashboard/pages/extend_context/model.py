"""The model that a context is planned for: its name, its trained length, and whether it can be scaled."""

from typing import Any

from dashboard.settings import Setting, chosen_model
from posenc.models.config_token import PREFIX, token_content
from posenc.models.presets import MODELS
from posenc.planner import plan
from posenc.schemes.rope import RopeConfig

DEFAULT = "llama-3-8b"  # where no model is chosen


def token(setting: Setting) -> str:
    """Return the name or the token of the model that is planned for."""
    return setting.model or DEFAULT


def known_length(setting: Setting) -> tuple[int | None, str]:
    """Return the trained length that an empty field stands for, None where not known, and its source."""
    model = chosen_model(token(setting))
    if model.preset.trained_length is not None:
        return model.preset.trained_length, "makers"
    return plan(model.config, 2, methods=(), search_base=False).trained_length, "config"


def config_keys(token: str) -> tuple[dict[str, Any], str | None]:
    """Return the keys of a model's config, {} without one, and the type that was assumed for it.

    A scaling that the makers only recommend is left out, as in the plan.
    """
    if token.startswith(PREFIX):
        return token_content(token)
    preset = MODELS[token]
    left_out = {"rope_scaling"} if preset.optional else set()
    keys = {name: value for name, value in (preset.config or {}).items() if name not in left_out}
    return keys, None


def can_scale(setting: Setting, entered: bool) -> bool:
    """Return whether a model has RoPE, and a trained length that is known or entered."""
    kind = chosen_model(token(setting)).layer_kind
    knows_length = entered or known_length(setting)[0] is not None
    return knows_length and isinstance(kind.scheme, RopeConfig)
