"""Check my encoding: every example, uploads good and hostile, links, pins, its code and its script."""

import csv
import io
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from safetensors import safe_open
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import check, pinned
from dashboard.choices import CheckChoice
from dashboard.scripts.check_my_encoding import script
from posenc import Setting
from posenc.analysis.layouts import inspect_layouts
from posenc.analysis.probes import probe
from posenc.identification import identify
from posenc.identification.examples import EXAMPLES
from posenc.interop import held_numbers
from posenc.interop.sources import RESULTS, named_table
from tests.crafted_files import zipped_pickle
from tests.pages import (
    as_read,
    captions,
    charts,
    drawn,
    headline,
    notices,
    opened,
    rows_of_matrices,
    table,
    visit,
)
from tests.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "check_my_encoding"
FOUND, COLUMNS = "what this table is", "largest difference by column"
LAYOUTS, PROBES = "scores of two layouts", "probes of positions"
SMALL = {"dim": "64", "heads": "2", "length": "48", "train_length": "32"}


def said(at: AppTest) -> list[str]:
    return [as_read(one.value) for one in at.main.markdown]


def waves(
    rows: int, width: int, base: float = 1e4, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines (rows, pairs) by NumPy alone."""
    ladder = np.array([base ** (-2 * m / width) for m in range(width // 2)])
    angles = np.arange(start, start + rows)[:, None] * ladder
    return np.cos(angles), np.sin(angles)


def beside(sin: np.ndarray, cos: np.ndarray) -> np.ndarray:
    return np.stack((sin, cos), -1).reshape(len(sin), -1)


# Examples -----------------------------------------------------------------------------------------

EXPECTED = {
    "sinusoidal": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 0.", ()),
    "tutorial code": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 0, but 1 "
                      "thing departs.", ("exponentials of logarithms",)),
    "starts at 1": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 1.",
                    ("Row 0 stands for position 1, not for 0.",)),
    "exponent m/d": ("Sinusoidal, base 100, sine and cosine side by side, from position 0.",
                     ("base 10,000 with the exponent m/d",)),
    "tensor2tensor": ("all sines, then all cosines, from position 0",
                      ("base 10,000 with the exponent 2m/(d - 2)",)),
    "swapped halves": ("all cosines, then all sines, from position 0, but 1 thing departs.",
                       ("Sines and cosines have changed places",)),
    "RoPE cache": ("RoPE, base 10,000, cosines and sines, halves repeated, from position 0.", ()),
    "RoPE cache in bfloat16": ("RoPE, base 10,000, cosines and sines, halves repeated",
                               ("Made with frequencies kept in bfloat16",)),
    "learned": ("None of these: of the sinusoidal tables and rotary caches tried", ()),
    "random numbers": ("None of these: ", ()),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_told_for_what_it_is(name: str) -> None:
    at = drawn(visit(PAGE, {"table": name}, **opened(FOUND, COLUMNS)))
    sentence, departs = EXPECTED[name]
    assert sentence in as_read(headline(at))
    for words in departs:
        assert any(words in text for text in said(at)), said(at)
    assert notices(at) == []
    assert at.selectbox(key="table").value == name
    known = "None of these" not in sentence
    assert len(charts(at)) == known
    (pictures, _) = rows_of_matrices(at)[0]
    assert [one["title"] for one in pictures["panels"]] == ["This table", "Its formula, exact"][
        : 1 + known
    ]
    found = identify(*EXAMPLES[name].make(Setting()))
    row = table(at, FOUND).iloc[0]
    assert row["residual"] == found.residual
    assert (row["rows"], row["width"]) == (found.rows, found.width)
    if found.guess is not None:
        assert row["base"] == found.guess.base
        shown = table(at, COLUMNS)
        np.testing.assert_array_equal(shown["as found"], found.by_column)
        assert shown["as found"].max() == found.largest
    assert {*EXPECTED} == {*EXAMPLES}


@pytest.mark.parametrize(
    "link",
    [
        {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "base": "2"},
        {"dim": "2", "heads": "1", "length": "2048"},
        {"dim": "512", "heads": "64", "length": "3", "precision": "bfloat16"},
        {"dim": "1024", "heads": "64", "length": "700", "equal_width": "true", "base": "1e12"},
        {"dim": "48", "heads": "3", "learned_source": "random", "train_length": "19"},
        {"dim": "48", "heads": "3", "learned_source": "minilm", "precision": "float16"},
    ],
    ids=["least", "one pair", "64 heads", "large base", "19 rows", "minilm"],
)
def test_odd_settings_break_no_example(link: dict[str, str]) -> None:
    for name in EXAMPLES:
        at = drawn(visit(PAGE, link | {"table": name}))
        assert as_read(headline(at))
        if link.get("precision") == "bfloat16" and "None of" not in headline(at):
            assert any("bfloat16" in text for text in captions(at))


def test_a_table_and_its_formula_are_drawn_as_they_are() -> None:
    at = drawn(visit(PAGE, SMALL | {"table": "swapped halves"}))
    cos, sin = waves(48, 64)
    _, shown = rows_of_matrices(at)[0]
    expected = np.concatenate((cos, sin), 1)
    np.testing.assert_allclose(shown["This table"], expected, atol=1e-7)
    np.testing.assert_allclose(shown["Its formula, exact"], expected, atol=1e-7)


def test_the_difference_from_exact_angles_is_that_of_numpy() -> None:
    at = drawn(visit(PAGE, SMALL | {"table": "RoPE cache in bfloat16"}, **opened(COLUMNS)))
    cos, sin = waves(48, 32)
    made_cos, made_sin = EXAMPLES["RoPE cache in bfloat16"].make(
        Setting(dim=64, heads=2, length=48, train_length=32)
    )
    assert made_sin is not None
    twice = np.concatenate((cos, cos, sin, sin), 1)
    off = np.abs(np.concatenate((made_cos, made_sin), 1) - twice)
    frame = table(at, COLUMNS)
    np.testing.assert_allclose(frame["exact angles"], off.max(0), rtol=1e-9, atol=1e-12)
    assert frame["part"].tolist() == ["cosines"] * 32 + ["sines"] * 32
    row, column = divmod(int(off.argmax()), 64)
    part = "cosines" if column < 32 else "sines"
    worst = f"{off.max():.2g}, in row {row}, column {column % 32} of the {part}."
    assert any(worst in text for text in captions(at)), captions(at)


def test_a_chart_of_very_many_columns_keeps_the_farthest() -> None:
    link = {"dim": "4096", "heads": "1", "length": "64", "table": "RoPE cache in bfloat16"}
    at = drawn(visit(PAGE, link, **opened(COLUMNS)))
    frame, marks = table(at, COLUMNS), charts(at)[0]
    assert len(frame) == 8_192
    assert len(marks) <= 2 * 1_024
    exact = marks[marks["compared"] == "the formula, angles exact"]
    assert exact["y"].max() == pytest.approx(frame["exact angles"].max(), rel=1e-6)
    by_x = frame.set_index("x")["exact angles"]
    np.testing.assert_allclose(exact["y"], by_x[exact["x"]], rtol=1e-6)


# Layouts and probes -------------------------------------------------------------------------------


def test_layouts_are_those_of_the_library_and_their_pictures_show_them() -> None:
    at = drawn(visit(PAGE, SMALL | {"seed": "3"}, **opened(LAYOUTS)))
    found = inspect_layouts(48, 32, seed=3)
    frame = table(at, LAYOUTS)
    uses = [found.mended, *found.mistakes.values()]
    for column, name in {
        "change of scores": "change", "correlation": "correlation", "change of norms": "norm_change",
        "spread at an offset": "offset_spread",
    }.items():  # fmt: skip
        assert frame[column].tolist() == [getattr(use, name) for use in uses]
    _, shown = rows_of_matrices(at)[1]
    assert list(shown) == ["As meant", "Permuted", "Wrong in both", "Wrong in one", "Wrong cache"]
    for scores, use in zip(shown.values(), (found, *uses), strict=True):
        np.testing.assert_allclose(scores, use.alike, atol=1e-6)  # type: ignore[attr-defined]
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


# Uploads ------------------------------------------------------------------------------------------


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def give(content: bytes, name: str = "table.npy", sines: bytes | None = None) -> AppTest:
    at = drawn(visit(PAGE, SMALL, check_upload=True))
    at.main.get("file_uploader")[0].set_value((name, content, "application/octet-stream")).run()
    if sines is not None:
        second = at.main.get("file_uploader")[1]
        second.set_value(("sines.npy", sines, "application/octet-stream")).run()
    return at


def use(at: AppTest) -> AppTest:
    return drawn(at.button(key="check_use").click().run())


def test_an_uploaded_table_is_identified_and_its_link_opens_it() -> None:
    cos, sin = waves(100, 32, 500.0, start=1)
    at = use(give(npy(beside(sin, cos).astype(np.float32)), "mine.npy"))
    text = "Sinusoidal, base 500, sine and cosine side by side, from position 1."
    assert as_read(headline(at)) == text
    assert "From mine.npy." in captions(at)
    name = at.selectbox(key="table").value
    assert name.startswith("array-")
    assert at.main.get("file_uploader")[0].value is None  # the bytes are gone
    other = drawn(visit(PAGE, {"table": name}))
    assert as_read(headline(other)) == text
    assert notices(other) == []
    # The numbers are those of the file, whatever the sidebar says.
    assert as_read(headline(drawn(visit(PAGE, {"table": name, "base": "77", "dim": "8"})))) == text
    again = use(give(npy(beside(sin, cos).astype(np.float32)), "mine.npy"))
    assert again.selectbox(key="table").value == name
    at.selectbox(key="table").set_value("sinusoidal").run()
    assert "base 10,000" in headline(drawn(at))
    assert name in at.selectbox(key="table").options


def test_cosines_and_sines_may_come_in_two_files_in_one_or_complex() -> None:
    cos, sin = waves(64, 16)
    files = {
        "two": give(npy(cos), "cos.npy", npy(sin)),
        "one": give(npy(np.stack((cos, sin)))),
        "complex": give(npy(cos + 1j * sin)),
        "named": give(save({"rope.cos": cos, "rope.sin": sin}), "cache.safetensors"),
    }
    for way, at in files.items():
        assert as_read(headline(use(at))).startswith(
            "RoPE, base 10,000, cosines and sines, one of each for a pair"
        ), way
    assert "From cos.npy and sines.npy." in captions(files["two"])


def test_one_of_several_tensors_is_chosen() -> None:
    cos, sin = waves(64, 16)
    tensors = {
        "head.weight": np.random.default_rng(0).normal(size=(30, 7)),
        "pos.pe": beside(sin, cos),
    }
    at = give(save(tensors), "model.safetensors")
    (box,) = [one for one in at.main.selectbox if one.label == "Several tables"]
    assert box.options == ["pos.pe", "head.weight"]
    box.set_value("head.weight").run()
    assert "None of these" in headline(use(at))


HOSTILE = {
    "pickle": (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
    "empty": (b"", ""),
    "text": (b"no table at all, just some text that somebody saved", ""),
    "objects": (b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '|O', 'fortran_order': False, "
                b"'shape': (2, 2), }".ljust(69) + b"\n" + bytes(32), ""),
    "cut": (npy(np.zeros((9, 4)))[:-8], "bytes"),
    "NaN": (npy(np.full((9, 4), np.nan)), "finite"),
    "integers": (npy(np.zeros((9, 4), int)), "floating-point"),
    "one row": (npy(np.zeros((1, 4))), "2 rows or more"),
    "four axes": (npy(np.zeros((2, 3, 2, 3))), "rows"),
    "no numbers": (npy(np.zeros((0, 4))), ""),
    "too wide": (npy(np.zeros((2, 20_000), np.float32)), "16,384 columns"),
    "a zip": (b"PK\x05\x06" + bytes(18), "a zip archive, not a .npy file or a .safetensors checkpoint."),
    "a bomb": (b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': "
               b"(9999999,9999),}"[:69].ljust(69) + b"\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(name: str) -> None:
    content, words = HOSTILE[name]
    at = give(content, "strange](http://evil.example).npy")
    if not at.error:
        at.button(key="check_use").click().run()
    assert not at.exception
    (box,) = at.error
    text = as_read(box.value)
    assert text.startswith("strange](http://evil.example).npy: "), text
    assert words in text
    assert "\n" not in text
    assert "Traceback" not in text
    assert at.selectbox(key="table").value == "sinusoidal"


def test_sines_of_another_shape_are_refused_and_flat_tables_are_not() -> None:
    cos, sin = waves(64, 16)
    at = give(npy(cos), "cos.npy", npy(sin[:40]))
    (box,) = at.error
    assert "one shape" in as_read(box.value)
    at = give(npy(cos), "cos.npy", zipped_pickle({"a": torch.zeros(2)}))
    assert as_read(at.error[0].value).startswith("cos.npy: The file of sines, sines.npy: ")
    constant = use(give(npy(np.zeros((9, 4)))))
    assert "None of these" in headline(constant)


def test_a_link_to_an_upload_that_is_gone_asks_for_it_and_shows_nothing_instead() -> None:
    at = drawn(visit(PAGE, {"table": "array-0123456789ab"} | SMALL))
    assert at.selectbox(key="table").value == "array-0123456789ab"
    assert notices(at) == [
        "The uploaded table array-0123456789ab is not held by this server; upload its file again. "
        "Nothing is shown in its place."
    ]
    assert as_read(headline(at)) == check.NOTHING
    assert len(charts(at)) == 0
    assert len(rows_of_matrices(at)) == 1  # of the layouts
    at.selectbox(key="table").set_value("starts at 1").run()
    assert "from position 1" in headline(drawn(at))


def test_what_is_held_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.interop.held import Held
    from posenc.interop.number_tables import NumberTable

    def within(most: int, most_bytes: int) -> None:
        own = Held(most, most_bytes, held_numbers._held._size)
        monkeypatch.setattr(held_numbers, "_held", own)

    def hold(value: float, rows: int = 4) -> str:
        return held_numbers.hold_numbers(NumberTable(torch.full((rows, 4), value), None, ""), "x")

    within(3, 10_000)
    names = [hold(float(n)) for n in range(5)]
    assert [held_numbers.are_held(name) for name in names] == [False, False, True, True, True]
    within(3, 200)  # bytes: 128 of eight rows and 64 of four
    names = [hold(float(n)) for n in range(3)]
    last = hold(9.0, 8)
    assert held_numbers.are_held(last)
    assert sum(held_numbers.are_held(name) for name in names) == 1
    monkeypatch.setattr(held_numbers, "MOST_NUMBERS", 16)
    cut = held_numbers.held_numbers(hold(9.0, 8))
    assert cut.table.shape == (4, 4)
    assert cut.notes == ("Only the first 4 of 8 rows are looked at.",)
    assert len({hold(1.0), hold(1.0), hold(2.0)}) == 2


# Pins and scripts ---------------------------------------------------------------------------------


def test_a_pinned_setting_stands_beside_the_other() -> None:
    pin = Setting(dim=32, heads=2, length=40, train_length=32, base=500.0)
    link = SMALL | {"table": "tutorial code", "a": pinned.written(pin)}
    at = drawn(visit(PAGE, link, **opened(FOUND, LAYOUTS, PROBES)))
    assert any("Pinned setting, A: Sinusoidal, base 500," in text for text in captions(at))
    frame = table(at, FOUND).set_index("setting")
    assert frame["base"].to_dict() == {"B": 10_000.0, "A": 500.0}
    assert set(table(at, LAYOUTS)["setting"]) == {"A", "B"}
    assert len(rows_of_matrices(at)) == 6  # two rows of pictures: of B, of A, and the differences
    (shown,) = [one.value for one in at.table]
    assert [*shown] == ["what", "B", "A"]
    assert [*shown[shown["what"] == "Base"].iloc[0]] == ["Base", "10,000", "500"]
    assert next(iter(shown["what"])) == "Scheme"
    assert set(charts(at)[0]["setting"]) == {"A", "B"}


def test_an_upload_beside_a_pin_is_the_same_for_both() -> None:
    cos, sin = waves(50, 16)
    name = use(give(npy(beside(sin, cos)))).selectbox(key="table").value
    at = drawn(visit(PAGE, {"table": name, "a": pinned.written(Setting(base=500.0))}))
    assert "The same of the pinned setting, A: no change." in captions(at)


def test_a_real_model_chosen_elsewhere_changes_nothing_here() -> None:
    chosen = CheckChoice(table="learned")
    small = Setting(dim=64, heads=2, train_length=30, learned_source="random")
    modelled = Setting(
        dim=64, heads=2, train_length=30, learned_source="random", model="bloom-176b", alibi_head=50
    )
    first, second = check.read(small, chosen), check.read(modelled, chosen)
    assert len(first.probes) == 3
    pd.testing.assert_frame_equal(first.probes, second.probes)
    assert first.headline == second.headline
    assert script(small, chosen) == script(modelled, chosen)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(dim=2, heads=1, length=2, train_length=1, base=3.0),
        Setting(dim=640, heads=64, length=70, precision="bfloat16", base=777.5),
    ],
    ids=["default", "least", "64 heads, bfloat16"],
)
@pytest.mark.parametrize("name", ["sinusoidal", "RoPE cache in bfloat16", "learned"])
def test_the_script_prints_the_table_of_numbers(setting: Setting, name: str) -> None:
    chosen = CheckChoice(table=name)
    found = check.read(setting, chosen)
    assert found.answer is not None
    ran = run(script(setting, chosen))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith(found.headline)
    compare(ran.stdout, found.answer.found)
    assert next(csv.reader(io.StringIO(ran.stdout))) == list(found.answer.found)


def compare(printed: str, frame: pd.DataFrame) -> None:
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == len(frame)
    for n, row in enumerate(rows):
        for name, text in row.items():
            value = frame[name].iloc[n]
            if text == "":
                assert value is None or (isinstance(value, float) and math.isnan(value)), name
            elif isinstance(value, str):
                assert text == value
            else:
                assert float(text) == float(value), name


def _uploads() -> dict[str, tuple[str, bytes, bytes | None]]:
    cos, sin = waves(50, 16, 123.0)
    several = save({"a.pe": beside(sin, cos), "b.weight": cos @ sin.T})
    return {
        "one file of both": ("cache.npy", npy(np.stack((cos, sin))), None),
        "two files": ("it's cos.npy", npy(cos), npy(sin)),
        "one of several tensors": ("model.safetensors", several, None),
        "random numbers": ("r.npy", npy(np.random.default_rng(0).normal(size=(40, 6))), None),
    }


@pytest.mark.parametrize("way", list(_uploads()))
def test_the_script_of_an_upload_reads_its_owner_s_files(way: str, tmp_path: Any) -> None:
    name, content, sines = _uploads()[way]
    at = use(give(content, name, sines))
    chosen = CheckChoice(table=at.selectbox(key="table").value)
    setting = Setting(seed=3)
    found = check.read(setting, chosen)
    assert found.answer is not None
    text = script(setting, chosen)
    assert chosen.table in text
    for file, held in ((name, content), ("sines.npy", sines)):
        if held is not None:
            (tmp_path / file).write_bytes(held)
            assert repr(file) in text
            text = text.replace(repr(file), repr(str(tmp_path / file)))
    ran = run(text)
    assert ran.returncode == 0, ran.stderr
    table, probes = ran.stdout.split("\n\n")
    compare(table, found.answer.found)
    compare(probes, found.told[0].numbers.iloc[[0, 2]])
    gone = script(setting, CheckChoice(table="array-0123456789ab"))
    assert "read_number_table('table.npy')" in gone


def test_an_upload_is_probed_beside_the_learned_table() -> None:
    trained = np.cumsum(np.random.default_rng(1).normal(size=(600, 12)), 0).astype(np.float32)
    at = give(npy(trained), "mine](x).npy")
    at.button(key="check_use").click().run()
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
    short = use(give(npy(trained[:19])))
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


def test_a_reading_is_kept_by_the_content_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from dashboard import check_readings, check_uploads

    asked = []
    monkeypatch.setattr(check_readings, "_kept", type(check_readings._kept)())
    real = check_uploads.read_number_table
    monkeypatch.setattr(
        check_uploads, "read_number_table", lambda *given: asked.append(1) or real(*given)
    )
    rows = np.random.default_rng(2).normal(size=(30, 4))
    at = give(npy(rows))
    assert len(asked) == 1
    at.selectbox(key="table").set_value("random numbers").run()
    use(at)
    give(npy(rows), "another name.npy")
    assert len(asked) == 1
    give(npy(rows + 1))
    assert len(asked) == 2
    broken = give(npy(rows * math.nan))
    assert len(asked) == 3
    broken.run()
    assert len(asked) == 3
    assert "finite" in as_read(broken.error[0].value)
    monkeypatch.setattr(check_readings, "MOST_READINGS", 2)
    give(npy(rows + 2))
    assert len(check_readings._kept) == 2


def test_what_is_left_out_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_numbers, "MOST_NUMBERS", 64)
    rows = np.random.default_rng(0).normal(size=(40, 4))
    rows[20:] = np.nan  # past what is held
    at = give(npy(rows))
    assert not at.error
    assert any("Only the first 16 of 40 rows are looked at." in text for text in captions(at))


@pytest.mark.parametrize("root", ["http://127.0.0.1:85", "https://example.org/tools/posenc"])
def test_the_address_of_a_page_whose_path_ends_in_another_s_is_put_right(root: str) -> None:
    from dashboard.toolbar import address

    assert address(f"{root}/check_my_/{PAGE}", PAGE) == f"{root}/{PAGE}"
    assert address(f"{root}/{PAGE}", PAGE) == f"{root}/{PAGE}"
    assert address(f"{root}/encoding", "encoding") == f"{root}/encoding"
    assert address("", PAGE) == ""


def test_the_name_of_an_upload_is_made_of_all_that_is_shown_of_it() -> None:
    from posenc.interop.number_tables import NumberTable

    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))

    def name(numbers: torch.Tensor = table, source: str = "a.npy", *notes: str, **how: Any) -> str:
        return held_numbers.hold_numbers(NumberTable(numbers, None, "", notes), source, **how)

    assert name() == name(table.clone())
    others = [
        name(table + 1),
        name(table.double()),
        name(table.reshape(4, 6)),
        name(table, "b.npy"),
        name(table, "a.npy", "Noted."),
        name(files=("a.npy",)),
        name(tensor="wpe"),
    ]
    assert len({name(), *others}) == 8


def test_a_visitor_is_never_told_the_name_of_another_s_file() -> None:
    """Equal numbers of two visitors, either first: each reads and takes away a file name of their own."""
    secret, own = "secret-client.npy", "table.npy"
    content = npy(np.random.default_rng(11).normal(size=(24, 6)))
    visitors = [use(give(content, name)) for name in (secret, own)]
    chosen = [at.selectbox(key="table").value for at in visitors]
    for at, name, other in zip(visitors, (secret, own), (own, secret), strict=True):
        drawn(at.run())
        assert f"From {name}." in captions(at)
        shown = [as_read(one.value) for one in [*at.caption, *at.markdown, *at.info, *at.selectbox]]
        assert not any(other in text for text in shown)
        taken = script(
            at.session_state["setting"], CheckChoice(table=at.selectbox(key="table").value)
        )
        assert repr(name) in taken
        assert other not in taken
    assert chosen[0] != chosen[1]
    # What is asked of the same name says nothing of the other either.
    for name, said in zip(chosen, (secret, own), strict=True):
        answer = check.read(Setting(), CheckChoice(table=name)).answer
        assert answer is not None
        assert answer.about[0] == f"From {said}."
