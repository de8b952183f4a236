"""Assertions for people's own test suites: is this table, or this module, the scheme it should be?

from posenc.schemes import SCHEMES
from posenc.testing import assert_matches

def test_my_positions():
    assert_matches(MyPositions(512).pe, SCHEMES["sinusoidal"](dim=512))
"""

from collections.abc import Mapping, Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.checkpoints.array_files import cosines_and_sines, name_of_sines
from posenc.errors import SchemeArgumentError, quoted
from posenc.identification import identify
from posenc.identification.columns import TableInput, column_words
from posenc.identification.frequency_fit import narrowest_format, rounding
from posenc.identification.identify import headline
from posenc.identification.model_match import difference_from, reordering_note
from posenc.models.config_json import HasToDict
from posenc.models.read_config import read_config
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.tables import rope_tables, sinusoidal_table

ROWS = 2_048  # requested from a module that computes its tables
Tables = Tensor | Sequence[Tensor] | nn.Module
Parts = tuple[Tensor, Tensor | None]  # a table; or cosines and sines


def assert_matches(
    produced: Tables,
    scheme: SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str,
    *,
    start: int = 0,
    tolerance: float | None = None,
) -> None:
    """Raise AssertionError, with what the table is instead, unless it is that of a scheme.

    produced: a table (rows, width), a complex one (cos + i sin), or cosines and sines, each (rows, pairs)
        or (rows, rotary width) in the layout of the config, or both in one tensor (rows, pairs, 2); or
        a module that holds or makes one: an nn.Embedding, one with buffers of cosines and sines or
        with one table, or one called as module(x, position_ids) that returns both, as in transformers.
        If a module holds several caches, such as one in every layer, each must match.
    scheme: a sinusoidal or RoPE config, or what it builds; or a config.json of transformers, as its path,
        its text, its keys or a config object, of which each table must match the RoPE of one kind of layer.
    start: the position of the first row.
    tolerance: the largest difference of a number allowed; None is the rounding to the format of the
        numbers. Angles computed in float32 need more: 1e-6 for each ten positions or so.
    Raises SchemeArgumentError for a scheme without such a table, and if no table is found.
    """
    configs = _configs(scheme)
    if tolerance is not None and not (
        isinstance(tolerance, float | int) and 0 <= tolerance < 1 and tolerance is not False
    ):
        raise SchemeArgumentError(
            f"tolerance must be a number from 0 and below 1, got {quoted(tolerance)}."
        )
    tables = _tables(produced)
    for name, (table, sines) in tables.items():
        failures = [_mismatch(table, sines, config, start, tolerance) for config in configs]
        if all(failures):
            failure = " ".join(failures)
            raise AssertionError(f"{name}: {failure}" if len(tables) > 1 else failure)


def _mismatch(
    table: Tensor,
    sines: Tensor | None,
    config: SinusoidalConfig | RopeConfig,
    start: int,
    tolerance: float | None,
) -> str:
    """Return how a table differs from that of a scheme and what it is, "" if it matches."""
    source = TableInput.of(table, sines)
    expected = _expected(config, source, start)
    if expected.shape != source.columns.shape:
        return (
            f"This is no table of {config.label}: it is {len(source.columns):,} x {source.width:,}, and "
            f"{_widths(config)} {'is' if isinstance(config, SinusoidalConfig) else 'are'} expected."
        )
    off = (source.columns - expected).abs()
    largest = float(off.max())
    size = max(1.0, float(expected.abs().max()))
    allowed = tolerance
    if allowed is None:
        allowed = rounding(narrowest_format(source.columns), len(off) + abs(start), size)
    if largest <= allowed:
        return ""
    row, column = divmod(int(off.argmax()), off.shape[1])
    where = column_words(source.form, source.width, column)
    actual, wrong = identify(table, sines), ""
    if isinstance(config, RopeConfig):
        wrong = difference_from(config, source, start, actual.arrangement)
        wrong = wrong or reordering_note(config, actual.arrangement, source).strip()
    sentences = [headline(actual), *(deviation.sentence for deviation in actual.deviations)]
    sentences += [f"It may also be {words}." for words in actual.also]
    return (
        f"This is not the table of {config.label} ({_widths(config)}, base {config.base:,.6g}) from "
        f"position {start:,}: row {row:,}, {where} differs by {largest:.3g}, and "
        f"{allowed:.2g} is allowed. {wrong}{' ' if wrong else ''}What it is: {' '.join(sentences)}"
    )


def _configs(
    scheme: SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str,
) -> list[SinusoidalConfig | RopeConfig]:
    """Return the configs of which a table must match one."""
    if isinstance(scheme, str) and (scheme.endswith(".json") or isfile(scheme)):
        scheme = Path(scheme)
    if isinstance(scheme, str) and not scheme.lstrip().startswith("{"):  # neither path nor JSON
        return [_with_table(scheme)]
    if not isinstance(scheme, Mapping | HasToDict | Path | str):
        return [_with_table(scheme)]
    model = read_config(scheme)
    configs = [kind.scheme for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    if not configs:
        raise SchemeArgumentError(f"No layer of this {model.model_type} model has RoPE.")
    return list(dict.fromkeys(configs))


def _with_table(scheme: object) -> SinusoidalConfig | RopeConfig:
    """Return the scheme's config if it has tables of sines and cosines."""
    config = scheme.config if isinstance(scheme, Scheme) else scheme
    if not isinstance(config, SchemeConfig):
        raise SchemeArgumentError(
            'scheme must be a config, such as SCHEMES["sinusoidal"](dim=512), what it builds, or a '
            f"config.json, got {quoted(config)}."
        )
    if isinstance(config, SinusoidalConfig | RopeConfig):
        return config
    raise SchemeArgumentError(
        f"{config.label} has no table of sines and cosines; sinusoidal schemes and RoPE have."
    )


def _widths(config: SinusoidalConfig | RopeConfig) -> str:
    if isinstance(config, RopeConfig):
        return f"{config.rotary_dim // 2:,} cosines and sines, or {config.rotary_dim:,}"
    return f"width {config.dim:,}"


def _expected(
    config: SinusoidalConfig | RopeConfig, source: TableInput, start: int
) -> Float[Tensor, "t c"]:
    rows = len(source.columns)
    if isinstance(config, SinusoidalConfig):
        if source.form != "table":
            raise SchemeArgumentError("A sinusoidal scheme has one table, not cosines and sines.")
        return sinusoidal_table(
            rows, config.dim, config.base, start=start, layout=config.layout, dtype=torch.float64
        )
    if source.form == "table":
        raise SchemeArgumentError(
            "RoPE's tables are two: give (cosines, sines), or a complex table of cos + i sin."
        )
    if not config.build().stationary:
        raise SchemeArgumentError(
            f"{config.label} on a grid has tables of two axes: give a text's."
        )
    inv_freq, factor = rope_frequencies(config, length=rows + max(start, 0))
    parts = rope_tables(
        rows, config.rotary_dim, inv_freq=inv_freq, start=start, dtype=torch.float64
    )
    if source.width == config.rotary_dim:
        half = config.layout == "half"
        columns = [part.repeat(1, 2) if half else part.repeat_interleave(2, 1) for part in parts]
        return torch.cat(columns, 1) * factor
    return torch.cat(parts, 1) * factor


def _tables(produced: Tables) -> dict[str, Parts]:
    """Return the produced table, or every table that a module holds, by name."""
    if isinstance(produced, Tensor):
        return {"": (produced, None)}
    if isinstance(produced, nn.Module):
        return _tables_of(produced)
    parts = list(produced)
    if len(parts) != 2:
        raise SchemeArgumentError(f"Give one table, or cosines and sines, got {len(parts)} tables.")
    return {"": (parts[0], parts[1])}


def _tables_of(module: nn.Module) -> dict[str, Parts]:
    # A tensor that layers share counts under all its names, so that each finds its partner.
    tensors = (
        *module.named_buffers(remove_duplicate=False),
        *module.named_parameters(remove_duplicate=False),
    )
    matrices = {
        name: tensor
        for name, tensor in tensors
        if (tensor.is_floating_point() or tensor.is_complex())
        and (tensor.squeeze().ndim == 2 or cosines_and_sines(tensor) is not None)
    }
    pairs: dict[tuple[int, int], tuple[str, Parts]] = {}
    for name, tensor in matrices.items():
        sines = matrices.get(partner := name_of_sines(name))
        if sines is not None:
            pairs.setdefault((id(tensor), id(sines)), (f"{name} and {partner}", (tensor, sines)))
    if pairs:
        return dict(pairs.values())
    if len({id(tensor) for tensor in matrices.values()}) == 1:
        return {"": (next(iter(matrices.values())), None)}
    if hasattr(module, "inv_freq"):
        positions = torch.arange(ROWS).unsqueeze(0)
        try:
            with torch.no_grad():
                output = module(torch.zeros(1, ROWS, 1), positions)
        except (RuntimeError, TypeError, ValueError) as reason:  # of code that is not ours
            raise SchemeArgumentError(
                f"{type(module).__name__} cannot be called as module(x, position_ids), as in "
                "transformers; give the tables that it makes."
            ) from reason
        if isinstance(output, tuple) and len(output) == 2:
            return {"": (output[0], output[1])}
    names = ", ".join(sorted(matrices)) or "none"
    raise SchemeArgumentError(
        f"{type(module).__name__} holds no one table of positions (matrices: {names}); give the table."
    )
