"""The Train page: what a start would take, one start for every visitor, caps, and its end."""

import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from torch import Tensor

from dashboard import run_words, training, training_board
from dashboard.text import duration
from posenc import limits
from posenc.lab import Store, from_text, specifications
from posenc.lab.entry import Progress, State
from posenc.lab.estimate import Speed, calibrate, multiplications
from posenc.lab.evaluate import evaluate, readings
from posenc.lab.model import LanguageModel
from posenc.lab.queue import Queue
from posenc.lab.summary import comparison
from posenc.lab.train import build_model
from tests.page_queue import page_queue
from tests.pages import as_read, captions, charts, drawn, headline, setting, visit
from tests.small_runs import CORPUS, sentences, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SPEED = Speed(layer=3e-3, multiplication=3e-9, reading=1e-9)
LINK = {
    "schemes": "rope,alibi", "run_length": "16", "steps": "5", "width": "16", "layers": "1",
    "run_heads": "2",
}  # fmt: skip


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """An own queue whose workers are never started, but where a test does so."""
    return page_queue(tmp_path, monkeypatch, SPEED)  # timing has a test of its own


def with_text(at: AppTest, content: bytes, name: str = "my text.txt") -> AppTest:
    (box,) = [one for one in at.file_uploader if one.key == "text_upload"]
    return box.set_value((name, content, "text/plain")).run()


def said(at: AppTest) -> list[str]:
    return [as_read(text.value) for text in at.main.markdown]


def test_a_page_or_a_link_starts_nothing(queue: Queue) -> None:
    at = drawn(visit("train", LINK | {"start_training": "true"}))
    assert queue.entries() == []
    assert not queue.folder.exists()
    assert "Nothing is being trained on this server." in captions(at)


def test_the_plan_says_how_much_it_is_and_how_long_it_takes(queue: Queue) -> None:
    at = drawn(visit("train", LINK | {"seeds": "2"}))
    assert setting(at).schemes == ("rope", "alibi")
    corpus = training.standard_library()
    planned = specifications(
        ("rope", "alibi"), seeds=2, widths=(16,), layers=1, heads=2, corpus=corpus,
        train_length=16, steps=5,
    )  # fmt: skip
    seconds = sum(SPEED.seconds(one) for one in planned)
    start = f"4 runs of 5 steps: **about {duration(seconds)}** on this machine, at "
    assert [text.startswith(start) for text in said(at)].count(True) == 1


def test_a_start_is_the_same_for_every_visitor_and_any_of_them_stops_it(queue: Queue) -> None:
    at, before = drawn(visit("train", LINK)), drawn(visit("train", LINK))
    at.button(key="start_training").click().run()
    drawn(at)
    (entry,) = queue.entries()
    assert [one.scheme.kind for one in entry.specifications] == ["rope", "alibi"]
    assert entry.state is State.WAITING
    assert "2 runs of this start: in training, below." in captions(at)
    assert "start_training" not in [one.key for one in at.button]
    before.button(key="start_training").click().run()  # of a page that was open: the same start
    assert len(queue.entries()) == 1
    other = drawn(visit("train"))
    assert any("RoPE and ALiBi" in text and "5 steps" in text for text in said(other))
    other.button(key=f"stop_{entry.name}").click().run()
    assert queue.entries() == []
    drawn(at.run())
    assert "Nothing is being trained on this server." in captions(at)


def test_progress_is_drawn_with_its_curve_and_the_time_left(queue: Queue) -> None:
    asked = [small(steps=100), small(steps=100, kind="alibi")]
    name = queue.add(asked, text=sentences(), text_name=CORPUS.name, estimate=120.0, reading=20.0)
    with queue.taken():
        queue.tell(
            name, Progress(run=1, step=50, began=1, seconds=98.0, points=((25, 3.0), (50, 2.0)))
        )
        at = drawn(visit("train", LINK))
        # 25 s of steps and 10 s of reading are left by the plan; steps took 4 times as long.
        assert "About 2 min left." in captions(at)
        (bar,) = at.get("progress")
        assert bar.proto.value == int(100 * (1 - 35 / 120))
        assert bar.proto.text == "run 2 of 2, ALiBi, seed 0: step 50 of 100"
        (curve,) = charts(at)
        assert curve.to_numpy().tolist() == [[25, 3.0], [50, 2.0]]
        queue.stop(name)
        at = drawn(at.run())
        (button,) = [one for one in at.button if one.key == f"stop_{name}"]
        assert (button.label, button.disabled) == ("Stopping", True)


@pytest.mark.parametrize(
    ("run", "step", "began", "seconds", "left"),
    [
        (0, 0, 0, 0.0, 40.0),  # nothing known but the estimate: 20 s of steps, 20 s of reading
        (0, 50, 1, 4.9, 15 + 20),  # as fast as estimated: 0.1 s a step
        (0, 100, 1, 9.9, 10 + 20),  # all steps of the first run are made, not its reading
        (1, 100, 1, 9.9, 10),  # the last reading
        (1, 50, 40, 10.0, 10 * (5 + 10)),  # ten times slower: the reading is too
    ],
)
def test_the_time_left_goes_by_the_pace_of_this_sitting(
    queue: Queue, run: int, step: int, began: int, seconds: float, left: float
) -> None:
    asked = [small(steps=100), small(steps=100, kind="alibi")]
    queue.add(asked, estimate=40.0, reading=20.0)
    (entry,) = queue.entries()
    progress = Progress(run=run, step=step, began=began, seconds=seconds)
    assert training_board.remaining(entry, progress) == pytest.approx(left)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "The text is empty."),
        (b"too short", "A corpus must have at least 20,000 bytes"),
        (b"\0" * 50_000, "The file is no UTF-8 text"),
        (b"x" * (limits.MAX_TEXT_BYTES + 1), "A text may have 10 MB, this one has 10.0."),
        (b"a line\n" * 3_000, "must have more than 4,096 bytes for training and for validation"),
    ],
)
def test_what_is_no_text_to_learn_is_refused_in_a_sentence(
    queue: Queue, content: bytes, reason: str
) -> None:
    at = with_text(visit("train", LINK | {"run_length": "256"}), content)
    assert not at.exception
    assert [reason in as_read(box.value) for box in at.error] == [True]
    assert not [one for one in at.button if one.key == "start_training"]


def test_an_uploaded_text_is_what_is_trained_on_and_its_name_is_text(queue: Queue) -> None:
    name = "![x](http://evil.example/p.png)**b**.txt"
    at = with_text(visit("train", LINK), sentences() + b"\xff" * 3, name)
    assert "3 bytes were no UTF-8 and became U+FFFD." in [box.value for box in at.info]
    at.button(key="start_training").click().run()
    drawn(at)
    (entry,) = queue.entries()
    (one, _) = entry.specifications
    text = queue.text(entry)
    assert text is not None
    assert (one.corpus, one.corpus_name) == (from_text("", text).sha256, f'"{name}"')
    raw = [text.value for text in at.main.markdown if "evil" in text.value]
    assert raw
    assert not any("![x](" in text or "**b**" in text for text in raw)


def test_sizes_are_made_to_fit_and_starts_that_are_too_long_are_refused(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = drawn(visit("train", LINK | {"width": "20", "run_heads": "8"}))
    used = "Width 16 is used instead of 20: it must be a multiple of twice the heads (16)."
    assert used in captions(at)
    monkeypatch.setattr(training, "speed", lambda: Speed(6_000.0, 0.0, 0.0))
    at = visit("train", LINK)
    assert ["One start may take 4.0 h" in box.value for box in at.warning] == [True]
    assert at.button(key="start_training").disabled


def test_a_full_queue_is_told_in_a_sentence(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1 + limits.MAX_WAITING):
        queue.add([small(seeds=seed + 1, steps=seed + 1)])
    at = visit("train", LINK)
    at.button(key="start_training").click().run()
    assert ["8 starts wait already" in box.value for box in at.error] == [True]
    monkeypatch.setenv("POSENC_RUNNING", "0")
    st.cache_resource.clear()
    for entry in queue.entries():
        queue.remove(entry.name)
    at = drawn(visit("train", LINK))
    assert "Training is switched off on this server." in [box.value for box in at.info]
    assert not [one for one in at.button if one.key == "start_training"]


def test_a_failure_is_shown_with_its_reason_until_somebody_removes_it(queue: Queue) -> None:
    name = queue.add([small()])
    with queue.taken() as entry:
        assert entry is not None
        queue.fail(entry, "The run needs [a text](http://evil.example).")
    at = visit("train", LINK)
    (box,) = at.error
    assert as_read(box.value) == "The run needs [a text](http://evil.example)."
    assert "](" not in box.value
    at.button(key=f"stop_{name}").click().run()
    drawn(at)
    assert queue.entries() == []


@pytest.mark.parametrize("task", ["language", "recall", "copy"])
def test_a_start_is_trained_in_the_background_and_has_a_link_when_it_ends(
    task: str, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("POSENC_RUNS", str(queue.folder.parent.parent / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(queue.folder.parent))
    st.cache_data.clear()
    st.cache_resource.clear()
    at = drawn(visit("train", LINK | {"schemes": "learned", "task": task, "steps": "2"}))
    at.button(key="start_training").click().run()
    (entry,) = queue.entries()
    (one,) = entry.specifications
    end = time.monotonic() + 120
    while queue.entries():
        assert time.monotonic() < end
        time.sleep(0.2)
    assert Store().ids() == [one.run_id]
    at = drawn(at.run())
    assert "Finished on this server" not in [box.value for box in at.subheader]
    assert "Finished on this server" in [box.value for box in visit("train").subheader]
    name = comparison(one)
    links = [element.proto for element in at.get("page_link")]
    assert any(f"comparison={name}" in link.query_string for link in links)
    assert "1 of 1 run is there already." in captions(at)
    half = {"half": "measured", "comparison": name, "schemes": "learned"}
    found = drawn(visit("extrapolation", half))
    assert "Learned" in headline(found)
    assert any(run_words.alike(one) in text for text in captions(found))
    table = drawn(visit("overview", {"learned_source": f"run-{one.run_id}"}))
    assert setting(table).learned_source == f"run-{one.run_id}"


@pytest.mark.parametrize("kind", ["alibi", "rope", "learned"])
@pytest.mark.parametrize("task", ["language", "recall", "copy"])
def test_an_estimate_counts_every_sequence_that_is_read(
    kind: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = small(kind, task=task, steps=1)
    corpus = CORPUS if task == "language" else None
    model = build_model(specification, specification.make_task(corpus))
    read: dict[int, int] = {}
    forward = LanguageModel.forward

    def counted(self: LanguageModel, tokens: Tensor, *rest: object) -> Tensor:
        read[tokens.shape[1]] = read.get(tokens.shape[1], 0) + tokens.shape[0]
        return forward(self, tokens, *rest)

    monkeypatch.setattr(LanguageModel, "forward", counted)
    evaluate(model, specification.make_task(corpus), specification)
    planned: dict[int, int] = {}
    for length, sequences in readings(specification):
        planned[length] = planned.get(length, 0) + sequences
    assert planned == read


def test_an_estimate_adds_up_layers_and_multiplications() -> None:
    """By hand: 2 layers of width 8, 4 sequences of 16 tokens a step, 256 logits for each."""
    one = small("none", widths=[8], layers=2, longest=1)
    work = 16 * (2 * (12 * 64 + 16 * 8) + 256 * 8)
    assert multiplications(one, 16) == work
    speed = Speed(layer=0.5, multiplication=1e-6, reading=1e-7)
    assert speed.step(one) == pytest.approx(2 * 0.5 + 1e-6 * 4 * work)
    reads = [(8, 8), (16, 8), (16, 8)]  # half the length, all of it, and by position
    assert readings(one) == reads
    read = sum(1e-7 * count * multiplications(one, n) for n, count in reads)
    assert speed.seconds(one) == pytest.approx(12 * speed.step(one) + read)


def test_a_calibrated_machine_needs_longer_for_larger_models() -> None:
    speed = calibrate()
    assert speed.layer >= 0
    assert min(speed.multiplication, speed.reading) > 0
    small_one, large = small("none"), small("none", widths=[256], layers=4, heads=4, batch=64)
    assert speed.seconds(large) > 2 * speed.seconds(small_one) > 0


def test_durations_read_as_people_say_them() -> None:
    said = {0.0: "1 s", 89.0: "89 s", 90.0: "2 min", 3_000.0: "50 min", 9_000.0: "2.5 h"}
    assert {seconds: duration(seconds) for seconds in said} == said


def test_a_start_while_another_process_holds_the_queue_is_one_sentence_and_loses_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc.lab.queue._PATIENCE", 0.2)
    st.cache_resource.clear()
    at = drawn(visit("train", LINK))
    queue.folder.mkdir(parents=True)
    with queue._lock:
        at.button(key="start_training").click().run()
        assert not at.exception
        (box,) = at.error
        assert as_read(box.value).startswith("Another process has held the queue of trainings for")
        assert setting(at).schemes == ("rope", "alibi")
    assert queue.entries() == []
    at.button(key="start_training").click().run()
    assert len(queue.entries()) == 1
