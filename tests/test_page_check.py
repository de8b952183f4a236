"""Check my encoding: every example, its pictures, pins, links and its script."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from dashboard import check, pinned
from dashboard.choices import CheckChoice
from dashboard.scripts.check_my_encoding import script
from posenc import Setting
from posenc.identification import identify
from posenc.identification.examples import EXAMPLES
from tests.check_page import COLUMNS, FOUND, LAYOUTS, PAGE, PROBES, SMALL, compare, said, waves
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


EXPECTED = {
    "sinusoidal": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 0.", ()),
    "tutorial code": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 0, but 1 "
                      "thing departs.", ("exponentials of logarithms",)),
    "starts at 1": ("Sinusoidal, base 10,000, sine and cosine side by side, from position 1.",
                    ("Row 0 stands for position 1, not for 0.",)),
    "exponent m/d": ("Sinusoidal, base 100, sine and cosine side by side, from position 0.",
                     ("base 10,000 with the exponent m/d",)),
    "tensor2tensor": ("Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM), base 10,000 with the "
                      "exponent 2m/(d - 2), all sines, then all cosines, from position 0",
                      ("with the exponent 2m/d of Vaswani et al. 2017",)),
    "swapped halves": ("RoPE cache in one tensor (as in vLLM) or timestep embedding",
                       ("a sinusoidal table whose sines and cosines have changed places",)),
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
    worst = f"{off.max():.3g}, in row {row}, column {column % 32} of the {part}."
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


def test_a_pinned_setting_stands_beside_the_other() -> None:
    pin = Setting(dim=32, heads=2, length=40, train_length=32, base=500.0)
    link = SMALL | {"table": "tutorial code", "a": pinned.written(pin)}
    at = drawn(visit(PAGE, link, **opened(FOUND, LAYOUTS, PROBES)))
    (pinned_headline, *_) = [text for text in captions(at) if text.startswith("Pinned setting, A:")]
    assert "Largest error" in pinned_headline
    assert "Sinusoidal, base 500," in pinned_headline
    frame = table(at, FOUND).set_index("setting")
    assert frame["base"].to_dict() == {"B": 10_000.0, "A": 500.0}
    assert set(table(at, LAYOUTS)["setting"]) == {"A", "B"}
    assert len(rows_of_matrices(at)) == 6  # two rows of pictures: of B, of A, and the differences
    (shown,) = [one.value for one in at.table]
    assert [*shown] == ["what", "B", "A"]
    assert [*shown[shown["what"] == "Base"].iloc[0]] == ["Base", "10,000", "500"]
    assert [*shown["what"][:2]] == ["Largest error, angles exact", "Scheme"]
    assert set(charts(at)[0]["setting"]) == {"A", "B"}


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


@pytest.mark.parametrize("root", ["http://127.0.0.1:85", "https://example.org/tools/posenc"])
def test_the_address_of_a_page_whose_path_ends_in_another_s_is_put_right(root: str) -> None:
    from dashboard.toolbar import address

    assert address(f"{root}/check_my_/{PAGE}", PAGE) == f"{root}/{PAGE}"
    assert address(f"{root}/{PAGE}", PAGE) == f"{root}/{PAGE}"
    assert address(f"{root}/encoding", "encoding") == f"{root}/encoding"
    assert address("", PAGE) == ""
