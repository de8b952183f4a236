"""Every page takes the relative schemes by themselves: alone, beside the main four, in odd sizes."""

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from streamlit.testing.v1 import AppTest

from dashboard import notes, results
from dashboard.pages.pca.options import VARIANCE
from dashboard.settings import Setting
from posenc import SCHEMES, offset_curve
from posenc.checkpoints.sources import RESULTS
from tests.dashboard import pages
from tests.dashboard.pages import SCHEME_PAGES, as_read, captions, charts, headline, matrices, visit
from tests.dashboard.shipped_runs import shipped_runs
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")

MAIN = ("learned", "sinusoidal", "rope", "alibi")
LABELS = [SCHEMES[kind].label for kind in MAIN]
TRAINED = ("shaw", "transformer_xl", "t5", "kerple_log", "kerple_power", "fire", "cope")
RELATIVE = (*TRAINED, "sandwich", "xpos")
# One of each way through the pages' code: a trained bias, one that follows from content, so that
# pages say why they cannot show it, and a rotation whose kernel has no vectors.
WAYS = ("kerple_log", "cope", "xpos")
BY_CONTENT = ("shaw", "cope")
WITHOUT_VECTORS = ("t5", "fire", "xpos", "transformer_xl")  # their kernel is not symmetric
SMALL = {"dim": "64", "heads": "4", "length": "40", "train_length": "24"}


def whole(at: AppTest) -> AppTest:
    """Assert that a page came out without a fault; one of schemes without numbers has no headline."""
    assert not at.exception
    assert [box.value for box in at.error] == []
    return at


def page_text(at: AppTest) -> str:
    boxes = [as_read(box.value) for box in at.info]
    notes = [panel["subtitle"] or "" for panel in pages.panels(at)]
    notes += [as_read(text.proto.help) for text in (*at.main.subheader, *at.main.caption)]
    return " ".join([*boxes, *captions(at), *notes, *(as_read(t.value) for t in at.main.markdown)])


@pytest.mark.parametrize("page", [*SCHEME_PAGES, "why_position"])
@pytest.mark.parametrize("kind", mostly(RELATIVE, *WAYS))
def test_page_shows_the_scheme_alone_or_says_why_it_cannot(kind: str, page: str) -> None:
    at = whole(visit(page, SMALL | {"schemes": kind}))
    text, label = page_text(at), SCHEMES[kind].label
    if page != "why_position":
        if kind in BY_CONTENT:
            assert f"{label} has no fixed" in text
            return
        if page == "pca" and kind in WITHOUT_VECTORS:
            assert f"{label}: This kernel is not symmetric" in text
            return
    # Relative offsets counts the schemes of a claim in its headline and names the others in its cards.
    assert label in (text if page == "relative_offsets" else headline(at))
    assert ("initial parameters, seed 0, untrained" in text) == (kind in TRAINED)


# Beside the main four -----------------------------------------------------------------------------


def rows_by_scheme(at: AppTest) -> list[pd.DataFrame]:
    """The rows of each of the main four in every chart, but for what all lines of it share.

    Charts of trained models are left out: which comparison they draw depends on the schemes.
    """
    shared = ["boundary", "last", "least", "highest", "dot", "label_y"]
    return [
        own.drop(columns=shared, errors="ignore").astype({"scheme": str}).reset_index(drop=True)
        for frame in charts(at)
        if "scheme" in frame and "seeds" not in frame
        for label in LABELS
        if len(own := frame[frame["scheme"] == label])
    ]


def matrices_of_main_four(at: AppTest) -> list[tuple[str, np.ndarray]]:
    found = [one for _, row in pages.rows_of_matrices(at) for one in row.items()]
    return sorted((one for one in found if one[0].split(",")[0] in LABELS), key=lambda one: one[0])


@pytest.mark.parametrize("page", [*SCHEME_PAGES, "why_position"])
def test_main_four_stay_as_they_are_beside_t5(page: str) -> None:
    alone, at = (
        whole(visit(page, SMALL | {"schemes": ",".join(kinds), "plot": VARIANCE}))
        for kinds in (MAIN, (*MAIN, "t5"))
    )
    assert SCHEMES["t5"].label in page_text(at)
    for label in LABELS:
        assert (label in headline(at)) == (label in headline(alone)), label
    rows, pictures = rows_by_scheme(alone), matrices_of_main_four(alone)
    assert rows or pictures
    for own, expected in zip(rows_by_scheme(at), rows, strict=True):
        pd.testing.assert_frame_equal(own, expected, check_dtype=False)
    for own_picture, picture in zip(matrices_of_main_four(at), pictures, strict=True):
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
        for run in shipped_runs()
        if (run.specification.scheme.kind, run.specification.seed) == ("kerple_log", 0)
    ]
    with safe_open(RESULTS / f"{run}.safetensors", "pt") as file:
        logs = (file.get_tensor(f"scheme.log_{name}").double().numpy() for name in ("r1", "r2"))
        r1, r2 = map(np.exp, logs)
    link = {"schemes": "kerple_log", "kerple_log.source": "trained", "length": "20"}
    # The sizes as the runs that ship were trained.
    at = whole(visit("similarity", link | {"dim": "128", "heads": "4", "train_length": "64"}))
    _, shown = matrices(at)
    apart = np.abs(np.arange(20)[:, None] - np.arange(20))[..., None]
    by_hand = ((1 + r2 * apart) ** -r1).mean(-1)
    np.testing.assert_allclose(shown["KERPLE log"], by_hand, atol=1e-6)
    assert f"trained parameters of run {run[:8]}" in page_text(at)
    assert "untrained" not in page_text(at)


def test_parameters_that_do_not_fit_or_are_missing_are_named() -> None:
    at = whole(visit("similarity", {"schemes": "alibi,shaw,t5", "t5.source": "trained"}))
    assert "weight 32 x 4 and weight 32 x 8" in page_text(at)
    assert "ALiBi" in headline(at)
    run = 20 * "0"
    at = whole(visit("similarity", SMALL | {"schemes": "alibi,t5", "t5.source": f"run-{run}"}))
    assert f"There are no parameters of a run {run} here." in page_text(at)
    assert "ALiBi" in headline(at)


def test_keys_that_a_format_cannot_hold_leave_out_xpos_alone() -> None:
    link = {"schemes": "rope,xpos", "xpos.scale_base": "64", "precision": "float16", "dim": "64"}
    for page in ("similarity", "encoding", "extrapolation"):
        at = whole(visit(page, link | {"length": "512", "heads": "4"}))
        assert "RoPE" in as_read(headline(at))


def test_page_names_schemes_whose_similarity_exceeds_one() -> None:
    setting = Setting(length=64)
    found = {kind: results.cosine(results.request(setting, kind)) for kind in ("alibi", "t5")}
    curve = offset_curve(setting.config("t5").build(), 64)
    highest = float((curve / curve[63]).max())
    assert highest > 1
    assert f"T5 bias ({highest:.4g})" in notes.kernels_beyond_one(found)
    assert "ALiBi" not in notes.kernels_beyond_one(found)
