"""ALiBi attention against causal attention without a bias, against a dense mask and BLOOM's eager code.

python -m tests.benchmarks.attention [--tokens 4096] [--heads 8] [--width 64] [--rounds 9]

Prints ratios of medians of paired samples and extra memory at the peak, all from one run on one thread.
targets.py has the targets of speed, tests/library/test_attention.py the errors.
"""

import functools
import math
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from posenc import attention
from posenc.schemes.alibi import AlibiConfig
from tests.benchmarks.timing import options, paired_seconds, ratio, table

Contender = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs(heads: int, tokens: int, width: int, *, gradients: bool = False) -> list[Tensor]:
    """q, k, v of standard normal numbers, (1, heads, tokens, width) each."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, heads, tokens, width)
    return [torch.randn(shape, generator=generator).requires_grad_(gradients) for _ in range(3)]


def contenders(heads: int, tokens: int) -> dict[str, Contender]:
    """Each as a function of q, k and v; `ours` stands beside what people write."""
    scheme = AlibiConfig(heads=heads).build()
    slopes = scheme.slopes.float()[:, None, None]
    steps = torch.arange(tokens)
    later = steps > steps[:, None]

    def dense_mask() -> Tensor:
        bias = -slopes * (steps - steps[:, None]).abs()
        return bias.masked_fill(later, -math.inf)[None]

    def bloom(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Scores and softmax in full, the bias as a row, as BLOOM's eager attention."""
        scores = torch.baddbmm((slopes * steps), q[0], k[0].mT, alpha=1 / math.sqrt(q.shape[-1]))
        scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
        return (functional.softmax(scores, dim=-1) @ v[0])[None]

    prebuilt: list[Tensor] = []

    def built_once(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not prebuilt:
            prebuilt.append(dense_mask())
        return functional.scaled_dot_product_attention(q, k, v, prebuilt[0])

    sdpa = functional.scaled_dot_product_attention
    return {
        "causal, no bias": lambda q, k, v: sdpa(q, k, v, is_causal=True),
        "posenc": lambda q, k, v: attention(q, k, v, scheme),
        "dense mask, prebuilt": built_once,
        "dense mask per call": lambda q, k, v: sdpa(q, k, v, dense_mask()),
        "BLOOM eager": bloom,
    }


def backward(contender: Contender, given: list[Tensor]) -> Callable[[], object]:
    """The contender with the gradients of q, k, v and of what else is given."""
    upstream = torch.ones_like(given[0])
    return lambda: torch.autograd.grad(contender(*given[:3]), given, upstream)


def peak_mebibytes(name: str, heads: int, tokens: int, width: int, sender: Connection) -> None:
    """Send by how much one forward pass raises the peak of this process; run in a fresh process."""

    def status_kibibytes(entry: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{entry}:"))

    torch.set_num_threads(1)
    given = inputs(heads, tokens, width)
    contender = contenders(heads, tokens)[name]
    with torch.no_grad():
        contenders(heads, 64)[name](*inputs(heads, 64, width))  # load what is loaded once
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew from here
        before = status_kibibytes("VmRSS")
        contender(*given)
    sender.send((status_kibibytes("VmHWM") - before) / 1024)


def memory(name: str, heads: int, tokens: int, width: int) -> float:
    """MiB that one forward pass takes above its inputs, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=peak_mebibytes, args=(name, heads, tokens, width, sender))
    process.start()
    sender.close()
    found = receiver.recv()
    process.join()
    return found


def main() -> None:
    sizes = options(__doc__, tokens=4_096, heads=8, width=64, rounds=9)
    torch.set_num_threads(1)
    shape = (sizes.heads, sizes.tokens, sizes.width)
    made = contenders(sizes.heads, sizes.tokens)
    plain, trained = inputs(*shape), inputs(*shape, gradients=True)
    rows = {}
    with torch.no_grad():
        forward = paired_seconds(
            {name: functools.partial(call, *plain) for name, call in made.items()},
            rounds=sizes.rounds,
        )
    both = paired_seconds(
        {name: backward(call, trained) for name, call in made.items()},
        rounds=max(3, sizes.rounds // 3),
    )
    for name in made:
        rows[name] = {
            "forward": ratio(forward, name, "causal, no bias"),
            "and backward": ratio(both, name, "causal, no bias"),
            "peak, MiB": memory(name, *shape),
        }
    print(table(f"{sizes.tokens} tokens, {sizes.heads} heads of {sizes.width}, float32", rows))


if __name__ == "__main__":
    main()
