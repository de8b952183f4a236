"""Model types that posenc does not read are refused by name, with what their class does with position."""

import json
import re

import pytest

from posenc.models.family import FAMILIES, OTHERS_FILE, model_types
from tests.models.configs import of_type, refusal

KINDS = json.loads(OTHERS_FILE.read_text("utf-8"))["kinds"]
# What papers and cards say of a few: parts of the sentence.
KNOWN = {
    "mamba": "no attention", "musicgen_decoder": "position vectors",
    "xlnet": "relative encoding", "wav2vec2": "audio", "vit": "image",
    "llava": "text_config, which is missing", "sam": "several models",
    "moshi": "its mask has no window", "mistral_large4_text": "learned numbers",
    "inkling2_text": "relative encoding", "reformer": "position vectors",
    "deepseek_v4": "cache several tokens", "qwen4_exp_text": "embeddings of the last tokens",
    "dots3_note_text": "other sizes", "step3p5": "lists by layer", "pixtral": "of an image",
    "gemma4_vision": "no text model", "pix2struct_text_model": "bucket", "dpr": "position vectors",
}  # fmt: skip


@pytest.mark.parametrize("model_type", KNOWN)
def test_a_type_is_refused_by_its_reason(model_type: str) -> None:
    assert KNOWN[model_type] in str(refusal(of_type(model_type)))


def test_a_model_of_several_parts_without_its_text_is_refused_and_not_guessed() -> None:
    for model_type in ("gemma3", "llava", "qwen3_vl"):
        error = str(refusal({"model_type": model_type, "textconfig": {"hidden_size": 64}}))
        assert "text_config, which is missing" in error


def test_llama_is_offered_for_a_type_of_tomorrow() -> None:
    assert refusal(of_type("of_tomorrow")).assume == "llama"


def test_types_refused_for_having_no_rope_have_no_code_that_rotates() -> None:
    pytest.importorskip("transformers", minversion="5")
    from tests.models.generate_model_types import source

    for name, kind in KINDS.items():
        if kind in {"none", "buckets", "relative", "added", "no_rope"}:
            rotates = re.search("apply_rotary(?!_pos_emb_vision)", source(name, "modeling"))
            assert not rotates, name


def test_every_type_is_refused_with_its_own_reason() -> None:
    for name, kind in KINDS.items():
        if name in model_types():  # read as its text model where there is no text_config
            continue
        error = str(refusal(of_type(name)))
        assert f'"{name}" is not read' in error, name
        assert ("--assume llama" in error) == (kind == "rope"), name


@pytest.mark.filterwarnings("ignore")
def test_every_type_of_the_installed_release_is_listed() -> None:
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    new = set(CONFIG_MAPPING_NAMES) - {*KINDS, *FAMILIES, *model_types()}
    assert new == set(), "run python -m tests.models.generate_families"
