"""Plans of a longer context: the numbers of papers and hand counts, and what is said of them."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc import SchemeArgumentError, rope_frequencies
from posenc.interop import read_config
from posenc.planner import (
    COLUMNS,
    METHODS,
    ContextPlan,
    MethodPlan,
    cautions,
    layer_notes,
    plan,
    verdict,
)
from posenc.planner.cache import cache_gib
from posenc.planner.columns import COSTS
from posenc.planner.kernels import kernel_curve
from posenc.planner.report import plan_record, ranked
from posenc.planner.resolution import distinct_positions, worst_cosine_error
from posenc.planner.verdict import bound_said, resolution_said
from posenc.schemes.rope import RopeConfig
from tests import models


def planned(config: dict[str, Any], context: int, **others: Any) -> ContextPlan:
    return plan(read_config(config), context, **{"name": "M", "search_base": False} | others)


def method(found: ContextPlan, name: str) -> MethodPlan:
    return next(one for one in found.methods if one.method.name == name)


def counts(one: MethodPlan) -> tuple[int, int, int]:
    kept, blended, divided = (one.pairs.count(state) for state in ("kept", "blended", "divided"))
    return kept, blended, divided


# Memory of the cache, by hand ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "length", "gib"),
    [
        # 2 (keys, values) x 32 layers x 8 heads x 128 numbers x 131,072 tokens x 2 bytes
        (models.LLAMA3_8B, 131_072, 2 * 32 * 8 * 128 * 131_072 * 2 / 2**30),
        # the latent vector of 512 and the rotated key of 64, for each of 61 layers
        (models.DEEPSEEK_V3, 163_840, 61 * 576 * 163_840 * 2 / 2**30),
        # no layer keeps more than its window of 4,096
        (models.MISTRAL_7B, 131_072, 2 * 32 * 8 * 128 * 4_096 * 2 / 2**30),
        # 5 layers of 34 see everything (every sixth), 29 see 1,024
        (models.GEMMA3_4B, 131_072, 2 * 4 * 256 * (5 * 131_072 + 29 * 1_024) * 2 / 2**30),
    ],
)
def test_the_cache_is_what_counting_by_hand_gives(
    config: dict[str, Any], length: int, gib: float
) -> None:
    found = cache_gib(read_config(config), length)
    assert found["bfloat16"] == found["float16"] == pytest.approx(gib, rel=1e-12)
    assert found["float32"] == 2 * found["bfloat16"]
    assert found["8 bit"] == found["bfloat16"] / 2


def test_llama_3_at_131_072_in_bfloat16_takes_sixteen_gib() -> None:
    assert cache_gib(read_config(models.LLAMA3_8B), 131_072)["bfloat16"] == 16


# Resolution ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "distinct"), [(1, 1), (256, 256), (2_048, 641), (131_072, 1_409), (300_000, None)]
)
def test_bfloat16_tells_apart_as_many_positions_as_a_set_holds(
    length: int, distinct: int | None
) -> None:
    expected = len(set(torch.arange(length).to(torch.bfloat16).float().tolist()))
    assert distinct_positions(length) == expected
    assert distinct in (None, expected)


def test_float32_tells_all_positions_apart() -> None:
    assert distinct_positions(300_000, torch.float32) == 300_000


def ladder(base: float, dim: int = 128) -> torch.Tensor:
    return torch.tensor([base ** (-2 * m / dim) for m in range(dim // 2)], dtype=torch.float64)


@pytest.mark.parametrize(
    ("length", "error", "in_code"), [(32_768, 1.5e-3, 2.3e-3), (1_048_576, 5.0e-2, 7.5e-2)]
)
def test_float32_angles_put_cosines_wrong_by_as_much_as_was_told(
    length: int, error: float, in_code: float
) -> None:
    """Of the exact ladder cast to float32, and of the one that transformers makes in float32."""
    exponents = torch.arange(0, 128, 2, dtype=torch.int64).float() / 128
    theirs = 1.0 / 5e5**exponents  # float32 throughout, written out as its default type has it
    bits = rope_frequencies(RopeConfig(dim=128, base=5e5, layout="half"), mode="transformers")[0]
    assert torch.equal(theirs, bits)
    assert worst_cosine_error(ladder(5e5), length) == pytest.approx(error, rel=0.04)
    assert worst_cosine_error(ladder(5e5), length, ladder=bits) == pytest.approx(in_code, rel=0.01)


def dense_error(exact: torch.Tensor, single: torch.Tensor, length: int) -> float:
    """The worst error over a table of every position and pair, none skipped."""
    at = np.arange(length)
    angles = at.astype(np.float32)[:, None] * single.numpy().astype(np.float32)
    right = np.cos(at[:, None] * exact.numpy())
    return float(np.abs(np.cos(angles.astype(np.float64)) - right).max())


def test_the_worst_error_is_that_of_every_pair_and_position() -> None:
    exact = ladder(5e5)
    assert worst_cosine_error(exact, 20_000) == dense_error(exact, exact, 20_000)
    wrong = (exact * (1 + 1e-6 * torch.arange(64))).float()  # the slow pairs are off the most
    found = worst_cosine_error(exact, 20_000, ladder=wrong)
    assert found == dense_error(exact, wrong, 20_000)


@pytest.mark.usefixtures("no_shape_checks")
def test_a_ladder_of_other_pairs_is_refused() -> None:
    exact = ladder(5e5)
    with pytest.raises(SchemeArgumentError, match="ladder must have the 64 frequencies"):
        worst_cosine_error(exact, 20, ladder=exact[:1].float())


def test_a_plan_s_cosine_errors_are_those_of_each_method_s_own_ladder() -> None:
    found = planned(models.LLAMA3_8B, 16_384, methods=["linear", "ntk", "yarn_paper"])
    plain = ladder(5e5)
    ladders = {"linear": plain / 2, "ntk": ladder(5e5 * 2 ** (128 / 126))}
    errors = set()
    for name, exact in ladders.items():
        one = method(found, name)
        assert one.cosine_error == pytest.approx(dense_error(exact, exact, 16_384), rel=1e-6)
        bits = rope_frequencies(one.config, mode="transformers")[0]
        assert one.code_cosine_error == pytest.approx(dense_error(exact, bits, 16_384), rel=1e-6)
        errors |= {one.cosine_error, one.code_cosine_error}
    assert len(errors) == 4
    printed = method(found, "yarn_paper")
    assert printed.code_cosine_error is None  # no public code computes it
    assert "none there" in [row["in transformers"] for row in ranked(found)[COSTS]]
    cells = {column.key: column for column in COLUMNS}
    one = method(found, "linear")
    assert cells["float32_cosine_error"].of(one) == one.cosine_error
    assert cells["float32_cosine_error_transformers"].of(one) == one.code_cosine_error
    assert "rounded to float32 once" in cells["float32_cosine_error"].help
    assert "transformers" in cells["float32_cosine_error_transformers"].help


def test_the_caution_on_float32_tells_both_ladders() -> None:
    found = planned(models.LLAMA3_8B, 1_048_576, methods=["none"], scan=1)
    (said,) = [one.sentence for one in cautions(found) if one.rule.startswith("float32")]
    assert said == (
        "Unscaled: angles made in float32 put cosines wrong by up to 5.0e-02 where exact frequencies are "
        "rounded once, and 7.5e-02 where they are made in float32, too, as transformers does."
    )


def test_how_many_positions_stay_apart_is_told_of_both_number_types() -> None:
    found = planned(models.LLAMA3_8B, 131_072, methods=["none"])
    counted = [len(set(torch.arange(131_072).to(one).double().tolist()))
               for one in (torch.bfloat16, torch.float32)]  # fmt: skip
    assert [found.distinct_bfloat16, found.distinct_float32] == counted == [1_409, 131_072]
    assert resolution_said(found) == (
        "Of 131,072 positions 1,409 stay apart as bfloat16 numbers, 131,072 as float32."
    )
    assert plan_record(found)["distinct_float32_positions"] == 131_072


# Pairs --------------------------------------------------------------------------------------------


def test_llama_3_1_keeps_29_pairs_blends_6_and_divides_29() -> None:
    found = planned(models.LLAMA31_8B, 65_536, methods=["none"])  # 8 times 8,192: its own factor
    assert counts(method(found, "configured")) == (29, 6, 29)


def test_yarn_of_llama_2_by_16_ramps_from_pair_20_to_46() -> None:
    found = method(planned(models.LLAMA2_7B, 65_536), "yarn")
    assert found.attention_factor == pytest.approx(1.2773, abs=5e-5)
    assert [pair for pair, state in enumerate(found.pairs.states) if state == "kept"] == [
        *range(21)
    ]
    divided = [pair for pair, state in enumerate(found.pairs.states) if state == "divided"]
    assert divided == [*range(46, 64)]


def test_the_printed_yarn_differs_by_up_to_204_percent_at_pair_38() -> None:
    found = planned(models.LLAMA2_7B, 65_536)
    (said,) = [one for one in cautions(found) if "printed ramp" in one.rule]
    assert "204%, at pair 38" in said.sentence


def test_interpolation_divides_all_and_a_larger_base_keeps_the_first_and_divides_the_last() -> None:
    found = planned(models.LLAMA3_8B, 131_072)
    assert counts(method(found, "linear")) == (0, 0, 64)
    assert counts(method(found, "ntk")) == (1, 62, 1)
    assert counts(method(found, "none")) == (64, 0, 0)
    assert method(found, "ntk").pairs.ratio[-1] == pytest.approx(1 / 16, rel=1e-12)
    dynamic = method(found, "dynamic").pairs.after
    np.testing.assert_allclose(dynamic, method(found, "ntk").pairs.after, rtol=1e-12)


def test_turns_are_the_trained_length_over_the_wavelength() -> None:
    pairs = method(planned(models.LLAMA2_7B, 8_192), "none").pairs
    expected = [4_096 / (2 * math.pi * 10_000 ** (m / 64)) for m in range(64)]
    np.testing.assert_allclose(pairs.turns, expected, rtol=1e-12)
    assert int((pairs.turns >= 1).sum()) == 46  # twice that is 92, the critical dimension


def test_pairs_that_meet_new_angles_are_those_of_a_plain_loop() -> None:
    found = planned(models.LLAMA3_8B, 131_072)
    for one in found.methods:
        after = rope_frequencies(one.config, length=131_072)[0].tolist()
        expected = 0
        for before, now in zip(ladder(5e5).tolist(), after, strict=True):
            turn = 8_192 * before / (2 * math.pi)
            expected += turn < 1 and 131_072 * now / (2 * math.pi) > turn * (1 + 1e-6)
        assert int(one.pairs.unseen.sum()) == expected, one.method.name
    assert int(method(found, "linear").pairs.unseen.sum()) == 0
    assert int(method(found, "none").pairs.unseen.sum()) == 29


# Kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_the_kernel_is_that_of_the_scheme(name: str) -> None:
    config = models.LLAMA3_8B | {"partial_rotary_factor": 0.5, "model_type": "phi"}
    found = planned(config, 20_000, methods=[name])
    for one in found.methods:
        curve = kernel_curve(one.config, 20_000, 20_000)
        at = torch.tensor([0, 1, 5_000, 10_000, 19_999])
        expected = one.config.at_length(20_000).build().offset_kernel(-at)
        np.testing.assert_allclose(curve[at.numpy()], expected.numpy(), atol=1e-13)
        assert list(one.kernel) == [5_000, 10_000, 19_999]
        assert one.kernel[10_000] == pytest.approx(curve[10_000], abs=1e-13)


def test_the_kernel_at_the_target_is_a_forty_digit_sum() -> None:
    mp.dps = 40
    found = method(planned(models.LLAMA3_8B, 131_072, methods=["linear"]), "linear")
    for offset, value in found.kernel.items():
        angles = [mpf(offset) / 16 * mpf(500_000) ** (-mpf(m) / 64) for m in range(64)]
        assert value == pytest.approx(float(mp.fsum(map(mp.cos, angles)) / 64), abs=1e-13)


def test_short_texts_pay_nothing_where_frequencies_are_those_of_training() -> None:
    found = planned(models.LLAMA3_8B, 131_072)
    for name in ("none", "dynamic"):
        assert method(found, name).short.mean == method(found, name).short.worst == 0
    for name in ("linear", "ntk", "yarn", "llama3"):
        one = method(found, name)
        assert one.short.worst >= one.short.mean > 0
        assert one.short.compared == 8_192


@pytest.mark.parametrize(("name", "falls"), [("yarn", False), ("ntk", True)])
def test_what_short_texts_pay_is_the_mean_and_largest_change_of_the_scheme_s_kernel(
    name: str, falls: bool
) -> None:
    found = method(planned(models.LLAMA2_7B, 16_384, methods=[name]), name)
    offsets = -torch.arange(4_096)
    before = RopeConfig(dim=128, base=1e4, layout="half").build().offset_kernel(offsets)
    signed = found.config.build().offset_kernel(offsets) - before
    assert bool((signed < -0.1).any()) == falls  # a gain must not make up for a loss
    change = signed.abs()
    assert found.short.mean == pytest.approx(change.mean().item(), rel=1e-9)
    assert found.short.worst == pytest.approx(change.max().item(), rel=1e-9)


def test_only_scalings_that_look_at_the_length_make_keys_stale() -> None:
    found = planned(models.LLAMA3_8B, 131_072)
    stale = {one.method.name: one.stale_from for one in found.methods if one.stale_from}
    assert stale == {"dynamic": 8_193}


# Ranking and words --------------------------------------------------------------------------------


def test_the_ranking_is_the_one_that_is_told() -> None:
    found = planned(models.LLAMA3_8B, 131_072).methods
    keys = [
        (
            one.method.name == "none",
            bool(one.pairs.unseen.any()),
            ["needs fine-tuning", "not reported", "fails past"].index(
                " ".join(one.usable.split()[:2])
            ),
            one.pairs.unseen.sum(),
            one.short.mean,
        )
        for one in found
    ]
    assert keys == sorted(keys)
    assert [one.method.name for one in found][-1] == "none"


def test_a_model_s_own_scaling_comes_first_inside_its_context_and_not_past_it() -> None:
    inside = planned(models.LLAMA31_8B, 131_072, methods=["ntk", "none"])
    assert inside.methods[0].method.name == "configured"
    assert "which its own scaling (Llama 3 scaling by 8) is made for" in verdict(inside)
    past = planned(models.LLAMA31_8B, 262_144, methods=["ntk", "none"])
    assert [one.method.name for one in past.methods] == ["ntk", "configured", "none"]
    assert method(past, "configured").usable == "past its context"


def test_every_method_names_a_source() -> None:
    for one in METHODS.values():
        assert one.evidence.source
        assert one.evidence.statement.endswith(".")


def test_the_verdict_is_made_of_the_numbers() -> None:
    model = read_config(models.LLAMA3_8B)
    short = plan(model, 16_384, name="Llama-3-8B", methods=["none"])
    assert verdict(short).startswith("Llama-3-8B from 8,192 to 16,384 is x2. Plan to ")
    assert bound_said(short) == "At base 5e5 B(k) stays at or above 0 up to 16,384."
    longer = plan(model, 32_768, name="Llama-3-8B", methods=["none", "base"])
    assert verdict(longer).startswith("Llama-3-8B from 8,192 to 32,768 is x4. Plan to fine-tune ")
    assert bound_said(longer) == (
        "At base 5e5 B(k) turns negative at 18,438; base 629,980 satisfies it, in a narrow window."
    )
    larger = method(longer, "base")
    assert larger.config.base == 629_980
    assert larger.first_negative is None


def test_a_table_s_cells_are_the_numbers_of_each_method() -> None:
    found = planned(models.LLAMA3_8B, 20_000, methods=["linear", "dynamic"], scan=12_000)
    costs, sees = ranked(found).values()
    for one, paid, seen in zip(found.methods, costs, sees, strict=True):
        at = torch.tensor([5_000, 10_000, 19_999])
        kernel = one.config.at_length(20_000).build().offset_kernel(-at).tolist()
        cells = [seen[title] for title in ("K at 1/4", "K at 1/2", "K at the end")]
        assert cells == [f"{value:.3f}" for value in kernel]
        assert [paid["method"], seen["method"]] == [one.method.label] * 2
        assert (seen["kept"], seen["divided"]) == tuple(str(counts(one)[n]) for n in (0, 2))
    by_name = {row["method"]: row for row in costs}
    assert by_name["Dynamic NTK"]["stale keys from"] == "8,193"
    assert by_name["Position interpolation"]["stale keys from"] == "never"
    assert {row["B(k) < 0 at"] for row in sees} == {"not below 12,000"}


def test_a_change_is_b_minus_a_and_none_of_words_or_what_is_missing() -> None:
    columns = {column.title: column for column in COLUMNS}
    assert columns["kept"].change(3, 5) == "-2"
    assert columns["short texts, mean"].change(0.5, 0.25) == "+0.250"
    assert columns["kept"].change(4, 4) == "0"
    assert columns["stale keys from"].change(8_193, None) == ""
    assert columns["training"].change("made for it", "made for it") == ""


def test_the_bound_of_llama_3_at_131_072() -> None:
    found = plan(read_config(models.LLAMA3_8B), 131_072, name="Llama-3-8B", methods=["none"])
    assert (
        bound_said(found)
        == plan_record(found)["bound"]
        == (
            "At base 5e5 B(k) turns negative at 18,438; base 4,869,200 satisfies it, in a narrow window."
        )
    )


@pytest.mark.parametrize(("base", "first"), [(1e4, 1_707), (5e5, 18_438), (1e6, 27_115)])
def test_where_the_bound_breaks_at_known_bases(base: float, first: int) -> None:
    found = planned(models.LLAMA3_8B | {"rope_theta": base}, 32_768, methods=["none"])
    assert found.first_negative == first
    said = [one.sentence for one in cautions(found) if "breaks the bound" in one.sentence]
    assert bool(said) == (first < 8_192)


def test_a_target_within_the_trained_length_needs_nothing() -> None:
    found = planned(models.LLAMA3_8B, 4_096)
    assert found.assumed
    assert verdict(found) == "M is taken as trained on 8,192 tokens: 4,096 need no scaling."
    told = planned(models.LLAMA3_8B, 4_096, trained_length=8_192)
    assert verdict(told) == "M was trained on 8,192 tokens: 4,096 need no scaling."
    assert [one.usable for one in found.methods] == ["made for it"]


def test_a_window_keeps_distances_short() -> None:
    found = planned(models.MISTRAL_7B, 131_072, trained_length=8_192)
    assert verdict(found).startswith(
        "M at 131,072 tokens, trained on 8,192: no distance is new, because its layers see 4,096 tokens at "
        "most, but as released it is not known to be trained on texts of this length. "
    )
    assert [one.method.name for one in found.methods] == ["none"]
    assert verdict(planned(models.MISTRAL_7B, 131_072)).startswith(
        "M at 131,072 tokens, taken as trained on 8,192: no distance is new, "
    )


def test_layers_of_other_kinds_are_told_apart() -> None:
    notes = layer_notes(read_config(models.GEMMA3_4B), 131_072, 32_768)
    assert [note.layers.split()[0] for note in notes] == ["5", "29"]
    assert notes[0].sentence == (
        "RoPE linear: its scaling is made for 131,072 tokens; before it, the model was trained on 32,768."
    )
    assert "A query sees 1,024 tokens at most" in notes[1].sentence
    nope = layer_notes(read_config(models.SMOLLM3), 131_072, 65_536)
    assert any("No position is put in" in note.sentence for note in nope)
    assert planned(models.SMOLLM3, 131_072, methods=["yarn"]).trained is not None


def test_a_learned_table_has_no_row_past_its_end() -> None:
    found = planned(models.GPT2, 2_048)
    assert found.methods == ()
    assert "none for positions 1,024 to 2,047" in verdict(found)
    (note,) = layer_notes(found.model, 2_048, 1_024)
    assert not note.works


def test_alibi_needs_no_scaling_and_forgets() -> None:
    found = planned(models.BLOOM, 8_192)
    assert found.methods == ()
    # 112 heads: the smallest slope is 2^-8 of the power of two below, or less in the second row
    smallest = min(
        [2 ** (-8 * h / 64) for h in range(1, 65)] + [2 ** (-8 * h / 128) for h in range(1, 97, 2)]
    )
    farthest = math.ceil(math.log(100) / smallest)
    assert "ALiBi needs no scaling" in verdict(found)
    assert f"{farthest:,} tokens back" in verdict(found)


def test_what_no_scheme_stands_for_is_said() -> None:
    odd = {"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 16}}
    assert "not among this version's schemes" in verdict(planned(odd, 4_096))


def test_distances_past_the_last_bucket_of_t5_are_one() -> None:
    # 32 buckets, 16 of them exact: bucket 31 begins where 16 (128/16)^(15/16) is passed, at 113.
    first = next(x for x in range(16, 129) if math.log(x / 16) / math.log(8) * 16 >= 15)
    assert first == 113
    found = planned(models.T5, 4_096)
    assert found.methods == ()
    assert f"distances from {first} on share the last one" in verdict(found)
    assert "no two distances that occur lie in the last one" in verdict(planned(models.T5, 114))
    assert "share the last one" in verdict(planned(models.T5, 115))
    decoder, encoder = layer_notes(found.model, 4_096, None)
    # Both ways there are 16 buckets a side, 8 of them exact: the last begins at 8 (128/8)^(7/8).
    both = next(x for x in range(8, 129) if math.log(x / 8) / math.log(16) * 8 >= 7)
    assert f"from {both} on" in encoder.sentence
    assert decoder.works
    assert encoder.works


def test_the_trained_length_is_taken_for_granted_in_so_many_words() -> None:
    assert planned(models.LLAMA3_8B, 16_384).assumed[0].startswith("The config does not say")
    assert planned(models.LLAMA3_8B, 16_384, trained_length=8_192).assumed == ()
    assert planned(models.LLAMA31_8B, 16_384).assumed == ()
    scaled = planned(models.GEMMA3_4B, 131_072, methods=["none"])
    assert scaled.trained_length == 131_072 // 8
    assert "over that, 16,384, is taken" in scaled.assumed[0]


@pytest.mark.parametrize("context", [0, -1, 2**24 + 1, True])
def test_a_target_out_of_range_is_refused(context: Any) -> None:
    with pytest.raises(SchemeArgumentError, match="context must be a whole number"):
        planned(models.LLAMA3_8B, context)


def test_a_method_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(SchemeArgumentError, match=r"methods must be of none, linear.*'magic'"):
        planned(models.LLAMA3_8B, 16_384, methods=["magic"])


@pytest.mark.parametrize("target", [1, 2, 3, 5])
def test_the_smallest_targets_can_be_planned(target: int) -> None:
    config = models.LLAMA3_8B | {"max_position_embeddings": 2}
    found = plan(read_config(config), target)
    assert verdict(found)
    assert cautions(found) is not None
