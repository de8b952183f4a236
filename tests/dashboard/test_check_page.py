"""Check my encoding: its examples, probes, layouts and uploads, refused files, links, the script."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import compare, visitor_files
from dashboard.blocks import Button, Chart, Code, Controls, Data, Matrices, Metric, Page, Text
from dashboard.pages.check_my_encoding import data
from dashboard.pages.check_my_encoding.examples import EXAMPLES, make
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, TABLE, Options
from dashboard.pages.check_my_encoding.page import page
from dashboard.pages.check_my_encoding.script import script
from dashboard.settings import Setting
from dashboard.state import to_token
from posenc.analysis import inspect_layouts, measure, probe
from posenc.checkpoints.array_files import NumberTable
from posenc.checkpoints.sources import RESULTS, named_table
from posenc.frequencies import interleaved_to_half
from posenc.identification import identify, match_model
from posenc.identification.sentences import alternative_sentences
from posenc.identification.sentences import headline as identified
from posenc.models.presets import MODELS
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.sizes import Sizes
from tests.dashboard import pages
from tests.dashboard.called_pages import panel_values, texts
from tests.dashboard.independent_kernels import interleaved, waves
from tests.dashboard.pages import as_read, charts, drawn, headline, visit
from tests.dashboard.script_runner import assert_prints, run
from tests.dashboard.shipped_runs import shipped_runs
from tests.library.crafted_files import npy, zipped_pickle

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "check_my_encoding"
SMALL = {"dim": "64", "heads": "2", "length": "48", "train_length": "32"}
SETTING = Setting(dim=64, heads=2, length=48, train_length=32)


def open_uploader(link: dict[str, str] = SMALL) -> AppTest:
    return drawn(visit(PAGE, link))


def numbers(shown: Page, title: str) -> pd.DataFrame:
    """Return the data of a page under a title."""
    (block,) = [b for b in shown.all_blocks if isinstance(b, Data) and b.title == title]
    return block.frame


def blocks(shown: Page, kind: Any) -> list[Any]:
    return [block for block in shown.all_blocks if isinstance(block, kind)]


def read_texts(shown: Page) -> list[str]:
    return [as_read(text) for text in texts(shown)]


def upload(at: AppTest, content: bytes, name: str = "table.npy", *, sines: bool = False) -> AppTest:
    """Give a file to the page's uploader, or to the second one for sines."""
    box: Any = at.main.get("file_uploader")[int(sines)]
    box.set_value((name, content, "application/octet-stream")).run()
    return at


# Examples -----------------------------------------------------------------------------------------

FOUND, COLUMNS = "What this table is", "Differences of every column"
SCORES, PROBES = "Scores of two layouts", "Probes of positions"
BFLOAT16 = "RoPE cache in bfloat16"
# Facts in the headline, kinds of deviations, and a fact among the other readings of the same numbers.
EXPECTED: dict[str, tuple[tuple[str, ...], set[str], str]] = {
    "sinusoidal": (("Sinusoidal", "base 10,000", "side by side", "position 0"), set(), ""),
    "tutorial code": (("Sinusoidal", "base 10,000", "position 0"), {"angles"}, ""),
    "starts at 1": (("Sinusoidal", "base 10,000", "position 1"), {"start"}, ""),
    "exponent m/d": (("Sinusoidal", "base 100,", "position 0"), set(), "exponent m/d"),
    "tensor2tensor": (("Tensor2Tensor", "2m/(d - 2)", "all sines"), set(), "exponent 2m/d"),
    "swapped halves": (("RoPE cache in one tensor",), set(), "sinusoidal table"),
    "RoPE cache": (("RoPE", "base 10,000", "halves repeated", "position 0"), set(), ""),
    BFLOAT16: (("RoPE", "base 10,000", "halves repeated"), {"angles"}, ""),
}


def test_every_example_is_identified() -> None:
    assert {*EXPECTED} | {"learned", "random numbers"} == {*EXAMPLES}  # those match no formula
    for name, (facts, kinds, other) in EXPECTED.items():
        found = identify(*make(name, Sizes(dim=128, heads=2, length=64)))
        assert all(fact in identified(found) for fact in facts), identified(found)
        deviations = {deviation.kind for deviation in found.deviations}
        assert deviations - {"unexplained"} == kinds, name  # what rounding leaves may be that
        assert other in " ".join(alternative_sentences(found))
        assert found.known


def test_first_example_is_a_broken_one() -> None:
    assert next(iter(EXAMPLES)) == Options().table == BFLOAT16
    assert as_read(page(SETTING, Options()).headline).startswith("Wrong by up to ")


def test_rounded_cache_is_compared_with_exact_angles_column_by_column() -> None:
    shown = page(SETTING, Options(table=BFLOAT16))
    sizes = Sizes(dim=64, heads=2, length=48, train_length=32)
    given_cos, given_sin = make(BFLOAT16, sizes)
    assert given_sin is not None
    cos, sin = waves(48, 32)
    exact = np.concatenate((cos, cos, sin, sin), 1)
    error = np.abs(np.concatenate((given_cos, given_sin), 1) - exact)
    frame = numbers(shown, COLUMNS)
    np.testing.assert_allclose(frame["exact angles"], error.max(0), rtol=1e-9, atol=1e-12)
    assert (
        frame["rounded angles"].max() < frame["exact angles"].max()
    )  # bfloat16 frequencies explain it
    row, column = divmod(int(error.argmax()), 64)
    worst = f"In row {row}, column {column % 32} of the "
    assert any(text.startswith(worst) for text in texts(shown))
    assert as_read(shown.headline).startswith(
        f"Wrong by up to {error.max():.3g}, because it is computed with frequencies kept in bfloat16. "
        "What it is: RoPE, base 10,000"
    )
    assert [metric.value for metric in blocks(shown, Metric)] == [f"{error.max():.3g}"]


def test_page_shows_the_deviations_or_that_the_table_matches() -> None:
    assert "1 deviation found" in page(SETTING, Options(table=BFLOAT16)).headline
    exact = page(SETTING, Options(table="sinusoidal"))
    assert as_read(exact.headline).startswith("Matches a known formula. Sinusoidal")
    shifted = as_read(page(SETTING, Options(table="starts at 1")).headline)  # its numbers are right
    assert shifted.startswith("Matches a known formula. Sinusoidal")
    assert shifted.endswith("from position 1; 1 deviation found.")
    assert any("Matches the formula to float32 rounding." in text for text in texts(exact))


def test_page_says_whether_a_cache_belongs_to_the_chosen_model() -> None:
    for model, words in (("llama-2-7b", "belongs to"), ("llama-3-8b", "does not belong to")):
        setting = Setting(dim=128, heads=1, length=48, model=model)
        shown = read_texts(page(setting, Options(table="RoPE cache")))
        assert any(f"This table {words} the model" in text for text in shown)


def test_every_part_that_reads_the_model_offers_one() -> None:
    """A table of an example, or an upload, and the layouts; probes read none."""
    for part in (TABLE, LAYOUTS, DECODING):
        offered = [
            name
            for block in blocks(page(SETTING, Options(part=part)), Controls)
            for name in block.names
        ]
        assert offered.count("model") == (part != DECODING)


def test_table_that_no_formula_makes_is_compared_with_the_chosen_model() -> None:
    """A LongRoPE cache has factors of its own, which no search knows."""
    config = MODELS["phi-3-mini-128k"].read().layer_kinds[0].scheme
    assert isinstance(config, RopeConfig)
    inv_freq, factor = rope_frequencies(config, length=48)
    angles = torch.arange(48, dtype=torch.float64)[:, None] * inv_freq
    cache = torch.cat((factor * angles.cos(), factor * angles.sin()), 1).float()
    for model, belongs in (("phi-3-mini-128k", True), ("llama-2-7b", False)):
        shown = page(SETTING.replace(model=model), Options(table=hold(cache.numpy(), "mine.npy")))
        words = "belongs to" if belongs else "does not belong to"
        assert any(f"This table {words} the model" in text for text in read_texts(shown))
        assert ("No known formula" in shown.headline) != belongs


def test_positions_found_and_expected_are_drawn_by_row() -> None:
    """Of two packed documents where one text is expected, and of no chart where the table belongs."""
    scheme = RopeConfig(dim=64, layout="half")
    for parts, expected in ((2, None), (2, torch.arange(80) % 40), (1, None)):
        places = torch.arange(80) % (80 // parts)
        angles = places.double()[:, None] * rope_frequencies(scheme)[0]
        tables = angles.cos().float(), angles.sin().float()
        match = match_model({"all": scheme}, *tables, positions=expected)
        frame = data.positions_by_row(match)
        assert match.belongs == frame.empty == (parts == 1 or expected is not None)
        if not frame.empty:
            drawn_lines = dict(list(frame.groupby("which")["position"]))
            assert drawn_lines["found in the table"].tolist() == places.tolist()
            assert drawn_lines["expected"].tolist() == [*range(80)]


def test_cause_is_the_headline_where_a_table_is_not_that_of_the_chosen_model() -> None:
    angles = (torch.arange(64) % 32).double()[:, None] * rope_frequencies(RopeConfig(dim=128))[0]
    rows = torch.cat((angles.cos(), angles.sin()), 1).float().numpy()
    shown = page(SETTING.replace(model="llama-2-7b"), Options(table=hold(rows, "mine.npy")))
    assert as_read(shown.headline).startswith("mine.npy: Positions begin again at 0 in row 32")
    drawn_lines = [set(chart.frame.get("which", ())) for chart in blocks(shown, Chart)]
    assert {"found in the table", "expected"} in drawn_lines


def test_table_and_its_formula_are_drawn_and_nothing_is_compared_with_random_numbers() -> None:
    values = panel_values(page(SETTING, Options(table="swapped halves")), "check_tables")
    expected = np.concatenate(waves(48, 64), 1)
    np.testing.assert_allclose(values["This table"], expected, atol=1e-7)
    np.testing.assert_allclose(values["Its formula, exact"], expected, atol=1e-7)
    shown = page(SETTING, Options(table="random numbers"))
    assert "No known formula" in shown.headline
    assert blocks(shown, Chart) == []
    assert [*panel_values(shown, "check_tables")] == ["This table"]


def test_chart_of_many_columns_keeps_the_largest_differences() -> None:
    setting = Setting(dim=4096, heads=1, length=64)
    answer = data.answer(setting, BFLOAT16)
    frame, marks = answer.by_column, data.drawn_columns(answer.by_column)
    assert len(frame) == 8_192
    assert len(marks) <= 1_024
    # Copied, not computed: equal to the last bit.
    assert marks["y"].max() == frame["exact angles"].max()
    assert (marks["y"].to_numpy() == frame.set_index("x")["exact angles"][marks["x"]]).all()


def test_pinned_setting_is_shown_beside_the_current_one() -> None:
    pin = Setting(dim=32, heads=2, length=40, train_length=32, base=500.0)
    for options in (Options(table="tutorial code"), Options(part=LAYOUTS)):
        b, a = (page(setting, options) for setting in (SETTING, pin))
        shown = compare.pages(b, a, {"A": "A: base 500", "B": "B: base 10,000"}, ["base"])
        assert len(blocks(shown, Matrices)) == 3  # of A, of B, and the differences
        for block in blocks(shown, Data) + blocks(shown, Chart):
            assert set(block.frame["setting"]) == {"A", "B"}
        if options.part != LAYOUTS:
            bases = numbers(shown, FOUND).set_index("setting")["base"].to_dict()
            assert bases == {"B": 1e4, "A": 500.0}


# Probes and layouts -------------------------------------------------------------------------------


def test_probes_are_those_of_the_chosen_table() -> None:
    """Of a run that ships, other than the default."""
    (run,) = [
        run.run_id
        for run in shipped_runs()
        if (run.specification.scheme.kind, run.specification.task) == ("learned", "language")
        and (run.specification.train_length, run.specification.seed) == (128, 1)
    ]
    frame = data.decoding(Setting(learned_source=f"run-{run}"), "learned").numbers
    with safe_open(RESULTS / f"{run}.safetensors", "pt") as file:
        rows = file.get_tensor("scheme.weight").double()
    assert rows.shape == (128, 128)
    assert not torch.equal(rows, named_table("trained").table.double())
    found = probe(rows)
    assert frame["index error (MAE)"][0] == pytest.approx(found.index_error.value, rel=1e-6)
    assert frame["index error (MAE)"][2] == pytest.approx(found.index_error.control, rel=1e-6)
    assert frame["order accuracy"][0] == pytest.approx(found.order_accuracy.value, abs=1e-6)
    assert frame["positions"][0] == 128
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
            ("shift-invariance error", expected.translation_invariance_error),
            ("first rise at distance", expected.first_rise),
            ("rank agreement with distance (Kendall tau)", expected.kendall_tau),
        ):
            assert frame[column][n] == pytest.approx(value, rel=1e-6, abs=1e-9), column


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
    assert [code.code for code in blocks(shown, Code)] == [data.conversion(2, 32)]
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


@pytest.mark.parametrize(("heads", "width"), [(1, 2), (3, 8)])
def test_conversion_code_moves_a_weight_to_the_other_layout(heads: int, width: int) -> None:
    weight = torch.randn(heads * width, 5, generator=torch.Generator().manual_seed(0))
    names: dict[str, Any] = {"torch": torch, "weight": weight}
    exec(data.conversion(heads, width), names)
    # Rows are moved there and back, not computed.
    assert torch.equal(names["back"], weight)
    to_half = interleaved_to_half(width)  # proved in tests/library
    expected = weight.view(heads, width, 5)[:, to_half].flatten(0, 1)
    assert torch.equal(names["half"], expected)


def hold(rows: np.ndarray, source: str, sines: np.ndarray | None = None) -> str:
    second = None if sines is None else torch.tensor(sines)
    table = NumberTable(torch.tensor(rows), second, "")
    return visitor_files.cache_numbers(visitor_files.UploadedNumbers(table, source))


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


# Uploads ------------------------------------------------------------------------------------------


def test_uploaded_table_replaces_the_example_and_its_link_opens_it() -> None:
    cos, sin = waves(100, 32, 500.0, start=1)
    at = open_uploader()
    upload(at, npy(np.random.default_rng(0).normal(size=(40, 6))), "noise.npy")
    assert as_read(headline(drawn(at))).startswith(
        "noise.npy: No known formula"
    )  # a file is checked at once
    drawn(upload(at, npy(interleaved(sin, cos).astype(np.float32)), "mine.npy"))
    sentence = as_read(headline(at))
    assert sentence.startswith("mine.npy: Matches a known formula. Sinusoidal, base 500")
    assert "position 1" in sentence
    box: Any = at.main.get("file_uploader")[0]
    assert box.value is None  # the session does not keep the bytes
    name = str(at.selectbox(key="table").value)
    assert name.startswith("array-")
    pin = to_token(Setting(base=500.0))
    other = drawn(visit(PAGE, {"table": name, "base": "77", "dim": "64", "a": pin}))
    # Settings do not change an uploaded table.
    assert as_read(headline(other)) == f"B: model dimension 64, base 77. {sentence}"
    assert pages.notices(other) == []
    at.selectbox(key="table").set_value("sinusoidal").run()
    assert "base 10,000" in headline(drawn(at))
    assert name in at.selectbox(key="table").options


def files(form: str) -> dict[str, bytes]:
    """Cosines and sines in one form, by the names of their files."""
    cos, sin = waves(64, 16, 123.0)
    return {
        "two files": {"it's cos.npy": npy(cos), "sines.npy": npy(sin)},
        "stacked": {"cache.npy": npy(np.stack((cos, sin)))},
        "complex": {"cis.npy": npy(cos + 1j * sin)},
        "named": {"cache.safetensors": save({"rope.cos": cos, "rope.sin": sin})},
        "several": {
            "m.safetensors": save({"b.weight": cos @ sin.T, "a.pe": interleaved(sin, cos)})
        },
    }[form]


@pytest.mark.parametrize("form", ["two files", "stacked", "complex", "named", "several"])
def test_upload_of_every_form_is_identified_and_read_again_by_its_script(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = open_uploader()
    for n, (name, content) in enumerate(files(form).items()):
        upload(at, content, name, sines=bool(n))
        (tmp_path / name).write_bytes(content)
    sentence = as_read(headline(drawn(at)))
    assert sentence.startswith(" and ".join(files(form)))
    scheme = "Sinusoidal" if form == "several" else "RoPE"
    assert f": Matches a known formula. {scheme}, base 123," in sentence
    choice, setting = Options(table=str(at.selectbox(key="table").value)), Setting(seed=3)
    monkeypatch.chdir(tmp_path)
    result = run(script(setting, choice))
    assert result.returncode == 0, result.stderr
    assert_prints(result.stdout, data.answer(setting, choice.table).numbers)
    if form == "two files":
        probes = data.decoding(setting, choice.table).numbers.iloc[[0, 2]]
        decoding = Options(part=DECODING, table=choice.table)
        assert_prints(run(script(setting, decoding)).stdout, probes)
    if form == "several":
        (box,) = [box for box in at.main.selectbox if box.label == "Several tables"]
        assert box.options == ["a.pe", "b.weight"]
        box.set_value("b.weight").run()
        assert "No known formula" in headline(drawn(at))


def test_file_that_holds_no_table_is_refused_until_another_table_is_chosen() -> None:
    name = "strange](http://evil.example).npy"
    at = open_uploader()
    for content, words in (
        (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
        (npy(np.zeros((9, 4)))[:-8], "bytes"),
        (npy(np.full((9, 4), np.nan)), "finite"),
        (npy(np.zeros((2, 20_000), np.float32)), "16,384 columns"),
        (npy(np.zeros((2, 3, 2, 3))), "rows"),
    ):
        upload(at, content, name)
        assert not at.exception
        (box,) = at.error
        text = as_read(box.value)
        assert text.startswith(f"{name}: "), words
        assert words in text
        assert as_read(headline(at)) == f"{name} cannot be checked."
        # The example's answer must not look like the file's.
        assert charts(at) == []
        assert not any("Matches the formula" in box.value for box in at.main.markdown)
    at.selectbox(key="table").set_value("starts at 1").run()
    assert "from position 1" in headline(at)
    cos, sin = waves(64, 16)
    upload(at, npy(cos), "cos.npy")
    for sines, words in (
        (npy(sin[:40]), "one shape"),
        (zipped_pickle({"a": torch.zeros(2)}), "sines.npy: "),
        (npy(np.stack((cos, sin))), "holds two tables"),
    ):
        upload(at, sines, "sines.npy", sines=True)
        assert words in as_read(at.error[0].value)


def test_link_to_a_missing_upload_asks_for_it_and_shows_no_other() -> None:
    gone = "array-0123456789ab"
    shown = page(SETTING, Options(table=gone))
    assert as_read(shown.headline) == data.NO_TABLE
    (notice,) = [text.text for text in blocks(shown, Text) if text.look == "warning"]
    assert f"{gone} is not on this server" in as_read(notice)
    assert blocks(shown, Chart) == []
    at = drawn(visit(PAGE, {"table": gone} | SMALL))
    assert as_read(headline(at)) == data.NO_TABLE
    assert at.selectbox(key="table").value == gone


def test_rows_that_are_not_checked_are_left_out_of_one_of_several_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitor_files, "MAX_NUMBERS", 64)
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    rows[20:] = np.nan  # rows past the first 16 are not looked at
    at = drawn(upload(open_uploader(), save({"a.pe": rows, "b.pe": rows + 1}), "m.safetensors"))
    assert any("first 16 of 40 rows" in text for text in pages.captions(at))


def test_visitor_never_sees_the_name_of_another_visitor_s_equal_file() -> None:
    names = ("secret-client.npy", "table.npy")
    content = npy(np.random.default_rng(11).normal(size=(24, 6)))
    visitors = [upload(open_uploader(), content, name) for name in names]
    for at, name, other in zip(visitors, names, names[::-1], strict=True):
        drawn(at.run())
        assert as_read(headline(at)).startswith(f"{name}: ")
        boxes = [*at.caption, *at.markdown, *at.info, *at.selectbox]
        code = script(Setting(), Options(table=str(at.selectbox(key="table").value)))
        assert repr(name) in code
        assert not any(other in text for text in [code, *(as_read(box.value) for box in boxes)])
