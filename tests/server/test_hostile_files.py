"""Hostile files at every door: refused in one sentence, or read as another reader reads them.

Hostile checkpoints are tested one by one at the reader (tests/library/test_safetensors_file.py), texts in
tests/lab/test_tasks.py, the others here at their own door; every other door gets a few of each kind.
"""

import functools
import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from posenc.errors import RunError
from posenc.lab.runs import from_parquet
from posenc.lab.sweep import read_text
from tests.library.hostile_checkpoints import HOSTILE_FILES, HostileFile
from tests.library.safetensors_checks import MEBIBYTE, library_accepts
from tests.server.doors import DOORS, Door, answer
from tests.server.hostile_numbers import (
    good_files,
    hostile_arrays,
    hostile_configs,
    hostile_runs,
    mutations,
    parquet_bomb,
)

# Doors as visitors use them, without the shape checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

SAFETENSORS = ("checkpoint", "parameters", "projections")  # kinds of .safetensors files
OWN_DOOR = {"numbers": "Check my encoding", "config": "config", "run": "run"}


@functools.cache
def hostile_files() -> dict[str, list[HostileFile]]:
    """Return hostile files by the kind of good file that they stand for."""
    return {
        "checkpoint": HOSTILE_FILES,
        "numbers": hostile_arrays(),
        "config": hostile_configs(),
        "run": hostile_runs(good_files()["run"][0]),
    }


def own_door(kind: str) -> Door:
    (door,) = (door for door in DOORS if door.name == OWN_DOOR[kind])
    return door


def answered(door: Door, content: bytes, folder: Path) -> str | None:
    """Give a door a file, also by its path; return its refusal, None where it read the file right."""
    (folder / "given").write_bytes(content)
    return answer(door, content, folder / "given")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that code of a hostile file would run in."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "posenc-was-attacked").exists()


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_good_files_are_read_and_files_of_other_kinds_answered(door: Door, place: Path) -> None:
    for kind, contents in good_files().items():
        for content in contents if kind == door.kind else contents[:1]:
            sentence = answered(door, content, place)
            assert sentence is None or kind != door.kind, sentence
    for files in hostile_files().values():
        for file in files[:: max(1, len(files) // 6)]:
            sentence = answered(door, file.content, place)
            if door.kind in SAFETENSORS and not library_accepts(file.content):
                assert sentence is not None, file.label


@pytest.mark.parametrize("kind", OWN_DOOR)
def test_hostile_file_is_refused_at_its_door_for_the_right_reason(kind: str, place: Path) -> None:
    for file in hostile_files()[kind]:
        sentence = answered(own_door(kind), file.content, place)
        assert sentence is not None, file.label
        assert file.fragment.lower() in sentence.lower(), (file.label, sentence)


def test_run_of_too_many_rows_is_never_unpacked() -> None:
    content = parquet_bomb()
    assert len(content) < MEBIBYTE
    with pytest.raises(RunError, match="2,000,000 rows"):
        from_parquet(content)


@pytest.mark.long
def test_doors_hold_nothing_of_what_they_refused(tmp_path: Path) -> None:
    def enter_all() -> None:
        for kind, files in hostile_files().items():
            door = DOORS[0] if kind == "checkpoint" else own_door(kind)
            for file in files[::3]:
                answered(door, file.content, tmp_path)

    enter_all()  # what is imported and cached once
    tracemalloc.start()
    try:
        enter_all()
        gc.collect()  # an exception and its frames hold each other
        assert tracemalloc.get_traced_memory()[0] < MEBIBYTE  # the files have 20 MiB
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(60)  # a pipe that nobody writes to would be waited for without end
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "missing"])
def test_path_to_something_else_is_refused(kind: str, tmp_path: Path) -> None:
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
        assert answer(door, b"", path) is not None, door.name


def test_text_beyond_the_cap_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    with path.open("wb") as file:
        file.truncate(2**31 + 1)  # a hole: it takes no room
    with pytest.raises(ValueError, match="at most 2,147,483,648 are read"):
        read_text(str(path))


def test_checkpoint_cut_short_is_refused_at_every_door(tmp_path: Path) -> None:
    for door in (door for door in DOORS if door.kind in SAFETENSORS):
        content = good_files()["projections" if door.kind == "projections" else "parameters"][0]
        for end in range(0, len(content), 150):
            assert answered(door, content[:end], tmp_path) is not None, (door.name, end)


@pytest.mark.timeout(1_800)
@pytest.mark.filterwarnings("ignore:Reading .* Python 2:UserWarning")  # numpy reads such files
@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.long)])
def test_changed_file_is_read_right_or_refused(count: int, tmp_path: Path) -> None:
    @settings(max_examples=count)
    @given(mutations())
    def check(mutation: tuple[str, bytes]) -> None:
        for door in DOORS:
            # A plan computes long for a good config; of a bad one it says the same as `inspect`.
            if door.kind == mutation[0] and door.name != "plan":
                answered(door, mutation[1], tmp_path)

    check()
