"""apply_rope turns pairs of features as complex numbers: every layout, width, stride and dtype."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import apply_rope, rope_tables, rotation
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout, interleaved_to_half
from posenc.schemes.rope import RopeConfig
from tests.devices import needs_cuda
from tests.library.tensors import assert_close, half_ulp, random

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
LAYOUTS: tuple[Layout, ...] = ("interleaved", "half")
in_both_layouts = pytest.mark.parametrize("layout", LAYOUTS)


def as_complex_product(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Return the definition in complex128: each pair of features times cos + i sin, the rest as it is."""
    pairs = cos.shape[-1]
    x = x.to(torch.complex128)
    first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    if layout == "half":
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    turned = (x[..., first] + 1j * x[..., second]) * (cos.double() + 1j * sin.double())
    out = x.real.clone()
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


def assert_turned(result: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> None:
    """Compare with the definition: 16-bit dtypes are turned in float32 and rounded once."""
    exact = as_complex_product(x, cos, sin, layout)
    assert result.dtype == x.dtype
    if x.dtype in (F32, F64):
        allowed = 4 * torch.finfo(x.dtype).eps * exact.abs().max().clamp(1) + 0 * exact
    else:
        allowed = half_ulp(exact, x.dtype) + 2e-6
    assert ((result.double() - exact).abs() <= allowed).all()


def test_sign_and_pairing_by_hand() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    cos, sin = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])  # a quarter turn; none
    assert apply_rope(x, cos, sin).tolist() == [[-2.0, 1.0, 3.0, 4.0]]
    assert apply_rope(x, cos, sin, layout="half").tolist() == [[-3.0, 2.0, 1.0, 4.0]]


@in_both_layouts
@pytest.mark.parametrize("dtype", [F32, F64, BF16, F16])
def test_any_shape_equals_complex_multiplication(dtype: torch.dtype, layout: Layout) -> None:
    for leading, length, pairs, tail in (
        ((), 1, 1, 0), ((3,), 7, 20, 5), ((2, 3), 40, 32, 0), ((2, 1, 3), 5, 16, 1), ((2,), 0, 4, 0),
    ):  # fmt: skip
        x = random(*leading, length, 2 * pairs + tail, dtype=dtype)
        for rows in (leading[-1:], (1,) * len(leading)):  # tables of each entry, or shared ones
            angle = random(*rows, length, pairs, seed=1) * 100
            for angles in (F32, F64):
                cos, sin = angle.cos().to(angles), angle.sin().to(angles)
                result = apply_rope(x, cos, sin, layout=layout)
                if length:
                    assert_turned(result, x, cos, sin, layout)
                out = torch.full_like(x, math.nan)
                assert apply_rope(x, cos, sin, layout=layout, out=out) is out
                assert_close(out, result, atol=10 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dim", [2, 10, 64])
def test_layouts_differ_by_a_permutation_of_the_features(dim: int) -> None:
    to_half = interleaved_to_half(dim)
    to_interleaved = to_half.argsort()
    assert to_half.tolist() == [*range(0, dim, 2), *range(1, dim, 2)]
    x, (cos, sin) = random(3, 50, dim), rope_tables(50, dim, dtype=F64)
    half = apply_rope(x, cos, sin, layout="half")
    interleaved = apply_rope(x[..., to_interleaved], cos, sin)
    assert_close(interleaved[..., to_half], half, atol=4e-15)
    assert dim == 2 or (apply_rope(x, cos, sin) - half).abs().max() > 0.1


@in_both_layouts
@pytest.mark.parametrize(
    ("batch", "length", "key_dtype"), [(1, 1, F32), (1, 60, F32), (2, 3, F32), (1, 3, BF16)]
)
def test_queries_and_keys_are_turned_together_as_each_alone(
    batch: int, length: int, key_dtype: torch.dtype, layout: Layout
) -> None:
    q = random(batch, 4, length, 32, dtype=F32)
    k = random(batch, 2, length, 32, seed=1, dtype=key_dtype)
    at, (cos, sin) = torch.arange(length) + 1_000, rope_tables(length, 32, start=1_000)
    both = RopeConfig(dim=32, layout=layout).build().rotate(q, k, at, at)
    for together, x in zip(both, (q, k), strict=True):
        assert_turned(together, x, cos, sin, layout)


@in_both_layouts
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_large_tensor_is_turned_in_tiles_with_the_same_values(
    dtype: torch.dtype, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, angle = random(2, 3, 130, 44, dtype=dtype), random(2, 1, 130, 20, seed=2) * 100
    cos, sin = angle.cos().float(), angle.sin().float()
    for rows in (1, 7, 64):  # in a tile
        monkeypatch.setattr(rotation, "TILE_ENTRIES", 6 * 44 * rows)
        assert_turned(apply_rope(x, cos, sin, layout=layout), x, cos, sin, layout)


@in_both_layouts
@pytest.mark.parametrize("width", [6, 32])
def test_gradients_of_first_and_second_order_are_right(width: int, layout: Layout) -> None:
    x, angle = random(1, 2, width).requires_grad_(), random(2, 3, seed=1).requires_grad_()

    def turned(x: Tensor, angle: Tensor) -> Tensor:
        return apply_rope(x, angle.cos(), angle.sin(), layout=layout)

    assert torch.autograd.gradcheck(turned, (x, angle), fast_mode=True)
    assert torch.autograd.gradgradcheck(turned, (x, angle), fast_mode=True)


@in_both_layouts
@pytest.mark.parametrize(("length", "width"), [(9, 12), (2_100, 64)])  # the longer one in tiles
def test_torch_func_sees_through_the_rotation(length: int, width: int, layout: Layout) -> None:
    x, tangent = random(2, 4, length, width)
    cos, sin = rope_tables(length, width, dtype=F64)

    def turned(x: Tensor) -> Tensor:
        return apply_rope(x, cos, sin, layout=layout)

    assert_turned(torch.vmap(turned)(x), x, cos, sin, layout)
    gradient = torch.func.grad(lambda x: (turned(x) * tangent).sum())(x)
    assert_turned(gradient, tangent, cos, -sin, layout)


def test_out_is_refused_where_a_gradient_is_recorded() -> None:
    x, cos = torch.ones(3, 8, requires_grad=True), torch.ones(3, 4)
    cases = ((x, torch.empty(3, 8)), (x.detach(), torch.empty(3, 8, requires_grad=True)))
    for x_or_copy, out in cases:
        with pytest.raises(SchemeArgumentError, match="gradient"):
            apply_rope(x_or_copy, cos, cos, out=out)
    with torch.no_grad():
        assert torch.equal(apply_rope(x, cos, cos * 0, out=torch.empty(3, 8)), x)


@needs_cuda
@in_both_layouts
@pytest.mark.parametrize("dtype", [F32, F64, BF16, F16])
def test_rotation_on_cuda_equals_the_definition(dtype: torch.dtype, layout: Layout) -> None:
    x, (cos, sin) = random(2, 3, 300, 36, dtype=dtype), rope_tables(300, 32)
    on_cuda = (x.cuda(), cos.cuda(), sin.cuda())
    result = apply_rope(*on_cuda, layout=layout)
    assert_turned(result.cpu(), x, cos, sin, layout)
    result = apply_rope(*on_cuda, layout=layout, out=torch.empty_like(result))
    assert_turned(result.cpu(), x, cos, sin, layout)


@pytest.mark.usefixtures("no_shape_checks")
def test_arguments_that_do_not_fit_are_refused() -> None:
    for size, first, second in (
        ((3, 8), (3, 5), (3, 5)),  # wider than x
        ((3, 8), (4, 4), (4, 4)),  # other length
        ((3, 8), (1, 4), (1, 4)),  # one row for three
        ((3, 8), (3, 4), (3, 3)), ((3, 8), (4,), (4,)), ((3, 8), (3, 0), (3, 0)),
        ((8,), (1, 4), (1, 4)), ((2, 3, 8), (3, 3, 4), (3, 3, 4)),
    ):  # fmt: skip
        with pytest.raises(SchemeArgumentError, match="cos and sin must"):
            apply_rope(torch.ones(size), torch.ones(first), torch.ones(second))
    x, cos, other = torch.ones(3, 8), torch.ones(3, 4), torch.ones(3, 8, device="meta")
    cases: list[tuple[str, tuple[Tensor, ...], dict[str, Any]]] = [
        ('"interleaved" or "half"', (x, cos, cos), {"layout": "neox"}),
        ("floating point", (x.long(), cos, cos), {}),
        ("one device", (other, cos, cos), {}),
        *(("out must be", (x, cos, cos), {"out": out})
          for out in (torch.ones(3, 9), torch.ones(3, 8).double(), other)),
    ]  # fmt: skip
    for message, tensors, options in cases:
        with pytest.raises(SchemeArgumentError, match=message):
            apply_rope(*tensors, **options)
    for dim in (0, 7, -2):
        with pytest.raises(SchemeArgumentError, match="dim must be"):
            interleaved_to_half(dim)


@in_both_layouts
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_strided_overlapping_and_shared_memory_change_nothing(
    dtype: torch.dtype, layout: Layout
) -> None:
    x, (cos, sin) = random(2, 3, 50, 36, dtype=dtype), rope_tables(50, 32)
    for strided in (x.mT.contiguous().mT, torch.cat((x, x[..., :1]), -1)[..., :36]):
        for out in (torch.zeros_like(x), strided):
            assert apply_rope(strided, cos, sin, layout=layout, out=out) is out
            assert_turned(out, x, cos, sin, layout)
    both = torch.cat((x, x), -2)  # out overlaps x by all but ten rows
    apply_rope(both[..., :50, :], cos, sin, layout=layout, out=both[..., 10:60, :])
    assert_turned(both[..., 10:60, :], x, cos, sin, layout)
    tables = torch.cat(rope_tables(6, 4), dim=1)  # out may be the memory of the tables
    x, cos, sin = random(6, 4, dtype=F32), tables[:, :2].clone(), tables[:, 2:].clone()
    result = apply_rope(x, tables[:, :2], tables[:, 2:], layout=layout, out=tables)
    assert_turned(result, x, cos, sin, layout)


def test_cosines_of_a_position_may_be_changed_by_their_owner() -> None:
    rope, position = RopeConfig(dim=8).build(), torch.tensor([5])
    cos, sin = rope.cos_sin(position)
    before = cos.clone(), sin.clone()
    cos.neg_()
    sin.zero_()
    assert all(map(torch.equal, rope.cos_sin(position), before))
