"""Facts of a scheme, whatever the setting: where it acts, its formula for a narrow place, its users."""

import functools
import re

from posenc.fields import rules
from posenc.latex import Notation, Writer, formula, symbols
from posenc.models import MODELS
from posenc.schemes import SchemeConfig
from posenc.schemes.base import Head, Scheme

EMBEDDING, ROTATION, BIAS = "token embedding", "queries and keys", "logits"
WEIGHTS = "attention weights"
# What a scheme overrides of `Scheme`, and where in an attention block that is called.
_HOOKS = {
    "embed": EMBEDDING, "rotate": ROTATION, "bias": BIAS, "offset_bias": BIAS, "weights": WEIGHTS,
}  # fmt: skip


def place(scheme: Scheme) -> str:
    """Return the part of an attention block on which a scheme acts, "" for none."""
    own = (
        where
        for name, where in _HOOKS.items()
        if getattr(type(scheme), name) is not getattr(Scheme, name)
    )
    return next(own, "")


def compact_formula(
    config: SchemeConfig,
    notation: Notation = "pos, i",
    *,
    numbers: bool = False,
    head: Head = "mean",
) -> str:
    """Return a scheme's formula narrow enough for a card: in small type, one equation a line."""
    text = formula(config, notation, numbers=numbers, head=head)
    text = text.replace(r",\quad", r"\\")
    # A bias with all its spaces is wider than a card in larger type.
    text = text.replace(r"\,\left|", r"\lvert ").replace(r"\right|", r"\rvert ")
    text = text.replace("}, \\mathrm{pos}", r"}{,}\mathrm{pos}").replace(" = -", r" =\!-")
    text = re.sub(r"\\frac\{1\}\{\{?b\}?\^\{([^{}]*)\}\}", r"b^{-\1}", text)  # a line less high
    return rf"\scriptsize \begin{{gathered}} {text} \end{{gathered}}"


def symbol_words(config: SchemeConfig, notation: Notation = "pos, i") -> str:
    """Return what the letters of a scheme's formula mean, in Markdown with LaTeX."""
    text, write = config.formula(Writer(config, notation)), Writer(config, notation)
    letters = {write.position: "Position"}
    if write.key in text:
        letters = {write.position: "Position of the query", write.key: "Position of the key"}
    if re.search(rf"[_2({{,]{write.pair}\b", text):
        letters[write.pair] = "Number of the pair, from 0"
    if re.search(r"_\{?h\b|,h\}", text):
        letters["h"] = "Number of the head, from 1"
    labels = {name: rule.label for name, rule in rules(config).items()}
    labels["rotary_dim"] = "Rotated features of a head"
    for field, symbol in symbols(config, notation).items():
        letters[symbol] = labels.get(field, field)
    return "\n".join(f"- ${letter}$: {words}" for letter, words in letters.items())


@functools.cache
def models_with(kind: str) -> tuple[str, ...]:
    """Return the names of the preset models that have a layer with a scheme."""
    return tuple(
        preset.label
        for preset in MODELS.values()
        if any(
            layer.scheme is not None and layer.scheme.kind == kind
            for layer in preset.read().layer_kinds
        )
    )
