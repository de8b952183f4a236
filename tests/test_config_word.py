"""A config as the word of a link: reads to the same model, holds no more, and never comes apart."""

import base64
import json
import re
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import limits
from posenc.errors import ConfigFileError
from posenc.interop.models import config_word, model_types, read_config, read_config_word
from posenc.interop.models.config_word import ASSUMED, PATTERN, PREFIX
from posenc.presets import MODELS

CONFIGS = {name: dict(one.config) for name, one in MODELS.items() if one.config is not None}


def packed_more(content: bytes, more: bytes) -> str:
    """A word made by hand, with whatever it holds, and what follows its stream."""
    stream = zlib.compress(content, 9) + more
    return PREFIX + base64.urlsafe_b64encode(stream).rstrip(b"=").decode()


def packed(content: bytes) -> str:
    """A word made by hand, with whatever it holds."""
    return packed_more(content, b"")


def inside(word: str) -> Any:
    """What a word holds, unpacked by hand."""
    text = word.removeprefix(PREFIX)
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_word_of_every_known_model_reads_to_the_same_model(name: str) -> None:
    word = config_word(CONFIGS[name])
    assert re.fullmatch(PATTERN, word, re.ASCII)
    assert read_config_word(word) == read_config(CONFIGS[name])
    assert len(word) < 1_000  # the 2 x 48 factors of LongRoPE included
    as_text = json.dumps(CONFIGS[name]).encode()
    assert config_word(as_text) == word


def test_the_order_of_keys_changes_no_word() -> None:
    config = CONFIGS["llama-3.1-8b"]
    assert config_word(dict(reversed(config.items()))) == config_word(config)


def test_only_what_bears_on_position_is_kept() -> None:
    private = {
        "_name_or_path": "/home/me/secret",
        "architectures": ["Secret"],
        "vocab_size": 7,
        "torch_dtype": "bfloat16",
        "vision_config": {"position": "secret"},
    }
    config = CONFIGS["llama-3-8b"] | private
    word = config_word(config)
    assert "secret" not in json.dumps(inside(word)).lower()
    assert set(inside(word)) == {*CONFIGS["llama-3-8b"]}
    # What bears on position and was left out on request is still told, by its name alone.
    config |= {"my_position_notes": "secret"}
    word = config_word(config, "llama")
    assert "secret" not in json.dumps(inside(word)).lower()
    assert set(inside(word)) == {*CONFIGS["llama-3-8b"], "my_position_notes", ASSUMED}
    assert read_config_word(word) == read_config(config, "llama")
    assert read_config_word(word).ignored == ("my_position_notes",)


def test_a_layer_of_another_kind_that_is_named_stays_named() -> None:
    config = {
        "model_type": "gemma4_text", "num_hidden_layers": 4,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "per_layer_config": {"1": {"notes": "secret"}},
    }  # fmt: skip
    word = config_word(config)
    assert read_config_word(word) == read_config(config)
    assert "secret" not in json.dumps(inside(word))


NUMBERS = st.one_of(
    st.integers(-2, 2**33), st.floats(allow_nan=False, allow_infinity=False), st.just(None)
)
SCALINGS = st.fixed_dictionaries(
    {},
    optional={
        "rope_type": st.sampled_from(
            ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "su"]
        ),
        "type": st.sampled_from(["linear", "yarn", "mrope", "default"]),
        "factor": st.sampled_from([1, 2.0, 8.0, 32, 1.5]),
        "low_freq_factor": st.just(1.0),
        "high_freq_factor": st.sampled_from([4.0, 1.0]),
        "original_max_position_embeddings": st.sampled_from([4_096, 8_192, None]),
        "rope_theta": st.sampled_from([1e4, 5e5, 1e6]),
        "attention_factor": st.sampled_from([1.1, None]),
        "beta_fast": st.sampled_from([32, 32.0, 16]),
        "truncate": st.booleans(),
        "mscale": st.sampled_from([1.0, 0.707]),
        "partial_rotary_factor": st.sampled_from([0.5, 1.0, 0.25]),
        "short_factor": st.just([1.0] * 32),
        "long_factor": st.just([2.5] * 32),
        "mrope_section": st.just([16, 8, 8]),
        "full_attention": st.just({"rope_type": "default", "rope_theta": 1e6}),
        "sliding_attention": st.sampled_from([None, {"rope_type": "default"}]),
        "odd": st.sampled_from([1, {"deep": [1]}, "text"]),
    },
)
ANY = st.recursive(
    st.one_of(NUMBERS, st.booleans(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
CONFIG = st.fixed_dictionaries(
    {"model_type": st.sampled_from([*model_types(), "unheard"])},
    optional={
        "hidden_size": st.sampled_from([512, 1_024, 1_024.0]),
        "num_hidden_layers": st.sampled_from([2, 4, 12]),
        "num_attention_heads": st.sampled_from([8, 16]),
        "num_key_value_heads": st.sampled_from([2, 8, None]),
        "head_dim": st.sampled_from([64, None]),
        "max_position_embeddings": st.sampled_from([8_192, 131_072]),
        "rope_theta": st.sampled_from([1e4, 5e5, None]),
        "rotary_pct": st.just(0.25),
        "rope_scaling": st.one_of(st.none(), SCALINGS),
        "rope_parameters": st.one_of(st.none(), SCALINGS),
        "sliding_window": st.sampled_from([None, 512]),
        "use_sliding_window": st.booleans(),
        "layer_types": st.just(["full_attention", "sliding_attention"] * 2),
        "original_max_position_embeddings": st.just(4_096),
        "pad_token_id": st.sampled_from([0, 1, None]),
        "alibi": st.booleans(),
        "attn_config": st.sampled_from([{}, {"alibi": True}, {"alibi": False, "window": 3}, None]),
        "per_layer_config": st.sampled_from([{}, {"1": {"head_dim": 64}}]),
        "no_rope_layers": st.just([1, 0, 1, 1]),
        "rope_local_base_freq": st.just(1e4),
        "position_odd": ANY,
        "unrelated": ANY,
        "text_config": st.sampled_from([None, {}]),
    },
)


@settings(max_examples=400, deadline=None)
@given(CONFIG, st.booleans(), st.sampled_from([None, "llama", "qwen2"]))
def test_a_word_reads_to_the_model_of_its_config_or_there_is_an_error_for_both(
    config: dict[str, Any], nested: bool, assume: str | None
) -> None:
    if nested:
        config = {"model_type": "wrapper", "text_config": config}
    try:
        expected = read_config(config, assume)
    except ConfigFileError as error:
        with pytest.raises(ConfigFileError, match=re.escape(str(error))):
            config_word(config, assume)
        return
    word = config_word(config, assume)
    assert read_config_word(word) == expected
    kept = inside(word)
    assert (ASSUMED in kept) == bool(expected.assumption)
    assert config_word(kept, kept.pop(ASSUMED, None)) == word  # nothing is left to take away


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.text(), st.binary().map(packed), ANY.map(lambda v: packed(json.dumps(v).encode())))
)
def test_any_other_word_is_an_error_in_words(word: str) -> None:
    with pytest.raises(ConfigFileError) as refused:
        read_config_word(word)
    assert 20 < len(str(refused.value)) < 600
    assert str(refused.value).endswith(".")


BOMB = packed(b'{"model_type": "llama", "x": "' + b"a" * (limits.MAX_MODEL_TEXT + 1) + b'"}')
GOOD = config_word(CONFIGS["llama-3-8b"])
BAD_WORDS = {
    "five megabytes": (PREFIX + "A" * 5_000_000, "at most 4,096 characters"),
    "no base64": (PREFIX + "!!!", "letters, digits"),
    "one letter too few": (PREFIX + "AAAAA", "cannot be unpacked"),
    "no stream": (PREFIX + "AAAA", "cannot be unpacked"),
    "cut": (GOOD[:-8], "cannot be unpacked"),
    "changed": (GOOD[:-3] + ("A" if GOOD[-3] != "A" else "B") + GOOD[-2:], "cannot be unpacked"),
    "goes on": (packed_more(b'{"model_type":"llama"}', b"more"), "cannot be unpacked"),
    "a bomb": (BOMB, "more than 65,536 bytes"),
    "a list": (packed(b"[1, 2]"), "must be one JSON object"),
    "a number": (packed(b"1"), "must be one JSON object"),
    "a path": (packed(b"/etc/passwd"), "is not JSON"),
    "unknown type": (packed(b'{"model_type": "x"}'), "model_type"),
    "NaN": (packed(b'{"model_type": "llama", "rope_theta": NaN}'), "NaN"),
    "infinite": (packed(b'{"model_type": "llama", "rope_theta": 1e999}'), "too large"),
    "assumed unknown": (packed(b'{"model_type": "x", "posenc_assume": "y"}'), "assume must be"),
    "assumed list": (packed(b'{"model_type": "x", "posenc_assume": []}'), "must be a text"),
    "twice": (packed(b'{"model_type": "llama", "model_type": "bert"}'), "stands twice"),
    "deep": (packed(b'{"a":' * 40 + b"1" + b"}" * 40), "deep"),
    "no text": (packed(b"\xff\xfe"), "UTF-8"),
    "out of range": (packed(b'{"model_type": "llama", "rope_theta": -1}'), "rope_theta"),
    "digits": (packed(b'{"model_type": "llama", "rope_theta": ' + b"9" * 50 + b"}"), "40 digits"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_WORDS)
def test_a_hostile_word_is_refused_with_its_reason(name: str) -> None:
    word, said = BAD_WORDS[name]
    with pytest.raises(ConfigFileError, match=re.escape(said)):
        read_config_word(word)


def test_a_bomb_is_never_unpacked_whole() -> None:
    import tracemalloc

    word = packed(b" " * 2_900_000)  # about the most that so few characters hold
    assert len(word) <= limits.MAX_MODEL_WORD
    tracemalloc.start()
    with pytest.raises(ConfigFileError, match="65,536"):
        read_config_word(word)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_config_too_large_for_a_link_is_refused_kindly() -> None:
    noise = [(7919 * n % 1_000_003) / 1_000_003 + 1 for n in range(2 * 256)]
    config = {
        "model_type": "llama", "hidden_size": 4_096, "num_attention_heads": 8,
        "num_hidden_layers": 32, "max_position_embeddings": 131_072,
        "rope_scaling": {
            "rope_type": "longrope", "factor": 32.0, "original_max_position_embeddings": 4_096,
            "short_factor": noise[:256], "long_factor": noise[256:],
        },
    }  # fmt: skip
    read_config(config)
    with pytest.raises(ConfigFileError, match="too many for a link"):
        config_word(config)
