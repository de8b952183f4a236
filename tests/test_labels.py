"""Labels of runs: whose they are, how they may read, that they survive kills, and what pages do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import streamlit as st
from click.testing import CliRunner
from hypothesis import given, strategies
from streamlit.testing.v1 import AppTest

from dashboard import run_labels, runs, training, visitor, workers
from posenc.__main__ import main
from posenc.errors import RunError
from posenc.lab.estimate import Speed
from posenc.lab.labels import FOLDER, Label, Labels, check_name, hidden, is_owner, names
from posenc.lab.queue import Queue
from posenc.lab.runs import Store
from posenc.lab.summary import comparison
from tests.pages import as_read, captions, drawn, visit
from tests.small_runs import CORPUS, made, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

RUN, OTHER = "0" * 20, "0123456789abcdef0123"
ANN, BOB = "ann@example.org", "bob@example.org"
LINK = {
    "schemes": "rope", "task": "copy", "run_length": "16", "steps": "3", "width": "16", "layers": "1",
    "run_heads": "2",
}  # fmt: skip


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


# The Train page -----------------------------------------------------------------------------------


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(workers.Workers, "ensure", lambda self: None)
    monkeypatch.setattr(training, "speed", lambda: Speed(3e-3, 3e-9, 1e-9))
    st.cache_data.clear()
    st.cache_resource.clear()
    return Queue()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> "Known":
    return Known(monkeypatch)


class Known:
    """Says who visits a shared server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        for variable, text in (
            ("POSENC_PROFILE", "shared"), ("POSENC_RUNNING", "1"), ("POSENC_WAITING", "4"),
            ("POSENC_USER_HEADER", "X-User"),
        ):  # fmt: skip
            monkeypatch.setenv(variable, text)

    def __call__(self, name: str) -> None:
        self.monkeypatch.setattr(visitor.st, "user", {visitor.KEY: name} if name else {})


def start(name: str = "", link: dict[str, str] = LINK) -> AppTest:
    at = visit("train", link)
    if name:
        at.text_input(key="run_name").set_value(name).run()
    at.button(key="start_training").click().run()
    return at


def train(queue: Queue) -> str:
    """Do what waits, and return the run."""
    from posenc.lab import worker

    with queue.taken() as entry:
        assert entry is not None
        worker.do(queue, entry)
    return entry.specifications[0].run_id


def test_a_private_server_names_and_hides_all_of_its_own(queue: Queue) -> None:
    drawn(start("My first try"))
    assert "My first try." in captions(visit("train"))
    run = train(queue)
    at = drawn(visit("train", own_runs=True))
    assert any(text.startswith("My first try. Task: ") for text in captions(at))
    at.text_input(key=f"own_name_{run}").set_value("Renamed").run()
    at.button(key="own_rename").click().run()
    assert Labels().all() == {run: (Label(run, "", "Renamed"),)}
    assert any(text.startswith("Renamed. Task: ") for text in captions(at))
    at.button(key="own_hide").click().run()
    assert Labels().all()[run][0].hidden
    assert "Finished on this server" not in [box.value for box in drawn(at).subheader]
    assert Store().ids() == [run]
    name = comparison(Store().read(run).specification)
    linked = drawn(
        visit("extrapolation", {"half": "measured", "comparison": name, "schemes": "rope"})
    )
    assert "Nothing" not in linked.main.markdown[0].value
    assert not [box.value for box in linked.warning]
    assert name in linked.session_state["comparison"]
    other = drawn(visit("extrapolation", {"half": "measured"}))
    offered = [one.options for one in other.selectbox if one.key and "comparison" in one.key]
    assert offered
    assert not any(name in option for options in offered for option in options)
    again = visit("train", LINK, own_runs=True)
    assert "1 of 1 run is there already." in captions(again)
    stale = visit("train", own_runs=True)
    again.button(key="own_show").click().run()
    assert not Labels().all()[run][0].hidden
    stale.button(key="own_show").click().run()  # of a tab that does not know yet
    assert not Labels().all()[run][0].hidden
    hide = stale.button(key="own_hide")
    again.button(key="own_hide").click().run()
    hide.click().run()
    assert Labels().all()[run][0].hidden
    drawn(stale.run())
    stale.button(key="own_show").click().run()
    assert not Labels().all()[run][0].hidden


def test_an_owner_alone_renames_hides_and_stops(queue: Queue, known: Known) -> None:
    known(ANN)
    start("Ann's".replace("'", ""))
    (entry,) = queue.entries()
    known(BOB)
    at = visit("train")
    assert f"stop_{entry.name}" not in [one.key for one in at.button]
    assert "Anns (ann@example.org)." in captions(at)
    forged = visit("train", **{f"stop_{entry.name}_asked": True})
    assert not forged.exception
    assert [one.name for one in queue.entries()] == [entry.name]
    known("")
    assert f"stop_{entry.name}" not in [one.key for one in visit("train").button]
    known(ANN)
    assert f"stop_{entry.name}" in [one.key for one in visit("train").button]
    run = train(queue)
    for stranger in (BOB, ""):
        known(stranger)
        at = visit("train", own_runs=True, own_run=run, own_hide_asked=True, own_rename_asked=True)
        assert not at.exception
        assert "own_hide" not in [one.key for one in at.button]
    assert Labels().all() == {run: (Label(run, ANN, "Anns"),)}
    known(ANN)
    at = visit("train", own_runs=True)
    at.button(key="own_hide").click().run()
    assert Labels().all() == {run: (Label(run, ANN, "Anns", hidden=True),)}
    assert Store().ids() == [run]


def test_the_start_of_one_stays_theirs_where_another_asks_for_the_same(
    queue: Queue, known: Known
) -> None:
    known(ANN)
    page_of_bob = visit("train", LINK)
    start("First")
    known(BOB)
    page_of_bob.text_input(key="run_name").set_value("Second").run()
    assert len(queue.entries()) == 1
    run = train(queue)
    assert {label.owner: label.name for label in Labels().all()[run]} == {ANN: "First"}


def test_nobody_known_may_name_a_start_once_and_change_nothing(queue: Queue, known: Known) -> None:
    known("")
    start("Of nobody")
    (entry,) = queue.entries()
    (one,) = entry.specifications
    assert Labels().all() == {one.run_id: (Label(one.run_id, "", "Of nobody"),)}
    queue.stop(entry.name)
    start("Of another")
    assert Labels().all() == {one.run_id: (Label(one.run_id, "", "Of nobody"),)}
    train(queue)
    assert "own_runs" not in [box.proto.id for box in visit("train", own_runs=True).expander]
    assert not [one for one in visit("train", own_runs=True).button if one.key == "own_hide"]


@pytest.mark.parametrize(
    "name", ["=cmd", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))"]
)
def test_a_name_that_is_more_than_text_is_said_and_starts_nothing(name: str, queue: Queue) -> None:
    at = visit("train", LINK)
    at.text_input(key="run_name").set_value(name).run()
    assert ["begins with a letter" in as_read(box.value) for box in at.error] == [True]
    assert "start_training" not in [one.key for one in at.button]
    assert queue.entries() == []


def test_an_owner_s_name_is_literal_text(queue: Queue, known: Known) -> None:
    name = "![x](http://evil.example/p.png)**b**"
    known(name)
    start("Fine")
    shown = [text.value for text in visit("train").main.caption if "evil" in text.value]
    assert shown
    assert all("![x](" not in text and "](http" not in text for text in shown)


def stoppable() -> bool:
    (entry,) = Queue().entries()
    buttons = [one.key for one in drawn(visit("train")).button]
    assert (f"stop_{entry.name}" in buttons) == run_labels.may_stop(entry)
    return f"stop_{entry.name}" in buttons


def test_the_owner_of_a_start_alone_stops_it_also_while_labels_cannot_be_written_or_read(
    queue: Queue, known: Known
) -> None:
    place = Path(os.environ["POSENC_RUNS"])
    place.mkdir(parents=True)
    (place / FOLDER).write_text("in the way")
    known(ANN)
    at = start("Mine")
    assert [one.value for one in at.toast] == ["It is started, but its name cannot be kept now."]
    assert run_labels.known() == {}
    for person, may in ((ANN, True), (BOB, False), ("", False)):
        known(person)
        assert stoppable() is may
    (entry,) = queue.entries()
    assert entry.owner == ANN


def test_a_bucket_s_labels_do_not_decide_who_stops_and_show_at_once(
    queue: Queue, known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_RUNS", f"memory://labels-{tmp_path.name}")
    assert run_labels.known() == {}  # believed for seconds
    known(BOB)
    (one,) = [small("rope", task="copy")]
    run_labels.started([one], "Bobs")
    assert run_labels.called([one]) == "Bobs (bob@example.org)"
    queue.add([one], owner=ANN)
    for person, may in ((BOB, False), ("", False), (ANN, True)):
        known(person)
        assert stoppable() is may


def test_the_same_start_pressed_by_two_is_the_first_one_s(queue: Queue, known: Known) -> None:
    one = small("rope", task="copy")
    for person in (ANN, BOB, ""):
        queue.add([one], owner=person)
        known(person)
        run_labels.started([one], "Ours")
    for person, may in ((BOB, False), ("", False), (ANN, True)):
        known(person)
        assert stoppable() is may


def test_a_start_of_before_owners_were_kept_is_theirs_whom_its_labels_name(
    queue: Queue, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = small("rope", task="copy")
    path = queue.folder / f"{queue.add([one])}.json"
    said = json.loads(path.read_text())
    del said["owner"]
    path.write_text(json.dumps(said))
    known("")
    assert stoppable()  # of nobody
    Labels().add(Label(one.run_id, ANN, "Mine"))
    Labels().add(Label(one.run_id, "", "At a shell"))
    for person, may in (("", False), (BOB, False), (ANN, True)):
        known(person)
        assert stoppable() is may
    labels = Path(os.environ["POSENC_RUNS"]) / FOLDER
    labels.rename(labels.with_name("elsewhere"))
    labels.write_text("in the way")
    st.cache_resource.clear()
    for person in ("", BOB, ANN):
        known(person)
        assert not stoppable()  # nobody can tell whose it is
    for variable in ("POSENC_PROFILE", "POSENC_USER_HEADER"):
        monkeypatch.delenv(variable)
    known("")
    assert stoppable()  # the one person of a private server


def test_labels_that_cannot_be_read_leave_the_page_whole(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add([small(task="copy")], text_name=CORPUS.name)
    place = Path(os.environ["POSENC_RUNS"])
    place.mkdir(parents=True)
    (place / FOLDER).write_text("in the way")
    assert run_labels.known() == {}
    drawn(visit("train"))
    assert runs.listed(run_labels.hidden_runs()) == runs.known()
