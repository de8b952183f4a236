"""vLLM and SGLang: both take the block of transformers 5 and build a table of cosines at the start.

vLLM 0.33.0: get_rope of model_executor/layers/rotary_embedding and the classes beside it;
_get_and_verify_max_len of config/model.py, where YaRN's factor multiplies no context since pull request
56446. SGLang 0.5.23: get_rope of layers/rotary_embedding/factory.py and the classes beside it;
get_context_length of utils/hf_transformers/common.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from posenc.models.engines import formulas
from posenc.models.engines.config_view import SERVED_BY_TYPE, Block, ConfigView
from posenc.models.engines.formulas import InvFreq
from posenc.models.engines.reading import EngineName, EngineReading, Growth, Refusal
from posenc.models.rope_types import DEFAULT, FACTOR_LISTS, THETA, TRAINED

_MULTIPLIES_CONTEXT = ("linear", "dynamic")
_GPT_OSS_KEYS = (  # that vLLM's file hands on of the block, as YaRN
    "rope_theta", "rope_type", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
    "truncate",
)  # fmt: skip
_SGLANG_PLAIN = ("mixtral",)  # whose file builds plain RoPE of every block


@dataclass(frozen=True)
class _Rules:
    """The rules in which the two servers differ.

    attention: YaRN's attention factor from a block. growth: of the base under dynamic scaling, by its
    factor, at every length. growth_word: the same as a word. original_counts: whether the factor leaves
    the context alone where the block has the original length. grows_rows: whether the table of dynamic
    scaling has factor times as many rows.
    """

    engine: EngineName
    attention: Callable[[Block], float]
    growth: Callable[[float], float]
    growth_word: Growth
    original_counts: bool
    grows_rows: bool


def vllm(view: ConfigView) -> EngineReading:
    """Return what vLLM makes of a config."""
    if view.is_latent and view.rope_type != DEFAULT and TRAINED not in view.standard_block:
        return EngineReading(engine="vLLM", kind=view.kind, refused=Refusal("missing", TRAINED))
    if view.model_type == "gpt_oss":
        return _of_gpt_oss(view)
    reading = _reading(view, _VLLM)
    if reading.rope_type != "longrope":
        return reading
    # Every text gets the long factors once the server may see one past the trained length.
    trained = view.standard_block[TRAINED]
    has_key = view.model_type == "phi3" or TRAINED in view.content
    context = trained if has_key else view.context
    served = view.started or max(context, view.length)
    reading = _with_factors(reading, view, is_long=served > trained)
    return replace(reading, context=context, chosen_by="served", served=served)


def _of_gpt_oss(view: ConfigView) -> EngineReading:
    """Return what vLLM makes of a config of gpt-oss, whose file makes YaRN of every block."""
    if view.rope_type != "yarn":
        return EngineReading(engine="vLLM", kind=view.kind, is_read=False)
    block = {
        name: view.standard_block[name] for name in _GPT_OSS_KEYS if name in view.standard_block
    }
    missing = next((name for name in ("beta_fast", "beta_slow") if name not in block), None)
    if missing is not None:
        return EngineReading(engine="vLLM", kind=view.kind, refused=Refusal("missing", missing))
    return replace(_reading(view, _VLLM), attention_factor=_vllm_attention(block))


def sglang(view: ConfigView) -> EngineReading:
    """Return what SGLang makes of a config."""
    if view.model_type == "gemma3_text" and view.rope_type in ("dynamic", "longrope"):
        return EngineReading(engine="SGLang", kind=view.kind, is_read=False)
    reading = _reading(view, _SGLANG)
    if view.model_type == "gemma3_text":  # its own module computes the angles of each text
        return replace(reading, rows=None)
    if reading.rope_type != "longrope":
        return reading
    # All tokens of a step get the long factors if one position is past the trained length.
    is_long = view.length - 1 > view.standard_block[TRAINED]
    return replace(_with_factors(reading, view, is_long=is_long), chosen_by="step")


def _vllm_attention(block: Block) -> float:
    given = block.get("attention_factor")
    if given is not None:
        return float(given)
    has_weights = block.get("mscale") and block.get("mscale_all_dim")
    return formulas.weighted_attention(block) if has_weights else formulas.scale_of(block["factor"])


def _sglang_attention(block: Block) -> float:
    # attention_factor is not among the keys that it takes.
    has_weights = block.get("mscale") is not None and block.get("mscale_all_dim") is not None
    return formulas.weighted_attention(block) if has_weights else formulas.scale_of(block["factor"])


# vLLM's dynamic scaling grows the base by max_position / max_trained_positions, which are the same
# number unless the block has the second.
_VLLM = _Rules(
    "vLLM", _vllm_attention, lambda factor: 1.0, "none", original_counts=False, grows_rows=False
)
_SGLANG = _Rules(
    "SGLang",
    _sglang_attention,
    lambda factor: factor * factor - (factor - 1),  # at factor times the context
    "fixed",
    original_counts=True,
    grows_rows=True,
)


def _reading(view: ConfigView, rules: _Rules) -> EngineReading:
    """Return a reading; that of LongRoPE has no frequencies yet."""
    block, rope_type = view.standard_block, view.rope_type
    if rope_type not in SERVED_BY_TYPE:
        return EngineReading(engine=rules.engine, kind=view.kind, is_read=False)
    if rules.engine == "SGLang" and view.model_type in _SGLANG_PLAIN:
        rope_type, block = DEFAULT, {**block, THETA: float(int(block[THETA]))}
    scaling = "yarn" if view.is_latent and rope_type != DEFAULT else rope_type
    if view.is_latent:
        block = {**block, "truncate": True}  # a key that DeepSeek's class does not take
    attention = 1.0
    if view.is_latent and scaling == "yarn":
        attention = formulas.weighted_attention(block)
    elif scaling == "yarn":
        attention = rules.attention(block)
    return EngineReading(
        engine=rules.engine,
        kind=view.kind,
        rope_type=scaling,
        base=block[THETA],
        inv_freq=_frequencies(view, block, scaling, rules),
        attention_factor=attention,
        softmax_scale=_softmax(view, rules.engine, block, scaling),
        context=_context(view, block, rules),
        rows=_rows(view, block, scaling, rules),
        growth=rules.growth_word if scaling == "dynamic" else "",
    )


def _frequencies(view: ConfigView, block: Block, scaling: str, rules: _Rules) -> InvFreq:
    base, dim = block[THETA], view.scheme.rotary_dim
    if scaling == "dynamic":
        return formulas.grown(base, dim, rules.growth(block["factor"]))
    trained = formulas.trained_of(block, view.context)
    return formulas.by_type(scaling, base, dim, block, trained)


def _softmax(view: ConfigView, engine: str, block: Block, scaling: str) -> float:
    if not view.is_latent or scaling != "yarn":
        return view.plain_scale
    if engine == "vLLM" and block.get("attention_factor") == 1.0:  # read as deepseek_llama_scaling
        return view.plain_scale
    return view.plain_scale * formulas.latent_softmax(block)


def _context(view: ConfigView, block: Block, rules: _Rules) -> int:
    """Return the default context, which some types multiply by their factor."""
    multiplies = view.rope_type in _MULTIPLIES_CONTEXT
    if rules.original_counts and TRAINED in block:
        multiplies = False
    if not multiplies or view.model_type == "gemma3_text":
        return view.context
    return int(view.context * block["factor"])


def _rows(view: ConfigView, block: Block, scaling: str, rules: _Rules) -> int:
    factor = block.get("factor", 1.0)
    if scaling == "yarn":
        return int(formulas.trained_of(block, view.context) * factor)
    if scaling == "longrope":  # both lists stand in one table
        return int(block[TRAINED]) + view.context
    if scaling == "linear" or (scaling == "dynamic" and rules.grows_rows):
        return int(view.context * factor)
    return view.context


def _with_factors(reading: EngineReading, view: ConfigView, *, is_long: bool) -> EngineReading:
    """Return a reading of LongRoPE with one of its lists."""
    block, short_or_long = view.standard_block, FACTOR_LISTS[is_long]
    word: Literal["short", "long"] = "long" if is_long else "short"
    given = block.get(f"{word}_mscale")  # attention_factor is not among the keys that they take
    made = formulas.longrope_attention(view.context, block[TRAINED])
    return replace(
        reading,
        inv_freq=formulas.longrope(block[THETA], view.scheme.rotary_dim, block[short_or_long]),
        attention_factor=made if given is None else float(given),
        factors=word,
    )
