"""The Context planner: what it shows is what the library plans, and its script prints the same."""

import base64
import csv
import io
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboard import pinned, planner, planner_charts, planner_table
from dashboard.choices import PlanChoice
from dashboard.scripts.context_planner import script
from posenc import Setting, rope_frequencies
from posenc.interop.models import config_word
from posenc.planner import COLUMNS, METHODS, plan, verdict
from posenc.planner.columns import SEES
from posenc.planner.report import plan_record, ranked
from posenc.presets import MODELS
from tests.pages import as_read, captions, charts, drawn, headline, notices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SHORT = PlanChoice(context=16_384)  # whose base is found at once


def test_the_page_opens_with_the_verdict_of_the_library() -> None:
    at = drawn(visit("context_planner", {"context": "16384"}))
    preset = MODELS["llama-3-8b"]
    expected = plan(preset.read(), 16_384, name=preset.label, methods=SHORT.methods)
    assert as_read(headline(at)) == verdict(expected)
    assert len(at.get("vega_lite_chart")) == 6
    (costs, sees, cache) = (box.value for box in at.dataframe[:3])
    for rows in (costs, sees):
        assert list(rows["method"]) == [one.method.label for one in expected.methods]
    assert set(costs["stale keys from"]) == {"never"}  # none of these looks at the length
    for one, shown in zip(expected.methods, sees["B(k) < 0 at"], strict=True):
        assert shown == ("never" if one.first_negative is None else f"{one.first_negative:,}")
    assert list(cache["GiB"]) == [4.0, 2.0, 2.0, 1.0]
    assert any('"rope_type": "yarn"' in box.value for box in at.code)
    assert any("vllm serve" in box.value for box in at.code)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page(name: str) -> None:
    at = drawn(visit("context_planner", {"model": name, "context": "9000", "methods": "none,ntk"}))
    assert MODELS[name].label in as_read(headline(at))
    assert any(MODELS[name].source in said for said in captions(at))


@pytest.mark.parametrize("context", ["1", "2", "5", "8192", "300000"])
def test_any_target_has_a_page(context: str) -> None:
    drawn(visit("context_planner", {"context": context, "methods": "none,linear"}))


@pytest.mark.parametrize(
    "link",
    [
        {"dim": "2", "heads": "1", "length": "2", "train_length": "1"},
        {"heads": "64", "precision": "bfloat16", "schemes": "none"},
        {"learned_source": "random"},
    ],
)
def test_the_sidebar_changes_nothing(link: dict[str, str]) -> None:
    asked = {"context": "16384", "methods": "none,linear"}
    assert headline(drawn(visit("context_planner", asked | link))) == headline(
        drawn(visit("context_planner", asked))
    )


def test_a_link_starts_no_long_search(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.planner import context_plan

    searched: list[int] = []
    real = context_plan.smallest_base

    def spy(width: int, length: int) -> object:
        searched.append(length)
        return real(width, length)

    monkeypatch.setattr(context_plan, "smallest_base", spy)
    at = drawn(visit("context_planner", {"context": "20000", "methods": "none,base"}))
    assert searched == []
    assert [one for one in captions(at) if "opens at once" in one]
    (said,) = [as_read(one) for one in captions(at) if "turns negative" in as_read(one)]
    assert "turns negative at 18,438; which base satisfies it was not searched." in said
    at = drawn(at.button(key="plan_search").click().run())
    assert searched == [20_000]
    assert not [one for one in captions(at) if "opens at once" in one]


def test_a_long_target_is_scanned_to_a_bound_that_is_told() -> None:
    found = planner.read(Setting(), PlanChoice(context=1_048_576, methods=("none",)))
    assert "up to 65,536 only" in found.partial
    assert found.bound["x"].max() == 65_535
    assert found.kernel["x"].max() == 1_048_575


def test_only_what_is_short_or_known_is_computed_at_once() -> None:
    assert not planner.takes_long(planner.DEFAULT, PlanChoice())
    assert not planner.takes_long(planner.DEFAULT, PlanChoice(context=16_000))
    assert planner.takes_long(planner.DEFAULT, PlanChoice(context=16_385))
    assert not planner.takes_long("mistral-7b-v0.1", PlanChoice())  # no layer sees more than 4,096
    assert not planner.takes_long("bloom-176b", PlanChoice(context=100_000))
    assert planner.takes_long(planner.DEFAULT, PlanChoice(context=1_048_576))


def test_a_trained_length_can_be_told_and_stands_in_the_link() -> None:
    asked = {"model": "qwen2.5-7b", "context": "16384", "methods": "none"}
    at = drawn(visit("context_planner", asked))
    assert (
        as_read(headline(at)) == "Qwen2.5-7B was trained on 32,768 tokens: 16,384 need no scaling."
    )
    assert not any("does not say how long" in one for one in captions(at))
    assert any("32,768 tokens (Qwen team 2024, arXiv 2412.15115" in one for one in captions(at))
    at = drawn(visit("context_planner", asked | {"trained": "4096"}))
    assert as_read(headline(at)).startswith("Qwen2.5-7B from 4,096 to 16,384 is x4")
    assert not any("does not say how long" in one for one in captions(at))
    at.number_input(key="trained").set_value(8_192).run()
    assert as_read(headline(drawn(at))).startswith("Qwen2.5-7B from 8,192 to 16,384 is x2")
    silent = {"model": "llama-3-8b", "context": "8192", "methods": "none"}
    at = drawn(visit("context_planner", silent))
    assert as_read(headline(at)) == (
        "Llama-3-8B is taken as trained on 8,192 tokens: 8,192 need no scaling."
    )
    assert any("does not say how long" in one and "8,192 is" in one for one in captions(at))
    told = drawn(visit("context_planner", {"model": "llama-3.1-8b", "context": "9000"}))
    assert "Its config says that its scaling starts from 8,192 tokens." in captions(told)


def test_every_number_of_the_table_is_the_library_s_on_page_command_line_and_script() -> None:
    """One list of columns: what a page, a terminal and a script say cannot differ."""
    made = planner.made(Setting(), SHORT)
    found = planner.read(Setting(), SHORT)
    assert list(found.methods) == [column.title for column in COLUMNS]
    for part, rows in ranked(made).items():
        assert found.ranked[part].to_dict("records") == rows
    for one, row in zip(made.methods, plan_record(made)["methods"], strict=True):
        assert {column.key: column.of(one) for column in COLUMNS}.items() <= row.items()
    assert list(found.methods["short texts, worst"]) == [one.short.worst for one in made.methods]
    assert list(found.ranked[SEES]["kept"]) == [
        f"{sum(state == 'kept' for state in one.pairs.states)}" for one in made.methods
    ]


def strokes(spec: dict[str, Any]) -> dict[str, tuple[str, list[int]]]:
    """The colour and dash of every method of a chart."""
    encoding = spec["layer"][0]["encoding"]
    colours, dashes = (encoding[name]["scale"] for name in ("color", "strokeDash"))
    assert colours["domain"] == dashes["domain"]
    drawn = zip(colours["domain"], colours["range"], dashes["range"], strict=True)
    return {label: (colour, dash) for label, colour, dash in drawn}


def test_a_method_has_one_stroke_in_every_panel_and_in_the_table() -> None:
    labels = (*planner_charts.NAMES,)
    found = strokes(planner_charts.wavelengths(labels))
    assert found == strokes(planner_charts.ramps(labels)) == strokes(planner_charts.kernels(labels))
    assert len({colour for colour, _ in found.values()}) == len(labels)
    assert len({tuple(dash) for _, dash in found.values()}) == len(labels)
    ladders = strokes(planner_charts.bounds((planner.AS_TRAINED, planner.DEMANDED)))
    assert [*ladders.values()] == [found["Unscaled"], found["Larger base"]]
    for label, (colour, dash) in found.items():
        picture = base64.b64decode(planner_table.stroke(label).partition(",")[2]).decode()
        assert f'stroke="{colour}"' in picture
        told = " ".join(map(str, dash)) if dash[1] else ""
        assert f'stroke-dasharray="{told}"' in picture


def test_a_log_axis_draws_powers_of_ten_alone_and_pairs_end_at_the_last() -> None:
    for spec in (planner_charts.wavelengths(("Unscaled",)), planner_charts.turns()):
        x, y = (spec["layer"][0]["encoding"][name] for name in "xy")
        assert x["scale"]["nice"] is False
        assert y["axis"]["gridOpacity"]["value"] == 0


PINNED = Setting(model="llama-2-7b")


def test_a_pinned_model_stands_beside_the_other_in_headline_tables_and_panels() -> None:
    asked = {"context": "16384", "methods": ["Unscaled", "YaRN", "Larger base"]}
    at = drawn(visit("context_planner", asked | {"a": pinned.written(PINNED)}))
    chosen = PlanChoice(context=16_384, methods=("none", "yarn", "base"))
    now, then = (planner.made(setting, chosen) for setting in (Setting(), PINNED))
    assert as_read(headline(at)) == verdict(now)
    assert any(verdict(then) in as_read(one) for one in captions(at))
    costs, sees = (box.value for box in at.dataframe[:2])
    for one in now.methods:
        label = one.method.label
        rows = sees[sees["method"] == label].set_index("setting")
        other = next(two for two in then.methods if two.method.label == label)
        assert list(rows.index) == ["B", "A", "B - A"]
        assert rows["K at the end"]["B"] == f"{one.kernel[16_383]:.3f}"
        assert rows["K at the end"]["A"] == f"{other.kernel[16_383]:.3f}"
        change = one.kernel[16_383] - other.kernel[16_383]
        assert rows["K at the end"]["B - A"] == (f"{change:+.3f}" if change else "0")
    unscaled = costs[costs["method"] == "Unscaled"].set_index("setting")
    assert unscaled["training"]["B - A"] == ""
    assert unscaled["short texts, mean"]["B - A"] == "0"
    for number, frame in enumerate(charts(at)[:5]):
        assert set(frame["setting"]) == {"A", "B"}, number
    bound = charts(at)[4]
    lowest = bound[(bound["setting"] == "A") & (bound["ladder"] == planner.AS_TRAINED)]["y"].min()
    inv_freq = np.array([1e4 ** (-2 * m / 128) for m in range(64)])
    expected = np.cos(np.arange(16_384)[:, None] * inv_freq).sum(1).min()
    assert lowest == pytest.approx(expected, abs=1e-4)  # a chart is sent in float32


@pytest.mark.parametrize(("now", "then"), [("bloom-176b", "llama-2-7b"), ("", "gpt-2")])
def test_a_pin_without_rope_breaks_nothing(now: str, then: str) -> None:
    link = {"context": "9000", "methods": "none,ntk", "model": now}
    at = drawn(visit("context_planner", link | {"a": pinned.written(Setting(model=then))}))
    (costs, *_) = (box.value for box in at.dataframe)
    assert set(costs["setting"]) == ({"A"} if now else {"B"})


def test_what_changes_nothing_here_is_not_offered() -> None:
    at = drawn(visit("context_planner", {"context": "9000", "methods": "none"}))
    assert [one.key for one in at.sidebar.button] == []
    assert not at.sidebar.caption
    elsewhere = drawn(visit("similarity"))
    assert [one.key for one in elsewhere.sidebar.button] == ["reset"]


def test_a_model_without_rope_is_told_of_once() -> None:
    at = drawn(visit("context_planner", {"model": "bloom-176b", "context": "8192"}))
    said = [*(box.value for box in at.markdown), *captions(at)]
    assert sum("ALiBi needs no scaling" in as_read(one) for one in said) == 1
    assert not any("B(k)" in as_read(one) for one in said)
    assert not at.dataframe[1:]


def test_a_model_that_is_not_there_is_told() -> None:
    at = drawn(visit("context_planner", {"model": "gpt-9", "context": "16384"}))
    assert any("there is no model of the name 'gpt-9'" in notice for notice in notices(at))
    assert as_read(headline(at)).startswith("Llama-3-8B")


def test_keys_to_paste_are_told_where_they_belong() -> None:
    at = drawn(visit("context_planner", {"context": "16384"}))
    said = [as_read(caption.value) for caption in at.caption]
    assert (
        sum(one.startswith("Keys of config.json: In place of all keys of RoPE") for one in said)
        == 1
    )


def test_the_pairs_are_those_of_the_planned_frequencies() -> None:
    found = planner.read(Setting(), SHORT)
    for one in planner.made(Setting(), SHORT).methods:
        rows = found.pairs[found.pairs["method"] == one.method.label]
        inv_freq = rope_frequencies(one.config, length=16_384)[0].numpy()
        np.testing.assert_allclose(rows["wavelength"], 2 * np.pi / inv_freq, rtol=1e-14)
        np.testing.assert_array_equal(rows["inv_freq"], inv_freq)
        expected = [5e5 ** (-pair / 64) for pair in range(64)]
        np.testing.assert_allclose(rows["trained_inv_freq"], expected, rtol=1e-14)
        assert list(rows["pair"]) == [*range(64)]


def test_the_kernel_drawn_is_that_of_the_scheme() -> None:
    import torch

    found = planner.read(Setting(), SHORT)
    for one in planner.made(Setting(), SHORT).methods:
        rows = found.kernel[found.kernel["method"] == one.method.label]
        at = torch.tensor(rows["x"].to_numpy())
        expected = one.config.at_length(16_384).build().offset_kernel(-at)
        np.testing.assert_allclose(rows["y"], expected, atol=1e-12)
        assert rows["x"].iloc[[0, -1]].tolist() == [1, 16_383]


def test_the_lowest_bound_of_the_steps_is_the_lowest_of_all_distances() -> None:
    chosen = replace(SHORT, context=24_000, methods=("none",))
    found = planner.read(Setting(), chosen, every=True).bound
    inv_freq = np.array([5e5 ** (-2 * m / 128) for m in range(64)])
    lowest = min(
        np.cos(np.arange(start, start + 1_000)[:, None] * inv_freq).sum(1).min()
        for start in range(0, 24_000, 1_000)
    )
    trained = found[found["ladder"] == planner.AS_TRAINED]["y"].min()
    demanded = found[found["ladder"] == planner.DEMANDED]["y"].min()
    assert trained == pytest.approx(lowest, abs=1e-9)
    assert trained < 0 <= demanded


def test_bfloat16_is_counted_at_every_power_of_two() -> None:
    found = planner.resolution_frame(131_072).set_index("positions")["numbers"]
    assert (found[256], found[2_048], found[131_072]) == (256, 641, 1_409)


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [
        (Setting(), SHORT),
        (Setting(model="deepseek-v3"), PlanChoice(context=8_192, methods=tuple(METHODS))),
        (Setting(model="gpt-2"), PlanChoice(context=5_000, methods=("none",))),
        (Setting(model="qwen3-8b"), PlanChoice(context=40_000, methods=("none", "yarn"))),
        (Setting(model="qwen3-8b"), PlanChoice(context=9_000, trained=4_096, methods=("yarn",))),
        (
            Setting(model=config_word(dict(MODELS["phi-3-mini-128k"].config or {}))),
            PlanChoice(context=9_000, methods=("none", "yarn")),
        ),
    ],
    ids=lambda one: one.model[:20] if isinstance(one, Setting) else "",
)
def test_the_script_prints_the_table(setting: Setting, chosen: PlanChoice) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", script(setting, chosen)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(csv.DictReader(io.StringIO(ran.stdout)))
    found = planner.read(setting, chosen)
    assert ran.stderr.strip() == found.headline
    assert len(rows) == len(found.methods)
    for row, (_, shown) in zip(rows, found.methods.iterrows(), strict=True):
        for name, text in row.items():
            value = shown[name]
            if name in ("method", "training"):
                assert text == value
            elif text == "":
                assert pd.isna(value)
            else:
                assert float(text) == pytest.approx(float(value), rel=1e-12, abs=1e-15)
