"""Links to the dashboard: any address gives a legal setting, told where it was changed."""

import math
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import compute
from dashboard.choices import PAGE_CHOICES
from dashboard.used import PAGES as PAGES_USED
from posenc import Setting, best_device, fields, own_fields
from posenc.schemes import SCHEMES
from tests.pages import (
    DEFAULT,
    KINDS,
    PAGES,
    drawn,
    headline,
    notices,
    setting,
    visit,
)

# A visitor's pages, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


# What each number may be, and what a link without it means.
NUMBERS: dict[str, tuple[float, float, float]] = {
    "dim": (2, 4096, 512),
    "base": (2, 1e12, 10000),
    "length": (2, 2048, 256),
    "train_length": (1, 1_048_576, 128),
    "heads": (1, 64, 8),
    "alibi_head": (0, 64, 0),
    "seed": (0, 2**31 - 1, 0),
    "reference": (0, 2047, 0),
    "pair": (0, 2047, 0),
    "offset": (1, 64, 1),
    "second": (1, 64, 2),
    "run_length": (16, 256, 32),
    "steps": (1, 5_000, 300),
    "width": (8, 256, 64),
    "layers": (1, 6, 2),
    "run_heads": (1, 16, 4),
    "seeds": (1, 5, 1),
    "pattern_head": (0, 64, 1),
    "context": (1, 1_048_576, 131_072),
    "trained": (0, 1_048_576, 0),
}
WORDS = {
    "equal_width": False,
    "learned_source": "trained",
    "precision": "float32",
    "device": "auto",
    "sinusoidal.layout": "interleaved",
    "rope.layout": "interleaved",
    "schemes": ("learned", "sinusoidal", "rope", "alibi"),
    "places": ("fastest", "30%", "60%", "slowest"),
    "start": "1/d",
    "scaled": True,
    "notation": "pos, i",
    "substituted": False,
    "fit": "seen",
    "reach": "4",
    "half": "formula",
    "comparison": "language-64-9df31a1c",
    "task": "language",
    "unit": "loss",
    "sentence": "dog bites man",
    "reorder": "reversed",
    "causal": False,
    "predict": False,
    "question": "first",
    "answer": "none",
    "verdict": "all",
    "theme": "all",
    "model": "",  # which says none
    "methods": ("none", "linear", "ntk", "yarn", "llama3", "base"),
    "table": "sinusoidal",
}
PAGE_OF = {
    "reference": "similarity",
    "predict": "similarity",
    "question": "similarity",
    "answer": "similarity",
    "fit": "pca",
    "reach": "extrapolation",
    "half": "extrapolation",
    "comparison": "extrapolation",
    "task": "train",
    "unit": "extrapolation",
    "verdict": "claims",
    "theme": "claims",
    "table": "check_my_encoding",
}
PAGE_OF |= dict.fromkeys(("sentence", "reorder", "pattern_head", "causal"), "why_position")
PAGE_OF |= dict.fromkeys(("offset", "second"), "relative_offsets")
PAGE_OF |= dict.fromkeys(
    ("places", "pair", "start", "scaled", "notation", "substituted"), "encoding"
)
PAGE_OF |= dict.fromkeys(("run_length", "steps", "width", "layers", "run_heads", "seeds"), "train")
PAGE_OF |= dict.fromkeys(("context", "trained", "methods"), "context_planner")
SAID = {"1000000000000": 1e12, "0": 0.0, "-5": -5.0, "1.5": 1.5, "1e9": 1e9, "7": 7.0}
NONSENSE = ["nan", "inf", "-inf", "", " ", "0x10", "1_000", "٣", "9" * 5_000, "\x00", "%", "</script>",
            "![](http://evil.example/p.png)", b"\xff\xfe", "1;2", "true,false"]  # fmt: skip


def test_the_lists_of_this_file_name_every_control() -> None:
    owners = [fields.rules(Setting), own_fields.rules(), *map(fields.rules, PAGE_CHOICES)]
    # Those of schemes that came later are theirs to test.
    kinds = {kind for kind in SCHEMES if kind not in KINDS}
    named = {name for owner in owners for name in owner if name.split(".")[0] not in kinds}
    assert named == {*NUMBERS, *WORDS, "rope.partial_rotary_factor"}
    assert tuple(SCHEMES)[: len(KINDS)] == KINDS


def meant(name: str, text: Any) -> float:
    """The legal number nearest to what a link says of one control, the others at their defaults."""
    low, high, default = NUMBERS[name]
    if text not in SAID:
        return default
    value = min(max(SAID[text], low), high)
    if name == "base":
        return value
    if name == "alibi_head" and value > DEFAULT["heads"]:
        return 0  # no such head: the mean
    if name == "heads":
        return 8 if value == 7 else math.ceil(value)  # the width is what gives way
    if name == "dim":
        return {7: 8, 1.5: 2}.get(value, value)
    return math.ceil(value)


def held(at: AppTest, name: str) -> Any:
    """What a control holds now."""
    return at.session_state[name]


@pytest.mark.parametrize("name", [*NUMBERS])
def test_a_number_in_a_link_becomes_the_nearest_legal_one_and_is_told(name: str) -> None:
    for n, text in enumerate(["1000000000000", "0", "-5", "1.5", "7", "nan"]):
        page = PAGE_OF.get(name, PAGES[n % len(PAGES)])
        if name in ("length", "train_length") and page == "relative_offsets":
            page = "pca"  # too few positions there: a test of its own
        at = drawn(visit(page, {name: text}))
        expected = 7 if name == "heads" and text == "7" else meant(name, text)
        assert held(at, name) == expected, (page, text)
        number = SAID.get(text)
        whole = name != "heads" or expected != 7
        if number == expected and whole and not (name == "dim" and expected < 16):
            assert notices(at) == []
        else:
            assert notices(at), (page, text)
            assert all(notice.endswith(".") for notice in notices(at))


@pytest.mark.parametrize("name", [*WORDS])
def test_an_unknown_word_in_a_link_becomes_the_default_and_is_told(name: str) -> None:
    for n, text in enumerate(("", "0", "Shawl")):
        page = PAGE_OF.get(name, PAGES[n % len(PAGES)])
        half = {"half": "measured"} if name in ("comparison", "unit") else {}
        at = drawn(visit(page, half | {name: text}))
        assert held(at, name) == (
            list(WORDS[name]) if isinstance(WORDS[name], tuple) else WORDS[name]
        )
        assert len(notices(at)) == (text != WORDS[name]), (page, text)


@pytest.mark.parametrize("page", PAGES)
def test_a_link_of_nothing_but_nonsense_shows_the_defaults_and_names_every_control(
    page: str,
) -> None:
    for text in NONSENSE[PAGES.index(page) :: len(PAGES)]:
        at = drawn(visit(page, dict.fromkeys([*NUMBERS, *WORDS], text)))
        assert setting(at) == Setting()
        assert len(notices(at)) == len(NUMBERS) + len(WORDS) - (text == WORDS["model"])


@pytest.mark.parametrize("page", PAGES)
def test_a_link_of_numbers_that_do_not_fit_each_other_still_draws(page: str) -> None:
    for text in SAID:
        at = drawn(visit(page, dict.fromkeys([*NUMBERS, "rope.partial_rotary_factor"], text)))
        assert notices(at)
        assert isinstance(setting(at), Setting)  # legal by being one


@pytest.mark.parametrize("page", PAGES)
def test_what_nobody_asked_for_in_a_link_changes_nothing(page: str) -> None:
    plain = headline(drawn(visit(page)))
    for link in (
        {"__proto__": "x", "link_read": "1", "setting": "1", "dense": "true", b"\xff": b"\xfe"},
        {f"key{n}": "1" for n in range(900)} | {"a b": "%zz", "<b>": "</b>"},
        {f"key{n}": "1" for n in range(1_200)} if page == "pca" else {"x": "9" * 600_000},
    ):
        at = drawn(visit(page, link))
        assert notices(at) == []
        assert headline(at) == plain


def test_of_a_number_given_twice_in_a_link_the_last_counts() -> None:
    at = drawn(visit("similarity", {"dim": ["64", "128"]}))
    assert setting(at).dim == held(at, "dim") == 128
    assert notices(at) == []


def test_a_control_that_a_link_changed_without_naming_it_shows_what_is_used() -> None:
    at = drawn(visit("similarity", {"dim": "-7"}))
    assert (setting(at).dim, setting(at).heads) == (2, 1)
    assert held(at, "heads") == 1
    told = notices(at)
    assert len(told) == 2
    assert told[1].endswith("1 head is used for dimension 2 instead of 8.")
    assert notices(at.run()) == []


def test_a_dial_says_the_exact_number_where_it_lies_between_its_stops() -> None:
    at = drawn(visit("similarity", {"dim": "500", "base": "12500", "heads": "2"}))
    labels = [slider.label for slider in at.sidebar.select_slider]
    assert labels == [
        "Model dimension, exactly 500", "Base", "Positions shown", "Training length"
    ]  # fmt: skip


FULL_LINK = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "device": "cpu",
    "sinusoidal.layout": "half", "rope.layout": "half", "rope.partial_rotary_factor": "0.5",
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_link_with_every_number_is_taken_as_it_is(page: str) -> None:
    at = drawn(visit(page, FULL_LINK))
    assert notices(at) == []
    for name, text in FULL_LINK.items():
        value = held(at, name)
        assert str(value).lower() == text or float(text) == value
    assert at.query_params == FULL_LINK


@pytest.mark.parametrize(
    "turned",
    [
        pytest.param({"schemes": ["rope", "none"]}, id="schemes"),
        pytest.param({"learned_source": "minilm"}, id="learned table"),
        pytest.param({"precision": "float16", "equal_width": True, "heads": 4}, id="others"),
    ],
)
def test_the_link_that_a_page_writes_opens_the_same_setting(turned: dict[str, Any]) -> None:
    first = drawn(visit("similarity", {"length": "40"}, **turned))
    again = drawn(visit("similarity", first.query_params))
    assert setting(again) == setting(first)
    assert headline(again) == headline(first)
    assert notices(again) == []


def test_the_text_of_a_setting_is_a_link_to_it() -> None:
    asked = Setting(schemes=("rope", "none"), learned_source="minilm", dim=64, heads=2)
    at = drawn(visit("overview", asked.write()))
    assert setting(at) == asked


def test_switching_every_scheme_off_falls_back_with_a_notice() -> None:
    at = drawn(visit("overview"))
    at.button_group(key="schemes_control").set_value([]).run()
    assert setting(drawn(at)).schemes == ("learned", "sinusoidal", "rope", "alibi")
    assert len(notices(at)) == 1
    assert notices(at)[0].startswith("Schemes must be 1 to 6 of Learned, ")
    at.button_group(key="schemes_control").set_value(["rope"]).run()
    assert setting(drawn(at)).schemes == ("rope",)
    assert notices(at) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_device_that_is_not_here_is_told_and_replaced(page: str) -> None:
    missing = "mps" if best_device().type == "cuda" else "cuda"
    at = drawn(visit(page, {"device": missing}))
    used = best_device().type
    assert notices(at) == [
        f"There is no working {missing} device here: the numbers come from {used}."
    ]
    path = "" if page == "start" else page
    told = [one.value for one in at.sidebar.caption if one.value.startswith("Computed on")]
    assert len(told) == ("device" in PAGES_USED[path].itself)  # said where it is chosen


def test_controls_that_do_not_fit_each_other_are_told_while_they_are_turned() -> None:
    at = drawn(visit("overview", {"heads": "3", "dim": "96"}, more=True))
    assert notices(at) == []
    at.slider(key="heads_control").set_value(5).run()
    assert setting(drawn(at)).dim % 10 == 0
    assert any("twice the heads (10)" in notice for notice in notices(at))


def test_the_slider_and_the_exact_value_set_each_other() -> None:
    at = drawn(visit("overview", exact_values=True))
    at.select_slider(key="base_dial").set_value(500.0).run()
    assert setting(drawn(at)).base == 500
    at.number_input(key="base_control").set_value(12345.0).run()
    assert setting(drawn(at)).base == 12345
    assert at.select_slider(key="base_dial").value == 12500
    at.number_input(key="length_control").set_value(201).run()
    assert setting(drawn(at)).length == 201
    assert at.select_slider(key="length_dial").value == 192
    assert notices(at) == []


def test_no_link_starts_a_dense_fit_and_asking_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = compute.dense_fit
    monkeypatch.setattr(compute, "dense_fit", lambda *a: asked.append(a) or real(*a))
    link = {"dim": "32", "heads": "4", "length": "64", "dense": "true"}
    for page in PAGES:
        drawn(visit(page, link))
    assert asked == []
    at = drawn(visit("relative_offsets", link))
    before = len(at.dataframe)
    at.toggle(key="dense").set_value(True).run()
    assert len(drawn(at).dataframe) == before + 1
    assert len(asked) == 4
