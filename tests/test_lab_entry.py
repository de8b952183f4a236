"""An entry of the queue and its files: odd ones are none, progress is the last told, curves stay short."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from posenc.lab.entry import Progress
from posenc.lab.loss_curve import Curve
from posenc.lab.queue import Queue
from tests.queued import own_queue, start


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return own_queue(tmp_path, monkeypatch)


def test_files_that_are_no_entries_are_passed_over(queue: Queue) -> None:
    name = queue.add(start())
    good = (queue.folder / f"{name}.json").read_text()
    values = json.loads(good)
    odd = ["", "{", "[]", "7", "{}", good[:-20], json.dumps(values | {"records": []})]
    odd += [json.dumps(values | {"records": [{"protocol": 99}]}), json.dumps(values | {"new": 1})]
    odd += [
        "[" * 50_000,
        json.dumps(values | {"records": 7}),
        json.dumps(values | {"records": ["a"]}),
    ]
    odd += [json.dumps(values | {name: "x"}) for name in ("attempts", "estimate", "reading")]
    for n, content in enumerate(odd):
        (queue.folder / f"{n}-odd.json").write_text(content)
    assert [entry.name for entry in queue.entries()] == [name]


def test_progress_is_the_last_one_told_or_the_beginning(queue: Queue) -> None:
    name = queue.add(start())
    assert queue.progress(name) == Progress()
    told = Progress(run=1, step=7, began=2, seconds=1.5, points=((3, 0.5), (7, math.inf)))
    queue.tell(name, told)
    assert queue.progress(name) == told
    path = queue.folder / f"{name}.progress"
    content = path.read_text()
    for cut in range(0, len(content), 7):
        path.write_text(content[:cut])
        assert queue.progress(name) == Progress()
    for odd in ("7", '"a"', "null", "[]", '{"points": 1}', content.replace("1.5", '"x"')):
        path.write_text(odd)
        assert queue.progress(name) == Progress()


def test_a_curve_of_any_length_has_few_points_with_the_true_means() -> None:
    curve, losses = Curve(), [math.sin(n) + 2 for n in range(5_003)]
    for step, loss in enumerate(losses, start=1):
        curve.add(step, loss)
        assert len(curve.points) < 200
    steps = [step for step, _ in curve.points]
    each = steps[0]
    assert steps == list(range(each, 5_003 + 1, each))
    for step, mean in curve.points:
        assert mean == pytest.approx(sum(losses[step - each : step]) / each)


def test_a_curve_goes_on_from_the_points_of_an_earlier_sitting() -> None:
    whole, first = Curve(), Curve()
    losses = [1 / n for n in range(1, 1_001)]
    for step, loss in enumerate(losses, start=1):
        whole.add(step, loss)
        if step <= 600:
            first.add(step, loss)
    second = Curve(first.points)
    for step in range(601, 1_001):
        second.add(step, losses[step - 1])
    assert second.points[-1][0] == whole.points[-1][0]
    assert np.array(second.points) == pytest.approx(np.array(whole.points))


def test_odd_numbers_in_a_file_are_no_entry_and_no_progress(queue: Queue) -> None:
    name = queue.add(start())
    path = queue.folder / f"{name}.json"
    whole = path.read_text()
    for odd in ("Infinity", "-1", "1" + "0" * 400, "NaN", '"x"'):
        path.write_text(whole.replace('"attempts": 0', f'"attempts": {odd}'))
        assert queue.entries() == []
    path.write_text(whole.replace('"estimate": 0.0', '"estimate": 1' + "0" * 400))
    assert queue.entries() == []
    path.write_text(whole)
    queue.tell(name, Progress(run=0, step=7, points=((3, 1.0),)))
    told = queue.folder / f"{name}.progress"
    whole = told.read_text()
    assert '"step": 7' in whole
    for odd in ("Infinity", "-10", "1" + "0" * 400):
        told.write_text(whole.replace('"step": 7', f'"step": {odd}'))
        assert queue.progress(name) == Progress()
    (queue.folder / "a-b.json").mkdir()
    queue.remove(name)
    assert queue.entries() == []
