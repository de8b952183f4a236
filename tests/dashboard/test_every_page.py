"""Every page at several settings: it draws, its charts, numbers, downloads and words fit together."""

import ast
import functools
import importlib
import inspect
import itertools
import json
import pkgutil
import re
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from streamlit.runtime.caching.cache_utils import CachedFunc
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.testing.v1 import AppTest

import dashboard
from dashboard import all_pages, drawers, results
from dashboard.blocks import Chart
from dashboard.export import file_name
from dashboard.pages.pca import data as pca
from dashboard.settings import Setting, record
from dashboard.settings.chosen_model import MAX_SHOWN_DIM
from dashboard.settings.field_text import read
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from dashboard.state import RULES, to_token
from posenc import fields, limits
from posenc.errors import SchemeArgumentError
from tests.dashboard import page_texts, pages
from tests.dashboard.called_pages import PLURAL_OF_ONE, fields_read, same_numbers
from tests.dashboard.pages import (
    PLACES,
    as_read,
    charts,
    drawn,
    headline,
    turn_to,
    visit,
)
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks", "fixed_speed")

LEAST = {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "base": "2"}
ODD = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "device": "cpu",
    "sinusoidal.layout": "half", "rope.layout": "half", "rope.partial_rotary_factor": "0.5",
}  # fmt: skip
PINNED = to_token(Setting(dim=2, heads=1, length=2, train_length=2, base=3.0))
ALL = {"schemes": ",".join(pages.KINDS)}
SMALL = LEAST | ALL | {"learned_source": "random", "pair": "0", "places": "fastest"}
OWN_CHOICES = {
    "reference": "255", "fit": "all", "offset": "64", "second": "64", "reach": "16",
    "pair": "2047", "start": "xavier", "scaled": "false", "notation": "t, k",
    "substituted": "true", "precision": "float16", "alibi_head": "3",
}  # fmt: skip
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "least": SMALL,
    "pinned": SMALL | {"a": PINNED},
    "odd": ODD | ALL,
    "no position": {"schemes": "none", "dim": "32", "heads": "2", "length": "12"},
    "own choices": OWN_CHOICES | {"dim": "64", "heads": "4", "length": "80"},
}
# Pages that are functions are called at many settings by test_pages_as_functions, and visited once.
FUNCTIONS = ("start", "learn", "overview", "similarity", "pca", "extrapolation", "measured",
             "why_position", "claims")  # fmt: skip
SCHEME_PAGES = tuple(page for page in pages.SCHEME_PAGES if page not in FUNCTIONS)
# Pages of no schemes are visited at fewer settings.
FEW = {"train": ["least"], **{place: ["default"] for place in FUNCTIONS}}
NOT_ALL = {"no position": SCHEME_PAGES, "own choices": SCHEME_PAGES}
VISITS = [
    (place, name)
    for place in PLACES
    for name in FEW.get(place, SETTINGS)
    if place in NOT_ALL.get(name, PLACES)
]
# Other tests read these; what a page shows at odd numbers is in test_pages_as_functions, too.
OFTEN = [
    (place, name) for place, name in VISITS if name in ("default", "pinned") or place == "train"
]


@dataclass(frozen=True)
class Visit:
    """A page with every drawer open, and the files that it offers, by name."""

    at: AppTest
    files: dict[str, bytes]
    sentences: list[str]  # while every drawer was closed


@functools.cache
def opened_page(place: str, name: str) -> Visit:
    """Visit a place once per setting: closed first, then with everything open."""
    files: dict[str, bytes] = {}
    real = MemoryMediaFileStorage.load_and_get_id

    def record(self: Any, data: Any, mimetype: str, kind: Any, filename: str | None = None) -> str:
        files[str(filename)] = data
        return real(self, data, mimetype, kind, filename)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryMediaFileStorage, "load_and_get_id", record)
        at = drawn(pages.visit_place(place, SETTINGS[name], **page_texts.OPEN))
        sentences = page_texts.page_texts(at)
        assert files == {}  # nothing is sent while its drawer is closed
        for key, value in pages.opened(*pages.table_keys(at)).items():
            at.session_state[key] = value
        drawn(at.run())
    return Visit(at, files, sentences)


@pytest.mark.parametrize(("place", "name"), mostly(VISITS, *OFTEN))
def test_page_draws_charts_tables_words_and_downloads_that_fit(place: str, name: str) -> None:
    page = opened_page(place, name)
    at = page.at
    assert pages.notices(at) == []
    # A chart draws nothing for a field that its frame lacks, and no infinite number.
    frames = charts(at)
    for element, frame in zip(at.get("vega_lite_chart"), frames, strict=True):
        # A tooltip has a field for each scheme or named line, beside a pinned setting for each of both.
        derived = {str(name) for column in ("scheme", "name") for name in frame.get(column, ())}
        derived |= {f"{name}, {setting}" for name in derived for setting in ("A", "B")}
        assert fields_read(json.loads(element.proto.spec), derived) - derived <= {
            *frame.columns,
            "boundary",
        }
        assert not np.isinf(frame.select_dtypes("number").to_numpy(float)).any()
    drawn_charts = [block for block in pages.made(at)[1] if isinstance(block, Chart)]
    for chart, frame in zip(drawn_charts, frames, strict=True):
        # What travels is what is drawn, and what made it beside the first row.
        rows = chart.drawn.reset_index(drop=True)
        pd.testing.assert_frame_equal(frame.drop(columns="subtitle"), rows, check_dtype=False)
        assert [bool(text) for text in frame["subtitle"]] == [row == 0 for row in range(len(frame))]
    # Under the pictures stand the guide, the formula, code that is Python, and the glossary.
    asked = {drawers.HOW_TO_READ, drawers.DEFINITION, drawers.CODE, drawers.GLOSSARY}
    assert asked <= {*(at.button_group(key=drawers.KEY).value or ())}
    assert at.latex
    codes = [code.value for code in at.main.code if code.language == "python"]
    assert codes
    for code in codes:
        ast.parse(code)
    # Every table has its numbers as CSV, in full.
    names = [*pages.tables_shown(at)]
    boxes = {box.label: box for box in at.expander}
    tables = [boxes[name] for name in names]
    files = [f"posenc-{file_name(table)}.csv" for table in names]
    assert {*page.files} == {*files}
    for file, box in zip(files, tables, strict=True):
        assert re.fullmatch(r"posenc-[a-z0-9-]+\.csv", file)
        same_numbers(page.files[file], box.dataframe[0].value)
    if name in ("least", "pinned"):
        texts = all_texts(at)
        assert as_read(headline(at)) in " ".join(texts).replace("**", "")
        assert [text for text in texts if PLURAL_OF_ONE.search(text)] == []
    if name == "odd" and place in (*SCHEME_PAGES, "check_my_encoding"):
        for control, text in ODD.items():  # the link is taken as it is
            assert record(pages.setting(at))[control] == read(RULES[control], text)
    if name == "no position" and place in SCHEME_PAGES:
        assert not [kind for kind in pages.KINDS[:-1] if pages.LABELS[kind] in headline(at)]


@pytest.mark.parametrize("place", [place for place in PLACES if place not in page_texts.LEFT_OUT])
def test_page_text_equals_the_reviewed_text_file(place: str) -> None:
    texts, reviewed = opened_page(place, "default").sentences, page_texts.reviewed().get(place, [])
    for text, line in itertools.zip_longest(texts, reviewed, fillvalue="(no line)"):
        same = page_texts.same_text(text, line)
        assert same, f"now: {text}\nreviewed: {line}\n{page_texts.TO_REWRITE}"


@pytest.mark.parametrize("place", [*SCHEME_PAGES, "check_my_encoding"])
def test_pinned_setting_has_its_own_sentence_and_b_stays(place: str) -> None:
    at, alone = opened_page(place, "pinned").at, opened_page(place, "least").at
    said = pages.as_read(headline(at))
    if not said.startswith("A: "):  # else the sentence is of both
        assert any(text.startswith("A: ") for text in pages.captions(at))
        assert said.startswith("B: ")
    assert headline(at).endswith(headline(alone))
    assert charts(at) or place == "relative_offsets"
    for frame, both in zip(charts(alone), charts(at), strict=True):
        own = both
        if "setting" in both:  # else both have the same chart
            marks = ["setting", "marker"]
            own = both[both["setting"] == "B"].drop(columns=marks, errors="ignore")
            own = own.reset_index(drop=True)
        expected = frame[own.columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, expected, check_dtype=False, check_categorical=False)


EXTREMES = {
    "longest": {
        "length": str(MAX_SHOWN_LENGTH), "heads": "64",
        "dim": str(MAX_SHOWN_ELEMENTS // MAX_SHOWN_LENGTH),
        "train_length": str(limits.MAX_TRAIN_LENGTH),
    },
    "widest": {
        "dim": str(MAX_SHOWN_DIM), "heads": "1", "precision": "bfloat16",
        "length": str(MAX_SHOWN_ELEMENTS // MAX_SHOWN_DIM),
    },
    "largest base": {"base": "1e12", "length": "2048", "train_length": "2048", "seed": "2147483647"},
    "own choices": OWN_CHOICES,
}  # fmt: skip


@pytest.mark.timeout(1_200)
@pytest.mark.long
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_page_draws_at_the_ends_of_every_range(page: str, name: str) -> None:
    known = {*RULES, *fields.rules(all_pages.kind_of(pages.FOLDERS[page]))}
    at = drawn(visit(page, {key: text for key, text in EXTREMES[name].items() if key in known}))
    assert pages.notices(at) == []
    assert charts(at) or pages.rows_of_matrices(at)


def notes(at: AppTest) -> list[str]:
    """What stands under each panel's title, in its tooltip, or beside each scheme in a list."""
    subtitles = [panel["subtitle"] for panel in pages.panels(at)]
    helped = [*at.main.header, *at.main.caption, *at.main.markdown]
    texts = [*(as_read(element.proto.help) for element in helped), *pages.captions(at)]
    lines = [line for text in texts for line in text.split("\n")]
    labels = "|".join(pages.LABELS.values())
    return subtitles + [re.sub(rf"^- (?:{labels}): ", "", line) for line in lines]


@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_panels_say_real_width_heads_and_rounding(page: str) -> None:
    shown = notes(opened_page(page, "default").at)
    for fact in ("512 dimensions", "64 dimensions per head", "mean of 8 heads"):
        assert any(fact in note for note in shown), fact
    assert not any("rounded" in note for note in shown)
    odd = notes(opened_page(page, "odd").at)
    assert any("head 2 of 3 heads" in note for note in odd)
    # At equal width RoPE has the whole dimension.
    assert sum("96 dimensions" in note for note in odd) >= 2
    assert any("rounded to bfloat16" in note for note in odd)


# Words --------------------------------------------------------------------------------------------


def all_texts(at: AppTest) -> list[str]:
    """Every text of a page that a visitor can read, in full, but code."""
    code = ("BidiComponent", "Code")
    shown = [one for one in pages.messages(at) if one.DESCRIPTOR.name not in code]
    found = [text for message in shown for _, text in pages.texts_of(message)]
    for frame in [*(x.value for x in at.dataframe), *(x.value for x in at.table), *charts(at)]:
        words = frame.select_dtypes(["object", "category", "string"])
        found += [str(cell) for column in words for cell in words[column].unique()]
    found += [
        str(panel[part]) for panel in pages.panels(at) for part in ("title", "subtitle", "columns")
    ]
    return [as_read(text) for text in found]


# Faults -------------------------------------------------------------------------------------------


def test_fault_on_one_page_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "projected", mock.Mock(side_effect=MemoryError("/srv/secret")))
    at = visit("pca", {"base": "500", "dim": "32", "heads": "2", "length": "12"})
    assert not at.exception
    (box,) = at.error
    assert "incident" in box.value
    assert "secret" not in box.value
    turn_to(at, "similarity").run()
    assert pages.setting(drawn(at)).base == 500


def test_library_error_is_shown_as_text_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "No tensor is named ![x](http://e/p.png) :red[x] **x** `y` $z$ <b>x</b>."
    monkeypatch.setattr(results, "cosine", mock.Mock(side_effect=SchemeArgumentError(sentence)))
    at = visit("start")
    assert not at.exception
    (box,) = at.error
    assert as_read(box.value) == sentence
    for sign in "![]():*`$<>":
        assert sign not in box.value.replace(f"\\{sign}", ""), (sign, box.value)


def test_every_cache_of_the_dashboard_is_bounded() -> None:
    names = {module.name for module in pkgutil.walk_packages(dashboard.__path__, "dashboard.")}
    cached: dict[str, Any] = {}
    kept: dict[str, int | None] = {}
    for module in names - {"dashboard.app", "dashboard.__main__"}:  # they have no caches
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, CachedFunc):
                cached[f"{module}.{name}"] = value._info
            if (
                isinstance(value, functools._lru_cache_wrapper)
                and inspect.signature(value).parameters
            ):
                kept[f"{value.__module__}.{value.__qualname__}"] = value.cache_info().maxsize
    assert cached  # results stand in one cache, which is bounded by bytes
    assert [name for name, info in cached.items() if info.max_entries is None] == []
    # Devices, schemes and kinds of colours are few; what a visitor composes of them is not.
    few = {"dashboard.components.matrix.colours.shades", "dashboard.results.device"}
    few |= {"posenc.device.device_name", "dashboard.scheme_facts.models_with"}
    assert {name for name, most in kept.items() if most is None} == few
