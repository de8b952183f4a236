"""The clocks in a bare page, whose time passes only where a test says so, and on the Encoding page."""

import io
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from dashboard.components.clock import Face, encode
from dashboard.settings import Setting
from posenc import sinusoidal_table
from posenc.tables import cos_sin
from tests.browser import bare_page
from tests.browser.bare_page import box_of, bring_code, example_panels, readouts, show_row, zoom
from tests.browser.browser import Visit, dial, row

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"

SETTING = Setting(dim=64, heads=4, base=500.0, length=300, train_length=200)
PAIRS = {"sinusoidal": (0, 10, 21, 31), "rope": (0, 2, 5, 7)}


def waves(kind: str, pairs: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return sine and cosine of the pairs at 250 positions, (pairs, 2, positions)."""
    scheme = SETTING.config(kind).build()
    assert scheme.frequencies is not None
    cos, sin = cos_sin(torch.arange(250), scheme.frequencies, dtype=torch.float64)
    return torch.stack([sin, cos])[:, :, list(pairs)].permute(2, 0, 1).numpy()


def show_clocks(page: Page, pairs: Mapping[str, tuple[int, ...]] = PAIRS) -> Locator:
    """Draw one face per scheme with hands for these pairs, over 300 positions; return the clock."""
    faces = []
    for kind, numbers in pairs.items():
        inv_freq = SETTING.config(kind).build().inv_freq
        assert inv_freq is not None
        chosen = inv_freq[list(numbers)].double().numpy()
        faces.append(
            Face(title=kind, subtitle="<b>small</b>", color="#0072b2", pairs=numbers,
                 inv_freq=chosen, waves=waves(kind, numbers))
        )  # fmt: skip
    data = encode(faces, 299, SETTING.train_length, "Two clocks")
    bare_page.show_data(page, "clock", "clocks", data)
    return page.locator(".clock")


@pytest.fixture
def clock(page: Page) -> Locator:
    """Two clocks at rest at position 0; time stands still."""
    page.clock.install()
    page.clock.pause_at("2100-01-01")
    return show_clocks(page)


def position(clock: Locator) -> int:
    return int(clock.get_attribute("data-position") or -1)


def hands(clock: Locator) -> list[dict[int, float]]:
    """Return the angle of every hand by its pair, one dict per face, from where its tip is drawn."""
    faces: list[list[list[str]]] = clock.locator(".face").evaluate_all(
        """faces => faces.map((face) => [...face.querySelectorAll(".arm")].map((arm) => {
          const tip = arm.querySelector(".tip");
          return [arm.dataset.pair, tip.getAttribute("cx"), tip.getAttribute("cy")];
        }))"""
    )
    return [{int(pair): math.atan2(float(x), -float(y)) for pair, x, y in face} for face in faces]


def check_hands(clock: Locator, position: int) -> None:
    """Assert that every hand stands where the library says."""
    for kind, angles in zip(PAIRS, hands(clock), strict=True):
        scheme = SETTING.config(kind).build()
        assert scheme.frequencies is not None
        cos, sin = cos_sin(torch.tensor([position]), scheme.frequencies, dtype=torch.float64)
        expected = torch.atan2(sin, cos)[0].tolist()
        for pair, angle in angles.items():
            assert abs(math.remainder(angle - expected[pair], 2 * math.pi)) < 1e-12


def test_every_hand_stands_at_the_angle_of_the_library(page: Page, clock: Locator) -> None:
    for at in (0, 1, 77, 299):
        clock.locator(".slider").fill(str(at))
        assert position(clock) == at
        assert [tuple(face) for face in hands(clock)] == [*PAIRS.values()]
        check_hands(clock, at)
    texts = clock.locator(".face").first.locator("tbody .period").all_inner_texts()
    periods = [2 * math.pi * 500 ** (pair / 32) for pair in PAIRS["sinusoidal"]]
    shown = [float(text.replace(",", "")) for text in texts]
    assert shown == pytest.approx(periods, rel=5.1e-3)  # three digits
    expect(clock.locator("b")).to_have_count(0)  # texts are no markup
    expect(clock.locator(".mark-text")).to_have_text("training length 200")
    show_clocks(page, {"sinusoidal": (3,), "rope": (1, 6)})  # other hands, the same position
    assert position(clock) == 299
    assert [tuple(face) for face in hands(clock)] == [(3,), (1, 6)]
    check_hands(clock, 299)


def test_waves_are_drawn_where_the_library_says_and_a_line_follows_the_hands(
    page: Page, clock: Locator
) -> None:
    for face, (kind, pairs) in zip(clock.locator(".face").all(), PAIRS.items(), strict=True):
        zeros = face.locator(".zero").evaluate_all(
            "all => all.map((path) => path.getAttribute('d'))"
        )
        middles = [float(path.split()[2]) for path in zeros]
        for which, name in enumerate(("sine", "cosine")):
            paths = face.locator(f".{name}").evaluate_all(
                "all => all.map((path) => path.getAttribute('d'))"
            )
            points = np.array([re.findall(r"[-\d.]+", path) for path in paths], float)
            points = points.reshape(len(pairs), 250, 2)
            assert (points[:, :, 0] == np.arange(250)).all()
            drawn = np.array(middles)[:, None] - points[:, :, 1]  # up is less
            np.testing.assert_allclose(drawn, waves(kind, pairs)[:, which], atol=6e-4)
        assert face.locator(".pair").all_inner_texts() == [f"pair {pair}" for pair in pairs]
    face = clock.locator(".face").first
    plot = box_of(face.locator(".plot"))
    for label, zero in zip(face.locator(".pair").all(), face.locator(".zero").all(), strict=True):
        beside, middle = box_of(label), box_of(zero)["y"]
        assert beside["x"] + beside["width"] <= plot["x"]
        assert beside["y"] + beside["height"] / 2 == pytest.approx(middle, abs=1)
    for at in (0, 83, 249):
        clock.locator(".slider").fill(str(at))
        line = box_of(face.locator(".now"))
        assert line["x"] == pytest.approx(plot["x"] + plot["width"] * at / 249, abs=0.51)
    assert box_of(face.locator(".trained"))["x"] == pytest.approx(
        plot["x"] + plot["width"] * 200 / 249, abs=0.51
    )
    clock.locator(".slider").fill("250")  # past the last position of the waves
    expect(face.locator(".now")).to_be_hidden()


def test_clock_plays_pauses_stops_and_begins_again(page: Page, clock: Locator) -> None:
    button, speed = clock.locator(".play"), clock.locator(".speed")
    speed.select_option("64")
    button.click()
    expect(button).to_have_text("Pause")
    page.clock.run_for(1_000)
    # The frames before the first and after the last do not count.
    assert 60 <= position(clock) <= 64
    button.click()
    stopped = position(clock)
    check_hands(clock, stopped)  # at rest on a whole position
    page.clock.run_for(1_000)
    assert position(clock) == stopped
    speed.select_option("1024")
    button.click()
    page.clock.run_for(1_000)
    expect(clock).to_have_attribute("data-playing", "false")
    expect(clock.locator(".position")).to_have_text("Position 299, past the training length")
    speed.select_option("1")
    button.click()
    expect(clock).to_have_attribute("data-playing", "true")
    assert position(clock) == 0


def test_keyboard_alone_plays_seeks_and_changes_speed(page: Page, clock: Locator) -> None:
    heard = bare_page.hear_keys(page)
    slider = clock.locator(".slider")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("c")  # Streamlit's shortcut for its cache: not from here
    assert position(clock) == 2
    expect(slider).to_have_attribute("aria-valuetext", "Position 2")
    degrees = [math.degrees(angle) % 360 for angle in hands(clock)[0].values()]
    texts = clock.locator(".face").first.locator("td.angle").all_inner_texts()
    assert texts == [f"{angle:.1f}°" for angle in degrees]
    label = clock.locator("svg").first.get_attribute("aria-label") or ""
    assert label.startswith(f"sinusoidal at position 2: pair 0 at {texts[0]}, pair 10 at ")
    clock.locator(".play").focus()
    page.keyboard.press("Space")
    expect(clock).to_have_attribute("data-playing", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(clock.locator(".speed")).to_have_value("16")
    assert heard() == []


def test_reduced_motion_steps_twice_a_second(page: Page, clock: Locator) -> None:
    page.emulate_media(reduced_motion="reduce")
    clock.locator(".play").click()  # four positions a second
    seen = []
    for _ in range(8):
        page.clock.run_for(250)
        seen.append(position(clock))
        check_hands(clock, seen[-1])  # never between two positions
    assert seen == [0, 2, 2, 4, 4, 6, 6, 8]


def test_what_arrives_before_its_code_is_drawn_on_a_phone(bare: Callable[..., Page]) -> None:
    page = bare(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.reload()  # the code is gone
    clock = show_clocks(page)
    expect(clock).to_have_count(0)
    show_row(page, example_panels())
    show_row(page, example_panels()[:2], key="second")
    expect(page.locator(".matrix-row")).to_have_count(0)
    bring_code(page, "matrix")
    expect(row(page, "first").locator(".panel")).to_have_count(4)
    expect(row(page, "second").locator(".panel")).to_have_count(2)
    bring_code(page, "clock")
    expect(clock.locator(".face")).to_have_count(2)
    outer = box_of(clock)
    assert outer["x"] + outer["width"] <= 390
    for part in clock.locator("button, select, input, svg, table").all():
        inner = box_of(part)
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1


@pytest.mark.long
def test_page_keeps_zoom_and_position_over_a_rerun(visitor: Visit) -> None:
    page = visitor().open("encoding?schemes=Sinusoidal&schemes=RoPE&dim=64&heads=4&length=300")
    entry, clock = row(page, "encoding_entry"), page.locator(".clock")
    clock.locator(".slider").fill("42")
    entry.locator(".plot").focus()
    for key in ("Home", "ArrowRight", "ArrowDown", "+", "Enter"):  # pinned at last
        page.keyboard.press(key)
    region, (i, j, _) = zoom(page, "encoding_entry"), readouts(page, "encoding_entry")[0]
    assert region is not None
    box = page.get_by_role("spinbutton", name="Add pair")
    box.fill("3")
    box.press("Enter")
    expect(clock.locator(".face").first.locator(".arm")).to_have_count(5)
    expect(clock).to_have_attribute("data-position", "42")
    paints = entry.get_attribute("data-paints")
    dial(page, "Base").press("ArrowRight")
    expect(entry).not_to_have_attribute("data-paints", paints or "")
    assert zoom(page, "encoding_entry") == region
    expected = sinusoidal_table(300, 64, 12_500.0, dtype=torch.float32)[i, j]
    ((row_read, column_read, value),) = readouts(page, "encoding_entry")
    assert (row_read, column_read) == (i, j)
    assert bare_page.same_values(value, expected.item())


def saved(page: Page, folder: Path) -> ElementTree.Element:
    """Return the picture that the button saves."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save SVG").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return ElementTree.fromstring(path.read_bytes())


def words_of(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_saved_clocks_show_what_the_page_shows_and_name_what_made_them(
    page: Page, clock: Locator, tmp_path: Path
) -> None:
    clock.locator(".slider").fill("77")
    picture = saved(page, tmp_path)
    words = words_of(picture)
    assert words[0] == "Position 77; training length 200"
    for text in (
        "sinusoidal",
        "rope",
        "<b>small</b>",
        "turns in training",
        "sin solid, cos dotted",
    ):
        assert text in words, text
    cells = clock.locator("td.angle").all_inner_texts()
    assert [word for word in words if word in cells] == cells
    tips = [
        (float(circle.get("cx", "nan")), -float(circle.get("cy", "nan")))
        for circle in picture.iter(f"{SVG}circle")
        if circle.get("cx")
    ]
    shown = [angle for face in hands(clock) for angle in face.values()]
    assert [math.atan2(*tip) for tip in tips] == pytest.approx(shown)
    text = ElementTree.tostring(picture, encoding="unicode")
    assert "var(" not in text
    assert "color(" not in text  # as browsers alone read it
    assert "#0072b2" in text or "rgb(0, 114, 178)" in text
    # Drawn by itself, it has the hands in the colour of the scheme.
    path = tmp_path / "clocks.svg"
    path.write_text(text)
    alone = page.context.new_page()
    alone.goto(path.as_uri())
    width, height = (float(picture.get(name, 0)) for name in ("width", "height"))
    drawn = Image.open(io.BytesIO(alone.screenshot())).convert("RGB")
    alone.close()
    colours = {pixel for _, pixel in drawn.getcolors(drawn.width * drawn.height) or []}
    assert (0, 114, 178) in colours
    assert width > height > 100
