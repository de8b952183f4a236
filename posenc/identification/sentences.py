"""The facts of a match in sentences: causes, mistakes, and how a table differs from a model."""

from posenc.identification.clauses import cause_clause, mistake_clause, size_clause
from posenc.identification.facts import ModelMatch, SchemeMatch
from posenc.identification.identify import Identification, base_words
from posenc.identification.rotated import RotationMatch, layout_words
from posenc.identification.scalings import scaling_words
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.text import count_of


def cause_sentence(match: SchemeMatch) -> str:
    """Return what is wrong with a table, "" if nothing is or no reason is known."""
    if match.low_angles is not None:
        name = str(match.low_angles.dtype).removeprefix("torch.")
        return (
            f"Its angles are rounded to {name}: the largest error is {match.low_angles.largest:.3g}, and "
            f"numbers are wrong from row {match.low_angles.row:,} on."
        )
    clauses = []
    if match.wrong_layout:
        clauses.append(
            "its layout is not that of the model: its columns are repeated in neighbours, the model's in "
            "halves"
        )
    clauses += [
        text
        for text in (
            match.mistake and mistake_clause(match.mistake),
            match.size and size_clause(match.size),
            match.cause and cause_clause(match.cause),
        )
        if text
    ]
    if not clauses:
        return ""
    text = ", and ".join(clauses) if match.wrong_layout else " and ".join(clauses)
    if match.since:
        return f"From row {match.since:,} on, {text}."
    return f"{text[:1].upper()}{text[1:]}."


def difference_sentence(match: SchemeMatch) -> str:
    """Return where a table differs first from a scheme, "" if nowhere."""
    if not match.first:
        count, pairs = match.columns, match.scheme.rotary_dim // 2
        return "" if match.belongs else (
            f"It has {count_of(count, 'column')} of cosines and sines, which {pairs:,} pairs (width "
            f"{2 * pairs:,}) do not make."
        )  # fmt: skip
    fastest = match.first.fastest
    return f"It differs first in row {fastest.row:,}, pair {match.pair:,}, by {fastest.amount:.3g}."


def reordering_sentence(match: SchemeMatch) -> str:
    """Return what code must do with a cache in halves of a scheme that pairs neighbours, else ""."""
    if not match.reordered:
        return ""
    return (
        "The model pairs neighbours, and the columns are repeated in halves: the code that uses them must "
        "reorder, as that of GLM and DeepSeek in transformers does."
    )


def match_sentences(match: ModelMatch, result: Identification | None) -> list[str]:
    """Return whether a table belongs to a model, the cause first where it does not.

    result: what the table is, if that was looked for.
    """
    layers = {
        name: f"{_kind(name)} have {_rotation(scheme)}" for name, scheme in match.schemes.items()
    }
    if match.belonging is not None:
        one = match.matches[match.belonging]
        single = one.arithmetic == "float32 arithmetic"
        return [
            f"This table belongs to the model: its {layers[match.belonging]}.",
            *([note] if (note := reordering_sentence(one)) else []),
            *(["Its angles are float32, as transformers computes them."] if single else []),
        ]
    nearest, several = match.nearest, len(match.schemes) > 1
    causes = [
        _against(name, sentence, several)
        for name, one in match.matches.items()
        if one is nearest and (sentence := cause_sentence(one))
    ]
    width = "" if result is None else _width(result)
    own = "; its ".join(layers.values())
    belongs = f"This table does not belong to the model: {width}the model's {own}."
    faults = [
        _against(name, sentence, several)
        for name, one in match.matches.items()
        for sentence in (
            "" if one is nearest else cause_sentence(one),
            _other_width(one, result) or difference_sentence(one),
        )
        if sentence
    ]
    return [*causes, belongs, *faults]


def rotation_sentences(match: RotationMatch, result: Identification | None) -> list[str]:
    """Return whether layers of a model rotate like vectors, the cause first where they do not."""
    tables = match.tables
    if tables is None or (match.belongs and tables.nearest is None):
        return ["These vectors are not those of the model's RoPE."]
    if match.start and not match.wrong_layouts:
        name = next(name for name, one in tables.matches.items() if one is tables.nearest)
        return [f"The model's {_kind(name)} rotate like this, from position {match.start:,} on."]
    if match.wrong_layouts:
        expected = " or ".join(layout_words(each, match.features) for each in match.wrong_layouts)
        wrong = f"These vectors have the wrong layout: the model pairs {expected}."
        right = tables.belongs or match.start
        return [wrong] if right else [wrong, *match_sentences(tables, result)]
    if match.other_way:
        return [
            "These vectors turn the other way: the model turns each pair by minus the angle of its "
            "position."
        ]
    return match_sentences(tables, result)


def _against(name: str, sentence: str, several: bool) -> str:
    return (
        f"Against its {_kind(name)}, {sentence[0].lower()}{sentence[1:]}" if several else sentence
    )


def _kind(name: str) -> str:
    return "layers" if name == "all" else f"{name.replace('_', ' ')} layers"


def _width(result: Identification) -> str:
    if result.arrangement is None:
        return ""
    if isinstance(result.config, ScaledRopeConfig):
        return f"it has {_rotation(result.config)}; "
    return f"it has width {result.pairs * 2:,} and base {base_words(result)}; "


def _other_width(match: SchemeMatch, result: Identification | None) -> str:
    """Return a sentence on a table that rotates another width than a scheme, "" for the same."""
    if result is None or result.arrangement is None or 2 * result.pairs == match.scheme.rotary_dim:
        return ""
    scheme, width = match.scheme, 2 * result.pairs
    share = f", the first of {scheme.dim:,} features" if scheme.rotary_dim < scheme.dim else ""
    return (
        f"It rotates {count_of(width // 2, 'pair')} of features (width {width:,}), and the model rotates "
        f"{scheme.rotary_dim // 2:,} (width {scheme.rotary_dim:,}{share})."
    )


def _rotation(scheme: SchemeConfig | None) -> str:
    if not isinstance(scheme, RopeConfig):
        return "no RoPE"
    scaling = f" ({words})" if (words := scaling_words(scheme)) else ""
    width, base = scheme.rotary_dim, f"{scheme.base:,.10g}"
    return f"{scheme.label} of width {width:,} and base {base}{scaling}"
