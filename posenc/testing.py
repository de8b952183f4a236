"""Assertions for people's own test suites: is this table, or this module, the scheme it should be?

from posenc.schemes import SCHEMES
from posenc.testing import assert_matches

def test_my_positions():
    assert_matches(MyPositions(512).pe, SCHEMES["sinusoidal"](dim=512))
"""

import math
from collections.abc import Mapping, Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.checkpoints.array_files import cosines_and_sines, name_of_sines
from posenc.errors import SchemeArgumentError, quoted
from posenc.identification import identify
from posenc.identification.columns import MIN_ROWS, TableInput, column_words
from posenc.identification.comparison import (
    AnswersDifference,
    Match,
    TableScheme,
    allowed_differences,
    differences_of,
)
from posenc.identification.facts import SchemeMatch
from posenc.identification.match import expected_positions, match
from posenc.identification.predict import Place
from posenc.identification.rotary_modules import (
    CONTEXT,
    NOT_FINITE,
    Answer,
    Asked,
    ask,
    layer_types,
    takes_positions,
)
from posenc.identification.sentences import (
    alternative_sentences,
    cause_sentence,
    deviation_sentences,
    difference_sentence,
    headline,
    reordering_sentence,
)
from posenc.limits import MAX_POSITION, check_count
from posenc.models.config_json import HasToDict
from posenc.models.read_config import read_config
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.text import significant

Tables = Tensor | Sequence[Tensor] | nn.Module
_UNEXPLAINED = ("unknown", "other")  # words of causes without a reason
Parts = tuple[Tensor, Tensor | None]  # a table; or cosines and sines


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
    configs, named, is_model = _configs(scheme)
    matches = []
    for name, asked in _answers(produced, configs, named, start, positions, context).items():
        candidates = [configs[name]] if name in configs else configs.values()
        if is_model:
            candidates = [_in_layout_of(asked.answers[0].source, one) for one in candidates]
        results = [_compare(asked, config, tolerance) for config in dict.fromkeys(candidates)]
        match = next((match for match, _ in results if match), None)
        if match is None or asked.refused:
            failure = _refusal(asked) if match else " ".join(words for _, words in results)
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
        return None, _joined(
            cause,
            f"This is no table of {config.label}: it is {len(source.columns):,} x {source.width:,}, and "
            f"{_widths(config)} {'is' if isinstance(config, SinusoidalConfig) else 'are'} expected.",
        )
    allowed = allowed_differences(asked.answers, config, tolerance)
    differences = differences_of(asked.answers, config, allowed)
    if not isinstance(differences, list):
        return differences, ""
    failure = _failure_of_module if asked.words else _failure_of_table
    return None, _joined(failure(asked.answers, config, differences), asked.words)


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


def _failure_of_table(
    answers: Sequence[Answer], config: TableScheme, differences: Sequence[AnswersDifference]
) -> str:
    (answer,), nearest = answers, _nearest(differences)
    place, cause, description = nearest.most[1], *_explained(answer, config)
    return _joined(
        cause,
        f"This is not the table of {_words(config)} from position {int(answer.positions[0]):,}: row "
        f"{place.row:,}, {_column(answer, place)} differs {_by(place)} from {nearest.match}, "
        f"{_allowed(nearest, differences)}",
        description,
    )


def _failure_of_module(
    answers: Sequence[Answer], config: TableScheme, differences: Sequence[AnswersDifference]
) -> str:
    nearest, in_order = _nearest(differences), answers[:2][-1]
    number, first = nearest.first
    asked = in_order if number <= 1 else answers[number]
    cause, description = _explained(asked, config)
    which = f"{asked.words[0].upper()}{asked.words[1:]}: {description}"
    return _joined(
        cause,
        f"This module is not {_words(config)}. Asked for {answers[number].words}, it differs from "
        f"{nearest.match} first {_at(answers, number, first)}, and most {_at(answers, *nearest.most)}, "
        f"{_allowed(nearest, differences)}",
        f"It is right for {in_order.words}." if number > 1 else which,
    )


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _refusal(asked: Asked) -> str:
    return (
        f"This module is right for {asked.answers[-1].words}, but {asked.refused}. {asked.words} "
        "`context` sets how many positions that are."
    )


def _nearest(differences: Sequence[AnswersDifference]) -> AnswersDifference:
    """Return the way from which the first difference is latest, of several the exact one."""
    return max(differences, key=lambda each: (each.first[0], each.first[1].row))


def _allowed(nearest: AnswersDifference, differences: Sequence[AnswersDifference]) -> str:
    """Return how much is allowed, and by how much numbers differ from the other of exact and float32."""
    words = f"where {significant(nearest.most[1].allowed, 2)} is allowed"
    others = [each for each in differences if each.match != nearest.match]
    if not others:
        return f"{words}."
    other = min(others, key=lambda each: each.most[1].amount)
    return (
        f"{words}; from {other.match} at most {_by(other.most[1])}, where "
        f"{significant(other.most[1].allowed, 2)} is."
    )


def _at(answers: Sequence[Answer], number: int, place: Place) -> str:
    position = int(answers[number].positions[place.row])
    return f"at position {position:,}, {_column(answers[number], place)}, {_by(place)}"


def _by(place: Place) -> str:
    return (
        f"by {significant(place.amount)}" if place.amount < NOT_FINITE / 2 else "by NaN or infinity"
    )


def _column(answer: Answer, place: Place) -> str:
    return column_words(answer.source.form, answer.source.width, place.column)


def _explained(answer: Answer, config: TableScheme) -> tuple[str, str]:
    """Return what is wrong with rows, "" if no reason is known; then where and what they are."""
    finite = (answer.source.columns.abs() < NOT_FINITE / 2).all(1)
    if int(finite.sum()) < MIN_ROWS:
        return "", "Numbers are NaN or infinite."
    source = answer.source.rows(finite)
    found: SchemeMatch | None = None
    if isinstance(config, RopeConfig):
        found = match(config, source, answer.positions[finite])
    cause = "" if found is None else cause_sentence(found)
    if found is not None and cause and not (found.cause and found.cause.word in _UNEXPLAINED):
        return cause, difference_sentence(found)
    parts: list[Tensor] = [*source.columns.split(source.width, 1)]
    actual = identify(*parts)
    sentences = (
        headline(actual), *deviation_sentences(actual), *alternative_sentences(actual),
    )  # fmt: skip
    where = "" if found is None else difference_sentence(found) or reordering_sentence(found)
    return cause, _joined(where, f"What it is: {' '.join(sentences)}")


def _words(config: TableScheme) -> str:
    return f"{config.label} ({_widths(config)}, base {significant(config.base, 6)})"


def _configs(
    scheme: SchemeConfig | Scheme | Mapping[str, Any] | HasToDict | Path | str,
) -> tuple[dict[str, TableScheme], int, bool]:
    """Return the configs of which a table must match one, by kind of layer; then their context, 0 if they
    name none; then whether they are a model's.
    """
    if isinstance(scheme, str) and (scheme.endswith(".json") or isfile(scheme)):
        scheme = Path(scheme)
    if not isinstance(scheme, Mapping | HasToDict | Path | str) or (
        isinstance(scheme, str) and not scheme.lstrip().startswith("{")
    ):
        config = _with_table(scheme)
        return {"": config}, _reach(config), False
    model = read_config(scheme)
    configs: dict[str, TableScheme] = {
        name: kind.scheme
        for kind in model.layer_kinds
        for name in (kind.name, kind.block_name)
        if isinstance(kind.scheme, RopeConfig)
    }
    if not configs:
        raise SchemeArgumentError(f"No layer of this {model.model_type} model has RoPE.")
    return configs, max(model.context or 0, *map(_reach, configs.values())), True


def _reach(config: TableScheme) -> int:
    """Return the largest number of positions that a scheme's own fields name, 0 if they name none."""
    reach = getattr(config, "factor", 1.0) * getattr(config, "trained_length", 0)
    return min(max(math.ceil(reach), getattr(config, "length", 0)), MAX_POSITION)


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


def _in_layout_of(source: TableInput, config: TableScheme) -> TableScheme:
    """Return the config in halves, if the columns are repeated in halves and the model pairs neighbours.

    transformers has such caches, and code that reorders: see `reordering_note`.
    """
    if not isinstance(config, RopeConfig) or source.width != config.rotary_dim:
        return config
    first, second = source.columns[:, : source.width].tensor_split(2, 1)
    return config.replace(layout="half") if torch.equal(first, second) else config


def _widths(config: SinusoidalConfig | RopeConfig) -> str:
    if isinstance(config, RopeConfig):
        return f"{config.rotary_dim // 2:,} cosines and sines, or {config.rotary_dim:,}"
    return f"width {config.dim:,}"


def _answers(
    produced: Tables,
    configs: Mapping[str, TableScheme],
    named_context: int,
    start: int,
    positions: Tensor | None,
    context: int | None,
) -> dict[str, Asked]:
    """Return the rows of each table that is given or held, or of each kind of layer, by name."""
    check_count("start", start, -MAX_POSITION, MAX_POSITION)
    if context is not None:
        check_count("context", context, 2, MAX_POSITION)
    parts = _held_by(produced) if isinstance(produced, nn.Module) else _given(produced)
    held = {name: TableInput.of(*each) for name, each in parts.items()}
    if isinstance(produced, nn.Module) and (takes_positions(produced) or not held):
        rows = min((len(source.columns) for source in held.values()), default=CONTEXT)
        asked = _asked(produced, configs, context or named_context or rows)
        silent = next((each.refused for each in asked.values() if not each.answers), "")
        if silent and not held:
            raise SchemeArgumentError(
                f"{type(produced).__name__} holds no one table of positions and does not return cosines "
                f"and sines of module(x, position_ids), as in transformers ({silent}); give the tables."
            )
        if (start or positions is not None) and not silent:
            raise SchemeArgumentError(
                "start and positions are those of a table's rows; this module is called with positions."
            )
        if not silent:
            return asked
    if context is not None:
        raise SchemeArgumentError(
            "context is the number of positions of a module that is called with them; a table has rows."
        )
    if positions is not None and start:
        raise SchemeArgumentError("Give start or positions, not both.")
    return {
        name: Asked([Answer(source, start + expected_positions(positions, len(source.columns)))])
        for name, source in held.items()
    }


def _asked(module: nn.Module, configs: Mapping[str, TableScheme], context: int) -> dict[str, Asked]:
    """Return what a module returns for each kind of layer that the model has."""
    kinds, asked = layer_types(module), {}
    for kind in [kind for kind in kinds if kind in configs] or kinds:
        chosen = [configs[kind]] if kind in configs else configs.values()
        lengths = {getattr(config, "trained_length", 0) for config in chosen}
        asked[kind] = ask(module, context, lengths, kind)
    return asked


def _given(produced: Tensor | Sequence[Tensor]) -> dict[str, Parts]:
    if isinstance(produced, Tensor):
        return {"": (produced, None)}
    parts = list(produced)
    if len(parts) != 2:
        raise SchemeArgumentError(f"Give one table, or cosines and sines, got {len(parts)} tables.")
    return {"": (parts[0], parts[1])}


def _held_by(module: nn.Module) -> dict[str, Parts]:
    """Return the tables that a module holds, by name; {} if it holds none, or several of other use."""
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
    if len(pairs) > 1:
        return dict(pairs.values())
    if pairs:
        return {"": next(iter(pairs.values()))[1]}
    if len({id(tensor) for tensor in matrices.values()}) == 1:
        return {"": (next(iter(matrices.values())), None)}
    return {}
