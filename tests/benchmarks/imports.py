"""What importing posenc costs beside importing torch alone, each in a fresh interpreter.

python tests/benchmarks/imports.py [--rounds 15]

Prints the median ratio of paired samples; the target is under 1.2x.
"""

import argparse
import subprocess
import sys

from tests.benchmarks.timing import paired_seconds, ratio, table

STATEMENTS = {
    "torch": "import torch",
    "posenc": "import posenc",
    "posenc and its analyses": "import posenc, posenc.analysis, posenc.interop",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    samples = paired_seconds(
        {
            name: lambda code=code: subprocess.run([sys.executable, "-c", code], check=True)
            for name, code in STATEMENTS.items()
        },
        rounds=rounds,
    )
    print(table("import", {name: {"ratio": ratio(samples, name, "torch")} for name in STATEMENTS}))


if __name__ == "__main__":
    main()
