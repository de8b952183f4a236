"""Terms that pages use without a definition beside them."""

from dashboard import run_losses

TERMS = {
    "A and B": "Two settings that are compared: A is pinned, B is the current one. "
    "A difference is B minus A.",
    "Base": "The number that sets the frequencies of sinusoidal and RoPE; 10,000 in the papers.",
    "Causal mask": "Hides later tokens: a query sees the key at its own position and those before it.",
    "Equivariant": "Reordering the inputs reorders the outputs and changes nothing else. "
    "Invariant: reordering the inputs changes nothing at all.",
    "Explained variance": "The share of the variance of vectors (their spread around the mean) along a "
    "component. Shares of several components add up.",
    "Extrapolation": "Use of a model on texts longer than its training length.",
    "Frequency": "Radians per token by which a pair rotates. Pair 0 is the fastest.",
    "Head": "One of the parallel attentions of a layer. ALiBi gives each head its own slope.",
    "Holds, degrades, breaks": "How a model does past its training length, by the worst of all longer "
    "contexts. A number beside it is the change at the longest one. "
    + f"{run_losses.rules()} {run_losses.rules_in_percent()}",
    "Hook": "One of the three places where a scheme acts on attention: embed changes token vectors, rotate "
    "changes queries and keys, bias is added to logits.",
    "Logit": "The score of a query and a key. Softmax turns the logits of a query into attention weights.",
    "Loss": "Minus the logarithm of the probability that a model assigns to the correct next token, as a "
    "mean over tokens. Lower is better. The small models here read bytes, so it is per byte.",
    "Model dimension": "Entries in the vector of a token. RoPE acts on the dimensions per head instead.",
    "Nats": "Unit of a loss in natural logarithms. 1 nat is 1.44 bits.",
    "NoPE": "No positional encoding: the causal mask alone tells an order.",
    "Offset": "Query position minus key position, with its sign; the distance is without it.",
    "Of the largest entry": "A change divided by the largest magnitude before the change: 1 is a change as "
    "large as that entry. Of the largest logit: the same of logits.",
    "Pair": "Two dimensions that share a frequency: a sine and a cosine, or one rotation.",
    "Perplexity": "The exponential of the loss: 2 means as unsure as between 2 equally likely tokens.",
    "Position kernel": "The part of the attention logit or weight that positions decide when content is "
    "fixed, for every query and key.",
    "Position similarity": "The position kernel scaled to 1 where query and key have the same position.",
    "Query and key": "Two vectors of each token. A token attends to another by the logit of its own query "
    "and the other's key.",
    "Residual": "What a fit leaves unexplained, relative to what it should explain: 0 is exact, 1 is no "
    "better than predicting zero.",
    "Training length": "Tokens of the longest text in training. Training shows no position past it.",
    "Wavelength": "Tokens until a pair completes one turn: 2 pi over its frequency.",
}
