"""One table on Check my encoding: its formula, how wrong it is, and whether it is a model's."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dashboard.cache import cached
from dashboard.charts.frames import MOST_POINTS, evenly
from dashboard.components.matrix import Full, Panel
from dashboard.limits import MAX_DRAWN_CELLS
from dashboard.pages.check_my_encoding.corrected_code import (
    MENDED,
    RightTable,
    numbers,
    off_by,
    right_table,
)
from dashboard.pages.check_my_encoding.examples import (
    EXAMPLES,
    NO_TABLE,
    chosen_table,
    without_model,
)
from dashboard.settings import Setting
from dashboard.text import number
from dashboard.visitor_files import cached_numbers
from posenc.errors import PosencError
from posenc.identification import Identification, identify, match_model
from posenc.identification.columns import TableInput, column_words
from posenc.identification.differences import Differences
from posenc.identification.facts import ModelMatch
from posenc.identification.identify import from_exact, reconstruct
from posenc.identification.positions import UNKNOWN
from posenc.identification.sentences import (
    deviation_sentences,
    fit_sentence,
    headline,
    match_sentences,
    record,
)
from posenc.identification.table_words import recipe_words
from posenc.text import count_of

OF_CACHE = "cosines, then sines"
PUBLISHED = "published table"
SHIFTED = (
    "A shift of all rows changes no similarity of two positions and no rotated logit, which depend on the "
    "distance alone. It matters to weights that were trained with the published table."
)
FOUND_AND_EXPECTED = ("found in the table", "expected")
FIELDS = (
    "arrangement", "layout", "base", "base_within", "start", "scale", "size", "sense", "angles", "format",
    "rows", "width", "residual", "largest_difference", "row", "column",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The answer on one table: what it is, how well positions are decoded from it, or a reason for none.

    source: the file of an upload, before the headline. identity: what the table is, the headline without
    the verdict. numbers: a row per table that is compared. The rest is of a table that was looked at alone.
    largest, worst: the largest error against exact angles, and the sentence on where it is; None and "" if
    no formula fits. published: whether that is against the published table, as the table's own formula has
    a mistake. notes: what was assumed, how near the formula comes. by_column: largest differences of each
    column from the table's own formula, and from the published table where that is another. tables: this
    table, and how it differs.
    """

    headline: str
    reason: str = ""
    source: str = ""
    identity: str = ""
    numbers: pd.DataFrame = field(default_factory=pd.DataFrame)
    result: Identification | None = None
    largest: float | None = None
    worst: str = ""
    published: bool = False
    notes: tuple[str, ...] = ()
    by_column: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: tuple[Panel, ...] = ()


def answer(setting: Setting, name: str) -> Answer:
    """Return what the table of a name is; an upload's numbers have nothing of the setting in them."""
    try:
        if name in EXAMPLES:
            return _identified(name, without_model(setting))
        cached_numbers.get(name)  # raises once the upload is gone, though its answer is cached
        return _identified(name, Setting())
    except PosencError as error:
        return Answer(NO_TABLE, str(error))


@cached
def _identified(name: str, setting: Setting) -> Answer:
    table, sines = chosen_table(name, setting)
    result = identify(table, sines)
    error = from_exact(result, table, sines) if result.known else None
    right = right_table(result, None)
    parts = (table,) if sines is None else (table, sines)
    from_right = None if right is None else off_by(right, *parts)
    shown = from_right or error
    if name in EXAMPLES:
        source, notes = "Example: ", [f"The example: {EXAMPLES[name].__doc__}"]
        if setting.sizes.dtype is not None:
            notes.append(f"All numbers are rounded to {setting.precision}.")
    else:
        uploaded = cached_numbers.get(name)
        source, notes = f"{uploaded.source}: ", list(uploaded.table.notes)
    if error is None or (result.recipe is not None and result.recipe.low):
        notes.append(fit_sentence(result))  # else the largest error says the same
    if {deviation.kind for deviation in result.deviations} == {"start"}:
        notes.append(SHIFTED)
    values = record(result)
    scheme = (values["config"] or {}).get("kind")
    return Answer(
        headline=f"{source}{_verdict(result, error, from_right)}{headline(result, count=error is None)}",
        source=source,
        identity=headline(result),
        numbers=pd.DataFrame([{"scheme": scheme} | {name: values[name] for name in FIELDS}]),
        result=result,
        largest=None if shown is None else shown.largest,
        worst="" if shown is None else _place(result, shown),
        published=from_right is not None,
        notes=tuple(notes),
        by_column=_by_column(result, error, from_right),
        tables=_pictures(result, table, sines, None if from_right is None else right),
    )


def _verdict(
    result: Identification, error: Differences | None, from_right: Differences | None
) -> str:
    """Return by how much a table is wrong, or that it is right, before what it is; "" for no formula.

    error: against its own formula. from_right: against the published table, where that is another.
    """
    if error is None:
        return ""
    kinds = {deviation.kind for deviation in result.deviations}
    if {"angles", "unexplained"} & kinds:
        recipe = result.recipe
        words = "" if recipe is None else f", because it is computed with {recipe_words(recipe)}"
        cause = words if "angles" in kinds else ""
        return f"Wrong by up to {number(error.largest)}{cause}. Its formula: "
    if MENDED.keys() & kinds:
        sentences = deviation_sentences(result)
        first = f": {sentences[0][0].lower()}{sentences[0][1:]}" if sentences else "."
        wrong = "" if from_right is None else f", wrong by up to {number(from_right.largest)}"
        return f"Not as published{wrong}{first} Its formula: "
    return "Matches a known formula: "


def _place(result: Identification, error: Differences) -> str:
    """Return where the largest error is, in a sentence."""
    if error.largest == 0:
        return "Every number is that of the formula, to the last bit."
    row, column = error.worst
    form = "table" if result.arrangement is None else result.arrangement.form
    return f"In row {row:,}, {column_words(form, result.width, column)}."


@cached
def model_match(setting: Setting, name: str) -> ModelMatch | None:
    """Return how the table of a name compares with the setting's real model, None without one."""
    if setting.real_model is None:
        return None
    schemes = {kind.name: kind.scheme for kind in setting.real_model.config.layer_kinds}
    return match_model(schemes, *chosen_table(name, setting))


def with_model(answer: Answer, match: ModelMatch) -> Answer:
    """Return an answer with the cause first, where a table is not that of the chosen model."""
    sentences = match_sentences(match, answer.result)
    if match.belongs and answer.result is not None and not answer.result.known:
        return replace(
            answer, headline=" ".join(sentences), notes=()
        )  # the formula is the model's own
    if match.belongs or match.nearest is None or not match.nearest.explained:
        return answer
    headline, notes = f"{answer.source}{sentences[0]}", answer.notes
    if answer.result is not None and answer.result.known:
        notes = (f"What it is: {answer.identity}", *notes)
    else:
        notes = notes[:-1]  # how near a formula must come, which the cause answers
    return replace(answer, headline=headline, notes=notes)


def positions_by_row(match: ModelMatch) -> pd.DataFrame:
    """Return the position found and expected of every row, of very many of an even choice of rows.

    Empty unless rows stand for other positions than those expected. Rows that stand for none are left out.
    """
    nearest = match.nearest
    if nearest is None or nearest.positions is None or nearest.cause is None:
        return pd.DataFrame()
    rows = evenly(len(nearest.expected))
    parts = [
        pd.DataFrame({"row": rows, "position": part.numpy()[rows], "which": name})
        for name, part in zip(
            FOUND_AND_EXPECTED, (nearest.positions, nearest.expected), strict=True
        )
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame[frame["position"] != UNKNOWN].reset_index(drop=True)


def _by_column(
    result: Identification, error: Differences | None, from_right: Differences | None
) -> pd.DataFrame:
    """Return the largest differences of every column from the formula, none where none fits.

    from_right: from the published table, where that is another.
    """
    if error is None or result.arrangement is None or result.by_column is None:
        return pd.DataFrame()
    sines = result.arrangement.columns(len(result.by_column)).sines.numpy()
    index = np.arange(len(sines))
    if result.arrangement.form == "table":
        part = np.full(len(index), "table")
    else:
        part = np.where(index >= result.width, "sines", "cosines")
    frame = pd.DataFrame(
        {
            "part": part,
            "column": index % result.width,
            "x": index,
            "function": np.where(sines, "sine", "cosine"),
            "rounded angles": result.by_column.numpy(),
            "exact angles": error.by_column.numpy(),
        }
    )
    return (
        frame if from_right is None else frame.assign(**{PUBLISHED: from_right.by_column.numpy()})
    )


def error_column(frame: pd.DataFrame) -> str:
    """Return the column of the errors that are drawn: from the published table where that is another."""
    return PUBLISHED if PUBLISHED in frame else "exact angles"


def drawn_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of columns as a chart has them: x, y, function; a log scale has no place for 0.

    Of very many columns the farthest of every few are drawn.
    """
    if frame.empty:
        return frame
    marks = pd.DataFrame(
        {
            "x": frame["x"].astype("int32"),
            "y": frame[error_column(frame)],
            "function": frame["function"],
        }
    )
    if len(frame) > MOST_POINTS:
        marks = marks.loc[marks.groupby(marks["x"] * MOST_POINTS // len(frame))["y"].idxmax()]
    return marks[marks["y"] > 0].reset_index(drop=True)


def of_columns(tables: tuple[Panel, ...]) -> str:
    """Return what the columns of the drawn tables are: of a cache its cosines come first."""
    return f"column ({OF_CACHE})" if any(OF_CACHE in one.subtitle for one in tables) else "column"


def _pictures(
    result: Identification, table: Tensor, sines: Tensor | None, right: RightTable | None
) -> tuple[Panel, ...]:
    """Return pictures of the first entries of a table, and of their difference from the right ones.

    right: the published table, where the table's own formula is another; without it, that formula.
    """
    most = MAX_DRAWN_CELLS
    columns = TableInput.of(table, sines).columns
    rows, width = columns.shape
    notes = [OF_CACHE] if width > result.width else []
    notes += [
        f"the first {most} of {count_of(size, word)}"
        for size, word in ((rows, "row"), (width, "column"))
        if size > most
    ]
    drawn = columns[:most, :most].double()
    pictures = {"This table": drawn}
    if right is not None:
        published = torch.cat(numbers(right, 0, min(rows, most)), 1)
        pictures["This table minus the published one"] = drawn - published[:, :most]
    elif result.known:
        exact = reconstruct(result, table, sines, rows=most)
        pictures["This table minus its exact formula"] = drawn - exact[:most, :most]
    return tuple(
        Panel(title=title, values=Full.from_tensor(values), subtitle="; ".join(notes))
        for title, values in pictures.items()
    )
