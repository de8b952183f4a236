"""Models with RoPE: by their configuration class, by their keys alone where it is unknown, and GPT-J."""

import functools
import json
from dataclasses import replace

from posenc import fields, limits
from posenc.models.config_json import Keys
from posenc.models.families import (
    CROSS,
    FULL,
    INDEXED,
    MLP,
    NGRAMS,
    NO_ROPE,
    SHARED,
    SHARED_INDEX,
    SLIDING,
    VERSION,
    Family,
    RopeFamily,
    SizeNames,
    family_of,
)
from posenc.models.heads import Heads, heads_by_kind, index_by_layer
from posenc.models.layers import (
    EVEN_WIDTH_LIMIT,
    LENGTH_LIMIT,
    MAX_WIDTH,
    Sizes,
    is_bidirectional,
    kinds_by_layer,
    read_sizes,
    read_window,
    rope_by_layer,
)
from posenc.models.model_config import LayerKind, ModelConfig, uniform_model
from posenc.models.rope_block import (
    TRAINED,
    BlockReader,
    written_trained_length,
)
from posenc.models.rope_formats import read_block
from posenc.models.states import ngram_layers, ngram_numbers, state_kinds, state_numbers
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, attention_scale

NEW, OLD = "rope_parameters", "rope_scaling"
_POSITIVE = fields.FloatRange(low=0.0, high=float(MAX_WIDTH), closed=False)
_STATE_NOTE = "A state does not grow with the text; it is counted in the number type of the cache."
_BOTH_SIDES = "Every token sees both sides: nothing is cached."
# Classes of MLA without the key rope_interleave.
_FIXED_LAYOUT = (
    "DeepseekV2Config", "DeepseekV32Config", "GlmMoeDsaConfig", "MiniCPM3Config", "BailingHybridConfig",
    "AXK2Config", "HYV4Config", "Dots3NoteTextConfig",
)  # fmt: skip
_GPTJ = Family(
    config_class="GPTJConfig", layers=28, heads=16,
    names=SizeNames(
        ("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"), ("n_positions", "max_position_embeddings"),
    ),
)  # fmt: skip

_ROFORMER = Family(
    config_class="RoFormerConfig", hidden_size=768, layers=12, heads=12, context=1_536
)
_CODEGEN = replace(_GPTJ, config_class="CodeGenConfig")


def read_gptj(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a GPT-J or CodeGen config says: RoPE on the first rotary_dim features of a head."""
    family = _CODEGEN if model_type == "codegen" else _GPTJ
    sizes = read_sizes(keys, family)
    rotary = keys.get("rotary_dim", EVEN_WIDTH_LIMIT, 64, family.source)
    if rotary > sizes.head_dim:
        raise keys.error(
            "rotary_dim", f"must be at most the head width {sizes.head_dim}, got {rotary}"
        )
    share = rotary / sizes.head_dim
    scheme = RopeConfig(
        dim=sizes.head_dim, base=1e4, layout="interleaved", partial_rotary_factor=share
    )
    return uniform_model(
        model_type,
        sizes,
        scheme,
        context=sizes.context,
        notes=(
            "Pairs are neighbouring features, as in the paper.",
            "The base 10,000 is written into the model's code; no key changes it.",
        ),
    )


def read_roformer(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a RoFormer config says: RoPE of the whole head with a fixed base, to both sides."""
    sizes = read_sizes(keys, _ROFORMER)
    is_decoder, also = keys.flag("is_decoder", False), keys.flag("rotary_value", False)
    notes = (
        "Pairs are neighbouring features, as in the paper.",
        "The base 10,000 is written into the model's code; no key changes it.",
        f"The class makes {sizes.context:,} rows of its table of angles: longer texts are an error.",
    )
    return uniform_model(
        model_type,
        sizes,
        None if also else RopeConfig(dim=sizes.head_dim, base=1e4, layout="interleaved"),
        unsupported="Values are rotated, too (rotary_value): not among this version's schemes."
        if also
        else "",
        is_cached=is_decoder,
        context=sizes.context,
        notes=notes if is_decoder else (*notes, _BOTH_SIDES),
    )


def read_rope_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config with RoPE says, by Llama's keys where there is no such type."""
    family = family_of(model_type)
    sizes = read_sizes(keys, family)
    if family.config_class == "Molmo2TextConfig":
        _check_scaled_layers(keys, sizes.layers)
    kind_of = (state_kinds if family.state else kinds_by_layer)(keys, family, sizes.layers)
    if not {FULL, SLIDING, INDEXED} & {*kind_of} and family.state in kind_of:
        raise keys.error("layer_types", "names no layer with attention, which alone has positions")
    if family.global_head_dim is not None:  # Gemma 4's class sets its last layer so
        kind_of = (*kind_of[:-1], FULL)
    _skip_unused_blocks(keys, family, kind_of)
    own_caches = sizes.layers - _shared_layers(keys, family, kind_of)
    uses_rope = rope_by_layer(keys, family, sizes.layers)
    if not _rotates(keys, family):
        uses_rope = (False,) * sizes.layers
        keys.read.update((NEW, OLD, "rope_theta"))
    window = read_window(keys, family)
    if family.rope_only_in_windows and window is not None:
        uses_rope = tuple(kind != FULL for kind in kind_of)
    bases = _bases_by_layer(keys, family, sizes.layers)
    uses_rope = tuple(map(bool, bases)) or uses_rope
    if not any(uses_rope):
        _skip_blocks(keys)
    heads = heads_by_kind(keys, family, sizes, kind_of)
    is_qwen_4 = family.config_class == "Qwen4ExpTextConfig"
    with_ngrams = ngram_layers(keys, sizes.layers) if is_qwen_4 else frozenset()
    has_index = index_by_layer(keys, family, sizes.layers)
    kinds = []
    indices_of: dict[str, list[int]] = {}
    for index, (kind, rope) in enumerate(zip(kind_of, uses_rope, strict=True)):
        is_named = rope or kind in (family.state, MLP)
        name = family.word(kind)
        name = name if is_named else NO_ROPE if kind == FULL else f"{name}, {NO_ROPE}"
        name += SHARED if index >= own_caches else ""
        name += f", base {bases[index]:,.10g}" if rope and len({*bases} - {0}) > 1 else ""
        name += NGRAMS if index in with_ngrams else ""
        if kind == INDEXED:
            name = INDEXED if has_index[index] else INDEXED + SHARED_INDEX
        indices_of.setdefault(name, []).append(index)
    for name, indices in indices_of.items():
        kind = kind_of[indices[0]]
        if kind in (family.state, MLP):
            kinds.append(_without_attention(keys, family, sizes, kind, name, tuple(indices)))
            continue
        sees_all = kind in (FULL, INDEXED, *family.compressed)
        if not sees_all and window is None:
            without = family.windows == "none" and not family.no_rope
            why = f"the class of {model_type} has none" if without else "sliding_window is absent"
            if not without and keys.record.get(family.window_key) is not None:
                why = f"{family.window_key} counts only where use_sliding_window is true"
            raise keys.error("layer_types", f"names {kind} layers, but no window is given: {why}")
        own = heads[kind]
        scheme: SchemeConfig = NoneConfig()
        if uses_rope[indices[0]]:
            scheme = _scheme(keys, family, sizes, own, kind)
        block_scale = _block_scale(keys, family, scheme)
        width, notes = own.cache_width, [*own.notes, *family.notes]
        if bases and isinstance(scheme, RopeConfig):
            scheme = scheme.replace(base=float(bases[indices[0]]))
            notes.append(
                "layer_rope_theta sets the base of each layer: a new rope_theta alone has no effect."
            )
        if name.endswith(SHARED):
            width = 0
            source = max(index for index in range(own_caches) if kind_of[index] == kind)
            notes.append(f"These layers use the keys and values of layer {source} and cache none.")
        if name.endswith(SHARED_INDEX):
            width -= own.index_width
            notes.append("These layers see the tokens that the index of an earlier layer chose.")
        state = 0
        if family.state_size and (not family.state or family.full_word != FULL):
            state = state_numbers(keys, family, sizes)
            notes.append(
                f"Each layer also keeps a state of {state:,} numbers per sequence. {_STATE_NOTE}"
            )
        kinds.append(
            LayerKind(
                name=name,
                layers=tuple(indices),
                scheme=scheme,
                heads=own.heads,
                kv_heads=own.kv_heads,
                head_dim=own.head_dim,
                cache_width=0 if is_bidirectional(keys, family) else width,
                softmax_scale=_softmax_scale(keys, family, own.head_dim) * (block_scale or 1.0),
                block_scale=block_scale,
                window=None if sees_all else window,
                state=state,
                compressed=own.compressed,
                rope_block=family.block_name(kind) if family.compressed else "",
                notes=(*notes, *_query_factor(keys, family, scheme)),
            )
        )
    kinds.sort(
        key=lambda kind: (
            not kind.heads,
            kind.window is not None,
            NO_ROPE in kind.name,
            kind.layers,
        )
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=sizes.hidden_size,
        layers=sizes.layers,
        context=sizes.context or None,
        trained_length=_trained_length(keys),
        layer_kinds=tuple(kinds),
        notes=_notes(keys, family, kinds, sizes),
    )


def _check_scaled_layers(keys: Keys, layers: int) -> None:
    """Check that the scaling of Molmo 2 is one of all layers."""
    name = "rope_scaling_layers"
    rule = fields.Numbers(low=0, high=layers - 1, least=0, most=layers, whole=True)
    if {*keys.get(name, rule, tuple(range(layers)))} != {*range(layers)}:
        raise keys.error(name, "must list all layers: a scaling of some of them is not read")


def _shared_layers(keys: Keys, family: RopeFamily, kinds: tuple[str, ...]) -> int:
    """Return how many of the last layers use the keys and values of an earlier layer of their kind."""
    name, last = "num_kv_shared_layers", len(kinds) - 1
    if family.shared_layers is None:
        return 0
    rule = fields.IntRange(low=0, high=len(kinds))
    shared: int = keys.get(name, rule, min(family.shared_layers, last), family.source)
    if shared == len(kinds):
        raise keys.error(name, "is every layer: keys and values of another model are not read")
    if shared and {*kinds[:-shared]} != {*kinds}:
        raise keys.error(name, "must leave a layer of every kind with keys and values of its own")
    return shared


def _bases_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[float, ...]:
    """Return the base of every layer by layer_rope_theta of Granite, where 0 stands for no RoPE, or ()."""
    if not family.layer_bases:
        return ()
    rule = fields.FloatRange(low=0.0, high=limits.BASE.high)
    return keys.by_layer("layer_rope_theta", layers, rule) or ()


def _rotates(keys: Keys, family: RopeFamily) -> bool:
    block = keys.section(NEW) if family.config_class == "OlmoHybridConfig" else None
    if block is not None and "rope_theta" in block.record and block.record["rope_theta"] is None:
        block.read.update(block.record)
        return False
    if family.config_class == "Zamba2Config":
        return bool(keys.flag("use_mem_rope", False))
    name = "position_embedding_type"
    if family.config_class == "EsmConfig":
        if keys.text(name) != "rotary" or keys.flag("is_decoder", False):
            raise keys.error(name, "must be rotary, of an encoder: other forms of ESM are not read")
        if keys.find(NEW) is not None:
            raise keys.error(
                NEW, "must be absent: the base 10,000 is written into the model's code"
            )
        return True
    if family.rotates == "key":
        return keys.text(name) == "rope"
    return family.rotates == "always"


def _without_attention(
    keys: Keys, family: RopeFamily, sizes: Sizes, kind: str, name: str, layers: tuple[int, ...]
) -> LayerKind:
    """Return layers that keep a state, or nothing: no position is put in, and no scaling reaches them."""
    has_state = kind == family.state != CROSS
    state = state_numbers(keys, family, sizes) if has_state else 0
    if name.endswith(NGRAMS):
        state += ngram_numbers(keys, sizes, family.source)
    keeps = f"a state of {state:,} numbers per sequence" if state else "nothing is kept"
    what = f"No attention: {keeps}."
    if kind == CROSS:
        what = "Queries see the picture alone, whose keys and values do not grow with the text."
    return LayerKind(
        name=name,
        layers=layers,
        scheme=None,
        unsupported=what,
        heads=0,
        kv_heads=0,
        head_dim=0,
        cache_width=0,
        softmax_scale=0.0,
        state=state,
        notes=(_STATE_NOTE,) if state else (),
    )


def _query_factor(keys: Keys, family: RopeFamily, scheme: SchemeConfig) -> tuple[str, ...]:
    """Return what multiplies queries by position, or nothing; Llama 4 and Beam do so without RoPE."""
    if family.query_factor:
        block = keys.section(NEW, empty=True) or keys.section(OLD)
        block = block or Keys(dict(family.blocks[""]), "", keys)
        block.read.add("max_position_embeddings")  # the class ignores it
        length = block.get(TRAINED, LENGTH_LIMIT)
        scale, position = block.get("llama_4_scaling_beta", _POSITIVE), "p"
    elif family.config_class == "Llama4TextConfig":
        length = keys.get("floor_scale", LENGTH_LIMIT, 8_192, family.source)
        scale, position = keys.get("attn_scale", _POSITIVE, 0.1, family.source), "(p + 1)"
        is_scaled = keys.flag("attn_temperature_tuning", True, family.source)
        if not is_scaled or isinstance(scheme, RopeConfig):
            return ()
    elif family.config_class == "BeamConfig" and not isinstance(scheme, RopeConfig):
        # Scalable softmax (Nakanishi 2025, arXiv 2501.19399), as a power.
        return ("The query at position p is multiplied by (1 + (p + 1) / 2,048)^0.1.",)
    else:
        return ()
    keep = "; a new block must keep llama_4_scaling_beta" if family.query_factor else ""
    return (
        f"The query at position p is multiplied by 1 + {scale:g} ln(1 + floor({position} / {length:,}))"
        f"{keep}.",
    )


def _skip_blocks(keys: Keys) -> None:
    """Count all rope blocks as read, where no layer rotates."""
    keys.read.update((NEW, OLD, "rope_theta"))
    for block in filter(None, (keys.section(NEW), keys.section(OLD))):
        block.read.update(block.record)


def _skip_unused_blocks(keys: Keys, family: RopeFamily, kinds: tuple[str, ...]) -> None:
    """Count the rope blocks of kinds that no layer is of as read."""
    block, used = keys.section(NEW), {*map(family.block_name, kinds)}
    is_windowed = used == {family.block_name(SLIDING)} and SLIDING in family.bases
    if is_windowed and not family.bases[SLIDING].scaled and (old := keys.section(OLD)):
        old.read.update(old.record)
    for name in {*map(family.block_name, (FULL, SLIDING, *family.compressed))} - used:
        if name in family.bases:
            keys.read.update(family.bases[name].names)
        if block and isinstance(block.record.get(name), dict):
            unused = block.section(name)
            if unused:
                unused.read.update(unused.record)


def _scheme(
    keys: Keys, family: RopeFamily, sizes: Sizes, own: Heads, kind: str
) -> RopeConfig | NoneConfig:
    """Return the scheme of one kind of layer; blocks of both generations must agree."""
    base, layout = family.base_of(kind), family.layout
    has_choice = family.latent and family.config_class not in _FIXED_LAYOUT
    if has_choice and not keys.flag("rope_interleave", True):
        layout = "half"
    reader = functools.partial(
        BlockReader, outer=keys, family=family, base=base, heads=own, layout=layout,
        context=(sizes.context_key, sizes.context),
    )  # fmt: skip
    if not any(base.scaled for base in family.bases.values()) and keys.find(OLD) is not None:
        raise keys.error(
            OLD,
            f"is not what {family.config_class} of transformers {VERSION} reads: it takes {NEW} alone",
        )
    new, entry_is_null = _entry(keys, family, kind)
    if entry_is_null:
        return NoneConfig()
    old = keys.section(OLD) if base.scaled else None
    # DeepSeek V4's class takes base and share from outside of rope_scaling, as if there were none.
    is_given = new is not None or (old is not None and not family.compressed)
    if new is None and old is None:
        default = family.blocks.get(kind, family.blocks.get(""))
        if default:
            rope_type = default["rope_type"]
            path = NEW if "" in family.bases else f"{NEW}.{kind}"
            keys.assume(
                f"{keys.named(path)} is absent: its rope_type {rope_type} is taken, {family.source}."
            )
            new = Keys(dict(default), f"{family.config_class}.{path}", keys)
        else:
            new = Keys({}, keys.path, keys)
    if old is not None and family.compressed:
        old = _flat_block(old)
    if old is not None and not family.type_alone and old.record.get("rope_type") is None:
        word = old.text("type")
        if word not in (None, "default"):
            raise old.error(
                "type",
                f"says {word}, but without rope_type beside it {family.config_class} of transformers "
                f"{VERSION} does not scale: write {word} as rope_type to scale, or leave the block out",
            )
    blocks = [block for block in (new, old) if block is not None]
    schemes = [read_block(reader(keys=block, is_given=is_given)) for block in blocks]
    if schemes[0] != schemes[-1]:
        raise keys.error(
            OLD,
            f"and {keys.named(NEW)} are both given and do not agree; keep one of them",
        )
    if family.config_class == "PhimoeConfig" and isinstance(schemes[0], ScaledRopeConfig):
        raise (old or new or keys).error(
            "short_mscale",
            "and long_mscale are not read: with a scaling the class requires them, multiplies cosines and "
            "sines by one of the two, and takes short_factor at every length, whatever long_factor says",
        )
    attention = keys.section("attn_config") if family.config_class == "DbrxConfig" else None
    trained = attention.optional("rope_theta", limits.BASE) if attention else None
    if attention and trained not in (None, schemes[0].base):
        raise attention.error(
            "rope_theta",
            f"says {trained:,.10g}, but transformers takes rope_theta {schemes[0].base:,.10g}, which "
            "stands outside of attn_config or is its default; they must agree",
        )
    return schemes[0]


def _flat_block(block: Keys) -> Keys:
    """Return rope_scaling of DeepSeek V4 as its class takes it: base and share stand outside of it."""
    for name in ("rope_theta", "partial_rotary_factor"):
        if block.find(name) is not None:
            raise block.error(
                name, "must be absent: the class takes the one outside of rope_scaling"
            )
    if (block.text("rope_type") or block.text("type")) != "yarn" or block.find(
        "attention_factor"
    ) is not None:
        return block
    block.assume(f"{block.named('attention_factor')} is absent: 1 is taken, as its class does.")
    filled = Keys(block.record | {"attention_factor": 1.0}, block.path, block)
    filled.read = block.read
    return filled


def _entry(keys: Keys, family: RopeFamily, kind: str) -> tuple[Keys | None, bool]:
    """Return the second-generation block of a kind of layer, and whether it is null: no RoPE there."""
    block, is_shared = keys.section(NEW, empty=True), "" in family.bases
    word = family.block_name(kind)
    if block is None:
        return None, False
    nested = any(isinstance(value, dict) for value in block.record.values())
    if nested:
        if family.rope_only_in_windows and not is_shared and family.word(FULL) not in block.record:
            raise block.error(
                family.word(FULL), "is missing: null stands there for layers without RoPE"
            )
        if word not in block.record:
            if is_shared:
                raise block.error(
                    word, "is missing: the layers of this kind have no rope parameters"
                )
            if not family.base_of(kind).fills:
                plain = {"rope_type": "default", "rope_theta": family.base_of(kind).default}
                block_of_class = json.dumps(plain | dict(family.blocks.get(kind, {})))
                raise block.error(
                    word,
                    "is missing, and transformers fills no block beside others; the default of its "
                    f"{family.config_class} is {block_of_class}",
                )
            return None, False  # these classes fill a kind that is left out with their default
        if block.record[word] is None:
            block.find(word)
            return None, not is_shared
        own = block.section(word, empty=True)
        share = "partial_rotary_factor"
        if family.compressed and (own is None or own.find(share) is None):
            raise block.error(
                f"{word}.{share}", "is missing: without it the class rotates the whole head"
            )
        return own, False
    if is_shared:
        return block, False
    if not block.record and family.base_of(kind).fills:
        return None, False
    raise keys.error(
        NEW, f"must have one entry per kind of layer, such as {word}, each an object in braces"
    )


def _softmax_scale(keys: Keys, family: RopeFamily, head_dim: int) -> float:
    """Return the factor of q . k without the part that a rope block sets."""
    scale = family.softmax_scale
    if scale is None and family.scale_key:
        scale = keys.optional(family.scale_key, _POSITIVE)
        if scale is None and family.scale_default is not None:
            scale = keys.get(family.scale_key, _POSITIVE, family.scale_default, family.source)
    elif family.scalar is not None:
        name = "query_pre_attn_scalar"
        scale = keys.get(name, _POSITIVE, float(family.scalar), family.source) ** -0.5
    if family.config_class.startswith("Zamba"):
        scale = (head_dim / 2) ** -0.5
    scale = head_dim**-0.5 if scale is None else scale
    if family.config_class == "FalconH1Config":
        scale *= keys.get("key_multiplier", _POSITIVE, 1.0, family.source)
    return scale


def _block_scale(keys: Keys, family: RopeFamily, scheme: SchemeConfig) -> float | None:
    """Return g(s, mscale_all_dim)^2, by which DeepSeek's classes multiply the factor of q . k.

    They read mscale_all_dim in a block of any rope_type but default. None for other classes.
    """
    if not family.scales_softmax:
        return None
    if not isinstance(scheme, ScaledRopeConfig):
        return 1.0
    if isinstance(scheme, RopeYarnConfig):
        weight = scheme.mscale_all_dim
    else:
        block = keys.section(OLD) or keys.section(NEW)
        rule = fields.FloatRange(low=0.0, high=limits.MAX_ATTENTION_WEIGHT)
        weight = block.get("mscale_all_dim", rule, 0.0) if block else 0.0
    factor: float = attention_scale(scheme.factor, weight)
    return factor**2


def _trained_length(keys: Keys) -> int | None:
    """Return the trained length that the config says, of any of its rope blocks."""
    blocks = [block for name in (NEW, OLD) if (block := keys.section(name))]
    blocks += [
        inner
        for block in blocks
        for name, value in block.record.items()
        if isinstance(value, dict) and (inner := block.section(name))
    ]
    lengths = (written_trained_length(block, keys) for block in (*blocks, None))
    return next(filter(None, lengths), None)


def _notes(keys: Keys, family: RopeFamily, kinds: list[LayerKind], sizes: Sizes) -> tuple[str, ...]:
    notes = []
    layout = {kind.scheme.layout for kind in kinds if isinstance(kind.scheme, RopeConfig)}
    if layout == {"half"}:
        notes.append("Pairs are the features m and m + half of the rotated width, as in GPT-NeoX.")
    elif layout:
        notes.append("Pairs are neighbouring features, as in the paper.")
    if layout and family.clockwise:
        notes.append(
            "Position p turns pair m by minus p theta_m, clockwise: other code, which turns by plus p "
            "theta_m, gives other logits."
        )
    for kind in kinds:
        scheme = kind.scheme
        reach = scheme.scaled_length if isinstance(scheme, ScaledRopeConfig) else None
        if reach is not None and reach > sizes.context:
            notes.append(
                f"The scaling of {kind.name} layers is made for {reach:,.0f} tokens, more than "
                f"{sizes.context_key} {sizes.context:,}."
            )
    if is_bidirectional(keys, family):
        notes.append(_BOTH_SIDES)
    return tuple(dict.fromkeys(notes))
