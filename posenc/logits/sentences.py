"""Sentences on logits and biases beside a layer's rule: the cause first, then where they differ."""

from typing import Any

from posenc.logits.buckets import BucketsFound
from posenc.logits.clauses import mask_words, root_words, slope_words
from posenc.logits.facts import CapFound, LogitMatch, MaskValue, Place
from posenc.logits.mask import MaskFault
from posenc.logits.scales import GrowthFound, ScaleFound, ScaleName
from posenc.logits.slopes import SlopesFound
from posenc.text import count_of, joined, significant

_ATTENTION_FACTORS = {
    "attention factor missing": "the attention factor is missing",
    "attention factor once": "the attention factor multiplies queries or keys, not both",
    "attention factor twice": "the attention factor is applied twice",
}
_VECTORS = {
    "rotated before": "queries and keys are taken as rotated already",
    "rotated here": "queries and keys are taken as not yet rotated",
    "not rotated": "queries and keys are not rotated",
    "other layout": "queries and keys are rotated in the other layout of pairs",
    "other direction": "queries and keys are rotated in the other direction",
    "queries alone": "queries alone are rotated, keys are not",
    "keys alone": "keys alone are rotated, queries are not",
    "rotated twice": "queries and keys are rotated twice",
    "from position 0": "queries are rotated from position 0 on, though they follow the cached keys",
    "one position late": "queries are rotated by one position too many",
    "one position early": "queries are rotated by one position too few",
}
_WRONG_VECTORS = {*_VECTORS} - {"rotated before", "rotated here"}


def match_sentences(match: LogitMatch) -> list[str]:
    """Return whether logits are those of a layer, the causes first where they are not."""
    what = "attention weights" if match.given.is_weights else "logits"
    if match.belongs:
        row = ", up to a constant for each query" if match.up_to_rows else ""
        scale = root_words(match.rule.root, match.rule.factor)
        sentences = [
            f"These {what} are the layer's{row}: the softmax scale is {scale}, "
            f"{significant(match.rule.softmax_scale, 4)}."
        ]
        return sentences + _sink_sentences(match)
    causes = [
        *([vectors_sentence(match)] if _WRONG_VECTORS & {*match.vectors} else []),
        *([scale_sentence(match.scale, match)] if match.scale else []),
        *([growth_sentence(match.growth, match)] if match.growth else []),
        *([cap_sentence(match.cap)] if match.cap else []),
        *([slopes_sentence(match.slopes, match.first_head)] if match.slopes else []),
        *([buckets_sentence(match.buckets)] if match.buckets else []),
        *([mask_value_sentence(match.mask_value)] if match.mask_value else []),
        *([masks_sentence(match.masks)] if match.masks else []),
    ]
    if match.sink_missing:
        causes.append(
            "The weights of each query have the sum 1, where the layer's sinks take a part of it."
        )
    if match.sink_unexpected:
        causes += _sink_sentences(match)
    if not match.explained:
        those = f"the visible {what}" if causes else f"these {what}"
        causes.append(f"No known rule makes {those} of these queries and keys.")
    where = f"The visible {what} are the layer's."
    if match.most.amount > match.most.allowed:
        where = place_sentence(match.most, match.first_head, up_to_rows=match.up_to_rows)
    return [*causes, where, *([] if match.sink_unexpected else _sink_sentences(match))]


def _sink_sentences(match: LogitMatch) -> list[str]:
    """Return what is known of a sink, and that the layer has none where it has none."""
    if match.sink is None:
        return []
    none = ", where the layer has none" if match.sink_unexpected else ""
    if match.given.is_weights:
        lacks = f"Weights of a query lack up to {significant(match.sink)} to the sum 1"
        return [f"{lacks}, as by a sink{none}."]
    return [f"The last column is one of sinks, at most {significant(match.sink)}{none}."]


def vectors_sentence(match: LogitMatch) -> str:
    """Return how queries and keys were rotated."""
    words = joined([_VECTORS[word] for word in match.vectors], "or")
    return f"{words[0].upper()}{words[1:]}."


def place_sentence(place: Place, first_head: int = 0, *, up_to_rows: bool = False) -> str:
    """Return where numbers differ most. up_to_rows: whether a constant for each query is left out."""
    start = "Up to a constant for each query, they differ" if up_to_rows else "They differ"
    return (
        f"{start} most from the layer's in head {place.head + first_head:,}, query {place.query:,}, "
        f"key {place.key:,}, by {significant(place.amount)}, where rounding allows "
        f"{significant(place.allowed, 2)}."
    )


def scale_sentence(found: ScaleFound, match: LogitMatch) -> str:
    """Return what the softmax scale is, and what it should be."""
    rule = match.rule
    own = root_words(rule.root, rule.factor)
    value = significant(found.ratio * rule.softmax_scale, 4)
    if not found.is_one:
        least, most = (significant(float(x), 4) for x in (found.values.min(), found.values.max()))
        return (
            f"The softmax scale differs from head to head, from {least} to {most}, where the layer has "
            f"{own}, {significant(rule.softmax_scale, 4)}."
        )
    times = f"logits are {significant(found.ratio, 5)} times the layer's"
    factors = [
        _ATTENTION_FACTORS[name.factor.word]
        for name in found.names
        if name.factor.word in _ATTENTION_FACTORS and name.root == rule.root
    ]
    roots = [
        root_words(name.root, name.factor)
        for name in found.names
        if name.factor.word not in _ATTENTION_FACTORS
    ]
    if not found.names:
        return f"The softmax scale is {value}, where the layer has {own}: {times}."
    causes = [f"the softmax scale is {words}" for words in roots] + factors
    text = joined(causes, "or")
    return f"{text[0].upper()}{text[1:]}, where the layer has {own}: {times}."


def growth_sentence(found: GrowthFound, match: LogitMatch) -> str:
    """Return how the scale grows with the position of the query."""
    own = match.rule.growth
    has = "the layer's does not" if own is None else (
        f"the layer multiplies the query at position p by 1 + {own.rate:g} ln(1 + floor("
        f"{'(p + 1)' if own.first else 'p'} / {own.length:,}))"
    )  # fmt: skip
    numbers = f"from {significant(found.first, 4)} to {significant(found.last, 4)}"
    match found.word:
        case "none":
            return f"The softmax scale does not grow with the position, where {has}."
        case "log":
            return (
                f"The softmax scale grows with ln(n), n the number of keys that a query sees, {numbers}, "
                f"where {has}."
            )
        case "late" | "early":
            return f"Queries grow as though they were one position {found.word}, where {has}."
    return f"The softmax scale changes with the position of the query, {numbers}, where {has}."


def cap_sentence(found: CapFound) -> str:
    """Return which soft cap logits have."""
    if found.found is None:
        return f"The soft cap is missing, where the layer caps logits at {found.expected:g}."
    own = "the layer has none" if found.expected is None else f"the layer has {found.expected:g}"
    return f"Logits are capped by a tanh at {significant(found.found, 4)}, where {own}."


def slopes_sentence(found: SlopesFound, first_head: int) -> str:
    """Return what is wrong with slopes, and the first head where they differ."""
    head = found.wrong
    has = (
        f"head {head + first_head:,} has the slope {_slope(found, head)}, the layer's "
        f"{significant(float(found.expected[head]), 4)}"
    )
    if not found.names:
        wrong = int(((found.values - found.expected).abs() > found.errors).sum())
        return f"The slopes of {count_of(wrong, 'head')} are wrong: {has}."
    text = joined([slope_words(name) for name in found.names], "or")
    return f"{text[0].upper()}{text[1:]}: {has}."


def _slope(found: SlopesFound, head: int) -> str:
    value = float(found.values[head])
    return "0" if abs(value) <= float(found.errors[head]) else significant(value, 4)


def buckets_sentence(found: BucketsFound) -> str:
    """Return which buckets of distances a bias has."""
    own = found.expected
    ways = {True: "both directions", False: "one direction"}
    has = (
        f"where the layer has {own.buckets:,} in {ways[own.bidirectional]} up to distance "
        f"{own.max_distance:,}"
    )
    if found.word == "unknown":
        return f"The bias changes inside a bucket of T5, {has}."
    distance = f"{found.nearest:,}" if found.nearest == found.farthest else (
        f"any of {found.nearest:,} to {found.farthest:,}"
    )  # fmt: skip
    if found.word == "sign":
        return (
            f"Offsets have the wrong sign: buckets are of later keys, as of query minus key, {has}."
        )
    either = f", or {2 * found.buckets:,} in both directions" if found.past_alone else ""
    return (
        f"The bias has {found.buckets:,} buckets in {ways[found.bidirectional]}{either} with the maximum "
        f"distance {distance}, {has}."
    )


def mask_value_sentence(found: MaskValue) -> str:
    """Return what hidden keys have in place of minus infinity."""
    if found.word == "capped":
        return (
            f"The mask is added before the soft cap: hidden keys have {significant(found.value, 4)} in "
            "place of minus infinity, and keep some weight."
        )
    return (
        f"The mask adds {significant(found.value, 4)} to the logits of hidden keys, as where it is added "
        "before the scaling: they keep some weight."
    )


def masks_sentence(faults: tuple[MaskFault, ...]) -> str:
    """Return how the mask differs."""
    either = [each for each in faults if each.word in ("from position 0", "own key hidden")]
    others = [each for each in faults if each not in either]
    clauses = [joined([mask_words(each) for each in either], "or")] if either else []
    clauses += [mask_words(each) for each in others]
    text = ", and ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def record(match: LogitMatch) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    scale, slopes, cap = match.scale, match.slopes, match.cap
    return {
        "belongs": match.belongs,
        "sentences": match_sentences(match),
        "explained": match.explained,
        "weights": match.given.is_weights,
        "vectors": [*match.vectors],
        "softmax_scale": match.rule.softmax_scale,
        "scales": match.scales.tolist(),
        "scale_errors": match.scale_errors.tolist(),
        "scale_ratio": None if scale is None else scale.ratio,
        "scale_names": [] if scale is None else [_scale_record(name) for name in scale.names],
        "growth": None if match.growth is None else match.growth.word,
        "softcap": None if cap is None else cap.found,
        "slopes": None if slopes is None else slopes.values.tolist(),
        "expected_slopes": None if slopes is None else slopes.expected.tolist(),
        "slope_names": [] if slopes is None else [name.word for name in slopes.names],
        "buckets": None if match.buckets is None else match.buckets.word,
        "masks": [each.word for each in match.masks],
        "mask_value": None if match.mask_value is None else match.mask_value.value,
        "sink": match.sink,
        "largest_difference": match.most._asdict(),
    }


def _scale_record(name: ScaleName) -> dict[str, str]:
    return {"root": name.root.key or name.root.word, "factor": name.factor.word}
