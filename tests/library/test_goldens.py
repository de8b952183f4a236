"""Numbers computed elsewhere: by mpmath to 40 digits, by hand, or printed in the papers."""

import math

import pytest
import torch

from posenc import (
    alibi_bias,
    alibi_slopes,
    apply_rope,
    encoding,
    position_vectors,
    rope_tables,
    sinusoidal_table,
)
from posenc.frequencies import Layout
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from tests.library import independent
from tests.library.tensors import assert_close, random

LAYOUTS: tuple[Layout, ...] = ("interleaved", "half")


def test_worked_example_of_four_positions_in_eight_dimensions() -> None:
    # theta = 1, 0.1, 0.01, 0.001 at d = 8: sines and cosines of small decimals.
    waves = (math.sin, math.cos)
    rows = [[wave(p / 10**m) for m in range(4) for wave in waves] for p in range(4)]
    interleaved = torch.tensor(rows, dtype=torch.float64)
    halves = interleaved[:, [0, 2, 4, 6, 1, 3, 5, 7]]
    for layout, expected in zip(LAYOUTS, (interleaved, halves), strict=True):
        table = sinusoidal_table(4, 8, layout=layout, dtype=torch.float64)
        assert_close(table, expected, atol=4e-16)
        scheme = SinusoidalConfig(dim=8, layout=layout).build()
        assert_close(scheme.embed(torch.zeros(1, 4, 8).double())[0], expected, atol=4e-16)
        assert_close(position_vectors(scheme, 4), expected, atol=4e-16)
    printed = sinusoidal_table(4, 8)[3, :4].tolist()
    assert [round(value, 3) for value in printed] == [0.141, -0.99, 0.296, 0.955]


TURNED = {
    "interleaved": [-1.27223251272018, -1.838864985141024, 2.87866810043698, 4.088186635603437],
    "half": [-1.413352520780047, 1.879118066687992, -2.828857481741469, 4.058191135400941],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_two_three_four_turned_to_position_three(layout: Layout) -> None:
    """theta = 1, 0.01: the first pair turns by 3 radians counter-clockwise, the second by 0.03."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).reshape(1, 1, 1, 4)
    at, scheme = torch.tensor([3]), RopeConfig(dim=4, layout=layout).build()
    # The same positions of queries and keys are turned together, others each alone.
    for turned in (*scheme.rotate(x, x, at, at), *scheme.rotate(x, x, at, at.clone())):
        assert_close(turned.flatten(), TURNED[layout], atol=2e-15)
    cos, sin = rope_tables(1, 4, start=3, dtype=torch.float64)
    turned = apply_rope(x[0], cos, sin, layout=layout)
    assert_close(turned.flatten(), TURNED[layout], atol=2e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dim", "factor", "rotary"), [(8, 1.0, 8), (10, 0.4, 4)])
def test_rotation_equals_complex_multiplication_pair_by_pair(
    layout: Layout, dim: int, factor: float, rotary: int
) -> None:
    at, x = torch.tensor([0, 1, 5, 128, 70_001]), random(1, 1, 5, dim)
    config = RopeConfig(dim=dim, base=5e5, layout=layout, partial_rotary_factor=factor)
    expected = independent.turned(x[0, 0], at.tolist(), 5e5, rotary=rotary, layout=layout)
    for turned in config.build().rotate(x, x, at, at):
        assert_close(turned[0, 0], expected, atol=4e-15)


@pytest.mark.parametrize("heads", [1, 7, 8, 16, 64, 71, 1_024])
def test_alibi_slopes_of_any_head_count_follow_the_text_of_the_paper(heads: int) -> None:
    expected = independent.alibi_slopes(heads)
    slopes = alibi_slopes(heads, dtype=torch.float64)
    assert_close(slopes, expected, atol=0, rtol=3e-16)
    assert torch.equal(alibi_slopes(heads), slopes.float())  # the same numbers, rounded
    assert_close(AlibiConfig(heads=heads).build().slopes, expected, atol=0, rtol=3e-16)
    assert len(set(slopes.tolist())) == heads


def test_alibi_bias_matches_figure_3_of_the_paper() -> None:
    """0 on the diagonal, minus the slope per step back; here also forward, by symmetry."""
    bias = alibi_bias(torch.arange(3), torch.arange(4), torch.tensor([0.5, 0.25]))
    expected = [
        [[-slope * abs(j - i) for j in range(4)] for i in range(3)] for slope in (0.5, 0.25)
    ]
    assert bias.tolist() == expected
    blank = torch.zeros(1, 8, 4, 2)
    of_scheme = AlibiConfig(heads=8).build().bias(blank[:, :, :3], blank)
    assert of_scheme is not None
    assert of_scheme[0, :2].tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "slope", "distance", "expected"),
    [
        (torch.bfloat16, 0.271484375, 29_269_604, -7_962_624.0),  # exactly 7,946,240.1484375
        (torch.float16, 0.262939453125, 37_347, -9_816.0),  # exactly 9,819.999755859375
    ],
)
def test_alibi_bias_of_16_bit_slopes_is_rounded_once(
    dtype: torch.dtype, slope: float, distance: int, expected: float
) -> None:
    """By way of float32 the product is half way between two numbers, and goes to the farther."""
    slopes, keys = torch.tensor([slope], dtype=dtype), torch.tensor([distance])
    assert slopes.item() == slope
    assert alibi_bias(torch.tensor([0]), keys, slopes).item() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_encoding_in_16_bits_is_rounded_once(dtype: torch.dtype) -> None:
    """Of neighbours around a value, the nearer to the exact number; float32 between them ties."""
    scheme = SinusoidalConfig(dim=512).build()
    exact, rounded = (encoding(scheme, 4_096, dtype=of) for of in (None, dtype))
    assert exact is not None
    assert rounded is not None
    near = rounded.values.to(dtype)
    error = (rounded.values - exact.values).abs()
    for direction in (-math.inf, math.inf):
        other = torch.nextafter(near, torch.tensor(direction, dtype=dtype)).double()
        assert bool((error <= (other - exact.values).abs()).all())


@pytest.mark.parametrize("position", [1, 70_000, 2**31 - 1])
def test_alibi_bias_in_half_precision_is_that_of_float32(position: int) -> None:
    """In half precision 8,192 distances leave 897 (bfloat16) and positions overflow at 65,504."""
    blank = torch.zeros(1, 8, 1, 2, dtype=torch.float16)
    scheme = AlibiConfig(heads=8).build()
    bias = scheme.bias(blank, blank, torch.tensor([position]), torch.tensor([0]))
    assert bias is not None
    assert bias.dtype == torch.float32
    expected = [-position * 2.0**-h for h in range(1, 9)]
    assert_close(bias[0, :, 0, 0], expected, atol=position * 2**-26)


def test_random_start_has_the_deviation_of_bert_and_depends_on_the_seed_alone() -> None:
    config = LearnedConfig(dim=512, max_len=512)
    weight = config.build(seed=1).weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert abs(weight.mean().item()) < 5 * 0.02 / 512
    torch.manual_seed(99)
    assert torch.equal(config.build(seed=1).weight, weight)
    assert not torch.equal(config.build(seed=2).weight, weight)
    longer = config.replace(max_len=700).build(seed=1).weight
    assert torch.equal(longer[:512], weight), "a longer table begins with the shorter one"
