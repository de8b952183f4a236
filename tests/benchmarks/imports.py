"""What importing posenc, and its commands, cost beside importing torch alone, each in a fresh interpreter.

python -m tests.benchmarks.imports [--rounds 15]

Prints the median ratio of paired samples, and the time of reading the config of a preset.
The target of an import is under 1.15x; tests/benchmarks/targets.py has those of commands and of a config.
"""

import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posenc.models import read_config
from posenc.models.presets import MODELS
from tests.benchmarks.timing import Samples, options, paired_seconds, ratio, table

STATEMENTS = {
    "torch": "import torch",
    "posenc": "import posenc",
    "RoPE alone": "import posenc.schemes.rope",
    "posenc and its analyses": "import posenc, posenc.analysis, posenc.checkpoints",
}
PRESET = "llama-3.1-8b"
COMMANDS = {"posenc inspect": [], "posenc plan": ["--context", "1048576"]}


@contextmanager
def programs() -> Iterator[dict[str, list[str]]]:
    """Yield the arguments of a Python interpreter by what it runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(dict(MODELS[PRESET].config or {})))
        yield {name: ["-c", code] for name, code in STATEMENTS.items()} | {
            name: ["-m", *name.split(), str(path), *more] for name, more in COMMANDS.items()
        }


def start_up(rounds: int) -> Samples:
    """Return the seconds of every program, in turn."""
    with programs() as arguments:
        calls = {
            name: functools.partial(
                subprocess.run, [sys.executable, *each], check=True, stdout=subprocess.DEVNULL
            )
            for name, each in arguments.items()
        }
        return paired_seconds(calls, rounds=rounds)


def milliseconds_of_a_config(rounds: int) -> float:
    """Return the median over the presets of the median time of reading a config."""
    configs = {name: dict(preset.config) for name, preset in MODELS.items() if preset.config}
    samples = paired_seconds(
        {name: functools.partial(read_config, config) for name, config in configs.items()},
        rounds=rounds,
    )
    return 1e3 * statistics.median(statistics.median(each) for each in samples.values())


def main() -> None:
    rounds = options(__doc__, rounds=15).rounds
    samples = start_up(rounds)
    print(table("program", {name: {"ratio": ratio(samples, name, "torch")} for name in samples}))
    print(f"config of a preset: {milliseconds_of_a_config(rounds):.2f} ms")


if __name__ == "__main__":
    main()
