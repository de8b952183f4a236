"""Differences of readings from that of transformers 5, as facts."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.models.engines.reading import EngineName, EngineReading
from posenc.schemes.rope_scaling.base import ScaledRopeConfig

REFERENCE: EngineName = "transformers 5"
_ROUNDING = 1e-6  # of float32, in which engines store frequencies; relative


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One number of an engine that is not that of transformers 5.

    field: "inv_freq", "pairs", "attention_factor", "softmax_scale", "factors", "growth" or "context".
    value, reference: of the engine and of transformers 5, which sets no limit: a context is compared with
    the length that the scaling reaches. first_pair: the first pair whose frequency differs. pair: the one
    that differs most.
    """

    engine: EngineName
    layers: str
    field: str
    value: float | str
    reference: float | str
    first_pair: int | None = None
    pair: int | None = None

    @property
    def ratio(self) -> float | None:
        """The engine's number over that of transformers 5; None for words."""
        if isinstance(self.value, str) or isinstance(self.reference, str):
            return None
        return self.value / self.reference


def differences(readings: Sequence[EngineReading]) -> tuple[Difference, ...]:
    """Return where engines differ from transformers 5, in the order of the readings."""
    reference = {
        reading.kind.layers: reading for reading in readings if reading.engine == REFERENCE
    }
    return tuple(
        difference
        for reading in readings
        if reading.engine != REFERENCE and reading.has_numbers
        for difference in _of_one(reading, reference[reading.kind.layers])
    )


def _of_one(reading: EngineReading, reference: EngineReading) -> list[Difference]:
    found = [*_of_frequencies(reading, reference)]
    for field in ("attention_factor", "softmax_scale"):
        value, other = vars(reading)[field], vars(reference)[field]
        if abs(value - other) > _ROUNDING * abs(other):
            found.append(_difference(reading, field, value, other))
    for field in ("factors", "growth"):
        value, other = vars(reading)[field], vars(reference)[field]
        if value != other:
            found.append(_difference(reading, field, value, other))
    scheme = reading.kind.scheme
    reach = scheme.scaled_length if isinstance(scheme, ScaledRopeConfig) else None
    if reach and reading.context and reading.context < int(reach):
        found.append(_difference(reading, "context", float(reading.context), reach))
    return found


def _of_frequencies(reading: EngineReading, reference: EngineReading) -> list[Difference]:
    own, other = reading.inv_freq, reference.inv_freq
    assert own is not None
    assert other is not None
    if len(own) != len(other):
        return [_difference(reading, "pairs", float(len(own)), float(len(other)))]
    place = compared_pairs(own, other)
    if place is None:
        return []
    first, pair = place
    return [
        Difference(
            engine=reading.engine,
            layers=reading.kind.name,
            field="inv_freq",
            value=float(own[pair]),
            reference=float(other[pair]),
            first_pair=first,
            pair=pair,
        )
    ]


def compared_pairs(
    own: Float[Tensor, " pairs"], other: Float[Tensor, " pairs"]
) -> tuple[int, int] | None:
    """Return the first pair that differs by more than float32's rounding and the one that differs most.

    The second is that of the largest ratio, up or down. None where no pair differs.
    """
    ratio = (own / other).log().abs()  # both 0 is no number, and no difference
    differs = ratio > _ROUNDING
    if not bool(differs.any()):
        return None
    return int(differs.nonzero()[0]), int(ratio.nan_to_num(nan=0.0).argmax())


def _difference(
    reading: EngineReading, field: str, value: float | str, reference: float | str
) -> Difference:
    return Difference(
        engine=reading.engine,
        layers=reading.kind.name,
        field=field,
        value=value,
        reference=reference,
    )
