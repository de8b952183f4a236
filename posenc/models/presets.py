"""Well-known models by name: the part of their config.json that bears on position, with its source.

A context is what the config says the model takes; it is not the length of training. That is
`original_max_position_embeddings`, or else the `trained_length` of a preset whose makers published it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from posenc.models.families import VERSION
from posenc.models.layers import Sizes
from posenc.models.model_config import ModelConfig, uniform_model
from posenc.models.read_config import read_config
from posenc.schemes.base import SchemeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.transformer_xl import TransformerXLConfig

# LongRoPE factors of the 48 pairs of Phi-3-mini-128k, found by search on it (Ding et al. 2024, arXiv
# 2402.13753). As in its config.json since June 2024; an evaluation script of its makers has both lists.
_PHI_3_MINI_LONG = torch.tensor((
    1.07, 1.12, 1.15, 1.42, 1.5699999, 1.8, 2.1299999, 2.1299999, 3.01, 5.9100003, 6.9500003,
    9.070001, 9.93, 10.71, 11.13, 14.61, 15.409999, 19.81, 37.28, 38.28, 38.6, 40.120003, 46.200005,
    50.940006, 53.660007, 54.93739, 56.89739, 57.287388, 59.987385, 60.867386, 60.887386, 61.717392,
    62.917393, 62.957394, 63.417393, 63.817394, 63.837395, 63.897396, 63.937397, 64.0674, 64.11435,
    64.12435, 64.15435, 64.19435, 64.244354, 64.574356, 64.69, 64.76,
), dtype=torch.float32, device="cpu").tolist()  # fmt: skip
_PHI_3_MINI_SHORT = (
    1.1, 1.1, 1.1, 1.3000000000000003, 1.3500000000000003, 1.3500000000000003,
    1.4000000000000004, 1.5500000000000005, *(17 * (2.000000000000001,)),
    *(6 * (2.0500000000000007,)), 2.1000000000000005, 2.1000000000000005, 2.1500000000000004,
    *(5 * (2.25,)), 2.3999999999999995, 2.4499999999999993, 2.499999999999999,
    2.6999999999999984, 2.6999999999999984, 2.7499999999999982, 2.799999999999998,
    2.8999999999999977, 3.049999999999997,
)  # fmt: skip


_TRANSFORMERS = f"the defaults of Hugging Face transformers {VERSION}"
_LITGPT = "LitGPT's list of models"
_FILE = "the model's config.json"


@dataclass(frozen=True, kw_only=True)
class ModelPreset:
    """One model.

    source: where its numbers were checked. unverified: which of them were not, "" where all were.
    config: what its config.json says of position. model: the model itself, where there is no such file.
    optional: whether the config's scaling is one that its makers recommend for long texts only, and
    that the published file leaves out. note: what else to know, "" for nothing.
    trained_length: tokens of the longest training texts, where the makers published it and the config
    does not have it. trained_source: where they did.
    """

    label: str
    source: str
    unverified: str = ""
    config: Mapping[str, Any] | None = None
    optional: bool = False
    note: str = ""
    trained_length: int | None = None
    trained_source: str = ""
    model: ModelConfig | None = None

    def read(self, *, scaled: bool = True) -> ModelConfig:
        """Return the model; without its optional scaling if not `scaled`."""
        if self.model is not None:
            return self.model
        config = dict(self.config or {})
        if self.optional and not scaled:
            del config["rope_scaling"]
        return read_config(config)


def _model(
    label: str, source: str, /, *, about: Mapping[str, Any] | None = None, **config: Any
) -> ModelPreset:
    return ModelPreset(label=label, source=source, config=config, **(about or {}))


def _paper(
    label: str,
    source: str,
    scheme: SchemeConfig,
    sizes: Sizes,
    unverified: str = "",
    notes: tuple[str, ...] = (),
) -> ModelPreset:
    """Return a model that is known from a paper and its code, not from a config.json."""
    note = "This model has no config.json; its numbers are those of its paper and code."
    model = uniform_model("", sizes, scheme, layer_notes=notes, notes=(note,))
    return ModelPreset(label=label, source=source, unverified=unverified, model=model)


_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "rope_theta",
)  # fmt: skip


def _llama(model_type: str, *sizes: float, **more: Any) -> dict[str, Any]:
    """Return a config with Llama's keys. sizes: in the order of _KEYS."""
    return {"model_type": model_type, **dict(zip(_KEYS, sizes, strict=True)), **more}


_QWEN_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
_OPTIONAL = (
    "Its makers recommend the scaling for texts past 32,768 tokens; the published file has none."
)

MODELS: Mapping[str, ModelPreset] = {
    "transformer": _paper(
        "Transformer base 2017", "Vaswani et al. 2017, arXiv 1706.03762, sections 3.1 and 3.5",
        SinusoidalConfig(dim=512),
        Sizes(hidden_size=512, layers=6, heads=8, kv_heads=8, head_dim=64),
    ),
    "bert-base": _model(
        "BERT-base", _TRANSFORMERS, model_type="bert", hidden_size=768, num_hidden_layers=12,
        num_attention_heads=12, max_position_embeddings=512,
    ),
    "gpt-2": _model(
        "GPT-2 small", _TRANSFORMERS, model_type="gpt2", n_embd=768, n_layer=12, n_head=12,
        n_positions=1_024,
    ),
    "t5-base": _model(
        "T5-base", f"{_TRANSFORMERS}, for the buckets and the distance",
        about={"unverified": "its sizes: width, heads and layers"},
        model_type="t5", d_model=768, d_kv=64, num_heads=12, num_layers=12,
        num_decoder_layers=12, relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
    ),
    "transformer-xl": _paper(
        "Transformer-XL WT103 large", "the original repository (Dai et al. 2019, arXiv 1901.02860)",
        TransformerXLConfig(dim=1_024, heads=16),
        Sizes(hidden_size=1_024, layers=18, heads=16, kv_heads=16, head_dim=64),
        unverified="its number of layers",
        notes=(
            "Every layer has a projection of its own; one, drawn at random, is shown.",
            "Its evaluation clamps distances at 1,000; here none is.",
        ),
    ),
    "gpt-j-6b": _model(
        "GPT-J-6B", _TRANSFORMERS, model_type="gptj", n_embd=4_096, n_layer=28, n_head=16,
        rotary_dim=64, n_positions=2_048,
    ),
    "gpt-neox-20b": _model(
        "GPT-NeoX-20B", _TRANSFORMERS, model_type="gpt_neox", hidden_size=6_144,
        num_hidden_layers=44, num_attention_heads=64, rotary_pct=0.25, rotary_emb_base=10_000,
        max_position_embeddings=2_048,
    ),
    "llama-1-7b": _model(
        "LLaMA-1-7B", _TRANSFORMERS, **_llama("llama", 4_096, 32, 32, 32, 2_048, 1e4)
    ),
    "llama-2-7b": _model(
        "LLaMA-2-7B", f"{_TRANSFORMERS}; {_LITGPT}",
        **_llama("llama", 4_096, 32, 32, 32, 4_096, 1e4),
    ),
    "codellama-7b": _model(
        "CodeLlama-7B", _LITGPT, **_llama("llama", 4_096, 32, 32, 32, 16_384, 1e6)
    ),
    "llama-3-8b": _model("Llama-3-8B", _LITGPT, **_llama("llama", 4_096, 32, 32, 8, 8_192, 5e5)),
    "llama-3.1-8b": _model(
        "Llama-3.1-8B", f"{_FILE}; {_LITGPT}",
        **_llama("llama", 4_096, 32, 32, 8, 131_072, 5e5, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8_192}),
    ),
    "mistral-7b-v0.1": _model(
        "Mistral-7B-v0.1", _LITGPT,
        about={
            "unverified": "its context, for which LitGPT gives the window of 4,096",
            "note": "Its config.json says 32,768 tokens, which is not what it was trained on.",
            "trained_length": 8_192,
            "trained_source": "Jiang et al. 2023, arXiv 2310.06825, table 1",
        },
        **_llama("mistral", 4_096, 32, 32, 8, 32_768, 1e4, sliding_window=4_096),
    ),
    "mixtral-8x7b": _model(
        "Mixtral-8x7B", f"{_LITGPT}; {_TRANSFORMERS}",
        **_llama("mixtral", 4_096, 32, 32, 8, 32_768, 1e6, sliding_window=None),
    ),
    "gemma-2-9b": _model(
        "Gemma-2-9B", f"{_LITGPT}; {_TRANSFORMERS}",
        **_llama("gemma2", 3_584, 42, 16, 8, 8_192, 1e4, head_dim=256, sliding_window=4_096,
                 query_pre_attn_scalar=256),
    ),
    "gemma-3-4b": _model(
        "Gemma-3-4B", f"{_LITGPT}; {_TRANSFORMERS}", model_type="gemma3",
        text_config=_llama(
            "gemma3_text", 2_560, 34, 8, 4, 131_072, 1e6, head_dim=256, sliding_window=1_024,
            sliding_window_pattern=6, query_pre_attn_scalar=256, rope_local_base_freq=1e4,
            rope_scaling={"rope_type": "linear", "factor": 8.0}),
    ),
    "qwen2.5-7b": _model(
        "Qwen2.5-7B", f"{_LITGPT}, without the scaling",
        about={
            "optional": True, "note": _OPTIONAL, "unverified": "the scaling, YaRN by 4",
            "trained_length": 32_768,
            "trained_source": "Qwen team 2024, arXiv 2412.15115, section 3.3",
        },
        **_llama("qwen2", 3_584, 28, 28, 4, 131_072, 1e6, rope_scaling=_QWEN_YARN),
    ),
    "qwen3-8b": _model(
        "Qwen3-8B", f"{_LITGPT}; {_TRANSFORMERS}",
        about={
            "optional": True, "note": _OPTIONAL, "trained_length": 32_768,
            "trained_source": "Qwen team 2025, arXiv 2505.09388, section 3.2",
        },
        **_llama("qwen3", 4_096, 36, 32, 8, 40_960, 1e6, head_dim=128,
                 rope_scaling=_QWEN_YARN),
    ),
    "phi-2": _model(
        "Phi-2", _LITGPT, **_llama("phi", 2_560, 32, 32, 32, 2_048, 1e4, partial_rotary_factor=0.4),
    ),
    "phi-3-mini-128k": _model(
        "Phi-3-mini-128k", f"{_FILE}, as quoted by others; {_LITGPT}, for the sizes",
        **_llama("phi3", 3_072, 32, 32, 32, 131_072, 1e4, sliding_window=262_144,
                 original_max_position_embeddings=4_096, rope_scaling={
                     "type": "longrope", "short_factor": list(_PHI_3_MINI_SHORT),
                     "long_factor": _PHI_3_MINI_LONG}),
    ),
    "deepseek-v3": _model(
        "DeepSeek-V3", f"{_FILE}; {_TRANSFORMERS}",
        **_llama("deepseek_v3", 7_168, 61, 128, 128, 163_840, 1e4, qk_rope_head_dim=64,
                 qk_nope_head_dim=128, kv_lora_rank=512, rope_scaling={
                     "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1,
                     "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4_096}),
    ),
    "bloom-176b": _model(
        "BLOOM-176B", f"{_FILE}; {_TRANSFORMERS}", model_type="bloom", n_embed=14_336,
        n_layer=70, num_attention_heads=112, seq_length=2_048,
    ),
    "mpt-7b": _model(
        "MPT-7B", f"{_TRANSFORMERS}, for the bias", about={"unverified": "its sizes"},
        model_type="mpt", d_model=4_096, n_heads=32, n_layers=32, max_seq_len=2_048,
        attn_config={"alibi": True, "alibi_bias_max": 8},
    ),
    "falcon-7b": _model(
        "Falcon-7B", f"{_LITGPT}; {_TRANSFORMERS}", model_type="falcon", hidden_size=4_544,
        num_hidden_layers=32, num_attention_heads=71, multi_query=True,
        new_decoder_architecture=False, alibi=False, max_position_embeddings=2_048, rope_theta=1e4,
    ),
    "olmo-2-7b": _model("OLMo-2-7B", _LITGPT, **_llama("olmo2", 4_096, 32, 32, 32, 4_096, 5e5)),
    "smollm3-3b": _model(
        "SmolLM3-3B", f"{_TRANSFORMERS}, for the layers and sizes",
        about={"unverified": "base and context, which are as its makers describe the model"},
        **_llama("smollm3", 2_048, 36, 16, 4, 65_536, 5e6,
                 no_rope_layers=[1, 1, 1, 0] * 9, use_sliding_window=False),
    ),
    "gpt-oss-20b": _model(
        "gpt-oss-20b", f"{_TRANSFORMERS}; the original repository",
        **_llama("gpt_oss", 2_880, 24, 64, 8, 131_072, 1.5e5, head_dim=64, sliding_window=128,
                 layer_types=["sliding_attention", "full_attention"] * 12, rope_scaling={
                     "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                     "truncate": False, "original_max_position_embeddings": 4_096}),
    ),
    "modernbert-base": _model(
        "ModernBERT-base", _TRANSFORMERS, model_type="modernbert", hidden_size=768,
        num_hidden_layers=22, num_attention_heads=12, max_position_embeddings=8_192,
        global_rope_theta=160_000.0, local_rope_theta=10_000.0, local_attention=128,
        global_attn_every_n_layers=3,
    ),
}  # fmt: skip
