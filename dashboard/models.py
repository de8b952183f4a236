"""Models in words: where their numbers come from, what they are, which layers are not shown."""

from dashboard.settings import ChosenModel, Setting, chosen_model
from dashboard.text import listed
from posenc.models.presets import MODELS
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.trainable import TrainableConfig
from posenc.text import count_of


def by_age() -> list[str]:
    """Return the names of the known models, the newest first."""
    return sorted(MODELS, key=lambda token: (-MODELS[token].year, MODELS[token].label.lower()))


def option(token: str) -> str:
    """Return a model as a list has it: year, name, scheme, a check mark for checked numbers."""
    model = chosen_model(token)
    scheme = model.layer_kind.scheme
    verified = " ✓" if model.preset.source and not model.preset.unverified else ""
    year = f"{model.preset.year}: " if model.preset.year else ""
    return f"{year}{model.preset.label}{'' if scheme is None else f', {scheme.label}'}{verified}"


def about(model: ChosenModel) -> str:
    """Say where a model's numbers come from and what was not checked of them."""
    if model.is_config:
        return f"{model.preset.label}: the config.json that was pasted or uploaded."
    preset = model.preset
    doubt = f" Not checked: {preset.unverified}." if preset.unverified else ""
    note = f" {preset.note}" if preset.note else ""
    length = preset.trained_length
    trained = f" Trained on {length:,} tokens ({preset.trained_source})." if length else ""
    return f"{preset.label}. Numbers from {preset.source}.{doubt}{note}{trained}"


def numbers_of(model: ChosenModel) -> str:
    """Return the numbers of a model's scheme that replace a setting's, such as "width 128"."""
    scheme, parts = model.scheme, []
    if isinstance(scheme, RopeConfig):
        share = f"{scheme.rotary_dim} of " if scheme.rotary_dim != scheme.dim else ""
        parts = [f"width {share}{scheme.dim:,}", f"base {scheme.base:,.10g}"]
        parts += [scheme.words] if scheme.words else []
    elif scheme is not None:
        formats = {
            "dim": "width {:,}",
            "base": "base {:,.10g}",
            "max_len": "{:,} rows",
            "buckets": "{:,} buckets",
            "max_distance": "largest distance {:,}",
        }
        numbers = {name: getattr(scheme, name, None) for name in formats}
        parts = [text.format(numbers[name]) for name, text in formats.items() if numbers[name]]
    return ", ".join(parts)


def other_layers(model: ChosenModel) -> str:
    """Return one sentence on the layers that are not shown, "" where all are."""
    names = []
    for kind in model.config.layer_kinds:
        base = f", base {kind.scheme.base:,.10g}" if isinstance(kind.scheme, RopeConfig) else ""
        window = f", {kind.window:,} tokens seen" if kind.window else ""
        scheme = f" ({kind.scheme.label}{base}{window})" if kind.scheme is not None else ""
        layers = count_of(len(kind.layers), f"{kind.name} layer")
        if kind is model.layer_kind:
            shown = layers
        else:
            names.append(f"{layers}{scheme}")
    if not names:
        return ""
    return f"That is of its {shown}, which see farthest. Not shown: {' and '.join(names)}."


def place_of(setting: Setting, model: ChosenModel) -> str:
    """Say which panel shows the model of a setting, or why none does."""
    scheme = model.scheme
    if scheme is None:
        return f"No panel shows it. {model.layer_kind.unsupported or model.too_large}"
    if scheme.kind not in setting.schemes:
        return f"Its scheme, {scheme.label}, is not among those shown."
    if isinstance(scheme, LearnedConfig):
        return (
            "Its config holds the shape of the learned table, not its rows: a random start has that "
            "shape; upload its checkpoint for the rows."
        )
    numbers = numbers_of(model) or f"{getattr(scheme, 'heads', 0):,} heads"
    if isinstance(scheme, TrainableConfig):
        return (
            f"The {scheme.label} panel has its {numbers}; its config holds no trained numbers, so a "
            "random start of that shape is shown."
        )
    return f"The {scheme.label} panel has its numbers: {numbers}. Others keep those of the sidebar."


def other_facts(model: ChosenModel) -> list[str]:
    """Return what a model's config says besides its scheme, and what was not read of it."""
    config = model.config
    sentences = [*config.notes, *model.layer_kind.notes]
    return [*sentences, f"Not read: {listed(config.ignored)}."] if config.ignored else sentences


def read_as(model: ChosenModel) -> str:
    """Say what a config was read as, before it is used."""
    scheme = model.scheme
    shown = "no scheme that is drawn" if scheme is None else f"{scheme.label}, {numbers_of(model)}"
    read = f"{model.preset.label}, {model.config.layers:,} layers, {shown}"
    return f"Read, but not used yet: {read}. Press Use this config to see its numbers."
