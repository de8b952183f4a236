"""A config as text: dict, file, or the token of a link read alike; text that is no config is refused."""

import base64
import dataclasses
import json
import os
import re
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posenc import limits
from posenc.errors import ConfigFileError
from posenc.models import config_token, read_config, read_config_token
from posenc.models.config_json import read_object
from posenc.models.config_token import ASSUMED, MAX_TOKEN, MAX_TOKEN_CONTENT, PATTERN, PREFIX
from posenc.models.presets import MODELS
from tests.models.configs import (
    CASES,
    LLAMA,
    LLAMA3_BLOCK,
    LONGROPE_BLOCK,
    YARN_BLOCK,
    Config,
    of_type,
    preset_config,
    read_or_refuse,
    refusal,
    scaled,
)
from tests.models.oracle import config_of

# What a text holds, and a fact of its refusal.
BAD_TEXTS: dict[str, tuple[str, str]] = {
    "nothing": ("", "the config is empty"),
    "cut": ("{", "line 1, column 2"),
    "a list": ("[1, 2]", "[1, 2]"),
    "a text": ('"llama"', "'llama'"),
    "two objects": ("{} {}", "line 1, column 4"),
    "NaN": ('{"model_type": "llama", "rope_theta": NaN}', "got nan"),
    "infinity": ('{"model_type": "llama", "rope_theta": -Infinity}', "got -inf"),
    "a number past float64": (
        '{"model_type": "llama", "rope_theta": 1e999}',
        "rope_theta must be a finite",
    ),
    "a number of many digits": ('{"model_type": "llama", "a": 1' + 5_000 * "0" + "}", "digits"),
    "deep": ('{"a": ' * 40 + "1" + "}" * 40, "32"),
    "very deep": ("[" * 100_000, "32"),
    "deep after an escape": ('{"a": "\\\\", "b": ' + "[" * 40 + "]" * 40 + "}", "32"),
    "brackets in a text": ('{"a": "' + "[" * 99 + '\\"' + "{" * 99 + '"}', "model_type"),
    "brackets in an open text": ('{"a": "\\\\"' + ', "b": "' + "[" * 99, "Unterminated"),
    "brackets side by side": ('{"a": ' + "[]," * 99, "JSON"),
    "a key twice": ('{"model_type": "llama", "model_type": "bert"}', "model_type"),
    "an inner key twice": ('{"model_type": "llama", "x": {"a": 1, "a": 1}}', "twice"),
    "too long": ('{"model_type": "llama", "x": "' + 2**21 * "y" + '"}', "1,048,576"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_text_that_is_no_config_is_refused(name: str) -> None:
    text, fact = BAD_TEXTS[name]
    assert fact in str(refusal(text))
    assert fact in str(refusal(text.encode()))


@pytest.mark.timeout(100)  # a search that takes the square of the length takes hours
@pytest.mark.parametrize("end", ["", "\\", '"', "[" * 40])
def test_a_text_full_of_escaped_quotes_takes_linear_time(end: str) -> None:
    with pytest.raises(ConfigFileError):
        read_object('"' + '\\"' * (2**19 - 50) + end)


@pytest.mark.usefixtures("no_shape_checks")
def test_sources_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for source in (None, 3, [LLAMA], object()):
        assert type(source).__name__ in str(refusal(source))
    assert "is a directory" in str(refusal(tmp_path))
    assert "is a directory" in str(refusal(str(tmp_path)))
    missing = tmp_path / "secret-place" / "config.json"
    for source in (missing, str(missing)):
        assert "config.json" in str(refusal(source))
        assert "secret-place" not in str(refusal(source))
    assert "byte 1 " in str(refusal(b"{\xff}"))
    assert "there is no file" in str(refusal("a\0b.json"))
    os.mkfifo(tmp_path / "pipe.json")
    assert "there is no file" in str(refusal(tmp_path / "pipe.json"))
    (tmp_path / "large.json").write_bytes(b" " * (limits.MAX_CONFIG_BYTES + 1))
    assert "1,048,576" in str(refusal(tmp_path / "large.json"))


def test_a_preset_reads_the_same_from_every_source_and_its_token(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for name in (name for name, preset in MODELS.items() if preset.config is not None):
        config = preset_config(name)
        model, token = read_config(config), config_token(config)
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(config, indent=1).encode())
        for source in (path, str(path), path.read_bytes(), path.read_text(), json.dumps(config)):
            assert read_config(source) == model, name
        assert re.fullmatch(PATTERN, token, re.ASCII)
        assert len(token) < 1_000  # with the 2 x 48 factors of LongRoPE
        assert read_config_token(token) == model, name
        for same in (json.dumps(config), dict(reversed(config.items()))):
            assert config_token(same) == token, name
    refusal(str(path).encode())  # bytes are never a path


def test_a_dict_may_hold_values_that_transformers_adds() -> None:
    record = LLAMA | {"id2label": {0: "a", 1: "b"}, "dtype": torch.float16, "x": (1, 2)}
    assert read_config(record) == read_config(LLAMA)
    assert "keys must be" in str(refusal(LLAMA | {"x": {(1,): 1}}))
    assert "twice" in str(refusal(LLAMA | {"x": {0: 1, "0": 1}}))
    deep: Config = {}
    for _ in range(50):
        deep = {"x": deep}
    assert "32" in str(refusal(LLAMA | deep))
    assert refusal(LLAMA | {"rope_theta": torch.tensor(1e4)}).key == "rope_theta"


def pack_stream(stream: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(stream).rstrip(b"=").decode()


def packed(content: bytes) -> str:
    return pack_stream(zlib.compress(content, 9))


def unpack(token: str) -> Any:
    text = token.removeprefix(PREFIX)
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def test_a_token_holds_only_what_bears_on_position() -> None:
    private = {
        "_name_or_path": "/home/me/secret", "architectures": ["Secret"], "vocab_size": 7,
        "vision_config": {"position": "secret"},
    }  # fmt: skip
    token = config_token(LLAMA | private)
    assert set(unpack(token)) == set(LLAMA)
    # Of a key that was left out on request only the name is kept.
    config = LLAMA | private | {"my_position_notes": "secret"}
    token = config_token(config, "llama")
    assert "secret" not in json.dumps(unpack(token)).lower()
    assert set(unpack(token)) == {*LLAMA, "my_position_notes", ASSUMED}
    assert read_config_token(token) == read_config(config, "llama")
    assert read_config_token(token).ignored == ("my_position_notes",)


def test_config_token_keeps_null_values_and_named_layers() -> None:
    layer = {
        "model_type": "gemma4_text", "num_hidden_layers": 4,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "per_layer_config": {"1": {"notes": "secret"}},
    }  # fmt: skip
    assert "secret" not in json.dumps(unpack(config_token(layer)))
    assert read_config_token(config_token(layer)) == read_config(layer)
    null = {"model_type": "mistral", "num_key_value_heads": None}  # another thing than no such key
    assert read_config_token(config_token(null)).main.kv_heads == 32
    assert read_config({"model_type": "mistral"}).main.kv_heads == 8


def test_an_object_that_no_class_reads_is_named_whole_and_leaves_its_token_alike() -> None:
    """Where the class reads own numbers of layers, those that it does not read are named one by one."""
    layers = {"per_layer_config": {"1": {"head_dim": 256}}}
    with pytest.raises(
        ConfigFileError, match=r"^per_layer_config bears on position and is not read"
    ):
        read_config(LLAMA | layers)
    model = read_config(LLAMA | layers, "llama")
    assert model.ignored == ("per_layer_config",)
    assert read_config_token(config_token(LLAMA | layers, "llama")) == model
    read = {
        "model_type": "gemma4_text", "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    with pytest.raises(ConfigFileError, match=r"^per_layer_config\.7\.head_dim bears on position"):
        read_config(read | {"per_layer_config": {"7": {"head_dim": 256}}})


BOMB = packed(b'{"model_type": "llama", "x": "' + b"a" * (MAX_TOKEN_CONTENT + 1) + b'"}')
GOOD = config_token(LLAMA)
BAD_TOKENS = {
    "five megabytes": (PREFIX + "A" * 5_000_000, "4,096"),
    "no base64": (PREFIX + "!!!", "letters, digits"),
    "one letter too few": (PREFIX + "AAAAA", "cannot be unpacked"),
    "cut": (GOOD[:-8], "cannot be unpacked"),
    "changed": (GOOD[:-3] + ("A" if GOOD[-3] != "A" else "B") + GOOD[-2:], "cannot be unpacked"),
    "goes on": (pack_stream(zlib.compress(b'{"model_type":"llama"}', 9) + b"more"), "cannot be unpacked"),
    "a bomb": (BOMB, "65,536"),
    "a list": (packed(b"[1, 2]"), "JSON object"),
    "unknown type": (packed(b'{"model_type": "x"}'), "model_type"),
    "assumed unknown": (packed(b'{"model_type": "x", "posenc_assume": "y"}'), "assume"),
    "assumed list": (packed(b'{"model_type": "x", "posenc_assume": []}'), "must be a text"),
    "no text": (packed(b"\xff\xfe"), "UTF-8"),
    "out of range": (packed(b'{"model_type": "llama", "rope_theta": -1}'), "rope_theta"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_hostile_token_is_refused_for_its_fault(name: str) -> None:
    token, fact = BAD_TOKENS[name]
    with pytest.raises(ConfigFileError, match=re.escape(fact)):
        read_config_token(token)


def test_a_token_is_never_unpacked_past_its_limit() -> None:
    token = packed(b" " * 2_900_000)  # about the most that so few characters hold
    assert len(token) <= MAX_TOKEN
    tracemalloc.start()
    try:
        with pytest.raises(ConfigFileError, match="65,536"):
            read_config_token(token)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_config_too_large_for_a_link_is_refused() -> None:
    noise = [(7919 * n % 1_000_003) / 1_000_003 + 1 for n in range(512)]
    block = {"rope_type": "longrope", "factor": 32.0, "original_max_position_embeddings": 4_096}
    lists = {"short_factor": noise[:256], "long_factor": noise[256:]}
    config = scaled(**block | lists) | {"num_attention_heads": 8}
    read_config(config)
    with pytest.raises(ConfigFileError, match="token"):
        config_token(config)


CONFIGS = [dict(preset.config) for preset in MODELS.values() if preset.config] + [
    scaled(**YARN_BLOCK), scaled(**LLAMA3_BLOCK), scaled(**LONGROPE_BLOCK),
    scaled(type="mrope", mrope_section=[16, 24, 24]), {"model_type": "gemma4_text"},
    {"model_type": "gemma3"}, LLAMA | {"rope_parameters": LLAMA3_BLOCK | {"rope_theta": 5e5}},
]  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from([0.25, 0.5, 1.0, 64, 4_096, 131_072, 10**50, "", "yarn", "linear", "dynamic",
                     "longrope", "llama3", "proportional", "mrope", "default", "su"]),
    st.lists(st.integers(0, 90), max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.builds(lambda value, count: [value] * count, st.sampled_from([1.0, 2, "full_attention", 0]),
              st.sampled_from([26, 32, 36, 48, 64])),
)  # fmt: skip
NAMES = sorted({*CASES["bearing"], *(key for config in CONFIGS for key in config)})
NAMES += ["rope_scaling", "head_dim", "layer_types", "text_config", "per_layer_config"]
INNER = [*YARN_BLOCK, *LLAMA3_BLOCK, *LONGROPE_BLOCK, "type", "rope_theta", "mrope_section"]
INNER += ["mscale", "partial_rotary_factor", "full_attention", "sliding_attention"]


@st.composite
def changed_configs(draw: st.DrawFn) -> Config:
    """A known config with a few keys, here or one level down, removed or overwritten."""
    config: Config = json.loads(json.dumps(draw(st.sampled_from(CONFIGS))))
    for _ in range(draw(st.integers(1, 4))):
        record, names = config, NAMES
        objects = [key for key, value in config.items() if isinstance(value, dict)]
        inside: bool = draw(st.booleans())
        if objects and inside:
            record, names = config[draw(st.sampled_from(objects))], INNER + NAMES
        name = draw(st.sampled_from([*record, *names]))
        if draw(st.integers(0, 3)) == 0:
            record.pop(name, None)
        elif name in ("rope_parameters", "rope_scaling", "full_attention"):
            record[name] = draw(st.dictionaries(st.sampled_from(INNER), VALUES, max_size=5))
        else:
            record[name] = draw(VALUES)
    return config


@settings(max_examples=200)
@given(changed_configs(), st.booleans(), st.sampled_from([None, "llama", "qwen2"]))
@example(of_type("unknown", rope_notes={"a": 1}), True, "llama")
@example(LLAMA | {"is_causal": False}, False, "llama")
@example(of_type("mpt", attn_config={"alibi": True, "rope_type": False}), False, "qwen2")
@example(of_type("bert", text_config={"": 0}), False, None)
def test_a_changed_config_is_read_alike_by_every_way_or_refused_by_a_key(
    config: Config, nested: bool, assume: str | None
) -> None:
    if nested:
        config = {"model_type": "wrapper", "text_config": config}
    model = read_or_refuse(config, assume)
    if isinstance(model, ConfigFileError):
        assert model.key
        assert model.key.split("[")[0] in str(model)
        assert len(str(model)) < 1_200
        with pytest.raises(ConfigFileError, match=re.escape(str(model))):
            config_token(config, assume)
        return
    for kind in model.layer_kinds:
        assert kind.layers
        assert (kind.scheme is None) == bool(kind.unsupported)
    assert read_config(json.dumps(config), assume) == model
    token = config_token(config, assume)
    assert read_config_token(token) == model
    content = unpack(token)
    assert (ASSUMED in content) == bool(model.assumption)
    assert config_token(content, content.pop(ASSUMED, None)) == token


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_is_refused_as_a_config_and_as_a_token(source: bytes | str) -> None:
    with pytest.raises(ConfigFileError):
        read_config(source)
    content = source if isinstance(source, bytes) else json.dumps(source).encode()
    for token in (pack_stream(content), pack_stream(zlib.compress(content)), str(source)):
        with pytest.raises(ConfigFileError):
            read_config_token(token)


@pytest.mark.parametrize(
    "model_type",
    ["llama", "gemma3", "llama4", "gpt_oss", "olmo3", "jamba", "falcon", "mpt", "t5", "gpt2"],
)  # fmt: skip
def test_a_config_object_is_read_as_the_file_that_it_saves(model_type: str, tmp_path: Path) -> None:
    """With values that are no JSON: a dtype, labels by whole numbers, the object of a part."""
    config = config_of(model_type, {})
    config.dtype, config.id2label = torch.bfloat16, {0: "no", 1: "yes"}
    config.save_pretrained(tmp_path)
    whole = tmp_path / "whole.json"
    whole.write_text(config.to_json_string(use_diff=False))
    model, saved = read_config(config), read_config(tmp_path / "config.json")
    assert model == read_config(whole)
    assert config_token(config) == config_token(whole)
    # The saved file leaves out what is a default.
    assert dataclasses.replace(model, assumed=()) == dataclasses.replace(saved, assumed=())


@pytest.mark.usefixtures("no_shape_checks")
def test_any_object_with_to_dict_is_a_config_and_its_class_is_none() -> None:
    class Holder:
        def __init__(self, keys: Any) -> None:
            self.keys = keys

        def to_dict(self) -> Any:
            return self.keys

    nested = Holder({"model_type": "gemma3", "text_config": Holder(of_type("gemma3_text"))})
    assert read_config(nested).layer_kinds == read_config(of_type("gemma3_text")).layer_kinds
    for bad, name in ((Holder, "type"), (Holder([LLAMA]), "list"), (Holder(None), "NoneType")):
        assert str(refusal(bad)).endswith(f"got {name}.")
