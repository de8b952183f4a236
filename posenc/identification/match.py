"""Whether a table belongs to a scheme or a model, and if not, what is wrong with it: facts alone."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.hook_arguments import type_and_shape
from posenc.identification.columns import TableInput
from posenc.identification.explanations import Explanations
from posenc.identification.facts import ModelMatch, SchemeMatch
from posenc.limits import MAX_POSITION
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig


def match_model(
    schemes: Mapping[str, SchemeConfig | None],
    table: Tensor,
    sines: Tensor | None = None,
    positions: Tensor | None = None,
    *,
    of_vectors: bool = False,
) -> ModelMatch:
    """Compare a table, or cosines and sines, with the layers of a model.

    Numbers belong to a layer if they differ by at most 2.5e-6, plus 5e-7 of the angle, as of any code with
    float32 angles, plus one rounding of the number itself in 16 bits (1/256 of it in bfloat16), or four
    where a factor multiplies it. `posenc.testing.assert_matches` allows less: the last digits of exact
    angles, and of float32 code that it knows.

    schemes: of each kind of layer, by its name. positions (rows,): of the rows, 0, 1, 2 ... by default.
    of_vectors: whether the numbers are quotients of rounded vectors. Raises SchemeArgumentError.
    """
    source = TableInput.of(table, sines)
    places = expected_positions(positions, len(source.columns))
    matches = {
        name: match(scheme, source, places, of_vectors=of_vectors)
        for name, scheme in schemes.items()
        if isinstance(scheme, RopeConfig) and scheme.build().stationary
    }
    return ModelMatch(schemes, matches)


def expected_positions(positions: Tensor | None, rows: int) -> Int[Tensor, " t"]:
    """Return the positions of rows as int64, 0, 1, 2 ... for None; raises SchemeArgumentError."""
    if positions is None:
        return torch.arange(rows)
    if positions.numel() != rows:
        raise SchemeArgumentError(
            f"positions must be one for each of the {rows:,} rows, got {positions.numel():,}."
        )
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise SchemeArgumentError(
            f"positions must be whole numbers, got {type_and_shape(positions)}."
        )
    places = positions.detach().cpu().long().flatten()
    if int(places.abs().max()) > MAX_POSITION:
        raise SchemeArgumentError(f"positions must lie within {MAX_POSITION:,} of 0.")
    return places


def match(
    scheme: RopeConfig,
    source: TableInput,
    positions: Int[Tensor, " t"],
    *,
    of_vectors: bool = False,
) -> SchemeMatch:
    """Compare a table with a scheme. positions: of its rows; of_vectors: see `match_model`."""
    return Explanations(scheme, source, positions, of_vectors).result()
