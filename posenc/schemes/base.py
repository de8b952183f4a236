"""Scheme: a positional encoding as hooks, the only places where it touches attention.

The base class does nothing in each, so it is NoPE (Kazemnejad et al. 2023, arXiv 2305.19466).

Axes: b batch, h heads, t tokens, q query positions, k key positions, n positions, d width, p pairs.
Offsets are key minus query. Positions are whole numbers, (n,) or (b, n); None is 0, 1, 2, ...
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posenc import fields, limits
from posenc.device import float64_device
from posenc.errors import (
    ConfigError,
    NoPositionKernel,
    NoPositionVectors,
    NotStationary,
    SchemeArgumentError,
    quoted,
)
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import (
    Inputs,
    Keys,
    Positions,
    Queries,
    Tokens,
    WiderKeys,
    WiderQueries,
    at_least_float32,
    check_queries_and_keys,
    check_whole,
    offsets_between,
    repeat_kv,
)
from posenc.latex import Writer
from posenc.schemes.sizes import Sizes
from posenc.tables import castable, check_dtype
from posenc.toeplitz import toeplitz

BASE = limits.BASE
HEADS = fields.IntRange(low=1, high=limits.MAX_HEADS, label="Heads")
HEAD_WIDTH = fields.IntRange(low=1, high=limits.MAX_DIM, label="Head width")
EVEN_HEAD_WIDTH = dataclasses.replace(HEAD_WIDTH, low=2, multiple_of=2)
WIDTH = dataclasses.replace(HEAD_WIDTH, label="Width")
EVEN_WIDTH = dataclasses.replace(EVEN_HEAD_WIDTH, label="Width")

Head = Literal["mean"] | int
DimOf = Literal["model", "head"]


@dataclass(frozen=True, kw_only=True)
class SchemeConfig(ABC):
    """A scheme as a checked, hashable value; `build` makes its module.

    sizes_used: the fields of `posenc.Sizes` from which `shape` is made. dim_of: what `dim` is the width of.
    of_models: fields that only the config of a model sets.
    scaling_name: of a scaling applied to trained weights. start: what its untrained numbers are.
    in_training: a caveat on trained models, or "". divided: whether q . k is divided by sqrt(head_dim).
    advanced: whether it is for experts.
    """

    kind: str = ""  # a field, so that configs of two kinds are never equal

    label: ClassVar[str]
    summary: ClassVar[str]
    sizes_used: ClassVar[tuple[str, ...]] = ()
    dim_of: ClassVar[DimOf | None] = None
    of_models: ClassVar[tuple[str, ...]] = ()
    scaling_name: ClassVar[str] = ""
    start: ClassVar[str] = "untrained noise"
    in_training: ClassVar[str] = ""
    divided: ClassVar[bool] = True
    advanced: ClassVar[bool] = False

    @property
    def uses(self) -> tuple[str, ...]:
        """The fields of `posenc.Sizes` that change what this scheme does, "seed" if it draws numbers."""
        return self.sizes_used

    def __post_init__(self) -> None:
        if self.kind != type(self).__dataclass_fields__["kind"].default:
            raise ConfigError(f"{type(self).__name__}.kind is fixed, got {self.kind!r}.")
        fields.check(self)

    @property
    def least_layers(self) -> int:
        """The smallest number of layers of a model in which all that the scheme does happens."""
        return 1

    def record(self) -> dict[str, Any]:
        """Return every field as JSON values; `from_record` reads them back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the config of a record."""
        lists = {name: tuple(value) for name, value in record.items() if isinstance(value, list)}
        return cls(**record | lists)

    def at_length(self, length: int) -> Self:
        """Return the config for a text of `length` positions."""
        return self

    def formula(self, write: Writer) -> str:
        """Return the formula in LaTeX; see `posenc.formula`. The default is the summary as text."""
        return rf"\text{{{self.summary.rstrip('.')}}}"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        """Return the fields that a comparison shares, by their names, such as dim and heads."""
        return {}

    @classmethod
    def own_rules(cls) -> Mapping[str, fields.Rule]:
        """Return the rules of the fields that belong to this scheme alone: `shape` has the others."""
        return _own_rules_of(cls)

    @abstractmethod
    def build(self, device: torch.device | str | None = None, seed: int = 0) -> Scheme:
        """Return the module of this config on `device`; `seed` fixes its random numbers."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@functools.cache  # asked for on every press in the dashboard; a Sizes makes the config of every scheme
def _own_rules_of(cls: type[SchemeConfig]) -> Mapping[str, fields.Rule]:
    others = (*cls.shape(Sizes()), *cls.of_models)
    rules = fields.rules(cls)
    return MappingProxyType({name: rules[name] for name in rules if name not in others})


@dataclass(frozen=True, kw_only=True)
class Request:
    """One scheme, and which of its numbers to compute: positions start .. start + length - 1.

    length: number of positions. start: the first one.
    head: an index, or "mean" for the mean of all.
    dtype: to round the table or bias to, None for exact.
    device: where `build` puts the scheme and its kernel is computed; other functions of
        `posenc.analysis` compute on the CPU.
    seed: fixes the numbers that a scheme draws.
    """

    config: SchemeConfig
    length: int
    head: Head = "mean"
    start: int = 0
    dtype: torch.dtype | None = None
    device: torch.device | str | None = None
    seed: int = 0

    def build(self, device: torch.device | str | None = None) -> Scheme:
        """Return the scheme on a device, by default that of the request."""
        return self.config.build(device=device or self.device, seed=self.seed)

    @property
    def precision(self) -> str:
        """The format that tables are rounded to, by name; float32 counts as exact."""
        return str(self.dtype or torch.float32).removeprefix("torch.")

    @property
    def positions(self) -> Int[Tensor, " n"]:
        """The positions, on the CPU where the device has no float64."""
        stop = self.start + self.length
        return torch.arange(self.start, stop, device=float64_device(self.device))


def check_request(request: object) -> None:
    """Raise SchemeArgumentError for anything but a Request."""
    if not isinstance(request, Request):
        raise SchemeArgumentError(
            "request must be a posenc.Request, as Request(config=scheme.config, length=256) makes it, "
            f"not {quoted(request)}."
        )


class Scheme(nn.Module):
    """A positional encoding as three hooks, `embed`, `rotate` and `bias`; each default does nothing.

    A scheme that needs more than queries and keys takes the layer's input by `with_input`.

    stationary: whether the position kernel is a function of the offset alone.
    max_length: the first position that has no value, or None.
    kernel_unit: of the position kernel: "inner product", "logit" or "weight factor".
    heads: number of heads with numbers of their own, or None where all heads are alike.
    provenance: where stored numbers come from, "" for a formula.
    untrained: whether those numbers are a random start.
    attention_factor: factor of the rotated pairs of queries and of keys.
    rotary_layout, frequencies: of the pairs that `rotate` rotates, None without any.
    window: number of keys that a query sees at most, itself included, on either side where it sees both;
        None for all.
    needs_content: whether all that it adds or weighs depends on content.
    no_vectors: why there are no vectors.
    """

    stationary: bool = True
    max_length: int | None = None
    kernel_unit: str = "weight factor"
    heads: int | None = None
    provenance: str = ""
    untrained: bool = False
    attention_factor: float = 1.0
    rotary_layout: Layout | None = None
    frequencies: Frequencies | None = None
    window: int | None = None
    needs_content: bool = False
    no_vectors: str = "none are known for its kernel"

    def __init__(self, config: SchemeConfig) -> None:
        super().__init__()
        self.config = config

    def extra_repr(self) -> str:
        return repr(self.config)

    def positions_within(self, length: int) -> int:
        """Return how many of the first `length` positions have a value."""
        return length if self.max_length is None else min(length, self.max_length)

    def embed(self, x: Tokens, positions: Positions = None) -> Tokens:
        """Return token vectors with position added."""
        return x

    def with_input(self, q: Queries, k: Keys, x: Inputs) -> tuple[WiderQueries, WiderKeys]:
        """Return queries and keys with what the scheme computes from the layer's input, as more features.

        x: (b, k, width) the vectors of which k, of the same tokens, is made. A layer calls this before it
        puts keys into a cache, and passes the result on to `attention`. What is added belongs to one token.
        """
        return q, k

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[WiderQueries, WiderKeys]:
        """Return queries and keys, each changed by its own position; they may be wider."""
        return q, k

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "#b h q k"] | None:
        """Return what is added to the scaled scores, in float32 at least, or None.

        q and k are not rotated. The default is `offset_bias` of their offsets.
        """
        offsets = offsets_between(q, k, q_positions, k_positions)
        self.check_heads(q)
        values = self.offset_bias(offsets)
        if values is None:
            return None
        batched = values.movedim(0, 1) if offsets.dim() == 3 else values[None]
        return batched.to(at_least_float32(q.dtype))

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"] | None:
        """Return the bias of a stationary scheme at offsets (key minus query), or None.

        Where `bias` depends on content too (Transformer-XL), this is the bias at content 0.
        """
        return None

    def weights(
        self,
        logits: Float[Tensor, "b h q k"],
        visible: Bool[Tensor, "#b 1 q k"] | None,
        q_positions: Int[Tensor, "*b q"],
        k_positions: Int[Tensor, "*c k"],
    ) -> Float[Tensor, "b h q k"]:
        """Return attention weights of logits: their softmax over the visible keys, None for all.

        A query that sees no key gets zeros. Positions are (q,) or (b, q).
        """
        if visible is None:
            return logits.softmax(-1)
        hidden = logits.masked_fill(~visible, -torch.inf)
        return torch.where(visible.any(-1, keepdim=True), hidden.softmax(-1), 0.0)

    def softmax_scale(self, head_dim: int) -> float:
        """Return the factor of q . k, 1 / sqrt(head_dim) or 1."""
        return head_dim**-0.5 if self.config.divided else 1.0

    def layer(self, index: int) -> Scheme:
        """Return the scheme of a layer."""
        return self

    def scores(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "b h q k"]:
        """Return the logits before softmax and masking: rotated q . k times the scale, plus bias."""
        check_queries_and_keys(q, k, q_positions, k_positions)
        rotated_q, rotated_k = self.rotate(q, k, q_positions, k_positions)
        logits = rotated_q @ repeat_kv(rotated_k, q.shape[1]).mT * self.softmax_scale(q.shape[-1])
        bias = self.bias(q, k, q_positions, k_positions)
        return logits if bias is None else logits + bias

    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        """Return the position kernel K(i, j), float64; see `posenc.position_kernel`."""
        return toeplitz(self.offset_curve(request))

    def offset_curve(self, request: Request) -> Float[Tensor, " m"]:
        """Return the kernel at offsets -(length-1) .. length-1, float64; see `posenc.offset_curve`."""
        inexact = request.dtype is not None and self.kernel_unit != "weight factor"
        if inexact or not self.stationary:
            rounding = f" rounded to {str(request.dtype).removeprefix('torch.')}" if inexact else ""
            raise NotStationary(
                f"{self.config.label}{rounding} has no offset curve: its kernel is not a function of "
                "the offset alone; use position_kernel."
            )
        length, device = request.length, float64_device(request.device)
        offsets = torch.arange(1 - length, length, device=device)
        return self.offset_kernel(offsets, request.head, request.dtype)

    def offset_kernel(
        self, offsets: Int[Tensor, " *n"], head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, " *n"]:
        """Return the position kernel of a stationary scheme at offsets, float64.

        The default is the factor exp(offset_bias) on an attention weight, 1 without a bias. Raises
        NoPositionKernel where the bias depends on content.
        """
        missing = "position kernel: what it adds depends on content"
        bias = self._fixed_bias(offsets, head, dtype, missing)
        if bias is None:
            return torch.ones(offsets.shape, dtype=torch.float64, device=offsets.device)
        return of_head(bias.exp(), head)

    def bias_matrix(
        self, length: int, *, head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, "n n"] | None:
        """Return the bias of positions 0 .. length - 1 without content, float64, or None.

        Raises NoPositionKernel where all of the bias depends on content.
        """
        offsets = torch.arange(1 - length, length, device="cpu")
        missing = "numbers to show: all it adds depends on content"
        bias = self._fixed_bias(offsets, head, dtype, missing)
        return None if bias is None else toeplitz(of_head(bias, head))

    def _fixed_bias(
        self, offsets: Tensor, head: Head, dtype: torch.dtype | None, missing: str
    ) -> Float[Tensor, " h *n"] | None:
        if self.needs_content:
            raise NoPositionKernel(f"{self.config.label} has no fixed {missing}.")
        self.check_head(head)
        check_whole("offsets", offsets)
        bias = self.offset_bias(offsets)
        if bias is None:
            return None
        return rounded(bias.detach().to(float64_device(bias.device)).double(), dtype)

    def vectors(self, request: Request) -> Float[Tensor, "n m"]:
        """Return phi with phi(i) . phi(j) = K(i, j); see `posenc.position_vectors`."""
        reason = "it has no position kernel" if self.needs_content else self.no_vectors
        raise NoPositionVectors(f"{self.config.label} has no position vectors: {reason}.")

    def offset_map(self, offset: int, size: int = 1, head: Head = "mean") -> Tensor | None:
        """Return the matrix M_k with phi(i + k) = M_k phi(i) for the vectors of a head, or None.

        size: number of positions i, for schemes whose vectors grow with every position.
        """
        return None

    @property
    def inv_freq(self) -> Float[Tensor, " p"] | None:
        """Inverse frequencies in float64, radians per position, pair 0 the fastest, or None."""
        return None if self.frequencies is None else self.frequencies.inv_freq

    def check_heads(self, q: Queries) -> None:
        """Raise SchemeArgumentError unless q has the scheme's number of heads."""
        if self.heads is not None and q.shape[1] != self.heads:
            raise SchemeArgumentError(
                f"{self.config.label} of {self.heads} heads does not fit q of {q.shape[1]} heads."
            )

    def check_head(self, head: Head) -> None:
        """Raise SchemeArgumentError unless `head` is "mean" or an index of a head."""
        limits.check_head(head, self.heads or limits.MAX_HEADS)


def of_head(values: Float[Tensor, " h *n"], head: Head) -> Float[Tensor, " *n"]:
    """Return the values of a head, or the mean of all."""
    return values.mean(dim=0) if head == "mean" else values[head]


def rounded(values: Float[Tensor, " *n"], dtype: torch.dtype | None) -> Float[Tensor, " *n"]:
    """Return float64 values rounded once to `dtype`, as float64 again."""
    if dtype is None:
        return values
    check_dtype(dtype)
    return castable(values, dtype).to(dtype).double()


def check_scheme(scheme: object) -> None:
    """Raise SchemeArgumentError unless this is a built scheme."""
    if not isinstance(scheme, Scheme):
        is_config = isinstance(scheme, SchemeConfig)
        advice = ": build the config first, by config.build()" if is_config else ""
        raise SchemeArgumentError(
            f"scheme must be a built scheme, got {type(scheme).__name__}{advice}."
        )


@dataclass(frozen=True, kw_only=True)
class NoneConfig(SchemeConfig):
    """No positional encoding (Kazemnejad et al. 2023, arXiv 2305.19466)."""

    kind: Literal["none"] = "none"

    label: ClassVar[str] = "NoPE"
    summary: ClassVar[str] = "Adds nothing: order shows only through the causal mask."

    def formula(self, write: Writer) -> str:
        return (
            rf"\mathrm{{logit}}({write.position}, {write.key}) = "
            rf"\frac{{q_{{{write.position}}} \cdot k_{{{write.key}}}}}{{\sqrt{{d_\mathrm{{head}}}}}}"
        )

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> Scheme:
        return Scheme(self)


class VectorScheme(Scheme):
    """A scheme whose kernel is the Gram matrix of its position vectors: learned, sinusoidal, RoPE.

    pair_layout, pair_first: of the sines and cosines in a vector. unpaired: number of features after
    the last pair.
    """

    kernel_unit = "inner product"
    pair_layout: Layout = "interleaved"
    pair_first: Literal["sin", "cos"] = "sin"
    unpaired: int = 0

    def offset_curve(self, request: Request) -> Float[Tensor, " m"]:
        if not self.stationary or request.dtype is not None:
            return super().offset_curve(request)
        distances = torch.arange(request.length, device=float64_device(request.device))
        half = self.offset_kernel(distances)  # a Gram matrix is symmetric
        return torch.cat((half.flip(0)[:-1], half))

    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        if self.stationary and request.dtype is None:
            return super().kernel(request)
        rows = self.vectors(request)
        return rows @ rows.T
