"""The clocks in a real browser: play moves the hands, and every angle is the library's."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

from posenc import Setting
from posenc.tables import cos_sin
from tests.browser import SCREENS, Visit, Visitor
from tests.browser_page import resize
from tests.longer import mostly

pytestmark = pytest.mark.browser

LINK = (
    "encoding?schemes=Sinusoidal&schemes=RoPE&dim=64&heads=4&base=500&length=300&train_length=200"
)
SETTING = Setting(dim=64, heads=4, base=500.0, length=300, train_length=200)
SCHEMES = ("sinusoidal", "rope")


@pytest.fixture
def opened(visitor: Visit) -> Callable[..., Page]:
    """Opens the page in a context of the given kind."""

    def make(link: str = LINK, **kind: Any) -> Page:
        page = visitor(**kind).open(link)
        expect(clock(page)).to_have_attribute("data-playing", "false", timeout=20_000)
        return page

    return make


@pytest.fixture(scope="module")
def kept(chromium: Browser, address: str) -> Iterator[tuple[Visitor, Page]]:
    """The page opened once, for tests that only play, seek and read."""
    somebody = Visitor(chromium, address)
    yield somebody, somebody.open(LINK)
    somebody.context.close()


@pytest.fixture
def page(kept: tuple[Visitor, Page]) -> Iterator[Page]:
    """The page kept open, its clocks at rest at position 0; no fault may be left at the end."""
    somebody, page = kept
    expect(clock(page)).to_have_attribute("data-playing", "false", timeout=20_000)
    yield page
    if clock(page).get_attribute("data-playing") == "true":
        clock(page).locator(".play").click()
    clock(page).locator(".speed").select_option("4")
    seek(page, 0)
    faults, somebody.faults = somebody.faults, []
    assert faults == []


def clock(page: Page) -> Locator:
    return page.locator(".clock")


def position(page: Page) -> int:
    return int(clock(page).get_attribute("data-position") or -1)


def hands(page: Page) -> list[dict[int, float]]:
    """The angle at which each hand is drawn, by the number of its pair, one dict per face."""
    faces = clock(page).locator(".face")
    return [
        {
            int(arm.get_attribute("data-pair") or -1): float(
                arm.get_attribute("data-angle") or "nan"
            )
            for arm in faces.nth(n).locator(".arm").all()
        }
        for n in range(faces.count())
    ]


def tips(page: Page) -> list[list[float]]:
    """The angle that each drawn disc really lies at, from its coordinates."""
    return page.evaluate(
        """() => {
          const roots = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
          const clock = roots.map((one) => one.shadowRoot.querySelector(".clock")).find((one) => one);
          return [...clock.querySelectorAll(".face")].map((face) =>
            [...face.querySelectorAll(".tip")].map((disc) =>
              Math.atan2(Number(disc.getAttribute("cx")), -Number(disc.getAttribute("cy")))));
        }"""
    )


def seek(page: Page, to: int) -> None:
    clock(page).locator(".slider").evaluate(
        """(slider, to) => {
          slider.value = to;
          slider.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        to,
    )


def library(kind: str, at: int) -> list[float]:
    """The library's angle of every pair at a position, from its exact cosine and sine."""
    scheme = SETTING.config(kind).build()
    assert scheme.phases is not None
    cos, sin = cos_sin(torch.tensor([at]), scheme.phases, dtype=torch.float64)
    return torch.atan2(sin, cos)[0].tolist()


def apart(one: float, other: float) -> float:
    """How far two angles lie from each other around the circle."""
    return abs(math.remainder(one - other, 2 * math.pi))


def test_every_hand_stands_at_the_angle_of_the_library(page: Page) -> None:
    for at in (0, 1, 77, 200, 299):
        seek(page, at)
        assert position(page) == at
        for kind, shown, drawn in zip(SCHEMES, hands(page), tips(page), strict=True):
            exact = library(kind, at)
            assert len(shown) == 4
            assert max(shown) == len(exact) - 1
            for (pair, angle), tip in zip(shown.items(), drawn, strict=True):
                assert 0 <= angle < 2 * math.pi
                assert apart(angle, exact[pair]) < 1e-12
                assert apart(tip, exact[pair]) < 1e-9
        texts = clock(page).locator(".face").first.locator("td.angle").all_inner_texts()
        degrees = [math.degrees(angle) for angle in hands(page)[0].values()]
        assert texts == [f"{angle:.1f}°" for angle in degrees]


def test_each_hand_says_its_period_and_its_turns_in_training(page: Page) -> None:
    for kind, face in zip(SCHEMES, clock(page).locator(".face").all(), strict=True):
        scheme = SETTING.config(kind).build()
        assert scheme.inv_freq is not None
        for line in face.locator("tbody tr").all():
            pair = int(line.locator("th").inner_text())
            period = 2 * math.pi / scheme.inv_freq[pair].item()
            shown = float(line.locator(".period").inner_text().replace(",", ""))
            assert shown == pytest.approx(period, rel=6e-3)
            turns = float(line.locator(".turns").inner_text().replace(",", ""))
            assert turns == pytest.approx(200 / period, rel=6e-3)
    assert "width 16 = 64 / 4" in clock(page).locator(".face").nth(1).inner_text()


def test_play_moves_the_hands_without_the_server_and_pause_stops_them(page: Page) -> None:
    sent: list[object] = []
    page.on("websocket", lambda link: sent.append(link))
    before = hands(page)
    button = clock(page).locator(".play")
    expect(button).to_have_text("▶Play")
    clock(page).locator(".speed").select_option("64")
    button.click()
    expect(button).to_have_text("❚❚Pause")
    page.wait_for_function(
        """() => [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
          .some((one) => Number(one.shadowRoot.querySelector(".clock")?.dataset.position) >= 20)""",
        timeout=20_000,
    )
    button.click()
    stopped = position(page)
    assert 20 <= stopped < 299
    after = hands(page)
    assert after != before
    for kind, shown in zip(SCHEMES, after, strict=True):  # at rest on a whole position
        exact = library(kind, stopped)
        assert all(apart(angle, exact[pair]) < 1e-12 for pair, angle in shown.items())
    page.wait_for_timeout(400)
    assert position(page) == stopped
    assert hands(page) == after
    assert sent == []


def test_faster_goes_further_and_the_end_stops(page: Page) -> None:
    clock(page).locator(".speed").select_option("1024")
    clock(page).locator(".play").click()
    expect(clock(page)).to_have_attribute("data-position", "299", timeout=20_000)
    expect(clock(page)).to_have_attribute("data-playing", "false")
    expect(clock(page).locator(".position")).to_have_text("Position 299, past the training length")
    clock(page).locator(".speed").select_option("1")
    clock(page).locator(".play").click()  # from the start again
    expect(clock(page)).to_have_attribute("data-playing", "true")


def test_the_keyboard_alone_plays_seeks_and_changes_speed(page: Page) -> None:
    slider, button = clock(page).locator(".slider"), clock(page).locator(".play")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert position(page) == 3
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("c")  # Streamlit's shortcut for its cache: not from here
    assert position(page) == 2
    expect(slider).to_have_attribute("aria-valuetext", "Position 2")
    expect(clock(page).locator("svg").first).to_have_attribute(
        "aria-label", f"Sinusoidal at position 2: {spoken(hands(page)[0])}"
    )
    page.keyboard.press("End")
    assert position(page) == 299
    page.keyboard.press("Home")
    button.focus()
    page.keyboard.press("Space")
    expect(clock(page)).to_have_attribute("data-playing", "true")
    page.keyboard.press("Enter")
    expect(clock(page)).to_have_attribute("data-playing", "false")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(clock(page).locator(".speed")).to_have_value("16")
    expect(page.get_by_role("dialog")).to_have_count(0)


def spoken(angles: dict[int, float]) -> str:
    return ", ".join(f"pair {m} at {math.degrees(angle):.1f}°" for m, angle in angles.items())


def test_where_motion_is_not_wanted_positions_are_stepped_through(
    opened: Callable[..., Page],
) -> None:
    page = opened(reduced_motion="reduce")
    page.evaluate(
        """() => {
          const roots = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
          const clock = roots.map((one) => one.shadowRoot.querySelector(".clock")).find((one) => one);
          globalThis.seen = [];
          new MutationObserver(() => seen.push([
            performance.now(),
            Number(clock.dataset.position),
            Number(clock.querySelector(".arm").dataset.angle),
          ])).observe(clock, { attributes: true, attributeFilter: ["data-position"] });
        }"""
    )
    clock(page).locator(".play").click()
    page.wait_for_function("new Set(seen.map(one => one[1])).size > 3", timeout=20_000)
    clock(page).locator(".play").click()
    seen = page.evaluate("seen")
    moves = [entry for n, entry in enumerate(seen) if n == 0 or entry[1] != seen[n - 1][1]]
    moves = [entry for entry in moves if entry[1] > 0]
    assert len(moves) >= 3
    for (earlier, p, _), (later, q, _) in itertools.pairwise(moves):
        assert later - earlier > 400  # at most twice a second, however busy the machine is
        assert q - p == 2  # four positions a second
    for _, p, angle in seen:  # never between two positions
        assert apart(angle, float(p)) < 1e-12  # pair 0 turns by one radian a position


def test_a_rerun_changes_the_hands_and_keeps_the_position(opened: Callable[..., Page]) -> None:
    page = opened()
    seek(page, 42)
    before = hands(page)
    page.get_by_role("spinbutton", name="And pair number").fill("3")
    page.keyboard.press("Enter")
    expect(clock(page).locator(".face").first.locator(".arm")).to_have_count(5, timeout=20_000)
    assert position(page) == 42
    after = hands(page)
    for kind, old, new in zip(SCHEMES, before, after, strict=True):
        assert set(new) == {*old, 3}
        exact = library(kind, 42)
        assert all(apart(angle, exact[pair]) < 1e-12 for pair, angle in new.items())


@pytest.mark.parametrize(
    ("opened_at", "scheme", "widths"),
    mostly(
        [(1440, "light", (1440, 768, 390)), (390, "dark", (390,))],
        (1440, "light", (1440, 768, 390)),
    ),
)
def test_the_clocks_fit_every_screen(
    opened: Callable[..., Page], opened_at: int, scheme: str, widths: tuple[int, ...]
) -> None:
    page = opened(**(SCREENS[opened_at] | {"color_scheme": scheme}))
    for width in widths:
        if width != opened_at:
            resize(page, width)
        box = clock(page).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
        for part in clock(page).locator("button, select, input, svg, table").all():
            inner = part.bounding_box()
            assert inner is not None
            assert inner["x"] >= box["x"] - 1
            assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
    text, ground = page.evaluate(
        """() => {
          const roots = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
          const clock = roots.map((one) => one.shadowRoot.querySelector(".clock")).find((one) => one);
          const app = getComputedStyle(document.querySelector("[data-testid=stApp]"));
          return [getComputedStyle(clock.querySelector("td")).color, app.backgroundColor];
        }"""
    )
    assert contrast(text, ground) > 7


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio of two colours written rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_the_training_length_is_a_line_across_positions_and_not_across_features(page: Page) -> None:
    for unit in ("entry", "cosine"):
        row = page.locator(f".st-key-encoding_{unit} .matrix-row")
        expect(row.locator(".boundary.row:visible")).to_have_count(1)
        expect(row.locator(".boundary.column:visible")).to_have_count(0)
