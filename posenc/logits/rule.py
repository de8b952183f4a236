r"""The rule by which a layer makes attention logits, and the logits and biases that it predicts.

Before the softmax, the logit of a query at position i and a key at position j is

.. math:: \ell_{ij} = \mathrm{cap}\bigl(g_i\, s\, (R_i q_i)\cdot(R_j k_j) + b_h(j - i)\bigr)

R rotates (Su et al. 2021, arXiv 2104.09864), s is the softmax scale, b a bias by distance (Press et al.
2022, arXiv 2108.12409; Raffel et al. 2020, arXiv 1910.10683), cap(x) = c tanh(x / c) a soft cap (Gemma Team
2024, arXiv 2408.00118), and g a growth of the query with its position, as of Llama 4. Where the mask hides
a key, the logit is minus infinity. An attention sink is one logit more for each head (gpt-oss).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.hook_arguments import check_whole
from posenc.schemes.base import NoneConfig, Scheme, SchemeConfig
from posenc.schemes.query_growth import Growth
from posenc.schemes.rope import RopeConfig
from posenc.schemes.trainable import TrainableConfig

RootWord = Literal[
    "head_dim", "key", "hidden_heads", "rotated", "unrotated", "latent", "one", "reciprocal"
]
FactorWord = Literal[
    "none", "mscale_all_dim squared", "mscale_all_dim once", "mscale_all_dim twice", "mscale squared",
    "attention factor missing", "attention factor once", "attention factor twice",
]  # fmt: skip


@dataclass(frozen=True)
class Root:
    """A softmax scale without further factors.

    word: 1 / sqrt(number), where the number is the width of a head ("head_dim"), a width that code
    confuses with it, or what the config's `key` gives; "one" is no scale, "reciprocal" 1 / number.
    """

    word: RootWord
    value: float
    number: float = 0.0
    key: str = ""


@dataclass(frozen=True)
class Factor:
    """A factor of the softmax scale: DeepSeek's mscale, or what a wrong attention factor makes of it."""

    word: FactorWord = "none"
    value: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LogitRule:
    """The rule of one kind of layer.

    scheme: a config, or a built scheme with its trained numbers. heads, kv_heads: of the whole layer.
    head_dim: width of a query or key. root, factor: the softmax scale is their product. other_roots,
    other_factors: what code takes for them by mistake. rotates_last: whether the rotated part of a head is
    its last features, as in multi-head latent attention. causal: whether later keys are hidden. window:
    number of keys that a query sees at most, itself included; in both directions where not causal.
    chunked: whether `window` is the length of chunks, which do not see each other. softcap: c, or None.
    sinks: whether each head has one logit more. bias_scale: factor of the bias. growth: of queries.
    """

    scheme: SchemeConfig | Scheme
    heads: int
    kv_heads: int
    head_dim: int
    root: Root
    factor: Factor = Factor()
    other_roots: tuple[Root, ...] = ()
    other_factors: tuple[Factor, ...] = ()
    rotates_last: bool = False
    causal: bool = True
    window: int | None = None
    chunked: bool = False
    softcap: float | None = None
    sinks: bool = False
    bias_scale: float = 1.0
    growth: Growth | None = None

    @property
    def softmax_scale(self) -> float:
        """The factor of q . k."""
        return self.root.value * self.factor.value

    @property
    def config(self) -> SchemeConfig:
        """The config of the scheme."""
        return self.scheme.config if isinstance(self.scheme, Scheme) else self.scheme

    @property
    def rope(self) -> RopeConfig | None:
        """The scheme that rotates queries and keys, None without one."""
        return self.config if isinstance(self.config, RopeConfig) else None

    @property
    def attention_factor(self) -> float:
        """The factor of the rotated features of queries and of keys."""
        return 1.0 if self.rope is None else self.rope.attention_scaling()

    @property
    def is_trained(self) -> bool:
        """Whether the scheme has trained numbers, which a config does not hold."""
        return isinstance(self.scheme, TrainableConfig)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def rule_of_scheme(
    scheme: SchemeConfig | Scheme, heads: int, head_dim: int, *, causal: bool = True
) -> LogitRule:
    """Return the rule of a layer with a scheme and the usual softmax scale.

    It is 1 / sqrt(head_dim), or 1 for a scheme that does not divide, such as T5. `heads` is the number of
    query heads; fewer heads of keys are repeated.
    """
    config = scheme.config if isinstance(scheme, Scheme) else scheme
    own = Root("head_dim", head_dim**-0.5, head_dim)
    root = own if config.divided else Root("one", 1.0)
    rule = LogitRule(
        scheme=scheme, heads=heads, kv_heads=heads, head_dim=head_dim, root=root, causal=causal
    )
    others = (own, Root("one", 1.0), Root("reciprocal", 1 / head_dim, head_dim))
    return rule.replace(
        other_roots=tuple(each for each in others if each != root),
        other_factors=attention_factors(rule),
    )


def check_comparable(rule: LogitRule) -> None:
    """Raise SchemeArgumentError unless a scheme's logits are made of a rotation or a bias by offset.

    What a scheme without a softmax makes of its logits is not compared either.
    """
    scheme = rule.scheme if isinstance(rule.scheme, Scheme) else rule.scheme.build()
    rotates_otherwise = rule.rope is None and type(scheme).rotate is not Scheme.rotate
    own = type(scheme).bias is not Scheme.bias or type(scheme).weights is not Scheme.weights
    if rotates_otherwise or own:
        raise SchemeArgumentError(
            f"Logits of {rule.config.label} are not compared: those of RoPE, of biases by offset and of "
            "schemes without either are."
        )


def attention_factors(rule: LogitRule) -> tuple[Factor, ...]:
    """Return what a wrong attention factor makes of the softmax scale, () where it is 1.

    It multiplies queries and keys, so that logits have its square (Peng et al. 2023, arXiv 2309.00071, eq.
    22). Where only a part of a head rotates, it changes the products of that part alone.
    """
    factor, own = rule.attention_factor, rule.factor.value
    if factor == 1 or rule.rope is None or rule.rope.rotary_dim != rule.head_dim:
        return ()
    return (
        Factor("attention factor missing", own / factor**2),
        Factor("attention factor once", own / factor),
        Factor("attention factor twice", own * factor**2),
    )


def visible(
    rule: LogitRule, q_positions: Int[Tensor, " q"], k_positions: Int[Tensor, " k"]
) -> Bool[Tensor, "q k"]:
    """Return which keys each query sees by the mask of a rule."""
    offsets = k_positions[None, :] - q_positions[:, None]
    seen = offsets <= 0 if rule.causal else torch.ones_like(offsets, dtype=torch.bool)
    if rule.window is None:
        return seen
    if rule.chunked:
        size = rule.window
        return seen & (k_positions[None, :] // size == q_positions[:, None] // size)
    if rule.causal:
        return seen & (offsets > -rule.window)
    return seen & (offsets.abs() <= (rule.window - 1) // 2)


def positions_of(queries: int, keys: int) -> tuple[Int[Tensor, " q"], Int[Tensor, " k"]]:
    """Return the positions of keys 0, 1, 2, ... and of queries that are the last of them.

    So a decoding step of one query and n keys has the query at n - 1.
    """
    return torch.arange(keys - queries, keys), torch.arange(keys)


def rotate(
    rule: LogitRule,
    q: Float[Tensor, "h q d"],
    k: Float[Tensor, "g k d"],
    q_positions: Int[Tensor, " q"],
    k_positions: Int[Tensor, " k"],
) -> tuple[Float[Tensor, "h q d"], Float[Tensor, "g k d"]]:
    """Return queries and keys rotated as a layer does, in float64.

    Where the last features of a head rotate, as in multi-head latent attention, they stand first meanwhile.
    """
    shift = rule.rope.rotary_dim if rule.rotates_last and rule.rope is not None else 0
    scheme = rule.scheme if isinstance(rule.scheme, Scheme) else rule.scheme.build()
    rolled_q, rolled_k = (part.double().roll(shift, -1)[None] for part in (q, k))
    turned_q, turned_k = scheme.rotate(rolled_q, rolled_k, q_positions, k_positions)
    return turned_q[0].roll(-shift, -1), turned_k[0].roll(-shift, -1)


def predict_bias(
    rule: LogitRule,
    q_positions: Int[Tensor, " q"],
    k_positions: Int[Tensor, " k"],
    heads: slice = slice(None),
) -> Float[Tensor, "h q k"] | None:
    """Return what a rule adds to scaled logits, float64, None for nothing.

    heads: those of the whole layer that are asked for, as of a tensor-parallel rank. Raises
    SchemeArgumentError for positions that are not whole numbers, and for a scheme whose trained numbers
    are not known or whose bias depends on content.
    """
    check_whole("q_positions", q_positions)
    check_whole("k_positions", k_positions)
    if rule.rope is not None or isinstance(rule.config, NoneConfig):
        return None
    if rule.is_trained:
        raise SchemeArgumentError(
            f"The bias of {rule.config.label} is trained: give the built scheme with its numbers."
        )
    scheme = rule.scheme if isinstance(rule.scheme, Scheme) else rule.scheme.build()
    if scheme.needs_content:
        raise SchemeArgumentError(f"The bias of {rule.config.label} depends on content.")
    bias = scheme.offset_bias(k_positions[None, :] - q_positions[:, None])
    if bias is None:
        return None
    return rule.bias_scale * bias.detach().double().expand(rule.heads, -1, -1)[heads]


def predict_logits(
    rule: LogitRule,
    q: Float[Tensor, "h q d"],
    k: Float[Tensor, "g k d"],
    *,
    rotated: bool = False,
    q_positions: Int[Tensor, " q"] | None = None,
    k_positions: Int[Tensor, " k"] | None = None,
    first_head: int = 0,
) -> Float[Tensor, "h q k"]:
    """Return the logits before the softmax, float64; minus infinity where the mask hides a key.

    q: (heads, queries, head_dim); k: (heads of keys, keys, head_dim), whose number divides that of q.
    rotated: whether both are rotated already. Positions: None takes 0, 1, 2, ... for keys, and the last of
    them for queries. first_head: of the whole layer, where q holds the heads of a tensor-parallel rank.
    """
    own_q, own_k = positions_of(q.shape[1], k.shape[1])
    q_positions = own_q if q_positions is None else q_positions
    k_positions = own_k if k_positions is None else k_positions
    if not rotated:
        q, k = rotate(rule, q, k, q_positions, k_positions)
    logits = rule.softmax_scale * (q.double() @ repeated(k, q.shape[0]).double().mT)
    if rule.growth is not None:
        logits = logits * rule.growth.factors(q_positions)[:, None]
    bias = predict_bias(rule, q_positions, k_positions, slice(first_head, first_head + q.shape[0]))
    logits = logits if bias is None else logits + bias
    if rule.softcap is not None:
        logits = rule.softcap * torch.tanh(logits / rule.softcap)
    return logits.masked_fill(~visible(rule, q_positions, k_positions), -math.inf)


def repeated(k: Float[Tensor, "g k d"], heads: int) -> Float[Tensor, "h k d"]:
    """Return keys with each head repeated for the query heads that share it."""
    return k.repeat_interleave(heads // k.shape[0], 0)
