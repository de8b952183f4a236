"""Every page takes the relative schemes by themselves: alone, beside the main four, in odd settings."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from streamlit.testing.v1 import AppTest

from dashboard import compute, sentences
from posenc import SCHEMES, Setting
from posenc.interop.sources import RESULTS
from tests.pages import SCHEME_PAGES, as_read, captions, headline, matrices, rows_of_matrices, visit
from tests.test_relative_schemes import RELATIVE, TRAINED

pytestmark = pytest.mark.usefixtures("no_shape_checks")

MAIN = ("learned", "sinusoidal", "rope", "alibi")
PAGES = (*SCHEME_PAGES, "why_position")
PROVENANCE = "initial parameters, seed 0, untrained"
BY_CONTENT = ("shaw", "cope")
WITHOUT_VECTORS = ("t5", "fire", "xpos", "transformer_xl")  # their kernel is not symmetric


def whole(at: AppTest) -> AppTest:
    assert not at.exception
    assert [box.value for box in at.error] == []
    assert len(at.title) == 1
    return at


def said(at: AppTest) -> str:
    boxes = [as_read(box.value) for box in at.info]
    return " ".join([*boxes, *captions(at), *(as_read(one.value) for one in at.main.markdown)])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kind", RELATIVE)
def test_a_page_shows_the_scheme_alone_or_says_why_it_cannot(kind: str, page: str) -> None:
    at, label = whole(visit(page, {"schemes": kind})), SCHEMES[kind].label
    text = said(at)
    assert label in text
    if page == "why_position":
        assert label in headline(at)
    elif kind in BY_CONTENT:
        assert f"{label} has no fixed" in text
        return
    elif page == "pca" and kind in WITHOUT_VECTORS:
        assert f"{label}: This kernel is not symmetric" in text
        return
    else:
        assert label in headline(at)
    if kind in TRAINED:
        panels = [one for header, _ in rows_of_matrices(at) for one in header["panels"]]
        text += " ".join(one["subtitle"] or "" for one in panels)
        named = "an untrained start" if page in ("start", "overview") else PROVENANCE
        assert named in text
        assert "trained on all its rows" not in text


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kind", RELATIVE)
def test_the_main_four_stay_as_they_are_beside_it(kind: str, page: str) -> None:
    at = whole(visit(page, {"schemes": ",".join((*MAIN, kind))}))
    assert SCHEMES["alibi"].label in said(at)
    assert headline(at).endswith(".")


@pytest.mark.parametrize("kind", RELATIVE)
def test_odd_settings_break_no_page(kind: str) -> None:
    links = (
        {"dim": 2, "heads": 1, "length": 2, "train_length": 1},
        {"dim": 128, "heads": 64, "precision": "bfloat16", "alibi_head": 64},
        {"dim": 64, "precision": "float16", "length": 2_048, "base": 2},
    )
    for link in links:
        for page in ("encoding", "similarity", "relative_offsets", "extrapolation"):
            whole(visit(page, {"schemes": kind} | link))


SHIPPED = {"dim": "128", "heads": "4", "train_length": "64"}  # as the runs that ship were trained


def shipped(kind: str) -> tuple[str, dict[str, torch.Tensor]]:
    """The name and the parameters of the run of seed 0 that ships, read by safetensors itself."""
    (found,) = (
        path
        for path in RESULTS.glob("*.safetensors")
        for note in [safe_open(path, "pt").metadata()]
        if note["scheme"] == kind and note["described"].endswith("seed 0")
    )
    with safe_open(found, "pt") as file:
        return found.stem, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("kind", TRAINED)
def test_trained_parameters_are_those_that_ship_and_are_called_trained(kind: str) -> None:
    run, tensors = shipped(kind)
    link = SHIPPED | {"schemes": kind, f"{kind}.source": "trained"}
    pages = ("why_position",) if kind in BY_CONTENT else ("similarity", "start")
    for page in (*pages, *(("encoding",) if kind == "t5" else ())):
        at = whole(visit(page, link))
        config = at.session_state["setting"].config(kind)
        panels = [one for header, _ in rows_of_matrices(at) for one in header["panels"]]
        text = " ".join((headline(at), said(at), *(one["subtitle"] or "" for one in panels)))
        assert f"trained parameters of run {run[:8]}" in text, page
        assert "untrained" not in text, page
        assert "initial" not in text, page
    scheme = config.build()
    assert scheme.trained
    assert {f"scheme.{name}" for name, _ in scheme.named_parameters()} == tensors.keys()
    for name, value in scheme.named_parameters():
        assert torch.equal(value, tensors[f"scheme.{name}"]), name


def test_a_page_draws_the_trained_parameters_and_not_a_start() -> None:
    """KERPLE's logarithm by hand: the mean over heads of (1 + r2 k)^(-r1), which is 1 at k = 0."""
    _, tensors = shipped("kerple_log")
    r1, r2 = (np.exp(tensors[f"scheme.log_{name}"].double().numpy()) for name in ("r1", "r2"))
    link = SHIPPED | {"schemes": "kerple_log", "length": "20"}
    at = whole(visit("similarity", link | {"kerple_log.source": "trained"}))
    _, drawn = matrices(at)
    apart = np.abs(np.arange(20)[:, None] - np.arange(20))[..., None]
    by_hand = ((1 + r2 * apart) ** -r1).mean(-1)
    np.testing.assert_allclose(drawn["KERPLE log"], by_hand, atol=1e-6)
    start = matrices(whole(visit("similarity", link)))[1]["KERPLE log"]
    assert np.abs(start - by_hand).max() > 0.01


def test_trained_parameters_of_other_sizes_are_refused_on_the_page() -> None:
    at = whole(visit("similarity", {"schemes": "alibi,shaw,t5", "t5.source": "trained"}))
    text = said(at)
    assert "do not fit these sizes, their shapes are weight 32 x 4 and weight 32 x 8" in text
    assert "ALiBi" in headline(at)


def test_parameters_that_are_not_there_are_said_to_be_missing() -> None:
    run = "run-" + 20 * "0"
    at = whole(visit("similarity", {"schemes": "alibi,t5", "t5.source": run}))
    assert f"There are no parameters of a run {20 * '0'} here." in said(at)
    assert "ALiBi" in headline(at)


def test_a_bias_above_zero_is_said_to_add() -> None:
    """T5's start is as often above zero as below; seeds 0 and 1 show one of each."""
    told = {
        headline(visit("encoding", {"schemes": "t5", "seed": seed, "alibi_head": head}))
        for seed in (0, 1)
        for head in (1, 2, 3)
    }
    assert any(" adds " in text for text in told)
    assert any(" takes " in text for text in told)
    assert all("an untrained start" in text for text in told)


@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_keys_that_a_format_cannot_hold_leave_out_xpos_alone(page: str) -> None:
    given = {
        "schemes": "rope,xpos",
        "xpos.scale_base": "64",
        "precision": "float16",
        "length": "512",
    }
    at = visit(page, given)
    assert not at.exception
    assert not at.error
    assert "RoPE" in as_read(headline(at))


def test_kernels_that_pass_one_are_named() -> None:
    schemes = ("alibi", "t5", "xpos")
    found = {kind: compute.cosine(compute.query(Setting(length=64), kind)) for kind in schemes}
    curve = Setting().config("t5").build().offset_curve(64)
    highest = float((curve / curve[63]).max())
    assert highest > 1
    assert f"T5 bias ({highest:.4g})" in sentences.past_one(found)
    assert "ALiBi" not in sentences.past_one(found)
    assert sentences.past_one({"alibi": found["alibi"]}) == ""
    at = whole(visit("similarity", {"schemes": "alibi,t5", "length": "64"}))
    assert any("Past 1, where the colours end: T5" in box.value for box in at.main.info)
    at = whole(visit("similarity", {"schemes": "alibi,rope", "length": "64"}))
    assert not any("Past 1" in box.value for box in at.main.info)
