"""What was identified, in sentences and as a record."""

import math
from typing import Any

from posenc.identification.deviations import published
from posenc.identification.identify import FITS, Identification
from posenc.identification.ladders import Guess
from posenc.identification.starts import EARLIEST_START, LATEST_START
from posenc.words import counted

_TIMESTEP_BASE = 10_000.0  # of diffusion models, which have no other
_SHORT = {
    "torch.float64": "float64",
    "torch.float32": "float32",
    "torch.float16": "float16",
    "torch.bfloat16": "bfloat16",
}


def headline(found: Identification) -> str:
    """Return what a table is, in one sentence."""
    shape = f"{found.rows:,} x {found.width:,}"
    if found.guess is None or found.arrangement is None:
        return (
            f"None of these: of the sinusoidal tables and rotary caches tried, from positions "
            f"{EARLIEST_START} to {LATEST_START:,}, none comes nearer to this {shape} table than "
            f"{found.residual:.0%} of its size."
        )
    arrangement = found.arrangement
    base = f"base {base_words(found)}"
    faults = [one for one in found.deviations if one.kind not in ("padding", "start")]
    but = f", but {counted(len(faults), 'thing')} departs" if len(faults) == 1 else ""
    but = f", but {counted(len(faults), 'thing')} depart" if len(faults) > 1 else but
    return f"{scheme_name(found)}, {base}, {arrangement.words}, from position {found.guess.start:,}{but}."


def scheme_name(found: Identification) -> str:
    """Return what an identified table is called; where two uses make the same numbers, both."""
    assert found.guess is not None
    guess = found.guess
    cosines_first = guess.arrangement.name == "cosines_first"
    if published(guess, found.reading):
        if cosines_first:
            return "Tensor2Tensor's sinusoidal, cosines first (flip_sin_to_cos in diffusers)"
        return "Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM)"
    if found.config is not None:
        name = found.config.label
    else:
        name = "Sinusoidal" if guess.arrangement.scheme == "sinusoidal" else "RoPE"
    if cosines_first:
        name += " cache in one tensor (as in vLLM)"
        if guess.base == _TIMESTEP_BASE and type(guess) is Guess:
            name += " or timestep embedding with flip_sin_to_cos (as in Stable Diffusion)"
    return name


def base_words(found: Identification) -> str:
    """Return the base with as many digits as the table shows, or a usual one with its exponent."""
    assert found.guess is not None
    if found.reading is not None:
        return f"{found.reading.base:,.6g} with the exponent {found.reading.exponent}"
    if math.isinf(found.base_within):
        return "of any size"
    digits = 12 if found.base_within < 1e-12 else max(2, math.ceil(-math.log10(found.base_within)))
    return f"{float(f'{found.guess.base:.{min(digits, 12)}g}'):,.12g}"


def fit_sentence(found: Identification) -> str:
    """Return how near the formula comes."""
    if found.guess is None:
        return (
            f"A table is taken for a formula's where what is left is under {FITS:.0%} of its size."
        )
    row, column = found.worst
    of = ""
    if found.arrangement is not None and found.arrangement.form != "table":
        of = " of the sines" if column >= found.width else " of the cosines"
        column %= found.width
    if found.largest == 0:
        return f"Made like that, every number is the same; all are {_SHORT[str(found.written)]}."
    low = found.recipe is not None and found.recipe.low
    largest = "Made like that, the largest difference is" if low else "Largest difference"
    return (
        f"{largest} {found.largest:.2g} (row {row:,}, column {column:,}{of}), root mean square "
        f"{found.residual:.2g} of the table's size; its numbers are {_SHORT[str(found.written)]}."
    )


def record(found: Identification) -> dict[str, Any]:
    """Return everything that was found, as JSON holds it."""
    guess, arrangement = found.guess, found.arrangement
    within = None if math.isinf(found.base_within) else found.base_within
    return {
        "identified": headline(found),
        "config": None if found.config is None else found.config.record(),
        "arrangement": None if arrangement is None else arrangement.words,
        "layout": None if arrangement is None else arrangement.layout,
        "base": None if guess is None else guess.base,
        "base_within": within,
        "start": None if guess is None else guess.start - found.padding,
        "scale": None if guess is None else guess.scale,
        "size": None if guess is None else guess.size,
        "sense": None if guess is None else guess.sense,
        "angles": None if found.recipe is None else found.recipe.words,
        "format": _SHORT[str(found.written)],
        "rows": found.rows,
        "width": found.width,
        "residual": found.residual,
        "largest_difference": None if guess is None else found.largest,
        "row": None if guess is None else found.worst[0],
        "column": None if guess is None else found.worst[1],
        "deviations": [{"kind": one.kind, "sentence": one.sentence} for one in found.deviations],
        "also": list(found.also),
    }
