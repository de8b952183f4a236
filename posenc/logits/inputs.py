"""Queries, keys, logits and biases that are compared, checked; and how far rounding moves a logit."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.hook_arguments import is_real, type_and_shape
from posenc.limits import MAX_HEADS
from posenc.logits.rule import LogitRule, repeated

MAX_LOGITS = 2**23  # heads x queries x keys
HIDDEN = -9_000.0  # at most this much: BERT added -10,000, others the least number of their format
_FORMATS = (torch.bfloat16, torch.float16, torch.float32)
_LOGIT_ROUNDINGS = 3  # of the product, after the scale, and after the bias or the cap
_ROTATION_ROUNDINGS = 6  # two products and a sum, of the query and of the key


@dataclass(frozen=True, eq=False)
class LogitInput:
    """Logits beside the vectors that they were made of, float64.

    q: (h, n, d). k: (h, m, d), each head of keys repeated. values: (h, n, m), where hidden keys have minus
    infinity; of attention weights their logarithm, which is a logit up to a constant for each query.
    is_weights: whether the weights after the softmax were given. sinks: (h, n) of a last column beyond the
    keys, None without one. missing: (h, n) what the weights of a query lack to 1. vector_format,
    value_format: the narrowest formats that hold the numbers.
    """

    q: Float[Tensor, "h n d"]
    k: Float[Tensor, "h m d"]
    values: Float[Tensor, "h n m"]
    is_weights: bool
    sinks: Float[Tensor, "h n"] | None
    missing: Float[Tensor, "h n"] | None
    vector_format: torch.dtype
    value_format: torch.dtype

    @property
    def seen(self) -> Bool[Tensor, "h n m"]:
        """Where a key is not hidden from a query."""
        return self.values > HIDDEN


def logit_input(
    rule: LogitRule, q: Tensor, k: Tensor, logits: Tensor, first_head: int = 0
) -> LogitInput:
    """Return checked inputs. Raises SchemeArgumentError: what does not fit, where, and what is allowed."""
    q, k, found = (
        _three_axes(name, x) for name, x in (("queries", q), ("keys", k), ("logits", logits))
    )
    heads, queries, _ = q.shape
    check_heads(rule, "queries", heads, first_head)
    for name, x in (("queries", q), ("keys", k)):
        if x.shape[2] != rule.head_dim:
            raise SchemeArgumentError(
                f"The {name} must have the width {rule.head_dim:,} of a head, got {x.shape[2]:,}."
            )
        _check_finite(name, x)
    if heads % k.shape[0]:
        raise SchemeArgumentError(
            f"The {k.shape[0]:,} heads of the keys must divide the {heads:,} heads of the queries."
        )
    keys = k.shape[1]
    if found.shape not in ((heads, queries, keys), (heads, queries, keys + 1)):
        raise SchemeArgumentError(
            f"The logits must be {heads:,} x {queries:,} x {keys:,} (heads, queries, keys), with one "
            f"column more for an attention sink, got {' x '.join(f'{size:,}' for size in found.shape)}."
        )
    if queries > keys:
        raise SchemeArgumentError(
            f"The {queries:,} queries must be the last of the keys, got {keys:,} keys."
        )
    check_values("logits", found)
    value_format, vector_format = format_of(found), max((q, k), key=_digits)
    values = found.double()
    sinks = values[..., keys] if found.shape[2] > keys else None
    values, missing = values[..., :keys], None
    is_weights = sinks is None and _are_weights(values)
    if is_weights:
        missing, values = 1 - values.sum(-1), values.log()
    return LogitInput(
        q=q.double(),
        k=repeated(k, heads).double(),
        values=values,
        is_weights=is_weights,
        sinks=sinks,
        missing=missing,
        vector_format=format_of(vector_format),
        value_format=value_format,
    )


def check_heads(rule: LogitRule, name: str, heads: int, first_head: int) -> None:
    """Raise SchemeArgumentError unless these heads are some of a layer's."""
    if heads > MAX_HEADS:
        raise SchemeArgumentError(f"At most {MAX_HEADS:,} heads are compared, got {heads:,}.")
    if rule.heads % heads or not 0 <= first_head <= rule.heads - heads:
        raise SchemeArgumentError(
            f"The {heads:,} heads of the {name} must be all {rule.heads:,} of the layer, or a share that "
            f"divides them, from head {first_head:,} on."
        )


def bias_input(bias: Tensor) -> Float[Tensor, "h n m"]:
    """Return a checked bias of each head, in its own format."""
    found = _three_axes("bias", bias)
    check_values("bias", found)
    return found


def _three_axes(name: str, x: Tensor) -> Tensor:
    if not is_real(x) or x.dim() not in (2, 3, 4) or 0 in x.shape:
        axes = "queries, keys" if name in ("logits", "bias") else "tokens, head width"
        raise SchemeArgumentError(
            f"The {name} must be floating-point numbers of ({axes}), (heads, {axes}) or "
            f"(1, heads, {axes}), got {type_and_shape(x)}."
        )
    if x.dim() == 4 and x.shape[0] != 1:
        raise SchemeArgumentError(
            f"The {name} must be of one sequence, got a batch of {x.shape[0]:,}: give one of them."
        )
    x = x.detach()
    whole: Tensor = x[0] if x.dim() == 4 else x[None] if x.dim() == 2 else x
    if whole.numel() > MAX_LOGITS:
        raise SchemeArgumentError(
            f"The {name} must be at most {MAX_LOGITS:,} numbers, got {whole.numel():,}: give fewer queries."
        )
    return whole


def _check_finite(name: str, x: Tensor) -> None:
    if not bool(x.isfinite().all()):
        head, row, column = (int(each) for each in (~x.isfinite()).nonzero()[0])
        raise SchemeArgumentError(
            f"The {name} must be finite, got {float(x[head, row, column])} in head {head:,}, row {row:,}, "
            f"feature {column:,}."
        )


def check_values(name: str, x: Tensor) -> None:
    """Raise SchemeArgumentError for NaN and for positive infinity, and where nothing is visible."""
    wrong = x.isnan() | (x == math.inf)
    if bool(wrong.any()):
        head, row, column = (int(each) for each in wrong.nonzero()[0])
        raise SchemeArgumentError(
            f"The {name} must be finite, or minus infinity where a key is hidden, got "
            f"{float(x[head, row, column])} in head {head:,}, query {row:,}, key {column:,}."
        )
    if not bool((x > HIDDEN).any()):
        raise SchemeArgumentError(f"The {name} hide every key from every query.")


def _are_weights(values: Tensor) -> bool:
    """Whether numbers are attention weights: from 0 to 1, and with a sum of at most 1 for each query."""
    if values.shape[-1] < 2 or float(values.min()) < 0 or float(values.max()) > 1:
        return False
    sums = values.sum(-1)
    return float(sums.max()) < 1.02 and float(sums.min()) > 0


def _digits(x: Tensor) -> float:
    return -torch.finfo(format_of(x)).eps


def format_of(x: Tensor) -> torch.dtype:
    """Return the narrowest format that holds every number, as of bfloat16 that was saved as float32."""
    finite = x[x.isfinite()].double()
    for dtype in _FORMATS:
        if torch.equal(finite.to(dtype).double(), finite):
            return dtype
    return torch.float64


def roundoff(dtype: torch.dtype) -> float:
    """Return the largest relative error of one rounding to a format."""
    return torch.finfo(dtype).eps / 2


def allowed_error(
    given: LogitInput,
    sizes: Float[Tensor, "h n m"],
    values: Float[Tensor, "h n m"],
    turned: bool,
    last_position: int,
) -> Float[Tensor, "h n m"]:
    """Return how far rounding moves each number from its exact value.

    sizes: s |q| . |k|, by which the errors of a dot product grow. values: the numbers themselves, or what
    is added to them, whichever is larger. turned: whether vectors are rotated here and were there in their
    own format, by angles in float32, whose error grows with the position. A product of float64 vectors
    is taken to be float64, of others to be summed in float32, as matrix units do.
    """
    is_double = given.vector_format == given.value_format == torch.float64
    unit = roundoff(torch.float64 if is_double else torch.float32)
    of_product = (given.q.shape[2] + 2) * unit
    if turned:
        of_product += _ROTATION_ROUNDINGS * max(roundoff(given.vector_format), unit)
        of_product += 2 * unit * last_position
    # Weights are rounded where they are 1 or less; their logarithm has the relative error as its own.
    of_value = _LOGIT_ROUNDINGS * max(roundoff(given.value_format), unit)
    allowed = of_product * sizes + of_value * values.abs()
    return allowed + of_value if given.is_weights else allowed
