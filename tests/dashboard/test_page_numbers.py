"""Numbers of the comparison pages, against kernels computed without posenc.

How the library measures a kernel is proved against plain loops in tests/library.
"""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dashboard import compare
from dashboard.blocks import Block, Cards, Chart, Drawer, Link, Matrices, Page, Text
from dashboard.charts import theme
from dashboard.pages.at_a_glance import page as at_a_glance
from dashboard.pages.extrapolation import page as extrapolation
from dashboard.pages.extrapolation.options import NEAREST, TURNS
from dashboard.pages.pca import page as pca
from dashboard.pages.pca.charts import HEIGHT, WIDTH, positions
from dashboard.pages.pca.options import FIRST, PLANES, SECOND, VARIANCE
from dashboard.pages.pca.panels import panels
from dashboard.pages.relative_offsets import page as relative_offsets
from dashboard.settings import Setting
from dashboard.text import listed, number
from posenc import analysis
from posenc.claims import figure
from posenc.rotation import pair_matrix
from posenc.text import as_factor, significant
from tests.dashboard import called_pages, pages
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard.called_pages import (
    block_of,
    chart,
    data,
    numbers,
    panel_values,
    small_setting,
    texts,
)
from tests.dashboard.independent_kernels import (
    SETTINGS,
    Small,
    kernel,
    mean_by_distance,
)
from tests.dashboard.page_texts import value_and_unit
from tests.dashboard.pages import KINDS, LABELS, cosines, of
from tests.library import independent

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(params=SETTINGS)
def small(request: pytest.FixtureRequest) -> Small:
    """The numbers of one small setting."""
    return SETTINGS[request.param]


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, float))


def frequencies(kind: str, small: Small) -> torch.Tensor:
    width = by_hand.rope_width(small) if kind == "rope" else small["dim"]
    return tensor(independent.inverse_frequencies(width, small["base"]))


# At a glance -----------------------------------------------------------------------


def check_curve(block: Chart, kind: str, small: Small) -> None:
    """Compare the full curve and the drawn one with the kernel's cosine similarity."""
    cosine = cosines(kernel(kind, small))
    ranges = by_hand.diagonals(cosine)
    if kind == "alibi":  # the range of the heads beside their mean
        ranges = np.exp(by_hand.biases(small))[:, :, 0].T.tolist()
    expected = pd.DataFrame({
        "distance": range(len(cosine)), "mean": mean_by_distance(cosine),
        "low": [*map(min, ranges)], "high": [*map(max, ranges)],
    })  # fmt: skip
    own = block.numbers()[[*expected]]
    assert np.allclose(own, expected, atol=1e-12)
    # Drawn curves travel in float32: 6e-8 of 1.
    assert np.allclose(block.drawn[["x", "y", "low", "high"]], own, atol=1e-7, rtol=1e-6)


PROPERTIES = ("positions", "smallest_distance", "neighbour_mean", "norm_low", "norm_high",
              "translation_invariance_error", "first_rise", "kendall_tau")  # fmt: skip


def test_overview_page_shows_cosines_and_properties_of_the_kernel(small: Small) -> None:
    shown = at_a_glance.page(small_setting(small), at_a_glance.Options())
    full, said = data(shown, "Measured properties"), shown.headline
    about = re.compile("positions differ|cannot be told apart")
    sentences = [text for text in texts(shown) if about.search(text)]
    for column, kind in enumerate(KINDS):
        check_curve(chart(shown, f"curve_{kind}"), kind, small)
        (own,) = of(full, kind).to_dict("records")
        found: Any = analysis.measure(tensor(kernel(kind, small)))
        for name in PROPERTIES:
            if (value := getattr(found, name)) is None:
                assert pd.isna(own[name]), (kind, name)
            else:
                assert own[name] == pytest.approx(value, rel=1e-9, abs=2e-7), (kind, name)
        sentence = sentences[column]
        if kind == "none":
            assert "cannot be told apart" in sentence
        else:
            assert f"{own['smallest_distance']:.3g}" in sentence
            stationary = found.translation_invariance_error < 1e-6
            assert ("only the distance counts" in sentence) == stationary
        if found.first_rise:
            assert (
                f"{found.first_rise} ({LABELS[kind]}"
                in said.partition("first rises again at distance ")[2]
            )
    assert ("untrained noise" in said) == (small["learned_source"] == "random")


# PCA ----------------------------------------------------------------------------------------------


def cells_of(shown: Page) -> dict[str, Sequence[Block]]:
    """Return the heading, the caption and the plot of each scheme."""
    (cards,) = [block for block in shown.blocks if isinstance(block, Cards)]
    return dict(cards.drawn)


def test_pca_page_shows_principal_components(small: Small) -> None:
    shown = pca.page(small_setting(small), pca.Options())
    scores, variance, cells = data(shown, "Scores"), data(shown, pca.EXPLAINED), cells_of(shown)
    for kind in KINDS:
        if kind == "alibi" and small["precision"] != "float32":
            continue  # a rounded kernel has no vectors
        matrix = tensor(kernel(kind, small))
        fitted = min(small["train_length"], len(matrix))
        own = scores[scores["kind"] == kind]
        shares = of(variance, kind)["own"].to_numpy()
        found = analysis.project_gram(matrix, len(shares), fitted)
        expected = found.scores[:, :3] / matrix.diagonal().mean().sqrt()
        assert np.allclose(own[["PC1", "PC2", "PC3"]], expected, atol=1e-8), kind
        assert np.allclose(shares, found.explained_variance_ratio, atol=1e-10)
        assert shares.any() == (kind != "none")
        if kind == "none":
            assert not any(isinstance(block, Chart) for block in cells[kind])
            continue
        assert own["position"].tolist() == list(range(len(matrix)))
        assert own["seen"].tolist() == ["inside"] * fitted + ["past"] * (len(matrix) - fitted)
        heading, caption, plot, *_ = cells[kind]
        assert isinstance(heading, Text)
        assert heading.text == LABELS[kind]
        projected = f"; {fitted}-{len(matrix) - 1} projected" if len(matrix) > fitted else ""
        assert pages.as_read(heading.help).endswith(
            f"fitted on positions 0-{fitted - 1}{projected}"
        )
        assert isinstance(caption, Text)
        three = ", ".join(f"PC{i + 1} {shares[i]:.1%}" for i in range(3))
        assert caption.text == f"Variance explained: {three}"
        assert isinstance(plot, Chart)
        rows = plot.drawn["position"]
        assert np.allclose(
            plot.drawn[["PC1", "PC2", "PC3"]], expected.numpy()[rows], atol=1e-6, rtol=1e-6
        )
        assert plot.drawn["past"].tolist() == (rows >= fitted).tolist()
        assert f"{shares[:2].sum():.0%} ({LABELS[kind]})" in shown.headline


def test_pca_page_says_how_many_components_explain_nine_tenths() -> None:
    usual = pages.DEFAULT | {"dim": 512, "heads": 8, "length": 128, "train_length": 128}
    shown = pca.page(Setting(length=128), pca.Options(plot=VARIANCE))
    shares, (sentence,) = (
        numbers(shown, "explained"),
        [text for text in texts(shown) if "of the variance:" in text],
    )
    centre = np.eye(128) - 1 / 128
    for kind, expected in (("sinusoidal", 28), ("rope", 16), ("alibi", 44)):
        values = np.linalg.eigvalsh(centre @ np.asarray(kernel(kind, usual)) @ centre)[::-1]
        share = values.cumsum() / values.sum()
        assert share[expected - 2] < 0.9 <= share[expected - 1]
        assert f"{expected} ({LABELS[kind]})" in sentence
        own = of(shares, kind)
        assert own["component"].tolist() == list(range(1, 45))  # as many as any scheme takes
        assert np.allclose(own["share"], share[:44], atol=1e-9)


@pytest.mark.parametrize(("fit", "on", "fitted"), [("seen", "training", 128), ("all", "all", 256)])
def test_pca_page_says_what_its_percentages_and_bends_are(fit: str, on: str, fitted: int) -> None:
    usual = pages.DEFAULT | {"dim": 512, "heads": 8, "length": 256, "train_length": 128}
    kinds = ("sinusoidal", "rope", "alibi")
    centre = np.eye(fitted) - 1 / fitted
    for plot, words in (
        (
            FIRST,
            "PC1 separates early positions from late ones and PC2 separates the middle from both ends.",
        ),
        (
            SECOND,
            "PC2 separates the middle from both ends and PC3 separates the first and third stretch of "
            "positions from the second and fourth.",
        ),
    ):
        expected = [int(plot[2]), int(plot[-1])]
        bent, shares = [], {}
        for kind in kinds:
            own = np.asarray(kernel(kind, usual))[:fitted, :fitted]
            values, waves = np.linalg.eigh(centre @ own @ centre)
            shares[kind] = values[-2:].sum() / values.sum()
            signs = np.sign(waves[:, [-n for n in expected]])
            if (np.diff(signs, axis=0) != 0).sum(axis=0).tolist() == expected:
                bent.append(LABELS[kind])
        shown = pca.page(Setting(schemes=kinds), pca.Options(fit=fit, plot=plot))
        assert {"Sinusoidal", "ALiBi"} <= {*bent}
        curves, share = f"The curves of {listed(bent)} bend", shares["sinusoidal"]
        assert texts(shown)[0] == (
            f"{share:.0%} means: PC1 and PC2 show {share:.0%} of the spread (variance) of the vectors of "
            f"{on} positions. {curves} because near positions are alike and far ones are not (horseshoe "
            f"effect). Here {words}"
        )
        assert f"{share:.0%} (Sinusoidal)" in shown.headline


def test_presented_plots_stand_four_in_a_line_of_a_projector_and_keep_one_unit() -> None:
    (cards,) = [b for b in pca.page(Setting(), pca.Options()).blocks if isinstance(b, Cards)]
    assert len(cards.cells) == cards.presented == 4
    gaps, margins = 3 * 16, 2 * 26
    assert 4 * theme.STAGE_CELL + gaps <= 1280 - margins
    spec = theme.for_projector(positions("PC1", "PC2"))
    axis = 60  # with the larger type of a projector
    assert spec["width"] + axis <= theme.STAGE_CELL
    assert spec["width"] / spec["height"] == pytest.approx(WIDTH / HEIGHT, rel=0.01)


def zigzags(shown: Page) -> dict[str, list[str]]:
    """Return the reasons for sharp turns that the page gives, by scheme."""
    return {
        kind: [one.text for one in cell if isinstance(one, Text) and "zigzags" in one.text]
        for kind, cell in cells_of(shown).items()
    }


def test_curve_zigzags_because_its_scheme_has_few_pairs_whatever_the_scheme() -> None:
    """RoPE in a head of 16 and Sinusoidal of width 16 have the same 8 pairs and the same curve."""
    rope = pca.page(Setting(schemes=("sinusoidal", "rope"), heads=32), pca.Options())
    few = pca.page(Setting(schemes=("sinusoidal",), dim=16, heads=1), pca.Options())
    (none, (said,)), (same,) = zigzags(rope).values(), zigzags(few).values()
    assert (none, same) == ([], [said])
    path = data(few, "Scores")[["PC1", "PC2"]].to_numpy()[: Setting().train_length]
    steps = [(x - a, y - b) for (a, b), (x, y) in itertools.pairwise(path.tolist())]
    turns = sum(a * x + b * y < 0 for (a, b), (x, y) in itertools.pairwise(steps))
    assert turns > 0
    assert said.startswith(
        f"The curve zigzags at {turns} training positions: these vectors have 8 pairs of "
    )
    equal = pca.page(Setting(schemes=("rope",), heads=32, equal_width=True), pca.Options())
    assert zigzags(equal) == {"rope": []}  # 256 pairs, as Sinusoidal has


@pytest.mark.parametrize(("base", "dim"), [(500_000.0, 512), (10_000.0, 64)])
def test_curve_that_turns_sharply_past_training_alone_is_not_said_to_zigzag(
    base: float, dim: int
) -> None:
    shown = pca.page(Setting(schemes=("sinusoidal",), base=base, dim=dim), pca.Options())
    path = data(shown, "Scores")[["PC1", "PC2"]].to_numpy()
    steps = [(x - a, y - b) for (a, b), (x, y) in itertools.pairwise(path.tolist())]
    sharp = [a * x + b * y < 0 for (a, b), (x, y) in itertools.pairwise(steps)]
    trained = Setting().train_length
    assert (any(sharp[: trained - 2]), any(sharp)) == (False, True)
    assert zigzags(shown) == {"sinusoidal": []}


def test_pca_page_says_what_vectors_of_alibi_are() -> None:
    shown = pca.page(Setting(schemes=("learned", "alibi")), pca.Options())
    learned, alibi = cells_of(shown).values()
    said = [one.text for one in alibi if isinstance(one, Text)]
    assert said[-1].startswith(
        "ALiBi has no position vectors. PCA uses vectors whose inner products are"
    )
    assert not [one for one in learned if isinstance(one, Text) and "inner products" in one.text]


def test_pca_page_calls_no_curve_bent_by_order_where_a_base_of_two_repeats() -> None:
    shown = pca.page(Setting(schemes=("sinusoidal",), base=2.0), pca.Options())
    assert " bends " not in texts(shown)[0]


def test_pca_plots_of_a_and_b_share_a_scale_and_say_whose_they_are() -> None:
    """The learned table is the same under both; RoPE's axes hold the wider of two shapes."""
    names = {"A": "A: base 2", "B": "B: base 10,000"}
    b, a = (
        pca.page(Setting(schemes=("learned", "rope"), base=base), pca.Options())
        for base in (10_000.0, 2.0)
    )
    both = compare.pages(b, a, names, ["base"])
    plots = [block for block in both.all_blocks if isinstance(block, Chart)]
    assert [plot.key for plot in plots] == [
        "projection_learned_pinned", "projection_learned",
        "projection_rope_pinned", "projection_rope",
    ]  # fmt: skip
    assert [plot.title for plot in plots] == [
        f"{label}, {names[setting]}" for label in ("Learned", "RoPE") for setting in "AB"
    ]
    ends = [tuple(plot.drawn[["left", "right", "bottom", "top"]].iloc[0]) for plot in plots]
    assert (ends[0], ends[2]) == (ends[1], ends[3])
    alone = [block for page in (b, a) for block in page.all_blocks if isinstance(block, Chart)]
    widths = [float((plot.drawn["right"] - plot.drawn["left"]).iloc[0]) for plot in alone]
    assert ends[3][1] - ends[3][0] == pytest.approx(max(widths[1], widths[3]), rel=1e-6)
    for plot, own in zip(plots, (alone[2], alone[0], alone[3], alone[1]), strict=True):
        assert plot.drawn["PC1"].tolist() == own.drawn["PC1"].tolist()
    scores = data(both, "Scores")
    assert scores["setting"].unique().tolist() == ["B", "A"]
    missing = Setting(schemes=("learned", "rope"), learned_source=f"table-{'0' * 12}")
    both = compare.pages(b, pca.page(missing, pca.Options()), names, ["table"])
    cells = cells_of(both)
    assert [*cells] == ["learned, A", "learned, B", "rope, A", "rope, B"]
    assert cells["learned, A"] == []


def test_each_leading_component_is_a_faster_wave_than_the_one_before() -> None:
    """Components 1, 2 and 3 cross zero 1, 2 and 3 times (Diaconis, Goel and Holmes 2008)."""
    usual = pages.DEFAULT | {"dim": 512, "heads": 8, "length": 128, "train_length": 128}
    centre = np.eye(128) - 1 / 128
    for kind in ("sinusoidal", "rope", "alibi"):
        waves = np.linalg.eigh(centre @ np.asarray(kernel(kind, usual)) @ centre)[1][:, :-4:-1]
        crossings = (np.diff(np.sign(waves), axis=0) != 0).sum(axis=0)
        assert crossings.tolist() == [1, 2, 3], (
            kind
        )  # half a period, a whole one, and one and a half


def test_jump_of_the_bundled_table_is_explained_where_its_last_row_is_shown() -> None:
    rows = Setting().request("learned", "cpu").build("cpu").state_dict()["weight"]
    sizes = rows.norm(dim=1)
    steps = (sizes[1:] / sizes[:-1]).log().abs()
    assert steps[-1] > 2 * steps[:-1].max()  # unlike the row before it, as no other row
    for asked, expected in (
        (Setting(length=128), ["Learned jumps at position 127"]),
        (Setting(length=64), []),
        (Setting(learned_source="random"), []),
    ):
        jumps = [text for text in texts(pca.page(asked, pca.Options())) if "jumps" in text]
        assert [text.split(":")[0] for text in jumps] == expected


def test_position_far_from_all_others_is_left_out_of_the_picture() -> None:
    """BERT's position 0 lies about twenty times further out than the rest of its table."""
    circle = np.arange(50) / 25 * np.pi
    scores = np.stack((np.cos(circle), np.sin(circle), 0 * circle), axis=1)
    far = scores.copy()
    far[7] = (0.5, -21.0, 0.25)
    positions = {("learned", "B"): far, ("rope", "B"): scores}
    drawn = panels(positions, {"B": 40}, PLANES[FIRST], same_scale=False)
    frame, outside = drawn["learned", "B"]
    assert sorted(set(range(50)) - set(frame["position"])) == [7]
    assert "position 7 at PC1 0.5, PC2 -21, PC3 0.25" in outside
    frame, outside = drawn["rope", "B"]
    assert (len(frame), outside) == (50, "")
    assert frame["top"].unique() == pytest.approx([1.12], rel=1e-2)


def test_numbers_beside_dots_cover_no_dot_and_no_other_number() -> None:
    at = np.linspace(0, 2 * np.pi, 256)
    shapes = {
        ("rope", "B"): np.stack((np.cos(at / 2), np.cos(at), at), axis=1),  # an arch
        ("alibi", "B"): np.stack((np.cos(at), np.sin(at), at), axis=1),  # a circle
        ("learned", "B"): np.stack((at, np.sin(20 * at) / 40, at), axis=1),  # a thick line
    }
    drawn = panels(shapes, {"B": 128}, PLANES[FIRST], same_scale=False)
    for kind in shapes:
        frame, _ = drawn[kind]
        ends = frame[["left", "right", "bottom", "top"]].iloc[0]
        unit = WIDTH / (ends["right"] - ends["left"])  # pixels
        labelled = frame.dropna(subset="label")
        boxes = []
        for _, row in labelled.iterrows():
            x, y = (row["label_x"] - ends["left"]) * unit, (row["label_y"] - ends["bottom"]) * unit
            wide, high = 4 * len(row["label"]), 7  # half of what text of 12 pixels takes
            assert wide <= x <= WIDTH - wide
            assert high <= y <= HEIGHT - high
            dots = (frame[["PC1", "PC2"]] - [ends["left"], ends["bottom"]]) * unit
            covered = (dots["PC1"] - x).abs().lt(wide) & (dots["PC2"] - y).abs().lt(high)
            assert not covered.any(), (kind, row["label"])
            distance = np.hypot(*((row[["PC1", "PC2"]] - [row["label_x"], row["label_y"]]) * unit))
            assert distance < 50
            boxes.append((x, y, wide, high))
        assert len(boxes) >= 3
        for n, (x, y, wide, high) in enumerate(boxes):
            for other_x, other_y, other_wide, other_high in boxes[:n]:
                apart = abs(x - other_x) >= wide + other_wide, abs(y - other_y) >= high + other_high
                assert any(apart), kind


def test_unit_is_as_long_on_both_axes_and_panels_share_a_scale_where_asked() -> None:
    at, line = np.linspace(-1, 1, 40), np.zeros(40)
    wide = np.stack((3 * at, at, line), axis=1)
    tall = np.stack((0.1 * at, at, line), axis=1)
    ends = ["left", "right", "bottom", "top"]
    scores = {
        ("learned", "B"): wide, ("learned", "A"): tall, ("rope", "B"): tall, ("rope", "A"): tall,
    }  # fmt: skip
    for same_scale in (False, True):
        drawn = panels(scores, {"B": 128, "A": 128}, PLANES[FIRST], same_scale=same_scale)
        scales = {key: tuple(frame[ends].iloc[0]) for key, (frame, _) in drawn.items()}
        for left, right, bottom, top in scales.values():
            assert right - left == pytest.approx(WIDTH / HEIGHT * (top - bottom), rel=1e-6)
        assert scales["learned", "B"] == scales["learned", "A"]
        assert (scales["learned", "B"] == scales["rope", "B"]) == same_scale


# Relative offsets ---------------------------------------------------------------------------------


OFFSET = 6


def test_offsets_page_shows_shifts_spreads_and_lines(small: Small) -> None:
    options = relative_offsets.Options(offset=OFFSET, second=3)
    page = relative_offsets.page(small_setting(small), options)
    maps = called_pages.data(page, "One matrix per offset")
    claims = called_pages.data(page, "Offset only and straight line")
    pictures, composed = panel_values(page, "offset_maps"), composed_maps(page)
    moving, alone, straight = page.headline.split("? ")[1:]
    assert page.headline.startswith(f"Does one matrix move every position by {OFFSET}? Yes for ")
    assert "ALiBi" not in moving  # it has no vectors
    assert "ALiBi" in alone
    assert straight == "Yes for ALiBi."
    (link,) = [block for block in page.all_blocks if isinstance(block, Link)]
    assert (link.page, link.changes) == ("claims", {"theme": "distance"})
    (of_alibi,) = of(maps, "alibi")[["closed form", "fitted matrix"]].to_numpy()
    said = any("ALiBi: no vectors of positions." in text for text in texts(page))
    assert said == (not np.isnan(of_alibi).all())
    drawn_without = any(
        "ALiBi has no vectors: drawn for vectors made here." in t for t in texts(page)
    )
    assert drawn_without == ("ALiBi" in pictures)
    rows = [block for block in page.all_blocks if isinstance(block, Matrices)]
    subtitles = {panel.title: panel.subtitle for row in rows for panel in row.panels}
    made = {title for title, subtitle in subtitles.items() if "vectors made for this" in subtitle}
    assert made == {*pictures} & {"ALiBi"}
    check_lines(claims, small)
    check_cards(page, maps, claims)
    exact = small["precision"] == "float32"
    for kind in ("sinusoidal", "rope"):
        first: Any = "cos" if kind == "rope" else "sin"
        angles = frequencies(kind, small) * OFFSET
        shift: Any = pair_matrix(angles.cos(), angles.sin(), "interleaved", first, 0)
        assert np.allclose(pictures[LABELS[kind]], shift.to_dense()[:32, :32], atol=1e-7)
        angles = frequencies(kind, small) * (OFFSET + 3)
        both: Any = pair_matrix(angles.cos(), angles.sin(), "interleaved", first, 0)
        assert np.allclose(composed[LABELS[kind]], both.to_dense()[:32, :32], atol=1e-7)
        (own,) = of(maps, kind).to_dict("records")
        error = analysis.verify_map(tensor(by_hand.entries(kind, small)), shift, OFFSET)
        assert own["closed form"] == pytest.approx(error, rel=1e-6, abs=1e-14)
        assert own["closed form"] < (1e-13 if exact else 2**-7)
        assert own["M_a M_b against M_(a+b)"] < 1e-14
        assert 0.7 < own["closed form, random table"] < 2.1
        assert 0.5 < own["fit per pair, random table"] < 1.5
    (own,) = of(maps, "alibi").to_dict("records")
    if exact:
        assert own["closed form"] < 1e-13
        r = math.exp(-by_hand.slopes_shown(small)[0])
        shift = pictures["ALiBi"]
        assert shift[0, 0] == pytest.approx(r**OFFSET, rel=1e-6)
        assert all(shift[j + OFFSET, j] == 1 for j in range(1, shift.shape[0] - OFFSET))
    else:  # the exponential of a rounded bias is no inner product
        assert np.isnan(own["closed form"])
        assert "ALiBi" not in pictures
    (own,) = of(maps, "learned").to_dict("records")
    few = by_hand.known_positions("learned", small) < OFFSET + 4
    assert ("too few positions" in own["verdict"]) == few
    assert np.isnan(own["closed form"])
    assert np.isnan(of(maps, "none")["closed form"][0])


def composed_maps(page: Page) -> dict[str, np.ndarray]:
    """Return the product of two matrices of every scheme, which a closed drawer holds."""
    drawer: Drawer = block_of(page, Drawer, "composition")
    assert drawer.title == "Two moves in a row: M\u2086M\u2083"
    (row,) = [block for block in drawer.make() if isinstance(block, Matrices)]
    return {panel.title: panel.values.dense() for panel in row.panels}


def check_cards(page: Page, maps: pd.DataFrame, claims: pd.DataFrame) -> None:
    """Compare the three cards with the tables: a line per scheme, its number and its control."""
    found = [line for text in texts(page) for line in text.split("\n\n")]
    lines = [text for text in found if text.startswith((":green-badge[", ":red-badge[", ":gray"))]
    closed = maps["closed form"].fillna(maps["fitted matrix"])
    controls = maps["closed form, random table"].where(
        maps["closed form"].notna(), maps["fitted matrix, random table"]
    )
    expected = [
        *zip(maps["scheme"], closed, controls, strict=True),
        *claims[["scheme", "spread along diagonals / overall", "random table"]].itertuples(
            index=False
        ),
        *claims[["scheme", "R squared", "R squared of noise"]].itertuples(index=False),
    ]
    for line, (scheme, value, control) in zip(lines, expected, strict=True):
        assert f"] {scheme}" in line
        if pd.isna(value):
            assert line.startswith(":gray-badge[")
        else:
            said, *beside = line.split("; ")
            name, own = said.partition(f"] {scheme}: ")[2].split("\u00a0", 1)
            assert name in ("error", "spread", "R²")
            assert own == number(value).replace(" ", "\u00a0")
            if not pd.isna(control):
                (control_said,) = beside
                of_what, own = control_said.removeprefix("random\u00a0").split("\u00a0", 1)
                assert of_what in ("table", "noise")
                assert own == number(control).replace(" ", "\u00a0")


def test_wide_vectors_are_checked_at_every_third_offset() -> None:
    setting = Setting(schemes=("sinusoidal", "rope"), dim=4096, heads=32, train_length=24)
    page = relative_offsets.page(setting, relative_offsets.Options())
    drawer: Drawer = block_of(page, Drawer, "map_errors_open")
    chart, *captions = drawer.make()
    assert isinstance(chart, Chart)
    assert [text.text for text in captions if isinstance(text, Text)][-1] == (
        "Every third offset for the wide vectors of Sinusoidal."
    )
    for kind, offsets in (("sinusoidal", [1, 8, 64]), ("rope", [1, 2, 4, 8, 16, 32, 64])):
        rows = of(chart.numbers(), kind)
        assert rows["offset"].tolist() == offsets
        assert rows["error"].max() < 1e-12
        assert rows["control"].between(0.7, 2.1).all()  # of two random tables, about the root of 2


def check_lines(claims: pd.DataFrame, small: Small) -> None:
    """Compare spreads along diagonals and fits of a straight line with the kernel's own."""
    for kind in KINDS:
        (line,) = of(claims, kind).to_dict("records")
        spread = line["spread along diagonals / overall"]
        if kind == "none":
            assert np.isnan([spread, line["R squared"]]).all()
        elif kind == "alibi":  # a line of logits; those of the kernel are exponentials
            slope = -np.mean(by_hand.in_precision(by_hand.slopes_shown(small), small["precision"]))
            assert line["R squared"] == pytest.approx(1, abs=1e-12)
            assert line["slope per position"] == pytest.approx(slope, rel=1e-9)
        else:
            matrix = kernel(kind, small)
            expected, _ = analysis.diagonal_spread(tensor(matrix))
            # Of a stationary scheme nothing but rounding is left, of about the entries' last bit.
            assert spread == pytest.approx(expected, rel=1e-6, abs=1e-12)
            fit: Any = analysis.linear_in_offset(tensor(mean_by_distance(matrix)))
            assert line["R squared"] == pytest.approx(fit.r_squared, abs=1e-9)
            assert line["slope per position"] == pytest.approx(fit.slope, rel=1e-6, abs=1e-12)


# Extrapolation, from the formula ------------------------------------------------------------------


def test_formula_page_says_which_curves_return_into_the_range_and_which_only_fade() -> None:
    setting = Setting(schemes=("sinusoidal", "rope", "alibi"))
    shown = extrapolation.page(setting, extrapolation.Options(half="formula", reach="4"))
    curves, trained = numbers(shown, "past"), setting.train_length
    for kind, returns in (("sinusoidal", True), ("rope", True), ("alibi", False)):
        values = of(curves, kind)["cosine"].tolist()
        low, high = min(values[:trained]), max(values[:trained])
        inside = [low <= value <= high for value in values[trained:]]
        assert (inside[0], any(inside)) == (False, returns)
    assert all(later < value for value, later in itertools.pairwise(values))  # of ALiBi
    group = "Sinusoidal, RoPE and ALiBi first leave the range of similarity seen in training at distance"
    assert f"{group} {trained}." in shown.headline
    (caption,) = [text for text in texts(shown) if "dashed line" in text]
    assert "Sinusoidal and RoPE later return into the range." in caption
    assert "The similarity of ALiBi falls at every distance" in caption


def test_formula_page_reads_schemes_past_the_training_length(small: Small) -> None:
    trained = small["train_length"]
    views = [
        extrapolation.page(
            small_setting(small), extrapolation.Options(half="formula", reach="2", reason=reason)
        )
        for reason in ("similarity", NEAREST, TURNS)
    ]
    keys = "past", "nearest", "turns"
    curves, nearest, turned = (numbers(view, key) for view, key in zip(views, keys, strict=True))
    summary = data(views[2], "Frequencies")
    read = {**small, "length": 2 * trained, "precision": "float32"}
    assert of(curves, "learned").empty
    assert of(nearest, "learned").empty
    rows = 512 if small["learned_source"] == "minilm" else trained
    told = views[0].headline
    assert told.startswith(f"Past the training length, {trained:,}: ")
    groups = told.removesuffix(".").split(": ", 1)[1].split("; ")
    assert f"Learned ends with its table at {rows:,}" in groups
    for kind in KINDS[1:]:
        cosine = tensor(cosines(kernel(kind, read)))
        values = cosine[:, 0].clone()
        assert np.allclose(of(curves, kind)["cosine"], values, atol=1e-12)
        first = analysis.kernel_past(torch.cat([values.flip(0), values[1:]]), trained).first_outside
        (own,) = [group for group in groups if LABELS[kind] in group]
        end = " within the range of similarity seen in training"
        if first is not None:
            end = f" the range of similarity seen in training at distance {first}"
        assert own.endswith(end)
        assert ("stay" in own, "leave" in own) == (first is None, first is not None)
        expected = analysis.nearest_trained_distance(trained, kernel=cosine).distance
        assert np.allclose(of(nearest, kind)["distance"], expected, atol=1e-7)
        assert f"{float(expected.max()):.3g} ({LABELS[kind]})" in views[1].headline  # of norm 1
    for kind in ("sinusoidal", "rope"):
        thetas = frequencies(kind, small)
        turns = trained * thetas / (2 * math.pi)
        assert np.allclose(of(turned, kind)["turns"], turns, rtol=1e-12)
        (row,) = of(summary, kind).to_dict("records")
        full, pairs = int((turns >= 1).sum()), len(thetas)
        assert row["pairs with a full turn"] == f"{full} of {pairs}"
        assert f"{full} of {pairs} ({LABELS[kind]})" in views[2].headline
        assert row["critical dimension"] == f"{2 * full} of {2 * pairs}"
        if (negative := analysis.first_negative_offset(thetas, 5_000)) is not None:
            assert row["B(k) first negative at"] == f"{negative:,}"
    assert of(summary, "alibi").empty


@given(st.floats(-15, 14.9), st.booleans())
def test_numbers_for_reading_have_three_digits_and_no_exponent(
    power: float, negative: bool
) -> None:
    value = 10**power * (-1) ** negative
    texts = [significant(value), figure(value), number(value)]
    for text in texts[: 3 if abs(value) >= 1e-3 else 1]:
        back, _ = value_and_unit(text)
        assert "e" not in text
        assert ("\u00d7" in text) == (float(f"{abs(value):.3g}") < 1e-4)
        if abs(value) >= 1_000:  # whole, its thousands apart
            assert re.fullmatch(r"-?\d{1,3}(,\d{3})+", text)
            assert abs(back - value) <= 0.5 + 1e-9 * abs(value)
        else:
            assert abs(back - value) <= 0.0051 * abs(value)
            digits = re.sub(r"\s.*", "", text).replace(".", "").lstrip("-0").replace(",", "")
            assert len(digits) <= 4 if abs(back) == 1_000 else len(digits) <= 3


def test_numbers_at_the_edges_of_their_digits() -> None:
    for value, text in ((999.4, "999"), (999.5, "1,000"), (999.7, "1,000"), (-999.97, "-1,000")):
        assert significant(value) == figure(value) == number(value) == text
    assert [significant(value, 2) for value in (99.6, 523.4, 0.0996)] == ["100", "523", "0.1"]
    assert [significant(value, 4) for value in (9_999.6, 1_234.5, 2e6)] == [
        "10,000", "1,234", "2,000,000",
    ]  # fmt: skip
    assert [number(value, 2) for value in (523.0, 1e-9)] == ["523", "1.0\u00a0×\u00a010⁻⁹"]
    assert as_factor(12_345.6) == "x12,346"
    assert [significant(value) for value in (math.inf, math.nan, 0.0)] == ["inf", "nan", "0"]
    assert significant(9.9996e-5) == "0.0001"
    assert significant(5.9e-8, 2) == "5.9 × 10⁻⁸"
    assert significant(-2.04e15) == "-2.04 × 10¹⁵"
