"""Check my encoding in a real browser: a file is uploaded, told for what it is, and shared by its link."""

import io

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser import Visit, headline, row, settled
from tests.browser_page import alerts

pytestmark = pytest.mark.browser


def test_an_uploaded_table_is_told_and_its_link_opens_for_somebody_else(visitor: Visit) -> None:
    angles = np.arange(1, 91)[:, None] * 700.0 ** (-np.arange(0, 24, 2) / 24)
    file = io.BytesIO()
    np.save(file, np.stack((np.sin(angles), np.cos(angles)), -1).reshape(90, 24).astype(np.float32))
    somebody = visitor()
    page = somebody.open("check_my_encoding?dim=64&length=32")
    expect(headline(page)).to_contain_text("Sinusoidal, base 10,000")
    expect(page.get_by_text("Nothing departs from the formula")).to_be_visible()
    main = page.get_by_test_id("stMain")
    main.locator("summary").filter(has_text="Check a file of your own").click()
    picked = main.locator("input[type=file]").first
    picked.set_input_files(
        {"name": "bad.npy", "mimeType": "application/octet-stream", "buffer": b"no table"}
    )
    # The answer to the sample does not stand beside a file that cannot be read.
    expect(headline(page)).to_have_text("bad.npy cannot be checked.")
    expect(page.get_by_text("Nothing departs from the formula")).to_have_count(0)
    settled(page)
    picked.set_input_files(
        {"name": "mine.npy", "mimeType": "application/octet-stream", "buffer": file.getvalue()}
    )
    said = "Sinusoidal, base 700, sine and cosine side by side, from position 1."
    expect(headline(page)).to_have_text(said)
    settled(page)
    expect(page.get_by_text("Row 0 stands for position 1, not for 0.")).to_be_visible()
    assert "table=array-" in page.url
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    expect(headline(other)).to_have_text(said)
    expect(other.get_by_text("From mine.npy.")).to_be_visible()
    expect(row(other, "check_tables").locator("canvas[role=img]")).to_have_count(2)
