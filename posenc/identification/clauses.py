"""Facts of a comparison in words: causes of other positions, mistakes, factors, and deviations."""

import math
from collections.abc import Sequence
from typing import Any

from posenc import fields
from posenc.identification.columns import column_words
from posenc.identification.deviations import Deviation
from posenc.identification.facts import Size
from posenc.identification.positions import Cause
from posenc.identification.table_words import FAULTS, order_words, recipe_words
from posenc.identification.variants import Mistake, WrongPair
from posenc.text import joined, significant

_MOST_LISTED = 5  # rows, or columns, in one sentence

# By the word of a `Cause`: why rows stand for other positions than those expected.
CAUSES = {
    "unknown": "row {row:,} stands for no whole position at these frequencies; {0:,} such in all",
    "blank padding": "the first {0:,} rows stand for no position, as padding of zeros, and the text "
    "begins in row {0:,} at position {1:,}",
    "signed": "positions are kept in {2} bits with a sign, so that row {row:,} stands for position "
    "{0:,}, not for {1:,}",
    "shifted": "row {row:,} stands for position {1:,}, and all positions are off by {0:+,}",
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
    "one row": "row {row:,} alone stands for another position, {0:,} in place of {1:,}",
    "some rows": "{2:,} rows stand for other positions, the first of them row {row:,}: for {0:,} in "
    "place of {1:,}",
    "exchanged rows": "rows {row:,} and {0:,} have changed places",
    "reversed": "the rows are in reverse order, the last position first",
    "strided": "each row stands for {0:,} positions more than the one before, as in a strided slice",
    "stuck": "from row {row:,} on, every row stands for position {0:,}, as where each decoding "
    "step counts "
    "anew",
    "padding filled": "the first {0:,} rows stand for position {1:,}, as padding that is filled, "
    "and the text begins in row {0:,} at position {2:,}",
    "reset": "positions begin again at {2:,} in row {row:,} ({0:,} parts), as of packed documents",
    "reset evenly": "positions begin again at {2:,} in row {row:,} ({0:,} parts), as of packed "
    "documents or of a cache of {1:,} rows that wraps",
    "context-parallel slice": "the rows are the two slices of rank {0:,} of {1:,} in context "
    "parallelism; the "
    "second begins in row {row:,}",
    "counted twice": "row {row:,} stands for position {0:,}: the {row:,} rows before it are counted twice",
    "jumps ahead": "row {row:,} stands for position {0:,}: the positions between are skipped",
    "goes back": "row {row:,} stands for position {0:,}: positions go on from the number of rows "
    "kept, as after an eviction",
}
# By the word of a `Mistake`: what is wrong with frequencies or columns.
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
    "exponent": "the exponents are {0} in place of 2m/d",
    "divided": "every frequency is the model's divided by {0}, as linear scaling by {0} does",
    "rounded frequencies": "the frequencies are rounded to {0}",
    "another base": "the base is {0:,.10g}, where the scheme has {1:,.10g}",
    "NTK base": "the base is {0:,.10g}, as of NTK-aware scaling by {2:g}, where the scheme has {1:,.10g}",
    "another number": "the {0} is {1}, where the scheme has {2}",
    "ramp ends": "the ends of the ramp are {0}, and the scheme has truncate: {1}",
    "reversed pairs": "the pairs are in reverse order, the slowest first",
    "constant": "every number is {0:.6g}",
    "exchanged": "sines and cosines have changed places in {0:,} of {1:,} pairs",
    "single pairs": "{0} {1} by {2} radians a position, not by {3}",
    "many pairs": "{0} turn by other angles, the first of them, pair {1}, by {2} radians a position, not "
    "by {3}",
    "pairs that do not turn": "{0} {1} not follow the scheme (largest difference {2}); all others do",
    "axes": "the axes of the pairs are {0}",
}
_WHOLE_PAIRS = {
    True: ("rounded to whole pairs, as by truncate: true", "false"),
    False: ("not rounded to whole pairs, as by truncate: false", "true"),
}
_IN_TURN, _IN_SECTIONS = "dealt out in turn", "one section after the other"


def cause_clause(cause: Cause) -> str:
    """Return why positions are not those expected, as a clause."""
    word = "reset evenly" if cause.word == "reset" and cause.numbers[1] else cause.word
    return CAUSES[word].format(*cause.numbers, row=cause.row)


def mistake_clause(mistake: Mistake) -> str:
    """Return what is wrong with frequencies or columns, as a clause."""
    word: str = mistake.word
    values: tuple[Any, ...] = mistake.values
    match word, values:
        case "another number", (scheme, name, value, own):
            label = fields.rules(scheme)[name].label.lower()
            values = label, fields.described(value), fields.described(own)
        case "not scaled" | "scaled twice", (scheme,):
            values = (scheme.words or scheme.label,)
        case "every frequency divided", (factor, scheme):
            values = factor, scheme.words or scheme.label
        case "rounded frequencies", (dtype,):
            values = (str(dtype).removeprefix("torch."),)
        case "ramp ends", (rounded,):
            values = _WHOLE_PAIRS[bool(rounded)]
        case "another base", (_, _, _):
            word = "NTK base"
        case "single pairs", (count, *pairs):
            word, values = _single_pairs(count, pairs)
        case "axes", (in_turn,):
            ways = (_IN_SECTIONS, _IN_TURN) if in_turn else (_IN_TURN, _IN_SECTIONS)
            values = (f"{ways[0]}, where the scheme has them {ways[1]}",)
    return MISTAKES[word].format(*values)


def _single_pairs(count: int, pairs: Sequence[WrongPair]) -> tuple[str, tuple[str, ...]]:
    """Return the key in `MISTAKES` and the values of the clause on wrong pairs."""
    many, single = len(pairs) > _MOST_LISTED, len(pairs) == 1
    names = joined([f"{each.pair:,}" for each in pairs], "and")
    subject = f"pair{'' if single else 's'} {names} of {count:,}"
    if many:
        subject = f"{len(pairs):,} of {count:,} pairs"
    parts = {each.part for each in pairs}
    if len(parts) == 1 and (part := parts.pop()):
        subject, single = f"the {part} of {subject}", False
    angles = [(each.turns_by, each.own) for each in pairs if each.turns_by is not None]
    if len(angles) < len(pairs):
        largest = significant(max(each.largest for each in pairs), 2)
        return "pairs that do not turn", (subject, "does" if single else "do", largest)
    closest = min(abs(angle - own) / max(abs(angle), abs(own)) for angle, own in angles)
    digits = max(3, math.ceil(-math.log10(closest)) + 1)  # of which the last two differ or more
    found, expected = (
        [significant(angle, digits) for angle in each] for each in zip(*angles, strict=True)
    )
    if many:
        return "many pairs", (subject, f"{pairs[0].pair:,}", found[0], expected[0])
    verb = "turns" if single else "turn"
    return "single pairs", (subject, verb, joined(found, "and"), joined(expected, "and"))


def size_clause(size: Size) -> str:
    """Return what is wrong with the factor of all numbers, as a clause."""
    if size.size == 0:
        return "every number is 0"
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


def deviation_sentence(deviation: Deviation) -> str:
    """Return one way in which a table differs from its formula, as a sentence."""
    text = _deviation_clause(deviation.word, *deviation.values)
    return f"{text[0].upper()}{text[1:]}."


def _deviation_clause(word: str, *values: Any) -> str:
    match word, values:
        case "order", (order,):
            return f"{FAULTS[order.fault]} ({order_words(order)})"
        case "sign", ():
            return "every sine is negated: the angles have the other sign"
        case "base", (base, usual, exponent):
            return (
                f"base {significant(base, 6)} is unusual: base {significant(usual, 6)} with the exponent "
                f"{exponent} in place of 2m/d makes the same numbers"
            )
        case "shifted exponent", (scale, exponent):
            by = f"every angle is multiplied by {scale:.6g}"
            return f"{by}, as by the exponent {exponent} in place of 2m/d"
        case "scale", (scale,):
            return f"every angle is multiplied by {scale:.6g}"
        case "attention factor", (size,):
            return f"{size_clause(size)}, unless scores are multiplied elsewhere"
        case "size", (size,):
            return f"every number is multiplied by {size:.6g}"
        case "padding", (count,):
            rows = "row is" if count == 1 else f"{count:,} rows are"
            return f"the first {rows} all zeros, as padding rows are"
        case "zero rows", (count, first, is_token):
            rows = f"row {first:,} is"
            if count > 1:
                rows = f"{count:,} rows, the first of them row {first:,}, are"
            return (
                f"{rows} all zeros, as the row of a padding token {'is' if is_token else 'may be'}"
            )
        case "positions", (cause,):
            return cause_clause(cause)
        case "start", (first,):
            return f"row 0 stands for position {first:,}, not for 0"
        case "angles", (recipe,):
            return f"computed with {recipe_words(recipe)}, where float64 would be accurate"
        case "outliers", (rows, columns, width, largest, rest_follows):
            return _outliers(rows, columns, width, largest, rest_follows=rest_follows)
        case "difference", (low, largest, row, column, form, width):
            verb = "with these angles, it still differs" if low else "it differs"
            return (
                f"{verb} from the formula by up to {significant(largest, 2)}, most in row {row:,}, "
                f"{column_words(form, width, column)}"
            )
    raise ValueError(f"No deviation has the word {word!r} and {len(values)} values.")


def _outliers(
    rows: Sequence[int], columns: Sequence[int], width: int, largest: float, *, rest_follows: bool
) -> str:
    """Return which rows and columns do not follow the formula; rest_follows: whether all others do."""
    names = [f"{n:,}" if n < width else f"{n - width:,} of the sines" for n in columns]
    lists = (_listed("row", [f"{n:,}" for n in rows]), _listed("column", names))
    single = len(rows) + len(columns) == 1
    return (
        f"{' and '.join(words for words in lists if words)} {'does' if single else 'do'} not follow the "
        f"formula (largest difference {significant(largest, 2)})"
        f"{'; all the rest does' if rest_follows else ''}"
    )


def _listed(noun: str, names: list[str]) -> str:
    if len(names) > _MOST_LISTED:
        return f"{len(names):,} {noun}s (the first is {names[0]})"
    if len(names) > 1:
        return f"{noun}s {', '.join(names[:-1])} and {names[-1]}"
    return f"{noun} {names[0]}" if names else ""
