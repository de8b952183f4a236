"""What importing posenc costs beside importing torch alone, each in a fresh interpreter.

python -m tests.benchmarks.imports [--rounds 15]

Prints the median ratio of paired samples; the target is under 1.15x.
"""

import functools
import subprocess
import sys

from tests.benchmarks.timing import options, paired_seconds, ratio, table

STATEMENTS = {
    "torch": "import torch",
    "posenc": "import posenc",
    "RoPE alone": "import posenc.schemes.rope",
    "posenc and its analyses": "import posenc, posenc.analysis, posenc.checkpoints",
}


def main() -> None:
    calls = {
        name: functools.partial(subprocess.run, [sys.executable, "-c", code], check=True)
        for name, code in STATEMENTS.items()
    }
    samples = paired_seconds(calls, rounds=options(__doc__, rounds=15).rounds)
    print(table("import", {name: {"ratio": ratio(samples, name, "torch")} for name in STATEMENTS}))


if __name__ == "__main__":
    main()
