"""Every page that is a function, at the ends of every range: its answer, its blocks, twice the same."""

import importlib
import inspect
import itertools
import json
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dashboard.blocks import Chart, Clocks, Data, Live, Matrices, Page, Text
from dashboard.compare import identity
from dashboard.render import LIVE
from dashboard.settings import Setting
from dashboard.settings.chosen_model import MAX_SHOWN_DIM
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from posenc import fields, limits
from tests.dashboard.pages import KINDS

FOLDERS = (
    "at_a_glance",
    "claims",
    "encoding",
    "extend_context",
    "extrapolation",
    "lessons",
    "pca",
    "relative_offsets",
    "similarity",
    "start",
    "train",
    "why_order_matters",
)
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
}  # fmt: skip


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


CASES = [
    *itertools.product(FOLDERS, SETTINGS, [0]),
    *((folder, "least", n) for folder in FOLDERS for n in range(1, len(options_of(module_of(folder))))),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "name", "options"), CASES)
def test_page_has_an_answer_and_legal_blocks_and_is_the_same_twice(
    folder: str, name: str, options: int
) -> None:
    module = module_of(folder)
    choice = options_of(module)[options]
    page: Page = module.page(SETTINGS[name], choice)
    assert page.title
    assert page.headline.endswith((".", "?"))
    names = [key for block in page.all_blocks if (key := identity(block))]
    assert [key for key, count in Counter(names).items() if count > 1] == []
    titles = [block.title for block in page.all_blocks if isinstance(block, Chart | Data)]
    assert [title for title, count in Counter(titles).items() if count > 1] == []
    for block in page.all_blocks:
        check_block(block)
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
    parts: list[Any] = [page.title, page.headline, dict(page.reasons), page.guide, page.script]
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
