"""Each hook as a user calls it: positions, precisions, devices."""

import contextlib
import copy
import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import (
    SCHEMES,
    NoPositionKernel,
    PosencError,
    PositionOutOfRange,
    Scheme,
    SchemeConfig,
    alibi_bias,
    alibi_slopes,
    fields,
    offset_curve,
    position_kernel,
    position_vectors,
    sinusoidal_table,
)
from posenc.errors import ConfigError, SchemeArgumentError
from tests.conftest import SMALL
from tests.hook_calls import DEVICES, DIM, DTYPES, HEADS, PLACES, WIDTH, answers, random
from tests.stand_ins import STAND_INS

pytestmark = pytest.mark.over_code


# Precisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positions", PLACES, ids=["none", "window", "per entry"])
def test_answers_come_in_the_dtype_of_the_question(
    scheme: Scheme, dtype: torch.dtype, positions: Tensor | None
) -> None:
    x, q = random(2, 9, DIM, dtype=dtype), random(2, HEADS, 9, WIDTH, dtype=dtype)
    for name, value in answers(scheme, x, q, positions).items():
        # A bias stays in float32 at least, since half precision cannot tell far distances apart.
        least = torch.promote_types(dtype, torch.float32) if name == "bias" else dtype
        assert value.dtype == least, name
        assert value.isfinite().all(), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [0, 70_000, 2**31 - 20])
def test_half_precision_adds_one_rounding_to_the_exact_answer_at_any_position(
    scheme: Scheme, dtype: torch.dtype, first: int
) -> None:
    if scheme.max_length is not None:
        first = 0
    positions = torch.arange(9) + first
    q = random(1, HEADS, 9, WIDTH, dtype=dtype)
    exact = scheme.rotate(q.double(), q.double(), positions, positions)[0]
    error = (scheme.rotate(q, q, positions, positions)[0].double() - exact).abs()
    half_ulp = torch.finfo(dtype).eps / 2 * torch.exp2(exact.abs().log2().floor())
    assert (error <= half_ulp * 1.001 + 1e-6).all()
    rows = scheme.embed(torch.zeros(1, 9, DIM, dtype=dtype), positions)
    exact_rows = scheme.embed(torch.zeros(1, 9, DIM, dtype=torch.float64), positions)
    assert (
        torch.equal(rows.double(), exact_rows.to(dtype).double())
        or (
            (rows.double() - exact_rows).abs()
            <= torch.finfo(dtype).eps / 2 * exact_rows.abs() * 1.001
        ).all()
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_casting_the_module_never_casts_an_angle_or_a_slope(
    scheme: Scheme, dtype: torch.dtype
) -> None:
    """model.to(bfloat16) with angles in a buffer is nonsense from position 2,000 on.

    What is trained is rounded, and only that: the answers are those of the rounded parameters.
    """
    cast, rounded = copy.deepcopy(scheme).to(dtype), copy.deepcopy(scheme)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.to(dtype))
    q = random(1, HEADS, 9, WIDTH, dtype=torch.float64)
    positions = torch.arange(9) + 200
    x = torch.zeros(1, 9, DIM, dtype=torch.float64)
    before, after = answers(rounded, x, q, positions), answers(cast, x, q, positions)
    for name, value in before.items():
        assert torch.equal(after[name], value), name
    if not list(scheme.parameters()):
        assert torch.equal(position_kernel(cast, 9), position_kernel(scheme, 9))


@pytest.mark.parametrize("size", [(2, 1), (64, 8), (512, 8), (4_096, 64)])
@pytest.mark.parametrize(
    ("kind", "base"),
    # A scheme without a base is the same for all.
    [(kind, base) for kind, config in SCHEMES.items() if kind not in STAND_INS
     for base in ((2.0, 10000.0, 1e12) if "base" in fields.rules(config) else (10000.0,))],
)  # fmt: skip
def test_rounding_to_float32_moves_no_similarity_by_a_millionth(
    kind: str, size: tuple[int, int], base: float
) -> None:
    """What Setting.table_dtype says, at the ends of what the dashboard can show."""
    dim, heads = size
    setting = SMALL.replace(dim=dim, heads=heads, base=base, train_length=1_024)
    scheme = setting.config(kind).build()
    length = 1_024

    def similarity(dtype: torch.dtype | None) -> Tensor:
        kernel = position_kernel(scheme, length, dtype=dtype)
        size = kernel.diagonal().sqrt()
        return kernel / (size[:, None] * size)

    assert (similarity(torch.float32) - similarity(None)).abs().max() < 1e-6


# Positions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str
)
@pytest.mark.usefixtures("no_shape_checks")
def test_positions_of_any_whole_dtype_mean_the_same(scheme: Scheme, dtype: torch.dtype) -> None:
    """An offset of uint8 positions computed in uint8 wraps around: 0 - 5 = 251."""
    positions = torch.tensor([5, 0, 120, 3, 127, 1, 64, 2, 9])
    x, q = random(1, 9, DIM), random(1, HEADS, 9, WIDTH)
    expected = answers(scheme, x, q, positions)
    for name, value in answers(scheme, x, q, positions.to(dtype)).items():
        assert torch.equal(value, expected[name]), name
    slopes = alibi_slopes(2)
    expected_bias = alibi_bias(positions, positions, slopes)
    assert torch.equal(alibi_bias(positions.to(dtype), positions.to(dtype), slopes), expected_bias)


@pytest.mark.parametrize("value", [torch.arange(9.0), torch.ones(9, dtype=torch.bool)])
@pytest.mark.usefixtures("no_shape_checks")
def test_positions_that_are_no_whole_numbers_are_refused(kind: str, value: Tensor) -> None:
    scheme = SMALL.config(kind).build()
    if type(scheme).embed is not Scheme.embed:
        with pytest.raises(PosencError, match="positions"):
            scheme.embed(torch.zeros(1, 9, DIM), value)
    if type(scheme).rotate is not Scheme.rotate:
        q = torch.zeros(1, HEADS, 9, WIDTH)
        with pytest.raises(PosencError, match="positions"):
            scheme.rotate(q, q, value, value)


@pytest.mark.usefixtures("no_shape_checks")
def test_a_width_that_is_not_the_scheme_s_is_refused(kind: str) -> None:
    """A rotary table on a wider head would turn a part of it in silence; one feature would spread."""
    scheme = SMALL.config(kind).build()
    for width in (1, DIM // 2, 2 * DIM):
        if type(scheme).embed is not Scheme.embed:
            with pytest.raises(PosencError, match=r"width|shape"):
                scheme.embed(torch.zeros(1, 3, width))
            with pytest.raises(PosencError, match=r"width|shape"):
                scheme.embed(torch.zeros(1, 3, width), torch.arange(3))
    for width in (2, WIDTH // 2, 2 * WIDTH):
        if type(scheme).rotate is not Scheme.rotate:
            q = torch.zeros(1, HEADS, 3, width)
            with pytest.raises(PosencError, match=r"width|shape"):
                scheme.rotate(q, q)


def test_positions_beyond_2_31_are_refused_where_the_arithmetic_ends(kind: str) -> None:
    scheme = SMALL.config(kind).build()
    past = torch.tensor([2**31])
    if type(scheme).embed is not Scheme.embed:
        with pytest.raises(PositionOutOfRange):
            scheme.embed(torch.zeros(1, 1, DIM), past)
    if type(scheme).rotate is not Scheme.rotate:
        q = torch.zeros(1, HEADS, 1, WIDTH)
        with pytest.raises(PositionOutOfRange):
            scheme.rotate(q, q, past, past)


def test_a_learned_table_refuses_positions_it_has_no_row_for_and_never_wraps() -> None:
    scheme = SCHEMES["learned"](dim=4, max_len=10).build()
    x = torch.zeros(1, 1, 4)
    for position in (-1, 10, 11, 20, 2**40):
        with pytest.raises(PositionOutOfRange, match="0 to 9") as refused:
            scheme.embed(x, torch.tensor([position]))
        assert refused.value.limit == 10
        assert f"{position:,}" in str(refused.value)
    with pytest.raises(PositionOutOfRange, match="position 10 has none"):
        scheme.embed(torch.zeros(1, 11, 4))
    assert scheme.embed(torch.zeros(1, 10, 4)).shape == (1, 10, 4)
    assert scheme.embed(torch.zeros(1, 0, 4), torch.arange(0)).shape == (1, 0, 4)


@pytest.mark.parametrize("ask", [position_kernel, position_vectors, offset_curve])
@pytest.mark.parametrize("length", [0, -1, 2**31, 10**30, 2.0, True, "8", None])
@pytest.mark.usefixtures("no_shape_checks")
def test_lengths_that_cannot_be_are_refused(scheme: Scheme, ask: object, length: object) -> None:
    with pytest.raises(PosencError):
        ask(scheme, length)


def test_an_unknown_kind_of_scheme_is_answered_with_those_that_are_known() -> None:
    assert type(SCHEMES).__mro__[1] is dict
    assert "shaw " not in SCHEMES
    with pytest.raises(ConfigError, match=r"one of learned, .*, got 'shaw '\.$"):
        SCHEMES["shaw "]


@pytest.mark.parametrize("kind", [*SCHEMES])
@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"head": "first"}, "head must be"),
        ({"head": None}, "head must be"),
        ({"start": 0.5}, "start must be"),
        ({"start": 2**31}, "start must be"),
        ({"dtype": torch.int8}, "dtype must be"),
        ({"dtype": "float16"}, "dtype must be"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_what_no_scheme_can_mean_is_refused_by_every_scheme(
    kind: str, asked: dict[str, Any], match: str
) -> None:
    scheme = SMALL.config(kind).build()
    for ask in (position_kernel, position_vectors, offset_curve):
        if ask is offset_curve and "start" in asked:
            continue  # a curve has no start
        with pytest.raises(SchemeArgumentError, match=match):
            ask(scheme, 4, **asked)


@pytest.mark.parametrize("head", [-1, HEADS, 1.0, True, "first", None])
@pytest.mark.usefixtures("no_shape_checks")
def test_heads_that_a_scheme_does_not_have_are_refused(head: object) -> None:
    scheme = SMALL.config("alibi").build()
    for ask in (position_kernel, position_vectors, offset_curve):
        with pytest.raises(PosencError, match="head must be"):
            ask(scheme, 4, head=head)


# Devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("positions", PLACES, ids=["none", "window", "per entry"])
def test_answers_live_where_the_question_does_and_do_not_change(
    scheme: Scheme, device: str, positions: Tensor | None
) -> None:
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    expected = answers(scheme, x, q, positions)
    moved = copy.deepcopy(scheme).to(device)
    places = [positions] if positions is None else [positions, positions.to(device)]
    for at in places:
        for name, value in answers(moved, x.to(device), q.to(device), at).items():
            assert value.device.type == device, name
            assert value.shape == expected[name].shape, name
            if device != "meta":
                torch.testing.assert_close(value.cpu(), expected[name], rtol=0, atol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_kernels_and_vectors_live_on_the_device_asked_for(scheme: Scheme, device: str) -> None:
    for ask in (position_kernel, position_vectors, offset_curve):
        try:
            expected = ask(scheme, 7)
        except PosencError:
            continue
        found = ask(scheme, 7, device=device)
        assert found.device.type == device
        assert found.dtype == torch.float64
        if device != "meta":
            torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=1e-13)


def test_building_under_a_meta_device_leaves_no_trace_in_later_schemes(
    config: SchemeConfig,
) -> None:
    """`with torch.device("meta")` is how large models are made; caches must not keep its ghosts."""
    fresh = {"base": 9_876.5} if "base" in {f.name for f in dataclasses.fields(config)} else {}
    rare = config.replace(**fresh)  # a ladder that no other test has put into a cache
    with torch.device("meta"):
        rare.build()
    scheme = rare.build()
    q = random(1, HEADS, 3, WIDTH)
    for name, value in answers(scheme, random(1, 3, DIM), q, None).items():
        assert value.device.type == "cpu", name
        assert value.isfinite().all(), name
    with contextlib.suppress(NoPositionKernel):
        assert position_kernel(scheme, 3).isfinite().all()


def test_the_default_device_of_torch_does_not_matter(config: SchemeConfig) -> None:
    x, q, positions = random(1, 9, DIM), random(1, HEADS, 9, WIDTH), torch.arange(9) + 3
    expected = answers(config.build(seed=2), x, q, positions)
    with torch.device("meta"):
        found = answers(config.build(device="cpu", seed=2), x, q, positions)
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name


def test_the_default_dtype_of_torch_does_not_matter(config: SchemeConfig) -> None:
    x, q, positions = random(1, 9, DIM), random(1, HEADS, 9, WIDTH), torch.arange(9) + 3
    expected = answers(config.build(seed=2), x, q, positions)
    torch.set_default_dtype(torch.float64)
    try:
        found = answers(config.build(seed=2), x, q, positions)
        table = sinusoidal_table(3, 4)
    finally:
        torch.set_default_dtype(torch.float32)
    assert table.dtype == torch.float32
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name


# A trained table --------------------------------------------------------------------------------


def test_softmax_scale_is_one_over_the_root_of_the_head_width(scheme: Scheme) -> None:
    for width in (1, 8, 64, 80):
        assert scheme.softmax_scale(width) == pytest.approx(1 / math.sqrt(width), rel=1e-15)
