"""PyTorch code of the formula from which a checked table deviates, and of each use of a table with two."""

from posenc.frequencies import Layout
from posenc.identification import Identification
from posenc.identification.columns import Arrangement
from posenc.identification.deviations import Deviation
from posenc.identification.identify import base_words
from posenc.schemes.rope import RopeConfig

# Orders of columns that are mistakes, with the order that is meant.
_INTENDED = {
    "sh": "sc", "sn": "sc", "SC": "sc", "s+s+c+c": "c+c+s+s", "ss+cc": "cc+ss",
    "s+c": "c+s", "c+c+ss": "c+c+s+s", "cc+s+s": "c+c+s+s", "n+s": "c+s",
}  # fmt: skip
_PLAIN = """\
import torch

rows, dim, base = {rows}, {dim}, {base!r}
inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / {divisor}){scale}
"""
_SCALED = """\
import torch
from posenc.schemes import SCHEMES
from posenc.schemes.rope import rope_frequencies

rows = {rows}
inv_freq, factor = rope_frequencies(SCHEMES[{kind!r}]({fields}))
"""
_ANGLES = """\
angles = torch.arange(rows, dtype=torch.float64)[:, None] * inv_freq  # row 0 is position 0
cos, sin = {factor}angles.cos(), {factor}angles.sin()  # float64 up to here
"""

_ROTATION = """\
import torch


def rotate(x, cosines, sines):  # x: (..., positions, {features}), of the rotated features
    # cosines, sines: (positions, {pairs}), one of each for a pair
    first, second = {split}
    turned = first * cosines {signs[0]} second * sines, second * cosines {signs[1]} first * sines
    return {join}
"""
_SPLIT_AND_JOIN = {
    "half": ("x.chunk(2, dim=-1)", "torch.cat(turned, dim=-1)"),
    "interleaved": ("x[..., 0::2], x[..., 1::2]", "torch.stack(turned, dim=-1).flatten(-2)"),
}
CORRECTED = "Corrected code"
# Orders whose numbers have two uses: what the code of each use makes.
_TWO_USES = {
    "s+c": {"As a sinusoidal table": "s+c", "As a rotary cache, sines first": "s+c"},
    "c+s": {"As a rotary cache": "c+s", "As a sinusoidal table": "s+c"},
    "cs": {"As a rotary cache": "cs", "As a sinusoidal table": "sc"},
}


def corrected_code(result: Identification) -> dict[str, str]:
    """Return code that makes an identified table without its deviations, by title; none if it has none.

    None either where the formula may be another: where the numbers of a cache are multiplied, as
    scalings do, or differ from the formula for no known reason. Of numbers with two uses, a sinusoidal
    table and a rotary cache, it has the code of each use.
    """
    arrangement = result.arrangement
    if arrangement is None or _may_be_another(result):
        return {}
    if arrangement.also and arrangement.also in result.also:
        return {
            title: _code(result, order) for title, order in _TWO_USES[arrangement.order].items()
        }
    order = _INTENDED[arrangement.order] if arrangement.fault else arrangement.order
    return {CORRECTED: _code(result, order)} if result.deviations else {}


def _may_be_another(result: Identification) -> bool:
    """Whether another formula, or a scaling of RoPE that is not compared, may be that of the table."""
    assert result.arrangement is not None
    assert result.hypothesis is not None
    if result.hypothesis.others:
        return True
    scaled = result.arrangement.scheme == "rope" and _has(result.deviations, "size")
    return scaled or any(deviation.doubtful for deviation in result.deviations)


def _code(result: Identification, order: str) -> str:
    """Return code that makes the table of a result with its columns in an order."""
    hypothesis, arrangement = result.hypothesis, result.arrangement
    assert hypothesis is not None
    assert arrangement is not None
    if hypothesis.config is not None:
        return scheme_code(hypothesis.config, result.rows, arrangement, order)
    names = _names(arrangement)
    dim = arrangement.columns(len(names) * result.width).dim
    scale = f" * {abs(hypothesis.scale):.12g}" if _is_scaled(result) else ""
    base, divisor = _base(result)
    code = _PLAIN.format(rows=result.rows, dim=dim, base=base, divisor=divisor, scale=scale)
    odd = order == "sc" and result.width % 2 == 1
    return code + _ANGLES.format(factor="") + _joined(names, order, odd=odd)


def scheme_code(
    scheme: RopeConfig, rows: int, arrangement: Arrangement, order: str | None = None
) -> str:
    """Return code that makes the cache of a scheme. order: of the columns; None is the arrangement's."""
    joined = _joined(_names(arrangement), order or arrangement.order)
    if type(scheme) is RopeConfig:  # without a scaling, no part of this library is needed
        base, dim = scheme.base, scheme.rotary_dim
        code = _PLAIN.format(rows=rows, dim=dim, base=base, divisor="dim", scale="")
        return code + _ANGLES.format(factor="") + joined
    code = _SCALED.format(rows=rows, kind=scheme.kind, fields=_fields(scheme))
    return code + _ANGLES.format(factor="factor * ") + joined


def rotation_code(layout: Layout, features: int, *, clockwise: bool = False) -> str:
    """Return code that rotates queries or keys in a layout."""
    signs = "+-" if clockwise else "-+"
    split, join = _SPLIT_AND_JOIN[layout]
    return _ROTATION.format(
        features=features, pairs=features // 2, split=split, join=join, signs=signs
    )


def _names(arrangement: Arrangement) -> tuple[str, ...]:
    return ("table",) if arrangement.form == "table" else ("cosines", "sines")


def _joined(names: tuple[str, ...], order: str, *, odd: bool = False) -> str:
    """Return code that joins cosines and sines to tables. odd: whether the last cosine is left out."""
    blocks = [_block(block) for block in order.split("+")]
    count = len(blocks) // len(names)
    code = ""
    for n, name in enumerate(names):
        own = blocks[n * count : (n + 1) * count]
        columns = own[0] if len(own) == 1 else f"torch.cat(({', '.join(own)}), dim=1)"
        code += f"{name} = {columns}{'[:, :-1]' if odd else ''}.float()\n"
    return code


def _block(letters: str) -> str:
    """Return the expression of one block of columns."""
    names = ["cos" if letter == "c" else "sin" for letter in letters]
    if len(names) == 1:
        return names[0]
    if names[0] == names[1]:
        return f"{names[0]}.repeat_interleave(2, dim=1)"
    return f"torch.stack(({', '.join(names)}), dim=-1).flatten(1)"


def _base(result: Identification) -> tuple[float, str]:
    """Return the base, and the divisor of its exponents: of a deviating exponent, those meant."""
    assert result.hypothesis is not None
    if result.usual_base is not None:  # if that is no deviation, it is Tensor2Tensor's
        divisor = "dim" if _has(result.deviations, "exponent") else "(dim - 2)"
        return result.usual_base.base, divisor
    words = base_words(result).replace(",", "")
    return float(words) if words[0].isdigit() else result.hypothesis.base, "dim"


def _is_scaled(result: Identification) -> bool:
    """Return whether the scheme itself multiplies every angle, as linear scaling does."""
    assert result.hypothesis is not None
    is_fault = _has(result.deviations, "exponent") or _has(result.deviations, "scale")
    return abs(result.hypothesis.scale) != 1.0 and not is_fault


def _has(deviations: tuple[Deviation, ...], kind: str) -> bool:
    return any(deviation.kind == kind for deviation in deviations)


def _fields(config: RopeConfig) -> str:
    usual = type(config)().record()
    values = {name: value for name, value in config.record().items() if value != usual.get(name)}
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
