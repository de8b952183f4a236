"""Sentences that pages share: names of schemes, what a panel really is, what to beware of."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dashboard.blocks import Definition, Text
from dashboard.models import numbers_of
from dashboard.results import Similarity
from dashboard.settings import Setting
from dashboard.text import listed, number, plain
from posenc import fields as config_fields
from posenc.schemes import SCHEMES

# The answer of a page that none of the chosen schemes has a place on.
NO_SCHEME = "None of the chosen schemes can be shown here."
_ROUNDING = 1e-6  # of float32 read-outs


def names(kinds: tuple[str, ...]) -> str:
    """Return the schemes' names as a list in words."""
    return listed([SCHEMES[kind].label for kind in kinds])


def by_scheme(texts: Mapping[str, str]) -> str:
    """Return a list, a line per scheme that has a text."""
    return "\n".join(
        f"- {SCHEMES[kind].label}: {plain(text)}" for kind, text in texts.items() if text
    )


def panel_note(setting: Setting, kind: str, provenance: str = "", *, rounded: bool = True) -> str:
    """Say what a panel really is: its width, its base and where its numbers come from.

    rounded: whether the panel's numbers went through the precision that was asked for.
    """
    config = setting.config(kind)
    parts = []
    model = setting.real_model if setting.of_model(kind) is not None else None
    if model is not None:
        parts.append(": ".join(filter(None, (model.preset.label, numbers_of(model)))))
    if provenance:
        parts.append(provenance)
    elif model is None and config.dim_of is not None:
        per_head = "equal_width" in config.uses and not setting.equal_width
        parts.append(
            f"{getattr(config, 'dim', setting.dim):,} dimensions{' per head' if per_head else ''}"
        )
    base = getattr(config, "base", None)
    if base is not None and not any("base" in part for part in parts):  # of a model it is there
        parts = [", ".join((*parts, f"base {base:,.10g}"))]
    if "heads" in config_fields.rules(config):
        head = "mean of" if setting.alibi_head == 0 else f"head {setting.alibi_head} of"
        heads = getattr(config, "heads", setting.heads)
        parts.append("one head" if heads == 1 else f"{head} {heads} heads")
    if rounded and setting.sizes.dtype is not None and config.uses:
        parts.append(f"rounded to {setting.precision}")
    return "; ".join(parts)


def sizes(setting: Setting) -> str:
    """Return base, dimension and training length, as a saved chart of several schemes names them."""
    return (
        f"base {setting.base:,.10g}, dimension {setting.dim:,}, "
        f"training length {setting.train_length:,}"
    )


def panel_notes(setting: Setting, provenances: Mapping[str, str]) -> str | None:
    """Say what each scheme's panel really is, as the list of a tooltip; None if there is nothing."""
    return by_scheme({k: panel_note(setting, k, text) for k, text in provenances.items()}) or None


def kernels_beyond_one(results: Mapping[str, Similarity]) -> str:
    """Return a sentence on the kernels whose scaled values leave -1 to 1, "" where none does."""
    beyond = []
    for kind, result in results.items():
        # fmax skips NaN, which is a cell without a value.
        largest = np.fmax.reduce(np.abs(result.matrix.values), axis=None, initial=0)
        if largest > 1 + _ROUNDING:
            beyond.append(f"{SCHEMES[kind].label} ({number(float(largest), 4)})")
    if not beyond:
        return ""
    return (
        f"Above 1, where the colours end: {listed(beyond)}. The ratio of a kernel that is not an inner "
        "product of vectors is not a cosine. Tables and the read-out have the exact values."
    )


def warnings(results: Mapping[str, Similarity]) -> list[Text]:
    """Return warnings of another device, of undefined similarities and of kernels beyond one."""
    texts = []
    for kind, result in results.items():
        if result.kernel.notice:
            texts.append(Text(result.kernel.notice, "warning", icon="memory"))
        if result.undefined:
            sentence = (
                f"{SCHEMES[kind].label}: {result.undefined} positions have no cosine similarity, "
                "because their vector is zero or not finite."
            )
            texts.append(Text(sentence, "warning", icon="info"))
    beyond = kernels_beyond_one(results)
    return [*texts, Text(beyond, "info")] if beyond else texts


def last_row(setting: Setting) -> str:
    """Return a sentence on the jump at the last row of the bundled table, "" where it is not shown."""
    bundled = setting.learned_source == "trained" and not setting.model
    if bundled and "learned" in setting.schemes:
        rows = setting.request("learned", "cpu").build("cpu").max_length or 0
        if rows <= setting.length:
            return (
                f"Learned jumps at position {rows - 1:,}: the last row of its table is hardly trained, "
                "because only the last prediction uses it."
            )
    return ""


HEIGHTS = (
    "Every line starts at 1: compare how it falls. Its height is a cosine of rows (learned, sinusoidal), "
    "an expected logit (RoPE) or a factor on the attention weight (ALiBi and other biases)."
)


def similarity_definition(*functions: Callable[..., Any]) -> Definition:
    """Return the definition of position similarity, which pages share."""
    return Definition(
        r"\cos(i, j) = \frac{K(i, j)}{\sqrt{K(i, i)\,K(j, j)}}",
        "K is the position kernel: the inner product of the stored vectors "
        "(learned, sinusoidal), the expected logit of unit content (RoPE), or the factor on the attention "
        "weight (ALiBi and other biases). Scaled to a unit diagonal it is "
        "position similarity, a cosine; for ALiBi "
        r"that is $e^{-s|i-j|}$. A kernel that distinguishes before from after is scaled in the same way, "
        "but the result is not a cosine. A scheme that adds nothing without content has no kernel and is "
        "left out.",
        functions,
    )
