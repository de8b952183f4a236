"""Whether an identified table belongs to a model, by the frequencies that its config asks for."""

import math
from collections.abc import Mapping

from posenc.identification.columns import Columns
from posenc.identification.frequency_fit import by_column
from posenc.identification.identify import Identification, base_words
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig, rope_frequencies

_CLOSE = 1e-6  # relative difference of frequencies that are one


def match_model(
    result: Identification, schemes: Mapping[str, SchemeConfig | None]
) -> tuple[bool, str]:
    """Return whether layers of a model rotate by a table's frequencies, and a sentence on it.

    schemes: of each kind of layer, by its name.
    """
    if result.hypothesis is None or result.arrangement is None:
        return False, "No formula makes this table, so it cannot be compared with the config."
    columns = result.arrangement.columns(
        result.width if result.arrangement.form == "table" else 2 * result.width
    )
    layers = []
    for name, scheme in schemes.items():
        text = f"{name} layers have {_rotation(scheme)}"
        if isinstance(scheme, RopeConfig) and _rotates_by(scheme, result, columns):
            return True, f"This table belongs to the model: its {text}."
        layers.append(text)
    return False, (
        f"This table does not belong to the model: it has width {columns.dim:,} and base "
        f"{base_words(result)}; the model's {'; its '.join(layers)}."
    )


def _rotation(scheme: SchemeConfig | None) -> str:
    if not isinstance(scheme, RopeConfig):
        return "no RoPE"
    scaling = f" ({scheme.words})" if scheme.words else ""
    width, base = scheme.rotary_dim, f"{scheme.base:,.10g}"
    return f"{scheme.label} of width {width:,} and base {base}{scaling}"


def _rotates_by(scheme: RopeConfig, result: Identification, columns: Columns) -> bool:
    """Whether a scheme has the frequencies and the size of an identified table, as far as it shows."""
    hypothesis = result.hypothesis
    if hypothesis is None or scheme.rotary_dim != columns.dim:
        return False
    frequencies, factor = rope_frequencies(scheme, length=result.rows)
    expected = by_column(frequencies, columns)
    difference = (hypothesis.frequencies(columns).abs() - expected).abs()
    tolerance = max(_CLOSE, 2 * result.base_within)
    return bool((difference <= tolerance * expected).all()) and math.isclose(
        abs(hypothesis.size), factor, rel_tol=2e-3
    )
