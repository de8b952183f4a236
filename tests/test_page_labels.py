"""Labels on the Train page: whose start it is, who renames, hides and stops it, what is told of faults."""

import json
import os
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import run_labels, runs, visitor
from posenc.lab.estimate import Speed
from posenc.lab.labels import FOLDER, Label, Labels
from posenc.lab.queue import Queue
from posenc.lab.runs import Store
from posenc.lab.summary import comparison
from tests.page_queue import page_queue
from tests.pages import as_read, captions, drawn, visit
from tests.small_runs import CORPUS, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ANN, BOB = "ann@example.org", "bob@example.org"
LINK = {
    "schemes": "rope", "task": "copy", "run_length": "16", "steps": "3", "width": "16", "layers": "1",
    "run_heads": "2",
}  # fmt: skip


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return page_queue(tmp_path, monkeypatch, Speed(3e-3, 3e-9, 1e-9))


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
