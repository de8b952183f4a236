"""Words of rope blocks that classes of transformers take, overrule or do not find."""

import pytest
import torch
import transformers

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.rope_bases import bases_of
from tests.models.configs import LLAMA, LLAMA3_BLOCK, YARN_BLOCK, Config, preset_config
from tests.models.oracle import (
    ROPE,
    attribute,
    class_of,
    config_of,
    frequency_differences,
    rope_kinds,
    rotary_of,
    saved,
)


def test_longrope_has_other_words() -> None:
    config = preset_config("phi-3-mini-128k")
    scheme = read_config(config).main.scheme
    for word in ("su", "yarn"):  # "su" is the word of the file before June 2024
        renamed = config | {"rope_scaling": config["rope_scaling"] | {"type": word}}
        assert read_config(renamed).main.scheme == scheme


BLOCKS: list[Config] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 8.0},
    {"rope_type": "dynamic", "factor": 8.0},
    YARN_BLOCK,
    LLAMA3_BLOCK,
]
WORDS = ("default", "linear", "dynamic", "yarn", "llama3", "warp")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["rope_type"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_rope_type_is_taken_before_type_and_the_other_word_is_named(
    place: str, block: Config
) -> None:
    plain = read_config(LLAMA | {place: block})
    sizes = {key: value for key, value in LLAMA.items() if key != "model_type"}
    for other in WORDS:
        typed = block | {"type": other}
        config = config_of("llama", sizes | {place: typed})
        assert config.rope_parameters["rope_type"] == block["rope_type"]
        model = read_config(LLAMA | {place: typed})
        assert [*frequency_differences(model, rotary_of(config))] == []
        assert model.layer_kinds == plain.layer_kinds
        named = [sentence for sentence in model.assumed if f"{place}.type says" in sentence]
        assert bool(named) == (other != block["rope_type"])
        assert all(f"{block['rope_type']} is taken" in sentence for sentence in named)
    if block["rope_type"] == "linear":  # the word type alone
        alone = {"type": "linear", "factor": 8.0}
        assert read_config(LLAMA | {place: alone}) == plain


BY_KIND = [
    name
    for name, row in ROPE.items()
    if name in transformers.CONFIG_MAPPING and "" not in bases_of(row["rope"])
]


@pytest.mark.parametrize("model_type", [*BY_KIND, "llama", "gpt_oss"])
def test_a_truncate_that_transformers_does_not_find_is_read_and_said(model_type: str) -> None:
    theirs, ours, said = {}, {}, {}
    bases = bases_of(ROPE[model_type]["rope"])
    for truncate in (True, False):
        block: Config = YARN_BLOCK | {"truncate": truncate}
        blocks: Config = {
            word: block | {"rope_theta": base.default or 5e5}
            for word, base in bases.items()
            if word
        }
        if blocks.keys() == {"sliding_attention"}:
            blocks["full_attention"] = None
        config = config_of(model_type, {"rope_parameters": blocks or block})
        model = read_config(config)
        kind, scheme = rope_kinds(model)[0]
        rotary = class_of(model_type, "RotaryEmbedding")(config)
        theirs[truncate] = attribute(rotary, kind.block_name, "inv_freq")
        ours[truncate] = rope_frequencies(scheme, mode="transformers")[0]
        said[truncate] = any("does not find the key" in sentence for sentence in model.assumed)
    assert torch.equal(ours[True], theirs[True])
    assert not torch.equal(ours[False], ours[True])
    assert said == {True: False, False: not torch.equal(ours[False], theirs[False])}
    assert said[False] == (model_type in BY_KIND)


def test_frequencies_of_mistral_large_4_are_scaled_by_numbers_of_its_checkpoint() -> None:
    config = config_of("mistral_large4_text", {})
    rotary = class_of("mistral_large4_text", "RotaryEmbedding")(config)
    assert "alpha" in rotary.state_dict()
    at = torch.zeros(1, 1, 8), torch.tensor([[3]])
    before, _ = rotary(*at)
    rotary.alpha.fill_(0.5)
    assert not torch.allclose(before, rotary(*at)[0])
    with pytest.raises(ConfigFileError, match="learned numbers, which stand in its checkpoint"):
        read_config(saved(config))
