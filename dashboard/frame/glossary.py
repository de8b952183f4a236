"""The terms that pages use and that are this project's own or have several meanings elsewhere."""

TERMS = {
    "A and B": "Two settings that are compared: A is pinned, B is the current one. "
    "A difference is B minus A.",
    "Base": "The number from which the frequencies of sinusoidal and RoPE are made; 10,000 in the papers.",
    "Extrapolation": "Use of a model on texts longer than its training length.",
    "Frequency": "Radians per token by which a pair rotates. Pair 0 is the fastest.",
    "Head": "One of the parallel attentions of a layer. ALiBi gives each head its own slope.",
    "Model dimension": "Entries of a token's vector. RoPE acts on the dimensions per head instead.",
    "Offset": "Query position minus key position, with its sign; the distance is without it.",
    "Pair": "Two dimensions that share a frequency: a sine and a cosine, or one rotation.",
    "Position kernel": "The part of the attention logit or weight that positions decide when content is "
    "fixed, for every query and key.",
    "Position similarity": "The position kernel scaled to 1 where query and key have the same position.",
    "Residual": "What a fit leaves unexplained, relative to what it should explain: 0 is exact, 1 is no "
    "better than predicting zero.",
    "Training length": "Tokens of the longest text in training. Positions past it were never seen.",
    "Wavelength": "Tokens until a pair has turned once: 2 pi over its frequency.",
}


def text() -> str:
    """Return all terms as Markdown, in the order of the alphabet."""
    return "\n".join(f"- **{term}**: {meaning}" for term, meaning in TERMS.items())
