"""The mistakes that may explain how a table differs from a scheme, tried one after the other."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.identification.columns import Arrangement, TableInput
from posenc.identification.facts import Arithmetic, LowAngles, SchemeMatch, size_of
from posenc.identification.float32_code import float32_codes
from posenc.identification.frequency_fit import (
    Hypothesis,
    Precision,
    by_column,
    narrowest_format,
    one_rounding,
    rounding,
)
from posenc.identification.planes import orders_of, planes_of
from posenc.identification.positions import UNKNOWN, cause_of, recover_most
from posenc.identification.predict import (
    Allowed,
    Difference,
    TableRecipe,
    first_difference,
    predict,
)
from posenc.identification.scalings import USUAL_BASES
from posenc.identification.search import SEARCH_ROWS
from posenc.identification.single_pairs import Planes, exchanged_pairs, wrong_pairs
from posenc.identification.variants import (
    Mistake,
    Variant,
    axes_in_turn,
    measured_base,
    other_numbers,
    variants,
)
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig

_FEW_ROWS = 32  # most mistakes show in
_SAMPLED_ROWS = 256
_SLIGHT = 0.5  # of the angle of one position: at the next one, a cosine or sine differs by more


class Explanations:
    """A table beside a scheme: each method tries one kind of explanation."""

    def __init__(
        self, scheme: RopeConfig, source: TableInput, positions: Int[Tensor, " t"], of_vectors: bool
    ) -> None:
        self.scheme, self.source, self.positions = scheme, source, positions
        self.dtype = narrowest_format(source.columns)
        self.precision = Precision(self.dtype, of_vectors)
        self.length = max(1, int(positions.max()) + 1)
        self.count = source.columns.shape[1]
        every = orders_of(source, scheme.rotary_dim, scheme.layout)
        self.wrong_orders = [order for order in every if self._is_wrong_layout(order)]
        self.orders = [order for order in every if order not in self.wrong_orders]
        self.variants = [*variants(scheme, self.length)]
        self.own = self.variants[0]

    @functools.cached_property
    def numbers(self) -> list[Variant]:
        """The scheme with one of its numbers changed."""
        bases = [*USUAL_BASES]
        rows, start = self.source.columns[:SEARCH_ROWS], int(self.positions[0])
        for order in (*self.orders, *self.wrong_orders):
            config = self.scheme if isinstance(self.scheme, ScaledRopeConfig) else None
            rough = Hypothesis(
                order, self.scheme.base, start=start, size=self.own.factor,
                config=config and config.at_length(self.length),
            )  # fmt: skip
            bases += measured_base(rough, rows, self.precision)
        return [*other_numbers(self.scheme, self.length, bases)]

    def _tried(self) -> Iterator[Variant]:
        """Yield the scheme, its mistakes, and other numbers, which are measured only then."""
        yield from self.variants
        yield from self.numbers

    def result(self) -> SchemeMatch:
        """Return the first explanation that holds for every row."""
        none = SchemeMatch(self.scheme, self.positions, columns=self.count)
        for order in self.orders:
            if self._difference(self.own, order, self.own.factor) is None:
                reordered = self._is_other_layout(order)
                arithmetic = self._arithmetic(order)
                return replace(none, belongs=True, arithmetic=arithmetic, reordered=reordered)
        none = replace(none, **self._first())
        value = float(self.source.columns[0, 0])
        if bool((self.source.columns == value).all()):
            return replace(none, mistake=Mistake("constant", (value,)))
        explained = (
            self._explained(none, self.orders) or self._low_angles(none) or self._of_pairs(none)
        )
        if explained is not None:
            return explained
        moved = self._moved(none) or self._by_axis(none)
        # Rows without a position may be those of another mistake.
        if moved is not None and (moved.cause is None or moved.cause.word != "unknown"):
            return moved
        for order in self.wrong_orders:
            nearest = replace(none, wrong_layout=True, **self._first(order))
            if (layout := self._explained(nearest, [order], layout=True)) is not None:
                return layout
        return self._of_a_part(none) or self._of_pairs(none, turning=False) or moved or none

    def _is_other_layout(self, order: Arrangement) -> bool:
        several = self.scheme.rotary_dim > 2  # of one pair, both layouts are the same
        return several and order.layout not in (None, self.scheme.layout)

    def _is_wrong_layout(self, order: Arrangement) -> bool:
        """Whether the columns are repeated in neighbours, where the scheme pairs halves.

        transformers has caches in halves of schemes that pair neighbours: its code reorders.
        """
        return self.scheme.layout == "half" and self._is_other_layout(order)

    def _recipe(self, variant: Variant, order: Arrangement, size: float) -> TableRecipe:
        columns = order.columns(self.count)
        return TableRecipe(by_column(variant.frequencies, columns), columns.sines, size)

    def _difference(
        self,
        variant: Variant,
        order: Arrangement,
        size: float,
        rows: slice = slice(None),
        positions: Int[Tensor, " t"] | None = None,
    ) -> Difference | None:
        places = self.positions if positions is None else positions
        recipe = self._recipe(variant, order, size)
        return first_difference(
            self.source.columns[rows], recipe, places[rows], self.precision.allowed(size)
        )

    def _arithmetic(self, order: Arrangement) -> Arithmetic:
        """Return which arithmetic gives every number of a table that belongs."""
        config, columns = self.scheme.at_length(self.length), order.columns(self.count)
        size = max(1.0, self.own.factor)
        latest = float(self.positions.abs().max())
        once = one_rounding(self.dtype, 0, size)
        exact = once._replace(number=once.number + 2.0**-52 * latest * size)
        recipe = self._recipe(self.own, order, self.own.factor)
        if first_difference(self.source.columns, recipe, self.positions, exact) is None:
            return "exact angles"
        single = exact._replace(number=max(exact.number, 2 * rounding(torch.float32, 0, size)))
        for code in float32_codes(config):
            made = code.recipe(columns)
            if first_difference(self.source.columns, made, self.positions, single) is None:
                return "float32 arithmetic"
        return "near float32"

    def _size(self, variant: Variant, order: Arrangement, rows: slice = slice(None)) -> float:
        """Return the factor of all sines and cosines; of cosines and sines, whatever the angles are."""
        used = (~self.source.zeros[rows]).nonzero().flatten()
        if not len(used):
            return 0.0
        used = used[:: -(-len(used) // _SAMPLED_ROWS)]
        numbers, places = self.source.columns[rows], self.positions[rows]
        if self.source.form == "table":  # by least squares
            values = predict(self._recipe(variant, order, 1.0), places[used])
            power = float(values.square().sum())
            return float((values * numbers[used]).sum()) / power if power else 1.0
        return math.sqrt(2 * float(numbers[used].square().mean()))

    def _first(self, wrong: Arrangement | None = None) -> dict[str, Any]:
        """Return where the table differs first from the scheme in its nearest order of columns.

        wrong: the order of a table of another layout; compared are orders with sines where it has them.
        """
        pairs, orders = len(self.own.frequencies), self.orders or self.wrong_orders
        if wrong is not None:
            sines = wrong.columns(self.count).sines
            orders = [
                order for order in orders if torch.equal(order.columns(self.count).sines, sines)
            ] or orders
        found = [
            (difference, order)
            for order in orders
            if (difference := self._difference(self.own, order, self.own.factor)) is not None
        ]
        if not found:
            return {}
        first, order = min(found, key=lambda each: each[0].share)
        exponent = float(order.columns(self.count).exponents[first.fastest.column])
        return {"first": first, "pair": round(exponent * pairs)}

    def _explained(
        self,
        none: SchemeMatch,
        orders: Sequence[Arrangement],
        rows: slice = slice(None),
        *,
        layout: bool = False,
    ) -> SchemeMatch | None:
        """Return the mistake that makes every row at the positions expected."""
        start = rows.start or 0
        stop = rows.stop or len(self.positions)
        few = slice(start, min(stop, start + _FEW_ROWS))
        late = slice(max(start, stop - _FEW_ROWS), stop)
        tried = ((variant, order) for variant in self._tried() for order in orders)
        for variant, order in tried:
            if len(variant.frequencies) != len(self.own.frequencies):
                continue
            size = self._size(variant, order, rows)
            words = size_of(size, variant.factor, self.dtype, self.own.factor)
            size = variant.factor if words is None else size
            if any(self._difference(variant, order, size, part) for part in (few, late, rows)):
                continue
            if variant.mistake is None and words is None and not layout:
                continue
            return replace(none, mistake=variant.mistake, size=words, since=start)
        return None

    def _low_angles(self, none: SchemeMatch) -> SchemeMatch | None:
        """Return the format of 16 bits in which angles were computed."""
        config = self.scheme.at_length(self.length)
        plain = config.float32_frequencies() if config.in_transformers else self.own.frequencies
        plain = plain if len(plain) == len(self.own.frequencies) else self.own.frequencies
        for dtype, order in itertools.product((torch.bfloat16, torch.float16), self.orders):
            columns = order.columns(self.count)
            recipe = TableRecipe(by_column(plain, columns), columns.sines, self.own.factor, dtype)
            # Numbers may have as many bits less, or as few as those of the table.
            once = one_rounding(dtype, 0, self.own.factor)
            stored = one_rounding(self.dtype, 0, self.own.factor)
            allowed = Allowed(2 * once.number, 2 * max(once.share, stored.share))
            few = slice(0, _FEW_ROWS)
            if any(
                first_difference(self.source.columns[rows], recipe, self.positions[rows], allowed)
                for rows in (few, slice(None))
            ):
                continue
            wrong = self._difference(self.own, order, self.own.factor)
            if wrong is not None:
                return replace(
                    none, low_angles=LowAngles(dtype, wrong.most.amount, wrong.first.row)
                )
        return None

    def _planes(self, pairs: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield cosines and sines of so many pairs in every order that the columns may have."""
        every = orders_of(self.source, 2 * pairs, self.scheme.layout)
        if pairs == len(self.own.frequencies):
            every = [order for order in every if order not in self.wrong_orders]
        return planes_of(self.source, every)

    def _of_pairs(self, none: SchemeMatch, *, turning: bool = True) -> SchemeMatch | None:
        """Return which pairs alone are wrong. turning: whether these must turn by some angle."""
        size, allowed = self.own.factor, self.precision.allowed(self.own.factor)
        for both in self._planes(len(self.own.frequencies)):
            planes = Planes(*both, self.positions, self.own.frequencies, size, allowed)
            mistake = exchanged_pairs(planes) or wrong_pairs(planes, turning=turning)
            if mistake is not None:
                return replace(none, mistake=mistake)
        return None

    def _moved(self, none: SchemeMatch) -> SchemeMatch | None:
        """Return the positions of the rows, by the scheme's frequencies or by those of a mistake."""
        best: tuple[tuple[float, bool], SchemeMatch] | None = None
        slight, is_text = self._is_slight(none), bool((self.positions.diff() == 1).all())
        for variant in self.variants:
            for planes in self._planes(len(variant.frequencies)):
                squares = (planes[0].square() + planes[1].square()).mean(1)[~self.source.zeros]
                size = math.sqrt(float(squares.median()))  # a few rows may be bad
                words = size_of(size, variant.factor, self.dtype, self.own.factor)
                size = variant.factor if words is None else size
                found = self._recovered(planes, variant.frequencies, size)
                if found is None:
                    continue
                cause = cause_of(found, self.positions)
                if cause is None and variant.mistake is None:
                    continue
                if cause is not None and (slight or (cause.word == "other" and is_text)):
                    continue
                if variant.mistake is not None and not self._makes(planes, variant, size, found):
                    continue
                unknown = float((found == UNKNOWN).double().mean())
                result = replace(
                    none, mistake=variant.mistake, size=words, cause=cause,
                    positions=None if cause is None else found,
                )  # fmt: skip
                key = (unknown, bool(cause and variant.mistake))
                if best is None or key < best[0]:
                    best = key, result
                if not unknown and (variant.mistake is None or cause is None):
                    return result
        return None if best is None else best[1]

    def _is_slight(self, none: SchemeMatch) -> bool:
        """Whether numbers differ by less than those of a row at the next position would."""
        step = min(1.0, float(self.own.frequencies.max())) * self.own.factor
        return none.first is not None and none.first.most.amount < _SLIGHT * step

    def _makes(
        self,
        planes: tuple[Tensor, Tensor],
        variant: Variant,
        size: float,
        positions: Int[Tensor, " t"],
    ) -> bool:
        """Whether a mistake makes every number of cosines and sines at some positions."""
        if bool((positions == UNKNOWN).any()):
            return False
        sines = torch.arange(2 * len(variant.frequencies)) >= len(variant.frequencies)
        recipe = TableRecipe(variant.frequencies.repeat(2), sines, size)
        numbers, allowed = torch.cat(planes, 1), self.precision.allowed(size)
        return first_difference(numbers, recipe, positions, allowed) is None

    def _recovered(
        self, planes: tuple[Tensor, Tensor], frequencies: Float[Tensor, " p"], size: float
    ) -> Int[Tensor, " t"] | None:
        """Return the positions of rows, None if most that are not all zeros have none."""
        if size < 1e-6:
            return None
        allowed = self.precision.allowed(size)
        number = allowed.number / min(size, 1.0)
        used = ~self.source.zeros
        cosines, sines = (part[used] / size for part in planes)
        found = recover_most(cosines, sines, frequencies, number, allowed.share)
        every = torch.full((len(used),), UNKNOWN)
        return None if found is None else every.masked_scatter(used, found)

    def _by_axis(self, none: SchemeMatch) -> SchemeMatch | None:
        """Return whether pairs are those of a picture, and the order of its axes."""
        if not isinstance(self.scheme, RopeSectionsConfig):
            return None
        own, other = self.scheme.axes(), axes_in_turn(self.scheme, not self.scheme.interleaved)
        for cosines, sines in self._planes(len(self.own.frequencies)):
            for axes, mistake in (
                (own, None),
                (other, Mistake("axes", (self.scheme.interleaved,))),
            ):
                parts = []
                for axis in sorted({*axes}):
                    pairs = torch.tensor([m for m, one in enumerate(axes) if one == axis])
                    planes = cosines[:, pairs] / self.own.factor, sines[:, pairs] / self.own.factor
                    parts.append(self._recovered(planes, self.own.frequencies[pairs], 1.0))
                if all(part is not None and bool((part != UNKNOWN).all()) for part in parts):
                    places = torch.stack([part for part in parts if part is not None])
                    return replace(
                        none, belongs=mistake is None, mistake=mistake, positions=places[0]
                    )
        return None

    def _of_a_part(self, none: SchemeMatch) -> SchemeMatch | None:
        """Return the mistake that makes the rows from the first difference on, or up to the last one."""
        if none.first is None:
            return None
        first, stop = none.first.first.row, len(self.positions)
        for end in dict.fromkeys((stop, none.first.last + 1)):
            if (first, end) == (0, stop) or end - first <= 2:
                continue
            if found := self._explained(none, self.orders, slice(first, end)):
                return replace(found, until=0 if end == stop else end)
        return None
