"""The speed targets, each a multiple of a memory fill, a copy, a peer or plain attention in the same run.

    python -m tests.benchmarks.targets [--rounds 15]

Measured on one AVX-512 processor: 2.4 fills, 1.4 and 3.5 copies, 1.5 times plain attention. RoPE of
queries and keys is to be no slower than that of transformers. `posenc inspect` and `posenc plan` are
compared with importing torch; a config has a limit in milliseconds. Other ratios to the code of
tutorials and peers differ by processor: the other benchmarks report them. Exit status 1 if a target is
missed; run it on an idle machine.
"""

import functools
import sys

import torch

from tests.benchmarks.attention import contenders, inputs
from tests.benchmarks.imports import milliseconds_of_a_config, start_up
from tests.benchmarks.rotation import against_a_copy, of_queries_and_keys
from tests.benchmarks.tables import compare
from tests.benchmarks.timing import options, paired_seconds, ratio


def measure(rounds: int) -> dict[str, tuple[float, float]]:
    """Return (measured, at most) by name."""
    fills, _ = compare(131_072, 128, rounds)
    copies = against_a_copy(4_096, torch.float32, rounds)
    calls, (q, k, v) = contenders(8, 4_096), inputs(8, 4_096, 64)
    samples = paired_seconds(
        {name: functools.partial(calls[name], q, k, v) for name in ("causal, no bias", "posenc")},
        rounds=rounds,
    )
    started = start_up(rounds)
    limits = {
        "posenc inspect over import torch": (ratio(started, "posenc inspect", "torch"), 1.3),
        "posenc plan over import torch": (ratio(started, "posenc plan", "torch"), 1.4),
        "config of a preset, in ms": (milliseconds_of_a_config(rounds), 1.0),
        "table of 131,072 x 128 over a fill": (fills["ours, out="], 3.0),
        "RoPE, interleaved, over a copy": (copies["interleaved"], 1.8),
        "RoPE, halves, over a copy": (copies["half"], 5.0),
        "ALiBi attention over causal attention": (ratio(samples, "posenc", "causal, no bias"), 1.6),
    }
    for dtype in (torch.float32, torch.bfloat16):
        for length in (1, 16, 128, 512, 4_096):
            word = str(dtype).removeprefix("torch.")
            gain = of_queries_and_keys(length, dtype, rounds)
            limits[f"RoPE over transformers, T = {length}, {word}"] = (1 / gain, 1.0)
    return limits


def main() -> int:
    """Measure, print, and say by the status whether every target is met."""
    rounds = options(__doc__, rounds=15).rounds
    torch.set_num_threads(1)
    with torch.no_grad():
        measured = measure(rounds)
    for name, (value, most) in measured.items():
        verdict = "" if value <= most else "  MISSED"
        print(f"{name:<44}{value:6.2f}  at most {most:.1f}{verdict}")
    return int(any(value > most for value, most in measured.values()))


if __name__ == "__main__":
    sys.exit(main())
