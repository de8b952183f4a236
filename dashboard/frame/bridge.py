"""A page that is a function, drawn inside the frame of pages that draw themselves."""

from types import ModuleType
from typing import Any

import streamlit as st

from dashboard import compare
from dashboard.ab import AB
from dashboard.blocks import Chart, Matrices, Page, Uses, tables_of
from dashboard.charts import theme
from dashboard.controls import link, pin
from dashboard.frame import page as old
from dashboard.frame import page_contents
from dashboard.frame.page_contents import Picture
from dashboard.render import Renderer, change
from dashboard.settings import Setting

_BEFORE = "followed_setting"  # of the last run of a page whose options follow from it


def uses(module: ModuleType) -> Uses:
    """Return what the page of a module reads of a setting, which may depend on its options."""
    used: Uses = module.USES(link.held(module.Options)) if callable(module.USES) else module.USES
    return used


def draw(module: ModuleType) -> None:
    """Draw the page of a module at what is chosen, and give the frame what it exports and explains."""
    settings = old.settings()
    options = _options(module, settings.current)
    used = uses(module)
    if not (used.schemes or {*used.itself} - {"schemes"}):  # which A and B share
        settings = AB(settings.current)
    with st.spinner("Computing"):  # shown after half a second
        pages = settings.map(lambda setting: module.page(setting, options))
    page: Page = pages.current
    if pages.pinned is not None:
        changed = [label for label, *_ in pin.changed(settings)]
        page = compare.pages(page, pages.pinned, pin.names(settings), changed)
    old.title(page.title)
    renderer = Renderer(page.title, module.Options, st.session_state["pages"], old.presenting())
    renderer.page(page)
    contents = page_contents.current()
    contents.sentences += filter(None, [pages.current.headline])
    if pages.pinned is not None:
        contents.pinned.append(f"Pinned setting, A (pinned.json): {pages.pinned.headline}")
    for block in renderer.drawn:
        if isinstance(block, Chart):
            spec = theme.titled(block.spec, block.title, page.title, projected=False)
            contents.pictures[block.key] = Picture(spec, block.drawn)
        elif isinstance(block, Matrices):
            contents.pictures[block.key] = block.row(page.title)
    for table in tables_of(renderer.drawn):
        contents.tables[table.title] = table.numbers
        contents.table_keys[table.title] = table.key if isinstance(table, Chart) else table.title
    if page.guide:
        old.how_to_read(page.guide)
    if page.definition is not None:
        old.definition(page.definition.latex, page.definition.words, *page.definition.functions)
    if page.script:
        old.script(page.script)


def _options(module: ModuleType, setting: Setting) -> Any:
    """Return the options of the page, which may follow from a setting that changed since its last run.

    At Back and Forward the address has both.
    """
    options = link.options(module.Options)
    if not hasattr(module.Options, "following"):
        return options
    before = st.session_state.get(_BEFORE, setting)
    st.session_state[_BEFORE] = setting
    if before == setting or link.is_back():
        return options
    followed = options.following(before, setting)
    change(module.Options, {n: v for n, v in vars(followed).items() if v != vars(options)[n]})
    return followed
