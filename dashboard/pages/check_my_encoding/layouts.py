"""RoPE's two layouts on Check my encoding: right and wrong use, and the rotation of a visitor."""

from dataclasses import dataclass

import pandas as pd
from torch import Tensor

from dashboard.cache import cached
from dashboard.components.matrix import Full, Panel
from dashboard.settings import Setting
from dashboard.visitor_files import UploadedNumbers, cached_numbers
from posenc.analysis import LayoutInspection, inspect_layouts
from posenc.analysis.layout_mixups import MAX_POSITIONS
from posenc.checkpoints.array_files import NumberTable
from posenc.errors import CheckpointError
from posenc.identification import match_rotation, rotation_of
from posenc.identification.rotation_words import layout_sentence
from posenc.identification.sentences import headline, rotation_sentences
from posenc.schemes.rope import RopeConfig

LAYOUT_POSITIONS = 96  # of the scores of two layouts; more shows nothing else


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
        sentences = [f"Your {name}: {layout_sentence(rotation)}"]
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
