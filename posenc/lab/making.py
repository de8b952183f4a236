"""How a run is made: found in the store, or trained, evaluated and added to it, once on a machine."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from posenc.errors import RunError
from posenc.lab.corpus import Corpus
from posenc.lab.device_faults import told
from posenc.lab.evaluate import Score, evaluate
from posenc.lab.run import Run
from posenc.lab.runs import Store
from posenc.lab.specification import Specification, current_versions
from posenc.lab.train import Report, fixed_threads, train
from posenc.run_files import reason, work_folder

CHECKPOINTS = "training"  # the folder of checkpoints, in that of work in progress


def checkpoint_of(run_id: str, work: Path | None = None) -> Path:
    """Return where the state of a run in progress is kept."""
    return (work or work_folder() / CHECKPOINTS) / f"{run_id}.safetensors"


def make_run(
    specification: Specification,
    corpus: Corpus | None,
    store: Store,
    *,
    work: Path | None = None,
    report: Report | None = None,
) -> Run:
    """Return the run of a specification: from the store, or trained, evaluated and added to it.

    work: folder of checkpoints, default one of $POSENC_WORK or of the user's cache. Of two starts on
    one machine the second waits and reads what the first made. A kill loses at most the steps since
    the last checkpoint. report: see `train`.
    """
    run_id = specification.run_id
    checkpoint = checkpoint_of(run_id, work)
    with _alone(checkpoint):
        made = store.made(run_id)
        if made is not None:
            return made
        if specification.versions != current_versions():
            raise RunError(
                "The run was planned for other versions than are installed here: "
                + ", ".join(f"{name} {number}" for name, number in specification.versions)
                + "."
            )
        with told(specification.device):
            try:
                trained = train(specification, corpus, checkpoint=checkpoint, report=report)
            except OSError as error:
                raise RunError(f"The checkpoint cannot be written: {reason(error)}.") from error
            scores: list[Score] = []
            if trained.stopped is None:
                with fixed_threads(specification.threads):
                    task = specification.make_task(corpus)
                    scores = evaluate(trained.model, task, specification)
        run = Run(specification, tuple(scores), trained.losses, trained.stopped, trained.seconds)
        learned = {
            f"scheme.{name}": value for name, value in trained.model.scheme.named_parameters()
        }
        kept = store.add(run, learned)
        with contextlib.suppress(OSError):  # the run is kept: what stays is swept up some day
            checkpoint.unlink(missing_ok=True)
        return run if kept else store.read(run_id)


@contextlib.contextmanager
def _alone(checkpoint: Path) -> Iterator[None]:
    """Wait until no other process of this machine makes the run, and keep the others waiting."""
    lock = FileLock(checkpoint.with_suffix(".lock"))
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise RunError(f"The folder of checkpoints cannot be used: {reason(error)}.") from error
    try:
        yield
    finally:
        lock.release()
