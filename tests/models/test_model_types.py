"""Model types that posenc does not read are refused by name, with what their class does with position."""

import json

import pytest

from posenc.models.read_config import READERS, TYPES, model_types
from tests.models.configs import of_type, refusal

KINDS = json.loads(TYPES.read_text("utf-8"))
# What papers and cards say of a few: parts of the sentence.
KNOWN = {
    "mamba": "no attention", "bart": "position vectors",
    "xlnet": "relative encoding", "whisper": "audio", "vit": "image",
    "ctrl": "position vectors", "gpt_neo": "position vectors", "switch_transformers": "bucket",
}  # fmt: skip


@pytest.mark.parametrize("model_type", KNOWN)
def test_a_type_without_rope_is_refused_by_its_reason_and_never_offered_as_llama(
    model_type: str,
) -> None:
    error = refusal(of_type(model_type))
    assert f'"{model_type}" is not read' in str(error)
    assert KNOWN[model_type] in str(error)
    assert (error.assume, "assume" in str(error)) == ("", False)


def test_llama_is_offered_for_a_type_that_may_have_rope() -> None:
    assert refusal(of_type("recurrent_gemma")).assume == "llama"
    assert refusal(of_type("of_tomorrow")).assume == "llama"


def test_types_refused_for_having_no_rope_have_no_code_that_rotates() -> None:
    pytest.importorskip("transformers", minversion="5")
    from tests.models.generate_model_types import source

    for name, kind in KINDS.items():
        if kind not in {"other", "image", "audio"}:
            assert "apply_rotary" not in source(name, "modeling"), name


@pytest.mark.filterwarnings("ignore")
def test_every_type_of_the_installed_release_is_listed() -> None:
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    new = set(CONFIG_MAPPING_NAMES) - {*KINDS, *READERS, *model_types()}
    assert new == set(), "run python -m tests.models.generate_model_types"
