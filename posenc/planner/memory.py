"""The tokens that fit in a memory beside the weights: the inverse of the size of the KV cache."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from posenc.errors import SchemeArgumentError, quoted
from posenc.limits import check_count
from posenc.models.model_config import BLOCK, MAX_CONTEXT, NUMBER_BYTES, ModelConfig
from posenc.planner.facts import TEMPLATES, Fact, say
from posenc.text import significant

UNITS = {
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
SIZE = rf"(?i:[0-9]{{1,6}}(?:\.[0-9]{{1,3}})? ?(?:{'|'.join(UNITS)}))"
SIZE_IN_WORDS = "a number with a unit, KiB, MiB, GiB, TiB, kB, MB, GB or TB, such as 24GiB"
MAX_BATCH = 65_536
MAX_MEMORY = 10**6 * UNITS["TiB"]
TYPE = "bfloat16"  # of the sentence; the table has every number type
RESERVATION_HELP: dict[str, str] = {
    column["title"]: column["help"] for column in TEMPLATES["reservations"].values()
}


@dataclass(frozen=True)
class Reservation:
    """The memory that a server reserves for a sequence; fields as in `ModelConfig.cache_numbers`."""

    windows: bool
    block: int


RESERVATIONS = {
    "tokens": Reservation(windows=True, block=1),
    "blocks": Reservation(windows=True, block=BLOCK),
    "every_token": Reservation(windows=False, block=1),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryBudget:
    """The tokens of each sequence that fit in a memory beside the weights.

    memory, weights: bytes. batch: sequences at a time. context: tokens to compare with, None for none.
    one_token: bytes of the cache of all sequences at one token, in bfloat16. tokens: by reservation and
    number type; 0 where not even one token fits, 2^24 where that many tokens fit and perhaps more.
    """

    memory: int
    weights: int
    batch: int
    context: int | None
    one_token: int
    tokens: dict[str, dict[str, int]]


def parse_size(name: str, text: str) -> int:
    """Return a size such as 24GiB or 1.5 GB in whole bytes. Raises SchemeArgumentError.

    name: of the argument, for the error.
    """
    if not re.fullmatch(SIZE, text, re.ASCII):
        raise SchemeArgumentError(f"{name} must be {SIZE_IN_WORDS}, got {quoted(text)}.")
    number, unit = re.split(r" ?(?=[A-Za-z])", text, maxsplit=1)
    by_unit = {name.lower(): size for name, size in UNITS.items()}
    return int(Decimal(number) * by_unit[unit.lower()])


def memory_budget(
    model: ModelConfig, memory: int | str, *, weights: int | str = 0, batch: int = 1,
    context: int | None = None,
) -> MemoryBudget:  # fmt: skip
    """Return how many tokens of each of `batch` sequences fit in a memory, beside the weights.

    memory, weights: bytes, or a text such as "24GiB". context: tokens to compare with, by default the
    context that the config names. Activations, the scales of an 8-bit cache and what a server keeps for
    itself are not counted. Raises SchemeArgumentError.
    """
    total, taken = _bytes("memory", memory), _bytes("weights", weights)
    check_count("batch", batch, 1, MAX_BATCH)
    if context is not None:
        check_count("context", context, 1, MAX_CONTEXT)
    left = total - taken
    return MemoryBudget(
        memory=total,
        weights=taken,
        batch=batch,
        context=model.context if context is None else context,
        one_token=batch * NUMBER_BYTES[TYPE] * model.cache_numbers(1),
        tokens={
            name: {
                number_type: _tokens(model, left // (batch * size), reservation)
                for number_type, size in NUMBER_BYTES.items()
            }
            for name, reservation in RESERVATIONS.items()
        },
    )


def _bytes(name: str, size: int | str) -> int:
    """Return a size in bytes. name: of the argument, for the error."""
    if isinstance(size, str):
        return parse_size(name, size)
    return check_count(name, size, 0, MAX_MEMORY)


def _tokens(model: ModelConfig, numbers: int, reservation: Reservation) -> int:
    """Return the largest length up to 2^24 whose cache has at most so many numbers; 0 for none."""

    def cached(length: int) -> int:
        return model.cache_numbers(length, windows=reservation.windows, block=reservation.block)

    return bisect_right(range(1, MAX_CONTEXT + 1), numbers, key=cached)


def budget_sentence(budget: MemoryBudget) -> str:
    """Return in one sentence how many tokens fit in bfloat16, and whether that is the context."""
    fits = {name: tokens[TYPE] for name, tokens in budget.tokens.items()}
    tokens, least, context = fits["tokens"], min(fits.values()), budget.context
    left = budget.memory - budget.weights
    numbers: dict[str, Any] = {
        "memory": _size_text(budget.memory),
        "weights": _size_text(budget.weights),
        "left": _size_text(left),
        "one_token": _size_text(budget.one_token),
        "tokens": tokens,
        "least": least,
        "where": Fact("in_windows" if least == fits["every_token"] else "in_blocks", {}),
        "context": context,
        "sequences": Fact("one_sequence" if budget.batch == 1 else "each_sequence", vars(budget)),
    }
    if left <= 0:
        word = "no_memory"
    elif not tokens:
        word = "no_token"
    elif context is None:
        word = "every_length" if least == MAX_CONTEXT else "no_context"
    elif tokens < context:
        word = "part_of_context"
    elif least < context:
        word = "whole_context_alone"
    else:
        word = "every_length" if least == MAX_CONTEXT else "whole_context"
    return say("memory", Fact(word, numbers))


def not_counted(budget: MemoryBudget) -> str:
    """Return what takes memory and is not counted; the weights first, where no size of them is given."""
    words = TEMPLATES["memory"]
    return ("" if budget.weights else words["no_weights"]) + words["not_counted"]


def budget_rows(budget: MemoryBudget) -> list[dict[str, str | int]]:
    """Return a row for each number type: its name, and the tokens that fit by each reservation.

    The reservation without windows is left out where it is that of the tokens.
    """
    by_reservation = dict(budget.tokens)
    if by_reservation["every_token"] == by_reservation["tokens"]:
        del by_reservation["every_token"]
    titles = TEMPLATES["reservations"]
    return [
        {"number type": number_type}
        | {titles[name]["title"]: tokens[number_type] for name, tokens in by_reservation.items()}
        for number_type in NUMBER_BYTES
    ]


def budget_record(budget: MemoryBudget) -> dict[str, Any]:
    """Return a budget as JSON, sizes in bytes."""
    return {
        "memory": budget.memory,
        "weights": budget.weights,
        "batch": budget.batch,
        "context": budget.context,
        "sentence": budget_sentence(budget),
        "tokens": budget.tokens,
    }


def _size_text(size: int) -> str:
    """Return bytes as GiB, and below one as MiB."""
    unit = "GiB" if size >= UNITS["GiB"] else "MiB"
    return f"{significant(size / UNITS[unit], 4)} {unit}"
