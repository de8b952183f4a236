"""The models by name: every row of the reference table, as `read_config` reads its config."""

import importlib
import json

import pytest
import torch

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.presets import MODELS, PRESETS
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig

# scheme, heads, head width, rotary width, base, context, window: the table, typed once more by hand.
TABLE = {
    "transformer": ("sinusoidal", 8, 64, None, None, None, None),
    "bert-base": ("learned", 12, 64, None, None, 512, None),
    "gpt-2": ("learned", 12, 64, None, None, 1_024, None),
    "t5-base": ("t5", 12, 64, None, None, None, None),
    "transformer-xl": ("transformer_xl", 16, 64, None, 1e4, None, None),
    "gpt-j-6b": ("rope", 16, 256, 64, 1e4, 2_048, None),
    "gpt-neox-20b": ("rope", 64, 96, 24, 1e4, 2_048, None),
    "llama-1-7b": ("rope", 32, 128, 128, 1e4, 2_048, None),
    "llama-2-7b": ("rope", 32, 128, 128, 1e4, 4_096, None),
    "codellama-7b": ("rope", 32, 128, 128, 1e6, 16_384, None),
    "llama-3-8b": ("rope", 32, 128, 128, 5e5, 8_192, None),
    "llama-3.1-8b": ("rope_llama3", 32, 128, 128, 5e5, 131_072, None),
    "mistral-7b-v0.1": ("rope", 32, 128, 128, 1e4, 32_768, 4_096),
    "mixtral-8x7b": ("rope", 32, 128, 128, 1e6, 32_768, None),
    "gemma-2-9b": ("rope", 16, 256, 256, 1e4, 8_192, None),
    "gemma-3-4b": ("rope_linear", 8, 256, 256, 1e6, 131_072, None),
    "qwen2.5-7b": ("rope_yarn", 28, 128, 128, 1e6, 131_072, None),
    "qwen3-8b": ("rope_yarn", 32, 128, 128, 1e6, 40_960, None),
    "phi-2": ("rope", 32, 80, 32, 1e4, 2_048, None),
    "phi-3-mini-128k": ("rope_longrope", 32, 96, 96, 1e4, 131_072, 262_144),
    "deepseek-v3": ("rope_yarn", 128, 192, 64, 1e4, 163_840, None),
    "bloom-176b": ("alibi", 112, 128, None, None, 2_048, None),
    "mpt-7b": ("alibi", 32, 128, None, None, 2_048, None),
    "falcon-7b": ("rope", 71, 64, 64, 1e4, 2_048, None),
    "olmo-2-7b": ("rope", 32, 128, 128, 5e5, 4_096, None),
    "smollm3-3b": ("rope", 16, 128, 128, 5e6, 65_536, None),
    "gpt-oss-20b": ("rope_yarn", 64, 64, 64, 1.5e5, 131_072, None),
    "modernbert-base": ("rope", 12, 64, 64, 1.6e5, 8_192, None),
}
# Numbers cached per token, all layers: 2 x heads of keys x head width x layers, by hand.
CACHED = {
    "gpt-2": 2 * 768 * 12, "llama-2-7b": 2 * 4_096 * 32, "llama-3.1-8b": 2 * 8 * 128 * 32,
    "mistral-7b-v0.1": 2 * 8 * 128 * 32, "gemma-2-9b": 2 * 8 * 256 * 42,
    "gemma-3-4b": 2 * 4 * 256 * 34, "qwen2.5-7b": 2 * 4 * 128 * 28, "qwen3-8b": 2 * 8 * 128 * 36,
    "phi-3-mini-128k": 2 * 32 * 96 * 32, "deepseek-v3": 576 * 61, "bloom-176b": 2 * 14_336 * 70,
    "falcon-7b": 2 * 64 * 32, "smollm3-3b": 2 * 4 * 128 * 36, "gpt-oss-20b": 2 * 8 * 64 * 24,
    "bert-base": 0, "modernbert-base": 0,
}  # fmt: skip


def test_every_row_of_the_table_is_a_preset_and_no_other() -> None:
    assert list(MODELS) == list(TABLE)
    assert len({one.label for one in MODELS.values()}) == len(MODELS)
    assert set(PRESETS) == {"transformer", "bert", "llama-2", "alibi"}


@pytest.mark.parametrize("name", TABLE)
def test_a_preset_reads_as_the_row_of_the_table(name: str) -> None:
    scheme, heads, head_dim, rotary_dim, base, context, window = TABLE[name]
    model = MODELS[name].read()
    main = model.main
    assert (main.scheme.kind if main.scheme else None) == scheme
    assert (main.heads, main.head_dim, main.rotary_dim) == (heads, head_dim, rotary_dim)
    assert getattr(main.scheme, "base", None) == (base if scheme != "sinusoidal" else 1e4)
    assert (model.context, main.window) == (context, window)
    assert (main.scheme is None) == bool(main.unsupported)
    assert model.ignored == ()
    if MODELS[name].config is not None:
        assert model == read_config(json.dumps(dict(MODELS[name].config or {})))


@pytest.mark.parametrize("name", CACHED)
def test_the_cache_of_a_preset_is_the_product_of_its_sizes(name: str) -> None:
    model = MODELS[name].read()
    assert model.cache_numbers(1) == CACHED[name]
    windows = [kind.window for kind in model.layer_kinds if kind.window]
    if not windows:
        assert model.cache_numbers(1_000) == 1_000 * CACHED[name]


def test_a_window_bounds_the_cache_of_its_layers() -> None:
    gemma = MODELS["gemma-3-4b"].read()
    assert gemma.cache_numbers(131_072) == 2 * 4 * 256 * (5 * 131_072 + 29 * 1_024)


@pytest.mark.parametrize("name", TABLE)
def test_every_preset_says_where_its_numbers_are_from(name: str) -> None:
    preset = MODELS[name]
    assert preset.source
    assert preset.verified == (preset.unverified == "")
    # The rows that the table marks as not checked, or whose source it does not explain.
    assert preset.verified == (
        name
        not in (
            "t5-base",
            "transformer-xl",
            "mistral-7b-v0.1",
            "qwen2.5-7b",
            "mpt-7b",
            "smollm3-3b",
        )
    )


def test_trained_lengths_stand_only_where_the_config_says_them() -> None:
    told = {name: one.read().trained_length for name, one in MODELS.items()}
    assert {name: length for name, length in told.items() if length is not None} == {
        "llama-3.1-8b": 8_192, "qwen2.5-7b": 32_768, "qwen3-8b": 32_768,
        "phi-3-mini-128k": 4_096, "deepseek-v3": 4_096, "gpt-oss-20b": 4_096, "bloom-176b": 2_048,
    }  # fmt: skip


def test_an_optional_scaling_can_be_left_out() -> None:
    for name in ("qwen2.5-7b", "qwen3-8b"):
        preset = MODELS[name]
        assert preset.optional
        assert isinstance(preset.read().main.scheme, RopeYarnConfig)
        plain = preset.read(scaled=False)
        assert plain.main.scheme == RopeConfig(dim=128, base=1e6, layout="half")
        assert plain.trained_length is None
    assert MODELS["llama-3.1-8b"].read(scaled=False) == MODELS["llama-3.1-8b"].read()


def test_schemes_without_a_ladder() -> None:
    assert MODELS["transformer"].read().main.scheme == SinusoidalConfig(dim=512)
    assert MODELS["bert-base"].read().main.scheme == LearnedConfig(dim=768, max_len=512)
    assert MODELS["gpt-2"].read().main.scheme == LearnedConfig(dim=768, max_len=1_024)
    assert MODELS["bloom-176b"].read().main.scheme == AlibiConfig(heads=112)
    decoder, encoder = MODELS["t5-base"].read().layer_kinds
    assert (decoder.name, decoder.scheme) == ("decoder", T5Config(heads=12))
    assert (encoder.name, encoder.scheme) == ("encoder", T5Config(heads=12, bidirectional=True))
    assert (T5Config().buckets, T5Config().max_distance) == (32, 128)
    assert decoder.softmax_scale == encoder.softmax_scale == 1
    odd = {"model_type": "t5", "relative_attention_num_buckets": 33}
    assert read_config(odd).main.scheme is None
    assert "T5Config.buckets must be" in read_config(odd).main.unsupported
    near = {"model_type": "t5", "relative_attention_max_distance": 12}
    assert [one.scheme is None for one in read_config(near).layer_kinds] == [True, False]
    xl = MODELS["transformer-xl"].read()
    assert xl.main.scheme == TransformerXLConfig(dim=1_024, heads=16, base=1e4)
    assert any("clamps distances at 1,000" in note for note in xl.main.notes)


def test_numbers_of_the_scalings_as_published() -> None:
    phi = MODELS["phi-3-mini-128k"].read().main.scheme
    assert isinstance(phi, RopeConfig)
    _, factor = rope_frequencies(phi)
    assert factor == pytest.approx(1.190238118171692, rel=1e-7)  # as its GGUF files carry it
    short, long = rope_frequencies(phi, length=4_096)[0], rope_frequencies(phi, length=4_097)[0]
    plain = 1e4 ** (-torch.arange(0, 96, 2, dtype=torch.float64) / 96)
    assert (plain / short)[0].item() == pytest.approx(1.1)
    assert (plain / long)[-1].item() == pytest.approx(64.76000213623047)
    deepseek = MODELS["deepseek-v3"].read().main
    assert isinstance(deepseek.scheme, RopeConfig)
    assert rope_frequencies(deepseek.scheme)[1] == 1  # g / g
    assert deepseek.softmax_scale * 192**0.5 == pytest.approx(1.8739, abs=5e-5)
    smol = {kind.name: kind.layers for kind in MODELS["smollm3-3b"].read().layer_kinds}
    assert smol["no_rope"] == tuple(range(3, 36, 4))
    gemma = {kind.name: kind for kind in MODELS["gemma-3-4b"].read().layer_kinds}
    assert gemma["full_attention"].layers == (5, 11, 17, 23, 29)
    assert getattr(gemma["sliding_attention"].scheme, "base", None) == 1e4
    modern = {kind.name: kind for kind in MODELS["modernbert-base"].read().layer_kinds}
    assert modern["full_attention"].layers == tuple(range(0, 22, 3))
    assert modern["sliding_attention"].window == 129  # 64 to either side, and itself


PLACES = {
    "llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "gemma2": "Gemma2",
    "gemma3": "Gemma3", "qwen2": "Qwen2", "qwen3": "Qwen3", "phi": "Phi", "phi3": "Phi3",
    "gpt_neox": "GPTNeoX", "deepseek_v3": "DeepseekV3", "falcon": "Falcon", "olmo2": "Olmo2",
    "smollm3": "SmolLM3", "gpt_oss": "GptOss", "modernbert": "ModernBert",
}  # fmt: skip
WITH_MODULE = [n for n, one in MODELS.items() if (one.config or {}).get("model_type") in PLACES]


@pytest.mark.parametrize("length", [None, 4_096, 4_097])  # LongRoPE's other list begins there
@pytest.mark.parametrize("name", WITH_MODULE)
def test_a_preset_has_the_frequencies_that_transformers_gives_its_config(
    name: str, length: int | None
) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    config = json.loads(json.dumps(dict(MODELS[name].config or {})))
    place = config["model_type"]
    built = transformers.CONFIG_MAPPING[place](**config).get_text_config()
    module = importlib.import_module(f"transformers.models.{place}.modeling_{place}")
    rotary = getattr(module, PLACES[place] + "RotaryEmbedding")(built)
    kinds = [k for k in MODELS[name].read().layer_kinds if isinstance(k.scheme, RopeConfig)]
    assert kinds
    for kind in kinds:
        assert isinstance(kind.scheme, RopeConfig)
        own = f"{kind.name}_inv_freq"
        if length is not None:  # a text of that length is read, as far as its last token
            by_layer = {"layer_type": kind.name} if hasattr(rotary, own) else {}
            rotary(torch.zeros(1, 1, 8), torch.tensor([[length - 1]]), **by_layer)
        theirs = getattr(rotary, own, None)
        theirs = rotary.inv_freq if theirs is None else theirs
        bits, factor = rope_frequencies(kind.scheme, length=length, mode="transformers")
        assert torch.equal(bits, theirs)
        own = f"{kind.name}_attention_scaling"
        assert factor == getattr(rotary, own if hasattr(rotary, own) else "attention_scaling")


def test_gptj_has_the_frequencies_of_transformers_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modeling = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    scheme = MODELS["gpt-j-6b"].read().main.scheme
    assert isinstance(scheme, RopeConfig)
    # Its table is of sines alone: without them, position 1 of it holds the frequencies themselves.
    monkeypatch.setattr(torch, "sin", lambda angles: angles)
    theirs = modeling.create_sinusoidal_positions(2, 64)[1, :32]
    monkeypatch.undo()
    assert theirs[0] == 1
    bits, factor = rope_frequencies(scheme, mode="transformers")
    assert torch.equal(bits, theirs)
    assert factor == 1


def test_no_preset_with_a_ladder_is_left_out_of_these_comparisons() -> None:
    ladders = {n for n in MODELS if isinstance(MODELS[n].read().main.scheme, RopeConfig)}
    assert {*WITH_MODULE, "gpt-j-6b"} == ladders
