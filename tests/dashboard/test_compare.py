"""Two settings on one page: what of A and B stands where, and how charts tell them apart."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboard import compare, pictures
from dashboard.blocks import (
    Block,
    Cards,
    Chart,
    Clocks,
    Columns,
    Controls,
    Data,
    Drawer,
    Findings,
    Lines,
    Live,
    Matrices,
    Page,
    Table,
    Tabs,
    Text,
    walk,
)
from dashboard.charts import lines, overlay
from dashboard.components.clock import Face
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.pages.similarity import page as similarity
from dashboard.settings import Setting
from tests.dashboard.called_pages import block_of, panel_values

NAMES = {"A": "A: base 500", "B": "B: base 10,000"}


def page_of(*blocks: Block, headline: str = "It is so.", **more: Any) -> Page:
    return Page(title="Title", headline=headline, blocks=blocks, **more)


def both(b: Page, a: Page, changed: tuple[str, ...] = ("base",)) -> Page:
    return compare.pages(b, a, NAMES, changed)


def curve(*values: float, kinds: tuple[str, ...] = ("rope",), key: str = "curve") -> Chart:
    frame = pd.DataFrame({"scheme": "RoPE", "x": range(len(values)), "y": values})
    return Chart(key=key, title="Curve", frame=frame, names=kinds, draw=draw_lines, labels=0.1)


def draw_lines(kinds: tuple[str, ...]) -> dict[str, Any]:
    return lines.by_offset(kinds, "x", "y", band=False, labels=True)


def row(panels: dict[str, list[list[float]]], key: str = "row", **more: Any) -> Matrices:
    drawn = [
        Panel(title=title, values=Full(np.array(cells, np.float32)))
        for title, cells in panels.items()
    ]
    scale = Scale(0.0, 1.0)
    return Matrices(key=key, panels=drawn, scale=scale, unit="values", text="Cells.", **more)


def test_headlines_say_in_what_the_settings_differ() -> None:
    page = both(page_of(headline="Of B."), page_of(headline="Of A."))
    assert (page.headline, page.beside) == (r"B\: base 10,000. Of B.", r"A\: base 500. Of A.")
    same = both(page_of(), page_of())
    assert (same.headline, same.beside) == (r"A\: base 500; B\: base 10,000. It is so.", "")


def test_reason_of_a_is_told_where_b_has_another_or_none() -> None:
    b = page_of(reasons={"learned": "No table.", "rope": "No base."})
    a = page_of(reasons={"learned": "No table.", "rope": "No width.", "alibi": "No head."})
    assert [*both(b, a).reasons.values()] == [
        "No table.", "No base.", "Pinned setting, A: No width.", "Pinned setting, A: No head."
    ]  # fmt: skip


def test_chart_holds_the_rows_of_b_then_those_of_a_and_all_names() -> None:
    page = both(page_of(curve(1, 2)), page_of(curve(3, 4, 5, kinds=("rope", "alibi"))))
    chart = block_of(page, Chart, "curve")
    assert chart.frame["y"].tolist() == [1, 2, 3, 4, 5]
    assert chart.frame["setting"].tolist() == ["B", "B", "A", "A", "A"]
    assert chart.names == ("rope", "alibi")
    named = chart.drawn[chart.drawn["label_y"].notna()]
    assert [*zip(named["scheme"], named["setting"], named["y"], strict=True)] == [("RoPE", "B", 2)]
    assert chart.numbers()["setting"].tolist() == ["B", "B", "A", "A", "A"]


def test_chart_that_no_setting_changes_is_drawn_once() -> None:
    chart, text = both(page_of(curve(1, 2)), page_of(curve(1, 2))).blocks
    assert isinstance(chart, Chart)
    assert "setting" not in chart.frame
    assert chart.pinned is None
    assert isinstance(text, Text)
    assert text.text == "The same in A and B."


def test_block_belongs_to_that_of_its_key_wherever_it_stands() -> None:
    b = page_of(Columns(([curve(1, key="left")], [curve(2, key="right")])))
    a = page_of(curve(3, key="right"), curve(4, key="left"))
    page = both(b, a)
    assert block_of(page, Chart, "left").frame["y"].tolist() == [1, 4]
    assert block_of(page, Chart, "right").frame["y"].tolist() == [2, 3]
    assert len(page.blocks) == 1


def test_what_a_alone_has_comes_last() -> None:
    page = both(page_of(Text("Of B.")), page_of(Text("Of A."), curve(3), row({"RoPE": [[1.0]]})))
    text, chart, heading, matrices = page.blocks
    assert isinstance(text, Text)
    assert isinstance(chart, Chart)
    assert chart.frame["setting"].tolist() == ["A"]
    assert isinstance(heading, Text)
    assert heading.text == r"**A\: base 500**"
    assert isinstance(matrices, Matrices)
    assert matrices.row("Title").caption == "Title, A: base 500"


def test_one_picture_saves_matrices_of_a_of_b_and_their_difference() -> None:
    page = both(page_of(row({"RoPE": [[1.0]]})), page_of(row({"RoPE": [[0.5]]})))
    rows = [block.row("Title") for block in page.all_blocks if isinstance(block, Matrices)]
    assert [each.heading for each in rows] == [
        "A: base 500", "B: base 10,000", "B: base 10,000 minus A: base 500"
    ]  # fmt: skip
    assert {(*each.beside,) for each in rows} == {("row", "row_pinned", "row_change")}


def test_matrices_of_a_stand_left_of_b_and_of_their_difference() -> None:
    b = row({"RoPE": [[1.0, 0.5], [0.0, 1.0]], "ALiBi": [[1.0]]}, together=2)
    a = row({"ALiBi": [[1.0]], "RoPE": [[0.5]]}, together=2)
    note, columns = both(page_of(b), page_of(a)).blocks
    assert isinstance(note, Text)
    assert note.text.startswith("The base does not affect ALiBi: ")
    assert isinstance(columns, Columns)
    headings = [part[0] for part in columns.parts]
    rows: list[Any] = [part[1] for part in columns.parts]
    assert [text.text for text in headings if isinstance(text, Text)] == [
        r"**A\: base 500**", r"**B\: base 10,000**", r"**Difference\: B minus A**"
    ]  # fmt: skip
    assert [matrices.key for matrices in rows] == ["row_pinned", "row", "row_change"]
    assert [[panel.title for panel in matrices.panels] for matrices in rows] == [["RoPE"]] * 3
    assert rows[2].panels[0].values.dense().tolist() == [[0.5]]  # where both draw
    assert [matrices.scale.kind for matrices in rows] == ["sequential", "sequential", "diverging"]
    assert (rows[2].scale.low, rows[2].scale.high) == (-0.5, 0.5)
    assert [matrices.together for matrices in rows] == [2, 2, 1]


def test_matrices_that_are_equal_are_drawn_once_with_a_sentence() -> None:
    b, a = row({"RoPE": [[1.0]], "ALiBi": [[0.5]]}), row({"RoPE": [[1.0]], "ALiBi": [[0.5]]})
    note, drawn = both(page_of(b), page_of(a), ("base", "heads")).blocks
    assert isinstance(note, Text)
    assert note.text == "The base and the heads do not affect RoPE and ALiBi: drawn once."
    assert drawn is b
    page = compare.pages(page_of(b), page_of(a), NAMES, ("base",), explained=True)
    assert isinstance(page.blocks[0], Text)
    assert page.blocks[0].text == "The same in A and B."
    equal, _ = both(page_of(b), page_of(a), ()).blocks
    assert isinstance(equal, Text)
    assert equal.text == "A and B are equal for RoPE and ALiBi."


def test_scale_that_follows_from_panels_follows_from_those_of_both() -> None:
    def scale(panels: Any) -> Scale:
        return Scale.around_zero([panel.values for panel in panels], "")

    b, a = row({"RoPE": [[1.0]]}), row({"RoPE": [[-3.0]]})
    pair = [dataclasses.replace(block, scale=scale) for block in (b, a)]
    page = both(page_of(pair[0]), page_of(pair[1]))
    for key in ("row", "row_pinned"):
        assert block_of(page, Matrices, key).scale == Scale(-3.0, 3.0, "diverging", "")


def test_columns_with_three_matrices_each_go_under_each_other() -> None:
    b = page_of(Columns(([row({"RoPE": [[1.0]]})], [Text("Words.")])))
    page = both(b, page_of(row({"RoPE": [[0.0]]})))
    assert [type(block) for block in page.blocks] == [Columns, Text]


def test_text_of_a_stands_over_that_of_b_only_where_it_says_so_and_differs() -> None:
    b = page_of(Text("B says.", "caption", both="cell"), Text("Guide."), Text("Same.", both="same"))
    a = page_of(Text("A says.", "caption", both="cell"), Text("Other."), Text("Same.", both="same"))
    blocks = [block for block in both(b, a).blocks if isinstance(block, Text)]
    assert [block.text for block in blocks] == [
        r"A\: base 500. A says.", r"B\: base 10,000. B says.", "Guide.", "Same."
    ]  # fmt: skip
    assert blocks[1].look == "caption"


def test_controls_are_those_of_b() -> None:
    controls = Controls(("reference",))
    assert list(both(page_of(controls), page_of(Controls(("reference",)))).blocks) == [controls]


def test_live_part_is_that_of_b_and_one_of_a_alone_is_not_drawn() -> None:
    live = Live("jobs")
    assert list(both(page_of(live), page_of(Live("jobs"))).blocks) == [live]
    assert list(both(page_of(), page_of(Live("jobs"))).blocks) == []


def test_data_holds_the_rows_of_both() -> None:
    b, a = (Data(title="Words", frame=pd.DataFrame({"word": [word]})) for word in ("b", "a"))
    (data,) = both(page_of(b), page_of(a)).blocks
    assert isinstance(data, Data)
    assert data.numbers().to_dict("list") == {"word": ["b", "a"], "setting": ["B", "A"]}


def test_findings_of_a_stand_under_those_of_b_with_the_change_unless_they_are_the_same() -> None:
    def found(name: str, error: float) -> Findings:
        return Findings("found", pd.DataFrame({"method": [name], "error": [error]}))

    (joined,) = both(page_of(found("YaRN", 3.0)), page_of(found("YaRN", 1.0))).blocks
    assert isinstance(joined, Findings)
    assert joined.frame.to_dict("list") == {
        "method": ["YaRN"] * 3, "setting": ["B", "A", "B - A"], "error": [3.0, 1.0, 2.0]
    }  # fmt: skip
    same = found("YaRN", 3.0)
    assert list(both(page_of(same), page_of(found("YaRN", 3.0))).blocks) == [same]
    for pages, setting in (((page_of(same), page_of()), "B"), ((page_of(), page_of(same)), "A")):
        (alone,) = both(*pages).blocks
        assert isinstance(alone, Findings)
        assert alone.frame["setting"].tolist() == [setting]


def test_table_and_drawer_of_a_stand_with_those_of_b() -> None:
    def drawer(value: str, mark: str) -> Drawer:
        table = Table(pd.DataFrame({"scheme": ["RoPE"], "norm": [value]}), "norms")
        return Drawer("norms", "Norms", lambda: [table], mark=mark)

    (joined,) = both(page_of(drawer("1", "True")), page_of(drawer("2", "False"))).blocks
    assert isinstance(joined, Drawer)
    assert joined.title == "Norms (A: False)"
    names_of_a, a, names, b = joined.make()
    assert isinstance(names, Text)
    assert isinstance(names_of_a, Text)
    assert (names.text, names_of_a.text) == (r"B\: base 10,000", r"A\: base 500")
    assert isinstance(b, Table)
    assert isinstance(a, Table)
    assert (b.frame["norm"].item(), a.frame["norm"].item()) == ("1", "2")


def test_what_a_alone_has_in_a_tab_stands_in_that_tab_of_b() -> None:
    def tabs(*blocks: Block) -> Tabs:
        return Tabs("tab", ("Curves", "Tables"), "Curves", blocks)

    b = tabs(curve(1, key="left"), Controls(("reference",)))
    a = tabs(curve(2, key="right"), curve(3, key="left"))
    (joined,) = both(page_of(b), page_of(a)).blocks
    assert isinstance(joined, Tabs)
    left, controls, right = joined.blocks
    assert isinstance(left, Chart)
    assert isinstance(controls, Controls)
    assert isinstance(right, Chart)
    assert left.frame["y"].tolist() == [1, 3]
    assert right.frame[["y", "setting"]].values.tolist() == [[2, "A"]]
    (alone,) = both(page_of(), page_of(tabs(curve(4)))).blocks
    assert isinstance(alone, Chart)


def test_line_of_b_is_marked_by_its_own_of_a_even_if_that_is_not_shown() -> None:
    def drawer(key: str, mark: str, *, shown: bool = True) -> Drawer:
        return Drawer(key, key, lambda: [], mark=mark, shown=shown)

    b = page_of(Lines([drawer("norms", "True")]), drawer("means", "False", shown=False))
    a = page_of(Lines([drawer("means", "True")]), drawer("norms", "False", shown=False))
    lines_of_both, hidden = both(b, a).blocks
    assert isinstance(lines_of_both, Lines)
    assert [one.title for one in lines_of_both.drawers] == ["norms (A: False)"]
    assert isinstance(hidden, Drawer)
    assert not hidden.shown


def test_table_that_a_alone_has_is_named() -> None:
    table = Table(pd.DataFrame({"scheme": ["RoPE"], "norm": ["1"]}), "norms")
    name, of_a = both(page_of(), page_of(table)).blocks
    assert isinstance(name, Text)
    assert name.text == r"A\: base 500"
    assert of_a is table


def test_cells_of_a_stand_beside_those_of_b_under_their_names_and_are_laid_out_together() -> None:
    def cards(*kinds: str) -> Cards:
        cells: dict[str, list[Block]] = {
            kind: [Text(kind, "heading"), curve(1, kinds=(kind,), key=kind)] for kind in kinds
        }
        return Cards("cards", cells, each=True, lay_out=counted)

    def counted(cells: Mapping[str, Sequence[Block]]) -> dict[str, list[Block]]:
        return {name: [*cell, Text(f"1 of {len(cells)}")] for name, cell in cells.items()}

    (joined,) = both(page_of(cards("rope", "alibi")), page_of(cards("rope", "t5"))).blocks
    assert isinstance(joined, Cards)
    of_a, of_b, *others = joined.drawn.values()
    assert [len(cell) for cell in others] == [1, 3, 3, 1]  # ALiBi is B's alone, T5 A's alone
    for cell, name, key in ((of_a, NAMES["A"], "rope_pinned"), (of_b, NAMES["B"], "rope")):
        heading, chart, text = cell
        assert isinstance(heading, Text)
        assert heading.text == f"rope, {name.replace(':', chr(92) + ':')}"
        assert isinstance(chart, Chart)
        assert (chart.key, chart.title, chart.pinned) == (key, f"Curve, {name}", None)
        assert isinstance(text, Text)
        assert text.text == "1 of 6"


def test_cells_that_a_or_b_alone_has_are_named() -> None:
    cards = Cards("cards", {"rope": [curve(1)]}, each=True)
    for b, a, setting in ((page_of(cards), page_of(), "B"), (page_of(), page_of(cards), "A")):
        (joined,) = both(b, a).blocks
        charts = [block for block in walk([joined]) if isinstance(block, Chart)]
        assert [chart.title for chart in charts] == [f"Curve, {NAMES[setting]}"]


def test_clocks_of_a_scheme_stand_beside_each_other() -> None:
    def clocks(last: int, *titles: str) -> Clocks:
        faces = [
            Face(title=title, subtitle="pairs", color="#000000", pairs=(0,), inv_freq=np.ones(1))
            for title in titles
        ]
        return Clocks(key="clock", faces=faces, first=0, last=last, trained=8, text="Hands.")

    (both_clocks,) = both(page_of(clocks(9, "RoPE")), page_of(clocks(12, "RoPE", "Other"))).blocks
    assert isinstance(both_clocks, Clocks)
    assert [(face.title, face.subtitle) for face in both_clocks.faces] == [
        ("RoPE", "A: base 500; pairs"), ("RoPE", "B: base 10,000; pairs"),
        ("Other", "A: base 500; pairs"),
    ]  # fmt: skip
    assert both_clocks.last == 12
    assert both_clocks.text == "Hands. A: base 500. Hands."
    assert both_clocks.two


def test_joined_page_leaves_both_pages_as_they_are() -> None:
    b, a = (
        similarity.page(Setting(base=base, length=12), similarity.Options())
        for base in (1e4, 500.0)
    )
    before = panel_values(b, "similarity")
    page = both(b, a)
    assert [*before] == [*panel_values(b, "similarity")]
    change, of_a = panel_values(page, "similarity_change"), panel_values(page, "similarity_pinned")
    for title, values in change.items():
        assert np.allclose(values, before[title] - of_a[title], atol=1e-7)
    assert [*change] == ["Sinusoidal", "RoPE"]


# Specifications -------------------------------------------------------------------------------


def layers_of(spec: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


def test_lines_of_b_are_solid_and_those_of_a_dashed_with_a_legend_of_names() -> None:
    alone = draw_lines(("rope", "alibi"))
    text = json.dumps(alone)
    spec = overlay.of_both(alone, NAMES)
    (line,) = layers_of(spec, "line")
    assert line["encoding"]["strokeDash"]["scale"] == {
        "domain": ["A", "B"], "range": [[5, 4], [1, 0]]
    }  # fmt: skip
    assert '"A: base 500"' in line["encoding"]["strokeDash"]["legend"]["labelExpr"]
    names = [layer for layer in spec["layer"] if "label_y" in json.dumps(layer)]
    assert [layer["transform"][-1] for layer in names] == [{"filter": "datum.setting != 'A'"}]
    assert spec["height"] > alone["height"]
    assert json.dumps(alone) == text  # the chart alone is as it was


def test_lines_of_both_have_a_few_points_with_the_shape_of_their_scheme() -> None:
    """Their strokes tell A and B apart, so that without colour nothing else tells schemes apart."""
    spec = overlay.of_both(draw_lines(("rope", "alibi")), NAMES)
    (points,), (line,) = layers_of(spec, "point"), layers_of(spec, "line")
    assert points["transform"] == [{"filter": "datum.marker"}]
    assert points["encoding"]["shape"]["scale"] == {
        "domain": ["RoPE", "ALiBi"], "range": ["triangle-up", "diamond"]
    }  # fmt: skip
    legends = [points["encoding"][one]["legend"] for one in ("color", "shape")]
    assert legends == [line["encoding"]["color"]["legend"]] * 2  # so that Vega shows one, of shapes
    assert "symbolType" not in legends[0]
    frame = pd.concat(
        [
            pd.DataFrame({"scheme": kind, "setting": setting, "x": range(40)})
            for setting in ("B", "A")
            for kind in ("RoPE", "ALiBi")
        ],
        ignore_index=True,
    )
    places = {
        line: rows["x"].tolist()
        for line, rows in overlay.marked(frame).query("marker").groupby(["scheme", "setting"])
    }
    assert all(len(rows) == overlay.MARKERS for rows in places.values())
    assert places["RoPE", "A"] == places["RoPE", "B"]
    assert not {*places["RoPE", "A"]} & {*places["ALiBi", "A"]}


@pytest.mark.parametrize(
    ("height", "name", "columns"),
    [
        (280, "A: base 500", 2),
        (160, "A: base 500", 1),
        (280, "A: model dimension 2,048, base 500", 1),
    ],
)
def test_names_of_settings_stand_under_each_other_where_they_do_not_fit(
    height: int, name: str, columns: int
) -> None:
    alone = draw_lines(("rope",)) | {"height": height}
    spec = overlay.of_both(alone, NAMES | {"A": name})
    (line,) = layers_of(spec, "line")
    assert line["encoding"]["strokeDash"]["legend"]["columns"] == columns
    assert spec["height"] == height + (50 if columns == 2 else 75)


def test_readout_lists_every_line_for_a_and_for_b() -> None:
    spec = overlay.of_both(draw_lines(("rope", "alibi")), NAMES)
    (readout,) = [layer for layer in spec["layer"] if "pivot" in json.dumps(layer)]
    titles = [row["title"] for row in readout["encoding"]["tooltip"]]
    assert titles == ["x", "RoPE, A", "RoPE, B", "ALiBi, A", "ALiBi, B"]
    derived = [step["as"] for step in readout["transform"] if "as" in step]
    assert derived == ["line", "RoPE, A", "RoPE, B", "ALiBi, A", "ALiBi, B"]
    assert {step["pivot"] for step in readout["transform"] if "pivot" in step} == {"line"}


def test_rule_at_the_training_length_is_drawn_once_for_both() -> None:
    alone, spec = draw_lines(("rope",)), overlay.of_both(draw_lines(("rope",)), NAMES)
    boundary = [layer for layer in spec["layer"] if "boundary" in json.dumps(layer)]
    assert boundary == [layer for layer in alone["layer"] if "boundary" in json.dumps(layer)]


@pytest.mark.parametrize("mark", ["bar", "point"])
def test_bars_and_points_of_a_are_pale_and_tooltips_say_whose_they_are(mark: str) -> None:
    spec = {
        "height": 100, "mark": {"type": mark},
        "encoding": {"x": {"field": "x"}, "tooltip": [{"field": "x"}, {"field": "y"}]},
    }  # fmt: skip
    encoding = overlay.of_both(spec, NAMES)["encoding"]
    assert encoding["opacity"]["scale"] == {"domain": ["A", "B"], "range": [0.45, 1.0]}
    assert encoding["opacity"]["legend"]["symbolType"] == "circle"  # a stroke would not be seen
    assert [row["field"] for row in encoding["tooltip"]] == ["x", "setting", "y"]
    assert ("xOffset" in encoding) == (mark == "bar")


def test_frame_of_two_without_rows_still_has_the_column_of_settings() -> None:
    empty = pd.DataFrame({"x": []})
    assert list(overlay.both(empty, empty)) == ["x", "setting"]


@pytest.mark.parametrize(("lengths", "drawn"), [((24, 40), 2), ((24, 24), 1)])
def test_training_lengths_of_a_and_b_are_both_drawn(lengths: tuple[int, int], drawn: int) -> None:
    a, b = (
        similarity.page(Setting(length=48, train_length=length), similarity.Options())
        for length in lengths
    )
    both = compare.pages(b, a, {"A": "A", "B": "B"}, ["train_length"])
    chart = block_of(both, Chart, "by_offset")
    svg = pictures.svg(pictures.chart(chart.spec, chart.drawn))
    assert svg.count(">training length<") == drawn
