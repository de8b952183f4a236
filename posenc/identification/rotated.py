"""The rotation of vectors: layout, width and angles, from queries or keys before and after RoPE.

A rotation keeps the norm of each pair of features and turns it by one angle for a position (Su et al.
2021, arXiv 2104.09864, eq. 34), times one factor where a scaling has it. The layout that keeps the
norms is the one used; the quotient of a pair as a complex number has the cosine and the sine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout, interleaved_to_half
from posenc.hook_arguments import is_real, type_and_shape
from posenc.identification.columns import MIN_ROWS
from posenc.identification.facts import ModelMatch
from posenc.identification.frequency_fit import narrowest_format
from posenc.identification.identify import FITS, Identification, identify
from posenc.identification.match import match_model
from posenc.rotation import pair_columns
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig

_Use = tuple[Layout, Layout]  # of the pairs before and after the rotation
# DeepSeek's code takes neighbours and puts out all first members, then all second ones.
_USES: tuple[_Use, ...] = (
    ("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half"),
)  # fmt: skip
_UNCHANGED = 1e-6  # of the largest number: a smaller change is rounding


@dataclass(frozen=True, eq=False)
class VectorRotation:
    """The layout, width and angles of a rotation of vectors.

    width: features of a vector. layout: of the pairs, None if no layout keeps their norms. layout_after: of
    the pairs that come out. first, features: the first feature that is rotated, and how many are, one after
    the other. norm_change: for each layout, root mean square change of the pairs' norms over that of the
    norms, after the common factor; {} if no feature changes. permuted: features that change places together
    on the way, from one layout to layout_after; 0 for none. cosines, sines (positions, pairs): of the
    angles, times the factor, in the narrowest format of the vectors, and identified: what these tables are;
    None without a layout. clockwise: whether the sines are those of minus the angles.
    """

    width: int
    norm_change: dict[Layout, float]
    layout: Layout | None = None
    layout_after: Layout | None = None
    first: int = 0
    features: int = 0
    permuted: int = 0
    cosines: Float[Tensor, "t p"] | None = None
    sines: Float[Tensor, "t p"] | None = None
    identified: Identification | None = None
    clockwise: bool = False

    def as_in(self, schemes: Mapping[str, SchemeConfig | None]) -> "VectorRotation":
        """Return it with the sign of the angles in the layers of a model, by their names."""
        clockwise = is_clockwise(schemes)
        if clockwise == self.clockwise or self.cosines is None or self.sines is None:
            return self
        tables = self.cosines, -self.sines
        return replace(self, sines=tables[1], identified=_identified(*tables), clockwise=clockwise)


def rotation_of(before: Tensor, after: Tensor) -> VectorRotation:
    """Return how the first vectors were rotated into the second.

    before, after: queries or keys (..., positions, features) of any number of heads. Raises
    SchemeArgumentError, also for a pair that is 0 in every head, whose angle nothing shows.
    """
    x, y = (_vectors(name, value) for name, value in (("Vectors before", before), ("after", after)))
    if x.shape != y.shape:
        raise SchemeArgumentError(
            "Vectors before and after the rotation must have one shape, got "
            f"{tuple(before.shape)} and {tuple(after.shape)}."
        )
    width = x.shape[-1]
    changed = ((y - x).abs() > _UNCHANGED * x.abs().max()).flatten(0, 1).any(0).nonzero()
    if not len(changed):
        return VectorRotation(width, {})
    start = int(changed.min()) // 2 * 2  # of MLA the last features of a head are rotated
    x, y = x[..., start:], y[..., start:]
    # The slowest pairs may change less than a 16-bit number shows, so the whole width is tried, too.
    whole = x.shape[-1] // 2 * 2
    least = min(whole, (int(changed.max()) - start + 2) // 2 * 2)
    change = {
        (use, features): _norm_change(x, y, use, features)
        for features in sorted({least, whole})
        for use in _USES
    }
    norms: dict[Layout, float] = {
        use[0]: min(off for (other, _), off in change.items() if other == use) for use in _USES[:2]
    }
    fitting = [key for key in change if change[key] <= FITS]
    dtype = max(
        narrowest_format(x.flatten(0, 1)), narrowest_format(y.flatten(0, 1)), key=_precision
    )
    dtype = torch.bfloat16 if _precision(dtype) < _precision(torch.float32) else dtype
    if not fitting:
        return VectorRotation(width, norms) if start else _permuted(x, y, norms, dtype)
    use = min(fitting, key=lambda key: change[key])[0]
    for features in (features for other, features in fitting if other == use):
        tables = _cosines_and_sines(x, y, use, features, dtype)
        identified = _identified(*tables)
        if identified.known:
            break
    return VectorRotation(width, norms, *use, start, features, 0, *tables, identified)


def _permuted(
    x: Float[Tensor, "h t d"], y: Float[Tensor, "h t d"], norms: dict[Layout, float],
    dtype: torch.dtype,
) -> VectorRotation:  # fmt: skip
    """Return the rotation of features that change places first, as by weights that are converted.

    Where the number of heads is wrong, the features of a part of a head change places, not of the whole.
    """
    width = x.shape[-1]
    other: dict[Layout, Layout] = {"half": "interleaved", "interleaved": "half"}
    for part in (part for part in range(width, 3, -1) if part % 2 == 0 == width % part):
        to_half = interleaved_to_half(part)
        orders: dict[Layout, Tensor] = {"interleaved": to_half.argsort(), "half": to_half}
        for layout, order in orders.items():
            moved = x[..., (torch.arange(0, width, part)[:, None] + order).flatten()]
            if bool(((y - moved).abs() <= _UNCHANGED * x.abs().max()).all()):  # weights, say
                return VectorRotation(width, norms, None, layout, permuted=part)
            if _norm_change(moved, y, (layout, layout), width) <= FITS:
                tables = _cosines_and_sines(moved, y, (layout, layout), width, dtype)
                # Code that rotates the other layout does what the model does, if all places are right.
                used = other[layout] if part == width else layout
                rotation = VectorRotation(width, norms, used, layout, 0, width, part, *tables)
                return replace(rotation, identified=_identified(*tables))
    return VectorRotation(width, norms)


def is_clockwise(schemes: Mapping[str, SchemeConfig | None]) -> bool:
    """Return whether layers of a model rotate by minus the angle of a position."""
    return any(isinstance(each, RopeConfig) and each.clockwise for each in schemes.values())


@dataclass(frozen=True, eq=False)
class RotationMatch:
    """Whether layers of a model rotate like vectors, as facts.

    belongs: whether they do, from any first position. tables: the comparison of the cosines and sines, None
    without any. wrong_layouts: the model's layouts where the vectors have another, features: rotated.
    other_way: whether the vectors turn against the model's direction. start: the first position.
    permuted: whether features of a part of a head, not of the whole, change places before.
    """

    belongs: bool
    tables: ModelMatch | None = None
    wrong_layouts: tuple[Layout, ...] = ()
    features: int = 0
    other_way: bool = False
    start: int = 0
    permuted: bool = False


def match_rotation(
    rotation: VectorRotation,
    schemes: Mapping[str, SchemeConfig | None],
    positions: Tensor | None = None,
) -> RotationMatch:
    """Return whether layers of a model rotate like this, and what is wrong if none do.

    schemes: of each kind of layer, by its name. positions: of the vectors, 0, 1, 2 ... by default.
    """
    rotation = rotation.as_in(schemes)
    if 0 < rotation.permuted < rotation.width:
        return RotationMatch(False, permuted=True)
    if rotation.cosines is None or rotation.sines is None or rotation.layout is None:
        return RotationMatch(False)
    cosines, sines, start = rotation.cosines, rotation.sines, 0
    match = match_model(schemes, cosines, sines, positions, of_vectors=True)
    nearest = match.nearest
    cause = nearest and nearest.cause
    if cause and cause.word == "shifted" and not (nearest and (nearest.mistake or nearest.size)):
        start = cause.numbers[1]  # vectors may be those of any positions
    belongs = match.belongs or bool(start)
    layouts = {scheme.layout for scheme in schemes.values() if isinstance(scheme, RopeConfig)}
    features = rotation.features
    if layouts and rotation.layout not in layouts and features > 2:
        return RotationMatch(False, match, (*sorted(layouts),), features, start=start)
    if is_clockwise(schemes) and not belongs:
        turned = match_model(schemes, cosines, -sines, positions, of_vectors=True)
        if turned.belongs:
            return RotationMatch(False, match, (), features, other_way=True)
    return RotationMatch(belongs, match, (), features, start=start)


def _identified(cosines: Tensor, sines: Tensor) -> Identification:
    identified = identify(cosines, sines, of_vectors=True)
    # Vectors may be those of any positions, so that row 0 need not be position 0.
    others = tuple(each for each in identified.deviations if each.kind != "start")
    return replace(identified, deviations=others)


def _precision(dtype: torch.dtype) -> float:
    return -torch.finfo(dtype).eps


def _vectors(name: str, value: Tensor) -> Float[Tensor, "h t d"]:
    """Return vectors in float64 with all heads in one axis."""
    if not isinstance(value, Tensor) or not is_real(value):
        raise SchemeArgumentError(
            f"{name} must be a tensor of floating-point numbers, got {type_and_shape(value)}."
        )
    if value.ndim < 2 or value.shape[-2] < MIN_ROWS or value.shape[-1] < 2 or not value.numel():
        raise SchemeArgumentError(
            f"{name} must be positions by features, {MIN_ROWS} x 2 or more, got "
            f"{type_and_shape(value)}."
        )
    vectors = value.detach().double().cpu().reshape(-1, *value.shape[-2:])
    if not bool(vectors.isfinite().all()):
        raise SchemeArgumentError(f"{name} must be finite.")
    return vectors


def _pairs(x: Float[Tensor, "h t d"], layout: Layout, features: int) -> Tensor:
    first, second = pair_columns(features // 2, layout)
    return torch.complex(x[..., first], x[..., second])


def _norm_change(
    x: Float[Tensor, "h t d"], y: Float[Tensor, "h t d"], use: _Use, features: int
) -> float:
    before, after = (
        _pairs(part, layout, features).abs() for part, layout in zip((x, y), use, strict=True)
    )
    factor = after.square().sum().sqrt() / before.square().sum().sqrt()
    off = (after - factor * before).square().sum().sqrt() / after.square().sum().sqrt()
    return float(off) if bool(off.isfinite()) else 1.0


def _cosines_and_sines(
    x: Float[Tensor, "h t d"], y: Float[Tensor, "h t d"], use: _Use, features: int,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "t p"], Float[Tensor, "t p"]]:  # fmt: skip
    """Return the factor by which each pair is multiplied, fitted over heads by least squares."""
    before, after = (
        _pairs(part, layout, features) for part, layout in zip((x, y), use, strict=True)
    )
    size = before.abs().square().sum(0)
    if bool((size == 0).any()):
        position, pair = (size == 0).nonzero()[0].tolist()
        raise SchemeArgumentError(
            f"Pair {pair:,} of position {position:,} is 0 before the rotation, so its angle is unknown."
        )
    quotient = (after * before.conj()).sum(0) / size
    return quotient.real.to(dtype).contiguous(), quotient.imag.to(dtype).contiguous()
