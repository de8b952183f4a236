"""The rules by which the layers of a model make attention logits."""

from posenc.logits.rule import Factor, LogitRule, Root, RootWord, attention_factors
from posenc.models.family import row_of
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.row_keys import OF_KIND, keys_in
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, attention_scale


def logit_rules(model: ModelConfig) -> dict[str, LogitRule]:
    """Return the rule of each kind of layer with attention, by its name."""
    return {kind.name: _rule(model, kind) for kind in model.layer_kinds if kind.scheme is not None}


def _rule(model: ModelConfig, kind: LayerKind) -> LogitRule:
    assert kind.scheme is not None
    factor = Factor()
    if kind.block_scale is not None and kind.block_scale != 1:
        factor = Factor("mscale_all_dim squared", kind.block_scale)
    root = _root(model, kind, kind.softmax_scale / factor.value)
    rule = LogitRule(
        scheme=kind.scheme,
        heads=kind.heads,
        kv_heads=kind.kv_heads,
        head_dim=kind.head_dim,
        root=root,
        factor=factor,
        rotates_last=kind.facts.latent is not None,
        causal=kind.causal,
        window=kind.window,
        chunked=kind.chunked,
        softcap=kind.softcap,
        sinks=kind.sinks,
        bias_scale=kind.bias_scale,
        growth=kind.growth,
    )
    roots = [each for each in _roots(model, kind) if each.value != root.value]
    return rule.replace(
        other_roots=tuple(roots), other_factors=(*_factors(kind), *attention_factors(rule))
    )


def _root(model: ModelConfig, kind: LayerKind, value: float) -> Root:
    """Return the softmax scale without the factor of a rope block, by the key that gives it."""
    own = Root("head_dim", kind.head_dim**-0.5, kind.head_dim)
    if abs(value / own.value - 1) < 1e-12:
        return own
    if value == 1:
        return Root("one", 1.0)
    row = row_of(model.read_as) if model.read_as else {}
    keys = keys_in(row, row.get("scale"), len(OF_KIND))
    return Root("key", value, value**-2, min(keys, default="softmax_scale"))


def _roots(model: ModelConfig, kind: LayerKind) -> list[Root]:
    """Return the scales that code takes in place of a layer's own."""
    widths: list[tuple[RootWord, float]] = [("head_dim", kind.head_dim)]
    if model.hidden_size % kind.heads == 0:
        widths.append(("hidden_heads", model.hidden_size / kind.heads))
    if kind.rotary_dim is not None and kind.rotary_dim < kind.head_dim:
        widths.append(("rotated", kind.rotary_dim))
        widths.append(("unrotated", kind.head_dim - kind.rotary_dim))
    if kind.facts.latent is not None:
        rotated, _, latent = kind.facts.latent
        widths.append(("latent", latent + rotated))
    roots = {number: Root(word, number**-0.5, number) for word, number in reversed(widths)}
    return [
        *reversed(roots.values()),
        Root("one", 1.0),
        Root("reciprocal", 1 / kind.head_dim, kind.head_dim),
    ]


def _factors(kind: LayerKind) -> list[Factor]:
    """Return the factors of mscale that code takes in place of a layer's own."""
    scheme = kind.scheme
    if not isinstance(scheme, RopeYarnConfig):
        return []
    factors = [Factor()] if kind.block_scale not in (None, 1.0) else []
    if scheme.mscale:
        factors.append(Factor("mscale squared", attention_scale(scheme.factor, scheme.mscale) ** 2))
    if scheme.mscale_all_dim:
        once = attention_scale(scheme.factor, scheme.mscale_all_dim)
        factors.append(Factor("mscale_all_dim once", once))
        factors.append(Factor("mscale_all_dim twice", once**4))
        if kind.block_scale in (None, 1.0):
            factors.append(Factor("mscale_all_dim squared", once**2))
    own = kind.block_scale or 1.0
    return [each for each in factors if each.value != own]
