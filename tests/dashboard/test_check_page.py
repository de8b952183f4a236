"""Check my encoding: its examples, probes, layouts and uploads, refused files, links, the script."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import visitor_files
from dashboard.controls import pin as pinned
from dashboard.pages.check_my_encoding import data, uploads
from dashboard.pages.check_my_encoding.examples import EXAMPLES, make
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, CheckChoice
from dashboard.pages.check_my_encoding.script import script
from dashboard.settings import Setting
from posenc.analysis import inspect_layouts, measure, probe
from posenc.checkpoints.array_files import NumberTable
from posenc.checkpoints.sources import RESULTS, named_table
from posenc.frequencies import interleaved_to_half
from posenc.identification import identify, match_model
from posenc.identification.sentences import headline as identified
from posenc.models.presets import MODELS
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.sizes import Sizes
from tests.dashboard import pages
from tests.dashboard.independent_kernels import interleaved, waves
from tests.dashboard.pages import as_read, charts, drawn, headline, opened, table, visit
from tests.dashboard.script_runner import assert_prints, run
from tests.dashboard.shipped_runs import shipped_runs
from tests.library.crafted_files import npy, zipped_pickle

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "check_my_encoding"
SMALL = {"dim": "64", "heads": "2", "length": "48", "train_length": "32"}


def open_uploader(link: dict[str, str] = SMALL) -> AppTest:
    return drawn(visit(PAGE, link))


def upload(at: AppTest, content: bytes, name: str = "table.npy", *, sines: bool = False) -> AppTest:
    """Give a file to the page's uploader, or to the second one for sines."""
    box: Any = at.main.get("file_uploader")[int(sines)]
    box.set_value((name, content, "application/octet-stream")).run()
    return at


# Examples -----------------------------------------------------------------------------------------

FOUND, COLUMNS = "what this table is", "largest difference by column"
SCORES, PROBES = "scores of two layouts", "probes of positions"
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
        assert other in " ".join(found.also)
        assert found.known


def test_rounded_cache_is_compared_with_exact_angles_column_by_column() -> None:
    at = drawn(visit(PAGE, SMALL | {"table": BFLOAT16}, **opened(COLUMNS)))
    sizes = Sizes(dim=64, heads=2, length=48, train_length=32)
    given_cos, given_sin = make(BFLOAT16, sizes)
    assert given_sin is not None
    cos, sin = waves(48, 32)
    exact = np.concatenate((cos, cos, sin, sin), 1)
    error = np.abs(np.concatenate((given_cos, given_sin), 1) - exact)
    frame = table(at, COLUMNS)
    np.testing.assert_allclose(frame["exact angles"], error.max(0), rtol=1e-9, atol=1e-12)
    assert (
        frame["rounded angles"].max() < frame["exact angles"].max()
    )  # bfloat16 frequencies explain it
    row, column = divmod(int(error.argmax()), 64)
    worst = f"{error.max():.3g}, in row {row}, column {column % 32} of the "
    assert any(worst in text.value for text in at.main.markdown)
    assert [box.value for box in at.metric] == [f"{error.max():.3g}"]


def test_page_shows_the_deviations_or_that_the_table_matches() -> None:
    at = drawn(visit(PAGE, SMALL | {"table": BFLOAT16}))
    assert "1 deviation found" in headline(at)
    at = drawn(visit(PAGE, SMALL))
    assert any("Matches the formula to float32 rounding." in box.value for box in at.main.markdown)


def test_page_says_whether_a_cache_belongs_to_the_chosen_model() -> None:
    link = {"table": "RoPE cache", "dim": "128", "heads": "1", "length": "48"}
    for model, words in (("llama-2-7b", "belongs to"), ("llama-3-8b", "does not belong to")):
        texts = [
            as_read(box.value) for box in drawn(visit(PAGE, link | {"model": model})).main.markdown
        ]
        assert any(f"This table {words} the model" in text for text in texts)


def test_table_that_no_formula_makes_is_compared_with_the_chosen_model() -> None:
    """A LongRoPE cache has factors of its own, which no search knows."""
    config = MODELS["phi-3-mini-128k"].read().layer_kinds[0].scheme
    assert isinstance(config, RopeConfig)
    inv_freq, factor = rope_frequencies(config, length=48)
    angles = torch.arange(48, dtype=torch.float64)[:, None] * inv_freq
    cache = torch.cat((factor * angles.cos(), factor * angles.sin()), 1).float()
    for model, belongs in (("phi-3-mini-128k", True), ("llama-2-7b", False)):
        at = open_uploader(SMALL | {"model": model})
        upload(at, npy(cache.numpy()), "mine.npy")
        texts = [as_read(box.value) for box in drawn(at).main.markdown]
        words = "belongs to" if belongs else "does not belong to"
        assert any(f"This table {words} the model" in text for text in texts), texts
        assert ("None of these" in headline(at)) != belongs


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
    at = open_uploader(SMALL | {"model": "llama-2-7b"})
    angles = (torch.arange(64) % 32).double()[:, None] * rope_frequencies(RopeConfig(dim=128))[0]
    upload(at, npy(torch.cat((angles.cos(), angles.sin()), 1).float().numpy()), "mine.npy")
    at = drawn(at)
    assert as_read(headline(at)).startswith("mine.npy: Positions begin again at 0 in row 32")
    assert {"found in the table", "expected"} in [
        set(frame.get("which", ())) for frame in charts(at)
    ]


def test_table_and_its_formula_are_drawn_and_nothing_is_compared_with_random_numbers() -> None:
    at = drawn(visit(PAGE, SMALL | {"table": "swapped halves"}))
    expected = np.concatenate(waves(48, 64), 1)
    _, shown = pages.rows_of_matrices(at)[0]
    np.testing.assert_allclose(shown["This table"], expected, atol=1e-7)
    np.testing.assert_allclose(shown["Its formula, exact"], expected, atol=1e-7)
    at.selectbox(key="table").set_value("random numbers").run()
    assert "None of these" in headline(drawn(at))
    assert charts(at) == []
    assert [*pages.rows_of_matrices(at)[0][1]] == ["This table"]


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
    link = SMALL | {"table": "tutorial code", "a": pinned.to_token(pin)}
    at = drawn(visit(PAGE, link, **opened(FOUND)))
    assert table(at, FOUND).set_index("setting")["base"].to_dict() == {"B": 1e4, "A": 500.0}
    assert set(charts(at)[0]["setting"]) == {"A", "B"}
    assert len(pages.rows_of_matrices(at)) == 3  # of B, of A, and the differences
    at = drawn(visit(PAGE, link | {"part": LAYOUTS}, **opened(SCORES)))
    assert set(table(at, SCORES)["setting"]) == {"A", "B"}
    assert len(pages.rows_of_matrices(at)) == 3


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
    at = drawn(visit(PAGE, SMALL | {"seed": "3", "part": LAYOUTS}, **opened(SCORES)))
    expected = inspect_layouts(48, 32, seed=3)
    uses = [expected.mended, *expected.mistakes.values()]
    frame = table(at, SCORES)
    assert frame["change of scores"].tolist() == pytest.approx([use.change for use in uses])
    assert frame["change of norms"].tolist() == pytest.approx([use.norm_change for use in uses])
    _, shown = pages.rows_of_matrices(at)[0]
    scores = [expected.alike, *(use.alike for use in uses)]
    for drawn_scores, computed in zip(shown.values(), scores, strict=True):
        np.testing.assert_allclose(drawn_scores, computed, atol=1e-6)
    said = f"changes the scores by {expected.mistakes['both'].change:.0%}"
    assert said in as_read(headline(at))
    assert "one pair" in data.layouts(Setting(dim=16, heads=8)).headline


def test_uploaded_queries_and_keys_replace_the_random_ones() -> None:
    vectors = np.random.default_rng(2).normal(size=(2, 30, 16)).astype(np.float32)
    at = drawn(visit(PAGE, SMALL | {"part": LAYOUTS}, **opened(SCORES)))
    drawn(upload(at, npy(vectors), "qk.npy"))
    parts = torch.tensor(vectors[0]), torch.tensor(vectors[1])
    expected = inspect_layouts(30, 16, vectors=parts)
    # By the definition, in NumPy: neighbours are turned together.
    cos, sin = waves(30, 16)
    turned = []
    for part in vectors.astype(float):
        x, y = part[:, 0::2], part[:, 1::2]
        turned.append(interleaved(x * cos - y * sin, x * sin + y * cos))
    np.testing.assert_allclose(expected.scores, turned[0] @ turned[1].T / 4, atol=1e-9)
    changes = [use.change for use in (expected.mended, *expected.mistakes.values())]
    assert table(at, SCORES)["change of scores"].tolist() == pytest.approx(changes)
    upload(at, npy(np.stack(turned).astype(np.float32)), "rotated.npy", sines=True)
    answers = [as_read(info.value) for info in drawn(at).info]
    assert [answer.split(":")[0] for answer in answers] == ["Your queries", "Your keys"]
    assert all("neighbours (feature 2m with 2m + 1)" in answer for answer in answers)
    assert all("RoPE, base 10,000" in answer for answer in answers)
    for wrong in (vectors[0], vectors[:, :, :15], vectors * np.nan, vectors * 0):
        assert len(upload(at, npy(wrong), "qk.npy").error) == 1
        texts = [as_read(text.value) for text in at.main.markdown]
        assert not any("changes the scores by" in text for text in texts)


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


def hold(rows: np.ndarray, source: str) -> str:
    table = NumberTable(torch.tensor(rows), None, "")
    return visitor_files.cache_numbers(visitor_files.UploadedNumbers(table, source))


def test_first_rows_of_an_upload_are_probed_and_20_are_needed() -> None:
    walk = np.cumsum(np.random.default_rng(1).normal(size=(600, 12)), 0).astype(np.float32)
    link = SMALL | {"part": DECODING}
    at = drawn(visit(PAGE, link | {"table": hold(walk, "mine](x).npy")}, **opened(PROBES)))
    frame = table(at, PROBES)
    assert len(frame) == 3
    assert frame["table"][0] == "table: mine](x).npy"
    assert frame["positions"][0] == 512
    assert as_read(headline(at)).startswith("mine](x).npy (first 512 of 600 rows): ")
    (box,) = drawn(visit(PAGE, link | {"table": hold(walk[:19], "short.npy")})).info
    assert "20 finite rows or more" in as_read(box.value)


# Uploads ------------------------------------------------------------------------------------------


def test_uploaded_table_replaces_the_example_and_its_link_opens_it() -> None:
    cos, sin = waves(100, 32, 500.0, start=1)
    at = open_uploader()
    upload(at, npy(np.random.default_rng(0).normal(size=(40, 6))), "noise.npy")
    assert as_read(headline(drawn(at))).startswith(
        "noise.npy: None of these"
    )  # a file is checked at once
    drawn(upload(at, npy(interleaved(sin, cos).astype(np.float32)), "mine.npy"))
    sentence = as_read(headline(at))
    assert sentence.startswith("mine.npy: Sinusoidal, base 500")
    assert "position 1" in sentence
    box: Any = at.main.get("file_uploader")[0]
    assert box.value is None  # the session does not keep the bytes
    name = str(at.selectbox(key="table").value)
    assert name.startswith("array-")
    pin = pinned.to_token(Setting(base=500.0))
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
    assert f": {scheme}, base 123," in sentence
    choice, setting = CheckChoice(table=str(at.selectbox(key="table").value)), Setting(seed=3)
    monkeypatch.chdir(tmp_path)
    result = run(script(setting, choice))
    assert result.returncode == 0, result.stderr
    assert_prints(result.stdout, data.answer(setting, choice.table).numbers)
    if form == "two files":
        probes = data.decoding(setting, choice.table).numbers.iloc[[0, 2]]
        assert_prints(run(script(setting, choice, DECODING)).stdout, probes)
    if form == "several":
        (box,) = [box for box in at.main.selectbox if box.label == "Several tables"]
        assert box.options == ["a.pe", "b.weight"]
        box.set_value("b.weight").run()
        assert "None of these" in headline(drawn(at))


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
    at = drawn(visit(PAGE, {"table": gone} | SMALL))
    (notice,) = pages.notices(at)
    assert f"{gone} is not on this server" in notice
    assert as_read(headline(at)) == data.NO_TABLE
    assert charts(at) == []


def test_one_of_several_tables_is_read_once_and_without_the_rows_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitor_files, "MAX_NUMBERS", 64)
    read = mock.Mock(side_effect=uploads.read_number_table)
    monkeypatch.setattr(uploads, "read_number_table", read)
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    rows[20:] = np.nan  # rows past the first 16 are not looked at
    at = drawn(upload(open_uploader(), save({"a.pe": rows, "b.pe": rows + 1}), "m.safetensors"))
    drawn(at.run())
    assert read.call_count == 1
    assert any("first 16 of 40 rows" in text for text in pages.captions(at))


def test_visitor_never_sees_the_name_of_another_visitor_s_equal_file() -> None:
    names = ("secret-client.npy", "table.npy")
    content = npy(np.random.default_rng(11).normal(size=(24, 6)))
    visitors = [upload(open_uploader(), content, name) for name in names]
    for at, name, other in zip(visitors, names, names[::-1], strict=True):
        drawn(at.run())
        assert as_read(headline(at)).startswith(f"{name}: ")
        boxes = [*at.caption, *at.markdown, *at.info, *at.selectbox]
        code = script(Setting(), CheckChoice(table=str(at.selectbox(key="table").value)))
        assert repr(name) in code
        assert not any(other in text for text in [code, *(as_read(box.value) for box in boxes)])
