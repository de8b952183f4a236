"""Tables of sines and cosines sent as one angle per column, and computed in the browser."""

import base64

import numpy as np
import pytest
import torch
from playwright.sync_api import Page

from dashboard.components.matrix import Panel, Row, Scale, Waves, minus
from dashboard.components.matrix.component import FOLDER
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


def test_waves_are_the_table_to_the_last_bit_but_one_and_travel_as_angles() -> None:
    table, waves = sinusoidal(512, 64, 1e8)
    np.testing.assert_allclose(waves.dense(), table, rtol=0, atol=2.0**-23)
    assert waves.words.size == 4 * 64


def test_a_table_of_other_numbers_is_no_waves() -> None:
    table, _ = sinusoidal(40, 16)
    changed, blank = table.copy(), table.copy()
    changed[3, 5], blank[39, 15] = 0.125, np.nan
    rounded = torch.from_numpy(table).bfloat16().float().numpy()
    assert [waves_of(other) for other in (2 * table, rounded, changed, blank)] == [None] * 4


@pytest.mark.browser
def test_browser_computes_the_same_table(page: Page) -> None:
    (_, now), (_, then) = sinusoidal(256, 512, 123.4), sinusoidal(256, 512)
    panels = [Panel(title="", values=values) for values in (now, minus(now, then))]
    sent = Row(panels=panels, key="waves", scale=Scale(-1.0, 1.0), text_alternative="waves")
    computed = page.evaluate(
        """([source, text]) => {
          const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
          const decode = new Function(source + "; return decode;")();
          return decode(bytes).panels.map((panel) => [...panel.values]);
        }""",
        [(FOLDER / "data.js").read_text("utf-8"), base64.b64encode(encode(sent)).decode()],
    )
    for values, expected in zip(computed, (now.dense(), now.dense() - then.dense()), strict=True):
        np.testing.assert_allclose(values, expected.reshape(-1), rtol=0, atol=2.0**-22)
