"""The Train page: planning, starting, following, stopping, faults of its folder, and who started what."""

import errno
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import limits, run_descriptions, training_text, training_time
from dashboard.blocks import Button, Link, Live, Page, Text
from dashboard.pages.extrapolation import page as extrapolation
from dashboard.pages.train.page import page
from dashboard.pages.train.plan import PRESETS, Options, preset_changes, runs_of
from dashboard.server import jobs, training_worker
from dashboard.server.jobs import Progress
from dashboard.server.training_process import TrainingProcess, server_process
from dashboard.settings import Setting
from dashboard.text import duration
from dashboard.training_time import LOADING_SECONDS
from posenc.lab import Run, Score, Store, from_text, run_once, specifications, standard_library
from posenc.lab.evaluate import TRAINED
from posenc.lab.run_once import Speed
from posenc.lab.summary import comparison
from tests.dashboard.called_pages import blocks, chart, data
from tests.dashboard.called_pages import texts as texts_of
from tests.dashboard.page_queue import SPEED, TRAIN_LINK, SharedServer
from tests.dashboard.pages import as_read, captions, charts, drawn, notices, setting, visit
from tests.lab.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.lab.small_runs import CORPUS, sentences, small_spec
from tests.lab.worker_processes import wait

pytestmark = pytest.mark.usefixtures("no_shape_checks")

IDLE = "Nothing is being trained on this server."
start_if_needed = TrainingProcess.start_if_needed  # which the folder of these tests replaces
SMALL = Options(run_length=16, steps=5, width=16, layers=1, run_heads=2)


def give_text(at: AppTest, content: bytes, name: str = "my text.txt") -> AppTest:
    (box,) = [box for box in at.file_uploader if box.key == "text_upload"]
    return box.set_value((name, content, "text/plain")).run()


def keys_of_buttons(at: AppTest) -> list[str | None]:
    return [button.key for button in at.button]


def press(at: AppTest, key: str = "start_training") -> AppTest:
    return at.button(key=key).click().run()


def texts(at: AppTest) -> list[str]:
    return [as_read(text.value) for text in at.main.markdown]


def live(shown: Page) -> dict[str, Any]:
    """Return the values of the parts that a server draws, by name."""
    return {block.name: block.values for block in shown.all_blocks if isinstance(block, Live)}


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
        corpus=standard_library(),
    )  # fmt: skip
    seconds = LOADING_SECONDS + sum(map(SPEED.seconds, planned))
    plan = f"4 runs of 5 steps: **about {duration(seconds)}**"
    assert [text.startswith(plan) for text in texts(at)].count(True) == 1
    monkeypatch.setattr(training_time, "speed", lambda: Speed(6_000.0, 0.0, 0.0))
    at.run()
    assert ["A job may take at most 4.0 h" in box.value for box in at.warning] == [True]
    assert at.button(key="start_training").disabled


def test_preset_sets_sizes_and_as_many_steps_as_fit_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speed = Speed(3e-3, 3e-10, 1e-11)
    monkeypatch.setattr(training_time, "speed", lambda: speed)
    of_rope = Setting(schemes=("rope",))
    for name, seconds, sizes in (("short", 30, (16, 32, 1)), ("longer", 120, (32, 64, 1))):
        options = Options(**preset_changes(of_rope, name))
        assert (options.run_length, options.width, options.seeds) == sizes
        (run,) = runs_of(of_rope, options, standard_library())
        assert LOADING_SECONDS + speed.seconds(run) <= seconds
        assert LOADING_SECONDS + speed.seconds(run) + 10 * speed.step(run) > seconds
        marked = [
            b.key for b in page(of_rope, options).all_blocks if isinstance(b, Button) and b.icon
        ]
        assert marked == [f"preset_{name}"]


def test_pressed_preset_stands_in_the_form_and_its_time_beside_it(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_time, "speed", lambda: Speed(3e-3, 3e-10, 1e-11))
    at = drawn(press(drawn(visit("train", {"schemes": "rope"})), "preset_short"))
    assert at.number_input(key="run_length").value == 16
    assert [text.split("**")[1] for text in texts(at) if "this machine has now" in text] == [
        "about 30 s"
    ]


LONGEST = {16: 256, 32: 512}  # tokens of context that are evaluated, by training length


def rise(scores: Mapping[int, float], length: int) -> float:
    return scores[LONGEST[length]] - scores[length]


def test_help_of_a_preset_states_what_its_models_have_shown() -> None:
    shown = page(Setting(), SMALL)
    helps = {b.label: b.help for b in shown.all_blocks if isinstance(b, Button)}
    assert helps["About 30 s"] == (
        "Steps that fit in about 30 seconds. Models of these sizes, after 400 steps: from 16 to 256 tokens "
        "of context the loss rises by 0.24 nats with RoPE and 0.06 nats with ALiBi."
    )


@pytest.mark.timeout(1_200)
@pytest.mark.long
@pytest.mark.parametrize("name", ["short", "longer"])
def test_models_of_a_preset_show_what_its_help_states(name: str, tmp_path: Path) -> None:
    preset, corpus = PRESETS[name], standard_library()
    options = Options(**preset.values, steps=preset.measured_steps)
    losses = {}
    for specification in runs_of(Setting(schemes=(*preset.rises,)), options, corpus):
        run = run_once(specification, corpus, Store(str(tmp_path)))
        losses[specification.scheme.kind] = {
            score.x: score.value
            for score in run.scores
            if (score.measure, score.variant) == ("context", "as trained")
        }
    for kind, stated in preset.rises.items():
        # On another processor losses differ by up to 0.05 past the training length.
        assert rise(losses[kind], options.run_length) == pytest.approx(stated, abs=0.06)
    at_training_length = [scores[options.run_length] for scores in losses.values()]
    assert min(at_training_length) < corpus.pair_loss  # they have learned more than byte pairs


def test_shipped_models_are_an_example_until_the_planned_runs_are_there(job_folder: Path) -> None:
    of_rope = Setting(schemes=("rope",))
    example = page(of_rope, SMALL)
    assert any(text.startswith("Example, models that come") for text in texts_of(example))
    assert {*chart(example, "trained").frame["name"]} == {"RoPE"}
    (planned,) = runs_of(of_rope, SMALL, standard_library())
    scores = [Score("context", TRAINED, x, value, 8) for x, value in ((16, 2.0), (256, 2.5))]
    Store().add(Run(planned, None, 1.0, tuple(scores), (2.0,)), {})
    trained = page(of_rope, SMALL)
    assert "Result" in texts_of(trained)
    assert not any(text.startswith("Example") for text in texts_of(trained))
    assert any(
        text.startswith("**Trained on 16 tokens, evaluated at 256: RoPE")
        for text in texts_of(trained)
    )
    of_loss = [text for text in texts_of(trained) if text.startswith("**Loss is not everything:**")]
    assert len(of_loss) == 1
    assert live(trained)["start_training"]["runs"] == []
    (link,) = [
        block
        for block in trained.all_blocks
        if isinstance(block, Link) and block.label == "Open in Extrapolation"
    ]
    assert link.changes["comparison"].startswith("language-16-")


def test_width_follows_the_heads(job_folder: Path) -> None:
    shown = page(Setting(), Options(width=60, run_heads=16))
    assert (
        "Each model has 2 layers of width 64 with 16 heads; learning rate 0.002. Width 64 replaces 60: the "
        "width must be a multiple of twice the heads (32)."
    ) in texts_of(shown)
    assert {run.model.width for run in live(shown)["start_training"]["runs"]} == {64}
    assert "training_text" in live(shown)
    assert "training_text" not in live(page(Setting(), Options(task="copy")))


def test_start_is_shared_by_all_visitors_and_any_of_them_stops_it(job_folder: Path) -> None:
    at, earlier = drawn(visit("train", TRAIN_LINK)), drawn(visit("train", TRAIN_LINK))
    drawn(press(at))
    (job,) = jobs.jobs(job_folder)
    assert [run.scheme.kind for run in job.specifications] == ["rope", "alibi"]
    assert any(text.startswith("Queued; waits for its process to start") for text in captions(at))
    assert "2 of these 2 runs are queued or in training." in captions(at)
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
    curve, _ = charts(at)  # before the example of shipped models
    assert curve.to_numpy().tolist() == [[25, 3.0], [50, 2.0]]
    half = replace(far, step=100, length=512, reached=5, lengths=9, share=0.5)
    jobs.report(job_folder, name, half)
    (bar,) = drawn(at.run()).get("progress")
    assert bar.proto.text == "run 2 of 2, ALiBi, seed 0: evaluating at 512 tokens, length 5 of 9"
    assert bar.proto.value == int(100 * (1 - 5 / 120))  # half of the 10 s of its evaluation
    stopped = drawn(press(at, f"stop_{name}"))
    assert ["continues from here" in toast.value for toast in stopped.toast] == [True]
    assert jobs.jobs(job_folder) == []


def test_file_that_is_no_text_for_training_is_refused(job_folder: Path) -> None:
    for content, reason in (
        (b"", "empty"),
        (b"too short", "20,000 bytes"),
        (b"\0" * 50_000, "UTF-8"),
        (b"a line\n" * 3_000, "4,096 bytes"),
    ):
        own = training_text.hold(content, "a text")
        options = Options(run_length=256, training_text=own.key)
        shown = page(Setting(), options)
        refused = [
            as_read(b.text) for b in shown.all_blocks if isinstance(b, Text) and b.look == "error"
        ]
        assert [reason in text for text in refused] == [True], reason
        assert {*live(shown)} == {"training_text", "jobs"}
        del own  # no session holds it any more
        every = page(Setting(), options).all_blocks
        (gone,) = [b for b in every if isinstance(b, Text) and b.look == "error"]
        assert gone.text.startswith("This server does not hold the uploaded text any more")


def test_uploaded_text_is_trained_on_and_its_name_is_never_markup(job_folder: Path) -> None:
    name = "![x](http://evil.example/p.png)**b**.txt"
    at = give_text(visit("train", TRAIN_LINK), b"too short")
    assert ["20,000 bytes" in error for error in errors(at)] == [True]
    assert "start_training" not in keys_of_buttons(at)
    at = give_text(at, sentences() + b"\xff" * 3, name)
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
    assert ["8 jobs wait already" in notice for notice in notices(at)] == [True]


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
        assert notices(press(at)) == ["The queue cannot be written: No space left on device."]
        assert "In training" in [box.value for box in at.header]
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
        assert "The queue cannot be written: Read-only file system." in notices(stopped)
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
    of_rope, options = Setting(schemes=("rope",)), replace(SMALL, task="copy", steps=3)
    (specification,) = runs_of(of_rope, options, None)
    run_once(specification, None, Store())
    shown = page(of_rope, options)
    assert "Result" in texts_of(shown)
    assert {*chart(shown, "trained").frame["scheme"]} == {"RoPE"}
    assert run_descriptions.description(specification) in map(as_read, texts_of(shown))
    name = comparison(specification)
    of_others = page(Setting(schemes=("alibi",)), options)
    for each, label in ((shown, "Open in Extrapolation"), (of_others, "Copy, 16 letters: RoPE")):
        (link,) = blocks(each, Link)
        assert link.label == label
        assert link.changes == {
            "half": "measured", "comparison": name, "own_runs": True, "schemes": ("rope",)
        }  # fmt: skip
    measured = extrapolation.page(of_rope, extrapolation.Options(comparison=name))
    assert "RoPE" in measured.headline
    assert any(
        run_descriptions.description(specification) in as_read(text) for text in texts_of(measured)
    )


def test_models_that_have_hardly_learned_get_no_verdict(job_folder: Path) -> None:
    of_rope, corpus = Setting(schemes=("rope",)), standard_library()
    (specification,) = runs_of(of_rope, SMALL, corpus)  # five steps: less than byte pairs teach
    run = run_once(specification, corpus, Store())
    loss = next(s.value for s in run.scores if (s.measure, s.x) == ("context", 16))
    (answer,) = [text for text in texts_of(page(of_rope, SMALL)) if "hardly learned" in text]
    assert f"their loss is {loss:.2f} nats or more" in answer
    assert f"reach {corpus.pair_loss:.2f}." in answer
    assert loss > corpus.pair_loss
    (link,) = [block for block in page(of_rope, SMALL).all_blocks if isinstance(block, Link)]
    own = extrapolation.Options(comparison=link.changes["comparison"], own_runs=True)
    measured = extrapolation.page(of_rope, own)
    assert measured.headline == answer.strip("*")
    words = " ".join(texts_of(measured))
    assert not [word for word in ("Holds:", "Breaks:", "Lowest loss") if word in words]
    table = data(measured, "Measured classes")
    assert {*table["past training"]} == {"not judged"}
    assert table["breaks at"].isna().all()


def test_models_that_have_hardly_learned_get_no_verdict_once_their_text_is_gone(
    job_folder: Path,
) -> None:
    text = CORPUS.train.numpy().tobytes()
    specification = runs_of(Setting(schemes=("rope",)), SMALL, from_text("gone.txt", text))[0]
    run_once(specification, from_text("gone.txt", text), Store())
    own = extrapolation.Options(comparison=comparison(specification), own_runs=True)
    measured = extrapolation.page(Setting(schemes=("rope",)), own)
    assert "These models have hardly learned" in measured.headline


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
