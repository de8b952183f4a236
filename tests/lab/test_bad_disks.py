"""A full disk or a read-only folder under the lab: a sentence, nothing lost or half."""

import errno
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import RunError
from posenc.lab import Store, run_once
from tests.lab.bad_disks import CALLS, bad_disk
from tests.lab.small_runs import CORPUS, small_spec

SMALLEST: dict[str, Any] = {"steps": 2, "longest": 2, "segments": 2}
READ_ONLY = "Read-only file system"

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]


@pytest.mark.parametrize("refused", [("mkdir",), ("open",), ("link",), CALLS], ids=str)
def test_unwritable_store_loses_no_step(refused: tuple[str, ...], tmp_path: Path) -> None:
    store, steps = Store(tmp_path / "below" / "runs"), list[int]()
    message = rf"^The store of runs cannot be written: {READ_ONLY}\.$"
    with bad_disk(tmp_path / "below", errno.EROFS, refused):
        with pytest.raises(RunError, match=message):
            run_once(small_spec(), CORPUS, store)
        if refused != ("link",):  # a file that is made and removed has no name
            with pytest.raises(RunError, match=message):
                store.check_writable()
    assert store.ids() == []
    run = run_once(small_spec(), CORPUS, store, report=lambda n, _: steps.append(n))
    assert (list(store), steps) == ([run], [])


@pytest.mark.parametrize("refused", [("mkdir",), ("open",), ("replace",)], ids=str)
def test_unwritable_checkpoint_fails_the_run_only(
    refused: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, store, work = small_spec("alibi", **SMALLEST), Store(tmp_path / "runs"), tmp_path / "work"
    monkeypatch.setenv("POSENC_WORK", str(work))
    message = r"^The (checkpoint cannot be written|folder of checkpoints cannot be used): Perm"
    with bad_disk(work, errno.EACCES, refused), pytest.raises(RunError, match=message):
        run_once(spec, CORPUS, store)
    with bad_disk(work, errno.EROFS, ("unlink",)) as disk:  # a checkpoint may stay
        run = run_once(spec, CORPUS, store)
    assert disk.refused
    assert list(store) == [run]
