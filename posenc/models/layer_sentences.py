"""Name and notes of the layers of one kind, of their facts."""

from collections.abc import Iterator

from posenc.models.layer_facts import INDEXES, LayerFacts

NO_ROPE = "no_rope"
_STATE = "A state does not grow with the text; it is counted in the number type of the cache."


def name_of(facts: LayerFacts) -> str:
    """Return the name of some layers, in the words of configs."""
    if not facts.in_blocks:
        name = "all" if facts.is_only else facts.word
        return ", ".join(filter(None, (facts.stack, name))).removesuffix(", all") or name
    word = INDEXES[0] if facts.word in INDEXES else facts.word
    parts = [word]
    if facts.lacks_rope:
        parts = [NO_ROPE] if facts.is_full else [word, NO_ROPE]
    if facts.source is not None:
        parts.append("shared cache")
    if facts.bases_differ:
        parts.append(f"base {facts.base:,.10g}")
    if facts.word == "shared_index":
        parts.append("shared index")
    return ", ".join(parts)


def unsupported(facts: LayerFacts, state: int) -> str:
    """Return what layers without attention do instead, "" for others. state: numbers that they keep."""
    if facts.has_attention:
        return ""
    if facts.word == "cross_attention":
        return "Queries see the picture alone, whose keys and values do not grow with the text."
    keeps = f"a state of {state:,} numbers per sequence" if state else "nothing is kept"
    return f"No attention: {keeps}."


def notes_of(facts: LayerFacts, state: int) -> Iterator[str]:
    """Yield what some layers do in addition to their scheme. state: numbers that they keep."""
    if not facts.has_attention:
        yield from (_STATE,) if state else ()
        return
    if facts.latent is not None:
        yield _latent_note(*facts.latent, facts.rotates)
    yield from facts.own_notes
    if facts.base:
        yield "layer_rope_theta sets the base of each layer: a new rope_theta alone has no effect."
    if facts.source is not None:
        yield f"These layers use the keys and values of layer {facts.source} and cache none."
    if facts.word == "shared_index":
        yield "These layers see the tokens that the index of an earlier layer chose."
    if state:
        yield f"Each layer also keeps a state of {state:,} numbers per sequence. {_STATE}"


def _latent_note(rotated: int, width: int, latent: int, rotates: bool) -> str:
    are, key = "are rotated", "the rotated key"
    if not rotates:
        are, key = "are not rotated either", "the key of these"
    return (
        f"The last {rotated} features of a head of {width} {are}, and all heads share {key}; a token's "
        f"cache is one latent vector of {latent} and that key."
    )
