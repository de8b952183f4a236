"""Every page that is a function, at the ends of every range: its answer, its blocks, twice the same."""

import ast
import importlib
import inspect
import itertools
import json
import re
import textwrap
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard import all_pages, cache, compare
from dashboard.blocks import (
    Button,
    Chart,
    Clocks,
    Controls,
    Data,
    Download,
    Live,
    Matrices,
    Page,
    Text,
    tables_of,
)
from dashboard.charts import csv_file
from dashboard.compare import identity
from dashboard.menu import TITLES
from dashboard.render import LIVE
from dashboard.settings import Setting
from dashboard.settings.chosen_model import MAX_SHOWN_DIM
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from dashboard.state import State
from dashboard.visitor_files import cache_table
from posenc import fields, limits
from posenc.checkpoints import PositionTable
from tests.dashboard.called_pages import (
    PLURAL_OF_ONE,
    fields_read,
    python_of,
    same_numbers,
    words_of,
)
from tests.dashboard.hostile_texts import FORMATTING
from tests.dashboard.hostile_texts import NAMES as HOSTILE
from tests.dashboard.pages import KINDS, LABELS, as_read
from tests.longer import mostly

# That pages call the library with the right shapes is checked in test_gallery and test_previews.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(autouse=True, scope="module")
def empty_result_cache() -> None:
    """Empty the result cache once: no test here changes what pages are read from."""
    cache.RESULTS.clear()


SETTINGS = {
    "default": Setting(),
    "least": Setting(
        dim=2, heads=1, length=2, train_length=1, base=2.0, learned_source="random", schemes=KINDS
    ),
    "longest": Setting(
        length=MAX_SHOWN_LENGTH, dim=MAX_SHOWN_ELEMENTS // MAX_SHOWN_LENGTH, heads=64,
        train_length=limits.MAX_TRAIN_LENGTH, schemes=KINDS,
    ),
    "widest": Setting(
        dim=MAX_SHOWN_DIM, length=MAX_SHOWN_ELEMENTS // MAX_SHOWN_DIM, heads=1, precision="bfloat16"
    ),
    "largest base": Setting(base=1e12, train_length=2048, seed=2**31 - 1, precision="float16"),
    "one head, equal width": Setting(
        dim=96, heads=3, length=50, train_length=20, equal_width=True, alibi_head=2, base=777.5
    ),
    "no position": Setting(schemes=("none",), dim=32, heads=2, length=12),
    "missing table": Setting(schemes=("learned",), learned_source=f"table-{'0' * 12}"),
    "real model": Setting(model="llama-3-8b", schemes=("rope", "alibi"), length=24),
    "one of 64 heads": Setting(dim=128, heads=64, alibi_head=64, length=24, schemes=KINDS),
    "trained on one position": Setting(train_length=1, length=64, learned_source="random"),
    "nothing past training": Setting(train_length=1_024, length=64, precision="float16"),
    "table of a real model": Setting(learned_source="minilm", dim=384, heads=12, length=40),
    "other layouts": Setting(
        dim=96, heads=3, length=40, schemes=("sinusoidal", "rope"),
        own=(("rope.layout", "half"), ("rope.partial_rotary_factor", 0.5), ("sinusoidal.layout", "half")),
    ),
    "biases": Setting(
        dim=64, heads=4, length=40, schemes=("t5", "kerple_log", "kerple_power", "fire", "sandwich")
    ),
    "by content": Setting(dim=64, heads=4, length=40, schemes=("shaw", "transformer_xl", "cope")),
    "trained parameters": Setting(
        dim=128, heads=4, length=20, train_length=64, schemes=("alibi", "kerple_log"),
        own=(("kerple_log.source", "trained"),),
    ),
    "scaled rotations": Setting(
        dim=64, heads=4, length=40, train_length=16,
        schemes=("rope_linear", "rope_ntk", "rope_dynamic", "rope_yarn", "rope_longrope", "rope_llama3"),
    ),
    "other rotations": Setting(
        dim=64, heads=2, length=40,
        schemes=("rope_yarn_paper", "rope_proportional", "rope_sections", "xpos"),
    ),
    "keys that a format cannot hold": Setting(
        schemes=("rope", "xpos"), own=(("xpos.scale_base", 64.0),), precision="float16", dim=64, heads=4,
        length=512,
    ),
}  # fmt: skip
LINES = ("scheme", "name")  # columns by which a chart's readout names its fields
SMALL, OTHER = SETTINGS["least"], Setting(dim=2, heads=1, length=2, train_length=2, base=3.0)
NAMES = {"A": "A: base 3", "B": "B: base 2"}


def ends(rule: fields.Rule, default: Any) -> list[Any]:
    """Return the default of an option and the ends of its range, or everything that can be chosen."""
    match rule:
        case fields.Flag():
            return [False, True]
        case fields.Choice():
            return [*rule.options]
        case fields.IntRange() | fields.FloatRange():
            return [*dict.fromkeys((default, rule.low, rule.high))]
    return [default]


def options_of(module: ModuleType) -> list[Any]:
    """Return the default options of a page, and those with one option at an end of its range."""
    default = module.Options()
    rules = fields.rules(module.Options).items()
    values = [(name, value) for name, rule in rules for value in ends(rule, getattr(default, name))]
    changed = [module.Options(**{name: value}) for name, value in values]
    return [*dict.fromkeys((default, *changed))]


def module_of(folder: str) -> ModuleType:
    return importlib.import_module(f"dashboard.pages.{folder}.page")


ENDS = [
    (folder, "least", n) for folder in TITLES for n in range(len(options_of(module_of(folder))))
]
CASES = [*itertools.product(TITLES, [name for name in SETTINGS if name != "least"], [0]), *ENDS]
OFTEN = ("one head, equal width", "one of 64 heads")  # all schemes, at odd numbers


@pytest.mark.parametrize(
    ("folder", "name", "options"),
    mostly(CASES, *ENDS, *itertools.product(TITLES, OFTEN, [0])),
)
def test_page_has_an_answer_and_legal_blocks_and_is_the_same_twice(
    folder: str, name: str, options: int
) -> None:
    module = module_of(folder)
    choice = options_of(module)[options]
    page: Page = module.page(SETTINGS[name], choice)
    assert page.title
    assert page.headline.endswith((".", "?"))
    names = [key for block in page.all_blocks if (key := identity(block))]
    titles = [block.title for block in page.all_blocks if isinstance(block, Chart | Data)]
    controls = [block for block in page.all_blocks if isinstance(block, Controls)]
    widgets = [control for block in controls for control in block.names]
    widgets += [block.key for block in page.all_blocks if isinstance(block, Button | Download)]
    for unique in (names, titles, widgets):
        assert [one for one, count in Counter(unique).items() if count > 1] == []
    assert {*widgets} >= {option for block in controls for option in block.narrowed}
    if page.blocks:  # at least one scheme has a place on it
        assert page.guide
        assert page.definition is not None
        assert page.definition.words.endswith(".")
        for function in page.definition.functions:
            ast.parse(textwrap.dedent(inspect.getsource(function)))
    ast.parse(python_of(page))
    for block in page.all_blocks:
        check_block(block)
    for table in tables_of(page.all_blocks):
        same_numbers(csv_file.written(table.numbers()), table.numbers())
    fresh = inspect.unwrap(module.page)(SETTINGS[name], choice)
    assert described(fresh) == described(page)


def check_block(block: Any) -> None:
    """Assert that a block can be drawn: words, finite numbers, ends of scales in order."""
    match block:
        case Text():
            assert block.text.strip()
            assert "nan" not in block.text.lower().split()
        case Chart():
            spec = json.dumps(block.spec, allow_nan=False)
            drawn = block.drawn.select_dtypes("number").to_numpy(float)
            assert not np.isinf(drawn).any()
            assert len(block.drawn) == 0 or '"x"' in spec or block.x == ""
            assert {*block.columns} <= {*block.frame} or block.frame.empty
            # A readout has a field for each line; the training length is drawn where there is one.
            derived = {str(name) for column in LINES for name in block.frame.get(column, ())}
            assert fields_read(block.spec, derived) - derived <= {*block.drawn, "boundary"}
        case Matrices():
            row = block.row("Title")
            assert row.panels
            assert row.text_alternative.endswith(".")
            assert row.scale.low < row.scale.high
            titles = [panel.title for panel in row.panels]
            assert len({*titles}) == len(titles)
        case Live():
            inspect.signature(LIVE[block.name]).bind("place", "change", **block.values)
        case Clocks():
            assert block.faces
            assert 0 <= block.first <= block.last
            assert block.text.endswith(".")


def described(page: Page) -> list[Any]:
    """Return what a page says and draws, so that two can be compared."""
    parts: list[Any] = [page.title, page.headline, dict(page.reasons), page.guide, python_of(page)]
    for block in page.all_blocks:
        match block:
            case Text():
                parts.append((block.text, block.look))
            case Chart():
                parts += [block.title, block.spec, block.frame.to_csv()]
            case Matrices():
                parts += [(panel.title, panel.values.dense().tobytes()) for panel in block.panels]
            case Data():
                parts += [block.title, block.frame.to_csv()]
    return parts


# Words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", TITLES)
def test_one_of_a_thing_is_no_plural(folder: str) -> None:
    module = module_of(folder)
    page = module.page(SMALL, module.Options())
    both = compare.pages(page, module.page(OTHER, module.Options()), NAMES, ["base"])
    texts = map(as_read, (*words_of(page), *words_of(both)))
    assert [text for text in texts if PLURAL_OF_ONE.search(text)] == []


@pytest.mark.parametrize(
    "folder", [one for one in TITLES if one not in ("claims", "lessons", "check_my_encoding")]
)  # the headline of the last names the scheme of its example
def test_headline_names_no_scheme_that_is_not_chosen(folder: str) -> None:
    module = module_of(folder)
    said = module.page(SETTINGS["no position"], module.Options()).headline
    assert not [kind for kind in KINDS[:-1] if LABELS[kind] in said]


PANELS: dict[str, dict[str, str]] = {
    "at_a_glance": {}, "extrapolation": {"half": "formula"}, "pca": {}, "similarity": {}, "start": {},
}  # fmt: skip


@pytest.mark.parametrize("folder", PANELS)
def test_panels_say_real_width_heads_and_rounding(folder: str) -> None:
    module = module_of(folder)
    options = module.Options(**PANELS[folder])
    notes = " ".join(words_of(module.page(Setting(), options)))
    for fact in ("512 dimensions", "64 dimensions per head", "mean of 8 heads"):
        assert fact in notes, fact
    assert "rounded" not in notes
    odd = SETTINGS["one head, equal width"].replace(precision="bfloat16", schemes=KINDS)
    notes = " ".join(words_of(module.page(odd, options)))
    assert "head 2 of 3 heads" in notes
    assert notes.count("96 dimensions") >= 2  # at equal width RoPE has the whole dimension
    # Extrapolation reads formulas exactly.
    assert ("rounded to bfloat16" in notes) == (folder != "extrapolation")


@pytest.mark.parametrize("folder", TITLES)
def test_saved_charts_name_what_made_them(folder: str) -> None:
    """Base and dimension, the width of models, heads, or whose numbers they are."""
    steps = [{"step": str(n)} for n in range(1, 6)] if folder == "lessons" else [{}]
    for changes in steps:
        now = State().changed(folder, all_pages.kind_of(folder), changes)
        charts = [b for b in all_pages.page_at(now, folder).all_blocks if isinstance(b, Chart)]
        for chart in charts:
            if not folder.startswith("check"):  # what a visitor checks has no settings
                assert re.search(r"base|dimension|width|heads|tokens|128x128", chart.sizes), (
                    chart.key
                )


@pytest.mark.parametrize("folder", TITLES)
def test_names_of_an_uploaded_table_are_no_markup(folder: str) -> None:
    for name in HOSTILE.values():
        rows = torch.from_numpy(np.random.default_rng(5).normal(size=(30, 12)).astype(np.float32))
        table = PositionTable(
            table=rows, tensor=name, provenance=name, notes=(name,), first_row=0,
            source_dtype="float32", sha256="0" * 64, trained=True,
        )  # fmt: skip
        setting = Setting(
            learned_source=cache_table(table), schemes=KINDS, length=24, dim=12, heads=2
        )
        module = module_of(folder)
        page = module.page(setting, module.Options())
        drawn_as_it_is = {
            f"{panel.title}; {panel.subtitle}"
            for block in page.all_blocks
            if isinstance(block, Matrices)
            for panel in block.panels
        }
        for text in words_of(page):
            bare = re.sub(r"\\.", "·", text)  # without what is escaped
            assert text in drawn_as_it_is or not any(part in bare for part in FORMATTING), text
        ast.parse(python_of(page))


# A and B ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", TITLES)
def test_a_beside_b_changes_nothing_of_b(folder: str) -> None:
    module = module_of(folder)
    b, a = (module.page(setting, module.Options()) for setting in (SMALL, OTHER))
    both = compare.pages(b, a, NAMES, ["base"])
    assert both.headline.endswith(b.headline)
    joined = {block.key: block for block in both.all_blocks if isinstance(block, Chart)}
    for chart in b.all_blocks:
        if isinstance(chart, Chart):
            own = joined[chart.key].frame
            if joined[chart.key].pinned is not None:
                own = own[own["setting"] == "B"]
            shared = [name for name in chart.frame if name in own and chart.listed]
            pd.testing.assert_frame_equal(
                own[shared].reset_index(drop=True),
                chart.frame[shared].reset_index(drop=True),
                check_dtype=False,
                check_categorical=False,
            )


def test_schemes_without_a_base_are_named_where_a_and_b_differ_in_it_alone() -> None:
    def above(b: Setting, a: Setting, folder: str = "pca") -> list[str]:
        page = all_pages.page_at(State(b, a), folder)
        return [block.text for block in page.above if isinstance(block, Text)]

    a, rule = Setting(), "The base sets the frequencies of sines and cosines."
    none = f"{rule} Learned and ALiBi have none, so A and B are the same for them."
    for folder in ("pca", "similarity", "encoding", "at_a_glance"):
        assert above(Setting(base=500.0), a, folder) == [none]
    one = above(Setting(base=500.0, schemes=("rope", "alibi")), a)
    assert one == [f"{rule} ALiBi has none, so A and B are the same for it."]
    assert above(Setting(base=500.0, schemes=("rope",)), a) == []
    assert above(Setting(base=500.0, heads=4), a) == []
    assert above(Setting(), a) == []


def test_page_that_nothing_of_a_and_b_changes_says_so() -> None:
    said = "A and B have one result here: nothing on this page depends on the base."
    for half, told in (("measured", True), ("formula", False)):
        options = {"extrapolation": all_pages.kind_of("extrapolation")(half=half)}
        now = State(Setting(base=2_500.0), Setting(), options=options)
        above = all_pages.page_at(now, "extrapolation").above
        assert (said in [block.text for block in above if isinstance(block, Text)]) == told


def test_a_model_that_is_extended_is_compared_by_model_and_never_by_the_base_of_other_pages() -> (
    None
):
    said = "A and B have one result here: nothing on this page depends on the base."
    alone = all_pages.page_at(State(Setting(base=2_500.0)), "extend_context")
    same = all_pages.page_at(State(Setting(base=2_500.0), Setting()), "extend_context")
    assert (same.headline, same.beside) == (alone.headline, "")
    assert said in [block.text for block in same.above if isinstance(block, Text)]
    other = all_pages.page_at(State(Setting(model="llama-2-7b"), Setting()), "extend_context")
    assert other.beside.startswith(r"A\: model none")
