"""Numbers and words of the PCA page, against kernels computed without posenc."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from dashboard import compare
from dashboard.blocks import Block, Cards, Chart, Page, Text
from dashboard.charts import theme
from dashboard.pages.pca import page as pca
from dashboard.pages.pca.charts import HEIGHT, WIDTH, positions
from dashboard.pages.pca.options import FIRST, PLANES, SECOND, VARIANCE
from dashboard.pages.pca.panels import panels
from dashboard.settings import Setting
from dashboard.text import listed
from posenc import analysis
from tests.dashboard import pages
from tests.dashboard.called_pages import blocks, data, numbers, small_setting, texts
from tests.dashboard.independent_kernels import (
    SETTINGS,
    Small,
    kernel,
)
from tests.dashboard.pages import KINDS, LABELS, of

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, float))


def cells_of(shown: Page) -> dict[str, Sequence[Block]]:
    """Return the heading, the caption and the plot of each scheme."""
    (cards,) = [block for block in shown.blocks if isinstance(block, Cards)]
    return dict(cards.drawn)


@pytest.mark.parametrize("small", SETTINGS.values(), ids=SETTINGS)
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
        many = "show most of" if shares[:2].sum() > 0.5 else "less than half|but not"
        before, _, _ = shown.headline.partition(f"{LABELS[kind]} ({shares[:2].sum():.0%})")
        assert re.search(many, before)
        assert before != shown.headline


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
            f"Variance: how far the vectors of {on} positions are spread. {curves} because near positions "
            f"are alike and far ones are not (horseshoe effect). Here {words}"
        )
        assert f"Sinusoidal ({share:.0%})" in shown.headline


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
    plots = blocks(both, Chart)
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
