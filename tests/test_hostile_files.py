"""Some 280 hostile files at every door that takes one: refused in a sentence, soon, and without a trace.

What a door does not refuse it must have read rightly: another reader says what the file holds.
"""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posenc.errors import RunError
from posenc.lab.run import from_parquet
from posenc.lab.sweep import read_text
from tests.doors import DOORS, SAFETENSORS_SECONDS, SECONDS, Door, busy, tried
from tests.hostile_files import HOSTILE_FILES, HostileFile, large_hostile_files
from tests.hostile_mutations import good_files
from tests.hostile_numbers import (
    bomb,
    hostile_arrays,
    hostile_configs,
    hostile_runs,
    hostile_texts,
)
from tests.safetensors_readings import library_accepts

# Doors as visitors use them, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

MOST_GROWTH = 20  # MiB of a process that was given all of them


@functools.cache
def corpus() -> dict[str, list[HostileFile]]:
    """Return the hostile files by the kind of good file that they stand in for."""
    return {
        "checkpoint": HOSTILE_FILES,
        "numbers": hostile_arrays(),
        "config": hostile_configs(),
        "run": hostile_runs(good_files()["run"][0]),
        "text": hostile_texts(),
    }


def everything() -> list[HostileFile]:
    return [file for files in corpus().values() for file in files]


def timed(door: Door, content: bytes, path: Path) -> tuple[str | None, float]:
    """Return what a door said and how long it took, of a slow answer the fastest of three."""
    taken = []
    for _ in range(3):
        begin = time.thread_time()
        sentence = tried(door, content, path)
        taken.append(time.thread_time() - begin)
        if taken[-1] < SAFETENSORS_SECONDS / 2:
            break
    return sentence, min(taken)


def named(door: Door) -> str:
    return door.name


def test_there_are_far_more_than_eighty_of_five_kinds_and_none_twice() -> None:
    labels = [file.label for file in everything()]
    assert len(labels) == len(set(labels))
    assert len(labels) > 250
    assert min(len(files) for files in corpus().values()) >= 13


@pytest.mark.parametrize("door", DOORS, ids=named)
def test_a_door_takes_every_good_file_of_its_kind(door: Door, tmp_path: Path) -> None:
    """Else a door that refuses all would pass every other test here."""
    for content in good_files()[door.kind]:
        (tmp_path / "given").write_bytes(content)
        assert tried(door, content, tmp_path / "given") is None


@pytest.mark.parametrize("door", DOORS, ids=named)
def test_no_hostile_file_gets_anything_but_a_sentence_or_a_right_answer(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "given"
    strict = door.kind in ("checkpoint", "parameters")
    for file in everything():
        path.write_bytes(file.content)
        sentence, seconds = timed(door, file.content, path)
        most = SAFETENSORS_SECONDS if strict else SECONDS
        assert seconds < most * busy(), (file.label, seconds)
        if strict and not library_accepts(file.content):
            assert sentence is not None, file.label
    assert not (tmp_path / "posenc-was-attacked").exists()


HOME = {
    "checkpoint": "learned table",
    "numbers": "Check my encoding",
    "config": "config",
    "run": "run",
    "text": "text",
}


@pytest.mark.parametrize("kind", HOME)
def test_a_hostile_file_is_refused_at_home_for_the_right_reason(kind: str, tmp_path: Path) -> None:
    (door,) = (door for door in DOORS if door.name == HOME[kind])
    for file in corpus()[kind]:
        (tmp_path / "given").write_bytes(file.content)
        sentence = tried(door, file.content, tmp_path / "given")
        assert sentence is not None, file.label
        said = sentence[0].upper() + sentence[1:]
        assert file.fragment in sentence or file.fragment in said, (file.label, sentence)


def test_files_of_many_megabytes_are_refused_as_soon(tmp_path: Path) -> None:
    doors = [door for door in DOORS if door.kind in ("checkpoint", "numbers") and door.served]
    for file in large_hostile_files():
        (tmp_path / "given").write_bytes(file.content)
        for door in doors:
            sentence, seconds = timed(door, file.content, tmp_path / "given")
            assert sentence is not None
            assert seconds < SAFETENSORS_SECONDS * busy(), (door.name, file.label, seconds)


def test_a_run_of_twenty_million_rows_in_half_a_megabyte_is_never_unpacked() -> None:
    content = bomb()
    assert len(content) < 2**20
    begin = time.thread_time()
    assert "20,000,000 rows" in refusal_of_run(content)
    assert time.thread_time() - begin < SECONDS


def refusal_of_run(content: bytes) -> str:
    with pytest.raises(RunError) as caught:
        from_parquet(content)
    return str(caught.value)


MEASURED = """
import sys
from pathlib import Path
from tests.doors import DOORS, tried
from tests.hostile_mutations import good_files

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

folder = Path(sys.argv[1])
for files in good_files().values():
    for content in files:
        (folder / "given").write_bytes(content)
        for door in DOORS:
            tried(door, content, folder / "given")
doors, before, answers = [door for door in DOORS if door.served], resident(), 0
for path in sorted(folder.glob("*.hostile")):
    for door in doors:
        if ".large" in path.name and door.kind not in ("checkpoint", "numbers"):
            continue
        tried(door, path.read_bytes(), path)
        answers += 1
print(answers, resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.long
@pytest.mark.timeout(900)
def test_after_all_of_them_the_process_lives_and_is_hardly_larger(tmp_path: Path) -> None:
    """In a process of its own, whose memory neither another test nor the making of the files uses."""
    for place, file in enumerate(everything()):
        (tmp_path / f"{place}.hostile").write_bytes(file.content)
    for place, file in enumerate(large_hostile_files()):
        (tmp_path / f"{place}.large.hostile").write_bytes(file.content)
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True, timeout=800,
        cwd=Path(__file__).parents[1], env=_quiet(),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2_000:]
    answers, growth = ran.stdout.split()
    assert int(answers) > 2_000
    assert float(growth) <= MOST_GROWTH, growth


def _quiet() -> dict[str, str]:
    # What was freed goes back to the system at once, as README says a server should be told: else glibc
    # keeps some 25 MiB for the next file, and the figure says nothing of what is held.
    told = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    return dict(os.environ) | told | {"OMP_NUM_THREADS": "1", "POSENC_SHAPES": "0"}


# Paths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "missing"])
def test_a_path_to_something_else_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for, a device without an end read for ever."""
    path = tmp_path / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    doors = [door for door in DOORS if "path" in door.name or door.name in ("inspect", "plan")]
    doors += [door for door in DOORS if door.name == "identify" and kind in ("pipe", "device")]
    assert len(doors) >= 5
    for door in doors:
        begin = time.perf_counter()
        assert tried(door, b"", path) is not None, door.name
        assert time.perf_counter() - begin < SECONDS


def test_a_text_beyond_the_cap_is_measured_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    with path.open("wb") as file:
        file.truncate(2**31 + 1)  # a hole: it takes no room
    with pytest.raises(ValueError, match="at most 2,147,483,648 are read"):
        read_text(str(path))


def test_a_checkpoint_cut_at_every_step_is_refused_at_every_door(tmp_path: Path) -> None:
    path = tmp_path / "given"
    doors = [door for door in DOORS if door.kind in ("checkpoint", "parameters")]
    for content in (*good_files()["checkpoint"], *good_files()["parameters"]):
        for end in range(0, len(content), 64):
            path.write_bytes(content[:end])
            for door in doors:
                assert tried(door, content[:end], path) is not None, (door.name, end)
