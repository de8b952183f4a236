"""Plain torch code that makes the right table in place of one that is wrong."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dashboard.script import to_python
from posenc import rope_frequencies
from posenc.frequencies import Frequencies
from posenc.identification import Identification
from posenc.identification.columns import Arrangement, Form
from posenc.identification.deviations import Kind, is_tensor2tensor, more_usual_base
from posenc.identification.differences import Differences
from posenc.identification.facts import ModelMatch, SchemeMatch
from posenc.identification.sentences import shown_base
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig

# The order of columns that was meant, by one that is wrong.
RIGHT_ORDERS = {
    "sh": "sc", "sn": "sc", "SC": "sc",
    "s+s+c+c": "c+c+s+s", "ss+cc": "cc+ss", "s+c": "c+s",
    "c+c+ss": "c+c+s+s", "cc+s+s": "cc+ss", "n+s": "c+s",
}  # fmt: skip
SINES_FIRST = {
    "c+s": "s+c",
    "cs": "sc",
}  # of a sinusoidal table, whose swapped columns are a cache's
BLOCKS = {
    "s": "sin", "c": "cos",
    "ss": "sin.repeat_interleave(2, 1)", "cc": "cos.repeat_interleave(2, 1)",
    "sc": "torch.stack((sin, cos), -1).flatten(1)", "cs": "torch.stack((cos, sin), -1).flatten(1)",
}  # fmt: skip
MOST_ROWS = 4_096  # of a table that are compared at once
# The line that mends a deviation, by its kind, and what is right there. Rows of zeros are padding, no
# mistake; and of a difference without a cause no line is known to be wrong.
MENDED = {
    "start": ("position", "row 0 stands for position 0"),
    "positions": ("position", "rows stand for positions 0, 1, 2, ..."),
    "angles": ("position", "float64 until sine and cosine are taken"),
    "exponent": ("frequency", "the exponent is 2m/d"),
    "scale": ("frequency", "no factor"),
    "sign": ("wave", "sine has its sign"),
    "size": ("wave", "numbers have their size"),
    "swapped": ("order", "sines and cosines have their own places"),
    "wrong pairs": ("order", "sine and cosine of a pair have one frequency"),
}


@dataclass(frozen=True)
class RightTable:
    """The table that is right: a scheme at positions 0 to `rows` - 1, its columns in an order.

    width: twice the pairs. columns: of the table, or of the cosines. skipped: whether the exponents are
    2m/(d - 2). config: a scaling, whose frequencies and attention factor replace those of `base`, or None.
    mended: the kinds of deviations.
    """

    rows: int
    width: int
    columns: int
    order: str
    form: Form
    dtype: torch.dtype
    base: float = 0.0
    skipped: bool = False
    config: RopeConfig | None = None
    mended: tuple[Kind, ...] = ()


def right_table(result: Identification, match: ModelMatch | None) -> RightTable | None:
    """Return the table that is right in place of one that is wrong with a named cause, else None.

    match: with the chosen model, if one is, whose table is then the right one.
    """
    if match is not None and (match.belongs or match.nearest is not None):
        return None if match.nearest is None or match.belongs else _of_model(result, match.nearest)
    if result.hypothesis is None or not MENDED.keys() & {each.kind for each in result.deviations}:
        return None
    usual, arrangement = result.usual_base, result.hypothesis.arrangement
    scaled = result.hypothesis.config
    if isinstance(
        result.config, ScaledRopeConfig
    ):  # the scale of linear scaling is in this one alone
        scaled = result.config
    return RightTable(
        rows=result.rows,
        width=2 * result.pairs,
        columns=result.width,
        order=_right_order(arrangement),
        form=arrangement.form,
        dtype=result.dtype,
        base=shown_base(result) if usual is None else usual.base,
        skipped=is_tensor2tensor(result.hypothesis, usual),
        config=scaled,
        mended=tuple(each.kind for each in result.deviations),
    )


def intended_table(result: Identification) -> RightTable | None:
    """Return the more usual table that a faultless one may be a mistake of, None for none.

    Base 100 has the numbers of base 10,000 with the exponent m/d; cosines before sines are a rotary cache,
    or a sinusoidal table that is swapped.
    """
    if result.hypothesis is None or result.deviations or result.hypothesis.config is not None:
        return None
    arrangement, base = result.hypothesis.arrangement, result.hypothesis.base
    if is_tensor2tensor(result.hypothesis, result.usual_base) or math.isinf(result.base_within):
        return None
    width, kinds = 2 * result.pairs, list[Kind]()
    order = arrangement.order
    if arrangement.form == "table" and order in SINES_FIRST:
        order = SINES_FIRST[order]
        kinds.append("swapped")
    usual = more_usual_base(base, width, result.base_within)
    if usual is not None:
        kinds.append("exponent")
    if not kinds:
        return None
    return RightTable(
        rows=result.rows,
        width=width,
        columns=result.width,
        order=order,
        form=arrangement.form,
        dtype=result.dtype,
        base=shown_base(result) if usual is None else usual.base,
        mended=tuple(kinds),
    )


def _of_model(result: Identification, nearest: SchemeMatch) -> RightTable:
    """Return the table of a model, in the order of the columns of the wrong one where a cache has it."""
    scheme, arrangement = nearest.scheme, result.arrangement
    form: Form = "cosines and sines"
    order = "cc+ss" if scheme.layout == "interleaved" else "c+c+s+s"
    if arrangement is not None and arrangement.scheme == "rope" and not nearest.wrong_layout:
        order, form = _right_order(arrangement), arrangement.form
    width = scheme.rotary_dim
    plain = scheme.attention_scaling() == 1 and torch.equal(
        scheme.frequencies().inv_freq, Frequencies.geometric(width, scheme.base).inv_freq
    )
    config = None if plain else scheme
    return RightTable(
        result.rows, width, 0, order, form, result.dtype, base=scheme.base, config=config
    )


def _right_order(arrangement: Arrangement) -> str:
    return RIGHT_ORDERS[arrangement.order] if arrangement.fault else arrangement.order


def off_by(right: RightTable, *parts: Tensor) -> Differences | None:
    """Return how far a table, or cosines and sines, are from the right ones; None for other shapes."""
    columns = sum(part.shape[1] for part in parts)
    found = Differences(columns)
    for start in range(0, right.rows, MOST_ROWS):
        made = torch.cat(numbers(right, start, min(start + MOST_ROWS, right.rows)), 1)
        given = torch.cat([part[start : start + MOST_ROWS].double() for part in parts], 1)
        if made.shape != given.shape:
            return None
        found.add((given - made).abs(), given, start)
    return found


def numbers(right: RightTable, start: int, stop: int) -> tuple[Tensor, ...]:
    """Return rows of the right table, or of its cosines and its sines, in float64: what `code` makes."""
    if right.config is None:
        step = torch.arange(0, right.width, 2, dtype=torch.float64)
        frequency, factor = right.base ** -(step / (right.width - 2 * right.skipped)), 1.0
    else:
        frequency, factor = rope_frequencies(right.config, length=right.rows)
    angle = torch.arange(start, stop, dtype=torch.float64)[:, None] * frequency
    waves = {"s": factor * angle.sin(), "c": factor * angle.cos()}
    blocks = [
        torch.stack([waves[letter] for letter in block], -1).flatten(1)
        for block in right.order.split("+")
    ]
    if right.form == "table":
        return (torch.cat(blocks, 1)[:, : right.columns or None],)
    half = len(blocks) // 2
    return torch.cat(blocks[:half], 1), torch.cat(blocks[half:], 1)


def code(right: RightTable) -> str:
    """Return plain torch code that makes a table, or cosines and sines; posenc gives a scaling alone.

    Over a line that mends a deviation a comment says what is right in it.
    """
    step = f"torch.arange(0, {right.width}, 2, dtype=torch.float64)"
    frequency = f"frequency = {right.base!r} ** -({step} / {right.width - 2 * right.skipped})"
    sizes = "cos, sin = angle.cos(), angle.sin()"
    imports = "import torch\n"
    if right.config is not None:
        imports = "import posenc\nimport torch\n"
        frequency = (
            f"config = {to_python(right.config)}\n"
            f"frequency, factor = posenc.rope_frequencies(config, length={right.rows})"
        )
        sizes = "cos, sin = factor * angle.cos(), factor * angle.sin()"
    lines = {
        "imports": imports,
        "position": f"position = torch.arange({right.rows}, dtype=torch.float64)",
        "frequency": frequency,
        "angle": "angle = position[:, None] * frequency",
        "wave": sizes,
        "order": _ordered(right),
    }
    notes: dict[str, list[str]] = {}
    for kind in dict.fromkeys(right.mended):
        if kind in MENDED:
            line, note = MENDED[kind]
            notes.setdefault(line, []).append(note)
    return "\n".join(
        f"# Corrected: {'; '.join(notes[name])}.\n{line}" if name in notes else line
        for name, line in lines.items()
    )


def _ordered(right: RightTable) -> str:
    """Return the code that puts sines and cosines in order, in the type of the numbers."""
    blocks = [BLOCKS[block] for block in right.order.split("+")]
    cast = "" if right.dtype == torch.float64 else f".to({right.dtype})"
    if right.form == "table":
        cut = f"[:, :{right.columns}]" if 0 < right.columns < right.width else ""
        return f"table = {_joined(blocks)}{cut}{cast}"
    half = len(blocks) // 2
    return f"cos, sin = {_joined(blocks[:half])}{cast}, {_joined(blocks[half:])}{cast}"


def _joined(blocks: list[str]) -> str:
    return blocks[0] if len(blocks) == 1 else f"torch.cat(({', '.join(blocks)}), 1)"
