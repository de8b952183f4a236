"""Whether logits are those of a layer's rule, and where not, what is wrong with them."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.logits.buckets import BucketsFound, buckets_found
from posenc.logits.facts import CapFound, Explanation, LogitMatch, MaskValue, Place, place_of
from posenc.logits.inputs import LogitInput, allowed_error, logit_input
from posenc.logits.least_squares import fit
from posenc.logits.mask import MaskFault, mask_faults
from posenc.logits.offsets import by_offset, offsets_of
from posenc.logits.products import RIGHT, Product, right_products, wrong_products
from posenc.logits.rule import LogitRule, check_comparable, positions_of, predict_bias, visible
from posenc.logits.scales import GrowthFound, growth_found, scale_found, scales_by_row
from posenc.logits.slopes import slopes_found
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.t5 import T5Config

_CAPS = (50.0, 30.0, 20.0, 15.0, 10.0)  # of Gemma 2, its last layer, Grok and others
_NO_WEIGHT = (
    -60.0
)  # the logarithm of a weight that float32 cannot tell from 0 in a softmax of many keys
_LIKE_MINUS = 20.0  # a finite number of a mask is at least this far below the logits


def match_logits(
    rule: LogitRule,
    q: Tensor,
    k: Tensor,
    logits: Tensor,
    *,
    rotated: bool | None = None,
    first_head: int = 0,
) -> LogitMatch:
    """Return how logits differ from those of a rule.

    q: (heads, queries, head_dim). k: (heads of keys, keys, head_dim); the queries are the last of the keys.
    logits: (heads, queries, keys) before the softmax, with minus infinity, or -9,000 and less, where the
    mask hides a key, and one column more for a sink; or the weights after the softmax. A first axis of 1 is
    dropped, and one head needs no axis. rotated: whether q and k are rotated already; None tries both.
    first_head: of the layer, where the heads are those of a tensor-parallel rank.
    Raises SchemeArgumentError for inputs that do not fit.
    """
    check_comparable(rule)
    given = logit_input(rule, q, k, logits, first_head)
    if rule.is_trained and given.is_weights:
        raise SchemeArgumentError(
            f"Weights do not show the trained bias of {rule.config.label}: give logits, or the built "
            "scheme."
        )
    comparison = _Comparison(rule, given, first_head)
    right = [*right_products(rule, given, rotated)]
    explanations = [one for product in right if (one := comparison.with_own_cap(product))]
    if not explanations:
        other = (one for product in right if (one := comparison.with_other_forms(product)))
        explanations = [*itertools.islice(other, 1)]
    if not explanations:
        wrong = wrong_products(rule, given, rotated)
        explanations = [one for product in wrong if (one := comparison.with_own_cap(product))]
    if explanations:
        found = [comparison.match(one) for one in explanations]
        best = next((one for one in found if one.belongs), found[0])
        same = tuple(one.vectors[0] for one in found if one.belongs == best.belongs)
        return replace(best, vectors=same)
    return comparison.match(comparison.nearest(right[0]), explained=False)


def nearest(matches: Mapping[str, LogitMatch]) -> str:
    """Return the name of the match that belongs, else of one that is explained, by the nearest mask."""

    def distance(name: str) -> tuple[bool, bool, int]:
        match = matches[name]
        return not match.belongs, not match.explained, match.masks_apart

    return min(matches, key=distance)


class _Comparison:
    """Numbers that are compared with a rule, and which of them count."""

    def __init__(self, rule: LogitRule, given: LogitInput, first_head: int) -> None:
        self.rule, self.given, self.first_head = rule, given, first_head
        heads, queries, keys = given.values.shape
        self.positions, self.keys = positions_of(queries, keys)
        self.offsets = self.keys[None, :] - self.positions[:, None]
        self.expected = visible(rule, self.positions, self.keys).expand(heads, -1, -1)
        both = given.seen & self.expected
        self.seen = both if bool(both.any()) else given.seen
        self.bias: Tensor | None = None
        if not rule.is_trained:
            share = slice(first_head, first_head + heads)
            self.bias = predict_bias(rule, self.positions, self.keys, share)
        self.is_alibi = isinstance(rule.config, AlibiConfig)
        # A bias by distance is known up to a constant for each query, which a softmax does not show.
        self.up_to_rows = given.is_weights or self.bias is not None

    def with_own_cap(self, product: Product) -> Explanation | None:
        """Return a scale and a bias with which a product makes every number, None where none do."""
        x = product.values()
        if self.rule.is_trained:
            return self._with_curve(product, x, self.rule.softcap)
        return self._with_cap(product, x, self.rule.softcap)

    def with_other_forms(self, product: Product) -> Explanation | None:
        """Return another cap, growth or bias with which a product makes every number, None without."""
        x = product.values()
        if isinstance(self.rule.config, T5Config):  # its buckets may differ, or its numbers
            return None if self.rule.is_trained else self._with_curve(product, x, self.rule.softcap)
        if self.rule.is_trained:
            return None
        if self.rule.softcap is not None and (one := self._with_cap(product, x, None)):
            return one
        if self.rule.growth is not None:
            one = self._with_cap(product, x, self.rule.softcap, grows=False)
            if one is not None:
                return one
        if not self.given.is_weights and (one := self._with_other_cap(product, x)):
            return one
        if one := self._by_row(product, x, self.rule.softcap):
            return one
        if self.bias is None and (one := self._with_slopes(product, x)):
            return one
        return None

    def nearest(self, product: Product) -> Explanation:
        """Return the parameters with which a product comes nearest."""
        x = product.values()
        values, allowed = self._uncapped(product, self.rule.softcap)
        own = fit(values, self._columns(x), allowed, self.seen, up_to_rows=self.up_to_rows)
        return Explanation(product, own, self.rule.softcap)

    def _columns(self, x: Tensor, *, grows: bool = True) -> list[Tensor]:
        if grows and self.rule.growth is not None:
            x = x * self.rule.growth.factors(self.positions)[:, None]
        if self.is_alibi:
            return [x, -self.offsets.abs().double().expand_as(x)]
        return [x] if self.bias is None else [x, self.bias]

    def _uncapped(self, product: Product, cap: float | None) -> tuple[Tensor, Tensor]:
        """Return the numbers before a soft cap, with their errors."""
        values = torch.where(self.seen, self.given.values, 0.0)
        sizes = abs(self.rule.softmax_scale) * product.sizes()
        size = values.abs() if self.bias is None else torch.maximum(values.abs(), self.bias.abs())
        last = int(self.keys[-1])
        allowed = allowed_error(self.given, sizes, size, product.turned, last)
        if cap is None or self.given.is_weights:
            return values, allowed
        share = (values / cap).clamp(-1 + 1e-12, 1 - 1e-12)
        return cap * share.atanh(), allowed / (1 - share**2)

    def _with_cap(
        self, product: Product, x: Tensor, cap: float | None, *, grows: bool = True
    ) -> Explanation | None:
        if cap is not None and not self.given.is_weights and self._largest() > cap * (1 + 2**-8):
            return None
        values, allowed = self._uncapped(product, cap)
        columns = self._columns(x, grows=grows)
        own = fit(values, columns, allowed, self.seen, up_to_rows=self.up_to_rows)
        return Explanation(product, own, cap, grows) if own.shows else None

    def _largest(self) -> float:
        return float(torch.where(self.seen, self.given.values.abs(), 0.0).max())

    def _with_other_cap(self, product: Product, x: Tensor) -> Explanation | None:
        """Return an explanation by a cap: a usual one, else the one that leaves least, by thirds."""
        for cap in _CAPS:
            if one := self._with_cap(product, x, cap):
                return one
        largest = self._largest()
        low, high = math.log(largest * (1 + 1e-6)), math.log(largest * 50)

        def left(log_cap: float) -> float:
            values, allowed = self._uncapped(product, math.exp(log_cap))
            own = fit(values, self._columns(x), allowed, self.seen, up_to_rows=self.up_to_rows)
            return float(own.excess.max())

        for _ in range(40):
            third = (high - low) / 3
            if left(low + third) < left(high - third):
                high -= third
            else:
                low += third
        return self._with_cap(product, x, math.exp((low + high) / 2))

    def _by_row(self, product: Product, x: Tensor, cap: float | None) -> Explanation | None:
        """Return an explanation by a scale of each query alone."""
        values, allowed = self._uncapped(product, cap)
        columns = self._columns(x, grows=False)
        queries = values.shape[1]
        if queries < 2 or queries > 4_096:
            return None
        fits = []
        for row in range(queries):
            part = slice(row, row + 1)
            fits.append(
                fit(
                    values[:, part], [each[:, part] for each in columns], allowed[:, part],
                    self.seen[:, part], up_to_rows=self.up_to_rows,
                )
            )  # fmt: skip
            if not fits[-1].explains:
                return None
        whole = fit(values, columns, allowed, self.seen, up_to_rows=self.up_to_rows)
        if sum(each.spare for each in fits) < queries:
            return None
        return Explanation(product, whole, cap, grows=False, rows=tuple(fits))

    def _with_slopes(self, product: Product, x: Tensor) -> Explanation | None:
        """Return an explanation by slopes over distance, which the rule does not have."""
        values, allowed = self._uncapped(product, self.rule.softcap)
        columns = [*self._columns(x), -self.offsets.abs().double().expand_as(x)]
        own = fit(values, columns, allowed, self.seen, up_to_rows=True)
        return Explanation(product, own, self.rule.softcap) if own.shows else None

    def _with_curve(self, product: Product, x: Tensor, cap: float | None) -> Explanation | None:
        """Return an explanation by a free bias of each offset, as of trained numbers that are not known."""
        values, allowed = self._uncapped(product, cap)
        groups = [by_offset(each) for each in (values, x, allowed, self.seen)]
        values, x, allowed, seen = groups[0], groups[1], groups[2], groups[3].bool()
        own = fit(values, [x], allowed, seen, up_to_rows=True)
        if not own.explains:
            return None
        counts = seen.sum(-1).clamp(min=1)
        known = own.errors[:, :1].isfinite()
        scales = torch.where(known, own.coefficients[:, :1], self.rule.softmax_scale)
        own = replace(own, coefficients=scales)
        rest = torch.where(seen, values - scales[..., None] * x, 0.0)
        return Explanation(product, own, cap, curve=rest.sum(-1) / counts)

    def match(self, one: Explanation, *, explained: bool = True) -> LogitMatch:
        """Return what is wrong by an explanation."""
        rule, given = self.rule, self.given
        scales, errors = one.fit.coefficients[:, 0], one.fit.errors[:, 0]
        predicted = self._predicted(one)
        masks, mask_value = self._masks(one, predicted)
        most, belongs = self._most(one, predicted)
        scale = growth = cap = slopes = buckets = None
        if explained and not belongs:
            if one.rows:
                growth = growth_found(rule, *scales_by_row([*one.rows]), self.positions)
            else:
                scale = scale_found(rule, scales, errors)
            if not one.rows and not one.grows and rule.growth is not None:
                growth = GrowthFound("none", float(scales[0]), float(scales[0]))
            if one.cap != rule.softcap:
                cap = CapFound(one.cap, rule.softcap)
            if one.fit.coefficients.shape[1] > 1 and (self.is_alibi or self.bias is None):
                slopes = slopes_found(
                    rule, self.first_head, one.fit.coefficients[:, 1], one.fit.errors[:, 1],
                    is_step=given.values.shape[1] == 1,
                )  # fmt: skip
        if one.curve is not None and isinstance(rule.config, T5Config):
            buckets = self._buckets(one, rule.config)
            scale = scale_found(rule, scales, errors)
            belongs = buckets is None and scale is None
        sink, sink_missing = self._sinks()
        return LogitMatch(
            rule=rule, first_head=self.first_head, given=given, predicted=predicted,
            belongs=belongs and not masks and mask_value is None and not sink_missing
            and (sink is None or rule.sinks),
            up_to_rows=self.up_to_rows, explained=explained, vectors=(one.product.word,),
            scales=scales, scale_errors=errors, most=most, masks=masks, mask_value=mask_value,
            scale=scale, growth=growth, cap=cap, slopes=slopes, buckets=buckets, sink=sink,
            sink_missing=sink_missing,
        )  # fmt: skip

    def _predicted(self, one: Explanation) -> Float[Tensor, "h n m"]:
        """Return the logits of the rule, of vectors as they are taken. A trained bias is the one found."""
        rule = self.rule
        right = next(iter(right_products(rule, self.given, one.product.word == "rotated before")))
        made = rule.softmax_scale * right.values()
        if rule.growth is not None:
            made = made * rule.growth.factors(self.positions)[:, None]
        if self.bias is not None:
            made = made + self.bias
        if one.curve is not None:
            places = self.offsets - self.offsets.min()
            made = made + one.curve[:, places]
        if rule.softcap is not None:
            made = rule.softcap * torch.tanh(made / rule.softcap)
        return made

    def _most(self, one: Explanation, predicted: Tensor) -> tuple[Place, bool]:
        """Return where numbers differ most for what rounding allows, and whether they are the rule's."""
        values, allowed = self._uncapped(one.product, None)
        own = fit(
            values - predicted, [torch.zeros_like(values)], allowed, self.seen,
            up_to_rows=self.up_to_rows,
        )  # fmt: skip
        return place_of(own), own.explains and one.product.word in RIGHT

    def _masks(
        self, one: Explanation, predicted: Tensor
    ) -> tuple[tuple[MaskFault, ...], MaskValue | None]:
        seen = self.given.seen
        if self.given.is_weights:  # a weight of 0 need not be hidden
            hidden = predicted.masked_fill(~self.expected, -math.inf)
            seen = seen | (self.expected & (hidden.log_softmax(-1) < _NO_WEIGHT))
        value = self._mask_value(one, seen)
        return mask_faults(self.rule, seen if value is None else seen & self.expected), value

    def _mask_value(self, one: Explanation, seen: Bool[Tensor, "h n m"]) -> MaskValue | None:
        """Return what stands at hidden keys where that is one number in place of minus infinity."""
        extra = seen & ~self.expected
        if not bool(extra.any()) or self.given.is_weights:
            return None
        values, allowed = self._uncapped(one.product, None)
        values = torch.where(extra, self.given.values, values)
        cap = self.rule.softcap
        if cap is not None and bool(
            ((values + cap).abs() <= 2 * allowed + 1e-6 * cap)[extra].all()
        ):
            return MaskValue("capped", -cap)
        columns = self._columns(one.product.values(), grows=one.grows)
        coefficients = one.fit.coefficients[:, : len(columns), None, None]
        made = (coefficients * torch.stack(columns, 1)).sum(1)
        rest = (values - made)[extra]
        middle = float(rest.median())
        close = (rest - middle).abs() <= 3 * allowed.max() + 1e-6 * abs(middle)
        return MaskValue("added", middle) if middle < -_LIKE_MINUS and bool(close.all()) else None

    def _buckets(self, one: Explanation, config: T5Config) -> BucketsFound | None:
        assert one.curve is not None
        _, allowed = self._uncapped(one.product, one.cap)
        groups, seen = by_offset(allowed), by_offset(self.seen).bool()
        errors = torch.where(seen, groups, 0.0).amax(-1)
        shown = seen.any(-1).all(0)
        offsets = offsets_of(self.offsets)
        return buckets_found(config, one.curve[:, shown], offsets[shown], 2 * errors[:, shown])

    def _sinks(self) -> tuple[float | None, bool]:
        given = self.given
        if given.sinks is not None:
            return float(given.sinks.max()), False
        if given.missing is None:
            return None, False
        lacks = float(given.missing.max())
        whole = lacks < 1e-2
        return (None if whole else lacks), self.rule.sinks and whole
