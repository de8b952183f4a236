"""Numbers computed elsewhere: by mpmath to 50 digits, by hand, or printed in the papers."""

import math

import pytest
import torch
from torch import Tensor

from posenc import (
    SCHEMES,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    attention,
    offset_curve,
    position_kernel,
    position_vectors,
    rope_tables,
    sinusoidal_table,
)
from tests import independent


def exactly(actual: Tensor, expected: object, atol: float = 1e-15) -> None:
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.to(torch.float64), wanted, rtol=0, atol=atol)


# Sinusoidal -----------------------------------------------------------------------------------

# theta = 1, 0.1, 0.01, 0.001 at d = 8: sines and cosines of small decimals.
WORKED_EXAMPLE = [
    [0, 1, 0, 1, 0, 1, 0, 1],
    [
        0.8414709848078965, 0.5403023058681397, 0.09983341664682815, 0.9950041652780258,
        0.009999833334166665, 0.9999500004166653, 0.0009999998333333417, 0.9999995000000417,
    ],
    [
        0.9092974268256817, -0.4161468365471424, 0.1986693307950612, 0.9800665778412416,
        0.01999866669333308, 0.9998000066665778, 0.001999998666666933, 0.9999980000006667,
    ],
    [
        0.1411200080598672, -0.9899924966004455, 0.2955202066613396, 0.955336489125606,
        0.02999550020249566, 0.9995500337489875, 0.002999995500002025, 0.999995500003375,
    ],
]  # fmt: skip


def test_the_worked_example_of_four_positions_in_eight_dimensions() -> None:
    exactly(sinusoidal_table(4, 8, dtype=torch.float64), WORKED_EXAMPLE, atol=2e-16)
    scheme = SCHEMES["sinusoidal"](dim=8).build()
    exactly(scheme.embed(torch.zeros(1, 4, 8, dtype=torch.float64))[0], WORKED_EXAMPLE, atol=2e-16)
    exactly(position_vectors(scheme, 4), WORKED_EXAMPLE, atol=2e-16)
    halves = torch.tensor(WORKED_EXAMPLE, dtype=torch.float64)[:, [0, 2, 4, 6, 1, 3, 5, 7]]
    exactly(sinusoidal_table(4, 8, layout="half", dtype=torch.float64), halves, atol=2e-16)
    half = SCHEMES["sinusoidal"](dim=8, layout="half").build()
    exactly(half.embed(torch.zeros(1, 4, 8, dtype=torch.float64))[0], halves, atol=2e-16)


def test_the_worked_example_as_it_is_usually_printed() -> None:
    table = sinusoidal_table(4, 8)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert [round(value, 4) for value in table[1, :4].tolist()] == [0.8415, 0.5403, 0.0998, 0.995]
    assert [round(value, 3) for value in table[3, :4].tolist()] == [0.141, -0.99, 0.296, 0.955]


@pytest.mark.parametrize(("dim", "base"), [(2, 10000.0), (6, 100.0), (20, 500000.0), (64, 1.5)])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_sinusoidal_rows_equal_forty_digit_arithmetic(dim: int, base: float, layout: str) -> None:
    positions = [0, 1, 2, 127, 128, 129, 4_095, 65_537, 411_557_987, 2**31 - 1]
    expected = independent.sinusoidal(positions, dim, base, layout)
    scheme = SCHEMES["sinusoidal"](dim=dim, base=base, layout=layout).build()
    for dtype, atol in ((torch.float64, 5e-16), (torch.float32, 2**-25 * 1.01)):
        blank = torch.zeros(1, len(positions), dim, dtype=dtype)
        exactly(scheme.embed(blank, torch.tensor(positions))[0], expected, atol)
        for row, start in enumerate(positions):
            table = sinusoidal_table(1, dim, base, start=start, layout=layout, dtype=dtype)
            exactly(table[0], expected[row], atol)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rows_are_the_exact_values_rounded_once(dtype: torch.dtype) -> None:
    """Angles formed in bfloat16 are nonsense from position 2,000 on; only the result is rounded."""
    positions = [0, 1, 2_047, 70_001, 1_000_003]
    expected = independent.sinusoidal(positions, 32)
    scheme = SCHEMES["sinusoidal"](dim=32).build()
    rows = scheme.embed(torch.zeros(1, len(positions), 32, dtype=dtype), torch.tensor(positions))[0]
    half_ulp = torch.finfo(dtype).eps / 2 * torch.exp2(expected.abs().log2().floor()) + 2**-25
    assert ((rows.double() - expected).abs() <= half_ulp * 1.0001).all()


def test_a_float16_table_is_rounded_once_as_numpy_does_it() -> None:
    """torch casts float64 to float16 through float32, which moves one entry in some thousands."""
    exact = sinusoidal_table(2_048, 256, dtype=torch.float64)
    once = torch.from_numpy(exact.numpy().astype("float16"))
    assert torch.equal(sinusoidal_table(2_048, 256, dtype=torch.float16), once)
    assert not torch.equal(exact.to(torch.float16), once)
    scheme = SCHEMES["sinusoidal"](dim=256).build()
    assert torch.equal(scheme.embed(torch.zeros(1, 2_048, 256, dtype=torch.float16))[0], once)


def test_sine_at_the_position_nearest_to_a_multiple_of_pi() -> None:
    """sin(411,557,987) = 2.536716051963676e-9: any angle kept in float64 loses it."""
    table = sinusoidal_table(1, 2, start=411_557_987, dtype=torch.float64)
    exactly(table, [[2.536716051963676e-9, 1.0]], atol=2**-52)
    exactly(sinusoidal_table(1, 2, start=2**31 - 1, dtype=torch.float64),
            [[-0.7249165551445564, -0.6888366918779438]])  # fmt: skip


COSINES_512 = {1: 0.9730550696381366, 2: 0.9052094546472942, 4: 0.7683134029397637,
               8: 0.7225200832468273, 43: 0.5264011729145524, 44: 0.5264466851148062}  # fmt: skip


def test_cosine_similarity_at_512_dimensions() -> None:
    curve = offset_curve(SCHEMES["sinusoidal"](dim=512).build(), 64) / 256
    for offset, expected in COSINES_512.items():
        exactly(curve[63 + offset], expected)
        exactly(curve[63 - offset], expected)
    rounded = [round(curve[63 + k].item(), 4) for k in (1, 2, 4, 8)]
    assert rounded == [0.9731, 0.9052, 0.7683, 0.7225]


@pytest.mark.parametrize(("dim", "rise"), [(512, 43), (128, 11), (64, 5)])
def test_similarity_is_not_monotone_and_first_rises_where_the_reference_says(
    dim: int, rise: int
) -> None:
    curve = offset_curve(SCHEMES["sinusoidal"](dim=dim).build(), 64)[63:]
    steps = curve.diff() > 0
    assert int(steps.nonzero()[0]) == rise
    if dim == 512:
        assert round((curve[44] - curve[43]).item() / 256, 6) == 4.6e-5


@pytest.mark.parametrize(("dim", "slowest"), [(512, 60611.47716626106), (64, 47117.2427801674)])
def test_the_slowest_wavelength_stops_short_of_the_paper_s_text(dim: int, slowest: float) -> None:
    inv_freq = SCHEMES["sinusoidal"](dim=dim).build().inv_freq
    assert inv_freq[0] == 1
    assert 2 * math.pi / inv_freq[-1].item() == pytest.approx(slowest, rel=1e-14)


def test_the_frequency_ladder_is_two_m_over_d_and_falls() -> None:
    for kind in ("sinusoidal", "rope"):
        inv_freq = SCHEMES[kind](dim=12, base=1000.0).build().inv_freq
        expected = [float(theta) for theta in independent.inverse_frequencies(12, 1000.0)]
        exactly(inv_freq, expected, atol=0)
        assert inv_freq.dtype == torch.float64
        assert (inv_freq.diff() < 0).all()


# RoPE -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("interleaved",
         [-1.27223251272018, -1.838864985141024, 2.87866810043698, 4.088186635603437]),
        ("half", [-1.413352520780047, 1.879118066687992, -2.828857481741469, 4.058191135400941]),
    ],
)  # fmt: skip
def test_one_two_three_four_turned_to_position_three(layout: str, expected: list[float]) -> None:
    """theta = 1, 0.01: the first pair turns by 3 radians counter-clockwise, the second by 0.03."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).reshape(1, 1, 1, 4)
    scheme = SCHEMES["rope"](dim=4, layout=layout).build()
    at = torch.tensor([3])
    for turned in scheme.rotate(x, x, at, at):
        exactly(turned.flatten(), expected, atol=2e-15)
    cos, sin = rope_tables(1, 4, start=3, dtype=torch.float64)
    exactly(apply_rope(x[0], cos, sin, layout=layout).flatten(), expected, atol=2e-15)


def test_a_quarter_turn_counter_clockwise_takes_x_to_y() -> None:
    x = torch.tensor([[[[1.0, 0.0]]]], dtype=torch.float64)
    turned, _ = SCHEMES["rope"](dim=2).build().rotate(x, x, torch.tensor([1]))
    exactly(turned.flatten(), [math.cos(1.0), math.sin(1.0)], atol=2e-16)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(
    ("dim", "factor", "rotary"), [(8, 1.0, 8), (16, 0.25, 4), (10, 0.4, 4), (100, 0.28, 28)]
)
@pytest.mark.parametrize("base", [100.0, 500000.0])
def test_rotation_equals_complex_multiplication_pair_by_pair(
    layout: str, dim: int, factor: float, rotary: int, base: float
) -> None:
    positions = [0, 1, 5, 128, 70_001]
    config = SCHEMES["rope"](dim=dim, base=base, layout=layout, partial_rotary_factor=factor)
    assert config.rotary_dim == rotary
    x = torch.randn(1, 1, 5, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned, same = config.build().rotate(x, x, torch.tensor(positions), torch.tensor(positions))
    expected = independent.turned(x[0, 0], positions, base, rotary=rotary, layout=layout)
    exactly(turned[0, 0], expected, atol=4e-15)
    exactly(same[0, 0], expected, atol=4e-15)
    assert torch.equal(turned[..., rotary:], x[..., rotary:])


@pytest.mark.parametrize(
    ("pair", "theta", "cosine", "sine"),
    [
        (1, 0.8146172338565447, -0.6349813548385633, 0.7725274616525826),
        (63, 2.455140791131609e-6, -0.7734996770203243, 0.6337966942557006),
    ],
)
def test_llama_3_angles_at_position_one_million(
    pair: int, theta: float, cosine: float, sine: float
) -> None:
    cos, sin = rope_tables(1, 128, 500000.0, start=1_000_000, dtype=torch.float64)
    exactly(cos[0, pair], cosine, atol=3e-16)
    exactly(sin[0, pair], sine, atol=3e-16)
    rope = SCHEMES["rope"](dim=128, base=500000.0).build()
    assert rope.inv_freq[pair].item() == pytest.approx(theta, rel=1e-15)


def test_the_kernel_of_partial_rotary_counts_its_untouched_tail() -> None:
    """d = 8, r = 4: (2 (cos 5 + cos 0.05) + 4) / 8 at offset 5."""
    kernel = position_kernel(SCHEMES["rope"](dim=8, partial_rotary_factor=0.5).build(), 6)
    exactly(kernel[0, 5], 0.8206031114645481, atol=2e-16)
    exactly(kernel[3, 3], 1.0)


def test_rope_attention_over_three_tokens_by_hand() -> None:
    """q = k = (1, 0), theta = 1, v = 1, 10, 100: the last token's weights are exp(cos(i - j)/sqrt 2)."""
    q = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 1, 3, 2)
    v = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64).reshape(1, 1, 3, 1)
    mixed = attention(q, q, v, SCHEMES["rope"](dim=2).build())
    exactly(mixed[0, 0, 2, 0], 51.48288984645798, atol=1e-13)
    exactly(mixed[0, 0, 0, 0], 1.0)


# ALiBi ----------------------------------------------------------------------------------------

SLOPES_12 = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
             0.7071067811865475, 0.3535533905932738, 0.1767766952966369,
             0.08838834764831844]  # fmt: skip


def test_slopes_of_eight_heads_are_the_paper_s() -> None:
    """Press et al. 2022, section 3: "for a model with 8 heads, the slopes are 1/2, 1/4, ... 1/256"."""
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]


def test_slopes_of_sixteen_heads_interpolate_the_paper_s() -> None:
    """Section 3: "we interpolate those 8 slopes by geometrically averaging every consecutive pair"."""
    slopes = alibi_slopes(16, dtype=torch.float64)
    exactly(slopes, [2.0 ** (-h / 2) for h in range(1, 17)], atol=2e-16)
    exactly(slopes[1::2], [2.0**-h for h in range(1, 9)], atol=0)


def test_slopes_of_twelve_heads_take_every_other_slope_of_sixteen() -> None:
    exactly(alibi_slopes(12, dtype=torch.float64), SLOPES_12, atol=2e-16)
    printed = [round(slope, 5) for slope in alibi_slopes(12).tolist()[8:]]
    assert printed == [0.70711, 0.35355, 0.17678, 0.08839]


@pytest.mark.parametrize("heads", [*range(1, 65), 71, 96, 112, 128, 1_000, 1_024])
def test_slopes_of_any_head_count_follow_the_paper_s_text(heads: int) -> None:
    expected = torch.tensor(independent.alibi_slopes(heads), dtype=torch.float64)
    slopes = alibi_slopes(heads, dtype=torch.float64)
    torch.testing.assert_close(slopes, expected, rtol=3e-16, atol=0)
    assert torch.equal(alibi_slopes(heads), slopes.float())
    assert torch.equal(SCHEMES["alibi"](heads=heads).build().slopes, slopes)
    assert len(set(slopes.tolist())) == heads
    assert 0 < slopes.min() <= slopes.max() < 1


def test_alibi_bias_is_written_out_as_in_the_paper_s_figure() -> None:
    """Figure 3: 0 on the diagonal, minus the slope per step back; here also forward, by symmetry."""
    bias = alibi_bias(torch.arange(3), torch.arange(4), torch.tensor([0.5, 0.25]))
    expected = [
        [[-0.0, -0.5, -1.0, -1.5], [-0.5, -0.0, -0.5, -1.0], [-1.0, -0.5, -0.0, -0.5]],
        [[-0.0, -0.25, -0.5, -0.75], [-0.25, -0.0, -0.25, -0.5], [-0.5, -0.25, -0.0, -0.25]],
    ]
    assert bias.tolist() == expected
    scheme = SCHEMES["alibi"](heads=8).build()
    blank = torch.zeros(1, 8, 4, 2)
    assert scheme.bias(blank[:, :, :3], blank)[0, :2].tolist() == expected


def test_alibi_attention_over_three_tokens_by_hand() -> None:
    """Head 1 of 8, slope 1/2, no content, v = 1, 10, 100: weights e^-1, e^-1/2, 1."""
    blank = torch.zeros(1, 8, 3, 4, dtype=torch.float64)
    v = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64).reshape(1, 1, 3, 1).expand(1, 8, 3, 1)
    mixed = attention(blank, blank, v, SCHEMES["alibi"](heads=8).build())
    exactly(mixed[0, 0, 2, 0], 53.90632168597625, atol=1e-13)


def test_alibi_kernel_and_vectors_by_hand() -> None:
    scheme = SCHEMES["alibi"](heads=8).build()
    curve = offset_curve(scheme, 11)
    exactly(curve[[11, 20]], [0.8936612984242779, 0.5480111927597324], atol=2e-16)
    exactly(offset_curve(scheme, 2, head=0), [0.6065306597126334, 1.0, 0.6065306597126334])
    vectors = position_vectors(scheme, 3, head=0)
    rest = 0.7950600976206501  # sqrt(1 - r^2), r = e^-1/2
    expected = [
        [1, 0, 0],
        [0.6065306597126334, rest, 0],
        [0.3678794411714423, 0.4822283255210436, rest],
    ]
    exactly(vectors, expected, atol=3e-16)


@pytest.mark.parametrize("position", [1, 70_000, 2**31 - 1])
def test_alibi_bias_tells_neighbouring_distances_apart(position: int) -> None:
    """In half precision 8,192 distances leave 897 (bfloat16) and positions overflow at 65,504."""
    scheme = SCHEMES["alibi"](heads=8).build()
    blank = torch.zeros(1, 8, 1, 2, dtype=torch.float16)
    bias = scheme.bias(blank, blank, torch.tensor([position]), torch.tensor([0]))
    assert bias.dtype == torch.float32
    exactly(bias[0, :, 0, 0], [-position * 2.0**-h for h in range(1, 9)], atol=position * 2**-26)
    distances = torch.arange(8_192)
    far = torch.zeros(1, 8, 8_192, 2, dtype=torch.bfloat16)
    biases = scheme.bias(far[:, :, :1], far, torch.tensor([8_191]), distances)
    assert len(biases[0, 0, 0].unique()) == 8_192


# Learned --------------------------------------------------------------------------------------


def test_a_learned_lookup_is_a_product_with_one_hot_vectors() -> None:
    scheme = SCHEMES["learned"](dim=6, max_len=9).build(seed=1)
    positions = torch.tensor([8, 0, 3, 3])
    one_hot = torch.nn.functional.one_hot(positions, 9).float()
    x = torch.ones(1, 4, 6)
    assert torch.equal(scheme.embed(x, positions)[0], 1 + one_hot @ scheme.weight)


def test_a_random_start_has_the_spread_of_bert_and_depends_on_the_seed_alone() -> None:
    config = SCHEMES["learned"](dim=512, max_len=512)
    weight = config.build(seed=1).weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert abs(weight.mean().item()) < 5 * 0.02 / 512
    torch.manual_seed(99)
    assert torch.equal(config.build(seed=1).weight, weight)
    assert not torch.equal(config.build(seed=2).weight, weight)
    longer = config.replace(max_len=700).build(seed=1).weight
    assert torch.equal(longer[:512], weight), "a longer table begins with the shorter one"
