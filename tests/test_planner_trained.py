"""The length a model was trained on: what its makers told counts, what its config takes does not."""

import pytest

from dashboard import planner, real_model
from dashboard.choices import PlanChoice
from posenc import Setting
from posenc.planner import emit, plan, verdict
from posenc.planner.layer_notes import layer_notes
from posenc.presets import MODELS
from posenc.shared_model import shared_model

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# What their makers told; their configs say 131,072, 40,960 and 32,768.
TRAINED = {"qwen2.5-7b": 32_768, "qwen3-8b": 32_768, "mistral-7b-v0.1": 8_192}
WINDOW = (
    "Mistral-7B-v0.1 at {} tokens, trained on 8,192: no distance is new, because its layers see 4,096 "
    "tokens at most, but as released it is not known to be trained on texts of this length."
)
VERDICTS = {
    ("qwen2.5-7b", 32_768): "Qwen2.5-7B was trained on 32,768 tokens: 32,768 need no scaling.",
    ("qwen2.5-7b", 131_072): "Qwen2.5-7B from 32,768 to 131,072 is x4",
    ("qwen3-8b", 32_768): "Qwen3-8B was trained on 32,768 tokens: 32,768 need no scaling.",
    ("qwen3-8b", 40_960): "Qwen3-8B from 32,768 to 40,960 is x1.25",
    (
        "mistral-7b-v0.1",
        8_192,
    ): "Mistral-7B-v0.1 was trained on 8,192 tokens: 8,192 need no scaling.",
    ("mistral-7b-v0.1", 32_768): WINDOW.format("32,768"),
}


def test_presets_whose_context_is_not_what_they_were_trained_on_say_both() -> None:
    told = {name: one.trained_length for name, one in MODELS.items() if one.trained_length}
    assert told == TRAINED
    for name, one in MODELS.items():
        assert (one.trained_length is None) == (one.trained_source == "")
        config = one.read(scaled=False)
        if one.trained_length is not None:
            assert "arXiv" in one.trained_source
            assert config.trained_length is None  # nothing is said twice
            assert config.context != one.trained_length
            assert one.read().trained_length in (None, one.trained_length)
        shared = shared_model(name)
        assert (shared.trained_length, shared.trained_source) == (
            one.trained_length,
            one.trained_source,
        )


@pytest.mark.parametrize(("name", "context"), VERDICTS)
def test_the_verdict_of_a_preset_starts_from_what_it_was_trained_on(
    name: str, context: int
) -> None:
    found = planner.made(Setting(model=name), PlanChoice(context=context, methods=("none",)))
    assert verdict(found).startswith(VERDICTS[name, context])
    assert found.trained_length == TRAINED[name]
    assert found.assumed == ()


@pytest.mark.parametrize("name", MODELS)
def test_no_verdict_calls_a_length_trained_that_was_only_taken(name: str) -> None:
    """Nor does a model's context count as its training where its makers told another length."""
    preset = MODELS[name]
    context = preset.read(scaled=False).context or 64
    for told in (None, 2_048):
        chosen = PlanChoice(context=min(context, 2_048), trained=told or 0, methods=("none",))
        found = planner.made(Setting(model=name), chosen)
        known = told or preset.trained_length or preset.read(scaled=False).trained_length
        assert bool(found.assumed) == (known is None and found.trained_length is not None)
        said = verdict(found)
        if known is None and found.trained is not None:
            assert "is taken as trained on" in said
        assert ("was trained on" in said) == (known is not None and found.trained is not None)


def test_what_a_visitor_tells_counts_more_than_what_a_preset_knows() -> None:
    chosen = PlanChoice(context=16_384, trained=4_096, methods=("none",))
    found = planner.made(Setting(model="qwen3-8b"), chosen)
    assert verdict(found).startswith("Qwen3-8B from 4,096 to 16,384 is x4")


@pytest.mark.parametrize("name", ["qwen2.5-7b", "qwen3-8b"])
def test_yarn_to_four_times_is_the_block_that_the_makers_of_qwen_recommend(name: str) -> None:
    found = planner.made(Setting(model=name), PlanChoice(context=131_072, methods=("yarn",)))
    (yarn,) = found.methods
    assert emit(found, yarn).rope_scaling["rope_scaling"] == {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768,
        "beta_fast": 32.0, "beta_slow": 1.0,  # what is taken where a config does not say them
    }  # fmt: skip
    assert yarn.config == MODELS[name].read().main.scheme


def test_layers_are_judged_by_the_same_length() -> None:
    found = planner.made(Setting(model="qwen3-8b"), PlanChoice(context=40_960, methods=("none",)))
    (note,) = layer_notes(found.model, found.target, found.trained_length)
    assert "distances from 32,768 on were never trained" in note.sentence


def test_a_model_s_description_tells_what_it_was_trained_on_and_who_says_so() -> None:
    assert real_model.about(shared_model("mistral-7b-v0.1")).endswith(
        "Its config.json says 32,768 tokens, which is not what it was trained on. Trained on 8,192 "
        "tokens (Jiang et al. 2023, arXiv 2310.06825, table 1)."
    )
    assert "Trained on" not in real_model.about(shared_model("llama-3-8b"))


def test_a_plan_of_the_library_takes_the_length_of_a_preset() -> None:
    preset = MODELS["qwen3-8b"]
    found = plan(
        preset.read(scaled=False), 40_960, trained_length=preset.trained_length, methods=["none"]
    )
    assert (found.trained_length, found.longer) == (32_768, True)
