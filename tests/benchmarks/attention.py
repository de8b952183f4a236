"""ALiBi attention against causal attention without a bias, against a dense mask and BLOOM's eager code.

python tests/benchmarks/attention.py [--tokens 4096] [--heads 8] [--width 64] [--rounds 9]

Prints ratios of medians of paired samples, extra memory at the peak, and the largest error against a
dense bias in float64, all from one run on one thread. Targets at 4,096 tokens: 1.15x forward, 1.2x
forward and backward (1.6x where the curve is trained and gets its gradient, too), error at most 1e-6
(or that of the dense mask, where early rows make it larger).
"""

import argparse
import math
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc import SCHEMES, Scheme, attention
from posenc.schemes.none import NoneConfig
from tests.benchmarks.timing import paired_seconds, ratio, table

Contender = Callable[[Tensor, Tensor, Tensor], Tensor]


class TrainedCurve(Scheme):
    """ALiBi's bias as one trained number per head and offset, the most that such a curve can hold."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__(NoneConfig())
        slopes = SCHEMES["alibi"](heads=heads).build().slopes.float()
        reach = torch.arange(-tokens, tokens + 1).abs()
        self.tokens, self.curve = tokens, nn.Parameter(-slopes[:, None] * reach)

    def offset_bias(self, offsets: Tensor) -> Tensor:
        """Return (heads, offsets)."""
        return self.curve[:, offsets + self.tokens]


def inputs(heads: int, tokens: int, width: int, *, gradients: bool = False) -> list[Tensor]:
    """q, k, v of standard normal numbers, (1, heads, tokens, width) each."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, heads, tokens, width)
    return [torch.randn(shape, generator=generator).requires_grad_(gradients) for _ in range(3)]


def contenders(heads: int, tokens: int) -> dict[str, Contender]:
    """Each as a function of q, k and v; `ours` stands beside what people write."""
    scheme = SCHEMES["alibi"](heads=heads).build()
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

    return {
        "causal, no bias": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, is_causal=True
        ),
        "posenc": lambda q, k, v: attention(q, k, v, scheme),
        "dense mask, prebuilt": built_once,
        "dense mask per call": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, dense_mask()
        ),
        "BLOOM eager": bloom,
    }


def backward(contender: Contender, given: list[Tensor]) -> Callable[[], object]:
    """The contender with the gradients of q, k, v and of what else is given."""
    upstream = torch.ones_like(given[0])
    return lambda: torch.autograd.grad(contender(*given[:3]), given, upstream)


def peak_mebibytes(name: str, heads: int, tokens: int, width: int, sender: Connection) -> None:
    """Send by how much one forward pass raises the peak of this process; run in a fresh process."""
    torch.set_num_threads(1)
    given = inputs(heads, tokens, width)
    contender = contenders(heads, tokens)[name]
    with torch.no_grad():
        contenders(heads, 64)[name](*inputs(heads, 64, width))  # load what is loaded once
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew from here
        before = status_kibibytes("VmRSS")
        contender(*given)
    sender.send((status_kibibytes("VmHWM") - before) / 1024)


def status_kibibytes(entry: str) -> int:
    """An entry of Linux's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{entry}:"))


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


def largest_errors(heads: int, tokens: int, width: int, names: list[str]) -> dict[str, float]:
    """Against a dense bias in float64, a block of queries at a time."""
    q, k, v = inputs(heads, tokens, width)
    scheme = SCHEMES["alibi"](heads=heads).build()
    made = contenders(heads, tokens)
    answers = {name: made[name](q, k, v) for name in names}
    errors = dict.fromkeys(names, 0.0)
    for rows in torch.arange(tokens).split(256):
        scores = scheme.scores(q[:, :, rows].double(), k.double(), rows, None)
        scores.masked_fill_(torch.arange(tokens) > rows[:, None], -math.inf)
        exact = scores.softmax(-1) @ v.double()
        for name, answer in answers.items():
            error = (answer[:, :, rows] - exact).abs().max().item()
            errors[name] = max(errors[name], error)
    return errors


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    shape = (sizes.heads, sizes.tokens, sizes.width)
    made = contenders(sizes.heads, sizes.tokens)
    plain, trained = inputs(*shape), inputs(*shape, gradients=True)
    rows: dict[str, dict[str, float]] = {name: {} for name in made}

    def measure(names: list[str], rounds: int) -> None:
        with torch.no_grad():
            forward = paired_seconds(
                {name: lambda c=made[name]: c(*plain) for name in names}, rounds=rounds
            )
        both = paired_seconds(
            {name: backward(made[name], trained) for name in names}, rounds=rounds
        )
        for name in names:
            rows[name]["forward"] = ratio(forward, name, names[0])
            rows[name]["and backward"] = ratio(both, name, names[0])

    measure(list(made), max(3, sizes.rounds // 3))
    measure(["causal, no bias", "posenc"], sizes.rounds)
    learns = TrainedCurve(sizes.heads, sizes.tokens)
    shared = learns.curve.detach().clone().requires_grad_()
    steps = torch.arange(sizes.tokens)
    later = steps > steps[:, None]

    def dense_trained(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = shared[:, steps - steps[:, None] + sizes.tokens].masked_fill(later, -math.inf)
        return functional.scaled_dot_product_attention(q, k, v, mask[None])

    both = paired_seconds(
        {
            "causal, no bias": backward(made["causal, no bias"], trained),
            "posenc": backward(
                lambda q, k, v: attention(q, k, v, learns), [*trained, learns.curve]
            ),
            "dense": backward(dense_trained, [*trained, shared]),
        },
        rounds=max(3, sizes.rounds // 3),
    )
    for name, label in (("posenc", "posenc, curve trained"), ("dense", "dense mask, trained")):
        rows[label] = {"and backward": ratio(both, name, "causal, no bias")}
    title = f"{sizes.tokens} tokens, {sizes.heads} heads of {sizes.width}, float32, one thread"
    print(table(title, rows))
    peaks = {name: {"peak": memory(name, *shape)} for name in made}
    print(table("\nmemory above the inputs", peaks, unit=" MiB"))
    errors = largest_errors(*shape, ["posenc", "dense mask per call", "BLOOM eager"])
    print("\nlargest error against float64")
    for name, error in errors.items():
        print(f"{name:<24}{error:.2e}")


if __name__ == "__main__":
    main()
