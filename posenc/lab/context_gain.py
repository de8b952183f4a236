"""Loss of counts of the bytes before: how much the context of a text can help at all.

An n-gram model with Witten and Bell's interpolation (Bell, Witten, Cleary 1989, ACM Computing Surveys 21,
method C): after a context h that was seen N(h) times, before T(h) different bytes, a byte c has the
probability (N(hc) + T(h) p(c | shorter h)) / (N(h) + T(h)), from 1/256 without a context.
"""

import numpy as np
import numpy.typing as npt

from posenc.lab.corpus import Corpus

LONGEST = 12  # bytes of context; the loss of longer ones rises again on texts of some megabytes
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: a polynomial modulo 2^64 as the hash of a context
Hashes = npt.NDArray[np.uint64]


def context_losses(corpus: Corpus, longest: int = LONGEST) -> list[float]:
    """Return the loss of the validation text in nats per byte after 0, 1, ..., `longest` bytes of context.

    Counted in the training text. The first `longest` bytes of the validation text are not scored.
    """
    train, scored = corpus.train.numpy(), corpus.validation.numpy()
    seen, asked = _empty(train), _empty(scored)
    likelihood = np.full(len(scored), 1 / 256)
    losses = []
    for order in range(longest + 1):
        longer, wanted = _with(seen, train), _with(asked, scored)
        likelihood = _interpolated(likelihood, seen, longer, asked, wanted)
        losses.append(-float(np.log(likelihood[longest - order :]).mean()))
        # The context before the next byte ends with this one.
        seen, asked = longer[:-1], wanted[:-1]
        train, scored, likelihood = train[1:], scored[1:], likelihood[1:]
    return losses


def _empty(text: npt.NDArray[np.uint8]) -> Hashes:
    return np.zeros(len(text), dtype=np.uint64)


def _with(contexts: Hashes, text: npt.NDArray[np.uint8]) -> Hashes:
    """Return the hashes of contexts and the byte after each."""
    with np.errstate(over="ignore"):
        hashes: Hashes = contexts * _BASE + text.astype(np.uint64) + np.uint64(1)
    return hashes


def _interpolated(
    shorter: npt.NDArray[np.float64], seen: Hashes, longer: Hashes, asked: Hashes, wanted: Hashes
) -> npt.NDArray[np.float64]:
    """Return the probability of every asked byte after its context, from that after a shorter one."""
    pairs, first, counts = np.unique(longer, return_index=True, return_counts=True)
    contexts, kinds = np.unique(seen[first], return_counts=True)
    totals = np.bincount(np.searchsorted(contexts, seen), minlength=len(contexts))
    of_pair = _looked_up(pairs, counts, wanted)
    of_context, different = _looked_up(contexts, totals, asked), _looked_up(contexts, kinds, asked)
    known = of_context > 0
    result = shorter.copy()
    result[known] = (of_pair[known] + different[known] * shorter[known]) / (
        of_context[known] + different[known]
    )
    return result


def _looked_up(keys: Hashes, values: npt.NDArray[np.int64], asked: Hashes) -> npt.NDArray[np.int64]:
    """Return the value of each asked key, 0 for one that is not there."""
    place = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    found: npt.NDArray[np.int64] = np.where(keys[place] == asked, values[place], 0)
    return found
