"""The facts of a match in sentences: causes, mistakes, and how a table differs from a model."""

from posenc.identification.facts import ModelMatch, SchemeMatch, Size
from posenc.identification.identify import Identification, base_words
from posenc.identification.positions import Cause
from posenc.identification.rotated import RotationMatch, layout_words
from posenc.identification.scalings import scaling_words
from posenc.identification.variants import Mistake
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.text import count_of

CAUSES = {
    "unknown": "row {row:,} stands for no whole position at these frequencies; {0:,} such in all",
    "shifted": "row 0 stands for position {1:,}, and all positions are off by {0:+,}",
    "negative start": "row 0 stands for position {1:,}, as padding on the left that is counted; "
    "all "
    "positions are off by {0:+,}",
    "bfloat16 positions": "positions are rounded to bfloat16, so that row {row:,} stands for "
    "position {0:,}, "
    "not for {1:,}",
    "float16 positions": "positions are rounded to float16, so that row {row:,} stands for "
    "position {0:,}, "
    "not for {1:,}",
    "clamped": "positions are clamped at {0:,}, from row {row:,} on",
    "wrapped": "positions wrap after {2:,}, so that row {row:,} stands for position {0:,}, not for {1:,}",
    "first part again": "from row {row:,} on, positions are those of the first {row:,} rows "
    "again, as where "
    "the offset of the first sequence is used for all",
    "not reset": "positions run on from row to row: row {row:,} stands for {0:,}, where a new "
    "document begins "
    "at {1:,}",
    "counted": "rows are counted: row {row:,} stands for position {0:,}, whichever is asked for, "
    "as here {1:,}",
    "negated": "every sine is negated, as if positions counted backwards from 0",
    "sorted": "positions are those asked for, sorted: row {row:,} stands for position {0:,}, not for {1:,}",
    "other": "row {row:,} stands for position {0:,}, not for {1:,}",
    "strided": "each row stands for {0:,} positions more than the one before, as in a strided slice",
    "stuck": "from row {row:,} on, every row stands for position {0:,}, as where each decoding "
    "step counts "
    "anew",
    "padding filled": "the first {0:,} rows stand for position {1:,}, as padding that is filled, "
    "and the text "
    "begins in row {0:,} at position 0",
    "reset": "positions begin again at 0 in row {row:,} ({0:,} parts), as of packed documents",
    "reset evenly": "positions begin again at 0 in row {row:,} ({0:,} parts), as of packed "
    "documents or of a "
    "cache of {1:,} rows that wraps",
    "context-parallel slice": "the rows are the two slices of rank {0:,} of {1:,} in context "
    "parallelism; the "
    "second begins in row {row:,}",
    "counted twice": "row {row:,} stands for position {0:,}: the {1:,} rows before it are counted twice",
    "jumps ahead": "row {1:,} stands for position {0:,}: the positions between are skipped",
    "goes back": "row {1:,} stands for position {0:,}: positions go on from the number of rows "
    "kept, as after "
    "an eviction",
}
MISTAKES = {
    "not scaled": "the frequencies are not scaled, where the scheme has {0}",
    "scaled twice": "the frequencies are scaled twice by {0}",
    "every frequency divided": "every frequency is divided by {0:g}, where the scheme has {1}",
    "original length": "the scaling starts from {0:,} tokens, where the scheme's starts from {1:,}",
    "static NTK": "the base is that of static NTK scaling by {0:g}, not of dynamic NTK for {1:,} tokens",
    "another length": "the frequencies are those of {0:,} tokens, not of {1:,} tokens",
    "short texts": "the frequencies are those of short texts, not of {0:,} tokens",
    "long texts": "the frequencies are those of long texts, not of {0:,} tokens",
    "whole head": "all {0:,} features of a head are rotated; the model rotates {1:,} of them",
    "exponents of the head": "the exponents are 2m/{0}, of the whole head, in place of 2m/{1}",
    "partial": "the exponents are 2m/{0}, as of partial rotation, in place of 2m/{1}",
    "zero pairs left out": "the {0:,} features that do not turn are left out, so that others are paired",
    "halved width": "{0:,} features are rotated, where the model rotates {1:,}; the exponents are 2m/{0}",
    "first pairs": "{0:,} features are rotated, where the model rotates {1:,}; the exponents are 2m/{1}",
    "exponent m/d": "the exponents are m/d in place of 2m/d",
    "divided": "every frequency is the model's divided by {0}, as linear scaling by {0} does",
    "rounded frequencies": "the frequencies are rounded to {0}",
    "another number": "the {0} is {1}, where the scheme has {2}",
    "exchanged": "sines and cosines have changed places in {0:,} of {1:,} pairs",
    "axes": "the axes of the pairs are {0}",
}
_IN_TURN, _IN_SECTIONS = "dealt out in turn", "one section after the other"


def cause_clause(cause: Cause) -> str:
    """Return why positions are not those expected, as a clause."""
    word = "reset evenly" if cause.word == "reset" and cause.numbers[1] else cause.word
    return CAUSES[word].format(*cause.numbers, row=cause.row)


def mistake_clause(mistake: Mistake) -> str:
    """Return what is wrong with frequencies or columns, as a clause."""
    values = mistake.values
    if mistake.word == "axes":
        ways = (_IN_SECTIONS, _IN_TURN) if values[0] else (_IN_TURN, _IN_SECTIONS)
        values = (f"{ways[0]}, where the scheme has them {ways[1]}",)
    return MISTAKES[mistake.word].format(*values)


def size_clause(size: Size) -> str:
    """Return what is wrong with the factor of all numbers, as a clause."""
    if size.word == "missing":
        return f"the attention factor {size.factor:.4g} is missing"
    if size.word == "twice":
        return f"the attention factor {size.factor:.4g} is applied twice"
    if size.word == "both":
        both = f"{size.factor:.4g} and {size.own:.4g}"
        return f"every number is multiplied by both attention factors, {both}"
    return (
        f"every number is multiplied by {size.size:.{size.digits}g}, where the attention factor is "
        f"{size.factor:.4g}"
    )


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
