"""A plan advises what sources tested, makers recommend and small models measured here bear out."""

import csv
import dataclasses
import io
import json
import math
import statistics
from functools import cache
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from posenc.checkpoints.sources import RESULTS
from posenc.models import read_config
from posenc.models.presets import MODELS
from posenc.planner import (
    at_inference,
    layer_notes,
    left_out_sentences,
    paste,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.evidence import (
    FINE_TUNED,
    MEASURED,
    MODEL_EVIDENCE,
    Evidence,
    MeasuredRatio,
    Report,
    evidence_of,
    fine_tuned_at,
    measured_at,
)
from posenc.planner.ranking import MEASURED_LIMIT, Readiness, readiness
from posenc.planner.recommendation import suggested
from posenc.planner.tables import EXPLAINED
from posenc.schemes.base import NoneConfig
from tests.longer import mostly
from tests.models.configs import (
    LLAMA,
    YARN_BLOCK,
    Config,
    method,
    plan_config,
    plan_preset,
    preset_config,
    published_config,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@cache
def shipped_losses() -> list[dict[tuple[str, int], float]]:
    """Loss by variant and tokens of each RoPE model of the protocol's table on code, from its file."""
    table = csv.DictReader(io.StringIO((RESULTS / "protocol.csv").read_text()))
    losses = []
    for row in table:
        if (row["part"], row["stage"], row["scheme"]) == ("code", "table", "rope"):
            rows = pq.read_table(RESULTS / f"{row['run_id']}.parquet").to_pylist()
            own = [each for each in rows if each["measure"] == "context"]
            losses.append({(each["variant"], each["x"]): each["value"] for each in own})
    return losses


def ratios_by_hand(variant: str, factor: float) -> list[float]:
    """Perplexity at a multiple of 64 tokens over that at 64, one for each shipped model."""
    return [
        math.exp(loss[variant, round(factor * 64)]) / math.exp(loss["as trained", 64])
        for loss in shipped_losses()
    ]


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("rope", "as trained"), ("rope_linear", "position interpolation"), ("rope_ntk", "NTK-aware")],
)
def test_measured_ratios_are_those_of_the_shipped_files(kind: str, variant: str) -> None:
    ratios = [one for one in MEASURED if one.kind == kind]
    lengths = [(one.train_length, one.factor) for one in ratios]
    assert lengths == [(64, factor) for factor in (1.5, 2, 4, 8, 16)]
    for one in ratios:
        by_hand = ratios_by_hand(variant, one.factor)
        assert one.seeds == len(by_hand) == 5
        assert one.mean == pytest.approx(statistics.geometric_mean(by_hand), rel=1e-12)
        assert [one.low, one.high] == pytest.approx([min(by_hand), max(by_hand)], rel=1e-12)


@cache
def fine_tuned_losses() -> dict[tuple[str, int, int], dict[int, float]]:
    """Loss by tokens of each fine-tuned model that ships: by scaling, length of fine-tuning and seed."""
    table = csv.DictReader(io.StringIO((RESULTS / "protocol.csv").read_text()))
    losses = {}
    for row in table:
        if row["part"] not in ("fine_tuned", "tuned_rope"):
            continue
        content = pq.read_table(io.BytesIO((RESULTS / f"{row['run_id']}.parquet").read_bytes()))
        spec = json.loads(content.schema.metadata[b"posenc"])["specification"]
        factor = spec["fine_tuning"]["length"] / spec["train_length"]
        assert spec["scheme"].get("factor", factor) == factor
        assert spec["fine_tuning"]["steps"] == spec["steps"] / 10
        key = row["scheme"], spec["fine_tuning"]["length"], int(row["seed"])
        measured = ("context", "as trained")
        scores = [
            one for one in content.to_pylist() if (one["measure"], one["variant"]) == measured
        ]
        losses[key] = {one["x"]: one["value"] for one in scores}
    return losses


def test_fine_tuned_ratios_are_those_of_the_shipped_files() -> None:
    """Perplexities over that of RoPE of the same trial at its training length, from the table of code."""
    rows = csv.DictReader(io.StringIO((RESULTS / "protocol.csv").read_text()))
    before = {
        int(row["seed"]): float(row["loss"])  # at the training length
        for row in rows
        if (row["part"], row["stage"], row["scheme"]) == ("code", "table", "rope")
    }
    kinds = ("rope_linear", "rope_ntk", "rope_yarn", "rope_llama3")
    assert [(one.kind, one.factor) for one in FINE_TUNED] == [*product(kinds, (4, 16))]
    for one in FINE_TUNED:
        length = round(one.factor * one.train_length)
        assert (one.train_length, one.steps) == (64, 0.1)
        own = {seed: fine_tuned_losses()[one.kind, length, seed] for seed in before}
        assert one.seeds == len(own) == 5
        for x, stated in (
            (length, (one.mean, one.low, one.high)),
            (64, (one.short_mean, one.short_low, one.short_high)),
        ):
            ratios = [math.exp(loss[x] - before[seed]) for seed, loss in own.items()]
            by_hand = [statistics.geometric_mean(ratios), min(ratios), max(ratios)]
            assert [*stated] == pytest.approx(by_hand, rel=1e-12), one.kind
        without = [
            math.exp(fine_tuned_losses()["rope", length, seed][length] - loss)
            for seed, loss in before.items()
        ]
        assert one.unscaled == pytest.approx(statistics.geometric_mean(without), rel=1e-12)


def test_a_plan_quotes_what_fine_tuning_gave_at_its_factor_or_the_next() -> None:
    by_factor = {one.factor: one for one in FINE_TUNED if one.kind == "rope_yarn"}
    for factor, measured, words in (
        (3, 4, "x4, the next"),
        (16, 16, "x16, the p"),
        (64, 16, "x16, the l"),
    ):
        assert fine_tuned_at("rope_yarn", factor) == by_factor[measured]
        found = method(plan_preset("llama-3-8b", factor * 8_192), "yarn")
        assert found.fine_tuned == by_factor[measured]
        said = " ".join(text for text, _ in found.statements)
        assert f"at {words}" in said
        assert f"perplexity is {by_factor[measured].mean:.2f} times (5 seeds" in said
        assert (
            f"and {by_factor[measured].unscaled:.2f} times where these steps had no scaling" in said
        )
    for name in ("none", "dynamic"):  # which nobody fine-tuned here
        assert method(plan_preset("llama-3-8b", 16 * 8_192), name).fine_tuned is None


def measured_by_mean(factor: float) -> list[MeasuredRatio]:
    """The measured ratios of all scalings at a factor, the lowest mean first."""
    found = [
        one for kind in ("rope", "rope_linear", "rope_ntk") for one in measured_at(kind, factor)
    ]
    return sorted(found, key=lambda one: one.mean)


def test_a_plan_quotes_what_was_measured_at_its_factor_or_the_next() -> None:
    assert {one.factor for one in measured_at("rope_ntk", 3)} == {4}
    assert {one.factor for one in measured_at("rope_ntk", 64)} == {16}
    assert measured_at("rope_yarn", 2) == ()
    found = plan_preset("llama-3-8b", 16_384)
    assert method(found, "none").measured == measured_at("rope", 2)
    statements = " ".join(text for text, _ in method(found, "ntk").statements)
    for one in measured_at("rope_ntk", 2):
        assert f"{one.mean:.3g} times" in statements
        assert f"{one.low:.3g} to {one.high:.3g}" in statements
        assert f"{one.mean:.3g}" in recommendation(found)
    means = [f"{one.mean:.3g}" for one in measured_at("rope_ntk", 16)]
    for factor in (9, 16):  # at 9, what was measured at 16
        said = recommendation(plan_preset("llama-3-8b", factor * 8_192))
        assert "x16" in said
        assert all(mean in said for mean in means)
    shown = [said.index(f"{one.low:.3g} to {one.high:.3g}") for one in measured_by_mean(16)]
    assert shown == sorted(shown)  # the least first, each with its range
    # Dynamic NTK has the frequencies of NTK-aware scaling at this length.
    longest = method(plan_preset("llama-3-8b", 524_288), "dynamic")
    assert means[0] in " ".join(text for text, _ in longest.statements)


# For a model and a target: the class of each method by its name, in the order of the ranking.
CASES = json.loads(Path(__file__).with_name("plan_cases.json").read_text())


@pytest.mark.parametrize(("name", "target", "classes"), CASES["classes"])
def test_methods_have_the_class_and_order_of_their_sources(
    name: str, target: int, classes: dict[str, str]
) -> None:
    found = plan_preset(name, target, search_base="base" in classes)
    assert [(one.method.name, one.readiness_text) for one in found.methods] == [*classes.items()]


# Of Mistral 7B its makers' paper says: trained on 8,192. 36.8 and more at longer texts are of the tests of
# YaRN's authors.
@pytest.mark.parametrize(
    ("name", "target", "facts"), CASES["verdicts"], ids=lambda value: str(value)[:20]
)
def test_a_verdict_holds_the_facts_of_its_plan(name: str, target: int, facts: list[str]) -> None:
    said = recommendation(plan_preset(name, target))
    assert [fact for fact in facts if fact not in said] == []


@pytest.mark.parametrize(
    ("factor", "mean", "expected"),
    [
        (4.0, None, Readiness.UNTRAINED), (4.0, 1.99, Readiness.UNTRAINED),
        (4.0, 2.0, Readiness.TRAINED),  # the runs refute the report
        (4.01, None, Readiness.TRAINED), (8.0, 1.0, Readiness.TRAINED),
        (8.01, 1.0, Readiness.UNREPORTED),
    ],
)  # fmt: skip
def test_a_report_counts_to_its_factor_unless_runs_refute_it(
    factor: float, mean: float | None, expected: Readiness
) -> None:
    tested = Evidence(
        training="fine-tuning",
        statement="S.",
        source="s",
        reports=(
            Report(factor=4.0, training="none", source="s"),
            Report(factor=8.0, training="light", source="s"),
        ),
    )
    (one,) = measured_at("rope_ntk", 2)
    means = [] if mean is None else [MEASURED_LIMIT - 0.01, mean]
    measured = [dataclasses.replace(one, mean=value) for value in means]
    assert readiness(tested, factor, recommended=False, measured=measured) is expected
    assert readiness(tested, 64.0, recommended=True, measured=measured) is Readiness.RECOMMENDED


def test_what_is_tested_without_training_and_sees_no_new_angle_comes_first() -> None:
    config = LLAMA | {"rope_theta": 1e4, "max_position_embeddings": 131_072}
    found = plan_config(config, 262_144, scan=64)
    assert found.methods[0].readiness is Readiness.UNTRAINED
    assert "Without training, YaRN is reported to work to x2" in recommendation(found)
    assert "comparisons of YaRN with dynamic NTK disagree" in recommendation(found)
    assert "x2" in recommendation(found)


def test_what_makers_say_is_of_their_models_alone() -> None:
    config = preset_config("qwen2.5-7b")
    del config["rope_scaling"]
    known = evidence_of(read_config(config))
    assert known is not None
    assert "Qwen2.5" in known.statement
    small = {"hidden_size": 2_048, "num_attention_heads": 16}  # of 3B, whose card says nothing
    for other in (config | small, config | {"rope_theta": 1e7}, config | {"model_type": "llama"}):
        assert evidence_of(read_config(other)) is None
    for evidence in MODEL_EVIDENCE:
        assert evidence.is_of(evidence.preset.read(scaled=False))
        assert evidence.preset.trained_length


def test_advice_of_makers_ends_where_theirs_does() -> None:
    exact = method(plan_preset("qwen2.5-7b", 131_072), "yarn")
    assert exact.config == MODELS["qwen2.5-7b"].read().main.scheme
    assert exact.advice is not None
    assert exact.advice.source in [source for _, source in exact.statements]
    assert method(plan_preset("qwen2.5-7b", 262_144), "yarn").readiness is Readiness.TRAINED
    # The card of Qwen2.5 says 4, that of Qwen3 4 or less; what works to a length works to a shorter one.
    for length in (32_769, 65_536, 100_000, 131_071):
        same = method(plan_preset("qwen2.5-7b", length), "yarn")
        assert same.config == exact.config
        assert same.readiness is Readiness.RECOMMENDED
        less = method(plan_preset("qwen3-8b", length), "yarn")
        assert less.config == exact.config.replace(factor=length / 32_768)
        assert less.readiness is Readiness.RECOMMENDED
    other = plan_preset("qwen2.5-7b", 131_072, trained_length=65_536)
    assert method(other, "yarn").advice is None
    scaled = plan_config(preset_config("qwen2.5-7b"), 131_072, scan=64)
    assert scaled.methods[0].method.name == "configured"
    assert scaled.methods[0].readiness is Readiness.RECOMMENDED
    # Its own scaling is one row, unless another factor is planned.
    assert [one.config.kind for one in scaled.methods].count("rope_yarn") == 1
    assert "YaRN: the model is configured with YaRN by 4 already." in left_out_sentences(scaled)
    shorter = plan_config(preset_config("qwen3-8b"), 65_536, scan=64)
    assert method(shorter, "yarn").config.words == "YaRN by 2"


# Just past the training, in between, and the last.
CARDS = [*product(("qwen2.5-7b", "qwen3-8b"), (32_769, 65_536, 100_000, 131_072))]


@pytest.mark.parametrize(
    ("name", "length"), mostly(CARDS, ("qwen2.5-7b", 32_769), ("qwen3-8b", 131_072))
)
def test_a_config_with_the_scaling_of_its_card_works_to_the_length_of_the_card(
    name: str, length: int
) -> None:
    """Both names of a context are in use: 32,768 or 40,960 of training, and 131,072."""
    for context in (32_768, 40_960, 131_072):
        config = preset_config(name) | {"max_position_embeddings": context}
        found = plan_config(config, length, scan=64)
        assert found.own_length == 131_072
        assert method(found, "configured").readiness is Readiness.RECOMMENDED
        assert found.methods[0].readiness is Readiness.RECOMMENDED
        assert "without training, as their makers recommend" in recommendation(found)
        past = plan_config(config, 262_144, scan=64)
        assert "reads 131,072 tokens with its own scaling" in recommendation(past)


def test_a_scaling_past_the_context_of_a_config_is_not_known_to_be_trained() -> None:
    config = LLAMA | {"max_position_embeddings": 32_768, "rope_scaling": YARN_BLOCK}
    found = plan_config(config, 100_000, scan=64)
    assert found.methods[0].method.name == "configured"
    assert found.methods[0].readiness is Readiness.MADE
    assert "(YaRN by 4) is made for" in recommendation(found)
    assert "is not known" in recommendation(found)
    short = plan_config(config, 20_000, scan=64)
    assert [one.method.name for one in short.methods] == ["none", "configured"]
    assert "YaRN by 4) acts at this length, too" in recommendation(short)
    dynamic = LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    within = plan_config(dynamic, 4_096, scan=64)  # where nothing is scaled
    assert {one.readiness for one in within.methods} == {Readiness.OWN_SCALING}
    assert recommendation(within).endswith("need no scaling.")


@pytest.mark.parametrize(
    ("name", "length", "own"),
    [
        ("llama-3.1-8b", 8_192, 131_072),
        ("gpt-oss-20b", 4_096, 131_072),
        ("deepseek-v3", 4_096, 163_840),
    ],
)
def test_a_model_trained_with_its_scaling_is_read_with_it_at_every_length(
    name: str, length: int, own: int
) -> None:
    config = preset_config(name)
    scheme = read_config(config).main.scheme
    for target in (16, length, length + 1, own):
        for trained in (None, own):  # what a visitor knows may be the length after the scaling
            found = plan_config(config, target, trained_length=trained, scan=64)
            assert found.methods[0].config == scheme
            assert found.methods[0].readiness is Readiness.OWN_SCALING
            assert [one for one in found.methods if one.config == scheme] == [found.methods[0]]
            ready = [one for one in found.methods if one.readiness is Readiness.OWN_SCALING]
            assert ready == [found.methods[0]]
            said = recommendation(found)
            assert "as it is" in said
            assert "need no scaling" not in said
            assert (f"every length up to {own:,} tokens" in said) == (not found.longer)


MULTIPLIED: Config = {"rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    ("config", "numbers"),
    [
        (LLAMA | {"max_position_embeddings": 131_072}, ["If 131,072", "524,288", "32,768"]),
        (preset_config("qwen2.5-7b"), ["Qwen2.5", "131,072", "524,288", "32,768"]),
        (preset_config("qwen3-8b"), ["Qwen3", "40,960", "163,840", "32,768"]),
        (preset_config("qwen2.5-7b") | {"max_position_embeddings": 32_768}, []),  # no mistake
    ],
    ids=["unknown", "qwen2.5", "qwen3", "no mistake"],
)
def test_a_scaling_that_starts_from_a_scaled_context_is_named(
    config: Config, numbers: list[str]
) -> None:
    scaled = config | {"rope_scaling": MULTIPLIED}
    for target in (20_000, 131_072):
        found = plan_config(scaled, target, scan=64)
        said = [
            one.sentence for one in warnings_of(found)
            if "write original_max_position_embeddings" in one.sentence
        ]  # fmt: skip
        assert len(said) == bool(numbers)
        assert [number for number in numbers if number not in " ".join(said)] == []
        given = plan_config(config | {"rope_scaling": YARN_BLOCK}, target, scan=64)
        assert not any("write original" in one.sentence for one in warnings_of(given))


@pytest.mark.parametrize(("name", "start"), [("llama-3.1-8b", 8_192), ("gpt-oss-20b", 4_096)])
def test_a_scaled_model_is_judged_by_the_context_of_its_scaling(name: str, start: int) -> None:
    found = plan_config(preset_config(name), 262_144, scan=64)
    assert (found.trained_length, found.own_length) == (start, 131_072)
    configured = method(found, "configured")
    # A pair of its own that does not close a turn within its context turns farther past it.
    slow = sum(2 * math.pi / theta > 131_072 for theta in configured.pairs.after)
    assert int(configured.pairs.unseen.sum()) == slow
    (sentence,) = [
        one.sentence for one in warnings_of(found) if one.sentence.startswith("As config")
    ]
    assert f"{slow} of " in sentence
    assert "131,072" in sentence
    # As configured is how the weights are read now, so it changes nothing in short texts.
    assert configured.short.worst == 0
    assert method(found, "none").short.worst > 0
    first = suggested(found)
    assert first is not None
    assert first.method.name == "yarn"
    assert paste(found, configured).llama_cpp == "llama-server -m MODEL -c 262144"
    if name == "gpt-oss-20b":  # a larger scaling of the same kind keeps the form of the model
        assert first.config == found.model.main.scheme.replace(factor=64.0)  # type: ignore[union-attr]
        assert paste(found, first).rope_parameters["rope_parameters"]["truncate"] is False
    within = plan_config(preset_config(name), 131_072, scan=64)
    assert within.methods[0].method.name == "configured"
    assert not within.methods[0].pairs.unseen.any()
    assert "rescales" not in recommendation(within)  # what its layers were trained with


def test_unscaled_frequencies_fail_only_where_angles_are_unseen() -> None:
    longer = plan_config(published_config("gemma-4-e4b"), 200_000)
    (unscaled,) = longer.methods
    assert not unscaled.pairs.unseen.any()
    assert unscaled.readiness_text == f"not reported to work at x{200_000 / 131_072:.4g}"
    llama = method(plan_preset("llama-3-8b", 8_193), "none")
    assert llama.readiness_text == "fails past the trained length"
    assert "8,193 is x1.00012207" in recommendation(plan_preset("llama-3-8b", 8_193))


def test_factor_of_a_model_with_windows_counts_the_tokens_that_a_layer_sees() -> None:
    phi = plan_preset("phi-3-mini-128k", 300_000)
    assert (phi.own_length, phi.reach) == (131_072, 262_144)
    seen = f"x{262_144 // 131_072} past that in the 262,144 tokens that a layer sees: "
    assert f"300,000 is {seen}" in recommendation(phi)
    assert f"before its scaling, x{262_144 // 4_096} in those. " in recommendation(phi)
    assert "that a layer sees" not in recommendation(plan_preset("phi-3-mini-128k", 200_000))
    command = plan_preset("command-r7b", 300_000)
    whole = [kind for kind in command.model.layer_kinds if kind.window is None]
    assert [type(kind.scheme) for kind in whole] == [NoneConfig]
    sentence = recommendation(command)
    assert "because its layers with RoPE see 4,096 tokens at most" in sentence
    assert f"by the {len(whole[0].layers)} other layers alone" in sentence


def test_pairs_that_longrope_divides_by_more_than_its_factor_count_as_divided() -> None:
    configured = plan_preset("phi-3-mini-128k", 131_072).methods[0]
    divided = [
        before / after
        for before, after, state in zip(
            configured.pairs.before, configured.pairs.after, configured.pairs.states, strict=True
        )
        if state == "divided"
    ]
    assert min(divided) >= 32 < max(divided)
    assert "divided by the full factor or more" in EXPLAINED


def test_a_window_makes_no_model_ready_for_a_length_it_was_not_trained_on() -> None:
    config = preset_config("phi-3-mini-128k") | {
        "max_position_embeddings": 4_096, "rope_scaling": None, "sliding_window": 2_047,
    }  # fmt: skip
    found = plan_config(config, 32_768)
    facts = ("trained on 4,096", "2,047 tokens at most", f"{2_046 * 32:,} tokens back (2,046 x 32)")
    assert [fact for fact in facts if fact not in recommendation(found)] == []
    assert [one.readiness_text for one in found.methods] == ["no new distance, untrained length"]
    within = plan_config(config, 4_096)
    assert "was trained on 4,096" in recommendation(within)
    assert within.methods[0].readiness_text == "trained for this length"


def farthest(masks: list[torch.Tensor]) -> int:
    """Tokens from the last one to the farthest before it that layers of these masks bring to it."""
    seen = torch.eye(len(masks[0]), dtype=torch.bool)
    for mask in masks:
        seen = (mask.float() @ seen.float()) > 0
    return len(seen) - 1 - int(seen[-1].nonzero().min())


ROWS, COLUMNS = torch.arange(60)[:, None], torch.arange(60)
BACK = ROWS - COLUMNS
WINDOWED: list[tuple[Config, list[torch.Tensor], str]] = [
    (LLAMA | {"model_type": "mistral", "sliding_window": 7, "num_hidden_layers": 5},
     [(BACK >= 0) & (BACK < 7)] * 5, "back (6 x 5)"),
    # 9 tokens: local_attention counts both sides, of which the class takes a half, and the query.
    ({"model_type": "modernbert", "local_attention": 8, "num_hidden_layers": 4,
      "layer_types": ["sliding_attention"] * 4}, [BACK.abs() <= 4] * 4, "away on either side (4 x 4)"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "masks", "words"), WINDOWED, ids=["back", "both sides"])
def test_layers_bring_text_from_as_far_as_their_masks_together(
    config: Config, masks: list[torch.Tensor], words: str
) -> None:
    found = plan_config(config, 60, trained_length=30, scan=8)
    assert f"from at most {farthest(masks)} tokens {words}: measure" in recommendation(found)


def test_no_layer_of_chunks_alone_brings_text_from_before_its_chunk() -> None:
    chunks = {"layer_types": ["chunked_attention"] * 4, "attention_chunk_size": 16}
    config = {"model_type": "llama4_text", "num_hidden_layers": 4, "max_position_embeddings": 60}
    found = plan_config(config | chunks, 60, trained_length=30, scan=8)
    mask = (BACK >= 0) & (ROWS // 16 == COLUMNS // 16)
    assert farthest([mask] * 4) == farthest([mask]) < 16
    assert "Text before its chunk never reaches a token" in recommendation(found)


BLOOM: Config = {"model_type": "bloom", "hidden_size": 14_336, "n_layer": 70, "n_head": 112}


def test_layers_of_several_kinds_have_a_note_each() -> None:
    gemma = read_config(published_config("gemma-3-4b"))
    full, sliding = layer_notes(gemma, 131_072, 32_768)
    assert [note.layers.split()[0] for note in (full, sliding)] == ["5", "29"]
    assert "131,072" in full.sentence
    assert "32,768" in full.sentence
    assert "1,024 tokens at most" in sliding.sentence
    _, without = layer_notes(read_config(preset_config("smollm3-3b")), 131_072, 65_536)
    assert without.layers.startswith("9 ")


def test_layers_whose_window_shows_no_new_distance_are_not_to_be_scaled() -> None:
    full, sliding = layer_notes(MODELS["gemma-3-4b"].read(), 262_144, 16_384)
    assert "Do not scale" not in full.sentence
    assert "Do not scale these layers." in sliding.sentence
    (within,) = layer_notes(MODELS["mistral-7b-v0.1"].read(), 2_048, 8_192)
    assert "Do not scale" not in within.sentence  # the window hides nothing there


def test_methods_at_inference_are_named_where_a_context_is_extended() -> None:
    longer, within = plan_preset("llama-2-7b", 16_384), plan_preset("llama-2-7b", 4_096)
    names = [method.label for method in at_inference(longer)]
    assert names == ["Dual Chunk Attention", "Self-Extend", "ReRoPE"]
    assert all("Llama" in method.statement for method in at_inference(longer))
    assert at_inference(within) == at_inference(plan_preset("bloom-176b", 8_192)) == ()


def test_a_note_tells_whether_a_length_is_past_training_or_scaling() -> None:
    scaled = published_config("llama-3.1-8b")
    for config, context, trained, fact in (
        (LLAMA, 16_384, 8_192, "from 8,192 on"), (LLAMA, 8_192, 8_192, "no distance"),
        (LLAMA, 16_384, None, "not known"), (scaled, 200_000, 8_192, "200,000"),
        (scaled, 131_072, 8_192, "8,192"),
    ):  # fmt: skip
        (note,) = layer_notes(read_config(config), context, trained)
        assert fact in note.sentence


def test_a_learned_table_has_no_row_past_its_end() -> None:
    found = plan_config({"model_type": "gpt2"}, 2_048)
    assert found.methods == ()
    assert "1,024 to 2,047" in recommendation(found)
    for context in (2_048, 1_024):
        (note,) = layer_notes(found.model, context, 1_024)
        assert note.works == (context == 1_024)
    # Marian's class has a table of sines with a row for each position of its context.
    marian = plan_config({"model_type": "marian"}, 4_000)
    (rows,) = layer_notes(marian.model, 4_000, None)
    assert not rows.works
    assert "1,024 to 3,999" in rows.sentence
    assert rows.layers == "12 layers (decoder) and 12 layers (encoder)"
    whisper = pytest.importorskip("transformers").WhisperConfig()
    model = read_config(json.loads(json.dumps(whisper.to_dict(), default=str)))
    decoder, encoder = layer_notes(model, 4_096, None)
    assert f"table of {whisper.max_target_positions:,} rows" in decoder.sentence
    assert f"makes {whisper.max_source_positions:,} rows" in encoder.sentence
    warnings = [warning.sentence for warning in warnings_of(plan(model, 448))]
    assert any("Keys of the encoder's output" in sentence for sentence in warnings)
    (sinusoids,) = layer_notes(MODELS["transformer"].read(), 9_000, None)
    assert sinusoids.works
    assert "2108.12409" in sinusoids.source


def test_alibi_ends_where_its_smallest_slope_has_fallen_by_a_hundred() -> None:
    found = plan_config(BLOOM, 8_192)
    assert found.methods == ()
    # 112 heads: 64 slopes of the power of two below, and every other one of the power above.
    slopes = [2 ** (-8 * h / 64) for h in range(1, 65)]
    slopes += [2 ** (-8 * h / 128) for h in range(1, 97, 2)]
    assert f"{math.ceil(math.log(100) / min(slopes)):,} tokens back" in recommendation(found)


def test_the_bias_of_falcon_is_divided_by_the_root_of_the_width_of_a_head() -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    falcon = read_config({"model_type": "falcon", "alibi": True, **sizes})
    bloom = read_config({"model_type": "bloom", **sizes})
    for model, root in ((falcon, 8), (bloom, 1)):  # a head of 64; the smallest slope is 2^-8
        (note,) = layer_notes(model, 8_192, None)
        assert f"{math.ceil(math.log(100) * 256 * root):,} tokens back" in note.sentence


def test_distances_past_the_last_bucket_of_t5_share_it() -> None:
    # 32 buckets, 16 of them exact: bucket 31 begins where 16 (128/16)^(15/16) is passed, at 113.
    first = next(x for x in range(16, 129) if math.log(x / 16) / math.log(8) * 16 >= 15)
    assert first == 113
    found = plan_config({"model_type": "t5"}, 4_096)
    assert found.methods == ()
    assert f"from {first} on" in recommendation(found)
    assert f"from {first} on" in recommendation(plan_config({"model_type": "t5"}, 115))
    assert f"from {first} on" not in recommendation(plan_config({"model_type": "t5"}, 114))
    decoder, encoder = layer_notes(found.model, 4_096, None)
    # Both ways there are 16 buckets a side, 8 of them exact: the last begins at 8 (128/8)^(7/8).
    both = next(x for x in range(8, 129) if math.log(x / 8) / math.log(16) * 8 >= 7)
    assert f"from {both} on" in encoder.sentence
    assert decoder.works
    assert encoder.works


def test_text_beyond_a_window_is_read_by_layers_without_one() -> None:
    model = read_config({"model_type": "smollm3", "max_position_embeddings": 4_096})
    kinds = tuple(
        dataclasses.replace(kind, window=1_024 if kind.rotary_dim else None)
        for kind in model.layer_kinds
    )
    found = plan(dataclasses.replace(model, layer_kinds=kinds), 65_536, search_base=False)
    assert "9 other layers" in recommendation(found)
