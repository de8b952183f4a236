"""The orders of columns, ways of computing angles and other descriptions of a table, in words."""

from typing import Any

import torch

from posenc.identification.columns import Arrangement, Form
from posenc.identification.deviations import Alternative
from posenc.identification.frequency_fit import Recipe
from posenc.identification.scalings import scaling_words
from posenc.text import significant

ORDERS: dict[Form, dict[str, str]] = {
    "table": {
        "sc": "sine and cosine side by side",
        "s+c": "all sines, then all cosines",
        "sh": "sine and cosine side by side, each column with a frequency of its own",
        "sn": "sine and cosine side by side, each cosine with the next pair's frequency",
        "SC": "sine and cosine side by side, the frequencies in the order of halves",
        "c+c": "cosines alone, halves repeated",
        "cc": "cosines alone, neighbours repeated",
        "c": "cosines alone, one for each pair",
        "s+s": "sines alone, halves repeated",
        "ss": "sines alone, neighbours repeated",
        "s": "sines alone, one for each pair",
        "c+s": "all cosines, then all sines",
        "cs": "cosine and sine of each pair side by side",
        "c+c+s+s": "cosines, then sines, halves repeated, in one tensor",
        "cc+ss": "cosines, then sines, neighbours repeated, in one tensor",
        "s+s+c+c": "sines, then cosines, halves repeated, in one tensor",
        "ss+cc": "sines, then cosines, neighbours repeated, in one tensor",
    },
    "cosines and sines": {
        "c+c+s+s": "cosines and sines, halves repeated",
        "cc+ss": "cosines and sines, neighbours repeated",
        "c+s": "cosines and sines, one of each for a pair",
        "s+s+c+c": "cosines and sines, halves repeated",
        "ss+cc": "cosines and sines, neighbours repeated",
        "s+c": "cosines and sines, one of each for a pair",
        "c+c+ss": "cosines in halves, sines in neighbours",
        "cc+s+s": "cosines in neighbours, sines in halves",
        "n+s": "one cosine and sine for a pair, the cosine with the next pair's frequency",
    },
}
FAULTS = {
    "swapped": "sines and cosines have changed places",
    "wrong pairs": "cosines and sines of a pair differ in frequency",
}
ALSO = {
    "cache": "a rotary cache in one tensor, sines first (GPT-J)",
    "swapped table": "a sinusoidal table whose sines and cosines have changed places",
}
_FREQUENCIES = {
    "powers": "as float32 powers of the base",
    "exponentials": "as float32 exponentials of logarithms",
    "exact": "rounded to float32 once",
}


def order_words(arrangement: Arrangement) -> str:
    """Return the order of the columns."""
    return ORDERS[arrangement.form][arrangement.order]


def angle_words(recipe: Recipe) -> str:
    """Return the format that angles, or the frequencies alone, were rounded to."""
    if recipe.angle == torch.float32 and recipe.stored != torch.float32:
        return f"frequencies kept in {_name(recipe.stored)}"
    return f"{_name(recipe.angle)} angles" if recipe.low else "angles right to the last bit"


def recipe_words(recipe: Recipe) -> str:
    """Return how the angles were computed; of float32 ones, the frequencies, too."""
    words = angle_words(recipe)
    if recipe.stored != torch.float32:
        return words
    return f"{words}, the frequencies {_FREQUENCIES[recipe.frequencies]}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def alternative_words(alternative: Alternative) -> str:
    """Return what else the numbers of a table may be."""
    word: str = alternative.word
    values: tuple[Any, ...] = alternative.values
    match word, values:
        case "order", (arrangement,):
            return ALSO[arrangement.also]
        case "scaling", (config,):
            return f"{config.label} ({scaling_words(config)})"
        case "more scalings", (count,):
            return f"one of {count:,} other scalings"
        case "published exponent", (base,):
            return f"base {significant(base, 6)} with the exponent 2m/d of Vaswani et al. 2017"
        case "any base", ():
            return "the same with any other base, which one pair does not show"
        case "exponent", (base, exponent):
            return f"base {significant(base, 6)} with the exponent {exponent} in place of 2m/d"
        case "NTK", (config,):
            return f"NTK-aware scaling of base {significant(config.base, 6)} by {config.factor:g}"
    raise ValueError(f"No description has the word {word!r} and {len(values)} values.")
