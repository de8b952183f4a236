"""What a plan says of using a method: sources' tested ranges, measured runs, makers' words, windows."""

import dataclasses
import io
import json
import math
import re
import statistics
import sys
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from posenc import __main__ as command
from posenc.commands import planning
from posenc.interop import read_config
from posenc.interop.sources import RESULTS
from posenc.model_evidence import EVIDENCE, evidence_of
from posenc.planner import (
    METHODS,
    RANKING,
    ContextPlan,
    MethodPlan,
    cautions,
    emit,
    layer_notes,
    plan,
    verdict,
)
from posenc.planner import measured as measuring
from posenc.planner.cache import windows_said
from posenc.planner.measured import MeasuredRatio, measured_at
from posenc.planner.methods import UNSCALED
from posenc.planner.readiness import MEASURED_LIMIT, Readiness, readiness
from posenc.planner.verdict import bound_said, suggested
from posenc.presets import MODELS
from posenc.schemes.known_rope import Evidence
from tests import models
from tests.pages import as_read, captions, drawn, visit
from tests.published_models.establish import published

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PHI3_MINI_4K: dict[str, Any] = {
    "model_type": "phi3", "hidden_size": 3_072, "num_attention_heads": 32, "num_key_value_heads": 32,
    "num_hidden_layers": 32, "max_position_embeddings": 4_096, "rope_theta": 10_000.0,
    "original_max_position_embeddings": 4_096, "rope_scaling": None, "sliding_window": 2_047,
}  # fmt: skip


def planned(name: str, target: int, **others: Any) -> ContextPlan:
    """A plan of a preset, with what its makers told of its training."""
    preset = MODELS[name]
    told = {"name": preset.label, "trained_length": preset.trained_length}
    return plan(
        preset.read(scaled=False), target, **told | {"search_base": False, "scan": 64} | others
    )


def method(found: ContextPlan, name: str) -> MethodPlan:
    return next(one for one in found.methods if one.method.name == name)


# What was measured --------------------------------------------------------------------------------


def ratios_by_hand(variant: str, train_length: int, factor: int) -> list[float]:
    """Perplexity at a multiple of the training length over that at it, one for each shipped model."""
    found = []
    for path in RESULTS.glob("*.parquet"):
        table = pq.read_table(io.BytesIO(path.read_bytes()))
        spec = json.loads(table.schema.metadata[b"posenc"])["specification"]
        if (spec["task"], spec["scheme"]["kind"], spec["train_length"]) != (
            "language", "rope", train_length,
        ):  # fmt: skip
            continue
        loss = {
            (row["variant"], row["x"]): row["value"]
            for row in table.to_pylist()
            if row["measure"] == "context"
        }
        own = loss["as trained", train_length]
        found.append(math.exp(loss[variant, factor * train_length]) / math.exp(own))
    return found


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("rope", "as trained"), ("rope_linear", "position interpolation"), ("rope_ntk", "NTK-aware")],
)
@pytest.mark.parametrize("factor", [2, 16])
def test_measured_ratios_are_those_of_the_shipped_files(
    kind: str, variant: str, factor: int
) -> None:
    found = measured_at(kind, factor)
    assert [one.train_length for one in found] == [64, 128]
    for one in found:
        by_hand = ratios_by_hand(variant, one.train_length, factor)
        assert one.seeds == len(by_hand) == 3
        assert one.mean == pytest.approx(statistics.geometric_mean(by_hand), rel=1e-12)
        assert [one.low, one.high] == pytest.approx([min(by_hand), max(by_hand)], rel=1e-12)


def test_a_factor_that_was_not_measured_takes_the_next_or_the_largest() -> None:
    assert {one.factor for one in measured_at("rope_ntk", 3)} == {4}
    assert {one.factor for one in measured_at("rope_ntk", 64)} == {16}
    assert measured_at("rope_yarn", 2) == ()


def test_a_plan_quotes_the_runs_with_their_conditions() -> None:
    found = planned("llama-3-8b", 16_384)
    said = " ".join(text for text, _ in method(found, "ntk").statements)
    assert (
        "at x2, the perplexity is 1.35 times (geometric mean of 3 seeds, 1.2 to 1.47, trained on 64 bytes)"
        in said
    )
    assert "and 1.46 times (geometric mean of 3 seeds, 1.4 to 1.5, trained on 128 bytes)" in said
    assert (
        "Measured here on small models trained on 64 and 128 bytes, at x2: NTK-aware raised their "
        "perplexity 1.35 and 1.46 times."
    ) in verdict(found)
    assert (
        "at x16: NTK-aware raised their perplexity 8.05 and 6.85 times, less than position interpolation "
        "and no scaling."
    ) in verdict(planned("llama-3-8b", 131_072))
    between = verdict(planned("llama-3-8b", 9 * 8_192))
    assert "at x16, the next factor that was measured: NTK-aware raised" in between
    longest = planned("llama-3-8b", 524_288)
    said = " ".join(text for text, _ in method(longest, "dynamic").statements)
    assert "read with NTK-aware scaling, which has the same frequencies at this length" in said
    assert "at x16, the largest factor that was measured, the perplexity is 8.05 times" in said


def test_a_base_that_no_model_was_read_with_has_no_measured_number() -> None:
    found = planned("llama-3-8b", 32_768, search_base=True)
    assert method(found, "base").measured == ()
    assert method(found, "none").measured == measured_at("rope", 4)


def test_without_the_lab_s_packages_a_plan_has_no_measured_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "posenc.lab.runs", None)
    measuring.measured_ratios.cache_clear()
    try:
        found = planned("llama-3-8b", 16_384)
        assert {one.measured for one in found.methods} == {()}
        assert "small models" not in verdict(found)
    finally:
        measuring.measured_ratios.cache_clear()


# Classes and their order --------------------------------------------------------------------------

TUNED_16, TUNED_32 = "needs fine-tuning (done to x16)", "needs fine-tuning (done to x32)"
BASE_512 = "needs fine-tuning (done to x512)"
FAILS = "fails past the trained length"


def silent(factor: int) -> str:
    return f"not reported to work at x{factor}"


TABLE: list[tuple[str, int, dict[str, str]]] = [
    ("llama-3-8b", 16_384, {
        "llama3": TUNED_16, "linear": TUNED_16, "yarn": TUNED_32, "yarn_paper": silent(2),
        "dynamic": "tested to x2 without training", "ntk": "tested to x2 without training",
        "none": FAILS}),
    ("llama-3-8b", 32_768, {
        "llama3": TUNED_16, "linear": TUNED_16, "yarn": TUNED_32, "yarn_paper": silent(4),
        "base": BASE_512, "dynamic": silent(4), "ntk": silent(4),
        "none": FAILS}),
    ("llama-3-8b", 131_072, {
        "llama3": TUNED_16, "linear": TUNED_16, "yarn": TUNED_32, "yarn_paper": silent(16),
        "base": BASE_512,
        "dynamic": silent(16), "ntk": silent(16), "none": FAILS}),
    ("llama-3-8b", 524_288, {
        "llama3": silent(64), "linear": silent(64), "yarn": silent(64), "yarn_paper": silent(64),
        "dynamic": silent(64), "ntk": silent(64), "none": FAILS}),
    ("qwen2.5-7b", 131_072, {
        "yarn": "recommended for such models", "llama3": TUNED_16, "linear": TUNED_16,
        "yarn_paper": silent(4), "base": BASE_512, "dynamic": silent(4),
        "ntk": silent(4), "none": FAILS}),
    ("mistral-7b-v0.1", 16_384, {"none": "no new distance, untrained length"}),
    ("mistral-7b-v0.1", 65_536, {"none": "no new distance, untrained length"}),
    ("mistral-7b-v0.1", 8_192, {"none": "made for it"}),
    ("gemma-2-9b", 32_768, {
        "llama3": TUNED_16, "linear": TUNED_16, "yarn": TUNED_32,
        "base": BASE_512, "yarn_paper": silent(4), "dynamic": silent(4),
        "ntk": silent(4), "none": FAILS}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "target", "classes"), TABLE)
def test_every_method_has_the_class_that_its_sources_and_the_runs_give_it(
    name: str, target: int, classes: dict[str, str]
) -> None:
    found = planned(name, target, search_base="base" in classes)
    assert {one.method.name: one.usable for one in found.methods} == classes
    assert [one.method.name for one in found.methods] == [*classes]  # in this order, too


RECOMMENDATIONS = {
    (
        "llama-3-8b",
        16_384,
    ): "is x2. Plan to fine-tune with Llama 3 scaling, position interpolation or YaRN",
    (
        "llama-3-8b",
        131_072,
    ): "No source reports that a method compared here keeps its perplexity at x16 without training",
    ("llama-3-8b", 524_288): "is x64. Plan to train and to measure. No source reports",
    ("qwen2.5-7b", 131_072): "is x4. For Qwen2.5-Instruct of 7B and larger, use YaRN by 4 without "
    "training, as their makers recommend for long texts",
    ("qwen3-8b", 65_536): "is x2. For Qwen3 of 4B and larger, use YaRN by 2 without training",
    ("llama-3.1-8b", 131_072): "is made for: use it as it is.",
    ("gemma-2-9b", 32_768): "is x4. Plan to fine-tune with Llama 3 scaling, ",
    ("gpt-oss-20b", 262_144): "Plan to train and to measure, first with YaRN at a larger factor.",
}


@pytest.mark.parametrize(("name", "target"), RECOMMENDATIONS)
def test_the_verdict_begins_with_what_to_do(name: str, target: int) -> None:
    assert RECOMMENDATIONS[name, target] in verdict(planned(name, target))


@pytest.mark.parametrize("name", [name for name, one in MODELS.items() if one.config])
@pytest.mark.parametrize("target", [9_000, 40_000, 262_144])
def test_no_method_that_meets_unseen_angles_ranks_above_one_that_does_not(
    name: str, target: int
) -> None:
    found = planned(name, target)
    known = (Readiness.MADE, Readiness.RECOMMENDED)
    unseen = [bool(one.pairs.unseen.any()) for one in found.methods
              if one.readiness not in known and one.method.name != UNSCALED.name]  # fmt: skip
    assert unseen == sorted(unseen)
    if found.longer and found.methods:
        assert found.methods[-1].readiness is Readiness.FAILS


RATIO = MeasuredRatio(
    kind="x", train_length=64, factor=2.0, seeds=3, mean=MEASURED_LIMIT - 0.01, low=1.0, high=9.0
)
TESTED = Evidence(
    training="fine-tuning", statement="S.", source="s", untrained_to=4.0, trained_to=8.0
)


@pytest.mark.parametrize(
    ("factor", "mean", "expected"),
    [
        (4.0, None, Readiness.UNTRAINED),
        (4.0, 1.99, Readiness.UNTRAINED),
        (4.0, 2.0, Readiness.TRAINED),  # the runs refute the report
        (4.01, None, Readiness.TRAINED),
        (8.0, 1.0, Readiness.TRAINED),
        (8.01, 1.0, Readiness.UNREPORTED),
    ],
)
def test_a_report_counts_to_its_factor_unless_the_runs_break(
    factor: float, mean: float | None, expected: Readiness
) -> None:
    measured = [] if mean is None else [RATIO, dataclasses.replace(RATIO, mean=mean)]
    assert readiness(TESTED, factor, recommended=False, measured=measured) is expected
    assert readiness(TESTED, 64.0, recommended=True, measured=measured) is Readiness.RECOMMENDED


def test_every_factor_of_a_source_stands_in_its_statement() -> None:
    for one in METHODS.values():
        for factor in (one.evidence.untrained_to, one.evidence.trained_to):
            assert not factor or f"x{factor:g}" in one.evidence.statement, one.name


def test_the_rule_of_the_ranking_is_printed_on_page_and_command_line() -> None:
    at = drawn(visit("context_planner", {"context": "16384", "methods": "none,ntk"}))
    assert any(RANKING in as_read(said) for said in captions(at))
    words = ["plan", "-", "--context", "16384", "--methods", "none,ntk"]
    result = CliRunner().invoke(command.main, words, input=json.dumps(models.LLAMA3_8B))
    assert RANKING in result.output
    assert f"under {MEASURED_LIMIT:g} times their perplexity" in RANKING


# Makers -------------------------------------------------------------------------------------------


def test_makers_words_are_of_their_models_alone() -> None:
    config = dict(MODELS["qwen2.5-7b"].config or {})
    del config["rope_scaling"]
    known = evidence_of(read_config(config))
    assert known is not None
    assert "Qwen2.5" in known.statement
    for other in (
        config
        | {"hidden_size": 2_048, "num_attention_heads": 16},  # of 3B, whose card has no such advice
        config | {"rope_theta": 1e7},
        config | {"model_type": "llama"},
    ):
        assert evidence_of(read_config(other)) is None
    assert evidence_of(read_config(models.LLAMA3_8B)) is None
    for one in EVIDENCE:
        assert one.is_of(MODELS[one.of].read(scaled=False))
        assert one.preset.trained_length
        assert one.statement.endswith(".")


def test_a_config_of_qwen_is_planned_from_what_its_makers_trained_on() -> None:
    config = dict(MODELS["qwen3-8b"].config or {})
    del config["rope_scaling"]
    found = plan(read_config(config), 131_072, search_base=False, scan=64)  # its context is 40,960
    assert found.trained_length == 32_768
    (said,) = found.assumed
    assert "32,768 tokens are taken, as those of Qwen3 of 4B and larger had" in said
    assert found.methods[0].method.name == "yarn"
    assert "QwenLM/Qwen3" in found.methods[0].statements[-1][1]


def test_makers_advice_ends_where_theirs_does() -> None:
    farther = planned("qwen2.5-7b", 262_144)
    assert method(farther, "yarn").readiness is Readiness.TRAINED
    half = planned("qwen2.5-7b", 65_536)  # their card says 4, Qwen3's 4 or less
    assert method(half, "yarn").advice is None
    other = planned("qwen2.5-7b", 131_072, trained_length=65_536)
    assert method(other, "yarn").advice is None
    scaled = plan(MODELS["qwen2.5-7b"].read(), 131_072, search_base=False, scan=64)
    assert scaled.methods[0].method.name == "configured"
    assert scaled.methods[0].readiness is Readiness.RECOMMENDED


# A scaling of its own ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "own", "first", "past"),
    [("llama-3.1-8b", 131_072, 8_192, "x2"), ("gpt-oss-20b", 131_072, 4_096, "x2")],
)
def test_a_model_with_a_scaling_of_its_own_is_planned_past_that(
    name: str, own: int, first: int, past: str
) -> None:
    found = plan(MODELS[name].read(), 262_144, search_base=False, scan=64)
    said = verdict(found)
    assert (
        f"reads {own:,} tokens with its own scaling; 262,144 is {past} past that: measure it as"
        in said
    )
    assert f"below start from the {first:,} tokens before its scaling, x{262_144 // first}." in said
    beware = [one.sentence for one in cautions(found)]
    # A pair of its own ladder that does not close a turn within its context turns farther past it.
    configured = method(found, "configured")
    slow = sum(2 * math.pi / theta > own for theta in configured.pairs.after)
    assert int(configured.pairs.unseen.sum()) == slow
    of = len(configured.pairs.after)
    shown = f"As configured: {slow} pairs of {of} turn farther than texts of {own:,} tokens show."
    assert shown in beware
    notes = layer_notes(found.model, found.target, found.trained_length)
    assert f"its scaling is made for {own:,} tokens; before it" in notes[0].sentence
    assert notes[0].sentence.endswith("262,144 tokens are past its scaling, too.")
    assert not any("never trained" in note.sentence for note in notes)


def test_a_scaling_of_the_model_s_own_kind_keeps_its_form() -> None:
    model = MODELS["gpt-oss-20b"].read()
    found = plan(model, 262_144, search_base=False, scan=64)
    yarn = method(found, "yarn").config
    assert yarn == model.main.scheme.replace(factor=64.0)
    assert (
        emit(found, method(found, "yarn")).rope_parameters["rope_parameters"]["truncate"] is False
    )
    # As configured is how the weights are read now, so it changes nothing within the trained length.
    assert method(found, "configured").short.worst == 0
    assert method(found, "none").short.worst > 0


@pytest.mark.parametrize(("name", "target"), [("phi-2", 32_768), ("gemma-2-9b", 131_072)])
def test_the_base_that_is_printed_satisfies_the_bound(name: str, target: int) -> None:
    found = plan(MODELS[name].read(scaled=False), target)
    (printed,) = re.findall(r"; base ([\d,]+) satisfies it", bound_said(found))
    assert found.trained is not None
    pair = np.arange(found.trained.rotary_dim // 2)
    theta = int(printed.replace(",", "")) ** (-2 * pair / found.trained.rotary_dim)
    lowest = min(
        float(np.cos(np.outer(np.arange(start, start + 4_096), theta)).sum(1).min())
        for start in range(0, target, 4_096)
    )
    assert lowest >= -1e-6  # what float64 leaves of angles of up to 262,144


def test_what_is_tested_without_training_and_sees_no_new_angle_comes_first() -> None:
    config = models.LLAMA3_8B | {"rope_theta": 10_000.0, "max_position_embeddings": 131_072}
    found = plan(read_config(config), 262_144, search_base=False, scan=64)
    assert found.methods[0].readiness is Readiness.UNTRAINED
    said = verdict(found)
    assert "is x2. Without training, dynamic NTK and NTK-aware are reported to work to x2." in said
    assert "0 pairs" not in said
    assert said.endswith("Measure that first.")


def test_within_its_own_scaling_no_pair_is_unseen() -> None:
    found = plan(MODELS["llama-3.1-8b"].read(), 131_072, search_base=False, scan=64)
    assert found.methods[0].method.name == "configured"
    assert not found.methods[0].pairs.unseen.any()


@pytest.mark.parametrize("name", ["gpt-oss-20b", "llama-3.1-8b"])
def test_the_next_step_is_the_script_of_what_the_verdict_begins_with(name: str) -> None:
    found = plan(MODELS[name].read(), 262_144, search_base=False, scan=64)
    first = suggested(found)
    assert first is not None
    assert first.method.name == "yarn"
    assert "with YaRN" in verdict(found)
    assert "--script yarn added" in planning._next_step(found)
    emitted = emit(found, method(found, "configured"))
    assert any("a GGUF file of this model holds this scaling" in one for one in emitted.why)
    assert emitted.llama_cpp == "llama-server -m MODEL -c 262144"


def test_a_server_that_keeps_what_is_past_a_window_needs_more() -> None:
    found = planned("mistral-7b-v0.1", 65_536)
    # 32 layers of 8 key/value heads of width 128, keys and values, 2 bytes.
    whole = 32 * 2 * 8 * 128 * 65_536 * 2 / 2**30
    assert found.cache["bfloat16"] == whole * 4_096 / 65_536 == 0.5
    assert f"needs {whole:g} GiB in bfloat16" in windows_said(found.model, found.target)
    assert windows_said(planned("llama-3-8b", 65_536).model, 65_536) == ""
    at = drawn(visit("context_planner", {"model": "mistral-7b-v0.1", "context": "65536"}))
    assert any("needs 8 GiB in bfloat16" in as_read(said) for said in captions(at))


def test_a_config_read_as_a_type_is_given_the_block_of_that_type() -> None:
    config = dict(published()["olmo-3-7b"]["config"])
    blocks = []
    for other in (config, config | {"model_type": "olmo9"}):
        found = plan(read_config(other, "olmo3"), 262_144, search_base=False, scan=64)
        emitted = emit(found, method(found, "yarn"))
        blocks.append((emitted.rope_parameters, emitted.where))
    assert blocks[0] == blocks[1]
    assert blocks[0][0]["rope_parameters"]


# Windows ------------------------------------------------------------------------------------------


def test_a_window_makes_no_model_ready_for_a_length_it_was_not_trained_on() -> None:
    found = plan(read_config(PHI3_MINI_4K), 32_768, name="Phi-3-mini-4k")
    assert verdict(found) == (
        "Phi-3-mini-4k at 32,768 tokens, trained on 4,096: no distance is new, because its layers see "
        "2,047 tokens at most, but no training or test on texts of this length is known here. Text beyond "
        "a window reaches a token through the layers only, from at most 65,504 tokens back (2,047 x 32): "
        "measure first."
    )
    assert 2_047 * 32 == 65_504
    (one,) = found.methods
    assert one.usable == "no new distance, untrained length"
    within = plan(read_config(PHI3_MINI_4K), 4_096, name="Phi-3-mini-4k")
    assert verdict(within) == "Phi-3-mini-4k was trained on 4,096 tokens: 4,096 need no scaling."
    assert within.methods[0].usable == "made for it"


def test_a_published_test_of_a_model_stands_in_its_verdict() -> None:
    said = verdict(planned("mistral-7b-v0.1", 65_536))
    assert "as released it is not known to be trained on texts of this length" in said
    assert "36.8 at 16,384 and more than 1,000 at 65,536" in said
    assert "A copy trained further with YaRN for 1,500 steps had 2.19 at 131,072" in said
    assert "table 6" in said
    assert "from at most 131,072 tokens back (4,096 x 32)" in said


def test_text_beyond_a_window_may_be_read_by_other_layers() -> None:
    sliding = models.SMOLLM3 | {
        "use_sliding_window": True, "sliding_window": 1_024, "max_position_embeddings": 4_096,
    }  # fmt: skip
    model = read_config(sliding)
    kinds = tuple(
        dataclasses.replace(
            kind, window=None if kind.scheme is None or not kind.rotary_dim else 1_024
        )
        for kind in model.layer_kinds
    )
    found = plan(dataclasses.replace(model, layer_kinds=kinds), 65_536, search_base=False)
    open_layers = sum(len(kind.layers) for kind in kinds if kind.window is None)
    assert 0 < open_layers < 36
    assert f"is read by the {open_layers} other layers alone" in verdict(found)
    assert "through the layers only" not in verdict(found)


# Blocks that touch sliding layers -----------------------------------------------------------------


@pytest.mark.parametrize(("layers", "sliding"), [(42, 21), (26, 13)])
def test_gemma_2_s_block_names_the_sliding_layers_that_it_rescales(
    layers: int, sliding: int
) -> None:
    config = dict(MODELS["gemma-2-9b"].config or {}) | {"num_hidden_layers": layers}
    found = plan(read_config(config), 32_768, search_base=False, scan=64)
    said = emit(found, method(found, "yarn")).where
    assert (
        f"The block also rescales {sliding} sliding_attention layers to which no distance is new"
        in said
    )
    assert f"The config block below also rescales {sliding} sliding_attention layers" in verdict(
        found
    )
    assert "Gemma2Config has one RoPE for all layers" in said
    assert "also rescales" not in emit(found, method(found, "none")).where
    result = CliRunner().invoke(
        command.main,
        ["plan", "-", "--context", "16384", "--methods", "yarn"],
        input=json.dumps(config),
    )
    assert f"also rescales {sliding} sliding_attention layers" in result.output
