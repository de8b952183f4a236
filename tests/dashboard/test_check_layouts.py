"""Check my encoding: RoPE's two layouts, and how well positions are decoded."""

from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from dashboard.blocks import Button, Code, Text
from dashboard.pages.check_my_encoding import decoding, layouts
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, Options
from dashboard.pages.check_my_encoding.page import page
from dashboard.settings import Setting
from posenc.analysis import inspect_layouts, measure, probe
from posenc.checkpoints.sources import RESULTS, named_table
from posenc.frequencies import interleaved_to_half
from tests.dashboard import pages
from tests.dashboard.called_pages import blocks, panel_values, read_texts
from tests.dashboard.checked_tables import (
    PAGE,
    PROBES,
    SCORES,
    SETTING,
    SMALL,
    hold,
    numbers,
    upload,
)
from tests.dashboard.independent_kernels import interleaved, waves
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.dashboard.shipped_runs import CODE, runs_of
from tests.library.crafted_files import npy

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_page_shows_layouts_of_the_library() -> None:
    shown = page(SETTING.replace(seed=3), Options(part=LAYOUTS))
    expected = inspect_layouts(48, 32, seed=3)
    uses = [expected.mended, *expected.mistakes.values()]
    frame = numbers(shown, SCORES)
    assert frame["change of scores"].tolist() == pytest.approx([use.change for use in uses])
    assert frame["change of norms"].tolist() == pytest.approx([use.norm_change for use in uses])
    scores = [expected.alike, *(use.alike for use in uses)]
    values = panel_values(shown, "check_layouts").values()
    for drawn_scores, computed in zip(values, scores, strict=True):
        np.testing.assert_allclose(drawn_scores, computed, atol=1e-6)
    said = f"changes the scores by {expected.mistakes['both'].change:.0%}"
    assert said in shown.headline
    assert [code.code for code in blocks(shown, Code)] == [layouts.conversion(2, 32)]
    assert "one pair" in page(Setting(dim=16, heads=8), Options(part=LAYOUTS)).headline


def rotated_vectors() -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys of 30 positions, and the same rotated by definition: neighbours together."""
    vectors = np.random.default_rng(2).normal(size=(2, 30, 16)).astype(np.float32)
    cos, sin = waves(30, 16)
    turned = []
    for part in vectors.astype(float):
        x, y = part[:, 0::2], part[:, 1::2]
        turned.append(interleaved(x * cos - y * sin, x * sin + y * cos))
    return vectors, np.stack(turned)


def test_uploaded_queries_and_keys_replace_the_random_ones() -> None:
    vectors, turned = rotated_vectors()
    expected = inspect_layouts(30, 16, vectors=(torch.tensor(vectors[0]), torch.tensor(vectors[1])))
    np.testing.assert_allclose(expected.scores, turned[0] @ turned[1].T / 4, atol=1e-9)
    changes = [use.change for use in (expected.mended, *expected.mistakes.values())]
    kept = [hold(part[0], name, part[1]) for part, name in ((vectors, "qk.npy"), (turned, "r.npy"))]
    shown = page(SETTING, Options(part=LAYOUTS, vectors=kept[0], rotated=kept[1]))
    assert numbers(shown, SCORES)["change of scores"].tolist() == pytest.approx(changes)
    answers = [as_read(text.text) for text in blocks(shown, Text) if text.look == "info"]
    assert [answer.split(":")[0] for answer in answers] == ["Your queries", "Your keys"]
    assert all("neighbours (feature 2m with 2m + 1)" in answer for answer in answers)
    assert all("RoPE, base 10,000" in answer for answer in answers)
    (random,) = blocks(shown, Button)
    assert random.changes == {"vectors": "", "rotated": ""}
    names = [
        hold(wrong[0], "w.npy", wrong[1])
        for wrong in (vectors[:, :, :15], vectors * np.nan, vectors * 0)
    ]
    for name in (*names, hold(vectors[0], "one.npy"), "array-" + "0" * 12):
        refused = page(SETTING, Options(part=LAYOUTS, vectors=name))
        (error,) = [text for text in blocks(refused, Text) if text.look == "error"]
        assert error.text
        assert refused.headline == "Your queries and keys cannot be compared."


def test_queries_and_keys_are_read_once_they_are_given_and_let_go_by_a_button() -> None:
    vectors, turned = rotated_vectors()
    at = drawn(visit(PAGE, SMALL | {"part": LAYOUTS}))
    random = headline(at)
    drawn(upload(at, npy(vectors), "qk.npy"))
    assert headline(at) != random
    assert any("your upload, qk.npy" in text for text in pages.captions(at))
    drawn(upload(at, npy(turned.astype(np.float32)), "rotated.npy", sines=True))
    assert [as_read(info.value).split(":")[0] for info in at.info] == ["Your queries", "Your keys"]
    assert "vectors" not in pages.link_of(at)
    assert headline(drawn(at.button(key="check_random").click().run())) == random
    upload(at, b"no array", "qk.npy")
    assert as_read(headline(at)) == "qk.npy cannot be checked."
    assert as_read(at.error[0].value).startswith("qk.npy: ")


@pytest.mark.parametrize("shape", [(), (16,), (2, 0, 16), (2, 30, 0)])
def test_array_without_queries_and_keys_is_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    at = upload(drawn(visit(PAGE, SMALL | {"part": LAYOUTS})), npy(np.zeros(shape)), "qk.npy")
    assert as_read(headline(at)) == "qk.npy cannot be checked."
    assert as_read(at.error[0].value) == (
        "qk.npy: queries and keys must be an array of 2 x positions x head width, none of them 0."
    )


@pytest.mark.parametrize(("heads", "width"), [(1, 2), (3, 8)])
def test_conversion_code_moves_a_weight_to_the_other_layout(heads: int, width: int) -> None:
    weight = torch.randn(heads * width, 5, generator=torch.Generator().manual_seed(0))
    names: dict[str, Any] = {"torch": torch, "weight": weight}
    exec(layouts.conversion(heads, width), names)
    # Rows are moved there and back, not computed.
    assert torch.equal(names["back"], weight)
    to_half = interleaved_to_half(width)  # proved in tests/library
    expected = weight.view(heads, width, 5)[:, to_half].flatten(0, 1)
    assert torch.equal(names["half"], expected)


def test_probes_are_those_of_the_chosen_table() -> None:
    """Of a run that ships, other than the default."""
    (run,) = [
        run.run_id
        for run in runs_of(CODE)
        if (run.specification.scheme.kind, run.specification.seed) == ("learned", 1)
    ]
    frame = decoding.decoding(Setting(learned_source=f"run-{run}"), "learned").numbers
    with safe_open(RESULTS / f"{run}.safetensors", "pt") as file:
        rows = file.get_tensor("scheme.weight").double()
    assert rows.shape == (64, 128)
    assert not torch.equal(rows, named_table("trained").table.double())
    found = probe(rows)
    assert frame["index error (MAE)"][0] == pytest.approx(found.index_error.value, rel=1e-6)
    assert frame["index error (MAE)"][2] == pytest.approx(found.index_error.control, rel=1e-6)
    assert frame["order accuracy"][0] == pytest.approx(found.order_accuracy.value, abs=1e-6)
    in_percent = decoding.shown(frame)["order accuracy (%)"][0]
    assert in_percent == pytest.approx(100 * found.order_accuracy.value, abs=1e-4)
    assert frame["positions"][0] == 64
    chosen = Setting(learned_source=f"run-{run}"), Options(part=DECODING, table="learned")
    sentence = as_read(page(*chosen).headline)
    assert (
        f"with a mean error of {found.index_error.value:.2g} positions; guessing is wrong"
        in sentence
    )
    assert sentence.endswith(f"a map for random numbers by {found.index_error.control:.3g}.")
    assert (
        frame["index error (MAE)"][1]
        < 0.1
        < frame["index error (MAE)"][0]
        < frame["index error (MAE)"][2]
    )
    cos, sin = waves(*rows.shape)
    for n, vectors in enumerate((rows, torch.tensor(interleaved(sin, cos)))):
        expected = measure(vectors=vectors)
        for column, value in (
            ("spread at equal distance", expected.translation_invariance_error),
            ("first rise at distance", expected.first_rise),
            ("rank agreement with distance (Kendall tau)", expected.kendall_tau),
        ):
            assert frame[column][n] == pytest.approx(value, rel=1e-6, abs=1e-9), column


def test_first_rows_of_an_upload_are_probed_and_20_are_needed() -> None:
    walk = np.cumsum(np.random.default_rng(1).normal(size=(600, 12)), 0).astype(np.float32)
    shown = page(SETTING, Options(part=DECODING, table=hold(walk, "mine](x).npy")))
    frame = numbers(shown, PROBES)
    assert len(frame) == 3
    assert frame["table"][0] == "table: mine](x).npy"
    assert frame["positions"][0] == 512
    assert as_read(shown.headline).startswith("mine](x).npy (first 512 of 600 rows): ")
    short = page(SETTING, Options(part=DECODING, table=hold(walk[:19], "short.npy")))
    assert any("20 finite rows or more" in text for text in read_texts(short))
