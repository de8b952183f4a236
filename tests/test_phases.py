"""Tables of sines and cosines: right to half a unit, and the same bits however they are asked for."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from torch import Tensor

from posenc import blocks, products
from posenc.blocks import BLOCK
from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.limits import MAX_POSITION
from posenc.phases import Phases
from posenc.tables import cos_sin, rope_tables, sinusoidal_table
from tests.independent import inverse_frequencies

BASES = [2.0, 100.0, 1e4, 5e5, 1e7, 1e12]
# Below 2^31, whole numbers closer to a multiple of pi than any smaller one: numerators of its
# continued fraction. The sine of 411,557,987 is -2.2e-9, which no float32 or float64 angle gives.
NEAR_PI = [3, 22, 333, 355, 103_993, 104_348, 208_341, 312_689, 833_719, 1_146_408, 4_272_943,
           5_419_351, 80_143_857, 165_707_065, 245_850_922, 411_557_987, 1_068_966_896]  # fmt: skip
# Widths whose pairs are odd, just off or just on a multiple of what a processor takes at once, and
# wide enough to be made in parts.
AWKWARD = [2, 6, 10, 24, 30, 32, 64, 66, 96, 100, 128, 160, 352, 1_056, 2_080, 9_000]


@pytest.fixture
def threads() -> Iterator[None]:
    """The number of threads as it was, whatever a test sets it to."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def random_positions(count: int, below: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-below + 1, below, (count,), generator=generator).tolist()


def exact(positions: Sequence[int], thetas: Sequence[mpf]) -> list[tuple[mpf, mpf]]:
    """Cosine and sine of every position times every frequency, row by row, in 40 digits."""
    return [mp.cos_sin(p * theta) for p in positions for theta in thetas]


def errors(found: Tensor, wanted: Sequence[mpf]) -> tuple[float, float, int]:
    """Errors of a float32 tensor: largest in ulp where |value| >= 2^-13; below that largest absolute
    error times 2^38; and how many entries are not the nearest float32."""
    ulps, small, wrong = mpf(0), mpf(0), 0
    for value, true in zip(found.flatten().tolist(), wanted, strict=True):
        error = abs(value - true)
        if abs(true) >= mpf(2) ** -13:
            error_in_ulps = error / mpf(2) ** (mp.frexp(true)[1] - 24)
            ulps = max(ulps, error_in_ulps)
            wrong += error_in_ulps > 0.5
        else:
            small = max(small, error * 2**38)
            wrong += value != torch.tensor(float(true), dtype=torch.float32).item()
    return float(ulps), float(small), wrong


# The ladder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 64, 770])
def test_the_ladder_is_correctly_rounded(dim: int, base: float) -> None:
    wanted = [float(theta) for theta in inverse_frequencies(dim, base)]
    assert Phases.geometric(dim, base).inv_freq.tolist() == wanted
    assert Phases.geometric(dim, base).pairs == dim // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_given_ladder_is_taken_as_the_exact_numbers_it_holds(dtype: torch.dtype) -> None:
    ladder = torch.tensor([1.0, 0.1, 1e-3, -0.7, 0.0, 3e4, 1e-30, 7.3e37], dtype=dtype)
    made = Phases.given(ladder)
    assert torch.equal(made.inv_freq, ladder.double())
    with mp.workdps(400):
        for m, theta in enumerate(ladder.double().tolist()):
            limbs = [int(limb) for limb in made.limbs[:, m]]
            assert all(0 <= limb < 2**32 for limb in limbs)
            turn = mpf(limbs[0] * 2**64 + limbs[1] * 2**32 + limbs[2]) / 2**96
            off = mpf(theta) / (2 * mp.pi) - turn
            assert abs(off - mp.nint(off)) <= mpf(2) ** -97


def test_the_smallest_and_the_largest_float64_are_reduced_too() -> None:
    ladder = [5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
    cos, sin = cos_sin(torch.tensor([1, 3]), Phases.given(ladder), dtype=torch.float64)
    with mp.workdps(400):
        wanted = exact([1, 3], [mpf(theta) for theta in ladder])
    for found, true in zip(cos.flatten().tolist(), [c for c, _ in wanted], strict=True):
        assert abs(found - true) < 2**-50
    for found, true in zip(sin.flatten().tolist(), [s for _, s in wanted], strict=True):
        assert abs(found - true) < 2**-50


def test_equal_configurations_are_equal_hash_alike_and_are_made_once() -> None:
    assert Phases.geometric(64, 10000) is Phases.geometric(64, 10000.0)
    assert Phases.geometric(64, 10000) != Phases.geometric(64, 10001)
    assert Phases.geometric(64, 10000) != Phases.geometric(66, 10000)
    assert hash(Phases.geometric(64, 2.0)) == hash(Phases.geometric(64, 2))
    float32 = torch.tensor([0.1, 0.01])
    assert Phases.given(float32) == Phases.given(float32.double())
    assert Phases.given(float32) != Phases.given([0.1, 0.01])
    assert len({Phases.geometric(8), Phases.geometric(8), Phases.given([1.0])}) == 2


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        (torch.ones(2, 2), "one row"),
        (torch.ones(0), "one row"),
        (torch.ones(40_000), "one row"),
        (torch.arange(3), "floating point"),
        ([1.0, float("nan")], "finite"),
        (torch.tensor([float("inf")]), "finite"),
    ],
)
def test_an_unusable_ladder_is_refused(ladder: Tensor | list[float], message: str) -> None:
    with pytest.raises(SchemeArgumentError, match=message):
        Phases.given(ladder)


# Accuracy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 8, 64])
def test_every_entry_is_within_half_an_ulp_at_every_position(dim: int, base: float) -> None:
    positions = [*NEAR_PI, MAX_POSITION, -MAX_POSITION, 0, 1, -1, 127, 128]
    positions += random_positions(20, 2**31) + random_positions(20, 2**17)
    wanted = exact(positions, inverse_frequencies(dim, base))
    found = cos_sin(torch.tensor(positions), Phases.geometric(dim, base))
    for table, true in zip(found, zip(*wanted, strict=True), strict=True):
        ulps, small, wrong = errors(table, true)
        assert ulps <= 0.5001
        assert small < 1
        assert wrong <= len(NEAR_PI)  # their sines are all rounding error in float64, too


@pytest.mark.parametrize("table", ["sinusoidal", "rope"])
def test_table_rows_are_within_half_an_ulp_late_in_a_long_text(table: str) -> None:
    start, dim, rows = 1_048_576 - 40, 32, 80
    wanted = exact(range(start, start + rows), inverse_frequencies(dim, 10000.0))
    if table == "sinusoidal":
        true = [value for cos, sin in wanted for value in (sin, cos)]
        found = [(sinusoidal_table(rows, dim, start=start), true)]
    else:
        found = list(
            zip(rope_tables(rows, dim, start=start), zip(*wanted, strict=True), strict=True)
        )
    for entries, true in found:
        ulps, small, wrong = errors(entries, true)
        assert (ulps <= 0.5001, small < 1, wrong) == (True, True, 0)


@pytest.mark.long
@pytest.mark.timeout(1_800)  # a million numbers of many digits
def test_at_most_one_entry_in_a_million_is_not_the_nearest_number() -> None:
    wrong = entries = 0
    for seed, base in enumerate(BASES):
        for dim in (2, 24, 64, 512):
            for below in (2**31, 2**20, 2**12):
                positions = random_positions(max(1, 16_384 // dim), below, seed)
                wanted = exact(positions, inverse_frequencies(dim, base))
                found = cos_sin(torch.tensor(positions), Phases.geometric(dim, base))
                for table, true in zip(found, zip(*wanted, strict=True), strict=True):
                    ulps, small, missed = errors(table, true)
                    assert ulps <= 0.5001
                    assert small < 1
                    wrong, entries = wrong + missed, entries + len(true)
    assert entries > 1_000_000
    assert wrong <= entries // 1_000_000


def test_the_textbook_code_fails_the_same_measure() -> None:
    positions, dim = random_positions(20, 2**20), 16
    angles = torch.tensor(positions).float()[:, None] * torch.exp(
        torch.arange(0, dim, 2).float() * (-torch.log(torch.tensor(10000.0)) / dim)
    )
    wanted = [cos for cos, _ in exact(positions, inverse_frequencies(dim, 10000.0))]
    assert errors(angles.cos(), wanted)[0] > 1_000
    in_float32 = torch.tensor(411_557_987.0).sin()  # the angle itself is not a float32
    (found,) = cos_sin(torch.tensor([411_557_987]), Phases.geometric(2))[1]
    assert abs(found.item() - mp.sin(411_557_987)) < 2**-50
    assert abs(in_float32.item() - mp.sin(411_557_987)) > 0.1
    in_float64 = (torch.tensor(2_000_000_011.0, dtype=torch.float64) * 0.1).sin()
    assert abs(in_float64.item() - mp.sin(mpf(2_000_000_011) / 10)) > 2**-30


def test_float64_tables_are_within_two_units_of_one() -> None:
    positions = random_positions(60, 2**31)
    wanted = exact(positions, inverse_frequencies(32, 5e5))
    found = cos_sin(torch.tensor(positions), Phases.geometric(32, 5e5), dtype=torch.float64)
    for table, true in zip(found, zip(*wanted, strict=True), strict=True):
        assert max(abs(a - b) for a, b in zip(table.flatten().tolist(), true, strict=True)) < 2**-50


def test_tiny_sines_keep_their_leading_digits() -> None:
    thetas = inverse_frequencies(64, 1e12)
    _, sin = cos_sin(torch.tensor([1, 129]), Phases.geometric(64, 1e12), dtype=torch.float64)
    for value, (_, true) in zip(sin.flatten().tolist(), exact([1, 129], thetas), strict=True):
        assert abs(value - true) <= abs(true) * 2**-50


def test_limbs_of_all_ones_and_the_ends_of_the_range_do_not_overflow() -> None:
    tiny = 2.0**-93  # minus a tiny frequency is almost a whole turn: every limb is nearly 2^32
    made = Phases.given([-tiny, tiny, -(2.0**-62), 3.0])
    assert int(made.limbs[:2, 0].min()) == 2**32 - 1
    positions = [MAX_POSITION, -MAX_POSITION, MAX_POSITION - 127, 2**30, -(2**30)]
    _, sin = cos_sin(torch.tensor(positions), made, dtype=torch.float64)
    wanted = exact(positions, [mpf(theta) for theta in made.inv_freq.tolist()])
    for value, (_, true) in zip(sin.flatten().tolist(), wanted, strict=True):
        assert abs(value - true) < 2**-50
        assert value == pytest.approx(float(true), rel=1e-8)


def nearest(value: mpf, bits: int, lowest: int) -> Fraction:
    """The nearest number of `bits` significant bits, no finer than 2^lowest, ties to even."""
    if value == 0:
        return Fraction(0)
    exponent = max(mp.frexp(value)[1] - bits, lowest)
    return Fraction(int(mp.nint(value / mpf(2) ** exponent))) * Fraction(2) ** exponent


@pytest.mark.parametrize(
    ("dtype", "bits", "lowest"), [(torch.bfloat16, 8, -133), (torch.float16, 11, -24)]
)
def test_16_bit_tables_are_rounded_once(dtype: torch.dtype, bits: int, lowest: int) -> None:
    dim, base = 64, 1e7  # small sines are subnormal in float16
    rows = [
        sinusoidal_table(90, dim, base, dtype=dtype),
        sinusoidal_table(9, dim, base, dtype=dtype),
    ]
    assert torch.equal(rows[0][:9], rows[1])
    wanted = exact(range(90), inverse_frequencies(dim, base))
    for found, (cos, sin) in zip(rows[0].view(-1, 2).tolist(), wanted, strict=True):
        assert Fraction(found[0]) == nearest(sin, bits, lowest)
        assert Fraction(found[1]) == nearest(cos, bits, lowest)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_number_just_off_a_tie_is_not_rounded_twice(dtype: torch.dtype) -> None:
    step = torch.finfo(dtype).eps
    near = torch.tensor([1 + step / 2 + 2**-40, 1 + 3 * step / 2 - 2**-40], dtype=torch.float64)
    once = torch.tensor([1 + step, 1 + step], dtype=dtype)
    assert torch.equal(products.castable(near, dtype).to(dtype), once)
    assert torch.equal(products.castable(-near, dtype).to(dtype), -once)
    assert not torch.equal(near.to(dtype), once)  # torch's own cast goes through float32


# The same bits, however asked for -----------------------------------------------------------------


@pytest.mark.parametrize("dim", AWKWARD)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_prefix_a_window_and_single_positions_have_the_bits_of_the_table(
    layout: str, dim: int
) -> None:
    length, start = (700, -300) if dim < 2_000 else (2 * BLOCK + 5, 2**20 - 77)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        table = sinusoidal_table(length, dim, start=start, layout=layout, dtype=dtype)
        for rows in (0, 1, 7, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, length - 1):
            prefix = sinusoidal_table(rows, dim, start=start, layout=layout, dtype=dtype)
            assert torch.equal(prefix, table[:rows])
            shifted = sinusoidal_table(
                length - rows, dim, start=start + rows, layout=layout, dtype=dtype
            )
            assert torch.equal(shifted, table[rows:])
        some = torch.tensor([5, 0, length - 1, 5, BLOCK, 200, 201, 77])
        cos, sin = cos_sin(some + start, Phases.geometric(dim), dtype=dtype)
        rows = torch.stack((sin, cos), -1).flatten(1) if layout == "interleaved" else None
        assert torch.equal(table[some], torch.cat((sin, cos), -1) if rows is None else rows)


@given(
    dim=st.integers(1, 80).map(lambda pairs: 2 * pairs),
    length=st.integers(1, 300),
    start=st.integers(-MAX_POSITION, MAX_POSITION - 300),
    base=st.sampled_from(BASES),
    order=st.randoms(use_true_random=False),
)
def test_rope_tables_and_positions_in_any_order_agree_bitwise(
    dim: int, length: int, start: int, base: float, order: object
) -> None:
    cos, sin = rope_tables(length, dim, base, start=start)
    index = list(range(length))
    order.shuffle(index)
    found = cos_sin(torch.tensor(index) + start, Phases.geometric(dim, base))
    assert torch.equal(found[0], cos[index])
    assert torch.equal(found[1], sin[index])
    table = sinusoidal_table(length, dim, base, start=start)
    assert torch.equal(table[:, 0::2], sin)
    assert torch.equal(table[:, 1::2], cos)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", [32, 100, 416, 2_080, 20_000])
def test_the_bits_do_not_depend_on_the_number_of_threads(dim: int) -> None:
    length = max(BLOCK + 3, min(3_000, 2**19 // dim))
    tables = []
    for count in (1, 2, 3, 4, 7):
        torch.set_num_threads(count)
        tables.append(sinusoidal_table(length, dim, start=99, dtype=torch.float64))
        tables.append(sinusoidal_table(length, dim, start=99, layout="half", dtype=torch.float64))
    for interleaved, half in zip(tables[0::2], tables[1::2], strict=True):
        assert torch.equal(interleaved, tables[0])
        assert torch.equal(half, tables[1])


def test_complex_multiplication_makes_the_bits_of_separate_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [sinusoidal_table(400, dim, start=77, dtype=torch.float64) for dim in (32, 128, 2_048)]
    monkeypatch.setattr(products.Packed, "serves", staticmethod(lambda *_: False))
    for table in made:
        separate = sinusoidal_table(400, table.shape[1], start=77, dtype=torch.float64)
        assert torch.equal(separate, table)


@pytest.mark.parametrize("dim", [64, 2_048])
def test_sizes_of_scratch_change_no_bit(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sinusoidal_table(600, dim, start=3), rope_tables(600, dim, start=3)
    for name, value in {
        "TILE_PAIRS": 3 * dim, "NEAR_PAIRS": 17, "EXACT_PAIRS": 1, "KEPT_PAIRS": 0,
        "KEPT_NEAR_PAIRS": 0,
    }.items():  # fmt: skip
        monkeypatch.setattr(products if name == "TILE_PAIRS" else blocks, name, value)
        assert torch.equal(sinusoidal_table(600, dim, start=3), expected[0])
        found = cos_sin(torch.arange(602, 2, -1), Phases.geometric(dim))
        for plane, table in zip(found, expected[1], strict=True):
            assert torch.equal(plane.flip(0), table)


def test_a_given_ladder_of_exact_numbers_equals_the_geometric_one() -> None:
    halves = [2.0**-m for m in range(8)]  # base 256, width 16: every frequency is a float32
    expected = rope_tables(300, 16, 256.0, start=2**30)
    for ladder in (halves, torch.tensor(halves), torch.tensor(halves, dtype=torch.float64)):
        found = rope_tables(300, 16, inv_freq=ladder, start=2**30)
        assert all(map(torch.equal, found, expected))


# Arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "positions",
    [
        torch.tensor(5),
        torch.tensor([], dtype=torch.int64),
        torch.tensor([[3, 1], [2, -200], [9, 4]]),
        torch.arange(60).view(3, 4, 5).transpose(0, 2)[::2],
        torch.arange(20)[::3],
        torch.arange(4, dtype=torch.int32).expand(3, 4),
        torch.arange(200, dtype=torch.uint8),
        torch.arange(-9, 9, dtype=torch.int16),
    ],
)
def test_positions_of_any_shape_strides_and_integer_type(positions: Tensor) -> None:
    cos, sin = cos_sin(positions, Phases.geometric(6))
    assert cos.shape == sin.shape == (*positions.shape, 3)
    wanted = exact(positions.flatten().tolist(), inverse_frequencies(6, 10000.0))
    assert cos.flatten().tolist() == [torch.tensor(float(c)).item() for c, _ in wanted]
    assert sin.flatten().tolist() == [torch.tensor(float(s)).item() for _, s in wanted]


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_positions_that_are_not_whole_numbers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(SchemeArgumentError, match="positions must be integers"):
        cos_sin(torch.ones(3, dtype=dtype), Phases.geometric(8))


@pytest.mark.parametrize("position", [MAX_POSITION + 1, -MAX_POSITION - 1, 2**62, -(2**63)])
def test_a_position_past_the_exact_range_is_refused(position: int) -> None:
    with pytest.raises(PositionOutOfRange, match="2,147,483,647") as caught:
        cos_sin(torch.tensor([0, position]), Phases.geometric(8))
    assert caught.value.limit == MAX_POSITION


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((4, 7), {}, "even"),
        ((4, 0), {}, "dim must be"),
        ((-1, 8), {}, "length must be"),
        ((4, 8, 1.0), {}, "base must be"),
        ((4, 8, float("nan")), {}, "base must be"),
        ((4, 8), {"start": 2**31 - 3}, "2,147,483,647"),
        ((2**30, 64), {}, "length x dim"),
        ((4, 8), {"dtype": torch.int64}, "dtype must be"),
    ],
)
def test_impossible_tables_are_refused(
    arguments: tuple[float, ...], options: dict[str, object], message: str
) -> None:
    for make in (sinusoidal_table, rope_tables):
        with pytest.raises(SchemeArgumentError, match=message):
            make(*arguments, **options)


@pytest.mark.usefixtures("no_shape_checks")
def test_an_unknown_layout_and_a_ladder_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(SchemeArgumentError, match='"interleaved" or "half"'):
        sinusoidal_table(4, 8, layout="neox")
    with pytest.raises(SchemeArgumentError, match="dim // 2 = 4"):
        rope_tables(4, 8, inv_freq=torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_out_is_filled_whatever_its_strides(layout: str, dtype: torch.dtype) -> None:
    length, dim = 300, 64
    expected = sinusoidal_table(length, dim, layout=layout, dtype=dtype)
    for out in (
        torch.empty(length, dim, dtype=dtype),
        torch.empty(dim, length, dtype=dtype).T,
        torch.empty(length, 3 * dim, dtype=dtype)[:, 1::3],
        torch.empty(length * dim + 1, dtype=dtype)[1:].view(length, dim),
        torch.empty(2 * length, dim + 1, dtype=dtype)[::2, 1:],
    ):
        assert sinusoidal_table(length, dim, layout=layout, dtype=dtype, out=out) is out
        assert torch.equal(out, expected)


@pytest.mark.parametrize(
    "out",
    [
        torch.empty(3, 8),
        torch.empty(4, 8, dtype=torch.float64),
        torch.empty(4, 8, device="meta"),
        torch.empty(4, 8, requires_grad=True),
    ],
)
def test_an_out_that_cannot_hold_the_table_is_refused(out: Tensor) -> None:
    with pytest.raises(SchemeArgumentError, match="out must"):
        sinusoidal_table(4, 8, device="cpu", out=out)


def test_what_the_caller_does_to_a_result_does_not_reach_the_next_one() -> None:
    first = cos_sin(torch.tensor([7, 9]), Phases.geometric(8))
    kept = [plane.clone() for plane in first]
    for plane in first:
        plane.fill_(9.0)
    assert all(map(torch.equal, cos_sin(torch.tensor([7, 9]), Phases.geometric(8)), kept))


def test_a_ladder_first_made_in_inference_mode_serves_training() -> None:
    with torch.inference_mode():
        cos_sin(torch.tensor([3]), Phases.geometric(14, 777.0))
    weight = torch.ones(7, requires_grad=True)
    cos, _ = cos_sin(torch.tensor([3]), Phases.geometric(14, 777.0))
    (weight * cos).sum().backward()
    assert torch.equal(weight.grad, cos[0])


def test_a_default_device_does_not_reach_the_tables() -> None:
    with torch.device("meta"):
        phases = Phases.geometric(10, 4_321.0)
        cos, _ = cos_sin(torch.tensor([3, 400], device="cpu"), phases)
    assert cos.device.type == phases.limbs.device.type == "cpu"
    assert sinusoidal_table(300, 8, device="meta").shape == (300, 8)


COMPILED = """
import torch
from posenc.phases import Phases
from posenc.tables import cos_sin

phases = Phases.geometric(64, 5e5)
run = torch.compile(lambda p: cos_sin(p, phases), fullgraph=True, backend="aot_eager")
for length in (5, 300):
    positions = torch.randint(-(2**31) + 1, 2**31, (length,))
    for found, eager in zip(run(positions), cos_sin(positions, phases), strict=True):
        ulp = torch.nextafter(eager.abs(), torch.tensor(2.0)) - eager.abs()
        assert ((found - eager).abs() <= ulp).all()
"""


def test_compiled_in_one_graph_each_entry_is_within_one_ulp() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3_000:]
