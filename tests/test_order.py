"""What one attention layer sees of order: laws over the registry, and every scheme by a plain loop."""

import itertools

import pytest
import torch
from torch import Tensor

from posenc import PositionOutOfRange, Scheme, Setting, attention
from posenc.analysis import RandomLayer, read_orders
from posenc.errors import SchemeArgumentError
from posenc.schemes.none import NoneConfig
from tests import independent
from tests.conftest import SMALL

WORDS = ("dog", "bites", "man", "often")
MIXED = (1, 0, 3, 2)  # no mirror image: distances change
MIRRORED = (3, 2, 1, 0)
SAME = 1e-12


def layer_of(scheme: Scheme) -> RandomLayer:
    return RandomLayer.of(SMALL, scheme)


def largest(scheme: Scheme, order: tuple[int, ...] = MIXED, *, causal: bool = False) -> float:
    return read_orders(scheme, layer_of(scheme), WORDS, order, causal=causal).largest


# Laws ---------------------------------------------------------------------------------------------


def test_order_changes_an_output_with_every_scheme_and_without_none(scheme: Scheme) -> None:
    if scheme.config.kind == "none":
        assert largest(scheme) < SAME
    else:
        assert largest(scheme) > 1e-6


def test_without_position_outputs_move_with_their_words_in_every_order() -> None:
    none = NoneConfig().build()
    for order in itertools.permutations(range(4)):
        found = read_orders(none, layer_of(none), WORDS, order)
        assert found.largest < SAME
        assert found.pooled < SAME
        assert torch.allclose(found.patterns, found.other_patterns, atol=SAME, rtol=0)


def test_a_bias_by_distance_alone_is_blind_to_the_mirrored_order(scheme: Scheme) -> None:
    steps = torch.arange(1, 5)
    after, before = scheme.offset_bias(steps), scheme.offset_bias(-steps)
    even = after is None or (before is not None and torch.equal(after, before))
    hooks = type(scheme)
    alone = hooks.embed is Scheme.embed and hooks.rotate is Scheme.rotate
    blind = even and alone and hooks.bias is Scheme.bias
    assert (largest(scheme, MIRRORED) < SAME) == blind
    if scheme.config.kind == "alibi":
        assert blind


def test_a_causal_mask_shows_order_with_every_scheme_even_without_position(scheme: Scheme) -> None:
    assert largest(scheme, causal=True) > 1e-3
    assert largest(scheme, MIRRORED, causal=True) > 1e-3


def test_the_first_word_under_a_causal_mask_sees_itself_alone(scheme: Scheme) -> None:
    layer = layer_of(scheme)
    found = read_orders(scheme, layer, WORDS, MIRRORED, causal=True)
    assert torch.equal(found.patterns, found.patterns.tril())
    own = layer.project(scheme.embed(layer.tokens(WORDS)[None]))[2][0, :, 0].flatten()
    assert torch.allclose(found.outputs[0], own, atol=1e-12)
    # The last word of the first order is the first of the other.
    assert torch.all(found.other_patterns[:, -1, :-1] == 0)
    assert torch.all(found.other_patterns[:, -1, -1] == 1)


def test_patterns_are_weights_and_outputs_their_means_of_the_values(scheme: Scheme) -> None:
    layer = layer_of(scheme)
    values = layer.project(scheme.embed(layer.tokens(WORDS)[None]))[2][0]
    for causal in (False, True):
        found = read_orders(scheme, layer, WORDS, MIXED, causal=causal)
        for patterns in (found.patterns, found.other_patterns):
            assert torch.allclose(patterns.sum(dim=-1), torch.ones(1).double(), atol=1e-12)
            assert patterns.min() >= 0
        mean = (found.patterns @ values).transpose(0, 1).flatten(1)
        assert torch.allclose(found.outputs, mean, atol=1e-10)


# Controls -----------------------------------------------------------------------------------------


class Nudged(Scheme):
    """Adds a thousandth of the position to every feature: as little order as there can be."""

    def embed(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return x + 1e-3 * torch.arange(x.shape[-2])[:, None]


class Everywhere(Scheme):
    """Adds the same vector everywhere: it does something, and knows no order."""

    def embed(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return x + torch.linspace(-3, 3, x.shape[-1], dtype=x.dtype)

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return torch.full((SMALL.heads, *offsets.shape), -2.0, dtype=torch.float64)


def test_a_scheme_with_a_trace_of_order_is_told_from_one_with_none() -> None:
    assert largest(Nudged(NoneConfig())) > 1e-5
    blind = Everywhere(NoneConfig())
    assert largest(blind) < SAME
    plain = read_orders(NoneConfig().build(), layer_of(blind), WORDS, MIXED)
    moved = read_orders(blind, layer_of(blind), WORDS, MIXED)
    assert (moved.outputs - plain.outputs).abs().max() > 0.1


# Numbers, by loops that share no code with posenc -------------------------------------------------

REPEATED = ("the", "dog", "sees", "the", "cat")
SENTENCES = [
    (WORDS, MIXED, [1, 0, 3, 2]),
    (REPEATED, (4, 3, 2, 1, 0), [4, 3, 2, 1, 0]),
    (REPEATED, (1, 2, 3, 4, 0), [4, 0, 1, 2, 3]),  # the first word goes last, the others one up
    (REPEATED, (3, 1, 2, 0, 4), [3, 1, 2, 0, 4]),  # equal words change places: the text is the same
]


def by_loop(kind: str, x: Tensor, layer: RandomLayer, scheme: Scheme, causal: bool) -> Tensor:
    """One order's outputs (n, w) from its token vectors (n, d), one query at a time."""
    n, heads, width = len(x), layer.heads, layer.head_dim
    if kind == "sinusoidal":
        x = x + independent.sinusoidal(range(n), layer.width, SMALL.base)
    if kind == "learned":
        x = x + torch.tensor([scheme.weight[p].tolist() for p in range(n)], dtype=torch.float64)
    # The weights are what the layer makes of unit vectors.
    weights = [w[0] for w in layer.project(torch.eye(layer.width, dtype=torch.float64)[None])]
    q, k, v = (torch.stack([x @ w[h] for h in range(heads)])[None] for w in weights)
    if kind == "rope":
        q, k = (
            torch.stack(
                [
                    independent.turned(
                        one, range(n), SMALL.base, rotary=width, layout="interleaved"
                    )
                    for one in side[0]
                ]
            )[None]
            for side in (q, k)
        )
    slopes = independent.alibi_slopes(heads)
    bias = (lambda b, h, i, j: -slopes[h] * abs(i - j)) if kind == "alibi" else None
    visible = (lambda b, i, j: j <= i) if causal else None
    found = independent.attention(q, k, v, scale=width**-0.5, bias=bias, visible=visible)
    return torch.cat([found[0, h] for h in range(heads)], dim=-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "learned", "sinusoidal", "rope", "alibi"])
@pytest.mark.parametrize(("words", "order", "places"), SENTENCES)
def test_outputs_are_those_of_a_plain_loop_in_both_orders(
    words: tuple[str, ...], order: tuple[int, ...], places: list[int], kind: str, causal: bool
) -> None:
    scheme = SMALL.config(kind).build(seed=5)
    layer = layer_of(scheme)
    found = read_orders(scheme, layer, words, order, causal=causal)
    vectors = dict(zip(words, layer.tokens(words), strict=True))
    other = [words[index] for index in order]
    for text, outputs in ((words, found.outputs), (other, None)):
        expected = by_loop(kind, torch.stack([vectors[w] for w in text]), layer, scheme, causal)
        if outputs is None:
            expected, outputs = expected[places], found.other_outputs
        assert torch.allclose(outputs, expected, atol=1e-11, rtol=0)
    gaps = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in
            zip(found.outputs.tolist(), found.other_outputs.tolist(), strict=True)]  # fmt: skip
    assert found.differences.tolist() == gaps
    assert found.largest == max(gaps)
    means = [
        [sum(column) / len(words) for column in zip(*rows.tolist(), strict=True)]
        for rows in (found.outputs, found.other_outputs)
    ]
    pooled = max(abs(a - b) for a, b in zip(*means, strict=True))
    assert found.pooled == pytest.approx(pooled, abs=1e-12)


def test_the_patterns_of_the_other_order_are_sorted_back_to_the_first() -> None:
    scheme = SMALL.config("rope").build()
    layer = layer_of(scheme)
    found = read_orders(scheme, layer, REPEATED, (4, 3, 2, 1, 0))
    swapped = read_orders(scheme, layer, REPEATED, range(5))
    # Read in its own order the other sentence has queries and keys of its own.
    q, k, _ = layer.project(layer.tokens(REPEATED)[[4, 3, 2, 1, 0]][None])
    straight = scheme.scores(q, k).softmax(dim=-1)[0]
    at = [4, 3, 2, 1, 0]
    for i in range(5):
        for j in range(5):
            assert torch.allclose(
                found.other_patterns[:, i, j], straight[:, at[i], at[j]], atol=1e-12
            )
    assert torch.allclose(swapped.patterns, swapped.other_patterns, atol=1e-12)


# The layer ----------------------------------------------------------------------------------------


def test_equal_words_have_equal_vectors_and_the_seed_decides_them_all() -> None:
    layer = RandomLayer(width=600, heads=2, head_dim=300, seed=3)
    tokens = layer.tokens(REPEATED)
    assert torch.equal(tokens[0], tokens[3])
    assert (tokens[0] - tokens[1]).abs().max() > 1
    assert torch.equal(tokens, RandomLayer(width=600, heads=4, head_dim=8, seed=3).tokens(REPEATED))
    other = RandomLayer(width=600, heads=2, head_dim=300, seed=4)
    assert (other.tokens(REPEATED) - tokens).abs().max() > 1
    weights = torch.cat(layer.project(torch.eye(600, dtype=torch.float64)[None]))
    # 3 x 600 x 600 draws: mean 0, variance 1 / width, to five standard errors.
    assert abs(weights.mean().item()) * 600**0.5 < 5 / (3 * 600**2) ** 0.5
    assert weights.square().mean().item() * 600 == pytest.approx(
        1, abs=5 * (2 / (3 * 600**2)) ** 0.5
    )
    flat = [w.flatten() for w in weights]
    assert max(torch.corrcoef(torch.stack(flat)).triu(1).abs().max().item(), 0) < 0.01
    changed = torch.cat(other.project(torch.eye(600, dtype=torch.float64)[None]))
    assert (changed - weights).abs().max() > 0.01


def test_nothing_global_is_drawn_from() -> None:
    before = torch.get_rng_state()
    scheme = SMALL.config("rope").build()
    first = read_orders(scheme, layer_of(scheme), WORDS, MIXED)
    torch.rand(3)
    again = read_orders(scheme, layer_of(scheme), WORDS, MIXED)
    assert torch.equal(first.outputs, again.outputs)
    torch.set_rng_state(before)


@pytest.mark.parametrize(
    ("changes", "kind", "shape"),
    [
        ({}, "rope", (80, 10, 8)),
        ({"equal_width": True}, "rope", (80, 1, 80)),
        ({"equal_width": True}, "alibi", (80, 10, 8)),
        ({"learned_source": "minilm"}, "learned", (384, 10, 8)),
        ({"dim": 2, "heads": 1}, "sinusoidal", (2, 1, 2)),
        ({"dim": 128, "heads": 64}, "none", (128, 64, 2)),
    ],
)
def test_the_layer_of_a_setting_fits_each_of_its_schemes(
    changes: dict[str, object], kind: str, shape: tuple[int, int, int]
) -> None:
    setting = SMALL.replace(**changes)
    scheme = setting.config(kind).build()
    layer = RandomLayer.of(setting, scheme)
    assert (layer.width, layer.heads, layer.head_dim) == shape
    found = read_orders(scheme, layer, WORDS, MIXED)
    assert found.outputs.shape == (4, setting.dim)
    assert found.patterns.shape == (shape[1], 4, 4)
    assert found.outputs.dtype == torch.float64
    assert found.outputs.isfinite().all()


def test_the_layer_uses_the_one_attention_function() -> None:
    scheme = SMALL.config("rope").build()
    layer = layer_of(scheme)
    q, k, v = layer.project(layer.tokens(WORDS)[None])
    expected = attention(q, k, v, scheme, causal=False).transpose(1, 2).flatten(2)[0]
    found = read_orders(scheme, layer, WORDS, MIXED)
    assert torch.allclose(found.outputs, expected, atol=1e-12)


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    "order", [(), (0, 1), (0, 1, 2, 2), (1, 2, 3, 4), (-1, 0, 1, 2), (0, 1, 2, 3.0), WORDS]
)
def test_an_order_that_is_no_permutation_is_refused(order: tuple[object, ...]) -> None:
    none = NoneConfig().build()
    with pytest.raises(SchemeArgumentError, match="each index from 0 to 3 once"):
        read_orders(none, layer_of(none), WORDS, order)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("changes", [{"width": 0}, {"heads": 0}, {"head_dim": 1.5}, {"seed": -1}])
def test_an_impossible_layer_is_refused(changes: dict[str, int]) -> None:
    (name,) = changes
    with pytest.raises(SchemeArgumentError, match=name):
        RandomLayer(**({"width": 8, "heads": 2, "head_dim": 4} | changes))


def test_a_sentence_longer_than_a_table_names_the_row_that_is_missing() -> None:
    scheme = Setting(learned_source="random", train_length=2).config("learned").build()
    layer = RandomLayer(width=512, heads=8, head_dim=64)
    with pytest.raises(PositionOutOfRange, match="position 3 has none"):
        read_orders(scheme, layer, WORDS, MIXED)
    assert read_orders(scheme, layer, WORDS[:2], (1, 0)).largest > 1e-6
