"""Whether attention logits or a bias, or what a module makes of queries and keys, are those of a layer."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import SchemeArgumentError, quoted
from posenc.hook_arguments import is_real
from posenc.logits.bias import BiasMatch, match_bias
from posenc.logits.bias_sentences import bias_sentences
from posenc.logits.facts import LogitMatch
from posenc.logits.match import match_logits, nearest
from posenc.logits.rule import LogitRule, rule_of_scheme
from posenc.logits.sentences import match_sentences
from posenc.models.config_json import HasToDict
from posenc.models.logit_rules import logit_rules
from posenc.models.read_config import read_config
from posenc.schemes.base import Scheme, SchemeConfig

Layer = LogitRule | SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str
_QUERIES, _KEYS = 24, 32  # of a module that is asked: a prompt's last tokens, after 8 cached keys


def assert_logits_match(
    produced: Tensor | nn.Module | Callable[[Tensor, Tensor], Tensor],
    layer: Layer,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
    *,
    kind: str | None = None,
    rotated: bool | None = None,
    first_head: int = 0,
) -> LogitMatch:
    """Return the comparison of attention logits with a layer's, where they belong to it.

    produced: logits before the softmax, (heads, queries, keys), minus infinity where the mask hides a key;
        or the weights after it. Or a module or a function that makes them: it is called with queries (1,
        heads, 24, head_dim) and keys (1, heads of keys, 32, head_dim), normal random numbers, or with those
        given.
    layer: a scheme, whose softmax scale is the usual one; a `posenc.logits.LogitRule`; or a config of
        transformers, or its config.json as path, text or keys: logits must be those of one kind of layer.
    queries, keys: of which the logits were made, (heads, tokens, head_dim); the queries are the last of the
        keys. rotated: whether they are rotated already; None allows either. kind: the kind of layer, such
        as "sliding_attention"; None for any. first_head: of the layer, for heads of a tensor-parallel rank.
    How far numbers may be off is what rounding in their own format explains, and no fixed number.
    Raises AssertionError where they do not belong: it begins with the cause. Raises SchemeArgumentError for
    inputs that do not fit.
    """
    rules = _rules(layer, kind, produced, queries)
    if not isinstance(produced, Tensor):
        queries, keys = _vectors(next(iter(rules.values())), queries, keys)
        with torch.no_grad():
            made = produced(queries, keys)
        if not is_real(made):
            raise SchemeArgumentError(
                f"{_name(produced)} must return a tensor of logits, got {quoted(made)}."
            )
        produced = made
    if queries is None or keys is None:
        raise SchemeArgumentError("Give the queries and keys of which the logits were made.")
    matches = {
        name: match_logits(rule, queries, keys, produced, rotated=rotated, first_head=first_head)
        for name, rule in rules.items()
    }
    first = nearest(matches)
    if matches[first].belongs:
        return matches[first]
    names = [first, *(name for name in matches if name != first)]
    raise AssertionError(_failure({name: match_sentences(matches[name]) for name in names}))


def assert_bias_matches(
    bias: Tensor,
    layer: Layer,
    *,
    queries: int | None = None,
    keys: int | None = None,
    kind: str | None = None,
    first_head: int = 0,
) -> BiasMatch:
    """Return the comparison of a bias with a layer's, where it belongs to it.

    bias: (heads, queries, keys), in logits, added after the scaling. layer, kind, first_head: as in
        `assert_logits_match`. queries, keys: the numbers of both where the bias has fewer and is repeated,
        such as one row for all queries in BLOOM. In a decoding step, keys is the number that is cached.
    A constant for each query is allowed, which a softmax does not show. Of T5 without its trained numbers,
    the buckets are compared: their number, direction and maximum distance. Raises AssertionError where the
    bias does not belong: it begins with the cause. Raises SchemeArgumentError for inputs that do not fit.
    """
    rules = _rules(layer, kind, bias, None)
    matches = {
        name: match_bias(rule, bias, queries=queries, keys=keys, first_head=first_head)
        for name, rule in rules.items()
    }
    if belonging := next((match for match in matches.values() if match.belongs), None):
        return belonging
    raise AssertionError(_failure({name: bias_sentences(one) for name, one in matches.items()}))


def _rules(
    layer: Layer, kind: str | None, produced: object, queries: Tensor | None
) -> dict[str, LogitRule]:
    """Return the rules of which one must hold, by the kind of layer."""
    if isinstance(layer, LogitRule):
        return {"": layer}
    if isinstance(layer, SchemeConfig | Scheme):
        return {"": _rule_of_scheme(layer, produced, queries)}
    is_path = isinstance(layer, str) and not layer.lstrip().startswith("{")
    rules = logit_rules(read_config(Path(str(layer)) if is_path else layer))
    if kind is None:
        return rules
    if kind not in rules:
        raise SchemeArgumentError(f"kind must be one of {', '.join(rules)}, got {quoted(kind)}.")
    return {kind: rules[kind]}


def _rule_of_scheme(
    layer: SchemeConfig | Scheme, produced: object, queries: Tensor | None
) -> LogitRule:
    """Return the rule of a scheme, with as many heads as it has, or as the tensors have."""
    scheme = layer.build() if isinstance(layer, SchemeConfig) else layer
    shown = queries if queries is not None else produced
    if not isinstance(shown, Tensor):
        raise SchemeArgumentError(
            "A scheme does not say how wide heads are: give queries and keys, or a config.json."
        )
    heads = scheme.heads or (shown.shape[-3] if shown.dim() > 2 else 1)
    return rule_of_scheme(layer, heads, shown.shape[-1])


def _vectors(rule: LogitRule, queries: Tensor | None, keys: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the queries and keys with which a module is called."""
    if queries is not None and keys is not None:
        return queries, keys
    generator = torch.Generator().manual_seed(0)
    sizes = (rule.heads, _QUERIES), (rule.kv_heads, _KEYS)
    q, k = (torch.randn(1, *size, rule.head_dim, generator=generator) for size in sizes)
    return q, k


def _name(produced: object) -> str:
    return str(getattr(produced, "__name__", type(produced).__name__))


def _failure(sentences: Mapping[str, list[str]]) -> str:
    """Return what differs from the first kind of layer, then from others where that is something else."""
    texts = {name: " ".join(each) for name, each in sentences.items()}
    first, *others = texts
    unlike = [name for name in others if texts[name] != texts[first]]
    text = texts[first] if not unlike else f"{texts[first]} That is against {first} layers."
    return " ".join([text, *(f"Against {name} layers: {texts[name]}" for name in unlike)])
