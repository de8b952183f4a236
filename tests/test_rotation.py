"""apply_rope turns pairs of features as complex numbers: every layout, width, stride and dtype."""

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from x_transformers.x_transformers import apply_rotary_pos_emb as apply_interleaved

from posenc import rotation
from posenc.errors import SchemeArgumentError
from posenc.layout import interleaved_to_half
from posenc.rotation import apply_rope, apply_rope_to_both
from posenc.tables import rope_tables
from tests import independent

LAYOUTS = ["interleaved", "half"]
WIDTHS = [2, 4, 6, 10, 24, 32, 64, 80, 128]


@pytest.fixture
def threads() -> Iterator[None]:
    """The number of threads as it was, whatever a test sets it to."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def as_complex_product(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """The definition in complex128: each pair of features times cos + i sin, the tail untouched."""
    pairs = cos.shape[-1]
    x = x.to(torch.complex128)
    even, odd = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    if layout == "half":
        even, odd = slice(0, pairs), slice(pairs, 2 * pairs)
    turned = (x[..., even] + 1j * x[..., odd]) * (cos.double() + 1j * sin.double())
    out = x.real.clone()
    out[..., even], out[..., odd] = turned.real, turned.imag
    return out


# The definition -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("width", "rotary"), [(8, 8), (10, 6), (7, 4), (64, 32)])
def test_a_row_is_turned_pair_by_pair_as_the_paper_says(
    width: int, rotary: int, layout: str
) -> None:
    x = random(5, width, dtype=torch.float64)
    cos, sin = rope_tables(5, rotary, 100.0, start=1_000_003, dtype=torch.float64)
    positions = range(1_000_003, 1_000_008)
    expected = independent.turned(x, positions, 100.0, rotary=rotary, layout=layout)
    found = apply_rope(x, cos, sin, layout=layout)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-15)
    assert torch.equal(found[:, rotary:], x[:, rotary:])


def test_the_sign_and_the_pairing_by_hand() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    cos, sin = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])  # a quarter turn; none
    assert apply_rope(x, cos, sin).tolist() == [[-2.0, 1.0, 3.0, 4.0]]
    assert apply_rope(x, cos, sin, layout="half").tolist() == [[-3.0, 2.0, 1.0, 4.0]]


@given(
    leading=st.lists(st.integers(1, 3), max_size=3),
    length=st.integers(1, 40),
    pairs=st.integers(1, 40),
    tail=st.integers(0, 5),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
    angles=st.sampled_from([torch.float32, torch.float64]),
    shared=st.booleans(),
)
def test_any_shape_and_dtype_equals_complex_multiplication(
    leading: list[int], length: int, pairs: int, tail: int, layout: str,
    dtype: torch.dtype, angles: torch.dtype, shared: bool,
) -> None:  # fmt: skip
    x = random(*leading, length, 2 * pairs + tail, dtype=dtype)
    rows = [1] * len(leading) if shared else leading
    angle = random(*(rows[-1:] or []), length, pairs, seed=1, dtype=torch.float64) * 100
    cos, sin = angle.cos().to(angles), angle.sin().to(angles)
    exact = as_complex_product(x, cos, sin, layout)
    out = torch.full_like(x, math.nan)
    found = apply_rope(x, cos, sin, layout=layout)
    assert found.dtype == dtype
    assert apply_rope(x, cos, sin, layout=layout, out=out) is out
    assert torch.equal(out, found)
    assert torch.equal(found[..., 2 * pairs :], x[..., 2 * pairs :])
    if dtype in (torch.float32, torch.float64):
        close = 4 * torch.finfo(dtype).eps * exact.abs().max().clamp(1)
    else:  # one rounding: half a unit of each entry, and the float32 arithmetic's share
        unit = torch.finfo(dtype).eps * 2 ** exact.abs().clamp(2**-14).log2().floor()
        close = unit / 2 + 2e-6
    assert ((found.double() - exact).abs() <= close).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norms_are_kept_and_turning_back_undoes_it(layout: str) -> None:
    x = random(2, 3, 300, 64, dtype=torch.float64)
    cos, sin = rope_tables(300, 64, dtype=torch.float64)
    turned = apply_rope(x, cos, sin, layout=layout)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-14, atol=0)
    back = apply_rope(turned, cos, -sin, layout=layout)
    torch.testing.assert_close(back, x, rtol=0, atol=2e-15 * float(x.abs().max()))
    assert (turned - x)[..., 1:, :].abs().max() > 1


@pytest.mark.parametrize("dim", WIDTHS)
def test_layouts_differ_by_a_permutation_of_the_features(dim: int) -> None:
    to_half = interleaved_to_half(dim)
    to_interleaved = to_half.argsort()  # the way back
    assert to_half.tolist() == [*range(0, dim, 2), *range(1, dim, 2)]
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = random(3, 50, dim, dtype=dtype)  # half-split features
        cos, sin = rope_tables(50, dim)
        half = apply_rope(x, cos, sin, layout="half")
        interleaved = apply_rope(x[..., to_interleaved], cos, sin)
        assert torch.equal(interleaved[..., to_half], half)
        if dim > 2:
            assert not torch.allclose(apply_rope(x, cos, sin), half)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [6, 32])
def test_products_and_sums_are_rounded_one_by_one(width: int, layout: str) -> None:
    x = random(9, width, dtype=torch.float64)
    cos, sin = rope_tables(9, width, start=5, dtype=torch.float64)
    found = apply_rope(x, cos, sin, layout=layout)
    for row in range(9):
        for m in range(width // 2):
            first, second = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + width // 2)
            x0, x1 = x[row, first].item(), x[row, second].item()
            c, s = cos[row, m].item(), sin[row, m].item()
            assert found[row, first].item() == x0 * c - x1 * s
            assert found[row, second].item() == x1 * c + x0 * s


@pytest.mark.parametrize("dim", [0, 7, -2])
def test_a_permutation_of_an_impossible_width_is_refused(dim: int) -> None:
    with pytest.raises(SchemeArgumentError, match="dim must be"):
        interleaved_to_half(dim)


# Peers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 64, 80])
def test_half_split_equals_transformers_and_interleaved_equals_x_transformers(width: int) -> None:
    q, k = random(2, 2, 3, 70, width)
    cos, sin = rope_tables(70, width)
    wide = [torch.cat((plane, plane), -1)[None] for plane in (cos, sin)]
    for ours, theirs in zip((q, k), apply_rotary_pos_emb(q, k, *wide), strict=True):
        found = apply_rope(ours, cos, sin, layout="half")
        torch.testing.assert_close(found, theirs, rtol=0, atol=1e-6)
    angles = torch.atan2(*rope_tables(70, width, dtype=torch.float64)[::-1])
    theirs = apply_interleaved(q.double(), angles.repeat_interleave(2, -1)[None])
    found = apply_rope(q.double(), *rope_tables(70, width, dtype=torch.float64))
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-14)


def test_bfloat16_is_rounded_once_where_transformers_rounds_four_times() -> None:
    x = random(1, 4, 200, 64, dtype=torch.bfloat16)
    cos, sin = rope_tables(200, 64)
    exact = as_complex_product(x, cos, sin, "half")
    wide = [torch.cat((plane, plane), -1)[None].bfloat16() for plane in (cos, sin)]
    theirs, _ = apply_rotary_pos_emb(x, x, *wide)
    ours = apply_rope(x, cos, sin, layout="half")
    error, peer = ((found.double() - exact).pow(2).mean().sqrt() for found in (ours, theirs))
    nearest = (exact.float().bfloat16().double() - exact).pow(2).mean().sqrt()
    assert error <= 1.0001 * nearest
    assert peer > 1.5 * error


# Memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides_of_x_and_out_and_writing_onto_x_change_no_bit(
    dtype: torch.dtype, layout: str
) -> None:
    x = random(2, 3, 50, 20, dtype=dtype)
    cos, sin = rope_tables(50, 16)
    expected = apply_rope(x, cos, sin, layout=layout)
    odd = torch.empty(x.numel() + 1, dtype=dtype)[1:].view(x.shape).copy_(x)
    for same in (
        x.transpose(1, 2).contiguous().transpose(1, 2),
        x.mT.contiguous().mT,
        torch.cat((x, x[..., :1]), -1)[..., :20],
        x.repeat_interleave(2, 0)[::2],
        odd,
    ):
        assert torch.equal(same, x)
        assert torch.equal(apply_rope(same, cos, sin, layout=layout), expected)
        for out in (torch.zeros_like(same), torch.zeros_like(x), same):
            assert apply_rope(same, cos, sin, layout=layout, out=out) is out
            assert torch.equal(out, expected)
            if out is not same:
                assert torch.equal(same, x)
    spread = torch.zeros(2, 3, 50, 60, dtype=dtype)[..., ::3]
    assert torch.equal(apply_rope(x, cos, sin, layout=layout, out=spread), expected)
    shared = torch.cat((x, x), -2)  # out overlaps x by all but ten rows
    apply_rope(shared[..., :50, :], cos, sin, layout=layout, out=shared[..., 10:60, :])
    assert torch.equal(shared[..., 10:60, :], expected)
    assert torch.equal(apply_rope(x[:, :1].expand(2, 3, 50, 20), cos, sin, layout=layout)[:, 0],
                       expected[:, 0])  # fmt: skip


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", WIDTHS)
def test_one_token_one_head_and_a_prefix_have_the_bits_of_the_whole(
    width: int, layout: str
) -> None:
    length = 151  # with 14 heads of 64 features and more, enough for several threads
    cos, sin = rope_tables(length, width)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = random(2, 7, length, width, dtype=dtype)
        torch.set_num_threads(1)
        whole = apply_rope(x, cos, sin, layout=layout)
        recorded = apply_rope(x.clone().requires_grad_(), cos, sin, layout=layout)
        assert torch.equal(recorded.detach(), whole)
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert torch.equal(apply_rope(x, cos, sin, layout=layout), whole)
            for at in (0, 1, 63, 150):
                token = slice(at, at + 1)
                found = apply_rope(x[..., token, :], cos[token], sin[token], layout=layout)
                assert torch.equal(found, whole[..., token, :])
                found = apply_rope(x[..., :at, :], cos[:at], sin[:at], layout=layout)
                assert torch.equal(found, whole[..., :at, :])
            assert torch.equal(apply_rope(x[1, 2], cos, sin, layout=layout), whole[1, 2])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_of_tiles_change_no_bit(
    dtype: torch.dtype, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(2, 3, 130, 40, dtype=dtype)
    angle = random(2, 1, 130, 20, seed=2)
    expected = apply_rope(x, angle.cos(), angle.sin(), layout=layout)
    for entries in (1, 6 * 40 * 7, 6 * 40 * 129):
        monkeypatch.setattr(rotation, "TILE_ENTRIES", entries)
        assert torch.equal(apply_rope(x, angle.cos(), angle.sin(), layout=layout), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 3, 60])
@pytest.mark.parametrize("batch", [1, 2])
def test_queries_and_keys_turned_together_have_the_bits_of_each_alone(
    batch: int, length: int, key_dtype: torch.dtype, layout: str
) -> None:
    q, k = random(batch, 4, length, 32), random(batch, 2, length, 32, seed=1).to(key_dtype)
    cos, sin = rope_tables(length, 32, start=1_000)
    both = apply_rope_to_both(q, k, cos, sin, layout=layout)
    for together, x in zip(both, (q, k), strict=True):
        alone = apply_rope(x, cos, sin, layout=layout)
        assert together.dtype == alone.dtype
        assert together.is_contiguous()
        assert torch.equal(together, alone)


def test_no_rows_are_no_error() -> None:
    x = torch.empty(2, 3, 0, 8)
    for layout in LAYOUTS:
        for dtype in (torch.float32, torch.float16):
            empty, cos = x.to(dtype), torch.empty(0, 4)
            assert apply_rope(empty, cos, cos, layout=layout).shape == x.shape
            apply_rope(empty, cos, cos, layout=layout, out=torch.empty_like(empty))


# Gradients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [6, 8, 32])
def test_gradients_of_any_order_are_right(width: int, layout: str) -> None:
    x = random(2, 3, width, dtype=torch.float64).requires_grad_()
    angle = random(3, 3, seed=1, dtype=torch.float64).requires_grad_()

    def turned(x: Tensor, angle: Tensor) -> Tensor:
        return apply_rope(x, angle.cos(), angle.sin(), layout=layout)

    assert torch.autograd.gradcheck(turned, (x, angle), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(turned, (x, angle))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_gradient_of_x_is_turned_back(dtype: torch.dtype, layout: str) -> None:
    x = random(2, 3, 100, 36, dtype=dtype).requires_grad_()
    upstream = random(2, 3, 100, 36, seed=1, dtype=dtype)
    cos, sin = rope_tables(100, 32)
    apply_rope(x, cos, sin, layout=layout).backward(upstream)
    expected = as_complex_product(upstream, cos, -sin, layout)
    assert x.grad.dtype == dtype
    torch.testing.assert_close(
        x.grad.double(), expected, rtol=torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("length", "width"), [(9, 12), (9, 32), (2_100, 64)])
def test_transforms_of_functions_see_through_it(length: int, width: int, layout: str) -> None:
    # The longest is cut into tiles, which no transform could follow.
    x, tangent = random(2, 4, length, width, dtype=torch.float64)
    cos, sin = rope_tables(length, width, dtype=torch.float64)
    assert (x.numel() > rotation.TILE_ENTRIES) == (length == 2_100)

    def turned(x: Tensor) -> Tensor:
        return apply_rope(x, cos, sin, layout=layout)

    torch.testing.assert_close(torch.vmap(turned)(x), turned(x), rtol=0, atol=0)
    with torch.no_grad():
        _, along = torch.func.jvp(turned, (x,), (tangent,))
    torch.testing.assert_close(along, turned(tangent), rtol=0, atol=1e-15)
    gradient = torch.func.grad(lambda x: (turned(x) * tangent).sum())(x)
    back = apply_rope(tangent, cos, -sin, layout=layout)
    torch.testing.assert_close(gradient, back, rtol=0, atol=1e-15)


def test_out_under_autograd_is_refused() -> None:
    x, cos = torch.ones(3, 8, requires_grad=True), torch.ones(3, 4)
    for given_x, out in (
        (x, torch.empty(3, 8)),
        (x.detach(), torch.empty(3, 8, requires_grad=True)),
    ):
        with pytest.raises(SchemeArgumentError, match="gradient"):
            apply_rope(given_x, cos, cos, out=out)
    with torch.no_grad():
        assert torch.equal(apply_rope(x, cos, cos * 0, out=torch.empty(3, 8)), x)


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("x", "cos", "sin"),
    [
        ((3, 8), (3, 5), (3, 5)),  # wider than x
        ((3, 8), (4, 4), (4, 4)),  # other length
        ((3, 8), (1, 4), (1, 4)),  # one row for three: a broadcast nobody meant
        ((3, 8), (3, 4), (3, 3)),
        ((3, 8), (4,), (4,)),
        ((3, 8), (3, 0), (3, 0)),
        ((8,), (1, 4), (1, 4)),
        ((2, 3, 8), (3, 3, 4), (3, 3, 4)),
        ((3, 8), (2, 3, 4), (2, 3, 4)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(x: tuple, cos: tuple, sin: tuple) -> None:
    with pytest.raises(SchemeArgumentError, match="cos and sin must"):
        apply_rope(torch.ones(x), torch.ones(cos), torch.ones(sin))


@pytest.mark.usefixtures("no_shape_checks")
def test_wrong_words_types_and_devices_are_refused() -> None:
    x, cos = torch.ones(3, 8), torch.ones(3, 4)
    with pytest.raises(SchemeArgumentError, match='"interleaved" or "half"'):
        apply_rope(x, cos, cos, layout="neox")
    with pytest.raises(SchemeArgumentError, match="floating point"):
        apply_rope(x.long(), cos, cos)
    with pytest.raises(SchemeArgumentError, match="one device"):
        apply_rope(x.to("meta"), cos, cos)
    for out in (torch.ones(3, 9), torch.ones(3, 8).double(), torch.ones(3, 8, device="meta")):
        with pytest.raises(SchemeArgumentError, match="out must be"):
            apply_rope(x, cos, cos, out=out)
