"""Every page takes the relative schemes by themselves: alone, beside the main four, in odd sizes."""

import importlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from streamlit.testing.v1 import AppTest

from dashboard import notes, results
from dashboard.blocks import Chart, Matrices, Page
from dashboard.pages.extrapolation import page as extrapolation
from dashboard.pages.pca.options import VARIANCE
from dashboard.pages.similarity import page as similarity
from dashboard.settings import Setting
from posenc import SCHEMES, offset_curve
from posenc.checkpoints.sources import RESULTS
from tests.dashboard import pages
from tests.dashboard.called_pages import panel_values, words_of
from tests.dashboard.pages import SCHEME_PAGES, as_read, captions, charts, headline, visit
from tests.dashboard.shipped_runs import CODE, runs_of
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")

MAIN = ("learned", "sinusoidal", "rope", "alibi")
LABELS = [SCHEMES[kind].label for kind in MAIN]
TRAINED = ("shaw", "transformer_xl", "t5", "kerple_log", "kerple_power", "fire", "cope", "ssmax",
           "ssmax_rope", "pope", "fox")  # fmt: skip
RELATIVE = (*TRAINED, "sandwich", "xpos", "rnope", "stick_breaking")
# One of each way through the pages' code: a trained bias, one that follows from content, so that
# pages say why they cannot show it, a rotation whose kernel has no vectors, and a scheme without numbers.
WAYS = ("kerple_log", "cope", "xpos", "ssmax")
BY_CONTENT = ("shaw", "cope", "stick_breaking")
# Their kernel is not symmetric.
WITHOUT_VECTORS = ("t5", "fire", "xpos", "transformer_xl", "ssmax", "ssmax_rope")
WITHOUT_NUMBERS = ("ssmax",)
SMALL = {"dim": "64", "heads": "4", "length": "40", "train_length": "24"}


def whole(at: AppTest) -> AppTest:
    """Assert that a page came out without a fault; one of schemes without numbers has no headline."""
    assert not at.exception
    assert [box.value for box in at.error] == []
    return at


def page_text(at: AppTest) -> str:
    boxes = [as_read(box.value) for box in at.info]
    notes = [panel["subtitle"] or "" for panel in pages.panels(at)]
    notes += [as_read(text.proto.help) for text in (*at.main.header, *at.main.caption)]
    return " ".join([*boxes, *captions(at), *notes, *(as_read(t.value) for t in at.main.markdown)])


# Pages that are functions, by the address of each, with the options at which they show the schemes.
FUNCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "start": ("start", {}), "overview": ("at_a_glance", {}), "similarity": ("similarity", {}),
    "pca": ("pca", {}), "extrapolation": ("extrapolation", {"half": "formula"}),
    "why_position": ("why_order_matters", {}), "relative_offsets": ("relative_offsets", {}),
}  # fmt: skip
VISITED = [page for page in SCHEME_PAGES if page not in FUNCTIONS]


@dataclass(frozen=True)
class Shown:
    """What a page shows: its headline, every text, frames of charts, and matrices by their titles."""

    headline: str
    text: str
    frames: list[pd.DataFrame]
    pictures: list[tuple[str, np.ndarray]]


def shown(page: str, *kinds: str, **more: str) -> Shown:
    """Call or visit a page with these schemes. more: options of one that is called."""
    if page in FUNCTIONS:
        folder, options = FUNCTIONS[page]
        module = importlib.import_module(f"dashboard.pages.{folder}.page")
        setting = Setting(schemes=kinds, dim=64, heads=4, length=40, train_length=24)
        called: Page = module.page(setting, module.Options(**options, **more))
        blocks = called.all_blocks
        return Shown(
            called.headline,
            as_read(" ".join(words_of(called))),
            [block.drawn for block in blocks if isinstance(block, Chart)],
            [
                (panel.title, panel.values.dense())
                for block in blocks
                if isinstance(block, Matrices)
                for panel in block.panels
            ],
        )
    at = whole(visit(page, SMALL | {"schemes": ",".join(kinds)}))
    pictures = [one for _, row in pages.rows_of_matrices(at) for one in row.items()]
    said = headline(at) if at.main.markdown else ""  # none where no scheme has a place
    return Shown(said, page_text(at), charts(at), pictures)


@pytest.mark.parametrize("page", [*VISITED, *FUNCTIONS])
@pytest.mark.parametrize("kind", mostly(RELATIVE, *WAYS))
def test_page_shows_the_scheme_alone_or_says_why_it_cannot(kind: str, page: str) -> None:
    found, label = shown(page, kind), SCHEMES[kind].label
    if page != "why_position":
        if kind in BY_CONTENT:
            assert f"{label} has no fixed" in found.text
            return
        if page == "pca" and kind in WITHOUT_VECTORS:
            assert f"{label}: This kernel is not symmetric" in found.text
            return
    # Relative offsets counts the schemes of a claim in its headline and names the others in its cards.
    assert label in (found.text if page == "relative_offsets" else found.headline)
    if page == "encoding" and kind in WITHOUT_NUMBERS:
        assert found.headline == f"{label} changes queries or keys."
        assert (
            f"{label} adds no numbers, so there is no matrix. {SCHEMES[kind].summary}" in found.text
        )
        return
    assert ("initial parameters, seed 0, untrained" in found.text) == (kind in TRAINED)


# Beside the main four -----------------------------------------------------------------------------


def rows_by_scheme(found: Shown) -> list[pd.DataFrame]:
    """Return the rows of each of the main four in every chart, but for what all lines of it share.

    Charts of trained models are left out: which comparison they draw depends on the schemes.
    """
    shared = ["boundary", "last", "least", "highest", "dot", "label_y"]
    return [
        own.drop(columns=shared, errors="ignore").astype({"scheme": str}).reset_index(drop=True)
        for frame in found.frames
        if "scheme" in frame and "seeds" not in frame
        for label in LABELS
        if len(own := frame[frame["scheme"] == label])
    ]


def matrices_of_main_four(found: Shown) -> list[tuple[str, np.ndarray]]:
    own = (one for one in found.pictures if one[0].split(",")[0] in LABELS)
    return sorted(own, key=lambda one: one[0])


@pytest.mark.parametrize("page", [*VISITED, *FUNCTIONS])
def test_main_four_stay_as_they_are_beside_t5(page: str) -> None:
    # A plot of positions has no column of schemes.
    options = {"plot": VARIANCE} if page == "pca" else {}
    alone, beside = (shown(page, *kinds, **options) for kinds in (MAIN, (*MAIN, "t5")))
    assert SCHEMES["t5"].label in beside.text
    for label in LABELS:
        assert (label in beside.headline) == (label in alone.headline), label
    rows, pictures = rows_by_scheme(alone), matrices_of_main_four(alone)
    assert rows or pictures
    for own, expected in zip(rows_by_scheme(beside), rows, strict=True):
        pd.testing.assert_frame_equal(own, expected, check_dtype=False)
    for own_picture, picture in zip(matrices_of_main_four(beside), pictures, strict=True):
        assert own_picture[0] == picture[0]
        assert np.allclose(own_picture[1], picture[1], atol=1e-7, equal_nan=True), picture[0]


@pytest.mark.parametrize("kind", WAYS)
def test_odd_settings_break_no_page(kind: str) -> None:
    sizes = {"dim": 128, "heads": 64, "precision": "float16", "alibi_head": 64, "base": 2}
    for link in (sizes | {"length": 40}, {"dim": 2, "heads": 1, "length": 2, "train_length": 1}):
        for page in ("encoding", "relative_offsets"):
            whole(visit(page, {"schemes": kind} | link))


# Trained parameters -------------------------------------------------------------------------------


def test_page_draws_the_trained_parameters_and_not_a_start() -> None:
    """KERPLE's logarithm by hand: the mean over heads of (1 + r2 k)^(-r1), which is 1 at k = 0."""
    (run,) = [
        run.run_id
        for run in runs_of(CODE)
        if (run.specification.scheme.kind, run.specification.seed) == ("kerple_log", 0)
    ]
    with safe_open(RESULTS / f"{run}.safetensors", "pt") as file:
        logs = (file.get_tensor(f"scheme.log_{name}").double().numpy() for name in ("r1", "r2"))
        r1, r2 = map(np.exp, logs)
    # The sizes as the runs that ship were trained.
    setting = Setting(
        schemes=("kerple_log",), own=(("kerple_log.source", "trained"),), length=20, dim=128, heads=4,
        train_length=64,
    )  # fmt: skip
    called = similarity.page(setting, similarity.Options())
    apart = np.abs(np.arange(20)[:, None] - np.arange(20))[..., None]
    by_hand = ((1 + r2 * apart) ** -r1).mean(-1)
    pictures = panel_values(called, "similarity")
    np.testing.assert_allclose(pictures["KERPLE log"], by_hand, atol=1e-6)
    text = " ".join(words_of(called))
    assert f"trained parameters of run {run[:8]}" in text
    assert "untrained" not in text


def test_parameters_that_do_not_fit_or_are_missing_are_named() -> None:
    kinds = ("alibi", "shaw", "t5")
    trained = Setting(schemes=kinds, own=(("t5.source", "trained"),))
    called = similarity.page(trained, similarity.Options())
    assert "weight 32 x 4 and weight 32 x 8" in called.reasons["t5"]
    assert "ALiBi" in called.headline
    run = 20 * "0"
    gone = Setting(schemes=("alibi", "t5"), own=(("t5.source", f"run-{run}"),), dim=64, heads=4)
    called = similarity.page(gone, similarity.Options())
    assert f"There are no parameters of a run {run} here." in called.reasons["t5"]
    assert "ALiBi" in called.headline


def test_keys_that_a_format_cannot_hold_leave_out_xpos_alone() -> None:
    own = (("xpos.scale_base", 64.0),)
    setting = Setting(
        schemes=("rope", "xpos"), own=own, precision="float16", dim=64, heads=4, length=512
    )
    assert "RoPE" in similarity.page(setting, similarity.Options()).headline
    formulas = extrapolation.Options(half="formula")
    assert "RoPE" in extrapolation.page(setting, formulas).headline
    link = {"schemes": "rope,xpos", "xpos.scale_base": "64", "precision": "float16", "dim": "64"}
    at = whole(visit("encoding", link | {"length": "512", "heads": "4"}))
    assert "RoPE" in as_read(headline(at))


def test_page_names_schemes_whose_similarity_exceeds_one() -> None:
    setting = Setting(length=64)
    found = {kind: results.cosine(results.request(setting, kind)) for kind in ("alibi", "t5")}
    curve = offset_curve(setting.config("t5").build(), 64)
    highest = float((curve / curve[63]).max())
    assert highest > 1
    assert f"T5 bias ({highest:.4g})" in notes.kernels_beyond_one(found)
    assert "ALiBi" not in notes.kernels_beyond_one(found)
