"""The Context planner: what it shows is what the library plans, and its script prints the same."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dashboard import planner
from dashboard.choices import PlanChoice
from dashboard.scripts.context_planner import script
from posenc import Setting, rope_frequencies
from posenc.interop.models import config_word
from posenc.planner import METHODS, plan, verdict
from posenc.presets import MODELS
from tests.pages import as_read, captions, drawn, headline, notices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SHORT = PlanChoice(context=16_384)  # whose base is found at once


def test_the_page_opens_with_the_verdict_of_the_library() -> None:
    at = drawn(visit("context_planner", {"context": "16384"}))
    preset = MODELS["llama-3-8b"]
    expected = plan(preset.read(), 16_384, name=preset.label, methods=SHORT.methods)
    assert as_read(headline(at)) == verdict(expected)
    assert len(at.get("vega_lite_chart")) == 6
    (costs, sees, cache) = (box.value for box in at.dataframe[:3])
    for ranked in (costs, sees):
        assert list(ranked["method"]) == [one.method.label for one in expected.methods]
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
    assert "turns negative at 18,438" in as_read(headline(at))
    assert "was not searched" in as_read(headline(at))
    at = drawn(at.button(key="plan_search").click().run())
    assert searched == [20_000]
    assert not [one for one in captions(at) if "opens at once" in one]


def test_a_long_target_is_scanned_to_a_bound_that_is_told() -> None:
    found = planner.read(Setting(), PlanChoice(context=1_048_576, methods=("none",)))
    assert "up to 65,536 only" in found.partial
    assert found.bound["x"].max() == 65_535
    assert found.kernel["x"].max() == 1_048_575


def test_only_what_the_page_opens_with_is_searched_past_the_bound() -> None:
    assert not planner.takes_long(planner.DEFAULT, PlanChoice())
    assert not planner.takes_long("mistral-7b-v0.1", PlanChoice(context=16_384))
    assert planner.takes_long("mistral-7b-v0.1", PlanChoice())
    assert planner.takes_long(planner.DEFAULT, PlanChoice(context=1_048_576))


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


def test_the_pairs_are_those_of_the_planned_frequencies() -> None:
    found = planner.read(Setting(), SHORT)
    for one in planner.made(Setting(), SHORT).methods:
        rows = found.pairs[found.pairs["method"] == one.method.label]
        inv_freq = rope_frequencies(one.config, length=16_384)[0].numpy()
        np.testing.assert_allclose(rows["wavelength"], 2 * np.pi / inv_freq, rtol=1e-14)
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
