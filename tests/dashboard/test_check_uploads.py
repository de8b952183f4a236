"""Check my encoding: uploads of every form, refused files, links, the script."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from dashboard import visitor_files
from dashboard.blocks import Chart, Text
from dashboard.pages.check_my_encoding import decoding, identified
from dashboard.pages.check_my_encoding.examples import NO_TABLE
from dashboard.pages.check_my_encoding.options import DECODING, Options
from dashboard.pages.check_my_encoding.page import page
from dashboard.pages.check_my_encoding.script import script
from dashboard.settings import Setting
from dashboard.state import to_token
from tests.dashboard import pages
from tests.dashboard.called_pages import blocks
from tests.dashboard.checked_tables import PAGE, SETTING, SMALL, open_uploader, upload
from tests.dashboard.independent_kernels import interleaved, waves
from tests.dashboard.pages import as_read, charts, drawn, headline, visit
from tests.dashboard.script_runner import assert_prints, run
from tests.library.crafted_files import npy, zipped_pickle

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_uploaded_table_replaces_the_example_and_its_link_opens_it() -> None:
    cos, sin = waves(100, 32, 500.0, start=1)
    at = open_uploader()
    upload(at, npy(np.random.default_rng(0).normal(size=(40, 6))), "noise.npy")
    assert as_read(headline(drawn(at))).startswith(
        "noise.npy: No known formula"
    )  # a file is checked at once
    drawn(upload(at, npy(interleaved(sin, cos).astype(np.float32)), "mine.npy"))
    sentence = as_read(headline(at))
    off = max(np.abs(np.diff(part, axis=0)).max() for part in waves(101, 32, 500.0))
    assert sentence.startswith(
        f"mine.npy: Not as published, wrong by up to {off:.3g}: row 0 stands for position 1, not for 0. "
        "Its formula: Sinusoidal, base 500"
    )
    assert "position 1" in sentence
    box: Any = at.main.get("file_uploader")[0]
    assert box.value is None  # the session does not keep the bytes
    name = str(at.selectbox(key="table").value)
    assert name.startswith("array-")
    pin = to_token(Setting(base=500.0))
    other = drawn(visit(PAGE, {"table": name, "base": "77", "dim": "64", "a": pin}))
    # Settings do not change an uploaded table.
    assert as_read(headline(other)) == sentence
    assert any("A and B have one result here" in caption.value for caption in other.caption)
    assert pages.notices(other) == []
    at.selectbox(key="table").set_value("sinusoidal").run()
    assert "base 10,000" in headline(drawn(at))
    assert at.selectbox(key="table").options[-2:] == ["noise.npy", "mine.npy"]  # by their files


def files(form: str) -> dict[str, bytes]:
    """Cosines and sines in one form, by the names of their files."""
    cos, sin = waves(64, 16, 123.0)
    return {
        "two files": {"it's cos.npy": npy(cos), "sines.npy": npy(sin)},
        "stacked": {"cache.npy": npy(np.stack((cos, sin)))},
        "complex": {"cis.npy": npy(cos + 1j * sin)},
        "named": {"cache.safetensors": save({"rope.cos": cos, "rope.sin": sin})},
        "several": {
            "m.safetensors": save({"b.weight": cos @ sin.T, "a.pe": interleaved(sin, cos)})
        },
    }[form]


@pytest.mark.parametrize("form", ["two files", "stacked", "complex", "named", "several"])
def test_upload_of_every_form_is_identified_and_read_again_by_its_script(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = open_uploader()
    for n, (name, content) in enumerate(files(form).items()):
        upload(at, content, name, sines=bool(n))
        (tmp_path / name).write_bytes(content)
    sentence = as_read(headline(drawn(at)))
    assert sentence.startswith(" and ".join(files(form)))
    scheme = "Sinusoidal" if form == "several" else "RoPE"
    assert f": Matches a known formula: {scheme}, base 123," in sentence
    choice, setting = Options(table=str(at.selectbox(key="table").value)), Setting(seed=3)
    monkeypatch.chdir(tmp_path)
    result = run(script(setting, choice))
    assert result.returncode == 0, result.stderr
    assert_prints(result.stdout, identified.answer(setting, choice.table).numbers)
    if form == "two files":
        probes = decoding.decoding(setting, choice.table).numbers.iloc[[0, 2]]
        probed = Options(part=DECODING, table=choice.table)
        assert_prints(run(script(setting, probed)).stdout, probes)
    if form == "several":
        (box,) = [box for box in at.main.selectbox if box.label == "Several tables"]
        assert box.options == ["a.pe", "b.weight"]
        box.set_value("b.weight").run()
        assert "No known formula" in headline(drawn(at))


def test_file_that_holds_no_table_is_refused_until_another_table_is_chosen() -> None:
    name = "strange](http://evil.example).npy"
    at = open_uploader()
    for content, words in (
        (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
        (npy(np.zeros((9, 4)))[:-8], "bytes"),
        (npy(np.full((9, 4), np.nan)), "finite"),
        (npy(np.zeros((2, 20_000), np.float32)), "16,384 columns"),
        (npy(np.zeros((2, 3, 2, 3))), "rows"),
    ):
        upload(at, content, name)
        assert not at.exception
        (box,) = at.error
        text = as_read(box.value)
        assert text.startswith(f"{name}: "), words
        assert words in text
        assert as_read(headline(at)) == f"{name} cannot be checked."
        # The example's answer must not look like the file's.
        assert charts(at) == []
        assert not any("Matches the formula" in box.value for box in at.main.markdown)
    at.selectbox(key="table").set_value("starts at 1").run()
    assert "from position 1" in headline(at)
    cos, sin = waves(64, 16)
    upload(at, npy(cos), "cos.npy")
    for sines, words in (
        (npy(sin[:40]), "one shape"),
        (zipped_pickle({"a": torch.zeros(2)}), "sines.npy: "),
        (npy(np.stack((cos, sin))), "holds two tables"),
    ):
        upload(at, sines, "sines.npy", sines=True)
        assert words in as_read(at.error[0].value)


def test_link_to_a_missing_upload_asks_for_it_and_shows_no_other() -> None:
    gone = "array-0123456789ab"
    shown = page(SETTING, Options(table=gone))
    assert as_read(shown.headline) == NO_TABLE
    (notice,) = [text.text for text in blocks(shown, Text) if text.look == "warning"]
    assert f"{gone} is not on this server" in as_read(notice)
    assert blocks(shown, Chart) == []
    at = drawn(visit(PAGE, {"table": gone} | SMALL))
    assert as_read(headline(at)) == NO_TABLE
    assert at.selectbox(key="table").value == gone


def test_rows_that_are_not_checked_are_left_out_of_one_of_several_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitor_files, "MAX_NUMBERS", 64)
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    rows[20:] = np.nan  # rows past the first 16 are not looked at
    at = drawn(upload(open_uploader(), save({"a.pe": rows, "b.pe": rows + 1}), "m.safetensors"))
    assert any("first 16 of 40 rows" in text for text in pages.captions(at))


def test_visitor_never_sees_the_name_of_another_visitor_s_equal_file() -> None:
    names = ("secret-client.npy", "table.npy")
    content = npy(np.random.default_rng(11).normal(size=(24, 6)))
    visitors = [upload(open_uploader(), content, name) for name in names]
    for at, name, other in zip(visitors, names, names[::-1], strict=True):
        drawn(at.run())
        assert as_read(headline(at)).startswith(f"{name}: ")
        boxes = [*at.caption, *at.markdown, *at.info, *at.selectbox]
        code = script(Setting(), Options(table=str(at.selectbox(key="table").value)))
        assert repr(name) in code
        assert not any(other in text for text in [code, *(as_read(box.value) for box in boxes)])
