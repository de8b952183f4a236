"""Claims of order, of learned tables and of biases, against plain loops."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc import SCHEMES, Setting
from posenc.claims import CLAIMS, State, biases
from tests import independent
from tests.claim_readings import at, control, decides, number


def plain_attention(x: np.ndarray, causal: bool) -> np.ndarray:
    """One head, queries and values the tokens, keys the tokens with features moved on by one."""
    out = np.empty_like(x)
    for i in range(len(x)):
        seen = range(i + 1) if causal else range(len(x))
        logits = [x[i] @ np.roll(x[j], 1) / math.sqrt(x.shape[1]) for j in seen]
        weights = np.exp(np.array(logits) - max(logits))
        out[i] = sum(w * x[j] for w, j in zip(weights / weights.sum(), seen, strict=True))
    return out


def change(after: np.ndarray, before: np.ndarray) -> float:
    return float(np.abs(after - before).max() / np.abs(before).max())


def content(heads: int = 1, width: int = 16, seed: int = 0) -> np.ndarray:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(1, heads, 8, width, generator=draw, dtype=torch.float64)[0, 0].numpy()


def test_attention_is_equivariant_not_invariant() -> None:
    found = at("permutation", dim=16, heads=1)
    x = content()
    out, flipped = plain_attention(x, False), plain_attention(x[::-1], False)
    assert decides(found) == pytest.approx(change(flipped, out))
    assert found.state is State.FALSE
    assert decides(found) > 0.1
    assert number(found, "change once put back") < 1e-14
    assert control(found) < 1e-14


def test_a_causal_mask_shows_order_from_the_second_layer_on() -> None:
    found = at("blind", dim=16, heads=1)
    x = content()
    other = np.concatenate([x[:-1][::-1], x[-1:]])
    last = {}
    for causal in (False, True):
        ends = []
        for tokens in (x, other):
            one = tokens + plain_attention(tokens, causal)
            ends.append((one[-1], (one + plain_attention(one, causal))[-1]))
        last[causal] = [change(ends[1][n], ends[0][n]) for n in (0, 1)]
    assert decides(found) == pytest.approx(last[True][1])
    assert decides(found) > 0.01
    assert max(number(found, "change in one layer"), last[True][0]) < 1e-13
    assert max(number(found, "change in two layers without"), last[False][1]) < 1e-13
    assert found.state is State.PARTLY
    assert control(found) > 0.01


@pytest.mark.parametrize("source", ["trained", "random"])
def test_an_embedding_is_a_one_hot_product(source: str) -> None:
    found = at("one_hot", learned_source=source)
    table = Setting(learned_source=source).config("learned").build().weight.detach()
    linear = torch.nn.Linear(len(table), table.shape[1], bias=False)
    linear.weight.data = table.T.clone()
    one_hot = torch.nn.functional.one_hot(torch.arange(len(table))).float()
    assert torch.equal(
        linear(one_hot), torch.nn.functional.embedding(torch.arange(len(table)), table)
    )
    assert (found.state, decides(found)) == (State.THEOREM, 0)
    assert 0.01 < control(found) <= len(table) ** -0.5


def test_an_infinite_entry_tells_the_two_apart(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    table = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    table[3, 3] = math.inf
    save_file({"position_embeddings.weight": table}, tmp_path / "odd.safetensors")
    source = str(tmp_path / "odd.safetensors")
    config = SCHEMES["learned"](source=source)
    found = at("one_hot")

    class Odd(Setting):
        def config(self, kind: str) -> Any:
            return config

    setting = Odd()
    assert CLAIMS["one_hot"].test(setting).state is State.FALSE
    assert found.state is State.THEOREM


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, 128), ({"learned_source": "random", "train_length": 77}, 77),
     ({"learned_source": "random", "train_length": 1}, 1)],
)  # fmt: skip
def test_a_learned_table_ends_and_a_formula_does_not(
    changes: dict[str, Any], expected: int
) -> None:
    found = at("ends", **changes)
    assert (found.state, decides(found)) == (State.THEOREM, expected)
    assert f"position {expected:,} is an error" in found.sentence
    assert control(found) == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("heads", "state", "first"),
    [(8, State.HOLDS, None), (16, State.HOLDS, None), (12, State.FALSE, 9)],
)
def test_slopes_are_geometric_for_powers_of_two(
    heads: int, state: State, first: int | None
) -> None:
    found = at("geometric", dim=1536, heads=heads)
    slopes = independent.alibi_slopes(heads)
    ratios = [after / before for before, after in itertools.pairwise(slopes)]
    assert decides(found) == pytest.approx(max(ratios) / min(ratios))
    assert found.state is state
    assert [one.value for one in found.numbers][2] == first


def test_two_slopes_decide_nothing() -> None:
    assert at("geometric", heads=2).state is State.UNDECIDED


def test_t5_s_buckets_start_where_its_code_starts_them() -> None:
    before, after = (
        [biases.t5_bucket(-n) for n in range(200)],
        [biases.t5_bucket(n) for n in range(200)],
    )
    starts = {bucket: before.index(bucket) for bucket in dict.fromkeys(before)}
    # Raffel et al.'s public code, per side.
    said = {9: 12, 10: 16, 11: 23, 12: 32, 13: 46, 14: 64, 15: 91}
    assert starts == {n: n for n in range(9)} | said
    assert after[1:] == [bucket + 16 for bucket in before[1:]]  # bucket 16 is never used


@pytest.mark.parametrize("offset", [*range(-300, 300, 7), 8, 16, 32, 64, 128, -128])
def test_t5_s_buckets_are_those_of_a_forty_digit_logarithm(offset: int) -> None:
    n, start = abs(offset), 16 if offset > 0 else 0
    if n < 8:
        expected = start + n
    else:
        steps = mp.log(mpf(n) / 8) / mp.log(16) * 8
        expected = start + min(15, 8 + int(mp.floor(steps + mpf(10) ** -30)))
    assert biases.t5_bucket(offset) == expected


def test_no_clipping_of_shaw_s_gives_t5_s_buckets() -> None:
    found = at("t5_shaw")
    assert (found.state, decides(found)) == (State.FALSE, 0)
    offsets = range(-255, 256)

    def same(classes: list[int]) -> set[tuple[int, int]]:
        return {(a, b) for a in range(511) for b in range(a) if classes[a] == classes[b]}

    t5 = same([biases.t5_bucket(o) for o in offsets])
    for furthest in range(1, 256, 5):
        assert same([max(-furthest, min(furthest, o)) for o in offsets]) != t5
    assert control(found) == 16
    assert number(found, "buckets in use") == len({biases.t5_bucket(o) for o in offsets}) == 31
    near = at("t5_shaw", length=8)
    assert near.state is State.PARTLY  # every offset its own bucket, still a number and no vector
