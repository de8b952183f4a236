"""Blocks in Streamlit: what is open is drawn, closed parts are not made, a fault stays in its place."""

from streamlit.testing.v1 import AppTest


def page_with_tabs_and_a_menu() -> None:
    """Draw a page of two tabs and a menu."""
    from dataclasses import dataclass

    from dashboard.blocks import Drawer, Page, Tabs, Text
    from dashboard.controls import link
    from dashboard.render import Renderer
    from posenc import fields

    tabs = ("Curves", "Tables")

    @dataclass(frozen=True, kw_only=True)
    class Options:
        tab: str = fields.Choice(options=tabs, label="Tab").field("Curves")

    opened = link.options(Options).tab
    menu = Drawer("menu", "Menu", lambda: [Text("In the menu.")], menu=True)
    blocks = (Tabs("tab", tabs, opened, [Text(f"{opened} alone.")]), menu)
    page = Page(title="Title", headline="It is so.", blocks=blocks)
    Renderer(page.title, Options, {}, presenting=False).page(page)


def drawn_texts(at: AppTest) -> list[str]:
    assert not at.exception
    return [text.value for text in at.markdown[1:]]


def test_link_opens_a_tab_and_only_its_blocks_are_drawn() -> None:
    at = AppTest.from_function(page_with_tabs_and_a_menu)
    assert drawn_texts(at.run()) == ["Curves alone."]
    at = AppTest.from_function(page_with_tabs_and_a_menu)
    at.query_params["tab"] = "Tables"
    assert drawn_texts(at.run()) == ["Tables alone."]
    at.session_state["tab"] = "Curves"  # as when it is pressed
    assert drawn_texts(at.run()) == ["Curves alone."]


def test_menu_is_drawn_once_it_is_open() -> None:
    at = AppTest.from_function(page_with_tabs_and_a_menu)
    at.session_state["menu"] = True
    assert drawn_texts(at.run()) == ["Curves alone.", "In the menu."]


def page_with_a_fault_in_a_column() -> None:
    """Draw a page whose left column has a part that the renderer does not know."""
    from dataclasses import dataclass

    from dashboard.blocks import Columns, Live, Page, Text
    from dashboard.render import Renderer

    @dataclass(frozen=True, kw_only=True)
    class Options:
        pass

    columns = Columns(((Live("unknown"), Text("Left.")), (Text("Right."),)))
    page = Page(title="Title", headline="It is so.", blocks=(columns, Text("Below.")))
    Renderer(page.title, Options, {}, presenting=False).page(page)


def test_fault_in_a_column_is_told_there_and_leaves_every_other_block() -> None:
    at = AppTest.from_function(page_with_a_fault_in_a_column).run()
    assert drawn_texts(at) == ["Left.", "Right.", "Below."]
    left, right = at.columns
    (told,) = left.error
    assert told.value.startswith("This page could not be computed.")
    assert not right.error
