"""The numbers of a plan and its smallest bases are those of papers, counts by hand and plain loops."""

import importlib
import math
from functools import cache

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc import SchemeArgumentError, rope_frequencies
from posenc.analysis import known_base, smallest_base
from posenc.analysis.base_search import _KNOWN, MAX_LENGTH
from posenc.models import read_config
from posenc.models.model_config import cache_gib, full_cache_note
from posenc.planner import (
    METHODS,
    ContextPlan,
    MethodPlan,
    assumed_sentences,
    left_out_sentences,
    plan,
    warnings_of,
)
from posenc.planner.methods import DEFAULT_METHODS
from posenc.planner.record import plan_record
from posenc.planner.scaling_effects import (
    distinct_positions,
    kernel_at,
    worst_cosine_error,
)
from posenc.planner.tables import COVERAGE, TRADE_OFFS, ranked
from posenc.schemes.rope import RopeConfig
from tests.models.configs import (
    LLAMA,
    LLAMA3_BLOCK,
    LLAMA_2,
    Config,
    method,
    of_type,
    plan_config,
    preset_config,
    published_config,
    scaled,
)


@cache
def llama_plan() -> ContextPlan:
    return plan_config(LLAMA, 131_072)


def counts(one: MethodPlan) -> tuple[int, ...]:
    """Pairs that keep their frequency, are between, and are divided by the factor."""
    return tuple(one.pairs.count(state) for state in ("kept", "blended", "divided"))


@pytest.mark.parametrize(
    ("config", "length", "bytes_of_bfloat16"),
    [
        # 2 (keys, values) x 32 layers x 8 heads x 128 numbers x 131,072 tokens x 2 bytes: 16 GiB
        (LLAMA, 131_072, 2 * 32 * 8 * 128 * 131_072 * 2),
        # the latent vector of 512 and the rotated key of 64, for each of 61 layers
        (published_config("deepseek-v3"), 163_840, 61 * 576 * 163_840 * 2),
        # no layer keeps more than its window of 4,096
        (published_config("mistral-7b-v0.1"), 131_072, 2 * 32 * 8 * 128 * 4_096 * 2),
        # 5 layers of 34 see everything, 29 see 1,024
        (published_config("gemma-3-4b"), 131_072, 2 * 4 * 256 * (5 * 131_072 + 29 * 1_024) * 2),
    ],
    ids=["llama", "latent", "window", "two kinds"],
)
def test_cache_size_is_a_count_by_hand(config: Config, length: int, bytes_of_bfloat16: int) -> None:
    gib = cache_gib(read_config(config), length)
    assert gib["bfloat16"] == gib["float16"] == pytest.approx(bytes_of_bfloat16 / 2**30, rel=1e-12)
    assert gib["float32"] == 2 * gib["bfloat16"]
    assert gib["8 bit"] == gib["bfloat16"] / 2


def test_cache_equals_published_figures() -> None:
    """alvarobartt/hf-mem issue 60 and pull request 70, lmstudio-bug-tracker issue 1862."""
    small = published_config("gpt-oss-20b")
    large = small | {"num_hidden_layers": 36, "layer_types": small["layer_types"][:2] * 18}
    assert read_config(large).cache_numbers(1) * 2 == 73_728  # bytes of a token, as vLLM logs it
    gib = [cache_gib(read_config(small), 8_192, windows=one)["bfloat16"] for one in (True, False)]
    assert [round(32 * one, 2) for one in gib] == [6.09, 12.0]
    sizes = {
        "num_hidden_layers": 64, "hidden_size": 5_120, "num_attention_heads": 24, "head_dim": 256,
        "num_key_value_heads": 4, "linear_num_value_heads": 48, "linear_num_key_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 262_144, "rope_theta": 1e7,
    }  # fmt: skip
    hybrid = read_config({"model_type": "qwen3_5_text"} | sizes)  # Qwen3.6-27B, in llama.cpp's log
    state = hybrid.cache_numbers(0)
    assert (hybrid.cache_numbers(262_144) - state) * 2 / 2**20 == 16_384
    # llama.cpp keeps 3 columns of the convolution, transformers 4; 598.5 MiB of float32 for 4 sequences.
    assert (state - 48 * (2 * 16 + 48) * 128) * 4 * 4 / 2**20 == 598.5
    assert full_cache_note(hybrid, 262_144).startswith(
        f"{state * 2 / 2**20:,.4g} MiB of the bfloat16 cache"
    )


def test_cache_in_blocks_is_a_count_by_hand() -> None:
    """1,000 tokens are 63 blocks of 16; a window of 1,024 may begin inside a block: 65 blocks."""
    a_token = 2 * 4 * 256
    for length, full, sliding in ((1_000, 63, 63), (131_072, 8_192, 65)):
        gemma = read_config(published_config("gemma-3-4b"))
        assert gemma.cache_numbers(length, block=16) == a_token * 16 * (5 * full + 29 * sliding)
    note = full_cache_note(read_config(LLAMA), 1_000)
    assert note.endswith(f"it is up to {2 * 32 * 8 * 128 * 1_008 * 2 / 2**30:.4g} GiB in bfloat16.")
    assert full_cache_note(read_config(LLAMA), 1_008) == ""


def test_methods_keep_blend_and_divide_the_pairs_of_their_papers() -> None:
    found = plan_config(scaled(**LLAMA3_BLOCK), 65_536, methods=["none"])  # 8 times 8,192
    assert counts(method(found, "configured")) == (29, 6, 29)
    yarn = method(plan_config(LLAMA_2, 65_536, methods=["yarn"]), "yarn")
    assert yarn.attention_factor == pytest.approx(0.1 * math.log(16) + 1, rel=1e-12)
    assert list(yarn.pairs.states) == ["kept"] * 21 + ["blended"] * 25 + ["divided"] * 18
    assert counts(method(llama_plan(), "linear")) == (0, 0, 64)
    assert counts(method(llama_plan(), "ntk")) == (1, 62, 1)
    assert counts(method(llama_plan(), "none")) == (64, 0, 0)
    assert method(llama_plan(), "ntk").pairs.ratio[-1] == pytest.approx(1 / 16, rel=1e-12)
    after = [method(llama_plan(), name).pairs.after for name in ("dynamic", "ntk")]
    np.testing.assert_allclose(after[0], after[1], rtol=1e-12)


def test_turns_are_the_trained_length_over_the_wavelength() -> None:
    pairs = method(plan_config(LLAMA_2, 8_192, methods=["none"]), "none").pairs
    turns = [4_096 / (2 * math.pi * 10_000 ** (m / 64)) for m in range(64)]
    np.testing.assert_allclose(pairs.turns, turns, rtol=1e-12)
    assert int((pairs.turns >= 1).sum()) == 46  # twice that is 92, the critical dimension


def test_unseen_pairs_are_those_of_a_plain_loop() -> None:
    plain = [5e5 ** (-m / 64) for m in range(64)]
    for one in llama_plan().methods:
        after = rope_frequencies(one.config, length=131_072)[0].tolist()
        unseen = 0
        for before, now in zip(plain, after, strict=True):
            turns = 8_192 * before / (2 * math.pi)
            unseen += turns < 1 and 131_072 * now / (2 * math.pi) > turns * (1 + 1e-6)
        assert int(one.pairs.unseen.sum()) == unseen, one.method.name
    assert int(method(llama_plan(), "linear").pairs.unseen.sum()) == 0
    assert int(method(llama_plan(), "none").pairs.unseen.sum()) == 29


def test_the_kernel_is_that_of_each_scheme() -> None:
    config = of_type("phi", partial_rotary_factor=0.5)
    found = plan_config(config, 20_000, methods=[*METHODS])
    assert {one.method.name for one in found.methods} >= {*METHODS} - {"base"}
    at = torch.tensor([0, 1, 5_000, 10_000, 19_999])
    for one in found.methods:
        kernel = one.config.at_length(20_000).build().offset_kernel(-at)
        curve = kernel_at(one.config, torch.arange(20_000), 20_000)[at.numpy()]
        np.testing.assert_allclose(curve, kernel.numpy(), rtol=0, atol=1e-13)
        some = kernel_at(one.config, at.tolist(), 20_000)
        np.testing.assert_allclose(some, kernel.numpy(), rtol=0, atol=1e-13)
        assert list(one.kernel) == at[2:].tolist()
        assert list(one.kernel.values()) == pytest.approx(kernel[2:].tolist(), abs=1e-13)
    for one, row in zip(found.methods, ranked(found)[COVERAGE], strict=True):
        cells = [row[f"expected logit at {place}"] for place in ("1/4", "1/2", "the end")]
        assert cells == [f"{value:.3f}" for value in one.kernel.values()]


@pytest.mark.parametrize(("name", "falls"), [("yarn", False), ("ntk", True)])
def test_short_texts_pay_the_mean_and_largest_change_of_the_kernel(name: str, falls: bool) -> None:
    found = method(plan_config(LLAMA_2, 16_384, methods=[name]), name)
    offsets = -torch.arange(4_096)
    before = RopeConfig(dim=128, base=1e4, layout="half").build().offset_kernel(offsets)
    change = found.config.build().offset_kernel(offsets) - before
    assert bool((change < -0.1).any()) == falls  # a gain must not make up for a loss
    assert found.short.mean == pytest.approx(change.abs().mean().item(), rel=1e-9)
    assert found.short.worst == pytest.approx(change.abs().max().item(), rel=1e-9)
    assert found.short.at_zero == pytest.approx(1.0)  # unit content, every cosine 1
    assert found.short.compared == 4_096


def test_short_texts_pay_nothing_where_frequencies_are_those_of_training() -> None:
    for one in llama_plan().methods:
        same = one.method.name in ("none", "dynamic")
        assert (one.short.mean == one.short.worst == 0) == same
    stale = {one.method.name: one.stale_from for one in llama_plan().methods if one.stale_from}
    assert stale == {"dynamic": 8_193}  # the only one that looks at the length


def test_dynamic_ntk_starts_from_the_context_of_its_config() -> None:
    block = {"rope_type": "dynamic", "factor": 4.0}
    config = LLAMA_2 | {"max_position_embeddings": 2_048, "rope_scaling": block}
    found = plan_config(config, 8_192)
    assert (found.trained_length, found.factor) == (2_048, 4)
    np.testing.assert_allclose(method(found, "linear").pairs.ratio, 1 / 4, rtol=1e-12)
    # The last pair of base b g^(d/(d-2)) is divided by g = 4 * 4 - 3.
    assert method(found, "configured").pairs.ratio[-1] == pytest.approx(1 / 13, rel=1e-12)
    within = plan_config(config, 2_048)
    assert not within.longer
    assert {one.method.name for one in within.methods} == {"configured", "none"}
    np.testing.assert_allclose(method(within, "configured").pairs.ratio, 1, rtol=1e-12)


def test_scalings_by_length_look_at_the_text_and_not_at_a_window() -> None:
    mistral = plan_config(published_config("mistral-7b-v0.1"), 32_768, trained_length=2_048)
    assert mistral.reach == 4_096
    assert method(mistral, "dynamic").pairs.ratio[-1] == pytest.approx(1 / 16, rel=1e-12)
    assert method(mistral, "dynamic").stale_from == 2_049
    assert method(mistral, "linear").pairs.ratio[-1] == pytest.approx(1 / 2, rel=1e-12)
    lists = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [5.0] * 48}
    phi = preset_config("phi-3-mini-128k") | {"sliding_window": 2_047, "rope_scaling": lists}
    found = plan_config(phi, 131_072, methods=["none"])
    assert found.reach == 2_047
    np.testing.assert_allclose(method(found, "configured").pairs.ratio, 1 / 5, rtol=1e-12)
    assert method(found, "configured").stale_from == 4_097


@pytest.mark.parametrize(
    ("config", "target", "trained", "fact"),
    [
        (LLAMA, 16_384, None, "8,192"),
        (published_config("gemma-3-4b"), 131_072, 131_072 // 8, "16,384"),  # context over factor
        (scaled(type="dynamic", factor=2.0), 262_144, 131_072, "131,072"),
        # Qwen3: its context is 40,960, its makers say 32,768.
        (published_config("qwen3-8b"), 131_072, 32_768, "Qwen3"),
    ],
)
def test_a_trained_length_that_is_taken_for_granted_is_listed(
    config: Config, target: int, trained: int | None, fact: str
) -> None:
    found = plan_config(config, target, methods=["none"], scan=64)
    assert fact in assumed_sentences(found)[0]
    assert trained is None or found.trained_length == trained
    known = plan_config(config, target, methods=["none"], scan=64, trained_length=8_192)
    assert known.assumed == ()


def test_a_trained_length_that_contradicts_the_config_is_named() -> None:
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    config = scaled(**block)
    (sentence,) = assumed_sentences(plan_config(config, 262_144, scan=64, trained_length=4_096))
    assert "4,096" in sentence
    assert "original_max_position_embeddings in the config says 32,768" in sentence
    assert plan_config(config, 262_144, scan=64, trained_length=32_768).assumed == ()


def test_the_sign_of_the_bound_is_known_no_farther_than_it_was_scanned() -> None:
    near = plan_config(LLAMA, 1_048_576, methods=["none"], scan=16_384)
    assert (near.first_negative, near.scanned) == (None, 16_384)
    assert ranked(near)["Frequency coverage"][0]["B(k) first below 0 at"] == "not below 16,384"
    for base, first in ((1e4, 1_707), (5e5, 18_438)):
        far = plan_config(LLAMA | {"rope_theta": base}, 1_048_576, methods=["none"], scan=20_000)
        assert far.first_negative == method(far, "none").first_negative == first


def test_a_record_holds_the_numbers_of_the_plan() -> None:
    found = plan(read_config(LLAMA), 131_072, methods=["none", "base"])
    for rows in ranked(found).values():
        assert [row["method"] for row in rows] == [one.method.label for one in found.methods]
    for one, row in zip(found.methods, ranked(found)["Frequency coverage"], strict=True):
        assert (row["kept"], row["divided"]) == tuple(str(counts(one)[n]) for n in (0, 2))
    record = plan_record(found)
    assert record["factor"] == 16
    assert record["first_negative"] == 18_438
    assert record["suggested_base"] == 4_869_200
    assert record["cache_gib"]["bfloat16"] == record["cache_gib_without_windows"]["bfloat16"] == 16
    assert record["distinct_bfloat16_positions"] == 1_409
    by_name = {row["method"]: row for row in record["methods"]}
    assert by_name["base"]["config"]["base"] == 4_869_200
    assert by_name["base"]["first_negative"] is None
    assert any("4,869,105" in warning["sentence"] for warning in record["warnings"])


def test_a_context_is_planned_within_its_range() -> None:
    for context in (0, -1, 2**24 + 1, True):
        with pytest.raises(SchemeArgumentError, match="context"):
            plan_config(LLAMA, context)
    with pytest.raises(SchemeArgumentError, match=r"linear.*'magic'"):
        plan_config(LLAMA, 16_384, methods=["magic"])
    for target in (1, 2, 3, 5):
        record = plan_record(plan_config(LLAMA | {"max_position_embeddings": 2}, target))
        assert record["target"] == target
        assert record["verdict"]
        assert len(record["methods"]) == (1 if target <= 2 else len(DEFAULT_METHODS) - 1)


def test_a_method_that_cannot_be_planned_is_left_out_with_its_reason() -> None:
    left_out = plan_config(LLAMA, 9_001).left_out
    assert [(each.word, each.numbers["label"]) for each in left_out] == [
        ("not_searched", "Larger base")
    ]
    found = plan_config(LLAMA | {"rope_theta": 1e9}, 16_384, search_base=True, scan=64)
    assert "1,000,000,000" in left_out_sentences(found)[0]  # which satisfies B(k) already
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.5}
    *scalings, _ = left_out_sentences(plan_config(LLAMA | {"rope_scaling": block}, 16_384))
    assert len(scalings) == len(DEFAULT_METHODS) - 2  # all but none and base
    assert all("p-RoPE" in reason for reason in scalings)


def inv_freq_of(base: float) -> torch.Tensor:
    return torch.tensor([base ** (-m / 64) for m in range(64)], dtype=torch.float64)


def dense_error(exact: torch.Tensor, single: torch.Tensor, length: int) -> float:
    at = np.arange(length)
    angles = at.astype(np.float32)[:, None] * single.numpy().astype(np.float32)
    right = np.cos(at[:, None] * exact.numpy())
    return float(np.abs(np.cos(angles.astype(np.float64)) - right).max())


@pytest.mark.parametrize("length", [1, 256, 2_048, 131_072, 300_000])
def test_distinct_positions_are_counted_as_a_set_counts_them(length: int) -> None:
    as_bfloat16 = torch.arange(length).to(torch.bfloat16).float()
    assert distinct_positions(length) == len(set(as_bfloat16.tolist()))
    assert distinct_positions(length, torch.float32) == length


@pytest.mark.usefixtures("no_shape_checks")
def test_the_worst_error_is_that_of_every_pair_and_position() -> None:
    exact = inv_freq_of(5e5)
    # Cosines of the same angles by torch and by numpy: 1e-15 of errors of about 1e-3.
    by_hand = dense_error(exact, exact, 20_000)
    assert worst_cosine_error(exact, 20_000) == pytest.approx(by_hand, rel=1e-10)
    wrong = (exact * (1 + 1e-6 * torch.arange(64))).float()  # the slow pairs are off the most
    by_hand = dense_error(exact, wrong, 20_000)
    assert worst_cosine_error(exact, 20_000, computed=wrong) == pytest.approx(by_hand, rel=1e-10)


def test_cosine_errors_of_a_plan_are_those_of_each_method() -> None:
    found = plan_config(LLAMA, 16_384, methods=["ntk", "yarn_paper"])
    one, exact = method(found, "ntk"), inv_freq_of(5e5 * 2 ** (128 / 126))
    assert one.cosine_error == pytest.approx(dense_error(exact, exact, 16_384), rel=1e-6)
    bits, _ = rope_frequencies(one.config, mode="transformers")
    assert one.code_cosine_error == pytest.approx(dense_error(exact, bits, 16_384), rel=1e-6)
    assert method(found, "yarn_paper").code_cosine_error is None  # no public code computes it
    assert "none there" in [row["error in transformers"] for row in ranked(found)[TRADE_OFFS]]


def test_a_warning_has_both_errors_of_float32() -> None:
    found = plan_config(LLAMA, 1_048_576, methods=["none"], scan=1)
    (sentence,) = [one.sentence for one in warnings_of(found) if "float32 has" in one.rule]
    assert "0.0499 with exact" in sentence
    assert "0.0746 with the float32" in sentence
    (sentence,) = [one.sentence for one in warnings_of(found) if "bfloat16" in one.rule]
    assert f"{distinct_positions(1_048_576):,}" in sentence


def bound(dim: int, base: float, offsets: range) -> np.ndarray:
    """B(k) by the sum as printed, one offset in a row."""
    inv_freq = np.array([base ** (-2 * m / dim) for m in range(dim // 2)])
    return np.cos(np.arange(offsets.start, offsets.stop)[:, None] * inv_freq).sum(1)


def first_negative(base: float, length: int) -> int:
    """The first offset at which B(k) of width 128 is negative; 0 if there is none."""
    return int((bound(128, base, range(length)) < 0).argmax())


def is_negative(base: float, dim: int, length: int) -> bool:
    """Whether B(k) is negative anywhere below `length`, looked for from the far end."""
    parts = (range(max(stop - 2_048, 0), stop) for stop in range(length, 0, -2_048))
    return any((bound(dim, base, part) < 0).any() for part in parts)


# Men et al. 2024, width 128, by a scan of bases: the first that passes; a larger base that fails again,
# and at which offset.
SCANNED = {
    1_024: (4_294, 6_018, 903),
    4_096: (26_953, 58_676, 4_000),
    32_768: (629_998, 2_487_577, 29_076),
}


@pytest.mark.parametrize("length", SCANNED)
def test_published_bases_lie_in_the_window(length: int) -> None:
    first, again, fails_at = SCANNED[length]
    found = smallest_base(128, length)
    assert found is not None
    assert found.end is not None
    assert found.narrow
    assert found.base <= first < found.end < again
    # A scan of bases in steps misses the first that pass, by a little.
    assert first / found.base - 1 < 2e-4
    assert first_negative(again, length) == fails_at
    mp.dps = 40
    assert mp.fsum(mp.cos(fails_at * mpf(again) ** (-mpf(m) / 64)) for m in range(64)) < 0
    assert first_negative(again * 1.02, length) == 0
    if length == 32_768:  # 631,006, published as the last that passes, already fails
        assert found.end == pytest.approx(630_983.58, abs=0.01)
        assert found.rounded == 629_980
        assert [first_negative(base, length) for base in (630_984, 631_006)] == [26_976] * 2
    if length == 4_096:  # a round base can fail
        assert [first_negative(base, length) for base in (2.7e4, 1e4)] == [4_079, 1_707]
        assert found.end < 2.7e4


def test_a_single_pair_has_one_frequency_whatever_the_base() -> None:
    assert smallest_base(2, 100) is None
    two, one = smallest_base(2, 2), smallest_base(128, 1)  # one position is no demand
    assert two is not None
    assert one is not None
    assert (two.base, two.narrow, one.base) == (1, False, 1)
    for dim, length in ((3, 10), (8, 0), (8, MAX_LENGTH + 1)):
        with pytest.raises(SchemeArgumentError, match="must be"):
            smallest_base(dim, length)


@pytest.mark.parametrize("dim", sorted({dim for dim, _ in _KNOWN}))
def test_a_shipped_window_begins_and_ends_where_it_says(dim: int) -> None:
    for length in (length for width, length in _KNOWN if width == dim):
        window = known_base(dim, length)
        assert window is not None
        assert window.end is not None
        assert window.base <= window.rounded < window.end
        assert not is_negative(window.rounded, dim, length)
        assert is_negative(window.base * (1 - 1e-6), dim, length)
        assert is_negative(window.end * (1 + 1e-6), dim, length)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("dim", "length"), _KNOWN)
def test_the_search_finds_every_window(dim: int, length: int) -> None:
    found, known = smallest_base(dim, length), known_base(dim, length)
    assert found is not None
    assert known is not None
    for name in ("base", "end", "searched"):  # processors differ in the last digits of a cosine
        assert getattr(found, name) == pytest.approx(getattr(known, name), rel=1e-9)
    assert found.rounded == known.rounded


def test_base_is_searched_only_if_unknown_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        importlib.import_module("posenc.planner.plan"),
        "smallest_base",
        lambda *asked: searched.append(asked),
    )
    model = read_config(LLAMA)
    found = plan(model, 131_072, methods=["base"])
    assert found.base_searched
    assert found.base_window == known_base(128, 131_072)
    assert found.methods[0].config.base == 4_869_200
    assert searched == []
    assert not plan(model, 9_001, methods=["none"], search_base=False).base_searched
    assert plan(model, 9_001, methods=["none"]).base_searched
    assert searched == [(128, 9_001)]
