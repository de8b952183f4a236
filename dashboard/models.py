"""Models in words: where their numbers come from, what they are, which layers are not shown."""

from dashboard.settings import ChosenModel
from dashboard.text import listed
from posenc.schemes.rope import RopeConfig
from posenc.text import count_of


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


def other_facts(model: ChosenModel) -> list[str]:
    """Return what a model's config says besides its scheme, and what was not read of it."""
    config = model.config
    sentences = [*config.notes, *model.layer_kind.notes]
    return [*sentences, f"Not read: {listed(config.ignored)}."] if config.ignored else sentences
