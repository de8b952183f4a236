"""The model of a setting: a well-known one by its name, or one whose config a link carries whole."""

import functools
from dataclasses import dataclass

from posenc import fields, limits
from posenc.errors import ConfigFileError, shown
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.presets import MODELS
from posenc.models.read_config import PATTERN, PREFIX, read_config_token
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import printable_name

NAME = r"[a-z0-9](?:[a-z0-9.]|-(?!-)){0,38}[a-z0-9]"
_NAMED = 40  # characters shown of a config's model_type


@dataclass(frozen=True, kw_only=True)
class ModelRule(fields.Word):
    """The word of a model, "" for none; whether it can be read is seen when it is."""

    pattern: str = rf"|{PATTERN}|{NAME}"
    described: str = "the name of a model, such as llama-3-8b, or the word of a config"

    def told(self, value: str) -> str:
        if not value:
            return "none"
        return chosen_model(value).label


@dataclass(frozen=True, kw_only=True)
class ChosenModel:
    """A model, and which part of it stands beside the schemes of a setting.

    source, unverified, note: as of a preset; "" for a config that was pasted.
    trained_length, trained_source: as of a preset, which knows what its config does not say; None and ""
    of any other.
    """

    word: str
    label: str
    config: ModelConfig
    source: str = ""
    unverified: str = ""
    note: str = ""
    trained_length: int | None = None
    trained_source: str = ""

    @property
    def pasted(self) -> bool:
        """Whether the link carries the config itself."""
        return self.word.startswith(PREFIX)

    @property
    def kind(self) -> LayerKind:
        """The layers that are shown: those with RoPE that see farthest; without any, the main ones."""
        turning = (one for one in self.config.layer_kinds if isinstance(one.scheme, RopeConfig))
        return next(turning, self.config.main)

    @property
    def scheme(self) -> SchemeConfig | None:
        """What panels show of it; None where there is no such scheme, or it is too large to draw."""
        return None if self.too_large else self.kind.scheme

    @property
    def too_large(self) -> str:
        """Why the scheme is not drawn though it is known, "" where it is."""
        width, heads = getattr(self.kind.scheme, "dim", 0), getattr(self.kind.scheme, "heads", 0)
        if width > limits.MAX_SHOWN_DIM:
            return (
                f"Its width of {width:,} is more than the {limits.MAX_SHOWN_DIM:,} that is drawn."
            )
        if heads > limits.MAX_SHOWN_MODEL_HEADS:
            return (
                f"Its {heads:,} heads are more than the {limits.MAX_SHOWN_MODEL_HEADS} that are "
                "drawn."
            )
        return ""

    @property
    def numbers(self) -> str:
        """The numbers of the scheme that stand in place of a setting's, such as "width 128"."""
        scheme, parts = self.scheme, []
        if isinstance(scheme, RopeConfig):
            share = f"{scheme.rotary_dim} of " if scheme.rotary_dim != scheme.dim else ""
            parts = [f"width {share}{scheme.dim:,}", f"base {scheme.base:,.10g}"]
            parts += [scheme.words] if scheme.words else []
        elif scheme is not None:
            named = {
                "dim": "width {:,}",
                "base": "base {:,.10g}",
                "max_len": "{:,} rows",
                "buckets": "{:,} buckets",
                "max_distance": "largest distance {:,}",
            }
            found = {name: getattr(scheme, name, None) for name in named}
            parts = [text.format(found[name]) for name, text in named.items() if found[name]]
        return ", ".join(parts)

    @property
    def others(self) -> str:
        """One sentence on the layers that are not shown, "" where all are."""
        kinds = [one for one in self.config.layer_kinds if one is not self.kind]
        if not kinds:
            return ""
        many = "differ" if len(kinds) > 1 or len(kinds[0].layers) > 1 else "differs"
        return (
            f"That is of its {_counted(self.kind)}, which see farthest; "
            f"{' and '.join(_other(one) for one in kinds)} {many}."
        )


def _counted(one: LayerKind) -> str:
    count = len(one.layers)
    return f"{count} {one.name} {'layer' if count == 1 else 'layers'}"


def _other(one: LayerKind) -> str:
    if one.scheme is None:
        return _counted(one)
    base = f", base {one.scheme.base:,.10g}" if isinstance(one.scheme, RopeConfig) else ""
    window = f", {one.window:,} tokens seen" if one.window else ""
    return f"{_counted(one)} ({one.scheme.label}{base}{window})"


@functools.lru_cache(maxsize=256)
def chosen_model(word: str) -> ChosenModel:
    """Return the model that a word stands for.

    A preset is read as its published file has it, without a scaling that its makers only recommend.
    Raises ConfigFileError for a name that is not known and a config that cannot be read or shown.
    """
    if not word.startswith(PREFIX):
        preset = MODELS.get(word)
        if preset is None:
            raise ConfigFileError(
                f"there is no model of the name {shown(word)}; it must be a well-known one, such as "
                "llama-3-8b, or the word of a config."
            )
        return ChosenModel(
            word=word,
            label=preset.label,
            config=preset.read(scaled=False),
            source=preset.source,
            unverified=preset.unverified,
            note=preset.note,
            trained_length=preset.trained_length,
            trained_source=preset.trained_source,
        )
    config = read_config_token(word)
    for one in config.layer_kinds:
        width = getattr(one.scheme, "dim", 0) if isinstance(one.scheme, RopeConfig) else 0
        if width > limits.MAX_SHOWN_HEAD_WIDTH:
            raise ConfigFileError(
                f"a head of {width:,} is wider than {limits.MAX_SHOWN_HEAD_WIDTH:,}, the most that is "
                "shown of a model with RoPE."
            )
    kind = printable_name(config.model_type)[:_NAMED]
    if config.assumption and config.read_as != config.model_type:
        kind = f"{kind} read as {config.read_as or 'llama'}".strip()
    return ChosenModel(word=word, label=f"Your model ({kind})", config=config)
