"""Mistakes of public code, each made again in a few lines, are named, or are not made here."""

import json
import math

import pytest
import torch

from posenc.identification import clauses, match_model, match_rotation, rotation_of
from posenc.identification.sentences import match_sentences, rotation_sentences
from posenc.models.presets import MODELS
from posenc.planner import paste
from posenc.testing import assert_matches
from tests.library.configs import config_of
from tests.models.configs import plan_config
from tests.models.public_bugs import BUGS, LAYOUTS, QWEN_YARN
from tests.models.public_cases import CASES, ROPE, SIZE_4, axes  # fmt: skip
from tests.models.public_tables import (
    MSCALE,
    halves,
    picture,
    plain,
    positions,
    published,
    rows,
    turned,
    yarn,
    zeros_first,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.parametrize("bug", BUGS)
def test_bug_of_public_code_is_named(bug: str) -> None:
    make, expected, message = BUGS[bug]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        assert_matches(make(), expected)


@pytest.mark.parametrize("case", CASES)
def test_cause_is_found_and_named_in_the_first_sentence(case: str) -> None:
    tables, scheme, expected, word, sentence = CASES[case]
    match = match_model({"all": scheme}, *tables, positions=expected)
    found = match.matches["all"]
    words = {fact.word for fact in (found.mistake, found.cause) if fact is not None}
    assert words == {word}
    known = clauses.CAUSES | clauses.MISTAKES
    assert word in known, f"posenc/identification/clauses.py has no clause of {word!r}."
    assert not match.belongs
    assert sentence in match_sentences(match, None)[0]
    with pytest.raises(AssertionError) as failure:
        assert_matches(tables, scheme, positions=expected)
    first = str(failure.value).split(" This is no")[0]
    assert sentence.rstrip(".") in first


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "change", [{15: 0.0}, {15: 2.0}, {12: 0.0, 13: 0.0, 14: 0.0, 15: 0.0}, {10: 1.02}]
)
def test_table_of_16_bits_whose_slow_pairs_are_wrong_does_not_belong(
    change: dict[int, float], dtype: torch.dtype
) -> None:
    """Some of their sines are below 0.001, less than a rounding of a number near 1 changes."""
    right, wrong = plain(32, 1e6), plain(32, 1e6)
    for pair, factor in change.items():
        wrong[pair] *= factor
    scheme = config_of("rope", dim=32, base=1e6, layout="half")
    for frequencies, belongs in ((right, True), (wrong, False)):
        cos, sin = turned(torch.arange(256), frequencies)
        tables = cos.to(dtype), sin.to(dtype)
        assert match_model({"all": scheme}, *tables).belongs == belongs
        if belongs:
            assert assert_matches(tables, scheme)
            continue
        with pytest.raises(AssertionError, match="This is not the table of RoPE"):
            assert_matches(tables, scheme)


def test_attention_factor_in_16_bits_is_rounded_up_to_three_times() -> None:
    """As code that rounds the factor, cosines and their product; slow pairs are still compared."""
    yarn_by_4 = yarn(128, 1e6, 4.0, 32_768)
    for slowest, belongs in ((1.0, True), (0.0, False)):
        wrong = yarn_by_4.clone()
        wrong[-1] *= slowest
        cos, sin = turned(torch.arange(256), wrong)
        size = torch.tensor(SIZE_4, dtype=torch.bfloat16)
        tables = cos.bfloat16() * size, sin.bfloat16() * size
        assert match_model({"all": QWEN_YARN}, *tables).belongs == belongs


@pytest.mark.parametrize("pairs", [2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("change", [1.0005, 1.02, 1.1, 0.9])
def test_wrong_frequencies_are_no_far_positions(
    change: float, dtype: torch.dtype, pairs: int
) -> None:
    """Few pairs come near any number at some far position, by the model's frequencies or a mistake's."""
    scheme = config_of("rope_linear", dim=2 * pairs, factor=4.0, layout="half")
    for count in (12, 40):
        wrong = change * plain(2 * pairs, 1e4) / 4
        cos, sin = turned(torch.arange(count), wrong)
        found = match_model({"all": scheme}, cos.to(dtype), sin.to(dtype)).matches["all"]
        assert (found.mistake, found.cause, found.size) == (None, None, None)


def test_rows_that_jump_back_before_0_or_end_in_zeros_get_no_false_reason() -> None:
    """No cache keeps a number of rows below 0, and rows of zeros are no smaller waves."""
    back = match_model({"all": ROPE}, *turned(rows(range(40), range(-40, 60))))
    assert "eviction" not in match_sentences(back, None)[0]
    ended = tuple(torch.cat((part[20:], part[:20])) for part in zeros_first(20))
    (first, *_) = match_sentences(match_model({"all": ROPE}, *ended), None)
    assert first == "From row 64 on, every number is 0."


def test_table_at_the_positions_expected_belongs() -> None:
    for places in (rows(range(64), range(64)), torch.tensor([0, 3, 4, 7]), rows(range(7, 71))):
        assert match_model({"all": ROPE}, *turned(places), positions=places).belongs
        assert assert_matches(turned(places), ROPE, positions=places) == "exact angles"
    scheme = axes(interleaved=True)
    assert match_model({"all": scheme}, *picture(interleaved=True)).belongs


@pytest.mark.parametrize("bug", LAYOUTS)
def test_layout_of_another_model_is_named_from_queries(bug: str) -> None:
    used, meant = LAYOUTS[bug]
    before = torch.randn(40, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn = torch.exp(1j * positions(40) * plain(64, 1e4))
    pairs = before.view(40, 32, 2) if used == "interleaved" else before.view(40, 2, 32).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    after = (turned if used == "interleaved" else turned.mT).reshape(40, 64)
    rotation = rotation_of(before, after)
    assert rotation.layout == used
    match = match_rotation(rotation, {"all": config_of("rope", dim=64, layout=meant)})
    assert not match.belongs
    sentences = rotation_sentences(match, rotation.identified)
    assert sentences[0].startswith("These vectors have the wrong layout: the model pairs ")
    assert match_rotation(rotation, {"all": config_of("rope", dim=64, layout=used)}).belongs


def test_softmax_scale_has_the_factor_that_huggingface_transformers_47435_adds() -> None:
    (kind,) = MODELS["deepseek-v2-lite"].read().layer_kinds
    factor = 0.1 * 0.707 * math.log(40) + 1
    assert kind.softmax_scale == pytest.approx(factor**2 / math.sqrt(128 + 64), rel=1e-12)


def test_vllm_counts_the_factor_once_unlike_safe_synthesizer_623() -> None:
    """vLLM makes a linear cache of max_position_embeddings times the factor."""
    found = plan_config(dict(published("llama-3-8b")), 16_384, methods=["linear"], scan=64)
    overrides = json.loads(paste(found, found.methods[0]).vllm.split("'")[1])
    assert 8_192 * overrides["rope_parameters"]["factor"] == 16_384
    assert "max_position_embeddings" not in overrides


def test_same_cache_without_the_mistake_matches() -> None:
    assert_matches(halves(positions(300) * yarn(128, 1e6, 4.0, 32_768), MSCALE), QWEN_YARN)
    assert_matches(halves(positions(300) * plain(128, 5e5)), published("llama-3-8b"))


def test_frequencies_scaled_twice_are_named() -> None:
    inv_freq = plain(128, 1e6)
    twice = yarn(128, 1e6, 4.0, 32_768) ** 2 / inv_freq
    with pytest.raises(AssertionError, match="The frequencies are scaled twice by YaRN by 4"):
        assert_matches(halves(positions(300) * twice, MSCALE), QWEN_YARN)
