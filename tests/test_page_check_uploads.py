"""Check my encoding: uploads good and hostile, held, named, and read again by their script."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from dashboard import check, pinned
from dashboard.choices import CheckChoice
from dashboard.scripts.check_my_encoding import script
from posenc import Setting
from posenc.interop import held_numbers
from tests.check_page import PAGE, SMALL, beside, compare, give, npy, said, waves
from tests.crafted_files import zipped_pickle
from tests.pages import as_read, captions, charts, drawn, headline, notices, rows_of_matrices, visit
from tests.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_an_uploaded_table_is_identified_and_its_link_opens_it() -> None:
    cos, sin = waves(100, 32, 500.0, start=1)
    at = drawn(give(npy(beside(sin, cos).astype(np.float32)), "mine.npy"))
    text = "Sinusoidal, base 500, sine and cosine side by side, from position 1."
    assert as_read(headline(at)) == text
    assert "From mine.npy." in captions(at)
    name = at.selectbox(key="table").value
    assert name.startswith("array-")
    assert at.main.get("file_uploader")[0].value is None  # the bytes are gone
    other = drawn(visit(PAGE, {"table": name}))
    assert as_read(headline(other)) == text
    assert notices(other) == []
    # The numbers are those of the file, whatever the sidebar says.
    assert as_read(headline(drawn(visit(PAGE, {"table": name, "base": "77", "dim": "8"})))) == text
    again = drawn(give(npy(beside(sin, cos).astype(np.float32)), "mine.npy"))
    assert again.selectbox(key="table").value == name
    at.selectbox(key="table").set_value("sinusoidal").run()
    assert "base 10,000" in headline(drawn(at))
    assert name in at.selectbox(key="table").options


def test_an_upload_is_checked_at_once_and_the_verdict_of_the_sample_is_gone() -> None:
    at = drawn(visit(PAGE, SMALL, check_upload=True))
    assert any("Nothing departs" in text for text in said(at))
    noise = np.random.default_rng(0).normal(size=(40, 6))
    at.main.get("file_uploader")[0].set_value(("noise.npy", npy(noise), "")).run()
    assert not at.main.button  # nothing to press
    assert headline(drawn(at)).startswith("None of these")
    assert "From noise.npy." in captions(at)
    assert not any("Nothing departs" in text for text in said(at))


def test_another_table_may_be_chosen_while_a_file_of_several_stands() -> None:
    cos, sin = waves(64, 16, 300.0)
    several = save({"a.pe": beside(sin, cos), "b.weight": cos @ sin.T})
    at = drawn(give(several, "model.safetensors"))
    assert as_read(headline(at)).startswith("Sinusoidal, base 300")
    at.selectbox(key="table").set_value("sinusoidal").run()
    assert "base 10,000" in headline(drawn(at))


def test_the_largest_error_of_bfloat16_angles_leads() -> None:
    """Worked by NumPy: the exact sinusoids beside those of angles rounded to bfloat16."""
    ladder = torch.tensor([1e4 ** (-2 * m / 32) for m in range(16)]).bfloat16()
    angles = torch.arange(300).bfloat16()[:, None] * ladder
    table = torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float().numpy()
    cos, sin = waves(300, 32)
    error = np.abs(table - beside(sin, cos))
    row, column = np.unravel_index(error.argmax(), error.shape)
    assert error.max() > 0.9  # sines and cosines stay within 1
    at = drawn(give(npy(table), "bf16.npy"))
    text = as_read(headline(at))
    assert text.startswith(
        f"Largest error {error.max():.3g}, in row {row:,}, column {column:,}. Sinusoidal, base 10,000, "
    )


def test_cosines_and_sines_may_come_in_two_files_in_one_or_complex() -> None:
    cos, sin = waves(64, 16)
    files = {
        "two": give(npy(cos), "cos.npy", npy(sin)),
        "one": give(npy(np.stack((cos, sin)))),
        "complex": give(npy(cos + 1j * sin)),
        "named": give(save({"rope.cos": cos, "rope.sin": sin}), "cache.safetensors"),
    }
    for way, at in files.items():
        assert as_read(headline(drawn(at))).startswith(
            "RoPE, base 10,000, cosines and sines, one of each for a pair"
        ), way
    assert "From cos.npy and sines.npy." in captions(files["two"])


def test_one_of_several_tensors_is_chosen() -> None:
    cos, sin = waves(64, 16)
    tensors = {
        "head.weight": np.random.default_rng(0).normal(size=(30, 7)),
        "pos.pe": beside(sin, cos),
    }
    at = give(save(tensors), "model.safetensors")
    (box,) = [one for one in at.main.selectbox if one.label == "Several tables"]
    assert box.options == ["pos.pe", "head.weight"]
    box.set_value("head.weight").run()
    assert "None of these" in headline(drawn(at))


HOSTILE = {
    "pickle": (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
    "empty": (b"", ""),
    "text": (b"no table at all, just some text that somebody saved", ""),
    "objects": (b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '|O', 'fortran_order': False, "
                b"'shape': (2, 2), }".ljust(69) + b"\n" + bytes(32), ""),
    "cut": (npy(np.zeros((9, 4)))[:-8], "bytes"),
    "NaN": (npy(np.full((9, 4), np.nan)), "finite"),
    "integers": (npy(np.zeros((9, 4), int)), "floating-point"),
    "one row": (npy(np.zeros((1, 4))), "2 rows or more"),
    "four axes": (npy(np.zeros((2, 3, 2, 3))), "rows"),
    "no numbers": (npy(np.zeros((0, 4))), ""),
    "too wide": (npy(np.zeros((2, 20_000), np.float32)), "16,384 columns"),
    "a zip": (b"PK\x05\x06" + bytes(18), "a zip archive, not a .npy file or a .safetensors checkpoint."),
    "a bomb": (b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': "
               b"(9999999,9999),}"[:69].ljust(69) + b"\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(name: str) -> None:
    content, words = HOSTILE[name]
    at = give(content, "strange](http://evil.example).npy")
    assert not at.exception
    (box,) = at.error
    text = as_read(box.value)
    assert text.startswith("strange](http://evil.example).npy: "), text
    assert words in text
    assert "\n" not in text
    assert "Traceback" not in text
    assert at.selectbox(key="table").value == "sinusoidal"
    # The sample's answer does not stand beside a file that was not read.
    assert as_read(headline(at)) == "strange](http://evil.example).npy cannot be checked."
    assert len(charts(at)) == 0
    assert not any("Nothing departs" in text for text in said(at))
    at.run()
    assert as_read(headline(at)).endswith("cannot be checked.")
    at.selectbox(key="table").set_value("starts at 1").run()
    assert "from position 1" in headline(at)  # what was chosen since is shown


def test_sines_of_another_shape_are_refused_and_flat_tables_are_not() -> None:
    cos, sin = waves(64, 16)
    at = give(npy(cos), "cos.npy", npy(sin[:40]))
    (box,) = at.error
    assert "one shape" in as_read(box.value)
    at = give(npy(cos), "cos.npy", zipped_pickle({"a": torch.zeros(2)}))
    assert as_read(at.error[0].value).startswith("sines.npy: ")
    assert as_read(headline(at)) == "sines.npy cannot be checked."
    constant = drawn(give(npy(np.zeros((9, 4)))))
    assert "None of these" in headline(constant)


def test_a_link_to_an_upload_that_is_gone_asks_for_it_and_shows_nothing_instead() -> None:
    at = drawn(visit(PAGE, {"table": "array-0123456789ab"} | SMALL))
    assert at.selectbox(key="table").value == "array-0123456789ab"
    assert notices(at) == [
        "The uploaded table array-0123456789ab is not held by this server; upload its file again. "
        "Nothing is shown in its place."
    ]
    assert as_read(headline(at)) == check.NOTHING
    assert len(charts(at)) == 0
    assert len(rows_of_matrices(at)) == 1  # of the layouts
    at.selectbox(key="table").set_value("starts at 1").run()
    assert "from position 1" in headline(drawn(at))


def test_what_is_held_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.interop.held import Held
    from posenc.interop.number_tables import NumberTable

    def within(most: int, most_bytes: int) -> None:
        own = Held(most, most_bytes, held_numbers._held._size)
        monkeypatch.setattr(held_numbers, "_held", own)

    def hold(value: float, rows: int = 4) -> str:
        return held_numbers.hold_numbers(NumberTable(torch.full((rows, 4), value), None, ""), "x")

    within(3, 10_000)
    names = [hold(float(n)) for n in range(5)]
    assert [held_numbers.are_held(name) for name in names] == [False, False, True, True, True]
    within(3, 200)  # bytes: 128 of eight rows and 64 of four
    names = [hold(float(n)) for n in range(3)]
    last = hold(9.0, 8)
    assert held_numbers.are_held(last)
    assert sum(held_numbers.are_held(name) for name in names) == 1
    monkeypatch.setattr(held_numbers, "MOST_NUMBERS", 16)
    cut = held_numbers.held_numbers(hold(9.0, 8))
    assert cut.table.shape == (4, 4)
    assert cut.notes == ("Only the first 4 of 8 rows are looked at.",)
    assert len({hold(1.0), hold(1.0), hold(2.0)}) == 2


def test_an_upload_beside_a_pin_is_the_same_for_both() -> None:
    cos, sin = waves(50, 16)
    name = drawn(give(npy(beside(sin, cos)))).selectbox(key="table").value
    at = drawn(visit(PAGE, {"table": name, "a": pinned.written(Setting(base=500.0))}))
    assert "The same of the pinned setting, A: no change." in captions(at)


def _uploads() -> dict[str, tuple[str, bytes, bytes | None]]:
    cos, sin = waves(50, 16, 123.0)
    several = save({"a.pe": beside(sin, cos), "b.weight": cos @ sin.T})
    return {
        "one file of both": ("cache.npy", npy(np.stack((cos, sin))), None),
        "two files": ("it's cos.npy", npy(cos), npy(sin)),
        "one of several tensors": ("model.safetensors", several, None),
        "random numbers": ("r.npy", npy(np.random.default_rng(0).normal(size=(40, 6))), None),
    }


@pytest.mark.parametrize("way", list(_uploads()))
def test_the_script_of_an_upload_reads_its_owner_s_files(way: str, tmp_path: Any) -> None:
    name, content, sines = _uploads()[way]
    at = drawn(give(content, name, sines))
    chosen = CheckChoice(table=at.selectbox(key="table").value)
    setting = Setting(seed=3)
    found = check.read(setting, chosen)
    assert found.answer is not None
    text = script(setting, chosen)
    assert chosen.table in text
    for file, held in ((name, content), ("sines.npy", sines)):
        if held is not None:
            (tmp_path / file).write_bytes(held)
            assert repr(file) in text
            text = text.replace(repr(file), repr(str(tmp_path / file)))
    ran = run(text)
    assert ran.returncode == 0, ran.stderr
    table, probes = ran.stdout.split("\n\n")
    compare(table, found.answer.found)
    compare(probes, found.told[0].numbers.iloc[[0, 2]])
    gone = script(setting, CheckChoice(table="array-0123456789ab"))
    assert "read_number_table('table.npy')" in gone


def test_a_reading_is_kept_by_the_content_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from dashboard import check_readings, check_uploads

    asked = []
    monkeypatch.setattr(check_readings, "_kept", type(check_readings._kept)())
    real = check_uploads.read_number_table
    monkeypatch.setattr(
        check_uploads, "read_number_table", lambda *given: asked.append(1) or real(*given)
    )
    rows = np.random.default_rng(2).normal(size=(30, 4))
    at = give(npy(rows))
    assert len(asked) == 1
    at.selectbox(key="table").set_value("random numbers").run()
    drawn(at)
    give(npy(rows), "another name.npy")
    assert len(asked) == 1
    give(npy(rows + 1))
    assert len(asked) == 2
    broken = give(npy(rows * math.nan))
    assert len(asked) == 3
    broken.run()
    assert len(asked) == 3
    assert "finite" in as_read(broken.error[0].value)
    monkeypatch.setattr(check_readings, "MOST_READINGS", 2)
    give(npy(rows + 2))
    assert len(check_readings._kept) == 2


def test_what_is_left_out_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_numbers, "MOST_NUMBERS", 64)
    rows = np.random.default_rng(0).normal(size=(40, 4))
    rows[20:] = np.nan  # past what is held
    at = give(npy(rows))
    assert not at.error
    assert any("Only the first 16 of 40 rows are looked at." in text for text in captions(at))


def test_the_name_of_an_upload_is_made_of_all_that_is_shown_of_it() -> None:
    from posenc.interop.number_tables import NumberTable

    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))

    def name(numbers: torch.Tensor = table, source: str = "a.npy", *notes: str, **how: Any) -> str:
        return held_numbers.hold_numbers(NumberTable(numbers, None, "", notes), source, **how)

    assert name() == name(table.clone())
    others = [
        name(table + 1),
        name(table.double()),
        name(table.reshape(4, 6)),
        name(table, "b.npy"),
        name(table, "a.npy", "Noted."),
        name(files=("a.npy",)),
        name(tensor="wpe"),
    ]
    assert len({name(), *others}) == 8


def test_a_visitor_is_never_told_the_name_of_another_s_file() -> None:
    """Equal numbers of two visitors, either first: each reads and takes away a file name of their own."""
    secret, own = "secret-client.npy", "table.npy"
    content = npy(np.random.default_rng(11).normal(size=(24, 6)))
    visitors = [drawn(give(content, name)) for name in (secret, own)]
    chosen = [at.selectbox(key="table").value for at in visitors]
    for at, name, other in zip(visitors, (secret, own), (own, secret), strict=True):
        drawn(at.run())
        assert f"From {name}." in captions(at)
        shown = [as_read(one.value) for one in [*at.caption, *at.markdown, *at.info, *at.selectbox]]
        assert not any(other in text for text in shown)
        taken = script(
            at.session_state["setting"], CheckChoice(table=at.selectbox(key="table").value)
        )
        assert repr(name) in taken
        assert other not in taken
    assert chosen[0] != chosen[1]
    # What is asked of the same name says nothing of the other either.
    for name, file in zip(chosen, (secret, own), strict=True):
        answer = check.read(Setting(), CheckChoice(table=name)).answer
        assert answer is not None
        assert answer.about[0] == f"From {file}."
