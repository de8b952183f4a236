"""Tables and rows of sines and cosines: against 40-digit arithmetic, at any position and dtype."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from posenc import PosencError, rope_tables, sinusoidal_table
from posenc.errors import PositionOutOfRange
from posenc.frequencies import Frequencies, Layout
from posenc.limits import MAX_POSITION
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.tables import cosine_sum
from tests.devices import needs_cuda
from tests.library.independent import inverse_frequencies, sinusoidal
from tests.library.tensors import assert_close

LAYOUTS: tuple[Layout, ...] = ("interleaved", "half")
F64, BF16, F16 = torch.float64, torch.bfloat16, torch.float16
ATOL = 2**-50  # four units of 1 in float64
# Below 2^31, whole numbers closer to a multiple of pi than any smaller one: numerators of its
# continued fraction. The sine of 411,557,987 is 2.5e-9, which no float32 or float64 angle gives.
NEAR_PI = [3, 22, 355, 103_993, 312_689, 1_146_408, 80_143_857, 411_557_987, 1_068_966_896]


def random_positions(count: int, below: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-below + 1, below, (count,), generator=generator).tolist()


def rows(positions: Any, dim: int, base: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the rows that a sinusoidal scheme adds at these positions: sin, cos, sin, cos, ..."""
    at = torch.as_tensor(positions)
    blank = torch.zeros(1, len(at), dim, dtype=dtype)
    return SinusoidalConfig(dim=dim, base=base).build().embed(blank, at)[0]


def exact_rows(positions: Sequence[int], thetas: Sequence[mpf]) -> list[mpf]:
    """Return sine and cosine of every position times every frequency, row by row, in 40 digits."""
    pairs = (mp.cos_sin(p * theta) for p in positions for theta in thetas)
    return [value for cos, sin in pairs for value in (sin, cos)]


def float32_errors(result: Tensor, exact: Sequence[mpf]) -> tuple[float, float, int]:
    """Return the largest error in ulp where |value| >= 2^-13; below that the largest absolute error
    times 2^38; and how many entries are not the nearest float32."""
    ulps, small, wrong = mpf(0), mpf(0), 0
    for value, true in zip(result.flatten().tolist(), exact, strict=True):
        error = abs(value - true)
        if abs(true) >= mpf(2) ** -13:
            error_in_ulps = error / mpf(2) ** (mp.frexp(true)[1] - 24)
            ulps = max(ulps, error_in_ulps)
            wrong += error_in_ulps > 0.5
        else:
            small = max(small, error * 2**38)
            wrong += value != torch.tensor(float(true), dtype=torch.float32).item()
    return float(ulps), float(small), wrong


@pytest.mark.parametrize(("dim", "base"), [(2, 1e4), (8, 2.0), (24, 5e5), (8, 1e12)])
def test_every_entry_is_within_half_an_ulp_at_every_position(dim: int, base: float) -> None:
    positions = [*NEAR_PI, MAX_POSITION, -MAX_POSITION, 0, 1, -1, 127, 128]
    positions += random_positions(6, 2**31) + random_positions(6, 2**17)
    exact = exact_rows(positions, inverse_frequencies(dim, base))
    ulps, small, wrong = float32_errors(rows(positions, dim, base), exact)
    assert ulps <= 0.5001
    assert small < 1
    assert wrong <= len(NEAR_PI)  # their sines are all rounding error in float64, too
    found = rows(positions, dim, base, F64).flatten().tolist()
    assert max(abs(a - b) for a, b in zip(found, exact, strict=True)) < ATOL


def test_table_rows_are_within_half_an_ulp_late_in_a_long_text() -> None:
    start, dim, count = 1_048_576 - 10, 32, 20
    exact = exact_rows(range(start, start + count), inverse_frequencies(dim, 10000.0))
    cos, sin = rope_tables(count, dim, start=start)
    table = sinusoidal_table(count, dim, start=start)
    for found in (table, torch.stack((sin, cos), -1)):
        ulps, small, wrong = float32_errors(found, exact)
        assert (ulps <= 0.5001, small < 1, wrong) == (True, True, 0)


def nearest(value: mpf, bits: int, lowest: int) -> Fraction:
    """Return the nearest number of `bits` significant bits, no finer than 2^lowest, ties to even."""
    if value == 0:
        return Fraction(0)
    exponent = max(mp.frexp(value)[1] - bits, lowest)
    return Fraction(int(mp.nint(value / mpf(2) ** exponent))) * Fraction(2) ** exponent


@pytest.mark.parametrize(("dtype", "bits", "lowest"), [(BF16, 8, -133), (F16, 11, -24)])
def test_16_bit_tables_hold_the_nearest_numbers(dtype: torch.dtype, bits: int, lowest: int) -> None:
    """torch casts float64 to float16 through float32, which rounds twice.

    No entry here is as near to a tie as float64 is off, so that the nearest number is required.
    """
    dim, base = 64, 1e7  # small sines are subnormal in float16
    table = sinusoidal_table(40, dim, base, dtype=dtype).flatten().tolist()
    exact = exact_rows(range(40), inverse_frequencies(dim, base))
    for found, true in zip(table, exact, strict=True):
        assert Fraction(found) == nearest(true, bits, lowest)
    wide = sinusoidal_table(600, 256, dtype=F64)  # here some entries are within float32 of a tie
    if dtype == F16:
        once = torch.from_numpy(wide.numpy().astype("float16"))
        assert torch.equal(sinusoidal_table(600, 256, dtype=F16), once)  # one cast in two ways
        assert not torch.equal(wide.to(F16), once)


def test_given_frequencies_are_taken_as_the_exact_numbers_they_are() -> None:
    tiny, largest = 2.0**-93, 1.7976931348623157e308
    given = [1.0, 0.1, -0.7, 0.0, 3e4, 1e-30, -tiny, tiny, -(2.0**-62), 5e-324, largest, -largest]
    for start in (1, MAX_POSITION - 1, -MAX_POSITION):
        cos, sin = rope_tables(2, 24, inv_freq=given, start=start, dtype=F64)
        with mp.workdps(400):
            exact = exact_rows((start, start + 1), [mpf(theta) for theta in given])
        found = torch.stack((sin, cos), -1).flatten().tolist()
        assert max(abs(a - b) for a, b in zip(found, exact, strict=True)) < ATOL
    float32 = torch.tensor(given[:6])  # 0.1 as a float32 is another number
    for given_again in (float32, float32.tolist()):
        sin = rope_tables(1, 12, inv_freq=given_again, start=2**20, dtype=F64)[1]
        assert abs(sin[0, 1].item() - mp.sin(2**20 * mpf(float32[1].item()))) < ATOL


def test_tiny_sines_keep_their_leading_digits() -> None:
    exact = exact_rows((1, 129), inverse_frequencies(64, 1e12))
    for value, true in zip(rows([1, 129], 64, 1e12, F64).flatten().tolist(), exact, strict=True):
        assert abs(value - true) <= abs(true) * ATOL


def test_sums_of_cosines_are_exact_to_rounding_at_any_offsets() -> None:
    inv_freq = [500_000.0 ** (-m / 16) for m in range(16)]
    frequencies = Frequencies.from_inv_freq(inv_freq)
    for start in (0, 2**20 - 1, 411_557_987 - 20, -MAX_POSITION):
        offsets = torch.arange(start, start + 40)
        exact = [mp.fsum(mp.cos(int(p) * mpf(theta)) for theta in inv_freq) for p in offsets]
        for order in (slice(None), torch.randperm(40, generator=torch.Generator().manual_seed(1))):
            sums = cosine_sum(offsets[order], frequencies)
            error = sums - torch.tensor([float(x) for x in exact], dtype=F64)[order]
            assert error.abs().max() < 16 * 2e-15


@pytest.mark.parametrize("dtype", [torch.float32, F64, BF16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_is_filled_whatever_its_strides(layout: Layout, dtype: torch.dtype) -> None:
    length, dim = 300, 64
    expected = sinusoidal_table(length, dim, layout=layout, dtype=dtype)
    for out in (
        torch.empty(length, dim, dtype=dtype),
        torch.empty(dim, length, dtype=dtype).T,
        torch.empty(2 * length, dim + 1, dtype=dtype)[::2, 1:],
    ):
        assert sinusoidal_table(length, dim, layout=layout, dtype=dtype, out=out) is out
        assert_close(out, expected, atol=2 * torch.finfo(dtype).eps)
    copy = expected.clone()
    out.fill_(9.0)
    expected.fill_(9.0)
    assert_close(sinusoidal_table(length, dim, layout=layout, dtype=dtype), copy, atol=0)  # again


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_tables_on_cuda_equal_those_on_the_cpu(dtype: torch.dtype) -> None:
    for dim in (10, 128):
        for layout in LAYOUTS:
            options: Any = {"start": 70_000, "layout": layout, "dtype": dtype}
            on_cuda = sinusoidal_table(600, dim, **options, device="cuda")
            assert on_cuda.device.type == "cuda"
            table = sinusoidal_table(600, dim, **options)
            assert_close(on_cuda.cpu(), table, atol=torch.finfo(dtype).eps)


def test_table_on_the_meta_device_has_its_shape() -> None:
    assert sinusoidal_table(300, 8, device="meta").shape == (300, 8)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((4, 7), {}, "dim .*even"),
        ((4, 0), {}, "dim must be .*from 2"),
        ((-1, 8), {}, "length must be"),
        ((10**5_000, 8), {}, "length.*40 digits"),
        ((4, 8, 1.0), {}, "base must be"),
        ((4, 8, float("nan")), {}, "base must be"),
        ((4, 8, "1e4"), {}, "base"),
        ((4, 8), {"start": 2**31}, "start"),
        ((4, 8), {"start": 2**31 - 3}, "2,147,483,647"),
        ((2**30, 64), {}, "may have at most"),
        ((4, 8), {"dtype": torch.int64}, "dtype must be"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_tables_are_refused(arguments: Any, options: Any, message: str) -> None:
    for function in (sinusoidal_table, rope_tables):
        with pytest.raises(PosencError, match=message):
            function(*arguments, **options)


@pytest.mark.parametrize("position", [MAX_POSITION + 1, -MAX_POSITION - 1, 2**62, -(2**63)])
def test_position_past_the_exact_range_is_refused(position: int) -> None:
    with pytest.raises(PositionOutOfRange, match="2,147,483,647") as caught:
        rows([0, position], 8, 1e4)
    assert caught.value.limit == MAX_POSITION


@pytest.mark.parametrize("dim", [66, 600])  # an odd number of pairs, and one that is made in parts
def test_window_of_a_table_has_the_rows_of_their_positions(dim: int) -> None:
    length, start = 572, 2**20 - 300
    chosen = torch.tensor([5, 0, length - 1, 5, 256, 200])
    cos, sin = rope_tables(length, dim, start=start, dtype=F64)
    for layout in LAYOUTS:
        table = sinusoidal_table(length, dim, start=start, layout=layout, dtype=F64)
        joined = torch.cat((sin, cos), -1)
        if layout == "interleaved":
            joined = torch.stack((sin, cos), -1).flatten(1)
            assert_close(rows(chosen + start, dim, 10000.0, F64), table[chosen], ATOL)
        assert_close(joined, table, ATOL)
        part = sinusoidal_table(2, dim, start=start + 255, layout=layout, dtype=F64)
        assert_close(part, table[255:257], ATOL)
    expected = sinusoidal(range(start + 571, start + 572), dim, layout="half")
    assert_close(table[571:], expected, ATOL)


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (-5, 6), (-300, 700)])
def test_position_0_is_exact_in_a_table_that_starts_below_it(start: int, length: int) -> None:
    table = sinusoidal_table(length, 8, start=start, dtype=torch.float64)
    cos, sin = rope_tables(length, 8, start=start, dtype=torch.float64)
    assert table[-start].tolist() == [0.0, 1.0] * 4
    assert (cos[-start].tolist(), sin[-start].tolist()) == ([1.0] * 4, [0.0] * 4)
