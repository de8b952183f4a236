"""What Check my encoding shows of one table, of RoPE's layouts, and of how vectors tell positions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dashboard.cache import cached
from dashboard.charts.frames import MOST_POINTS, evenly
from dashboard.components.matrix import Full, Panel
from dashboard.limits import MAX_DRAWN_CELLS, probed_rows
from dashboard.pages.check_my_encoding import examples
from dashboard.pages.check_my_encoding.examples import EXAMPLES, Tables
from dashboard.results import one_thread_for_numpy
from dashboard.settings import Setting
from dashboard.text import number
from dashboard.visitor_files import UploadedNumbers, cached_numbers
from posenc.analysis import LayoutInspection, Probes, inspect_layouts, probe_each
from posenc.analysis.layout_mixups import MAX_POSITIONS
from posenc.checkpoints.array_files import NumberTable
from posenc.errors import CheckpointError, PosencError
from posenc.identification import (
    Identification,
    identify,
    match_model,
    match_rotation,
    rotation_of,
)
from posenc.identification.columns import TableInput, column_words
from posenc.identification.differences import Differences
from posenc.identification.facts import ModelMatch
from posenc.identification.identify import from_exact, reconstruct
from posenc.identification.positions import UNKNOWN
from posenc.identification.sentences import (
    fit_sentence,
    headline,
    match_sentences,
    record,
    rotation_sentences,
)
from posenc.identification.table_words import recipe_words
from posenc.schemes.rope import RopeConfig
from posenc.tables import sinusoidal_table
from posenc.text import count_of, significant

LAYOUT_POSITIONS = 96  # of the scores of two layouts; more shows nothing else
FOUND_AND_EXPECTED = ("found in the table", "expected")
# What stands open of probes, in the width of a page; the rest is in the data.
SHOWN_OF_PROBES = (
    "table", "index error (MAE)", "MAE of guessing", "order accuracy", "shift-invariance error",
    "first rise at distance",
)  # fmt: skip
NO_TABLE = "There is no table to check."
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
    no formula fits. notes: what was assumed, how near the formula
    comes. by_column: largest differences of each column.
    """

    headline: str
    reason: str = ""
    source: str = ""
    identity: str = ""
    numbers: pd.DataFrame = field(default_factory=pd.DataFrame)
    result: Identification | None = None
    largest: float | None = None
    worst: str = ""
    notes: tuple[str, ...] = ()
    by_column: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: tuple[Panel, ...] = ()


@dataclass(frozen=True)
class Layouts:
    """Scores of two layouts used in every way: one row each, their pictures, and a weight's code.

    sizes: base and width of the rotation, as a sentence.
    """

    headline: str
    sizes: str
    numbers: pd.DataFrame
    scores: tuple[Panel, ...]
    conversion: str


# One table ----------------------------------------------------------------------------------


def without_model(setting: Setting) -> Setting:
    """Return a setting without its real model, which examples and probes do not read."""
    return replace(setting, model="", alibi_head=0)


def answer(setting: Setting, name: str) -> Answer:
    """Return what the table of a name is; an upload's numbers have nothing of the setting in them."""
    return _read(_identified, name, without_model(setting) if name in EXAMPLES else Setting())


def decoding(setting: Setting, name: str) -> Answer:
    """Return how well positions are decoded from the table of a name."""
    return _read(_decoded, name, without_model(setting))


def _read(compute: Callable[[str, Setting], Answer], name: str, setting: Setting) -> Answer:
    """Return the answer on a table, which may be cached, or why there is none."""
    try:
        if name not in EXAMPLES:
            cached_numbers.get(name)  # raises once the upload is gone
        return compute(name, setting)
    except PosencError as error:
        return Answer(NO_TABLE, str(error))


def tables(name: str, setting: Setting) -> Tables:
    """Return the table of a name, or its cosines and sines; raises CheckpointError if it is gone."""
    if name in EXAMPLES:
        return examples.make(name, setting.sizes)
    uploaded = cached_numbers.get(name).table
    return uploaded.table, uploaded.sines


@cached
def _identified(name: str, setting: Setting) -> Answer:
    table, sines = tables(name, setting)
    result = identify(table, sines)
    error = from_exact(result, table, sines) if result.known else None
    if name in EXAMPLES:
        source, notes = "", [f"Example: {EXAMPLES[name].__doc__}"]
        if setting.sizes.dtype is not None:
            notes.append(f"All numbers are rounded to {setting.precision}.")
    else:
        uploaded = cached_numbers.get(name)
        source, notes = f"{uploaded.source}: ", list(uploaded.table.notes)
    if error is None or (result.recipe is not None and result.recipe.low):
        notes.append(fit_sentence(result))  # else the largest error says the same
    values = record(result)
    scheme = (values["config"] or {}).get("kind")
    return Answer(
        headline=f"{source}{_verdict(result, error)}{headline(result)}",
        source=source,
        identity=headline(result),
        numbers=pd.DataFrame([{"scheme": scheme} | {name: values[name] for name in FIELDS}]),
        result=result,
        largest=None if error is None else error.largest,
        worst="" if error is None else _place(result, error),
        notes=tuple(notes),
        by_column=_by_column(result, error),
        tables=_pictures(result, table, sines),
    )


def _verdict(result: Identification, error: Differences | None) -> str:
    """Return by how much a table is wrong, or that it is right, before what it is; "" for no formula."""
    if error is None:
        return ""
    kinds = {deviation.kind for deviation in result.deviations}
    if not {"angles", "unexplained"} & kinds:
        return "Matches a known formula. "
    words = (
        ""
        if result.recipe is None
        else f", because it is computed with {recipe_words(result.recipe)}"
    )
    cause = words if "angles" in kinds else ""
    return f"Wrong by up to {number(error.largest)}{cause}. What it is: "


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
    return match_model(schemes, *tables(name, setting))


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


def _by_column(result: Identification, error: Differences | None) -> pd.DataFrame:
    """Return the largest differences of every column from the formula, none where none fits."""
    if error is None or result.arrangement is None or result.by_column is None:
        return pd.DataFrame()
    sines = result.arrangement.columns(len(result.by_column)).sines.numpy()
    index = np.arange(len(sines))
    if result.arrangement.form == "table":
        part = np.full(len(index), "table")
    else:
        part = np.where(index >= result.width, "sines", "cosines")
    return pd.DataFrame(
        {
            "part": part,
            "column": index % result.width,
            "x": index,
            "function": np.where(sines, "sine", "cosine"),
            "rounded angles": result.by_column.numpy(),
            "exact angles": error.by_column.numpy(),
        }
    )


def drawn_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the differences from exact angles as a chart has them: x, y; a log scale has no place for 0.

    Of very many columns the farthest of every few are drawn.
    """
    if frame.empty:
        return frame
    marks = pd.DataFrame({"x": frame["x"].astype("int32"), "y": frame["exact angles"]})
    if len(frame) > MOST_POINTS:
        marks = marks.loc[marks.groupby(marks["x"] * MOST_POINTS // len(frame))["y"].idxmax()]
    return marks[marks["y"] > 0].reset_index(drop=True)


def _pictures(result: Identification, table: Tensor, sines: Tensor | None) -> tuple[Panel, ...]:
    """Return pictures of the first entries of a table and of its formula."""
    most = MAX_DRAWN_CELLS
    columns = TableInput.of(table, sines).columns
    rows, width = columns.shape
    notes = ["cosines, then sines"] if width > result.width else []
    notes += [
        f"the first {most} of {count_of(size, word)}"
        for size, word in ((rows, "row"), (width, "column"))
        if size > most
    ]
    pictures = {"This table": columns}
    if result.known:
        pictures["Its formula, exact"] = reconstruct(result, table, sines, rows=most)
    return tuple(
        Panel(title=title, values=Full.from_tensor(values[:most, :most]), subtitle="; ".join(notes))
        for title, values in pictures.items()
    )


# Layouts ------------------------------------------------------------------------------------


def uploaded(*names: str) -> list[UploadedNumbers]:
    """Return the uploads of these names; raises CheckpointError for one that is gone."""
    return [cached_numbers.get(name) for name in names if name]


def layouts(setting: Setting, vectors: NumberTable | None = None) -> Layouts:
    """Return the scores of RoPE's two layouts at a setting's sizes, or of a visitor's queries and keys.

    Base, width and heads are those of the chosen model where it has RoPE.
    """
    width, base = setting.sizes.rotary_width, setting.base
    heads = 1 if setting.equal_width else setting.heads
    model = setting.real_model
    if model is not None and isinstance(model.scheme, RopeConfig):
        width, base, heads = model.scheme.rotary_dim, model.scheme.base, model.layer_kind.heads
    if vectors is None:
        return _layouts(min(setting.length, LAYOUT_POSITIONS), width, heads, base, setting.seed)
    queries, keys = (part[:MAX_POSITIONS] for part in _queries_and_keys(vectors))
    if not (queries.any() and keys.any()):
        raise CheckpointError("all queries or all keys are 0, so no layout can be compared.")
    rows, width = queries.shape
    inspection = inspect_layouts(rows, width, base, vectors=(queries, keys))
    return _described(inspection, heads, width, base)


def rotations(setting: Setting, before: NumberTable, after: NumberTable) -> list[str]:
    """Return how a visitor's queries, and the keys, were rotated, a paragraph each."""
    model = setting.real_model
    paragraphs = []
    for name, x, y in zip(
        ("queries", "keys"), _queries_and_keys(before), _queries_and_keys(after), strict=True
    ):
        rotation = rotation_of(x, y)
        sentences = [f"Your {name}: {rotation.sentence}"]
        if rotation.identified is not None:
            sentences.append(headline(rotation.identified))
        if model is not None:
            schemes = {kind.name: kind.scheme for kind in model.config.layer_kinds}
            match = match_rotation(rotation, schemes)
            sentences[1:1] = rotation_sentences(match, rotation.identified)
        paragraphs.append(" ".join(sentences))
    return paragraphs


def _queries_and_keys(vectors: NumberTable) -> tuple[Tensor, Tensor]:
    if vectors.sines is None:
        raise CheckpointError(
            "queries and keys must be an array of 2 x positions x head width, with 2 positions or more."
        )
    return vectors.table, vectors.sines


@cached
def _layouts(positions: int, width: int, heads: int, base: float, seed: int) -> Layouts:
    return _described(inspect_layouts(positions, width, base, seed=seed), heads, width, base)


def _described(inspection: LayoutInspection, heads: int, width: int, base: float) -> Layouts:
    uses = (inspection.mended, *inspection.mistakes.values())
    numbers = [
        {
            "way": use.words,
            "change of scores": use.change,
            "correlation": use.correlation,
            "change of norms": use.norm_change,
            "spread at an offset": use.offset_spread,
        }
        for use in uses
    ]
    titles = ("Permuted", "Wrong in both", "Wrong in queries", "Wrong cache")
    pictures = [("As intended", inspection.alike, "interleaved pairs in queries and keys")]
    pictures += [(title, use.alike, use.words) for title, use in zip(titles, uses, strict=True)]
    both = inspection.mistakes["both"]
    sentence = (
        f"RoPE's other layout, used for queries and keys alike, changes the scores by {both.change:.0%} of "
        "their size, and tests of norms and offsets do not notice it."
    )
    if width == 2:
        sentence = "A head of width 2 has one pair, so its two layouts are the same."
    return Layouts(
        sentence,
        f"Base {base:,.15g}, {width:,} rotated dimensions per head.",
        pd.DataFrame(numbers),
        tuple(
            Panel(title=title, values=Full.from_tensor(scores), subtitle=subtitle)
            for title, scores, subtitle in pictures
        ),
        conversion(heads, width),
    )


def conversion(heads: int, width: int) -> str:
    """Return the code that makes a weight of queries or keys fit the other layout."""
    return (
        f"# weight: ({heads} x {width}, features in), of the queries, then of the keys\n"
        f"order = torch.arange({width}).view(-1, 2).T.flatten()  # 0, 2, 4, ..., then 1, 3, 5, ...\n"
        f"half = weight.view({heads}, {width}, -1)[:, order].flatten(0, 1)  # neighbours to halves\n"
        f"back = half.view({heads}, {width}, -1)[:, order.argsort()].flatten(0, 1)"
    )


# Position decoding --------------------------------------------------------------------------


@cached
def _decoded(name: str, setting: Setting) -> Answer:
    """Probe the first rows of a table beside a sinusoidal one and random numbers of its shape."""
    vectors = TableInput.of(*tables(name, setting)).columns
    all_rows, width = vectors.shape
    vectors = vectors[: probed_rows(width)]
    same = sinusoidal_table(len(vectors), width + width % 2, dtype=torch.float64)[:, :width]
    one_thread_for_numpy()
    probes, sinusoidal = probe_each([vectors, same], seed=setting.seed)
    source = name[0].upper() + name[1:] if name in EXAMPLES else cached_numbers.get(name).source
    index, shape = probes.index_error, f"{probes.positions:,} x {width:,}"
    first = (
        f" (first {probes.positions:,} of {all_rows:,} rows)" if probes.positions < all_rows else ""
    )
    sentence = (
        f"{source}{first}: a linear map reads the position of each vector with a mean error of "
        f"{significant(index.value, 2)} positions; guessing is wrong by {number(probes.guessing)}, a map "
        f"for random numbers by {number(index.control)}."
    )
    numbers = [
        _row(f"table: {source}", probes, "value"),
        _row(f"sinusoidal, {shape}", sinusoidal, "value"),
        _row(f"random numbers, {shape}", probes, "control"),
    ]
    return Answer(sentence, numbers=pd.DataFrame(numbers))


def _row(name: str, probes: Probes, which: str) -> dict[str, object]:
    """Return the numbers of a table, or of the control of its shape."""
    measured = probes.properties if which == "value" else probes.control_properties
    return {
        "table": name,
        "positions": probes.positions,
        "index error (MAE)": getattr(probes.index_error, which),
        "MAE of guessing": probes.guessing,
        "order accuracy": getattr(probes.order_accuracy, which),
        "shift-invariance error": measured.translation_invariance_error,
        "first rise at distance": measured.first_rise,
        "rank agreement with distance (Kendall tau)": measured.kendall_tau,
    }
