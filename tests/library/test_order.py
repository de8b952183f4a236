"""What one attention layer sees of word order: laws over the registry, and attention itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import Scheme, attention
from posenc.analysis import RandomLayer, read_orders
from posenc.errors import SchemeArgumentError
from posenc.schemes.base import NoneConfig
from tests.library.law_exceptions import SAME_MIRRORED, for_schemes
from tests.library.small_schemes import SMALL, code_paths
from tests.library.tensors import assert_close

pytestmark = pytest.mark.usefixtures("no_shape_checks")

WORDS = ("dog", "bites", "man", "often")
MIXED = (1, 0, 3, 2)  # no mirror image: distances change
MIRRORED = (3, 2, 1, 0)
SAME = 1e-12


def layer_of(scheme: Scheme) -> RandomLayer:
    return RandomLayer.of(SMALL, scheme)


def largest(scheme: Scheme, order: tuple[int, ...] = MIXED, *, causal: bool = False) -> float:
    return read_orders(scheme, layer_of(scheme), WORDS, order, causal=causal).largest


@for_schemes(among=code_paths())
def test_reordering_changes_outputs_with_every_scheme_but_none(scheme: Scheme) -> None:
    kind = scheme.config.kind
    assert (largest(scheme) > 1e-6) == (kind != "none")
    assert (largest(scheme) < SAME) == (kind == "none")
    assert (largest(scheme, MIRRORED) < SAME) == (kind in SAME_MIRRORED)
    # A causal mask shows order even without position.
    assert largest(scheme, causal=True) > 1e-3
    assert largest(scheme, MIRRORED, causal=True) > 1e-3


@for_schemes(among=("rope", "cope"))
def test_patterns_are_weights_and_outputs_their_means_of_the_values(scheme: Scheme) -> None:
    layer = layer_of(scheme)
    values = layer.project(scheme.embed(layer.tokens(WORDS)[None]))[2][0].detach()
    reading = read_orders(scheme, layer, WORDS, MIRRORED, causal=True)
    for patterns in (reading.patterns, reading.other_patterns):
        assert_close(patterns.sum(dim=-1), torch.ones(SMALL.heads, 4))
        assert patterns.min() >= 0
    mean = (reading.patterns @ values).transpose(0, 1).flatten(1)
    assert_close(reading.outputs, mean, atol=1e-10)
    assert not reading.patterns.triu(1).any()
    # The last word of the first order is the first of the other and sees itself alone.
    assert_close(reading.other_patterns[:, -1], torch.eye(4)[3].expand(SMALL.heads, 4))


REPEATED = ("the", "dog", "sees", "the", "cat")
ORDERS: dict[
    tuple[int, ...], list[int]
] = {  # and where the words of the first order stand in the other
    (1, 2, 3, 4, 0): [4, 0, 1, 2, 3],  # the first word goes last, the others one up
    (3, 1, 2, 0, 4): [3, 1, 2, 0, 4],  # equal words change places: the text is the same
}


def test_equal_words_have_equal_vectors_drawn_from_the_seed() -> None:
    layer, other = (RandomLayer(width=300, heads=2, head_dim=150, seed=seed) for seed in (3, 4))
    tokens = layer.tokens(REPEATED)
    assert torch.equal(tokens[0], tokens[3])
    assert (tokens[0] - tokens[1]).abs().max() > 1
    assert torch.equal(tokens, RandomLayer(width=300, heads=4, head_dim=8, seed=3).tokens(REPEATED))
    assert (other.tokens(REPEATED) - tokens).abs().max() > 1
    unit, before = torch.eye(300, dtype=torch.float64)[None], torch.get_rng_state()
    weights = torch.cat(layer.project(unit))
    assert torch.equal(torch.get_rng_state(), before), "torch's own generator is left alone"
    # 3 x 300 x 300 draws: variance 1 / width, to five standard errors.
    draws = 3 * 300**2
    assert weights.square().mean().item() * 300 == pytest.approx(1, abs=5 * (2 / draws) ** 0.5)
    assert (torch.cat(other.project(unit)) - weights).abs().max() > 0.01


@pytest.mark.parametrize(
    ("changes", "kind", "shape"),
    [({"equal_width": True}, "rope", (80, 1, 80)), ({"equal_width": True}, "alibi", (80, 10, 8)),
     ({"learned_source": "minilm"}, "learned", (384, 10, 8))],
)  # fmt: skip
def test_layer_of_a_comparison_fits_each_of_its_schemes(
    changes: dict[str, Any], kind: str, shape: tuple[int, int, int]
) -> None:
    sizes = SMALL.replace(**changes)
    scheme = sizes.config(kind).build()
    layer = RandomLayer.of(sizes, scheme)
    assert (layer.width, layer.heads, layer.head_dim) == shape
    assert read_orders(scheme, layer, WORDS, MIXED).outputs.shape == (4, sizes.dim)


def test_impossible_orders_and_layers_are_refused() -> None:
    none = NoneConfig().build()
    orders: tuple[Any, ...] = ((), (0, 1), (0, 1, 2, 2), (-1, 0, 1, 2), (0, 1, 2, 3.0), WORDS)
    for order in orders:
        with pytest.raises(SchemeArgumentError, match="each index from 0 to 3 once"):
            read_orders(none, layer_of(none), WORDS, order)
    with pytest.raises(SchemeArgumentError, match="build the config first"):
        read_orders(none.config, layer_of(none), WORDS, MIXED)  # type: ignore[arg-type]
    sizes: dict[str, Any] = {"width": 0, "heads": 0, "head_dim": 1.5, "seed": -1}
    for name, value in sizes.items():
        with pytest.raises(SchemeArgumentError, match=name):
            RandomLayer(**({"width": 8, "heads": 2, "head_dim": 4} | {name: value}))


@for_schemes(among=("sinusoidal", "rope", "alibi"))
def test_outputs_are_those_of_attention_in_both_orders(scheme: Scheme) -> None:
    layer = layer_of(scheme)
    tokens = layer.tokens(REPEATED)

    def outputs(vectors: Tensor) -> Tensor:
        q, k, v = layer.project(scheme.embed(vectors[None]))
        return attention(q, k, v, scheme)[0].transpose(0, 1).flatten(1)

    for order, places in ORDERS.items():
        reading = read_orders(scheme, layer, REPEATED, order, causal=True)
        first, other = outputs(tokens), outputs(tokens[list(order)])
        assert_close(reading.outputs, first, atol=1e-11)
        assert_close(reading.other_outputs, other[places], atol=1e-11)
        gaps = (first - other[places]).abs().amax(dim=1)
        assert_close(reading.differences, gaps, atol=1e-11)
        assert reading.largest == pytest.approx(gaps.max().item(), abs=1e-11)
        pooled = (first.mean(dim=0) - other.mean(dim=0)).abs().max().item()
        assert reading.pooled == pytest.approx(pooled, abs=1e-11)


@pytest.mark.parametrize("causal", [False, True])
@for_schemes(among=("none", "rope", "alibi"))
def test_repeated_words_are_followed_to_their_new_places(scheme: Scheme, causal: bool) -> None:
    """A plain loop over places; of a reversed sentence ALiBi without a mask sees nothing."""
    words, order = ("the", "cat", "sat", "on", "the", "mat"), (5, 4, 3, 2, 1, 0)
    layer = layer_of(scheme)
    tokens = layer.tokens(words)

    def by_hand(sentence: list[int]) -> dict[int, Tensor]:
        q, k, v = layer.project(scheme.embed(tokens[sentence][None]))
        scores = scheme.scores(q, k)[0]
        found = {}
        for place, word in enumerate(sentence):
            keys = range(place + 1 if causal else len(sentence))
            outputs = []
            for head in range(layer.heads):
                powers = [float(scores[head, place, key].exp()) for key in keys]
                parts = [power * v[0, head, key] for key, power in zip(keys, powers, strict=True)]
                outputs.append(torch.stack(parts).sum(dim=0) / sum(powers))
            found[word] = torch.cat(outputs)
        return found

    first, other = by_hand([0, 1, 2, 3, 4, 5]), by_hand([*order])
    reading = read_orders(scheme, layer, words, order, causal=causal)
    gaps = torch.stack([(first[word] - other[word]).abs().max() for word in range(6)])
    assert_close(reading.differences, gaps, atol=1e-11)
    assert (reading.largest < SAME) == (scheme.config.kind in SAME_MIRRORED and not causal)
