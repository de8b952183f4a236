"""What `read_config` refuses, and that it says which key, what was found and what is accepted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import limits
from posenc.errors import ConfigFileError
from posenc.interop import read_config
from posenc.presets import MODELS

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4_096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
    "rope_theta": 5e5,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8_192,
}  # fmt: skip
LISTS = {
    "rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64,
    "original_max_position_embeddings": 4_096,
}  # fmt: skip


def scaled(**block: Any) -> dict[str, Any]:
    return LLAMA | {"rope_scaling": block}


def refusal(source: Any) -> ConfigFileError:
    with pytest.raises(ConfigFileError) as caught:
        read_config(source)
    assert isinstance(caught.value, posenc.PosencError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message.endswith(".")
    assert len(message) < 1_200
    assert "\n" not in message
    return caught.value


# One line each: the config, the key at fault, words of the message.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "model_type", "is missing"),
    ({"model_type": 7}, "model_type", "must be a text, got 7"),
    ({"model_type": "mamba"}, "model_type", '"mamba" is not known, and nothing is guessed; to read it'),
    ({"model_type": "new", "rope_theta": 1e4}, "model_type", 'use --assume llama (in Python, assume='),
    (LLAMA | {"text_config": 3}, "text_config", "must be an object in braces or null, got 3"),
    (LLAMA | {"hidden_size": "4096"}, "hidden_size", "a whole number from 1 to 1,048,576, got '4096'"),
    (LLAMA | {"hidden_size": 4_096.0}, "hidden_size", "whole number"),
    (LLAMA | {"hidden_size": True}, "hidden_size", "got True"),
    (LLAMA | {"hidden_size": 4_095}, "num_attention_heads", "must divide hidden_size 4,095"),
    (LLAMA | {"num_attention_heads": 0}, "num_attention_heads", "from 1 to 1,024, got 0"),
    (LLAMA | {"num_attention_heads": 10**30}, "num_attention_heads", "from 1 to 1,024"),
    (LLAMA | {"num_attention_heads": [32]}, "num_attention_heads", "got [32]"),
    (LLAMA | {"num_key_value_heads": 7}, "num_key_value_heads", "must divide the 32 query heads, got 7"),
    (LLAMA | {"num_key_value_heads": 64}, "num_key_value_heads", "must divide"),
    (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers", "from 1 to 4,096"),
    (LLAMA | {"n_layer": 31}, "n_layer", "num_hidden_layers says 32"),
    (LLAMA | {"head_dim": 3}, "head_dim", "must be even for RoPE, got 3"),
    (LLAMA | {"head_dim": 0}, "head_dim", "from 2 to"),
    (LLAMA | {"max_position_embeddings": -1}, "max_position_embeddings", "from 2 to"),
    (LLAMA | {"rope_theta": 1}, "rope_theta", "greater than 1 and at most 1e+12, got 1"),
    (LLAMA | {"rope_theta": -1e4}, "rope_theta", "greater than 1"),
    (LLAMA | {"rope_theta": "10000"}, "rope_theta", "got '10000'"),
    (LLAMA | {"rope_theta": float("nan")}, "rope_theta", "finite"),
    (LLAMA | {"rope_theta": float("inf")}, "rope_theta", "finite"),
    (LLAMA | {"rope_theta": 1e300}, "rope_theta", "at most 1e+12"),
    (LLAMA | {"rope_scaling": "linear"}, "rope_scaling", "must be an object"),
    (LLAMA | {"rope_parameters": [1]}, "rope_parameters", "must be an object"),
    (scaled(type="warp", factor=2), "rope_scaling.type", "must be one of default, linear, dynamic"),
    (scaled(rope_type=4), "rope_scaling.rope_type", "must be a text"),
    (scaled(factor=2.0), "rope_scaling.rope_type", "is missing beside factor"),
    (scaled(type="linear", rope_type="yarn", factor=2), "rope_scaling.type", "they must agree"),
    (scaled(type="linear"), "rope_scaling.factor", "is missing; it must be a number from 1"),
    (scaled(type="linear", factor=0.5), "rope_scaling.factor", "from 1 to 4096, got 0.5"),
    (scaled(type="linear", factor="8"), "rope_scaling.factor", "got '8'"),
    (scaled(type="linear", factor=1e9), "rope_scaling.factor", "from 1 to 4096"),
    (scaled(type="linear", factor=2, rope_theta=1e4), "rope_theta", "rope_scaling.rope_theta says 10000"),
    (scaled(**YARN | {"beta_fast": 0.5, "beta_slow": 1}), "rope_scaling.beta_fast", "at least beta_slow"),
    (scaled(**YARN | {"truncate": "no"}), "rope_scaling.truncate", "true or false, got 'no'"),
    (scaled(**YARN | {"attention_factor": 0}), "rope_scaling.attention_factor", "from 0.01 to 100, got 0"),
    (scaled(**YARN | {"attention_factor": 1e-200}), "rope_scaling.attention_factor", "from 0.01 to 100"),
    (scaled(**LISTS | {"attention_factor": 101}), "rope_scaling.attention_factor", "from 0.01 to 100"),
    (scaled(**YARN | {"beta_slow": 1e-320}), "rope_scaling.beta_slow", "from 1e-06 to 1e+06"),
    (scaled(**YARN | {"beta_fast": 1e-320}), "rope_scaling.beta_fast", "from 1e-06 to 1e+06"),
    (scaled(**LLAMA3 | {"low_freq_factor": 1e-320}), "rope_scaling.low_freq_factor", "from 1e-06"),
    (scaled(**YARN | {"mscale": 11, "mscale_all_dim": 1}), "rope_scaling.mscale", "from 0 to 10, got 11"),
    (scaled(**YARN | {"original_max_position_embeddings": "4k"}),
     "rope_scaling.original_max_position_embeddings", "whole number"),
    (scaled(**YARN) | {"original_max_position_embeddings": 4_096},
     "original_max_position_embeddings", "says 4,096, but"),
    (scaled(rope_type="yarn", original_max_position_embeddings=32_768), "rope_scaling.factor",
     "is missing; it must be a number from 1"),
    (scaled(rope_type="yarn"), "rope_scaling.factor", "is missing; it must be a number from 1"),
    (scaled(**YARN | {"factor": None, "original_max_position_embeddings": 10**6}),
     "rope_scaling.factor", "is below 1"),
    (scaled(**LLAMA3 | {"low_freq_factor": 4.0}), "rope_scaling.high_freq_factor", "must be greater"),
    (scaled(**LLAMA3 | {"low_freq_factor": None}), "rope_scaling.low_freq_factor", "is missing"),
    (scaled(**LISTS | {"short_factor": [1.0] * 63}), "rope_scaling.short_factor", "64 numbers, got 63"),
    (scaled(**LISTS | {"long_factor": 2.0}), "rope_scaling.long_factor", "a list of 64 numbers, got 2.0"),
    (scaled(**LISTS | {"long_factor": None}), "rope_scaling.long_factor", "is missing"),
    (scaled(**LISTS | {"long_factor": [2.0] * 63 + ["x"]}), "rope_scaling.long_factor[63]", "got 'x'"),
    (scaled(**LISTS | {"long_factor": [0.0] * 64}), "rope_scaling.long_factor[0]", "got 0.0"),
    (scaled(type="mrope"), "rope_scaling.mrope_section", "must list counts that sum to 64"),
    (scaled(type="mrope", mrope_section=[16, 24, 25]), "rope_scaling.mrope_section", "must sum to 64"),
    (scaled(type="mrope", mrope_section=[16, -1, 49]), "rope_scaling.mrope_section", "counts from 0"),
    (scaled(type="mrope", mrope_section=64), "rope_scaling.mrope_section", "must be a list"),
    (LLAMA | {"partial_rotary_factor": 0.5}, "partial_rotary_factor", "rotates the whole head"),
    ({"model_type": "phi", "partial_rotary_factor": 1.5}, "partial_rotary_factor", "at most 1, got 1.5"),
    ({"model_type": "phi", "partial_rotary_factor": 0.01}, "partial_rotary_factor", "rotates 0 of 64"),
    ({"model_type": "phi", "partial_rotary_factor": 0.05}, "partial_rotary_factor", "rotates 3 of 64"),
    ({"model_type": "gpt_neox", "rotary_pct": 0.25, "partial_rotary_factor": 0.5},
     "partial_rotary_factor", "rotary_pct says 0.25"),
    ({"model_type": "gptj", "rotary_dim": 512}, "rotary_dim", "at most the head width 256"),
    ({"model_type": "gptj", "rotary_dim": 7}, "rotary_dim", "multiple of 2"),
    ({"model_type": "gpt_neox", "head_dim": 64}, "head_dim", "must be 96, which is hidden size / heads"),
    ({"model_type": "mpt", "attn_config": {"attn_type": "grouped_query_attention"}},
     "attn_config.attn_type", "must be one of multihead_attention"),
    ({"model_type": "smollm3", "no_rope_layers": [1, 0]}, "no_rope_layers", "36 entries"),
    ({"model_type": "smollm3", "no_rope_layers": [True] * 36}, "no_rope_layers[0]", "one of 0, 1"),
    ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types", "26 entries"),
    ({"model_type": "gemma2", "layer_types": ["linear_attention"] * 26}, "layer_types[0]",
     "must be one of full_attention, sliding_attention"),
    ({"model_type": "gemma2", "sliding_window": None, "layer_types": ["sliding_attention"] * 26},
     "layer_types", "no window is given"),
    ({"model_type": "mistral", "sliding_window": 0}, "sliding_window", "from 1"),
    ({"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 1e6}}, "rope_parameters",
     "one entry per kind of layer"),
    ({"model_type": "gemma3", "text_config": {"rope_theta": 0}}, "text_config.rope_theta", "got 0"),
    ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": 3, "sliding_attention": {}}},
     "rope_parameters.full_attention", "must be an object"),
    (LLAMA | {"rope_parameters": {"sliding_attention": {"rope_theta": 5e5}}},
     "rope_parameters.full_attention", "is missing"),
    ({"model_type": "deepseek_v3", "head_dim": 56}, "head_dim", "qk_rope_head_dim 64"),
    ({"model_type": "phi3", "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling.type",
     "must be one of default, longrope, all that transformers takes for this model, got 'linear'"),
    ({"model_type": "phi3", "rope_parameters": LISTS | {
        "short_factor": [1.0] * 48, "long_factor": [2.0] * 48,
        "original_max_position_embeddings": 512}},
     "rope_parameters.original_max_position_embeddings", "says 512, but without one beside"),
    ({"model_type": "deepseek_v3", "kv_lora_rank": "512"}, "kv_lora_rank", "got '512'"),
    ({"model_type": "falcon", "alibi": "yes"}, "alibi", "true or false"),
    ({"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads",
     "must divide the 71"),
    ({"model_type": "roberta", "max_position_embeddings": 2}, "max_position_embeddings", "more than"),
    ({"model_type": "bert", "position_embedding_type": "wavy"}, "position_embedding_type", "absolute"),
    ({"model_type": "gpt2", "n_positions": 1_024, "n_ctx": 512}, "n_ctx", "n_positions says 1024"),
    ({"model_type": "bloom", "n_head": 2_000}, "n_head", "from 1 to 1,024"),
    ({"model_type": "mpt", "attn_config": []}, "attn_config", "must be an object"),
    ({"model_type": "mpt", "attn_config": {"alibi": 1}}, "attn_config.alibi", "true or false"),
    ({"model_type": "t5", "relative_attention_num_buckets": 1}, "relative_attention_num_buckets", "2"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "key", "words"), REFUSED, ids=lambda one: str(one)[:60])
def test_a_refusal_names_the_key_and_what_is_accepted(
    config: dict[str, Any], key: str, words: str
) -> None:
    error = refusal(config)
    assert error.key == key
    assert key in str(error)
    assert words in str(error)


def test_two_generations_may_stand_together_only_where_they_agree() -> None:
    both = LLAMA | {"rope_scaling": dict(LLAMA3), "rope_parameters": LLAMA3 | {"rope_theta": 5e5}}
    assert read_config(both).layer_kinds == read_config(scaled(**LLAMA3)).layer_kinds
    both["rope_scaling"] = LLAMA3 | {"factor": 32.0}
    error = refusal(both)
    assert error.key == "rope_scaling"
    assert "factor 32.0 against 8.0" in str(error)
    both["rope_scaling"] = YARN
    assert "RoPE YaRN against RoPE Llama 3" in str(refusal(both))


def test_no_length_is_read_as_the_trained_one_unless_the_config_says_so() -> None:
    assert read_config(LLAMA).trained_length is None
    dynamic = read_config(scaled(type="dynamic", factor=2.0))
    assert dynamic.trained_length is None
    assert any("begins at 131,072" in one for one in dynamic.assumed)
    unsaid = {
        key: value for key, value in YARN.items() if key != "original_max_position_embeddings"
    }
    model = read_config(scaled(**unsaid))
    assert model.trained_length is None
    assert any("may have been trained on another length" in one for one in model.assumed)
    assert read_config(scaled(**YARN)).trained_length == 32_768


def test_what_is_absent_is_said_to_be_assumed_with_its_source() -> None:
    assert read_config({**LLAMA, "head_dim": 128}).assumed == ()
    model = read_config({"model_type": "mistral"})
    assert (
        "num_key_value_heads is absent: 8 is taken, the default of transformers' MistralConfig."
        in (model.assumed)
    )
    null = read_config({"model_type": "mistral", "num_key_value_heads": None})
    assert null.kv_heads == 32  # null has always meant one per query head


def test_an_alias_reads_as_the_type_it_stands_for() -> None:
    new = read_config(scaled(**LISTS)).main.scheme
    old = {key: value for key, value in LISTS.items() if key != "rope_type"} | {"type": "su"}
    assert read_config(scaled(**old)).main.scheme == new
    phi = {"model_type": "phi3", "max_position_embeddings": 131_072, "rope_scaling": {
        "type": "yarn", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}}  # fmt: skip
    assert read_config(phi).main.scheme.kind == "rope_longrope"


# The file itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON: "),
        ("[1, 2]", "must be one JSON object in braces, got a list"),
        ('"llama"', "got a text"),
        ("{} {}", "is not JSON"),
        ('{"model_type": "llama", "rope_theta": NaN}', "holds NaN"),
        ('{"model_type": "llama", "rope_theta": -Infinity}', "holds -Infinity"),
        ('{"model_type": "llama", "rope_theta": 1e999}', "too large"),
        ('{"model_type": "llama", "rope_theta": 1' + 5_000 * "0" + "}", "more than 40 digits"),
        ('{"a": ' * 40 + "1" + "}" * 40, "more than 32 deep"),
        ("[" * 100_000, "more than 32 deep"),
        ('{"a":' * 100_000, "more than 32 deep"),
        ('{"model_type": "llama", "model_type": "bert"}', "model_type stands twice"),
        ('{"model_type": "llama", "x": {"a": 1, "a": 1}}', "a stands twice"),
        ('{"model_type": "llama", "x": "' + 2**21 * "y" + '"}', "longer than 1,048,576"),
        ('{"model_type": "llama", "x": "' + 10**7 * "y" + '"}', "longer than 1,048,576"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_text_that_is_no_config_is_refused_by_name(text: str, words: str) -> None:
    assert words in str(refusal(text))
    assert words in str(refusal(text.encode()))


def test_a_text_full_of_escaped_quotes_is_refused_in_linear_time() -> None:
    """In a process of its own, as a search that takes the square of the length would not come back."""
    script = """
from posenc.errors import ConfigFileError
from posenc.interop.models.json_text import read_object
for end in ("", chr(92), '"', "[" * 40):
    try:
        read_object('"' + (chr(92) + '"') * (2**19 - 50) + end)
    except ConfigFileError as error:
        print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    said = ran.stdout.splitlines()
    assert ["Unterminated" in line for line in said] == [True, True, False, True]
    assert "got a text" in said[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": "' + "[" * 99 + '\\"' + "{" * 99 + '"}', "model_type is missing"),
        ('{"a": "\\\\"' + ', "b": "' + "[" * 99, "Unterminated string"),
        ('{"a": "\\\\", "b": ' + "[" * 40, "more than 32 deep"),
        ('{"a": ' + "[]," * 99, "is not JSON"),
    ],
    ids=["escaped", "open", "nested", "beside"],
)
def test_only_brackets_outside_of_texts_count_as_depth(text: str, words: str) -> None:
    assert words in str(refusal(text))


@pytest.mark.usefixtures("no_shape_checks")
def test_other_sources_are_refused_by_name(tmp_path: Path) -> None:
    for source in (None, 3, [LLAMA], object()):
        assert "a dict, JSON text, bytes or the path" in str(refusal(source))
    assert "is a directory" in str(refusal(tmp_path))
    assert "is a directory" in str(refusal(str(tmp_path)))
    missing = tmp_path / "secret-place" / "config.json"
    for source in (missing, str(missing)):
        message = str(refusal(source))
        assert "there is no file config.json" in message
        assert "secret-place" not in message
    assert "not UTF-8 text: byte 1" in str(refusal(b"{\xff}"))
    assert "cannot be read" in str(refusal("a\0b.json"))
    os.mkfifo(tmp_path / "pipe.json")
    assert "no regular file" in str(refusal(tmp_path / "pipe.json"))
    (tmp_path / "large.json").write_bytes(b" " * (limits.MAX_CONFIG_BYTES + 1))
    assert "longer than" in str(refusal(tmp_path / "large.json"))
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_config(tmp_path / "marked.json") == read_config(LLAMA)


def test_bytes_are_never_taken_for_a_path(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(str(path)).heads == 32
    assert "is not JSON" in str(refusal(str(path).encode()))


def test_a_dict_may_hold_what_transformers_puts_into_it() -> None:
    torch = pytest.importorskip("torch")
    record = LLAMA | {"id2label": {0: "a", 1: "b"}, "dtype": torch.float16, "x": (1, 2)}
    assert read_config(record) == read_config(LLAMA)
    assert "keys must be text" in str(refusal(LLAMA | {"x": {None: 1}}))
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(50):
        inner["x"] = {}
        inner = inner["x"]
    assert "more than 32 deep" in str(refusal(LLAMA | deep))
    assert refusal(LLAMA | {"rope_theta": torch.tensor(1e4)}).key == "rope_theta"


# Any change of any config ----------------------------------------------------------------------------

CONFIGS = [dict(one.config) for one in MODELS.values() if one.config] + [
    scaled(**YARN), scaled(**LLAMA3), scaled(**LISTS), scaled(type="mrope", mrope_section=[16, 24, 24]),
    {"model_type": "gemma4_text"}, {"model_type": "qwen2_vl"}, {"model_type": "gemma3"},
    {"model_type": "gpt_neox", "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    LLAMA | {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
]  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.integers(), st.floats(),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 64, 128, 4_096, 131_072, 10**50, -1, "", "yarn", "linear"]),
    st.text(max_size=8), st.lists(st.integers(0, 90), max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.sampled_from(["dynamic", "longrope", "llama3", "proportional", "mrope", "default", "su"]),
    st.builds(lambda one, count: [one] * count, st.sampled_from([1.0, 2, "full_attention", 0]),
              st.sampled_from([26, 32, 36, 48, 64])),
)  # fmt: skip
NAMES = sorted({key for one in CONFIGS for key in one} | {
    "rope_parameters", "rope_scaling", "head_dim", "layer_types", "no_rope_layers", "sliding_window",
    "partial_rotary_factor", "original_max_position_embeddings", "text_config", "use_sliding_window",
    "global_head_dim", "per_layer_config", "attention_k_eq_v", "num_global_key_value_heads",
})  # fmt: skip
INNER = ["rope_type", "type", "factor", "rope_theta", "mrope_section", "short_factor", "long_factor",
         "original_max_position_embeddings", "beta_fast", "mscale", "partial_rotary_factor",
         "full_attention", "sliding_attention", "low_freq_factor", "attention_factor"]  # fmt: skip


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """A known config with a few keys, here or one level down, removed, moved or overwritten."""
    record = json.loads(json.dumps(draw(st.sampled_from(CONFIGS))))
    for _ in range(draw(st.integers(1, 4))):
        place = record
        inner = [key for key, value in record.items() if isinstance(value, dict)]
        names = NAMES
        if inner and draw(st.booleans()):
            place = record[draw(st.sampled_from(inner))]
            names = INNER + NAMES
        name = draw(st.sampled_from([*place, *names]))
        if draw(st.integers(0, 3)) == 0:
            place.pop(name, None)
        elif name in ("rope_parameters", "rope_scaling", "full_attention"):
            place[name] = draw(st.dictionaries(st.sampled_from(INNER), VALUES, max_size=5))
        else:
            place[name] = draw(VALUES)
    return record


@settings(max_examples=400, deadline=None)
@given(changed())
def test_a_changed_config_reads_or_is_refused_by_the_name_of_a_key(record: dict[str, Any]) -> None:
    refused: ConfigFileError | None = None
    try:
        model = read_config(record)
    except ConfigFileError as error:
        refused = error
    if refused is not None:
        assert refused.key
        assert refused.key.split("[")[0] in str(refused)
        assert len(str(refused)) < 1_200
        return
    assert model.layer_kinds
    for kind in model.layer_kinds:
        assert (kind.scheme is None) == bool(kind.unsupported)
        assert kind.layers
        assert hash(kind) == hash(kind)
    again = read_config(json.dumps(record))
    assert again == model


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_reads_or_is_refused(source: bytes | str) -> None:
    with pytest.raises(ConfigFileError):
        read_config(source)
