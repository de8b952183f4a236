"""Claims: a verdict at any setting; order, learned tables, biases and trained models by plain loops."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from mpmath import mp, mpf
from safetensors.torch import save_file

from posenc.claims import CLAIMS, THEMES, Status, figure, order, training
from posenc.lab import Run, Score, Store
from posenc.lab.protocol import read_protocol
from posenc.schemes.sizes import Sizes
from posenc.schemes.t5 import t5_buckets
from posenc.text import count_of
from tests.library import independent
from tests.library.claim_checks import control, deciding, number, verdict
from tests.library.configs import config_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROUNDING = 1e-9  # changes that are called none: float64 rounding with room

SETTINGS: dict[str, dict[str, Any]] = {
    "smallest": {"dim": 2, "heads": 1, "length": 2, "train_length": 1, "base": 2.0},
    "longest": {"length": 2048, "train_length": 1_048_576, "base": 1e12},
    "no default": {
        "dim": 72, "heads": 12, "length": 3, "train_length": 5, "base": 3.7, "seed": 2**31 - 1,
        "learned_source": "random", "precision": "float16", "equal_width": True,
        "own": (
            ("rope.layout", "half"), ("rope.partial_rotary_factor", 0.5),
            ("sinusoidal.layout", "half"),
        ),
    },
}  # fmt: skip

# Claims that are proven, and what their control must be: there the same check has to fail.
CONTROL_FAILS: dict[str, Callable[[float], bool]] = {
    "bounded": lambda largest: largest > 1,
    "linear_map": lambda error: error > 0.1,
    "two_right": lambda share: share < 0.2,
    "offset_only": lambda change: change > 1e-3,
    "one_hot": lambda gap: gap > 1e-3,
    "ends": lambda norm: norm > 0,
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_is_decided_at_any_setting_by_the_fields_it_uses(name: str) -> None:
    claim = CLAIMS[name]
    assert (claim.id, claim.theme in THEMES) == (name, True)
    assert re.fullmatch(r"[A-Zn].*\.", claim.sentence)
    assert claim.source
    assert claim.link.startswith("https://")
    assert (claim.proof is not None) == (name in CONTROL_FAILS)
    theorems = 0
    for label, changes in SETTINGS.items():
        sizes = Sizes(**changes)
        found = claim.test(sizes)
        assert isinstance(found.status, Status), label
        assert found.sentence.endswith("."), label
        assert not {"nan", "inf"} & {*re.findall(r"\w+", found.sentence)}, label
        values = [number.value for number in found.numbers]
        assert all(value is None or math.isfinite(value) for value in values), label
        undecided = found.status in (Status.NOT_MEASURED, Status.UNDECIDED)
        assert bool(found.numbers) != undecided, label
        assert claim.test(claim.relevant(sizes)) == found, label
        if found.status is Status.THEOREM:
            theorems += 1
            assert CONTROL_FAILS[name](control(found)), label
    assert bool(theorems) == (name in CONTROL_FAILS)


def test_relevant_setting_keeps_only_fields_that_the_claim_uses() -> None:
    first, second = (CLAIMS["slowest"].relevant(Sizes(length=n, seed=n)) for n in (8, 16))
    assert (first, hash(first)) == (second, hash(second))
    assert CLAIMS["falls"].relevant(Sizes(length=8)) != CLAIMS["falls"].relevant(Sizes())


def plain_attention(x: np.ndarray, causal: bool) -> np.ndarray:
    """One head: queries and values are the tokens, keys are the tokens moved on by one feature."""
    out = np.empty_like(x)
    for i in range(len(x)):
        visible = range(i + 1) if causal else range(len(x))
        logits = [x[i] @ np.roll(x[j], 1) / math.sqrt(x.shape[1]) for j in visible]
        weights = np.exp(np.array(logits) - max(logits))
        out[i] = sum(w * x[j] for w, j in zip(weights / weights.sum(), visible, strict=True))
    return out


def change(after: np.ndarray, before: np.ndarray) -> float:
    return float(np.abs(after - before).max() / np.abs(before).max())


def content() -> np.ndarray:
    """The tokens that the claims draw from seed 0 at width 16."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(1, 1, 8, 16, generator=draw, dtype=torch.float64)[0, 0].numpy()


def test_attention_is_equivariant_not_invariant() -> None:
    found = verdict("permutation", dim=16, heads=1)
    x = content()
    moved = change(plain_attention(x[::-1], False), plain_attention(x, False))
    assert deciding(found) == pytest.approx(moved)
    assert moved > 0.1
    assert found.status is Status.FALSE
    assert "equivariance" in found.sentence
    assert max(number(found, "change of each token's own"), control(found)) <= ROUNDING
    assert number(found, "with RoPE, change of each token's own") > ROUNDING


def test_causal_mask_shows_order_from_the_second_layer_on() -> None:
    found = verdict("blind", dim=16, heads=1)
    x = content()
    reversed_but_last = np.concatenate([x[:-1][::-1], x[-1:]])
    changes = {}
    for causal in (False, True):
        last_rows = []
        for tokens in (x, reversed_but_last):
            first = tokens + plain_attention(tokens, causal)
            last_rows.append((first[-1], (first + plain_attention(first, causal))[-1]))
        changes[causal] = [change(last_rows[1][n], last_rows[0][n]) for n in (0, 1)]
    assert deciding(found) == pytest.approx(changes[True][1])
    assert deciding(found) > 0.01
    assert max(number(found, "change in one layer"), changes[True][0]) < 1e-13
    assert max(number(found, "change in two layers without"), changes[False][1]) < 1e-13
    assert found.status is Status.PARTLY
    assert control(found) > 0.01


def test_claims_of_order_change_with_the_attention_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean_layer(x: torch.Tensor, scheme: object, *, causal: bool) -> torch.Tensor:
        return x.mean(dim=-2, keepdim=True).expand_as(x)

    monkeypatch.setattr(order, "layer", mean_layer)
    assert verdict("permutation").status is Status.HOLDS
    assert verdict("blind").status is Status.THEOREM


def test_embedding_equals_one_hot_product() -> None:
    found = verdict("one_hot", learned_source="random")
    assert (found.status, deciding(found)) == (Status.THEOREM, 0)
    assert 0.01 < control(found) <= Sizes().train_length ** -0.5


def test_one_hot_claim_is_false_for_an_infinite_table_and_an_error_for_a_missing_one(
    tmp_path: Path,
) -> None:
    table = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    table[3, 3] = math.inf
    save_file({"position_embeddings.weight": table}, tmp_path / "inf.safetensors")

    class SizesWithInfinity(Sizes):
        def config(self, kind: str) -> Any:
            return config_of("learned", source=str(tmp_path / "inf.safetensors"))

    assert CLAIMS["one_hot"].test(SizesWithInfinity()).status is Status.FALSE
    with pytest.raises(ValueError, match="no table of a run"):
        verdict("one_hot", learned_source=f"run-{'0' * 20}")


def test_learned_table_ends_and_sinusoids_do_not() -> None:
    found = verdict("ends")
    assert (found.status, deciding(found)) == (Status.THEOREM, 128)
    assert "position 128 is an error" in found.sentence
    assert control(found) == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("heads", "state", "first_break"), [(8, Status.HOLDS, None), (12, Status.FALSE, 9)]
)
def test_alibi_slopes_are_geometric_for_powers_of_two(
    heads: int, state: Status, first_break: int | None
) -> None:
    found = verdict("geometric", dim=1536, heads=heads)
    slopes = independent.alibi_slopes(heads)
    ratios = [after / before for before, after in itertools.pairwise(slopes)]
    assert deciding(found) == pytest.approx(max(ratios) / min(ratios))
    assert (found.status, found.numbers[2].value) == (state, first_break)
    assert verdict("geometric", heads=2).status is Status.UNDECIDED


def test_no_clipping_distance_of_shaw_gives_t5_buckets() -> None:
    found = verdict("t5_shaw")
    assert (found.status, deciding(found)) == (Status.FALSE, 0)
    assert control(found) == 16
    used = {*t5_buckets(torch.arange(-255, 256), bidirectional=True).tolist()}
    assert number(found, "buckets in use") == len(used) == 31
    # To 8 positions every offset has its own bucket; that is still a number and no vector.
    assert verdict("t5_shaw", length=8).status is Status.PARTLY


def test_figures_and_counted_nouns_are_written_for_reading() -> None:
    for value, text in (
        (0.0, "0"), (60611.4, "60,611"), (0.97312, "0.973"), (-3.0, "-3"), (math.inf, "inf"),
        (4.6e-5, "4.6 × 10⁻⁵"), (3.4028e38, "3.4 × 10³⁸"), (0.001, "0.001"),
    ):  # fmt: skip
        assert figure(value) == text
    assert [count_of(n, "row") for n in (0, 1, 1_000)] == ["0 rows", "1 row", "1,000 rows"]


def test_claim_without_a_matching_run_is_not_measured() -> None:
    for name in ("alike", "rope_extrapolates"):
        found = verdict(name, base=9_999.0)
        assert (found.status, found.numbers) == (Status.NOT_MEASURED, ())
        assert found.sentence.startswith("No small model of ")
        assert found.sentence.endswith(" at base 9,999 ships.")
        other_length, same = (verdict(name, train_length=length) for length in (100, 64))
        assert (other_length.status, other_length.numbers) == (same.status, same.numbers)
        others = "Too few models here were trained on 100 tokens; these were trained on 64. "
        assert other_length.sentence == others + same.sentence
    assert "256 tokens" in verdict("rope_extrapolates", train_length=256).sentence
    partial = verdict("rope_extrapolates", own=(("rope.partial_rotary_factor", 0.5),))
    assert partial.status is Status.NOT_MEASURED
    for name, base in {
        "rope": "base 10,000",
        "sinusoids": "base 10,000",
        "alibi": "no base",
    }.items():
        extrapolates = "extrapolate" if name == "sinusoids" else "extrapolates"
        assert f"({base}, " in verdict(f"{name}_{extrapolates}").sentence
    half = verdict("rope_extrapolates", own=(("rope.layout", "half"),))
    assert half.status is Status.NOT_HERE  # the order of features changes no run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(training, "STORE", str(tmp_path))
    training._runs_of_protocol.cache_clear()
    yield Store(tmp_path)
    training._runs_of_protocol.cache_clear()


def add_runs(store: Store, kind: str, losses: list[dict[int, float]]) -> None:
    planned = (one for one in read_protocol().planned("code") if one.scheme.kind == kind)
    for specification, by_context in zip(planned, losses, strict=False):
        scores = [Score("context", "as trained", x, value, 1) for x, value in by_context.items()]
        store.add(Run(specification, None, 1.0, tuple(scores), (2.0,)), {})


@pytest.mark.parametrize(
    ("far", "state"),
    [
        (0.9, Status.HOLDS_HERE),
        (1.005, Status.HOLDS_HERE),
        (1.05, Status.PARTLY),
        (1.2, Status.NOT_HERE),
    ],
)
def test_losses_decide_whether_rope_extrapolates(store: Store, far: float, state: Status) -> None:
    add_runs(store, "rope", [{64: 1.0, 128: far + gap} for gap in (-1e-5, 1e-5)])
    (Path(store.root) / f"{'0' * 20}.parquet").write_bytes(b"not a run")  # is left out
    found = verdict("rope_extrapolates", train_length=64)
    assert found.status is state
    assert deciding(found) == pytest.approx(math.exp(far - 1.0))


@pytest.mark.parametrize(
    "far",
    [[1.2], [1.02, 1.08, 1.05], [0.9, 1.2], [1.0, 1.13, 1.13]],
)
def test_runs_that_differ_too_much_leave_extrapolation_undecided(
    store: Store, far: list[float]
) -> None:
    """Student's interval of each contains changes on both sides of a limit: 0.049 or 0.095 nats."""
    add_runs(store, "rope", [{64: 1.0, 128: loss} for loss in far])
    found = verdict("rope_extrapolates", train_length=64)
    assert found.status is Status.UNDECIDED
    low, high = (number.value for number in found.numbers[-2:])
    if len(far) == 1:
        assert (low, high) == (None, None)
        assert "one seed decides nothing" in found.sentence
        return
    interval = scipy.stats.ttest_1samp([loss - 1 for loss in far], 0.0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((interval.low, interval.high))
    assert "so few runs decide nothing" in found.sentence


def test_t5_buckets_match_forty_digit_logarithms() -> None:
    before, after = (
        t5_buckets(sign * torch.arange(300), bidirectional=True).tolist() for sign in (-1, 1)
    )
    for n in range(300):
        steps = mp.log(mpf(n) / 8) / mp.log(16) * 8 if n > 8 else n - 8
        bucket = min(15, 8 + int(mp.floor(steps + mpf(10) ** -30)))
        assert before[n] == bucket
        assert n == 0 or after[n] == bucket + 16
