"""The layout and width of a rotation of vectors, in words."""

from posenc.frequencies import Layout
from posenc.identification.rotated import VectorRotation


def layout_sentence(rotation: VectorRotation) -> str:
    """Return which features of vectors are rotated, and in which pairs."""
    layout, features, width = rotation.layout, rotation.features, rotation.width
    if rotation.permuted:
        return _permuted_sentence(rotation)
    if layout is None:
        if not rotation.norm_change:
            return "Nothing is rotated: no feature changes."
        change = rotation.norm_change
        return (
            "These features are not rotated in pairs: the norms of pairs change by "
            f"{change['half']:.0%} as halves and by {change['interleaved']:.0%} as neighbours."
        )
    if features <= 2:
        return "One pair is rotated, so both layouts are the same."
    first, end = rotation.first, rotation.first + features
    if features == width:
        share = f"all {width:,}"
    elif first and end < width:
        share = f"{features:,} of {width:,}, from feature {first:,} on,"
    else:
        share = f"the {'last' if first else 'first'} {features:,} of {width:,}"
    moved = "" if rotation.layout_after == layout else " They come out as halves."
    return f"The layout is {layout_words(layout, features)}; {share} features are rotated.{moved}"


def _permuted_sentence(rotation: VectorRotation) -> str:
    places = ("halves", "neighbours")
    before, after = places if rotation.layout_after == "interleaved" else reversed(places)
    where = f"over all {rotation.width:,} features"
    if rotation.permuted < rotation.width:
        where = (
            f"in parts of {rotation.permuted:,}, not of {rotation.width:,}: weights are permuted with "
            f"{rotation.width // rotation.permuted:,} times too many heads, such as those of queries in "
            "place of those of keys"
        )
    turned = f"They are rotated as {after}." if rotation.layout else "Nothing is rotated."
    return f"Features change places, from {before} to {after}, {where}. {turned}"


def layout_words(layout: Layout, features: int) -> str:
    """Return which features form a pair."""
    if layout == "half":
        return f"halves (feature m with m + {features // 2:,})"
    return "neighbours (feature 2m with 2m + 1)"
