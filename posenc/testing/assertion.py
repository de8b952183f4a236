"""Whether a table, or what a module returns, is that of a scheme."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from posenc.errors import SchemeArgumentError, quoted
from posenc.identification.columns import TableInput
from posenc.identification.comparison import Match, TableScheme, allowed_differences, differences_of
from posenc.identification.match import match
from posenc.identification.rotary_modules import Asked
from posenc.identification.sentences import cause_sentence
from posenc.models.config_json import HasToDict
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.testing.expected import configs_of, in_layout_of, widths
from posenc.testing.failures import failure_of_module, failure_of_table, joined, refusal
from posenc.testing.produced import Tables, answers_of
from posenc.testing.questions import asked_sentence


def assert_matches(
    produced: Tables,
    scheme: SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str,
    *,
    start: int = 0,
    positions: Tensor | None = None,
    context: int | None = None,
    tolerance: float | None = None,
) -> Match:
    """Return "exact angles" or "float32 arithmetic", which of them gives the numbers of a scheme's table.

    produced: a table (rows, width), a complex one (cos + i sin), or cosines and sines, each (rows, pairs)
        or (rows, rotary width) in the layout of the config, or both in one tensor (rows, pairs, 2); or
        a module that holds or makes one: an nn.Embedding, one with buffers of cosines and sines or
        with one table, or one called as module(x, position_ids) that returns both, or cos + i sin, as in
        transformers, where some take a layer_type, too.
        If a module has several, such as one in every layer, each must match.
    scheme: a sinusoidal or RoPE config, or what it builds; or a config of transformers, or its config.json
        as path, text or keys: each table must match the RoPE of one kind of layer, and may be repeated in
        halves where the model pairs neighbours, as transformers has code that reorders the features.
    start: the position of a table's first row. positions (rows,): those of all rows in place of it, such as
        0..63, 0..63 of two packed documents.
    context: the number of positions of a module that is called. None is the largest that the scheme names
        (the model's context, the trained length times the factor); if it names none, the rows of a table
        that the module holds, else 131,072. The module is asked for the first 2,048 positions in order;
        then, in rising order, for each power of two, its neighbours, the last position and 32 random ones,
        the same in every run; and for those again in another order, each twice. If a scaling has a trained
        length, texts that end there and one position later are asked for first, by the same rule.
    tolerance: the largest difference of a number allowed from exact angles. None allows what either gives.
        "exact angles": numbers are right and rounded once to their format, within 1.2e-7 in float32 and,
        in bfloat16, 1.2e-7 and 1/256 of the number itself. "float32 arithmetic": numbers that a format
        below float64 holds are those of frequencies, angles, cosines and sines in float32, as in
        transformers, within 2.4e-7 in float32 and, in bfloat16, 2.4e-7 and 1/256 of the number; where both
        hold, "exact angles" is returned. An attention factor above 1 multiplies these. Other float32 code
        is within 2e-7 for each position, times the attention factor, of exact angles: tolerance=2e-7 *
        2_048 allows it in 2,048 rows. `posenc identify` and `match_model` allow any float32 code that, and
        numbers that were rounded again when a factor was applied, so that a table may belong to a model
        there and fail here.
    Raises AssertionError where neither gives the numbers: it says what the table is instead, how far it is
    from both, and at which positions a module was asked and is wrong. Raises SchemeArgumentError for a
    scheme without such a table, and if no table is found.
    """
    if tolerance is not None and not (
        isinstance(tolerance, float | int) and 0 <= tolerance < 1 and tolerance is not False
    ):
        raise SchemeArgumentError(
            f"tolerance must be a number from 0 and below 1, got {quoted(tolerance)}."
        )
    configs, named, is_model = configs_of(scheme)
    matches = []
    for name, asked in answers_of(produced, configs, named, start, positions, context).items():
        candidates = [configs[name]] if name in configs else configs.values()
        if is_model:
            candidates = [in_layout_of(asked.answers[0].source, one) for one in candidates]
        results = [_compare(asked, config, tolerance) for config in dict.fromkeys(candidates)]
        match = next((match for match, _ in results if match), None)
        failure = "" if match else " ".join(words for _, words in results)
        if match and asked.refused:
            failure = refusal(asked, asked.refused)
        if match is None or failure:
            raise AssertionError(f"{name}: {failure}" if name else failure)
        matches.append(match)
    return "float32 arithmetic" if "float32 arithmetic" in matches else "exact angles"


def _compare(
    asked: Asked, config: TableScheme, tolerance: float | None
) -> tuple[Match | None, str]:
    """Return what answers match and "", or None and how they differ."""
    source = asked.answers[0].source
    if not _has_width(config, source):
        cause = ""
        if isinstance(config, RopeConfig):
            cause = cause_sentence(match(config, source, asked.answers[0].positions))
        return None, joined(
            cause,
            f"This is no table of {config.label}: it is {len(source.columns):,} x {source.width:,}, and "
            f"{widths(config)} {'is' if isinstance(config, SinusoidalConfig) else 'are'} expected.",
        )
    allowed = allowed_differences(asked.answers, config, tolerance)
    differences = differences_of(asked.answers, config, allowed)
    if not isinstance(differences, list):
        return differences, ""
    failure = failure_of_module if asked.lengths else failure_of_table
    return None, joined(failure(asked.answers, config, differences), asked_sentence(asked))


def _has_width(config: TableScheme, source: TableInput) -> bool:
    """Whether a table is as wide as a scheme's. Raises for a scheme without such a table."""
    if isinstance(config, SinusoidalConfig):
        if source.form != "table":
            raise SchemeArgumentError("A sinusoidal scheme has one table, not cosines and sines.")
        return source.width == config.dim
    if source.form == "table":
        raise SchemeArgumentError(
            "RoPE's tables are two: give (cosines, sines), or a complex table of cos + i sin."
        )
    if not config.build().stationary:
        raise SchemeArgumentError(
            f"{config.label} on a grid has tables of two axes: give a text's."
        )
    return source.width in (config.rotary_dim // 2, config.rotary_dim)
