"""Answers of a module that is called as module(x, position_ids), at positions over a whole context.

Code that is right in short texts fails at single positions: float16 has no odd number past 2,048, a cache
ends, a position is clamped. So the positions around each power of two are asked for, the last and some at
random, in order, in another order and repeated.
"""

import copy
import inspect
from collections.abc import Collection
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from posenc.hook_arguments import is_real
from posenc.identification.columns import TableInput

CONTEXT = 131_072  # of many models, and twice the largest number of float16
IN_ORDER = 2_048  # positions that are asked for one after the other
RANDOM = 32  # positions of a text, beside those around powers of two
NOT_FINITE = 2.0**99  # stands for NaN and infinity
_ERRORS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)


Order = Literal["first two", "in order", "rising", "shuffled"]


class Question(NamedTuple):
    """Positions that a module is asked for in one call, and which these are.

    positions (rows,): 0 and 1, the first ones "in order", some of a text "rising", or those "shuffled".
    """

    positions: Int[Tensor, " t"]
    order: Order = "in order"


class Answer(NamedTuple):
    """Rows of cosines and sines, and the positions of which they are."""

    source: TableInput
    question: Question

    @property
    def positions(self) -> Int[Tensor, " t"]:
        """The position of every row."""
        return self.question.positions

    @property
    def length(self) -> int:
        """Number of positions of a text that ends with the last of these."""
        return max(int(self.positions.max()) + 1, 1)


class Refusal(NamedTuple):
    """A call that returned no row for each position, and the error that it raised, "" for none."""

    question: Question
    error: str = ""


class Asked(NamedTuple):
    """Answers of a module, call by call, or a table that is held.

    in_order, lengths: how many positions were asked for in order, and the lengths of texts; 0 and () of a
    table. refused: the call without an answer, None if each had one.
    """

    answers: list[Answer]
    in_order: int = 0
    lengths: tuple[int, ...] = ()
    refused: Refusal | None = None


def takes_positions(module: nn.Module) -> bool:
    """Whether the second argument of a module is named as positions are."""
    names = [*inspect.signature(module.forward).parameters]
    return len(names) > 1 and "pos" in names[1]


def layer_types(module: nn.Module) -> list[str]:
    """Return the kinds of layers that a module has frequencies for, [""] if it tells none apart."""
    names = [name.rpartition(".")[2] for name, _ in module.named_buffers()]
    kinds = [name.removesuffix("_inv_freq") for name in names if name.endswith("_inv_freq")]
    return [kind for kind in kinds if not kind.endswith("original")] or [""]


def ask(
    module: nn.Module, context: int, trained_lengths: Collection[int], layer_type: str = ""
) -> Asked:
    """Return a module's cosines and sines at positions below `context`, up to a call that returns none.

    trained_lengths: lengths of texts at which a scaling changes; texts of such a length, of one more and
    of `context` are asked for, the shortest first, as a module may keep the frequencies of the longest.
    """
    module = copy.deepcopy(module)  # calls may change its frequencies
    changes = {n for length in trained_lengths for n in (length, length + 1) if 2 <= n < context}
    in_order = min(IN_ORDER, context, *changes)
    lengths, draw = [*sorted(changes), context], torch.Generator().manual_seed(0)
    rising = [spread(length, draw) for length in lengths]
    both = rising[-1].repeat(2)
    questions = [
        Question(torch.arange(2), "first two"),
        Question(torch.arange(in_order), "in order"),
        *(Question(positions, "rising") for positions in rising),
        Question(both[torch.randperm(len(both), generator=draw)], "shuffled"),
    ]
    asked = Asked([], in_order, tuple(lengths))
    for question in questions:
        try:
            output = _call(module, question.positions, layer_type)
        except _ERRORS as reason:  # of code that is not ours
            return asked._replace(refused=Refusal(question, f"{type(reason).__name__}: {reason}"))
        if output is None:
            return asked._replace(refused=Refusal(question))
        asked.answers.append(Answer(output, question))
    return asked


def spread(length: int, draw: torch.Generator) -> Int[Tensor, " t"]:
    """Return the powers of two below `length`, their neighbours, the last position and random ones."""
    powers = 2 ** torch.arange(length.bit_length())
    random = torch.randint(length, (RANDOM,), generator=draw)
    last = torch.tensor([length - 1])
    positions = torch.cat((powers - 1, powers, powers + 1, last, random)).unique()
    return positions[positions < length]


def _call(module: nn.Module, positions: Int[Tensor, " t"], layer_type: str) -> TableInput | None:
    x = torch.zeros(1, len(positions), 1)
    kinds = {"layer_type": layer_type} if layer_type else {}
    with torch.no_grad():
        output = module(x, positions.unsqueeze(0), **kinds)
    if isinstance(output, Tensor) and output.is_complex():  # as DeepSeek V2 and Llama 4
        output = (output.real, output.imag)
    if not isinstance(output, tuple) or len(output) != 2 or not all(map(is_real, output)):
        return None
    finite = [part.nan_to_num(NOT_FINITE, NOT_FINITE, -NOT_FINITE) for part in output]
    source = TableInput.of(finite[0], finite[1])
    return source if len(source.columns) == len(positions) else None
