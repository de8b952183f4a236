"""The attention function: equal to a plain loop, causal by position, never a dense mask."""

import copy
import importlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from posenc import SCHEMES, NoneConfig, PosencError, Scheme, SchemeArgumentError, attention, sdpa
from posenc.schemes.base import SchemeConfig
from tests.devices import needs_cuda
from tests.library import independent
from tests.library.law_exceptions import OWN_WEIGHTS, ROTATING, for_schemes
from tests.library.small_schemes import SMALL, code_paths, small_scheme
from tests.library.tensors import assert_close, random

trained_curve_module = importlib.import_module("posenc.toeplitz")

HEADS, WIDTH = SMALL.heads, SMALL.head_dim
# One scheme for each way through the function: no bias, a curve, a trained curve, a dense bias.
PATHS = ("rope", "alibi", "t5", "cope")

N = 7
PLACES: dict[str, tuple[Tensor | None, Tensor | None]] = {
    "from zero": (None, None),
    "window of queries": (torch.arange(5, 5 + N), torch.arange(5 + N)),
    "queries before the first key": (torch.arange(N), torch.arange(4, 4 + N)),
    "negative": (torch.arange(N) - 20, torch.arange(N) - 20),
    "more keys than queries": (None, torch.arange(N + 6)),
    "fewer keys than queries": (None, torch.arange(3)),
    "queries past every key": (torch.arange(100, 100 + N), torch.arange(8)),
    "every key later": (torch.arange(N), torch.arange(N) + 50),
    "any order": (torch.tensor([3, 0, 6, 2, 5, 1, 4]), None),
    "gaps and repeats": (torch.tensor([0, 3, 9, 9, 2, 200, 7]), torch.arange(0, 21, 3)),
    "one position per entry": (
        torch.stack((torch.arange(N), torch.arange(N).flip(0))),
        torch.stack((torch.arange(N) + 3, torch.arange(N))),
    ),
}
MASKS = ((True, False), (False, False), (True, True))  # causal, with a key mask
CASES = [
    *((place, *MASKS[0]) for place in PLACES),
    *((place, *MASKS[1]) for place in ("from zero", "queries before the first key", "any order")),
    *((place, *MASKS[2]) for place in ("from zero", "every key later", "one position per entry")),
]


def positions_of(positions: Tensor | None, count: int, entry: int) -> list[int]:
    if positions is None:
        return list(range(count))
    return (positions if positions.dim() == 1 else positions[entry]).tolist()


@pytest.mark.parametrize(("place", "causal", "masked"), CASES)
def test_attention_equals_plain_loop_over_the_definitions(
    place: str, causal: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALiBi and RoPE from their papers, softmax in Python floats: none of the library's own code."""
    q_positions, k_positions = PLACES[place]
    keys = N if k_positions is None else k_positions.shape[-1]
    q, k, v = random(2, 3, N, 4), random(2, 3, keys, 4, seed=1), random(2, 3, keys, 2, seed=2)
    key_mask = random(2, keys, seed=3) > 0 if masked else None
    at = [(positions_of(q_positions, N, b), positions_of(k_positions, keys, b)) for b in range(2)]

    def visible(b: int, i: int, j: int) -> bool:
        later = causal and at[b][1][j] > at[b][0][i]
        return not later and (key_mask is None or bool(key_mask[b, j]))

    slopes = independent.alibi_slopes(3)

    def alibi(b: int, h: int, i: int, j: int) -> float:
        return -slopes[h] * abs(at[b][1][j] - at[b][0][i])

    def turned(x: Tensor, side: int) -> Tensor:
        entries = [
            torch.stack(
                [independent.turned(h, at[b][side], 100.0, rotary=4, layout="half") for h in x[b]]
            )
            for b in range(2)
        ]
        return torch.stack(entries)

    cases: list[tuple[SchemeConfig, Tensor, Tensor, Any]] = [
        (SCHEMES["none"](), q, k, None),
        (SMALL.replace(heads=3, dim=12).config("alibi"), q, k, alibi),
        (SMALL.config("rope").replace(dim=4, base=100.0, layout="half"), turned(q, 0), turned(k, 1),
         None),
    ]  # fmt: skip
    for config, plain_q, plain_k, bias in cases:
        expected = independent.attention(plain_q, plain_k, v, scale=0.5, bias=bias, visible=visible)
        for block in (256, 3):  # with small blocks of queries a short text crosses their edges
            monkeypatch.setattr(sdpa, "QUERY_BLOCK", block)
            mixed = attention(
                q, k, v, config.build(), causal=causal,
                q_positions=q_positions, k_positions=k_positions, key_mask=key_mask,
            )  # fmt: skip
            assert_close(mixed, expected, atol=1e-13)


def hidden_keys(
    q_positions: Tensor | None, k_positions: Tensor | None, keys: int, window: int | None = None
) -> Tensor:
    """Return which keys are later than a query, or farther back than its window."""
    rows = torch.arange(N) if q_positions is None else q_positions
    columns = torch.arange(keys) if k_positions is None else k_positions
    back = rows[..., :, None] - columns[..., None, :]
    hidden = (back < 0) | (back >= (10_000 if window is None else window))
    return hidden[:, None] if hidden.dim() == 3 else hidden


@for_schemes(OWN_WEIGHTS, among=code_paths())
def test_attention_is_softmax_of_the_scores_of_the_scheme(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with grouped queries: query head h reads key head h // (query heads per key head)."""
    monkeypatch.setattr(sdpa, "QUERY_BLOCK", 4)
    for place in ("from zero", "fewer keys than queries", "any order", "one position per entry"):
        q_positions, k_positions = PLACES[place]
        keys = N if k_positions is None else k_positions.shape[-1]
        q, (k, v) = random(2, HEADS, N, WIDTH), random(2, 2, HEADS // 5, keys, WIDTH, seed=1)
        k_full, v_full = (x.repeat_interleave(5, dim=1) for x in (k, v))
        scores = scheme.scores(q, k_full, q_positions, k_positions)
        assert_close(scheme.scores(q, k, q_positions, k_positions), scores.detach(), atol=1e-14)
        hidden = hidden_keys(q_positions, k_positions, keys, scheme.window)
        weights = scores.detach().masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)
        mixed = attention(q, k, v, scheme, q_positions=q_positions, k_positions=k_positions)
        assert_close(mixed, weights @ v_full, atol=1e-13)


@pytest.mark.parametrize("path", [*PATHS, "none"])
def test_query_that_sees_no_key_gives_zeros_and_finite_gradients(path: str) -> None:
    cases: list[dict[str, Any]] = [
        {"key_mask": torch.zeros(1, N, dtype=torch.bool)},
        {"k_positions": torch.arange(4, 4 + N)},
        {"k_positions": torch.arange(200, 200 + N)},
        {"q_positions": torch.arange(N).flip(0) - 5},
    ]
    for options in cases:
        q, k, v = (random(1, HEADS, N, WIDTH, seed=s).requires_grad_() for s in range(3))
        mixed = attention(q, k, v, small_scheme(path), **options)
        assert (mixed.abs().amax((0, 1, 3)) == 0).any(), "no query is blind in this case"
        if not mixed.requires_grad:
            assert not mixed.any(), "nothing was seen, so nothing depends on the inputs"
            continue
        mixed.square().sum().backward()
        for x in (q, k, v):
            assert x.grad is not None
            assert x.grad.isfinite().all()


@pytest.mark.parametrize("path", PATHS)
def test_no_queries_and_no_keys_are_allowed(path: str) -> None:
    scheme = small_scheme(path)
    q, (k, v) = random(2, HEADS, N, WIDTH), random(2, 2, HEADS, N, WIDTH)
    for causal in (True, False):
        assert attention(q[:, :, :0], k, v, scheme, causal=causal).shape == (2, HEADS, 0, WIDTH)
        nothing_seen = attention(q, k[:, :, :0], v[:, :, :0], scheme, causal=causal)
        assert torch.equal(nothing_seen, torch.zeros_like(q))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("path", PATHS)
@torch.no_grad()
def test_error_is_at_most_twice_that_of_plain_torch_code(path: str, dtype: torch.dtype) -> None:
    """flash-attention's rule; exact is float64 on the rounded inputs. float16 counts to 65,504."""
    length, scheme = 130, small_scheme(path)
    positions = torch.arange(length) + 70_000
    q, k, v = (random(1, HEADS, length, WIDTH, seed=s).to(dtype) for s in range(3))
    visible = positions <= positions[:, None]
    scores = scheme.scores(q.double(), k.double(), positions, positions)
    exact = scores.masked_fill(~visible, -math.inf).softmax(-1) @ v.double()
    # What a model in this dtype has: rotate, a dense bias in the dtype, torch's attention.
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    mask = torch.zeros(length, length) if bias is None else bias
    mask = mask.masked_fill(~visible, -math.inf).to(q.dtype)
    scale = scheme.softmax_scale(WIDTH)
    try:
        plain = functional.scaled_dot_product_attention(rotated_q, rotated_k, v, mask, scale=scale)
    except RuntimeError as error:
        # torch 2.13 on a processor with AMX whose other instructions ATEN_CPU_CAPABILITY switches off
        if "pack_vnni2" not in str(error):
            raise
        pytest.skip(f"torch's own attention does not run here: {error}")
    allowed = 2 * (plain.double() - exact).abs().max() + 4 * torch.finfo(dtype).eps ** 1.5
    for key_mask in (None, torch.ones(1, length, dtype=torch.bool)):
        mixed = attention(
            q, k, v, scheme, q_positions=positions, k_positions=positions, key_mask=key_mask
        )
        assert mixed.dtype == dtype
        assert (mixed.double() - exact).abs().max() <= allowed


def test_stationary_bias_never_becomes_a_dense_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    length, largest = 300, 0
    own = functional.scaled_dot_product_attention

    def measured(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **options: Any) -> Tensor:
        nonlocal largest
        largest = max(largest, mask.untyped_storage().nbytes())  # a view owns nothing
        return own(q, k, v, mask, **options)

    monkeypatch.setattr(sdpa.functional, "scaled_dot_product_attention", measured)
    q, k, v = random(3, 1, HEADS, length, 8, dtype=torch.float32)
    for start in (0, 1_000):  # the second is a window
        positions = torch.arange(length) + start
        attention(q, k, v, small_scheme("alibi"), q_positions=positions, k_positions=positions)
    assert 0 < largest <= HEADS * 2 * length * 4


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_attention_on_cuda_equals_that_on_the_cpu(dtype: torch.dtype) -> None:
    """An accelerator takes a bias in the dtype of the queries: its rounding moves the logits."""
    q, k, v = random(3, 2, HEADS, 300, WIDTH).to(dtype)
    mask, positions = torch.arange(300).expand(2, -1) != 7, torch.arange(300, device="cuda")
    for name in code_paths() if dtype == torch.float32 else PATHS:
        scheme = small_scheme(name)
        expected = attention(q.double(), k.double(), v.double(), scheme)
        masked = attention(q.double(), k.double(), v.double(), scheme, key_mask=mask)
        scheme.to("cuda")
        cuda = (q.cuda(), k.cuda(), v.cuda(), scheme)
        for actual, wanted in (
            (attention(*cuda), expected),
            (attention(*cuda, q_positions=positions, k_positions=positions), expected),
            (attention(*cuda, key_mask=mask.cuda()), masked),
        ):
            assert actual.device.type == "cuda"
            assert actual.dtype == dtype
            # The slack is that of logits of about 10, where weights are not yet negligible.
            assert_close(actual.cpu(), wanted, atol=1e-4 if dtype == torch.float32 else 0.1)


@pytest.mark.usefixtures("no_shape_checks")
def test_arguments_that_do_not_fit_are_refused() -> None:
    q, k, v = random(3, 2, HEADS, 5, WIDTH)
    scheme, mask = small_scheme("alibi"), torch.ones(2, 5, dtype=torch.bool)
    cases: list[tuple[str, tuple[Tensor, Tensor, Tensor], dict[str, Any]]] = [
        ("shape", (q[0], k, v), {}),
        ("do not fit", (q, k[:1], v[:1]), {}),
        ("v must agree with k", (q, k, v[:, :, :4]), {}),
        ("do not fit", (q[..., :4], k, v), {}),
        ("divide", (q, k[:, :3], v[:, :3]), {}),
        ("of 10 heads .* 5 heads", (q[:, :5], k[:, :5], v[:, :5]), {}),
        ("of 10 heads .* 5 heads", (q[:, :5], k[:, :5], v[:, :5]), {"key_mask": mask}),
        ("q_positions.*whole", (q, k, v), {"q_positions": torch.arange(5.0)}),
        ("k_positions.*whole", (q, k, v), {"k_positions": torch.ones(5, dtype=torch.bool)}),
        ("q_positions.*shape", (q, k, v), {"q_positions": torch.arange(4)}),
        ("k_positions.*shape", (q, k, v), {"k_positions": torch.zeros(3, 5, dtype=torch.int64)}),
        ("key_mask.*boolean", (q, k, v), {"key_mask": mask.float()}),
        ("key_mask.*shape", (q, k, v), {"key_mask": mask[:, :4]}),
    ]
    for message, tensors, options in cases:
        with pytest.raises(SchemeArgumentError, match=message):
            attention(*tensors, scheme, **options)
    with pytest.raises(PosencError, match="heads"):
        scheme.scores(q[:, :5], k[:, :5])


def set_block(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sdpa, trained_curve_module):
        monkeypatch.setattr(module, "QUERY_BLOCK", size)


@pytest.mark.parametrize("path", [*PATHS, "kerple_log"])  # its trained bias meets divided scores
def test_gradients_are_those_of_the_formula(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_block(4, monkeypatch)
    scheme, mask = small_scheme(path).double(), torch.arange(N).expand(2, -1) != 3
    cases: list[tuple[int, int, dict[str, Any]]] = [  # keys, their heads
        (N, HEADS, {}), (N, 2, {"causal": False}), (N, HEADS, {"key_mask": mask}), (3, 2, {}),
        (12, HEADS, {"q_positions": torch.arange(5, 12)}),
        (9, HEADS, {"k_positions": torch.arange(4, 13)}),
    ]  # fmt: skip
    for keys, key_heads, options in cases:
        q = random(2, HEADS, N, WIDTH).requires_grad_()
        k, v = (random(2, key_heads, keys, WIDTH, seed=s).requires_grad_() for s in (1, 2))
        places = options.get("q_positions"), options.get("k_positions")
        hidden = hidden_keys(*places, keys) & options.get("causal", True)
        hidden = hidden | ~mask[0] if "key_mask" in options else hidden
        weights = scheme.scores(q, k, *places).masked_fill(hidden, -math.inf).softmax(-1)
        weights = weights.masked_fill(hidden.all(dim=-1, keepdim=True), 0.0)
        plain = weights @ v.repeat_interleave(HEADS // key_heads, dim=1)
        mixed = attention(q, k, v, scheme, **options)
        assert_close(mixed, plain.detach())
        upstream, inputs = random(*mixed.shape, seed=5), (q, k, v, *scheme.parameters())
        gradients = torch.autograd.grad((mixed * upstream).sum(), inputs)
        expected = torch.autograd.grad((plain * upstream).sum(), inputs)
        for actual, wanted in zip(gradients, expected, strict=True):
            # The formula has 0 / 0 for a query that sees no key.
            assert_close(actual, wanted.nan_to_num(0.0), atol=1e-11)


class _OneCurve(Scheme):
    """A trained number per distance, the same for all heads."""

    def __init__(self) -> None:
        super().__init__(NoneConfig())
        self.table = torch.nn.Parameter(random(N))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return self.table[offsets.abs()][None]


def test_trained_curve_that_all_heads_share_gets_the_sum_of_their_gradients() -> None:
    scheme = _OneCurve()
    q, k, v = (random(2, HEADS, N, WIDTH, seed=s) for s in range(3))
    apart = torch.arange(N)[:, None] - torch.arange(N)
    scores = q @ k.mT / math.sqrt(WIDTH) + scheme.table[apart.abs()]
    plain = scores.masked_fill(apart < 0, -math.inf).softmax(-1) @ v
    (expected,) = torch.autograd.grad(plain.square().sum(), [scheme.table])
    (actual,) = torch.autograd.grad(attention(q, k, v, scheme).square().sum(), [scheme.table])
    assert_close(actual, expected, atol=1e-11)


def test_gradients_of_a_trained_curve_in_half_precision_are_rounded_last() -> None:
    scheme, dtype = small_scheme("t5"), torch.bfloat16
    q, k, v = (random(1, HEADS, 40, 8, seed=s, dtype=dtype).requires_grad_() for s in range(3))
    total = attention(q, k, v, scheme).float().sum()
    gradients = torch.autograd.grad(total, (q, k, v, *scheme.parameters()))
    exact_scheme = copy.deepcopy(scheme).double()
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    exact = attention(q, k, v, exact_scheme).sum()
    expected = torch.autograd.grad(exact, (q, k, v, *exact_scheme.parameters()))
    for actual, wanted in zip(gradients, expected, strict=True):
        bound = 16 * torch.finfo(dtype).eps * max(1.0, wanted.abs().max().item())
        assert_close(actual, wanted, atol=bound)


def test_trained_curve_stores_nothing_of_the_size_of_all_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_block(8, monkeypatch)
    tokens, scheme, sizes = 64, small_scheme("t5"), list[int]()
    q, k, v = (random(1, HEADS, tokens, 4, seed=s).requires_grad_() for s in range(3))

    def stored(x: Tensor) -> Tensor:
        sizes.append(x.untyped_storage().nbytes() // x.element_size())
        return x

    with torch.autograd.graph.saved_tensors_hooks(stored, lambda x: x):
        attention(q, k, v, scheme).sum().backward()
    assert next(scheme.parameters()).grad is not None
    assert 0 < max(sizes) < HEADS * tokens * tokens / 2
    sizes.clear()
    with torch.autograd.graph.saved_tensors_hooks(stored, lambda x: x):
        scheme.scores(q, k).softmax(-1).sum().backward()  # the control
    assert max(sizes) >= HEADS * tokens * tokens


@for_schemes({"rnope.window=5": "its window hides keys, too"}, among=ROTATING)
def test_decoding_with_keys_rotated_once_equals_attention_over_the_whole_text(
    variant: str, scheme: Scheme
) -> None:
    q, k, v = random(3, 2, HEADS, N, WIDTH)
    whole, nope = attention(q, k, v, scheme), NoneConfig().build()
    keys = scheme.rotate(q, k)[1][:, :, :0]
    scale = scheme.softmax_scale(WIDTH) / nope.softmax_scale(keys.shape[-1])
    for step in range(N):
        at = torch.tensor([step])
        query, key = scheme.rotate(q[:, :, step : step + 1], k[:, :, step : step + 1], at, at)
        keys = torch.cat((keys, key), dim=2)
        out = attention(scale * query, keys, v[:, :, : step + 1], nope, q_positions=at)
        assert_close(out, whole[:, :, step : step + 1], atol=1e-10)
