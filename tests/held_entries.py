"""Processes that hold an entry of a queue until they are told how to end, or are killed.

They are forked from one process that has imported the queue and computes nothing, so that a test can
have hundreds of them in the time that one fresh interpreter takes.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

ENDS = {"done": signal.SIGTERM, "left": signal.SIGUSR1, "failed": signal.SIGUSR2}
REASON = "it failed on purpose"


class Holders:
    """Makes holders, one per `take`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.held_entries"],
            cwd=Path(__file__).parents[1], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def take(self, folder: Path) -> tuple[int, str]:
        """Start a process that takes the first entry that waits; its number, and the entry's name.

        The name is "" where none waits; that process has ended.
        """
        pid, _, name = self._ask(f"take {folder}").partition(" ")
        if not name:
            assert self._ask(f"await {pid}") == "gone"
        return int(pid), name

    def end(self, pid: int, how: str) -> None:
        """Let a holder end: "done", "left" because its server went, "failed", or "killed"."""
        os.kill(pid, ENDS.get(how, signal.SIGKILL))
        assert self._ask(f"await {pid}") == "gone"

    def close(self) -> None:
        """End the process that makes them."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def hold(folder: Path) -> None:
    """Take an entry, say which, and end as a signal says."""
    from posenc.lab.queue import Queue

    queue = Queue(folder)
    with queue.taken() as entry:
        print(os.getpid(), "" if entry is None else entry.name, flush=True)
        if entry is None:
            return
        got = signal.sigwait(ENDS.values())
        if got == ENDS["done"]:
            queue.remove(entry.name)
        elif got == ENDS["left"]:
            queue.give_back(entry)
        else:
            queue.fail(entry, REASON)


def main() -> None:
    """Do what standard input says, line by line."""
    import posenc.lab.queue  # noqa: F401  once, for all that are forked

    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "await":
            os.waitpid(int(rest), 0)
            print("gone", flush=True)
        elif os.fork() == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDS.values())
            hold(Path(rest))
            os._exit(0)


if __name__ == "__main__":
    main()
