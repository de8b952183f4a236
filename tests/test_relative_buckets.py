"""T5's buckets: exact integer arithmetic, the starts that the reference gives, and transformers."""

import math

import pytest
import torch

from posenc import SCHEMES, SchemeArgumentError, fields
from posenc.errors import ConfigError
from posenc.schemes.t5 import T5Config, t5_buckets

CASES = [
    (32, 128),
    (32, 256),
    (64, 128),
    (16, 64),
    (8, 20),
    (6, 7),
    (4, 3),
    (12, 1_000),
    (256, 4_096),
]


def exact_bucket(offset: int, buckets: int, most: int, *, both: bool) -> int:
    """Raffel et al.'s rule by comparing whole numbers, one step after another; no logarithm."""
    base = 0
    if both:
        buckets //= 2
        base = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = buckets // 2
    if distance < exact:
        return base + distance
    wider, step = buckets - exact, 0
    while (
        exact + step + 1 < buckets
        and distance**wider * exact ** (step + 1) >= most ** (step + 1) * exact**wider
    ):
        step += 1
    return base + exact + step


def asked() -> list[int]:
    return [*range(-150, 151), *(sign * x for sign in (1, -1) for x in (200, 255, 256, 999, 5_000))]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("buckets", "most"), CASES)
def test_buckets_equal_exact_integer_arithmetic(buckets: int, most: int, both: bool) -> None:
    offsets = asked()
    assert len(offsets) * len(CASES) * 2 > 5_000, "pairs of sizes and distances in all"
    found = t5_buckets(
        torch.tensor(offsets), buckets=buckets, max_distance=most, bidirectional=both
    )
    assert found.tolist() == [exact_bucket(o, buckets, most, both=both) for o in offsets]


def test_buckets_start_where_the_reference_says() -> None:
    found = t5_buckets(-torch.arange(300)).tolist()
    starts = {bucket: found.index(bucket) for bucket in range(16, 32)}
    assert [*starts.values()] == [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert max(found) == 31
    help = fields.rules(T5Config)["max_distance"].help
    assert f"at {found.index(31)} for 32 and 128" in help
    both = t5_buckets(-torch.arange(300), bidirectional=True).tolist()
    assert [both.index(b) for b in range(9, 16)] == [12, 16, 23, 32, 46, 64, 91]
    every = set(t5_buckets(torch.arange(-300, 300), bidirectional=True).tolist())
    assert set(range(32)) - every == {16}, "the bucket of later keys at distance 0"


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("buckets", "most"), CASES)
def test_buckets_equal_those_of_transformers_where_it_is_exact(
    buckets: int, most: int, both: bool
) -> None:
    """Its logarithm in float32 may be a bucket off where both sides are equal, and nowhere else."""
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-3_000, 3_001)
    ours = t5_buckets(offsets, buckets=buckets, max_distance=most, bidirectional=both)
    theirs = modeling.T5Attention._relative_position_bucket(
        offsets, bidirectional=both, num_buckets=buckets, max_distance=most
    )
    one_way = buckets // 2 if both else buckets
    exact = one_way // 2
    wider = one_way - exact
    for offset in offsets[ours != theirs].tolist():
        distance = abs(offset)
        assert any(
            distance**wider * exact**step == most**step * exact**wider
            for step in range(1, wider + 1)
        ), f"offset {offset} is no tie"
    assert (ours != theirs).sum() <= 2 * wider


def test_the_bias_equals_that_of_transformers() -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    from transformers import T5Config

    for decoder in (True, False):
        config = T5Config(num_heads=6, d_model=48, d_kv=8, is_decoder=decoder)
        peer = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        scheme = SCHEMES["t5"](heads=6, bidirectional=not decoder).build()
        scheme.load_state_dict({"weight": peer.relative_attention_bias.weight})
        q = torch.zeros(1, 6, 200, 8)
        assert torch.equal(scheme.bias(q, q), peer.compute_bias(200, 200))
    assert scheme.softmax_scale(8) == 1.0


def test_scores_are_not_divided_by_the_root_of_the_width() -> None:
    scheme = SCHEMES["t5"](heads=1).build()
    q, k = torch.ones(1, 1, 1, 16), torch.full((1, 1, 1, 16), 2.0)
    assert scheme.scores(q, k).item() == pytest.approx(32 + scheme.weight[0, 0].item(), abs=1e-5)
    assert SCHEMES["none"]().build().scores(q, k).item() == pytest.approx(32 / math.sqrt(16))


@pytest.mark.usefixtures("no_shape_checks")
def test_offsets_and_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(SchemeArgumentError, match="whole numbers"):
        t5_buckets(torch.ones(3))
    with pytest.raises(ConfigError, match="T5Config"):
        t5_buckets(torch.arange(3), buckets=2)
