"""Teaching in a real browser: the first screen, presenting, typing a sentence."""

import itertools
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import expect

from dashboard.settings import Setting
from dashboard.state import to_token
from dashboard.text import JOINER
from tests.browser.bare_page import box_of
from tests.browser.browser import PAGES, SCREENS, Visit, dial, go, headline, row, settled
from tests.browser.browser_page import (
    address_of,
    asked,
    click,
    close_menu,
    copied_link,
    lines,
    menu,
    wait_until,
)
from tests.longer import mostly

pytestmark = pytest.mark.browser

AT_THE_RIGHT = ("Sinusoidal", "RoPE", "ALiBi")  # end their lines on Start
FONT_SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"


def test_first_screen_answers_without_scrolling_and_its_dials_go_along(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1440, "height": 900}).open()
    main = page.get_by_test_id("stMain")
    chart = main.locator(".stVegaLiteChart svg, .stVegaLiteChart canvas").first
    own_dial = main.locator('input[type=range][aria-label="Base"]')
    for element in (headline(page), chart, own_dial, main.get_by_test_id("stPageLink").last):
        box = box_of(element)
        assert 0 <= box["y"] <= 900 - box["height"]
    frame = box_of(
        page.locator("[data-testid=stHorizontalBlock]:has(> * [data-testid=stPageLink])")
    )
    assert frame["y"] + frame["height"] <= 900
    names = page.locator(".stVegaLiteChart").first.locator("svg .mark-text.role-mark text")
    ends = sorted(box_of(name)["y"] for name in names.all() if name.text_content() in AT_THE_RIGHT)
    assert len(ends) == len(AT_THE_RIGHT)
    assert min(after - before for before, after in itertools.pairwise(ends)) >= 12  # their letters
    drawn = lines(page)
    dial(page, "Base").press("ArrowRight")
    wait_until(
        page, lambda: lines(page) != drawn
    )  # which the browser draws before the server hears
    wait_until(page, lambda: asked(page) == {"base": 12_500})
    go(page, "similarity")
    expect(page.get_by_test_id("stSidebar")).to_contain_text("12,500")
    go(page, "learn")  # which has no controls in the sidebar
    expect(page.get_by_test_id("stSidebar")).not_to_be_visible()
    expect(page.get_by_test_id("stHeaderLogo")).to_be_visible()
    expect(page.get_by_test_id("stExpandSidebarButton")).not_to_be_visible()  # nothing to open


# Where the first whole picture of a page ends: a chart, a panel of matrices, a clock, a drawing or a table.
FIRST_END = """() => {
  const main = document.querySelector("[data-testid=stMain]");
  const hosts = [...main.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
  const pictures = [
    ...main.querySelectorAll(".stVegaLiteChart, [data-testid=stTable], [data-testid=stImage]"),
    ...hosts.flatMap((host) => [...(host.shadowRoot?.querySelectorAll(".panel, .face svg") ?? [])]),
  ];
  const boxes = pictures.map((one) => one.getBoundingClientRect());
  return Math.min(...boxes.filter((box) => box.height > 50).map((box) => box.bottom));
}"""
# Where the room for pictures ends: at the bar of sliders, which is slim, or at the bottom of the window.
FLOOR = """() => {
  const bar = document.querySelector("[data-testid=stBottom]")?.getBoundingClientRect();
  return bar && bar.height < 50 && bar.bottom === innerHeight ? bar.top : innerHeight;
}"""
BARRED = (
    "", "why_position", "encoding", "claims", "overview", "similarity", "pca", "relative_offsets", "train",
    "check_my_encoding",
)  # fmt: skip
# The smallest text, as it is drawn: of pictures, labels, captions, badges, tables, formulas (not of their
# indices), hints and of what is typed.
SMALLEST = """() => {
  const deep = (root) => [root, ...[...root.querySelectorAll("*")].flatMap(
    (one) => (one.shadowRoot ? deep(one.shadowRoot) : []))];
  const texts = deep(document).flatMap((root) => [...root.querySelectorAll(
    `.stVegaLiteChart svg text, .ticks .tick, .label, .title, .dial text, .hint, .readout, input[type=text],
    [data-testid=stMarkdownContainer] :is(p, li, span:not(.katex *)), [data-testid=stTable] td,
    .katex, .katex-html .sizing:not(.mtight):not(.sizing *), [data-testid=stCode] code, button, kbd`)]);
  const written = (one) => one.value || one.matches(".katex, .sizing")
    || [...one.childNodes].some((part) => part.nodeType === Node.TEXT_NODE && part.data.trim());
  const drawn = texts.filter((one) => written(one) && !one.closest("span[role=img]")
    && one.checkVisibility() && one.getBoundingClientRect().width);
  const scale = (one) => one.ownerSVGElement?.getScreenCTM().a ?? 1;
  return Math.min(...drawn.map((one) => parseFloat(getComputedStyle(one).fontSize) * scale(one)));
}"""
# Main column, tables and formulas that are wider than their place; a formula's is two pixels too narrow.
TOO_WIDE = """() => [...document.querySelectorAll(
  "[data-testid=stMain], [data-testid=stTable], [data-testid=stMain] .katex-display")]
  .filter((one) => one.scrollWidth > one.clientWidth + 2).map((one) => one.textContent.slice(0, 30))"""
NO_PICTURE = ("claims", "context_planner")  # one line per claim; a form, then a verdict


@pytest.mark.long
@pytest.mark.parametrize("presented", ["true", "false"], ids="presented={}".format)
def test_a_whole_picture_of_each_page_is_on_the_first_screen(
    visitor: Visit, presented: str
) -> None:
    somebody = visitor(viewport={"width": 1280, "height": 720})
    page = somebody.open(f"why_position?present={presented}")
    ends, floors, texts = {}, {}, {}
    for path in PAGES:
        go(page, path)
        ends[path], texts[path] = page.evaluate(FIRST_END), page.evaluate(SMALLEST)
        floors[path] = page.evaluate(FLOOR)
        assert page.evaluate(TOO_WIDE) == [], path
    assert {
        path: end
        for path, end in ends.items()
        if path not in NO_PICTURE and not end <= floors[path]
    } == {}
    barred = {path for path, floor in floors.items() if floor < 720}
    assert barred == (set(BARRED) if presented == "true" else set())
    if presented == "true":  # an empty page has no smallest text: null
        clocks = {"encoding": 15}
        small = {p: px for p, px in texts.items() if px is not None and px < clocks.get(p, 18)}
        assert small == {}
        assert sum(px is not None for px in texts.values()) > 9


@pytest.mark.long
def test_presented_colour_bar_of_attention_is_above_the_bar_of_sliders(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("why_position?present=true")
    colours = box_of(page.locator(".matrix-row .scale").first)
    assert colours["height"] > 20
    assert colours["y"] + colours["height"] <= page.evaluate(FLOOR)


@pytest.mark.long
@pytest.mark.parametrize("width", [768, 1024, 1180])
def test_presented_table_shows_every_scheme_on_a_narrow_screen(visitor: Visit, width: int) -> None:
    somebody = visitor(viewport={"width": width, "height": 1024 if width == 768 else 768})
    page = somebody.open("overview?present=true")
    assert page.evaluate(TOO_WIDE) == []
    last = box_of(page.get_by_test_id("stTable").get_by_text("ALiBi", exact=True))
    assert last["x"] + last["width"] <= width


@pytest.mark.parametrize(
    ("width", "height"), mostly([(1280, 720), (1024, 768), (1440, 900)], (1024, 768))
)
def test_presented_start_has_one_large_chart_first_and_whole_formulas(
    visitor: Visit, width: int, height: int
) -> None:
    page = visitor(viewport={"width": width, "height": height}).open("?present=true")
    chart = box_of(page.locator(".stVegaLiteChart").first)
    column = box_of(page.get_by_test_id("stVerticalBlock").first)
    assert chart["width"] > 0.99 * column["width"] > 0.8 * width
    assert chart["height"] > 0.45 * height  # 430 pixels on each
    assert chart["y"] + chart["height"] < page.evaluate(FLOOR)
    cards = page.locator(".st-key-cards")
    assert box_of(cards)["y"] > box_of(page.locator(".stVegaLiteChart").last)["y"]
    assert page.evaluate(TOO_WIDE) == []


@pytest.mark.long
def test_presented_number_of_a_check_is_the_largest_text_of_its_column(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("check_my_encoding?present=true")
    size = "one => parseFloat(getComputedStyle(one).fontSize)"
    value = page.get_by_test_id("stMetricValue").locator("p").evaluate(size)
    assert value >= 2 * page.get_by_test_id("stMetricLabel").locator("p").evaluate(size)


@pytest.mark.long
def test_charts_of_a_and_b_stand_in_one_row_and_their_legends_name_both(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1440, "height": 900}).open(
        f"overview?base=2500&a={to_token(Setting())}"
    )
    charts = page.locator(".st-key-curves .stVegaLiteChart")
    expect(charts).to_have_count(4)
    assert len({round(box_of(one)["y"]) for one in charts.all()}) == 1
    expect(page.get_by_text("The same in A and B.")).to_have_count(
        2
    )  # Learned and ALiBi have no base
    for one in (charts.nth(1), charts.nth(2)):
        legend = one.locator("svg .role-legend-label text")
        expect(legend).to_have_text(["A: base 10,000", "B: base 2,500"])
        edge = box_of(one)["x"] + box_of(one)["width"]
        assert all(box_of(text)["x"] + box_of(text)["width"] <= edge for text in legend.all())


@pytest.mark.long
def test_train_is_started_from_the_first_screen_while_presenting(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("train?present=true")
    box = box_of(page.get_by_role("button", name="Start", exact=True))
    assert box["y"] + box["height"] <= 720


def test_presenting_enlarges_type_and_moves_the_controls_into_a_menu(visitor: Visit) -> None:
    page = visitor(color_scheme="light").open("?base=500")
    normal = page.evaluate(FONT_SIZE)
    click(page, page.get_by_role("link", name="Present in class"))
    expect(page.get_by_role("heading", name="1. Swap two words")).to_be_visible()
    page.wait_for_function(f"{FONT_SIZE} > {normal}")
    settled(page)
    page.get_by_test_id("stMainMenu").get_by_role("button").click()
    page.get_by_test_id("stMainMenuItem-theme-Dark").click()
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(16, 22, 29)")
    page.keyboard.press("Escape")
    assert asked(page) == {"base": 500, "present": "true"}
    expect(page.get_by_test_id("stSidebar")).not_to_be_in_viewport()
    click(page, page.locator(".st-key-next_step").get_by_role("button", name="Answer"))
    expect(page.locator("[class*=st-key-answer_of_step] details")).to_have_attribute("open", "")
    click(page, page.get_by_role("button", name="Next"))
    expect(page.get_by_role("heading", name="2. Add a position")).to_be_visible()
    page.wait_for_function("location.search.includes('step=2')")
    go(page, "similarity")
    assert "present=true" in page.url
    link = copied_link(page)  # which does not present
    assert parse_qs(urlparse(link).query) == {"v": ["1"], "base": ["500"]}
    drawn = row(page, "similarity").get_attribute("data-paints")
    dial(page, "Base").press("End")  # on the bar at the bottom edge
    page.wait_for_function("location.search.includes('base=100000000')")
    wait_until(page, lambda: row(page, "similarity").get_attribute("data-paints") != drawn)
    others = menu(page, "Controls")  # which has the others
    expect(others.locator("input[type=range]")).to_have_count(2)
    expect(others.locator('input[aria-label="Base"]')).to_have_count(0)
    close_menu(page)
    click(page, page.get_by_text("Present", exact=True))
    page.wait_for_function(f"{FONT_SIZE} == {normal}")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    assert asked(page) == {"base": 100_000_000}


def test_phone_has_base_and_dimension_under_the_first_picture(visitor: Visit) -> None:
    page = visitor(**SCREENS[390]).open("relative_offsets")
    main = page.get_by_test_id("stMain")
    matrices = main.locator(".matrix-row").first
    expect(main.get_by_role("slider", name="Model dimension")).to_have_count(1)
    below = box_of(matrices)["y"] + box_of(matrices)["height"]
    assert 0 <= box_of(main.locator(".st-key-base"))["y"] - below < 60
    drawn = matrices.get_attribute("data-paints")
    dial(page, "Base").press("ArrowRight")
    page.wait_for_function("location.search.includes('base=12500')")
    wait_until(page, lambda: matrices.get_attribute("data-paints") != drawn)


@pytest.mark.long
def test_dark_is_kept_on_every_page_after_a_reload_and_behind_a_link(visitor: Visit) -> None:
    somebody = visitor(color_scheme="light")
    page = somebody.open("check_my_encoding")
    app = page.get_by_test_id("stApp")
    expect(app).to_have_css("background-color", "rgb(255, 255, 255)")
    page.get_by_test_id("stMainMenu").get_by_role("button").click()
    page.get_by_test_id("stMainMenuItem-theme-Dark").click()
    page.keyboard.press("Escape")
    go(page, "similarity")
    page.reload()
    settled(page)
    expect(app).to_have_css("background-color", "rgb(16, 22, 29)")
    for path in ("", "encoding?base=500"):
        linked = somebody.open(path)
        expect(linked.get_by_test_id("stApp")).to_have_css("background-color", "rgb(16, 22, 29)")


@pytest.mark.long
def test_a_projected_step_fits_its_screen_and_its_keys_stay_where_they_are(
    visitor: Visit,
) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("learn?present=true")
    places = []
    for number in range(1, 6):
        expect(page.locator("h1")).to_contain_text(f"{number}. ")
        settled(page)
        assert not page.get_by_role("button", name="Controls").count()  # this page has none
        tools = page.get_by_text("Copy link")
        places.append(
            [box_of(one)["y"] for one in (page.locator(".st-key-next_step button"), tools)]
        )
        for element in ("answer_of_step", "lesson_clock", "lesson_orders"):
            for one in page.locator(f"[class*=st-key-{element}]").all():
                assert box_of(one)["y"] + box_of(one)["height"] <= 720
        keys = (
            ".st-key-step button >> nth=0",
            ".st-key-back_step button",
            ".st-key-next_step button",
        )
        levels = [
            (box_of(page.locator(key))["y"], box_of(page.locator(key))["height"]) for key in keys
        ]
        assert levels == [pytest.approx(levels[0], abs=0.6)] * 3
        answer = page.locator("[class*=st-key-answer_of_step] details")
        if number == 5:  # which has an answer once the curves are drawn
            page.keyboard.press("PageDown")
            expect(answer).to_be_visible()
            settled(page)
        expect(answer).not_to_have_attribute("open", "")
        page.keyboard.press("PageDown")
        expect(answer).to_have_attribute("open", "")
        expect(page.locator("h1")).to_contain_text(f"{number}. ")
        settled(page)
        page.wait_for_timeout(500)  # until it is open
        assert box_of(answer)["y"] + box_of(answer)["height"] <= 720
        page.keyboard.press("PageDown")
    assert places == [places[0]] * 5
    page.keyboard.press("PageUp")
    expect(page.locator("h1")).to_contain_text("4. ")
    settled(page)
    slider = page.locator("[data-testid=stMain] input[type=range]").first
    before = slider.input_value()
    slider.focus()
    page.keyboard.press("PageUp")  # a slider does not take it
    expect(page.locator("h1")).to_contain_text("3. ")
    settled(page)
    page.keyboard.press("PageDown")  # closed again
    expect(page.locator("[class*=st-key-answer_of_step] details")).to_have_attribute("open", "")
    settled(page)
    page.keyboard.press("PageDown")
    expect(page.locator("h1")).to_contain_text("4. ")
    expect(page.locator("[data-testid=stMain] input[type=range]").first).to_have_value(before)


@pytest.mark.long
def test_clocks_of_query_and_key_name_their_positions_as_the_slider_moves(visitor: Visit) -> None:
    page = visitor().open("learn?step=3")
    titles = page.locator("[class*=st-key-lesson_clock] .face .title")
    expect(titles).to_have_text(["Key at position 9", "Query at position 12"])
    page.locator("[class*=st-key-lesson_clock] .slider").fill("50")
    expect(titles).to_have_text(["Key at position 50", "Query at position 53"])
    page.locator(".st-key-moved_by").get_by_text("100", exact=True).click()
    expect(titles).to_have_text(["Key at position 109", "Query at position 112"])
    expect(headline(page)).to_contain_text("Key 109, query 112: logit")


def test_sentence_is_shown_as_text_and_carried_by_the_link(visitor: Visit) -> None:
    typed = "<b>dog</b> [x](http://e.example) \u0643\u0644\u0628 WWW.e.example me@e.example"
    page = visitor().open("why_position")
    box = page.get_by_label("Sentence", exact=True)
    box.fill(typed)
    box.press("Enter")
    orders = page.get_by_test_id("stMain").locator("p", has_text=" becomes ").first
    expect(orders).to_contain_text("<b>dog</b>")
    assert f"\u201c\u2068{typed}\u2069\u201d" in orders.inner_text().replace(JOINER, "")
    settled(page)
    assert page.locator("[data-testid=stMain] a[href*='e.example']").count() == 0
    assert page.locator("[data-testid=stMain] p b").count() == 0
    assert parse_qs(urlparse(page.url).query)["sentence"] == [typed]
    again = visitor().open(address_of(page))
    expect(again.get_by_text(" becomes ").first).to_have_text(orders.inner_text())
