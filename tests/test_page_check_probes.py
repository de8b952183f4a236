"""Check my encoding: two layouts, and probes of learned tables, as its page shows them."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from safetensors import safe_open

from dashboard import check
from posenc.analysis.layouts import inspect_layouts
from posenc.analysis.probes import probe
from posenc.interop.sources import RESULTS, named_table
from tests.check_page import LAYOUTS, PAGE, PROBES, SMALL, beside, give, npy, said, waves
from tests.pages import as_read, drawn, opened, rows_of_matrices, table, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_layouts_are_those_of_the_library_and_their_pictures_show_them() -> None:
    at = drawn(visit(PAGE, SMALL | {"seed": "3"}, **opened(LAYOUTS)))
    found = inspect_layouts(48, 32, seed=3)
    frame = table(at, LAYOUTS)
    uses = [found.mended, *found.mistakes.values()]
    for column, name in {
        "change of scores": "change", "correlation": "correlation", "change of norms": "norm_change",
        "spread at an offset": "offset_spread",
    }.items():  # fmt: skip
        assert frame[column].tolist() == [getattr(one, name) for one in uses]
    _, shown = rows_of_matrices(at)[1]
    assert list(shown) == ["As meant", "Permuted", "Wrong in both", "Wrong in one", "Wrong cache"]
    for scores, one in zip(shown.values(), (found, *uses), strict=True):
        np.testing.assert_allclose(scores, one.alike, atol=1e-6)  # type: ignore[attr-defined]
    both = found.mistakes["both"]
    sentence = next(text for text in said(at) if "passes tests of norms" in text)
    assert f"changes the scores by {both.change:.0%}" in sentence
    assert f"(change {both.norm_change:.1g})" in sentence
    one_pair = drawn(visit(PAGE, {"dim": "16", "heads": "8"}))
    assert any("has one pair, so its two layouts are the same" in text for text in said(one_pair))


@pytest.mark.parametrize(("heads", "width"), [(1, 2), (3, 8), (8, 64)])
def test_the_code_converts_a_weight(heads: int, width: int) -> None:
    from posenc import apply_rope
    from posenc.tables import rope_tables

    weight = torch.randn(heads * width, 5, dtype=torch.float64)
    names: dict[str, Any] = {"torch": torch, "weight": weight}
    exec(check.conversion(heads, width), names)
    assert torch.equal(names["back"], weight)
    x = torch.randn(7, 5, dtype=torch.float64)
    cos, sin = rope_tables(7, width, dtype=torch.float64)
    scores = []
    for one, layout in ((weight, "interleaved"), (names["half"], "half")):
        q = (x @ one.T).view(7, heads, width).transpose(0, 1)
        turned = apply_rope(q, cos, sin, layout=layout)  # type: ignore[arg-type]
        scores.append(turned @ turned.transpose(1, 2))
    torch.testing.assert_close(scores[0], scores[1])


def properties_by_hand(rows: np.ndarray) -> tuple[float, int | None, float]:
    """Shift-invariance error, first rise and tau of vectors, by NumPy and SciPy alone."""
    count = len(rows)
    kernel = rows @ rows.T
    spread = [np.std(np.diagonal(kernel, k)) for k in range(1, -(-count // 2))]
    whole = np.std(kernel[~np.eye(count, dtype=bool)])
    norms = np.sqrt(np.diagonal(kernel))
    cosines = kernel / norms[:, None] / norms
    along = [np.mean(np.diagonal(cosines, k)) for k in range(count)]
    rises = [k for k in range(1, count) if along[k] > along[k - 1] + 1e-9]
    tau = scipy.stats.kendalltau(along, [-k for k in range(count)]).statistic
    return np.mean(spread) / whole, rises[0] if rises else None, tau


def a_run() -> str:
    """A run that ships and is not the one that is shown without asking: 128 positions, seed 1."""
    for path in RESULTS.glob("*.safetensors"):
        note = safe_open(path, "pt").metadata()
        if note["scheme"] != "learned" or not note["described"].endswith("seed 1"):
            continue
        if "training length 128" in note["described"]:
            return f"run-{path.stem}"
    raise LookupError("no such run ships")


@pytest.mark.parametrize("source", ["trained", "minilm", a_run()])
def test_probes_are_those_of_the_table_in_the_sidebar(source: str) -> None:
    at = drawn(visit(PAGE, {"learned_source": source}, **opened(PROBES)))
    frame = table(at, PROBES)
    found = probe(named_table(source).table.double())
    assert frame["index off by"][0] == found.index_error.value
    assert frame["index off by"][2] == found.index_error.control
    assert frame["order told"].tolist()[::2] == [found.order.value, found.order.control]
    assert frame["shift-invariance error"][0] == found.properties.translation_invariance_error
    assert frame["index off by"][1] < 0.1 < frame["index off by"][0] < frame["index off by"][2]
    assert set(frame["positions"]) == {found.positions}
    (sentence,) = [text for text in said(at) if "a linear map reads its index" in text]
    assert f"to within {found.index_error.value:.2g} positions" in sentence
    rows = named_table(source).table.double().numpy()
    if source.startswith("run-"):
        with safe_open(RESULTS / f"{source.removeprefix('run-')}.safetensors", "pt") as file:
            np.testing.assert_array_equal(rows, file.get_tensor("scheme.weight").double().numpy())
        assert rows.shape == (128, 128)
        assert not np.array_equal(rows, named_table("trained").table.double().numpy())
    cos, sin = waves(*rows.shape)
    for n, of in enumerate((rows, beside(sin, cos))):
        error, rise, tau = properties_by_hand(of)
        assert math.isclose(frame["shift-invariance error"][n], error, rel_tol=1e-6, abs_tol=1e-9)
        assert frame["first rise at distance"][n] == rise
        assert math.isclose(frame["order kept by similarity (tau)"][n], tau, abs_tol=1e-9)
    control = found.control_properties
    assert frame["first rise at distance"][2] == control.first_rise
    assert frame["order kept by similarity (tau)"][2] == control.kendall_tau
    assert frame["shift-invariance error"][2] == control.translation_invariance_error


def test_too_few_rows_are_told() -> None:
    at = drawn(visit(PAGE, {"learned_source": "random", "train_length": "19"}))
    assert any("20 finite rows or more" in as_read(one.value) for one in at.info)


def test_an_upload_is_probed_beside_the_learned_table() -> None:
    trained = np.cumsum(np.random.default_rng(1).normal(size=(600, 12)), 0).astype(np.float32)
    at = give(npy(trained), "mine](x).npy")
    at = drawn(visit(PAGE, SMALL | {"table": at.selectbox(key="table").value}, **opened(PROBES)))
    frame = table(at, PROBES)
    found = probe(torch.tensor(trained[:512]).double())
    assert frame["table"].tolist()[:3] == [
        "table in mine](x).npy", "sinusoidal, 512 x 12", "random numbers, 512 x 12",
    ]  # fmt: skip
    assert len(frame) == 6
    assert frame["index off by"].tolist()[:3:2] == [
        found.index_error.value, found.index_error.control,
    ]  # fmt: skip
    assert frame["order told"].tolist()[:3:2] == [found.order.value, found.order.control]
    first, second = frame.iloc[0], found.properties
    assert first["shift-invariance error"] == second.translation_invariance_error
    assert first["order kept by similarity (tau)"] == second.kendall_tau
    sentence = next(text for text in said(at) if "a linear map reads its index" in text)
    assert sentence.startswith(
        "From a vector of the table in mine](x).npy (first 512 of 600 rows) "
    )
    assert any(
        sentence == text for text in at.session_state["sheet"].sentences
    )  # as people read it
    short = drawn(give(npy(trained[:19])))
    assert any("20 finite rows or more" in as_read(one.value) for one in short.info)


def test_wide_tables_are_probed_in_as_many_rows_as_a_page_may() -> None:
    from posenc.limits import probed_rows

    assert [probed_rows(width) for width in (2, 768, 2_048, 4_096, 32_768)] == [
        512,
        512,
        512,
        256,
        32,
    ]
