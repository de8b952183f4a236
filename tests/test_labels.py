"""Labels of runs: whose they are, how they may read, that they survive kills, and their command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies

from posenc.__main__ import main
from posenc.errors import RunError
from posenc.lab.labels import FOLDER, Label, Labels, check_name, hidden, is_owner, names
from posenc.lab.runs import Store
from tests.small_runs import made

pytestmark = pytest.mark.usefixtures("no_shape_checks")

RUN, OTHER = "0" * 20, "0123456789abcdef0123"
ANN, BOB = "ann@example.org", "bob@example.org"


# The library --------------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, and what stands for a bucket: files behind fsspec."""
    return str(tmp_path) if request.param == "folder" else f"memory://labels-{tmp_path.name}"


def test_a_label_is_read_back_by_another_server(place: str) -> None:
    ours, theirs = Labels(place), Labels(place)
    assert ours.all() == {}
    assert ours.add(Label(RUN, ANN, "First try"))
    assert theirs.all() == {RUN: (Label(RUN, ANN, "First try"),)}
    theirs.change(RUN, ANN, name="Second try")
    assert ours.all() == {RUN: (Label(RUN, ANN, "Second try"),)}
    assert not ours.add(Label(RUN, ANN, "Third"))
    assert ours.of(RUN, ANN) == Label(RUN, ANN, "Second try")


def test_nobody_changes_the_label_of_another(place: str) -> None:
    labels = Labels(place)
    labels.add(Label(RUN, ANN, "Mine"))
    for owner in (BOB, "", "Ann@example.org", ANN + "x"):
        for change in ({"name": "Theirs"}, {"hidden": True}, {"name": ""}):
            with pytest.raises(RunError, match="not yours"):
                labels.change(RUN, owner, **change)
    labels.put(Label(RUN, BOB, "Another way", hidden=True))
    assert set(labels.all()[RUN]) == {
        Label(RUN, ANN, "Mine"),
        Label(RUN, BOB, "Another way", hidden=True),
    }


def test_a_run_is_hidden_once_all_of_its_owners_hid_it(place: str) -> None:
    labels = Labels(place)
    labels.add(Label(RUN, ANN, "A"))
    labels.add(Label(RUN, BOB, "B"))
    assert not hidden(labels.all()[RUN])
    labels.change(RUN, ANN, hidden=True)
    assert not hidden(labels.all()[RUN])
    assert names(labels.all()[RUN]) == ("B",)
    labels.change(RUN, BOB, hidden=True)
    assert hidden(labels.all()[RUN])
    assert names(labels.all()[RUN]) == ()
    assert not hidden(())
    labels.change(RUN, BOB, hidden=False)
    assert not hidden(labels.all()[RUN])


GOOD = [
    "a",
    "A run",
    "3 layers, base 500 (again)",
    "_x",
    "Ünïcode-1.0",
    "x" * 64,
    "名前",
    "हिन्दी",
    "ไทยดี",
]
BAD = [
    "=cmd", "+1", "-1", "@x", " x", "x\n", "\tx", "<b>", "[a](b)", "a*b", "a`b", "x" * 65, "$x$", "a/b",
    "a:b", "a|b", "a\u202eb", "a\0b", "'x", '"x"', "(x", ".x", ",x", "a\r\nb", "a=b", "&amp;",
    "\u0301x", "x\u0300\u0301\u0302\u0303",
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_name_of_words_is_kept_as_it_is(name: str, tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    labels.add(Label(RUN, ANN, check_name(name)))
    assert names(labels.all()[RUN]) == (name,)


def test_a_name_is_kept_with_its_letters_composed() -> None:
    assert check_name("Zoe\u0308 1") == "Zo\u00eb 1"


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_be_more_than_text_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="begins with a letter, a digit or _"):
        check_name(name)
    with pytest.raises(RunError):
        Label(RUN, ANN, name)
    labels = Labels(tmp_path)
    labels.add(Label(RUN, ANN, "Good"))
    with pytest.raises(RunError):
        labels.change(RUN, ANN, name=name)
    assert names(labels.all()[RUN]) == ("Good",)


@given(strategies.text(max_size=80))
def test_no_name_begins_a_formula_or_holds_what_formats(text: str) -> None:
    try:
        check_name(text)
    except RunError:
        return
    assert text[0].isalnum() or text[0] == "_"
    assert not set(text) & set("=+@<>[]*`$|:/\\\"'\n\r\t#!~&")
    assert len(text) <= 64


@pytest.mark.parametrize("run_id", ["", "../x", "0" * 19, "0" * 21, "G" * 20, "0" * 19 + "\n"])
def test_a_label_is_of_a_run_and_of_no_other_file(run_id: str) -> None:
    with pytest.raises(RunError, match="20 hexadecimal"):
        Label(run_id)


def test_an_owner_is_short_and_can_be_seen() -> None:
    for good in (ANN, "Ann Example", "ann", "Łukasz", "x" * 128):
        assert is_owner(good)
    for bad in ("", " ", " ann", "a\nb", "a\u202eb", "a\u2028b", "a\0", "x" * 129):
        assert not is_owner(bad)


def test_what_is_no_label_is_passed_over(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    labels.add(Label(RUN, ANN, "Good"))
    whole = Label(OTHER, BOB, "x")
    path = tmp_path / FOLDER / whole.file_name
    fine = {"run": OTHER, "owner": BOB, "name": "x", "hidden": False}
    for content in (
        b"", b"{", b"[]", b"null", b"[" * 50_000, b"\xff", b" " * 5_000,
        json.dumps(fine | {"run": RUN}).encode(),
        json.dumps(fine | {"owner": ANN}).encode(),
        json.dumps(fine | {"name": "=x"}).encode(),
        json.dumps({**fine, "name": None, "owner": 3}).encode(),
    ):  # fmt: skip
        path.write_bytes(content)
        assert labels.all() == {RUN: (Label(RUN, ANN, "Good"),)}
    path.write_text(json.dumps(fine))
    assert labels.all()[OTHER] == (whole,)
    (tmp_path / FOLDER / "notes.txt").write_text("x")
    assert set(labels.all()) == {RUN, OTHER}


def test_labels_and_runs_of_one_store_do_not_meet(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
    labels = Labels(store.url)
    labels.add(Label(run.run_id, ANN, "Mine"))
    labels.change(run.run_id, ANN, hidden=True)
    assert Store(store.url).ids() == [run.run_id]
    assert {path: path.read_bytes() for path in before} == before
    assert [one.run_id for one in Store(store.url)] == [run.run_id]


WRITER = """
import sys
from posenc.lab.labels import Label, Labels
labels = Labels(sys.argv[1])
n = 0
while True:
    labels.put(Label("0" * 20, "ann", f"{'x' * (n % 50 + 1)}"))
    n += 1
    if n == 20: print("ready", flush=True)
"""


def test_a_kill_leaves_the_old_name_or_the_new_one(tmp_path: Path) -> None:
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "POSENC_SHAPES": "0"},
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        (label,) = Labels(tmp_path).all()[RUN]
        assert set(label.name) == {"x"}


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(RunError, match=r"^The store of runs cannot be written: .+\.$"):
        labels.put(Label(RUN))


# The command line ---------------------------------------------------------------------------------


def test_the_command_names_hides_and_lists(tmp_path: Path) -> None:
    store, run = made(tmp_path, "none", task="copy")

    def told(*words: str, status: int = 0) -> str:
        ran = CliRunner().invoke(main, [*words, "--store", store.url])
        assert ran.exit_code == status, ran.output
        return ran.output

    assert told("label", run.run_id, "--name", "First try", "--owner", "ann") == (
        f"{run.run_id}  First try for ann\n"
    )
    assert "First try (ann)" in told("runs")
    assert told("label", run.run_id, "--hide", "--owner", "ann").endswith(", hidden\n")
    listed = told("runs")
    assert f"{run.run_id}  copy-16" not in listed
    assert "1 hidden: --hidden lists them, too." in listed
    assert "First try (ann), hidden" in told("runs", "--hidden")
    assert "hidden" not in told("label", run.run_id, "--show", "--owner", "ann")
    said = told("label", run.run_id, "--hide", "--owner", "bob")
    assert said.endswith("It stays in lists: ann shows it (--owner says for whom it is hidden).\n")
    assert "stays" not in told("label", run.run_id, "--hide", "--owner", "ann")
    told("label", run.run_id, "--show", "--owner", "ann")
    assert "First try (ann)" in told("runs")
    assert "There is no run" in told("label", RUN, "--name", "x", status=1)
    assert "20 hexadecimal" in told("label", "../../x", "--name", "x", status=1)
    assert "begins with a letter" in told("label", run.run_id, "--name", "=x", status=1)
    assert "Say what to change" in told("label", run.run_id, status=1)
