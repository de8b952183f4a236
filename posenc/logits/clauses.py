"""Clauses on the causes that logits and biases show, for the sentences on them."""

from posenc.logits.mask import MaskFault
from posenc.logits.rule import Factor, Root
from posenc.logits.slopes import SlopeName
from posenc.text import count_of, significant

_NUMBER_WORDS = {
    "head_dim": "head_dim",
    "hidden_heads": "hidden_size / heads",
    "rotated": "the rotated width",
    "unrotated": "the unrotated width",
    "latent": "the width of the latent vector and its rotated part",
}
FACTORS = {
    "mscale_all_dim squared": "mscale_all_dim's factor squared",
    "mscale_all_dim once": "mscale_all_dim's factor once",
    "mscale_all_dim twice": "mscale_all_dim's squared factor twice",
    "mscale squared": "mscale's factor squared",
}


def root_words(root: Root, factor: Factor) -> str:
    """Return how a softmax scale is made."""
    if root.word == "one":
        words = "1"
    elif root.word == "reciprocal":
        words = f"1/head_dim (1/{root.number:g})"
    elif root.word == "key":
        number = significant(root.number, 6)
        words = f"{root.key} ({significant(root.value, 4)})"
        if abs(root.number - round(root.number)) < 1e-9 * root.number:
            words = f"1/sqrt({number}) by {root.key}"
    else:
        words = f"1/sqrt({root.number:g}) by {_NUMBER_WORDS[root.word]}"
    if factor.word in FACTORS:
        words += f" times {significant(factor.value, 5)} ({FACTORS[factor.word]})"
    return words


def slope_words(name: SlopeName) -> str:
    """Return how slopes were made, as a clause."""
    match name.word:
        case "none":
            return "no bias reaches the logits"
        case "query alone":
            return "the bias is built over the query alone, at distance 0, and not over all keys"
        case "rank":
            return f"the slopes are those of tensor-parallel rank {name.number} of {name.of}"
        case "own heads":
            return (
                f"the slopes are those of a layer with {count_of(name.number, 'head')}, as where each of "
                f"{name.of} ranks counts its own"
            )
        case "repeated":
            return f"the slopes are those of {name.number:,} heads, {name.of:,} times"
        case "geometric":
            return "the slopes are 2^(-8 i/n) for every head, which holds for a power of two alone"
        case "from zero":
            return "the slopes begin one head late, at 1"
        case "one":
            return "all heads have the slope of the first"
        case "sorted":
            return (
                "the slopes are sorted, which changes heads where their number is no power of two"
            )
        case "reversed":
            return "the slopes are in the reverse order"
        case "positive":
            return "the bias has the wrong sign: it rises with the distance"
        case "scaled":
            return "the bias is multiplied by the softmax scale, as where it is added before the scaling"
        case "not scaled":
            return "the bias is not multiplied by the softmax scale, where the layer's is"


def mask_words(fault: MaskFault) -> str:
    """Return how a mask differs, as a clause."""
    match fault.word:
        case "no causal mask":
            return "no causal mask hides later keys"
        case "causal mask":
            return "the mask is causal, where the layer sees both sides"
        case "sees later keys":
            off = fault.found - fault.expected
            extra = count_of(off, "key")
            return f"the causal mask is off by {off:,}: a query sees {extra} after its own"
        case "own key hidden":
            return f"the causal mask is off by {fault.found:,}: a query does not see its own key"
        case "from position 0":
            return (
                f"the mask takes queries from position 0 on, though {count_of(fault.found, 'cached key')} "
                "precede them"
            )
        case "no window":
            return f"no window hides far keys, where the layer's is {count_of(fault.expected, 'token')}"
        case "another window":
            size = f"a query sees {count_of(fault.found, 'key')} up to its own"
            own = (
                f"the layer's window has {fault.expected:,}"
                if fault.expected
                else "the layer has no window"
            )
            off = fault.found - fault.expected
            return (
                f"the window is off by {abs(off)}: {size}, {own}"
                if abs(off) == 1
                else f"{size}, {own}"
            )
        case "chunks":
            own = f"a window of {fault.expected:,} tokens" if fault.expected else "no window"
            length = count_of(fault.found, "token")
            return f"the text is cut into chunks of {length}, where the layer has {own}"
        case "other chunks":
            length = count_of(fault.found, "token")
            return f"the text is cut into chunks of {length}, where the layer's have {fault.expected:,}"
        case "no chunks":
            length = count_of(fault.expected, "token")
            return f"the text is not cut into chunks, where the layer's have {length}"
        case "window for chunks":
            return (
                f"a window of {count_of(fault.found, 'token')} slides, where the layer has chunks of "
                f"{fault.expected:,}"
            )
        case "padding":
            return f"the first {count_of(fault.found, 'key')} are hidden from all queries, as padding is"
        case "heads differ":
            return f"heads have different masks, head {fault.head:,} first in query {fault.query:,}"
        case "irregular":
            return f"the mask differs from the layer's first in query {fault.query:,}, key {fault.key:,}"
