"""transformers 5 and 4, and MLX: all compute the angles of each text.

transformers 5.23.0 is what `posenc.models.read_config` and the schemes of RoPE are tested against.
transformers 4.57.6: modeling_rope_utils.py and the classes of the models. MLX: mlx_lm/models/rope_utils.py
and the files of the models, of mlx-lm at d78bf58e. Both read rope_scaling, with rope_theta beside it, and
not rope_parameters, so a config.json of the second generation is a plain one with the class's own base.
"""

from dataclasses import dataclass
from typing import Literal

from posenc.models.engines import formulas
from posenc.models.engines.config_view import Block, ConfigView
from posenc.models.engines.reading import EngineName, EngineReading, Refusal
from posenc.models.family import FAMILIES
from posenc.models.rope_bases import base_of, bases_of
from posenc.models.rope_types import DEFAULT, FACTOR_LISTS, TRAINED
from posenc.schemes.rope import rope_frequencies

_LISTS: tuple[Literal["short", "long"], ...] = ("short", "long")
# Classes of transformers 4 that put `type` over rope_type.
_TYPE_FIRST = ("llama", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "deepseek_v3")
# MLX's own default of rope_theta; the classes of Qwen 3 have none and need the key.
_MLX_BASES = {
    "llama": 10_000.0,
    "mistral": 10_000.0,
    "qwen2": 1_000_000.0,
    "mixtral": 1_000_000.0,
    "phi3": 10_000.0,
    "gpt_oss": 150_000.0,
    "gemma3_text": 1_000_000.0,
    "deepseek_v3": 10_000.0,
}
_MLX_LOCAL_BASE = 10_000.0
_MLX_PLAIN = ("mixtral", "qwen3_moe")  # whose files build plain RoPE of every block
_MLX_TRAINED = {"yarn": 4_096, "llama3": 8_192}  # where the block gives no length
_PHI3_CONTEXT, _PHI3_TRAINED = 131_072, 4_096  # of MLX's class; the second of transformers', too
_PHI3_BLOCK = {"type", *FACTOR_LISTS}


def transformers_5(view: ConfigView) -> EngineReading:
    """Return what transformers 5 makes of a config."""
    inv_freq, attention_factor = rope_frequencies(view.scheme, length=view.length)
    is_longrope, is_dynamic = view.rope_type == "longrope", view.rope_type == "dynamic"
    is_long = is_longrope and view.length > view.standard_block[TRAINED]
    return EngineReading(
        engine="transformers 5",
        kind=view.kind,
        rope_type=view.rope_type,
        base=view.scheme.base,
        inv_freq=inv_freq,
        attention_factor=attention_factor,
        softmax_scale=view.kind.softmax_scale,
        factors=_LISTS[is_long] if is_longrope else "",
        chosen_by="text" if is_longrope else "",
        growth="text" if is_dynamic else "",
    )


@dataclass(frozen=True)
class _OldKeys:
    """The numbers of a block of the first generation, as one engine takes them.

    trained: the length before scaling. context: max_position_embeddings. is_long: whether LongRoPE's
    long factors are used.
    """

    engine: EngineName
    rope_type: str
    base: float
    width: int
    block: Block
    trained: int
    context: int
    is_long: bool


def transformers_4(view: ConfigView) -> EngineReading:
    """Return what transformers 4 makes of a config."""
    block = view.old_block or view.own_block
    rope_type = _old_type(view, block)
    refused = _old_refusal(view, block, rope_type)
    if refused is not None:
        return EngineReading(engine="transformers 4", kind=view.kind, refused=refused)
    trained = formulas.trained_of(block, view.context)
    if rope_type == "longrope":  # which takes the length beside the block
        default = _PHI3_TRAINED if view.model_type == "phi3" else view.context
        trained = view.content.get(TRAINED) or default
    rope = FAMILIES[view.model_type]["rope"]
    own_base = base_of(bases_of(rope), view.kind.block_name).default or 0.0
    keys = _OldKeys(
        engine="transformers 4",
        rope_type=rope_type,
        base=view.old_base(own_base),
        width=view.width(reads_share=True),
        block=block,
        trained=trained,
        context=view.context,
        is_long=view.length > trained,
    )
    attention = 1.0
    if rope_type == "yarn":
        given = block.get("attention_factor")
        has_weights = block.get("mscale") and block.get("mscale_all_dim")
        made = formulas.weighted_attention if has_weights else _unweighted
        attention = made(block) if given is None else float(given)
    elif rope_type == "longrope":
        attention = _old_longrope_attention(view, block, trained)
    softmax = formulas.latent_softmax(block) if view.is_latent and block else 1.0
    return _reading(view, keys, attention, softmax, chosen_by="text")


def mlx(view: ConfigView) -> EngineReading:
    """Return what MLX makes of a config."""
    block = {} if view.model_type in _MLX_PLAIN else view.old_block
    if view.model_type == "phi3":
        word = str(block.get("type", DEFAULT))
        rope_type = "longrope" if word == "su" else word
    else:
        rope_type = str(block.get("type") or block.get("rope_type") or DEFAULT)
    refused = _mlx_refusal(view, block, rope_type)
    if refused is not None:
        return EngineReading(engine="MLX", kind=view.kind, refused=refused)
    is_phi3 = view.model_type == "phi3"
    if is_phi3 and rope_type not in ("longrope", "linear"):
        rope_type, block = DEFAULT, {}
    trained = block.get(TRAINED) or _MLX_TRAINED.get(rope_type, view.context)
    context = view.content.get("max_position_embeddings") or view.context
    if is_phi3:
        trained = view.content.get(TRAINED) or _PHI3_TRAINED
        context = view.content.get("max_position_embeddings") or _PHI3_CONTEXT
    own_base = _MLX_LOCAL_BASE if view.is_local else _MLX_BASES.get(view.model_type, 0.0)
    keys = _OldKeys(
        engine="MLX",
        rope_type=rope_type,
        base=view.old_base(own_base),
        width=view.width(reads_share=is_phi3),
        block={**block, "truncate": True},  # a key that it does not take
        trained=trained,
        context=context,
        is_long=True,
    )
    attention = 1.0
    if rope_type == "yarn":
        attention = formulas.weighted_attention(block)
    elif rope_type == "longrope":
        attention = formulas.longrope_attention(context, trained)
    softmax = formulas.latent_softmax(block) if view.is_latent and block.get("factor") else 1.0
    return _reading(view, keys, attention, softmax, chosen_by="nothing")


def _reading(
    view: ConfigView,
    keys: _OldKeys,
    attention: float,
    softmax: float,
    *,
    chosen_by: Literal["text", "nothing"],
) -> EngineReading:
    """Return a reading of a block of the first generation. softmax: the factor that the block sets."""
    is_longrope = keys.rope_type == "longrope"
    if is_longrope:
        factors = keys.block[FACTOR_LISTS[keys.is_long]]
        inv_freq = formulas.longrope(keys.base, keys.width, factors)
    elif keys.rope_type == "dynamic":
        growth = formulas.dynamic_growth(keys.block["factor"], view.length, keys.context)
        inv_freq = formulas.grown(keys.base, keys.width, growth)
    else:
        inv_freq = formulas.by_type(keys.rope_type, keys.base, keys.width, keys.block, keys.trained)
    return EngineReading(
        engine=keys.engine,
        kind=view.kind,
        rope_type=keys.rope_type,
        base=keys.base,
        inv_freq=inv_freq,
        attention_factor=attention,
        softmax_scale=view.plain_scale * softmax,
        factors=_LISTS[keys.is_long] if is_longrope else "",
        chosen_by=chosen_by if is_longrope else "",
        growth="text" if keys.rope_type == "dynamic" else "",
    )


def _old_type(view: ConfigView, block: Block) -> str:
    """Return the type as transformers 4 reads it: in some classes `type` is put over rope_type."""
    names = ("type", "rope_type") if view.model_type in _TYPE_FIRST else ("rope_type", "type")
    word = next((block[name] for name in names if block.get(name)), DEFAULT)
    if view.model_type == "phi3" and word in ("su", "yarn"):
        return "longrope"
    return str(word)


def _old_refusal(view: ConfigView, block: Block, rope_type: str) -> Refusal | None:
    """Return why transformers 4 loads no such config."""
    if view.model_type == "phi3" and block and {*block} != _PHI3_BLOCK:
        return Refusal("keys", "rope_scaling")
    if rope_type not in (DEFAULT, "linear", "dynamic", "yarn", "longrope", "llama3"):
        return Refusal("type", "rope_scaling")
    needs: tuple[str, ...] = ("factor",)
    if rope_type == DEFAULT or (rope_type == "longrope" and _has_longrope_factor(view, block)):
        needs = ()
    elif rope_type == "llama3":
        needs = ("factor", TRAINED)
    if view.is_latent and block:  # also of plain RoPE
        needs = ("factor", *needs)
    missing = next((key for key in needs if block.get(key) is None), None)
    return Refusal("missing", missing) if missing else None


def _mlx_refusal(view: ConfigView, block: Block, rope_type: str) -> Refusal | None:
    """Return why MLX loads no such config."""
    if view.model_type not in _MLX_BASES and view.content.get("rope_theta") is None:
        return Refusal("missing", "rope_theta")
    if view.model_type == "phi3":
        needs: tuple[str, ...] = ("long_factor", "type") if block else ()
    else:
        if rope_type not in (DEFAULT, "linear", "dynamic", "yarn", "longrope", "llama3"):
            return Refusal("type", "rope_scaling")
        if rope_type == "dynamic" and view.model_type == "qwen2":  # whose file hands on no context
            return Refusal("type", "rope_scaling")
        needs = ("factor",)
        if rope_type in (DEFAULT, "longrope"):
            needs = (TRAINED, *FACTOR_LISTS) if rope_type == "longrope" else ()
        if view.is_latent and block.get("mscale_all_dim"):
            needs = ("factor", *needs)
    missing = next((key for key in needs if block.get(key) is None), None)
    return Refusal("missing", missing) if missing else None


def _unweighted(block: Block) -> float:
    return formulas.scale_of(block["factor"])


def _has_longrope_factor(view: ConfigView, block: Block) -> bool:
    """Whether transformers 4 makes LongRoPE's attention factor without the factor of the block."""
    has_length = bool(view.content.get(TRAINED)) or view.model_type == "phi3"
    return has_length or block.get("attention_factor") is not None


def _old_longrope_attention(view: ConfigView, block: Block, trained: int) -> float:
    """Return LongRoPE's attention factor, by the block's factor where no length stands beside it."""
    if block.get("attention_factor") is not None:
        return float(block["attention_factor"])
    if _has_longrope_factor(view, block):
        return formulas.longrope_attention(view.context, trained)
    return formulas.longrope_attention(trained * block["factor"], trained)
