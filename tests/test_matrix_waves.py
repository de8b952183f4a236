"""Tables of sines and cosines as waves: nothing is lost on the way, here and in a browser."""

import base64
from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser

from dashboard.matrix import Difference, Panel, Row, Scale, Waves, minus
from dashboard.matrix.payload import encode
from posenc import sinusoidal_table
from tests.browser import Visit, row
from tests.independent import inverse_frequencies
from tests.pages import _row, opened, rows_of_matrices, table, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def sinusoidal(rows: int, width: int, base: float = 10_000.0) -> tuple[np.ndarray, Waves]:
    """The library's table, and its waves made from frequencies by the formula."""
    found = sinusoidal_table(rows, width, base, dtype=torch.float32).numpy()
    angles = np.repeat(inverse_frequencies(width, base), 2)
    waves = Waves.of(found, angles, np.arange(width) % 2 == 0)
    assert waves is not None
    return found, waves


def sent(*values: Waves | Difference) -> bytes:
    panels = [Panel(title=str(n), values=one) for n, one in enumerate(values)]
    scale = Scale(-1.0, 1.0, "diverging")
    return encode(Row(panels=panels, key="waves", scale=scale, text_alternative="waves"))


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Every bit, so that 0 is not -0."""
    ours, theirs = (np.ascontiguousarray(one, np.float32).view(np.uint32) for one in (left, right))
    return bool((ours == theirs).all())


@pytest.mark.parametrize("base", [2.0, 100.0, 10_000.0, 1e8])
@pytest.mark.parametrize(("rows", "width"), [(1, 2), (2, 2), (256, 512), (512, 64), (512, 512)])
def test_a_sinusoidal_table_is_kept_bit_by_bit_in_a_fraction_of_its_size(
    rows: int, width: int, base: float
) -> None:
    found, waves = sinusoidal(rows, width, base)
    assert same(waves.dense(), found)
    _, read = _row(sent(waves))  # expanded entry by entry in a loop
    assert same(read["0"], found)
    # A turn per column, and hardly a correction.
    assert len(waves.at) <= 1e-3 * found.size
    assert waves.words.size == 8 * width + 2 * len(waves.at)


def test_other_tables_have_no_such_form() -> None:
    found, _ = sinusoidal(64, 16)
    angles, sines = np.repeat(inverse_frequencies(16, 10_000.0), 2), np.arange(16) % 2 == 0
    noise = np.random.default_rng(0).normal(size=found.shape).astype(np.float32)
    assert Waves.of(noise, angles, sines) is None
    assert Waves.of(found, angles, ~sines) is None
    assert Waves.of(2 * found, angles, sines) is None
    rounded = torch.from_numpy(found).bfloat16().float().numpy()
    assert Waves.of(rounded, angles, sines) is None


def test_entries_that_turn_otherwise_travel_beside_the_waves() -> None:
    found, _ = sinusoidal(40, 16)
    changed = found.copy()
    changed[3, 5], changed[39, 15], changed[7, 0] = 0.125, np.nan, -0.0
    angles, sines = np.repeat(inverse_frequencies(16, 10_000.0), 2), np.arange(16) % 2 == 0
    waves = Waves.of(changed, angles, sines)
    assert waves is not None
    assert {3 * 16 + 5, 39 * 16 + 15, 7 * 16} <= {*waves.at.tolist()}
    assert same(waves.dense(), changed)
    part = waves.first(8, 6)
    assert part.shape == (8, 6)
    assert same(part.dense(), changed[:8, :6])
    assert same(waves.first(99, 99).dense(), changed)


def test_the_difference_of_two_tables_is_taken_entry_by_entry_and_rounded_once() -> None:
    (ours, now), (theirs, then) = sinusoidal(64, 32, 500.0), sinusoidal(64, 32)
    change = minus(now, then)
    assert isinstance(change, Difference)
    expected = (ours.astype(float) - theirs.astype(float)).astype(np.float32)
    assert same(change.dense(), expected)
    _, read = _row(sent(change))
    assert same(read["0"], expected)


def test_a_browser_expands_the_same_bits(chromium: Browser) -> None:
    (ours, now), (theirs, then) = sinusoidal(512, 512, 123.4), sinusoidal(512, 512)
    changed = ours.copy()
    changed[5, 7] = 0.3
    angles = np.repeat(inverse_frequencies(512, 123.4), 2)
    corrected = Waves.of(changed, angles, np.arange(512) % 2 == 0)
    assert corrected is not None
    from dashboard.matrix import FOLDER

    page = chromium.new_page()
    try:
        got = page.evaluate(
            """([source, text]) => {
              const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
              const decode = new Function(source + "; return decode;")();
              const written = (values) => {
                let said = "";
                for (const byte of new Uint8Array(values.buffer)) said += String.fromCharCode(byte);
                return btoa(said);
              };
              return decode(bytes).panels.map((panel) => [panel.kind, written(panel.values)]);
            }""",
            [
                (FOLDER / "data.js").read_text(encoding="utf-8"),
                base64.b64encode(sent(now, corrected, minus(now, then))).decode(),
            ],
        )
    finally:
        page.close()
    difference = (ours.astype(float) - theirs.astype(float)).astype(np.float32)
    for (kind, text), expected in zip(got, (ours, changed, difference), strict=True):
        assert kind == "full"
        assert same(np.frombuffer(base64.b64decode(text), "<f4"), expected.reshape(-1))


def sizes(at: object) -> list[int]:
    found = at.get("bidi_component")  # type: ignore[attr-defined]
    return [len(one.proto.bytes) for one in found if "matrix_row" in one.proto.component_name]


@pytest.mark.parametrize("link", [{}, {"dim": "1024"}, {"sinusoidal.layout": "half"}])
def test_encoding_sends_no_entry_that_a_turn_gives(link: dict[str, str]) -> None:
    at = visit("encoding", link, **opened("first entries"))
    dim = int(link.get("dim", 512))
    (first, _), (second, _) = rows_of_matrices(at)[:2]
    kinds = {panel["title"]: panel["kind"] for panel in first["panels"] + second["panels"]}
    assert kinds == {"Learned": "full", "Sinusoidal": "waves", "RoPE": "waves"}
    whole = {"learned": 4 * 128 * 128, "sinusoidal": 32 * min(dim, 512), "rope": 32 * dim // 8}
    for size, kind in zip(sizes(at), (("learned", "sinusoidal"), ("rope",)), strict=False):
        assert size < sum(whole[one] for one in kind) + 4_000  # and what is written around them
    numbers = table(at, "first entries")
    drawn = rows_of_matrices(at)[0][1]["Sinusoidal"]
    for one in numbers[numbers["scheme"] == "Sinusoidal"].itertuples():
        assert drawn[one.position, one.column] == np.float32(one.value)


def test_beside_a_pinned_setting_the_difference_is_not_sent_either() -> None:
    at = visit("encoding", {"a": "base~500"})
    rows = rows_of_matrices(at)
    of = {
        header["name"]: {panel["title"]: panel["kind"] for panel in header["panels"]}
        for header, _ in rows
    }
    assert of["encoding_entry_change"]["Sinusoidal"] == "difference"
    (now, then, change) = (
        next(found for header, found in rows if header["name"] == f"encoding_entry{end}")
        for end in ("", "_pinned", "_change")
    )
    expected = (now["Sinusoidal"] - then["Sinusoidal"]).astype(np.float32)
    assert np.array_equal(change["Sinusoidal"], expected)
    assert max(sizes(at)) < 120_000


def test_rounded_tables_and_scaled_rotations_travel_in_full() -> None:
    at = visit("encoding", {"precision": "bfloat16", "schemes": ["Sinusoidal"]})
    ((header, found), *_) = rows_of_matrices(at)
    assert header["panels"][0]["kind"] == "full"
    assert found["Sinusoidal"].shape == (256, 512)


def test_a_cell_of_the_page_reads_as_the_library_computes_it(visitor: Callable[..., Visit]) -> None:
    page = visitor().open("encoding?schemes=Sinusoidal&length=64")
    plot = row(page, "encoding_entry").locator(".plot").first
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    text = row(page, "encoding_entry").locator(".readout").first.inner_text()
    place, value = text.replace("(", "").split(")")
    i, j = (int(part) for part in place.split(","))
    exact = sinusoidal_table(64, 512, 10_000.0, dtype=torch.float32)[i, j].item()
    assert np.float32(value.replace("=", "").replace(":", "").strip()) == np.float32(exact)
