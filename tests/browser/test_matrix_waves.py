"""Tables of sines and cosines sent as waves: no bit is lost, here and in a browser.

Entries that turning rounds otherwise are sent beside the waves: what arrives is what was sent, on any
processor.
"""

import base64

import numpy as np
import pytest
import torch
from playwright.sync_api import Page

from dashboard.components.matrix import FOLDER, Difference, Panel, Row, Scale, Waves, minus
from dashboard.components.matrix.payload import encode
from posenc import sinusoidal_table
from tests.library.independent import inverse_frequencies


def waves_of(table: np.ndarray, base: float = 10_000.0) -> Waves | None:
    """Return a table as waves made from frequencies by the formula."""
    width = table.shape[1]
    angles = np.repeat([float(each) for each in inverse_frequencies(width, base)], 2)
    return Waves.of(table, angles, np.arange(width) % 2 == 0)


def sinusoidal(rows: int, width: int, base: float = 10_000.0) -> tuple[np.ndarray, Waves]:
    table = sinusoidal_table(rows, width, base, dtype=torch.float32).numpy()
    waves = waves_of(table, base)
    assert waves is not None
    return table, waves


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether every bit is the same, so that 0 is not -0."""
    return left.astype(np.float32).tobytes() == right.astype(np.float32).tobytes()


def test_sinusoidal_table_is_sent_in_a_fraction_of_its_size() -> None:
    table, waves = sinusoidal(512, 64, 1e8)
    assert same_bits(waves.dense(), table)
    assert len(waves.at) <= 1e-2 * table.size  # entries that travel beside the waves
    assert waves.words.size == 8 * 64 + 2 * len(waves.at)


def test_entries_that_differ_travel_beside_the_waves_and_other_tables_are_none() -> None:
    table, _ = sinusoidal(40, 16)
    changed = table.copy()
    changed[3, 5], changed[39, 15], changed[7, 0] = 0.125, np.nan, -0.0
    waves = waves_of(changed)
    assert waves is not None
    assert {3 * 16 + 5, 39 * 16 + 15, 7 * 16} <= {*waves.at.tolist()}
    assert same_bits(waves.first(99, 99).dense(), changed)
    assert same_bits(waves.first(8, 6).dense(), changed[:8, :6])
    rounded = torch.from_numpy(table).bfloat16().float().numpy()
    assert [waves_of(other) for other in (2 * table, rounded)] == [None] * 2


@pytest.mark.browser
def test_browser_expands_the_same_bits(page: Page) -> None:
    (ours, now), (theirs, then) = sinusoidal(256, 512, 123.4), sinusoidal(256, 512)
    changed = ours.copy()
    changed[5, 7] = 0.3
    corrected, difference = waves_of(changed, 123.4), minus(now, then)
    assert corrected is not None
    assert isinstance(difference, Difference)
    panels = [Panel(title="", values=values) for values in (now, corrected, difference)]
    sent = Row(panels=panels, key="waves", scale=Scale(-1.0, 1.0), text_alternative="waves")
    expanded = page.evaluate(
        """([source, text]) => {
          const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
          const decode = new Function(source + "; return decode;")();
          // As whole numbers: every bit, whatever it means.
          const bits = (values) => [...new Uint32Array(values.buffer)];
          return decode(bytes).panels.map((panel) => bits(panel.values));
        }""",
        [(FOLDER / "data.js").read_text("utf-8"), base64.b64encode(encode(sent)).decode()],
    )
    rounded_once = (ours.astype(float) - theirs.astype(float)).astype(np.float32)
    assert same_bits(difference.dense(), rounded_once)
    for bits, expected in zip(expanded, (ours, changed, rounded_once), strict=True):
        assert np.array_equal(np.array(bits, np.uint32), expected.view(np.uint32).reshape(-1))
