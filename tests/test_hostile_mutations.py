"""Good files with bits flipped, bytes cut and spliced, headers reworded: read rightly or refused."""

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.doors import DOORS, SECONDS, Door, busy, tried
from tests.hostile_mutations import good_files, mutations

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# A plan computes long for a config that is right; what is wrong of one says `inspect` alike.
ASKED = [door for door in DOORS if door.name != "plan"]


def seconds(door: Door, content: bytes, path: Path) -> float:
    """Return the seconds of processor time that a door takes; they grow where others share the cores."""
    begin = time.thread_time()
    tried(door, content, path)
    return time.thread_time() - begin


def assert_survives(kind: str, content: bytes) -> None:
    """No door of this kind ends by anything but a sentence of ours or a right answer, soon."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given"
        path.write_bytes(content)
        for door in ASKED:
            if door.kind == kind:
                most = SECONDS * busy()
                assert any(seconds(door, content, path) < most for _ in range(3)), door.name


def test_every_kind_of_file_a_door_takes_is_changed() -> None:
    assert {door.kind for door in DOORS} == good_files().keys()


@settings(max_examples=200)
@given(mutations())
def test_a_changed_file_is_read_rightly_or_refused(mutation: tuple[str, bytes]) -> None:
    assert_survives(*mutation)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=2_000)
@given(mutations())
def test_two_thousand_changed_files_are_read_rightly_or_refused(
    mutation: tuple[str, bytes],
) -> None:
    assert_survives(*mutation)
