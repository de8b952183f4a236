"""Check my encoding of one table: its examples, the verdict, the model, the pictures, the data."""

import numpy as np
import pytest
import torch

from dashboard import compare
from dashboard.blocks import Chart, Code, Controls, Data, Matrices, Metric, Page
from dashboard.pages.check_my_encoding import identified
from dashboard.pages.check_my_encoding.examples import EXAMPLES, make
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, TABLE, Options
from dashboard.pages.check_my_encoding.page import page
from dashboard.settings import Setting
from posenc.identification import identify, match_model
from posenc.identification.sentences import alternative_sentences
from posenc.identification.sentences import headline as identity
from posenc.models.presets import MODELS
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.sizes import Sizes
from tests.dashboard.called_pages import blocks, panel_values, read_texts, texts
from tests.dashboard.checked_tables import BFLOAT16, COLUMNS, FOUND, SETTING, hold, numbers
from tests.dashboard.independent_kernels import interleaved, waves
from tests.dashboard.pages import as_read

pytestmark = pytest.mark.usefixtures("no_shape_checks")


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
        assert all(fact in identity(found) for fact in facts), identity(found)
        deviations = {deviation.kind for deviation in found.deviations}
        assert deviations - {"unexplained"} == kinds, name  # what rounding leaves may be that
        assert other in " ".join(alternative_sentences(found))
        assert found.known


def test_first_example_is_a_broken_one() -> None:
    assert next(iter(EXAMPLES)) == Options().table == BFLOAT16
    assert as_read(page(SETTING, Options()).headline).startswith("Example: Wrong by up to ")


def axis_of(shown: Page) -> str:
    (chart,) = [one for one in blocks(shown, Chart) if one.key == "check_columns"]
    (layer,) = chart.spec["layer"]
    title: str = layer["encoding"]["x"]["title"]
    return title


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
    columns = "column (cosines, then sines)"
    assert [axis_of(page(SETTING, Options(table=name))) for name in (BFLOAT16, "starts at 1")] == [
        columns, "column",
    ]  # fmt: skip
    worst = f"In row {row}, column {column % 32} of the "
    assert any(text.startswith(worst) for text in texts(shown))
    assert as_read(shown.headline).startswith(
        f"Example: Wrong by up to {error.max():.3g}, because it is computed with frequencies kept in "
        "bfloat16. Its formula: RoPE, base 10,000"
    )
    assert [metric.value for metric in blocks(shown, Metric)] == [f"{error.max():.3g}"]


def test_page_shows_the_deviations_or_that_the_table_matches() -> None:
    said = [as_read(text) for text in texts(page(SETTING, Options(table=BFLOAT16)))]
    assert any("Computed with frequencies kept in bfloat16" in text for text in said)
    exact = page(SETTING, Options(table="sinusoidal"))
    assert as_read(exact.headline).startswith("Example: Matches a known formula: Sinusoidal")
    found = page(SETTING, Options(table="starts at 1"))
    shifted = as_read(found.headline)
    cos, sin = waves(SETTING.length + 1, SETTING.dim)
    off = f"{max(np.abs(np.diff(part, axis=0)).max() for part in (cos, sin)):.3g}"  # a row apart
    assert shifted.startswith(
        f"Example: Not as published, wrong by up to {off}: row 0 stands for position 1, not for 0. "
    )
    assert shifted.endswith("from position 1.")
    (metric,) = blocks(found, Metric)
    assert (metric.label, metric.value) == ("Largest error against the published table", off)
    published = interleaved(sin[:-1], cos[:-1])
    table = interleaved(sin[1:], cos[1:])
    (drawn,) = panel_values(found, "check_tables").values()
    np.testing.assert_allclose(drawn, table, atol=1e-7)
    difference = panel_values(found, "check_difference")["This table minus the published one"]
    np.testing.assert_allclose(difference, table - published, atol=1e-7)
    errors = numbers(found, COLUMNS)["published table"]
    np.testing.assert_allclose(errors, np.abs(table - published).max(0), atol=1e-7)
    assert any("Matches the formula to float32 rounding." in text for text in texts(exact))
    np.testing.assert_allclose(table @ table.T, published @ published.T, atol=1e-12)
    note = "changes no similarity of two positions"
    assert [any(note in text for text in texts(one)) for one in (found, exact)] == [True, False]


def test_corrected_code_is_there_for_what_is_or_may_be_wrong_alone() -> None:
    for table, count in (
        (BFLOAT16, 1),
        ("starts at 1", 1),
        ("sinusoidal", 0),
        ("random numbers", 0),
        ("exponent m/d", 1),
    ):
        assert len(blocks(page(SETTING, Options(table=table)), Code)) == count, table


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


@pytest.mark.long  # a search that finds nothing takes long
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
        frame = identified.positions_by_row(match)
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


def test_table_and_its_error_are_drawn_and_nothing_is_compared_with_random_numbers() -> None:
    swapped = page(SETTING, Options(table="swapped halves"))
    expected = np.concatenate(waves(48, 64), 1)
    np.testing.assert_allclose(
        panel_values(swapped, "check_tables")["This table"], expected, atol=1e-7
    )
    difference = panel_values(swapped, "check_difference")["This table minus its exact formula"]
    rounding = np.finfo(np.float32).eps / 2  # of numbers of at most 1
    assert 0 < np.abs(difference).max() <= rounding
    shown = page(SETTING, Options(table="random numbers"))
    assert "No known formula" in shown.headline
    assert blocks(shown, Chart) == []
    assert [*panel_values(shown, "check_tables")] == ["This table"]
    assert not [block for block in blocks(shown, Matrices) if block.key == "check_difference"]


def test_chart_of_many_columns_keeps_the_largest_differences() -> None:
    setting = Setting(dim=4096, heads=1, length=64)
    answer = identified.answer(setting, BFLOAT16)
    frame, marks = answer.by_column, identified.drawn_columns(answer.by_column)
    assert len(frame) == 8_192
    assert len(marks) <= 1_024
    # Copied, not computed: equal to the last bit.
    assert marks["y"].max() == frame["exact angles"].max()
    assert (marks["y"].to_numpy() == frame.set_index("x")["exact angles"][marks["x"]]).all()


def test_pinned_setting_is_shown_beside_the_current_one() -> None:
    pin = Setting(dim=32, heads=2, length=40, train_length=32, base=500.0)
    for options, pictures in ((Options(table="tutorial code"), 2), (Options(part=LAYOUTS), 1)):
        b, a = (page(setting, options) for setting in (SETTING, pin))
        shown = compare.pages(b, a, {"A": "A: base 500", "B": "B: base 10,000"}, ["base"])
        assert len(blocks(shown, Matrices)) == 3 * pictures  # of A, of B, and the differences
        for block in blocks(shown, Data) + blocks(shown, Chart):
            assert set(block.frame["setting"]) == {"A", "B"}
        if options.part != LAYOUTS:
            bases = numbers(shown, FOUND).set_index("setting")["base"].to_dict()
            assert bases == {"B": 1e4, "A": 500.0}
