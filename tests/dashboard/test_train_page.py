"""The Train page: planning, starting, following, stopping, faults of its folder, and who started what."""

import errno
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import limits, run_descriptions
from dashboard.pages.train import form
from dashboard.server import jobs, training_worker
from dashboard.server.jobs import Progress
from dashboard.server.training_process import LOADING_SECONDS, TrainingProcess, server_process
from dashboard.text import duration
from posenc.lab import Store, from_text, specifications
from posenc.lab.run_once import Speed
from posenc.lab.summary import comparison
from tests.dashboard.page_queue import (
    SPEED,
    TRAIN_LINK,
    SharedServer,
    train_waiting,
)
from tests.dashboard.pages import as_read, captions, charts, drawn, headline, setting, visit
from tests.lab.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.lab.small_runs import CORPUS, sentences, small_spec
from tests.lab.worker_processes import wait

pytestmark = pytest.mark.usefixtures("no_shape_checks")

IDLE = "Nothing is being trained on this server."
start_if_needed = TrainingProcess.start_if_needed  # which the folder of these tests replaces


def give_text(at: AppTest, content: bytes, name: str = "my text.txt") -> AppTest:
    (box,) = [box for box in at.file_uploader if box.key == "text_upload"]
    return box.set_value((name, content, "text/plain")).run()


def keys_of_buttons(at: AppTest) -> list[str | None]:
    return [button.key for button in at.button]


def press(at: AppTest, key: str = "start_training") -> AppTest:
    return at.button(key=key).click().run()


def texts(at: AppTest) -> list[str]:
    return [as_read(text.value) for text in at.main.markdown]


def errors(at: AppTest) -> list[str]:
    assert not at.exception
    return [as_read(box.value) for box in at.error]


def test_plan_states_its_time_and_what_takes_too_long_cannot_start(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = drawn(visit("train", TRAIN_LINK | {"seeds": "2"}))
    assert IDLE in captions(at)
    planned = specifications(
        ("rope", "alibi"), seeds=2, widths=(16,), layers=1, heads=2, train_length=16, steps=5,
        corpus=form.standard_library(),
    )  # fmt: skip
    seconds = LOADING_SECONDS + sum(map(SPEED.seconds, planned))
    plan = f"4 runs of 5 steps: **about {duration(seconds)}**"
    assert [text.startswith(plan) for text in texts(at)].count(True) == 1
    monkeypatch.setattr(form, "speed", lambda: Speed(6_000.0, 0.0, 0.0))
    at.run()
    assert ["A job may take at most 4.0 h" in box.value for box in at.warning] == [True]
    assert at.button(key="start_training").disabled


def test_presets_fill_in_the_form_and_shipped_runs_are_shown(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "speed", lambda: Speed(3e-3, 3e-10, 1e-11))
    at = drawn(visit("train", {"schemes": "rope"}))
    assert any(text.startswith("Example, models that come") for text in captions(at))
    assert set(charts(at)[0]["name"]) == {"RoPE"}  # a picture until there is a result
    drawn(press(at, "preset_10 seconds"))
    assert [at.session_state[name] for name in ("run_length", "width", "seeds")] == [16, 32, 1]
    assert [text.split("**")[1] for text in texts(at) if "on this machine" in text] == [
        "about 10 s"
    ]
    drawn(press(at, "preset_2 minutes"))
    assert [at.session_state[name] for name in ("run_length", "width", "seeds")] == [32, 64, 1]
    assert [text.split("**")[1] for text in texts(at) if "on this machine" in text] == [
        "about 2 min"
    ]
    drawn(press(at, "preset_as shipped (64 tokens)"))
    assert "Trained." in captions(at)
    assert any(
        text.startswith("**Trained on 64 tokens, evaluated at 1,024: RoPE") for text in texts(at)
    )
    (link,) = [
        link.proto for link in at.get("page_link") if link.proto.label == "Open in Extrapolation"
    ]
    assert "comparison=language-64-" in link.query_string


def test_start_is_shared_by_all_visitors_and_any_of_them_stops_it(job_folder: Path) -> None:
    at, earlier = drawn(visit("train", TRAIN_LINK)), drawn(visit("train", TRAIN_LINK))
    drawn(press(at))
    (job,) = jobs.jobs(job_folder)
    assert [run.scheme.kind for run in job.specifications] == ["rope", "alibi"]
    assert any(text.startswith("Queued; about") for text in captions(at))
    assert "2 of these 2 runs are in training." in captions(at)
    assert "start_training" not in keys_of_buttons(at)
    press(earlier)  # the same start, from a page that was open before
    assert len(jobs.jobs(job_folder)) == 1
    other = drawn(visit("train"))
    assert any("RoPE and ALiBi" in text and "5 steps" in text for text in texts(other))
    other.button(key=f"stop_{job.name}").click().run()
    assert jobs.jobs(job_folder) == []
    assert IDLE in captions(drawn(at.run()))


def test_progress_is_drawn_with_its_losses_and_the_time_left(job_folder: Path) -> None:
    runs = [small_spec(steps=100), small_spec(steps=100, kind="alibi")]
    seconds: Any = {"estimate": 120.0, "evaluation_seconds": 20.0, "waiting": 8}
    name = jobs.add(job_folder, runs, text=sentences(), text_name=CORPUS.name, **seconds)
    points = ((25, 3.0), (50, 2.0))
    far = Progress(run=1, step=50, began=1, seconds=98.0, points=points)
    jobs.report(job_folder, name, far)
    at = drawn(visit("train", TRAIN_LINK))
    # The plan leaves 25 s of steps and 10 s of evaluation; steps took 4 times as long.
    assert "About 2 min left." in captions(at)
    (bar,) = at.get("progress")
    assert bar.proto.value == int(100 * (1 - 35 / 120))
    assert bar.proto.text == "run 2 of 2, ALiBi, seed 0: step 50 of 100"
    (curve,) = charts(at)
    assert curve.to_numpy().tolist() == [[25, 3.0], [50, 2.0]]
    jobs.report(job_folder, name, replace(far, step=100))
    assert any(text.startswith("Evaluating past the") for text in captions(drawn(at.run())))
    stopped = drawn(press(at, f"stop_{name}"))
    assert ["continues from here" in toast.value for toast in stopped.toast] == [True]
    assert jobs.jobs(job_folder) == []


def test_file_that_is_no_text_for_training_is_refused(job_folder: Path) -> None:
    at = visit("train", TRAIN_LINK | {"run_length": "256"})
    for content, reason in (
        (b"", "empty"),
        (b"too short", "20,000 bytes"),
        (b"\0" * 50_000, "UTF-8"),
        (b"a line\n" * 3_000, "4,096 bytes"),
    ):
        give_text(at, content)
        assert [reason in error for error in errors(at)] == [True], reason
        assert "start_training" not in keys_of_buttons(at)


def test_uploaded_text_is_trained_on_and_its_name_is_never_markup(job_folder: Path) -> None:
    name = "![x](http://evil.example/p.png)**b**.txt"
    at = give_text(visit("train", TRAIN_LINK), sentences() + b"\xff" * 3, name)
    assert ["3 bytes were not UTF-8" in box.value for box in at.info] == [True]
    drawn(press(at))
    (job,) = jobs.jobs(job_folder)
    text = jobs.text(job_folder, job.name)
    assert text is not None
    first = job.specifications[0]
    assert (first.corpus, first.corpus_name) == (from_text("", text).sha256, f'"{name}"')
    (named,) = [text.value for text in at.main.markdown if "evil" in text.value]
    assert "![x](" not in named
    assert "**b**" not in named


def test_full_queue_is_explained(job_folder: Path) -> None:
    for seed in range(1 + limits.MAX_WAITING):
        jobs.add(job_folder, [small_spec(steps=seed + 1)], waiting=limits.MAX_WAITING)
    at = press(visit("train", TRAIN_LINK))
    assert ["8 jobs wait already" in error for error in errors(at)] == [True]


def test_failure_is_shown_until_somebody_removes_it(job_folder: Path) -> None:
    name = jobs.add(job_folder, [small_spec()], waiting=8)
    jobs.fail(job_folder, name, "The run needs [a text](http://evil.example).")
    at = visit("train", TRAIN_LINK)
    assert errors(at) == ["The run needs [a text](http://evil.example)."]
    assert "](" not in at.error[0].value
    drawn(press(at, f"stop_{name}"))
    assert jobs.jobs(job_folder) == []


# Faults of the folder ---------------------------------------------------------------------------


def test_start_on_a_full_disk_can_be_repeated(job_folder: Path, tmp_path: Path) -> None:
    at = drawn(visit("train", TRAIN_LINK))
    with bad_disk(tmp_path, FULL, TAKING_SPACE):
        assert errors(press(at)) == ["The queue cannot be written: No space left on device."]
        assert "In training" in [box.value for box in at.subheader]
    assert setting(at).schemes == ("rope", "alibi")
    assert jobs.jobs(job_folder) == []
    drawn(press(at))
    assert len(jobs.jobs(job_folder)) == 1


def test_waiting_start_in_a_read_only_folder_is_shown_with_the_reason(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = jobs.add(job_folder, [small_spec(steps=5)], waiting=8)
    monkeypatch.setattr(TrainingProcess, "start_if_needed", start_if_needed)
    monkeypatch.setattr(subprocess, "Popen", start_process := mock.Mock())
    with bad_disk(job_folder, errno.EROFS):
        at = visit("train", TRAIN_LINK)
        assert errors(at) == []
        (box,) = at.warning
        assert "Read-only file system" in as_read(box.value)
        stopped = press(at, f"stop_{name}")
        assert errors(stopped) == ["The queue cannot be written: Read-only file system."]
    assert [job.name for job in jobs.jobs(job_folder)] == [name]
    assert not start_process.called


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (training_worker.UNWRITABLE, "could not be written"),
        (training_worker.DEVICE_LOST, "ended with an error"),
    ],
)
def test_process_that_ended_on_a_full_disk_reads_differently_from_a_fault(
    code: int, reason: str, job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.add(job_folder, [small_spec(steps=5)], waiting=8)
    command, start_process = ["sh", "-c", f"exit {code}"], subprocess.Popen
    process = server_process()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda _, **options: start_process(command, **options))
        start_if_needed(process)
        wait(lambda: process.failed)
        at = drawn(visit("train"))
    process.stop()  # no other process is started after the pause
    reasons = ("could not be written", "ended with an error")
    shown = [text for text in captions(at) if any(each in text for each in reasons)]
    assert [reason in text for text in shown] == [True]


# Who started it ---------------------------------------------------------------------------------

LINK = TRAIN_LINK | {"schemes": "rope", "task": "copy", "steps": "3"}


def test_finished_runs_are_linked_and_open_in_extrapolation(job_folder: Path) -> None:
    drawn(press(visit("train", LINK)))
    run = train_waiting(job_folder)
    at = drawn(visit("train", LINK))
    assert "Trained." in captions(at)
    assert len(charts(at)) == 1
    specification = Store().read(run).specification
    name = comparison(specification)
    links = [element.proto.query_string for element in at.get("page_link")]
    assert any(f"comparison={name}" in link and "own_runs=true" in link for link in links)
    assert run_descriptions.description(specification) in captions(at)
    link = {"half": "measured", "comparison": name, "schemes": "rope"}
    measured = drawn(visit("extrapolation", link))
    assert not measured.warning
    assert "RoPE" in headline(measured)
    assert any(run_descriptions.description(specification) in text for text in captions(measured))


def test_models_that_have_hardly_learned_get_no_verdict(job_folder: Path) -> None:
    link = TRAIN_LINK | {"schemes": "rope"}  # five steps: less than byte pairs teach
    drawn(press(visit("train", link)))
    run = Store().read(train_waiting(job_folder))
    loss = next(s.value for s in run.scores if (s.measure, s.x) == ("context", 16))
    (answer,) = [text for text in texts(drawn(visit("train", link))) if "hardly learned" in text]
    assert f"their loss is {loss:.2f} nats or more" in answer
    assert f"reach {form.standard_library().pair_loss:.2f}." in answer
    assert loss > form.standard_library().pair_loss


def test_board_says_who_started_a_job_where_the_proxy_names_them_and_all_may_stop_it(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit_as = SharedServer(monkeypatch)
    name = "![x](http://evil.example/p.png)**b**"
    visit_as(name)
    press(visit("train", LINK))
    (job,) = jobs.jobs(job_folder)
    visit_as("bob@example.org")
    at = drawn(visit("train"))
    assert f"Started by {name}." in captions(at)
    (shown,) = [text.value for text in at.main.caption if "evil" in text.value]
    assert "![x](" not in shown
    drawn(press(at, f"stop_{job.name}"))
    assert jobs.jobs(job_folder) == []
    visit_as("")
    press(visit("train", LINK))
    assert not any(text.startswith("Started by") for text in captions(drawn(visit("train"))))
