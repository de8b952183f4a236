"""The tabs of the page Encoding: matrices, wavelengths, sums with tokens, and a table by hand."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dashboard import notes
from dashboard.blocks import (
    Block,
    Chart,
    Columns,
    Controls,
    Data,
    Findings,
    Formula,
    Matrices,
    Table,
    Text,
    line_chart,
)
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel
from dashboard.pages.encoding import charts, data, sentences
from dashboard.pages.encoding.data import BIAS, WAVES, Encodings, Sum
from dashboard.settings import Setting
from dashboard.text import listed, number
from posenc import formula
from posenc.analysis import STARTS
from posenc.latex import Notation
from posenc.latex import number as latex_number
from posenc.schemes import SCHEMES
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.text import count_of

HEIGHT, SUM_HEIGHT = 250, 220  # CSS pixels
UNSAID: Mapping[str, str] = {"place": "", "trained": ""}  # columns of pairs that are only drawn


def matrices(read: Encodings) -> list[Block]:
    """Return every matrix; one colour scale never spans two units, so each unit has a row of its own.

    Units of one matrix stand beside each other, and the slopes of ALiBi's heads beside them.
    """
    units: dict[str, list[str]] = {}
    for kind, scheme in read.with_matrix.items():
        units.setdefault(scheme.unit, []).append(kind)
    rows: list[Block] = [
        _of_unit(read, unit, kinds) for unit, kinds in units.items() if len(kinds) > 1
    ]
    alone: list[Sequence[Block]] = [
        [_of_unit(read, unit, kinds)] for unit, kinds in units.items() if len(kinds) == 1
    ]
    slopes = data.joined(scheme.slopes for scheme in read.schemes.values())
    if len(slopes):
        title = "ALiBi: slope of each head"
        chart = Chart(
            key="slopes",
            title=title,
            frame=slopes,
            names=("alibi",),
            draw=charts.slopes,
            x="",
            alt=slopes_spoken(slopes),
            sizes=notes.panel_note(read.setting, "alibi"),
        )
        alone.append([Text(f"**{title}**"), chart])
    if alone:
        rows.append(Columns([*alone, *([[]] if len(alone) == 1 else [])]))
    if seen := sentences.grids(read):
        rows.insert(0, Text(seen, "caption", both="grids"))
    return rows + [
        Text(
            f"{SCHEMES[kind].label} adds no numbers, so there is no matrix. {SCHEMES[kind].summary}",
            "info",
        )
        for kind, scheme in read.schemes.items()
        if scheme.matrix is None
    ]


def slopes_spoken(slopes: pd.DataFrame) -> str:
    """Say the slope of the first head and of the last. slopes: as `charts.slopes` has them."""
    pairs = [*zip(slopes["head"], slopes["slope"].to_numpy(float), strict=True)]
    ends = [f"head {head}: {number(slope)}" for head, slope in (pairs[0], pairs[-1])]
    return f"H{'; '.join(ends)[1:]}."


def _of_unit(read: Encodings, unit: str, kinds: Sequence[str]) -> Matrices:
    """Return the matrices of one unit."""
    is_bias = unit == BIAS
    what = "query by key" if is_bias else "position by dimension"
    return Matrices(
        key=f"encoding_{unit.split()[0]}",
        panels=[_panel(read, kind) for kind in kinds],
        scale=lambda drawn: data.scale(
            unit, [] if unit == WAVES else [panel.values.dense() for panel in drawn]
        ),
        unit="logits" if is_bias else "entries",
        row_label="query position" if is_bias else "position",
        column_label="key position" if is_bias else "dimension",
        height=HEIGHT,
        text=f"{unit.capitalize()} of {notes.names(tuple(kinds))}, {what}; the arrow keys read a cell, and "
        "a table below holds the first numbers.",
    )


def _panel(read: Encodings, kind: str) -> Panel:
    scheme, setting = read.schemes[kind], read.setting
    assert scheme.matrix is not None
    order = ", ".join(scheme.features[:3]) + (", ..." if len(scheme.features) > 3 else "")
    named = bool(scheme.features) and not scheme.is_table
    cut = sentences.cut(scheme, asked=setting.length)
    note = notes.panel_note(setting, kind, scheme.provenance)
    return Panel(
        title=SCHEMES[kind].label,
        values=scheme.matrix,
        subtitle="; ".join(part for part in (note, cut) if part),
        column_label=f"dimension: {order}" if named else None,
        boundary=setting.train_length if setting.train_length < scheme.matrix.shape[0] else None,
        color=theme.COLOURS[kind],
        features=bool(scheme.features),
    )


def wavelengths(read: Encodings) -> list[Block]:
    """Return the wavelength of every pair."""
    if not read.with_pairs:
        return [Text("None of these schemes has pairs.", "caption")]
    chart = line_chart(
        key="wavelengths",
        title="Wavelength of each pair",
        frame=data.joined(scheme.frequencies for scheme in read.with_pairs.values()),
        names=tuple(read.with_pairs),
        draw=charts.wavelengths,
        x="place",
        y="wavelength",
        columns=UNSAID,
        log=True,
        sizes=notes.sizes(read.setting),
    )
    return [Text(sentences.turns(read), "caption"), *chart]


def sums(setting: Setting, start: str, *, scaled: bool) -> list[Block]:
    """Return content, position and their sum, and how large one is beside the other."""
    read = data.read_sums(setting, start, scaled=scaled)
    blocks: list[Block] = [Controls(("start", "scaled"))]
    if read.sums:
        blocks.append(Text(sentences.sums(read, start, scaled=scaled), both="sums"))
    blocks += [_sum(kind, added, start, scaled=scaled) for kind, added in read.sums.items()]
    blocks += [
        Findings("sums", read.table),
        Data(title="Position beside content", frame=read.table),
    ]
    if read.sums:
        norms = (
            "Norms are root mean squares. Ratio: token over position. Share: position's part of the sum's "
            "expected squared norm."
        )
        blocks.append(Text(norms, "caption"))
    others = sentences.nothing_added(read)
    return [*blocks, Text(others, "caption")] if others else blocks


def _sum(kind: str, added: Sum, start: str, *, scaled: bool) -> Matrices:
    """Return the first entries of content, of position and of their sum."""
    texts = {
        "Tokens times sqrt(d)" if scaled else "Tokens": f"drawn as {STARTS[start]}",
        f"Position: {SCHEMES[kind].label}": "its rows",
        "Sum": "input of the first layer",
    }
    rows, columns = added.pictures[0].shape
    part = f"the first {count_of(rows, 'position')} and {columns} of {added.width:,} dimensions"
    return Matrices(
        key=f"sum_{kind}",
        panels=[
            Panel(
                title=title,
                values=Full(picture),
                subtitle=f"{text}, {part}",
                color=theme.COLOURS[kind],
                features=True,
            )
            for (title, text), picture in zip(texts.items(), added.pictures, strict=True)
        ],
        scale=lambda drawn: data.scale(
            "entry of a vector", [panel.values.dense() for panel in drawn]
        ),
        unit="entries",
        row_label="position",
        column_label="dimension",
        height=SUM_HEIGHT,
        text=f"Token vectors, positions of {SCHEMES[kind].label} and their sum.",
    )


def worked(base: float, notation: Notation, *, numbers: bool) -> list[Block]:
    """Return the sinusoidal formula, position 3 in dimension 2 step by step, and a table.

    numbers: whether they stand in the formula.
    """
    table = data.worked_example(base)
    config = SinusoidalConfig(dim=data.WORKED_WIDTH, base=base)
    rates = config.build().frequencies.inv_freq.tolist()
    usual = "With base 10,000 these are the numbers of Vaswani et al."
    words = {"dimension": [str(name) for name in table.columns[1:]]} | {
        f"position {row[0]:g}": [f"{value:.4f}" for value in row[1:]] for row in table.to_numpy()
    }
    left: list[Block] = [
        Formula(formula(config, notation, numbers=numbers)),
        Formula(
            rf"PE_{{(3,\,2)}} = \sin\left(\frac{{3}}{{{{{latex_number(base)}}}^{{2/8}}}}\right)"
            rf" = \sin({3 * rates[1]:.6g}) = {table['2'].iloc[3]:.4f}"
        ),
    ]
    right: list[Block] = [
        Text(
            f"Sinusoidal table of 4 positions and 8 dimensions, base {base:,.10g}, sine and cosine side by "
            f"side as in the paper. Its pairs turn by {listed([f'{rate:.4g}' for rate in rates])} radians "
            f"per position.{f' {usual}' if base == 10_000 else ''}",
            "caption",
        ),
        Table(pd.DataFrame(words)),
    ]
    return [Columns((left, right)), Data(title="Worked example", frame=table)]
