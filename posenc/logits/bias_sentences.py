"""Sentences on a bias beside a layer's rule: the cause first, then where it differs."""

from typing import Any

from posenc.logits.bias import BiasMatch
from posenc.logits.sentences import (
    buckets_sentence,
    masks_sentence,
    place_sentence,
    slopes_sentence,
)
from posenc.schemes.alibi import AlibiConfig


def bias_sentences(match: BiasMatch) -> list[str]:
    """Return whether a bias is that of a layer, the causes first where it is not."""
    label = match.rule.config.label
    if match.belongs:
        row = (
            "" if match.exactly else ", up to a constant for each query, which the softmax ignores"
        )
        if match.rule.is_trained:
            return [f"This bias has the buckets of the layer's {label}{row}."]
        return [f"This bias is the layer's {label}{row}."]
    causes = []
    if match.alone:
        causes.append(
            f"The bias is built over the query alone: it has one key, where {match.values.shape[2]:,} are "
            "cached."
        )
    elif match.slopes:
        causes.append(slopes_sentence(match.slopes, match.first_head))
    if match.buckets:
        causes.append(buckets_sentence(match.buckets))
    if match.masks:
        causes.append(masks_sentence(match.masks))
    if match.by_key:
        causes.append(
            "The bias is a slope times the position of the key, which is ALiBi under a causal mask alone."
        )
    elif not match.by_distance and not match.alone:
        is_line = isinstance(match.rule.config, AlibiConfig)
        causes.append(
            "The bias is no straight line over the distance."
            if is_line
            else "The bias depends on more than head and distance."
        )
    if match.rule.is_trained:
        return causes
    where = "The visible numbers are the layer's."
    if match.most.amount > match.most.allowed:
        where = place_sentence(match.most, match.first_head, up_to_rows=True)
    return [*causes, where]


def bias_record(match: BiasMatch) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    slopes = match.slopes
    return {
        "belongs": match.belongs,
        "sentences": bias_sentences(match),
        "exactly": match.exactly,
        "by_distance": match.by_distance,
        "alone": match.alone,
        "by_key": match.by_key,
        "slopes": None if slopes is None else slopes.values.tolist(),
        "expected_slopes": None if slopes is None else slopes.expected.tolist(),
        "slope_names": [] if slopes is None else [name.word for name in slopes.names],
        "buckets": None if match.buckets is None else match.buckets.word,
        "masks": [each.word for each in match.masks],
        "largest_difference": match.most._asdict(),
    }
