"""Training steps of every scheme against a nanoGPT-style loop of the same size, and against NoPE.

    python -m tests.benchmarks.training [--length 64] [--width 128] [--layers 3] [--batch 32]

One thread, one run, one step of each contender in turn, in processor time, which leaves out the turns
of other processes; a shared cache and clock still move single rounds by a tenth and more. The loop is
written the way nanoGPT trains (github.com/karpathy/nanoGPT): learned positions, fused AdamW, clipped
gradients, the loss read at every step. Targets: at least as many tokens a second for every scheme;
ALiBi and RoPE within 1.15 of NoPE's step.
"""

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from posenc import SCHEMES
from posenc.lab import Corpus, Specification, Trainer, specifications, standard_library
from posenc.lab.tasks import Language
from posenc.lab.train import BETAS, CLIP, LAST_RATE, WARM_UP
from tests.benchmarks.timing import Samples, paired_seconds, ratio, table

PLAIN = "nanoGPT style"
NOPE = "none"
LOWEST, HIGHEST = 5, 95  # percentiles of the rounds' ratios that are shown


class PlainBlock(nn.Module):
    """One layer as a plain GPT has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.into_heads = nn.Linear(width, 3 * width, bias=False)
        self.out_of_heads = nn.Linear(width, width, bias=False)
        self.before_perceptron = nn.LayerNorm(width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.into_heads(self.before_attention(x)).split(width, dim=2)
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_of_heads(mixed.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.narrow(functional.gelu(self.widen(self.before_perceptron(x))))


class PlainModel(nn.Module):
    """Token and position tables, blocks, a norm and the token table again: returns the loss."""

    def __init__(self, specification: Specification) -> None:
        super().__init__()
        model = specification.model
        self.wte = nn.Embedding(Language.vocabulary, model.width)
        self.wpe = nn.Embedding(specification.train_length, model.width)
        self.blocks = nn.ModuleList(
            PlainBlock(model.width, model.heads) for _ in range(model.layers)
        )
        self.norm = nn.LayerNorm(model.width, bias=False)
        self.head = nn.Linear(model.width, Language.vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        x = self.wte(tokens) + self.wpe(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class PlainLoop:
    """What people write around such a model."""

    def __init__(self, specification: Specification, corpus: Corpus) -> None:
        self.specification, self.text = specification, corpus.train
        self.model = PlainModel(specification)
        decayed = [p for p in self.model.parameters() if p.ndim >= 2]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": specification.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=specification.learning_rate,
            betas=BETAS,
            fused=True,
        )
        self.steps = 0

    def batch(self) -> tuple[Tensor, Tensor]:
        length = self.specification.train_length
        starts = torch.randint(len(self.text) - length, (self.specification.batch,))
        inputs = torch.stack([self.text[i : i + length].long() for i in starts])
        targets = torch.stack([self.text[i + 1 : i + 1 + length].long() for i in starts])
        return inputs, targets

    def rate(self) -> float:
        highest, steps = self.specification.learning_rate, self.specification.steps
        warm = max(1, round(WARM_UP * steps))
        if self.steps < warm:
            return highest * (self.steps + 1) / warm
        share = (self.steps - warm) / (steps - warm)
        low = LAST_RATE * highest
        return low + 0.5 * (1 + math.cos(math.pi * share)) * (highest - low)

    def step(self) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        loss = self.model(*self.batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        return loss.item()


def count(model: nn.Module) -> int:
    """Number of trained numbers."""
    return sum(parameter.numel() for parameter in model.parameters())


def percentile(samples: Samples, name: str, to: str, share: int) -> float:
    """A percentile of the rounds' ratios: how far a busy machine moved them."""
    ratios = [a / b for a, b in zip(samples[name], samples[to], strict=True)]
    return torch.tensor(ratios).quantile(share / 100).item()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=40)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    corpus = standard_library()
    asked = specifications(
        list(SCHEMES), corpus=corpus, train_length=sizes.length, widths=[sizes.width],
        layers=sizes.layers, batch=sizes.batch,
    )  # fmt: skip
    plain = PlainLoop(asked[0], corpus)
    trainers = {made.scheme.kind: Trainer(made, corpus) for made in asked}
    steps: dict[str, Callable[[], object]] = {PLAIN: plain.step}
    steps |= {kind: trainer.step for kind, trainer in trainers.items()}
    samples = paired_seconds(steps, rounds=sizes.rounds, clock=time.process_time)
    tokens = sizes.batch * sizes.length
    models: dict[str, nn.Module] = {PLAIN: plain.model}
    models |= {kind: trainer.model for kind, trainer in trainers.items()}
    rows = {}
    for name in steps:
        rows[name] = {
            "tokens/CPU s": tokens / statistics.median(samples[name]),
            f"x {PLAIN}": ratio(samples, PLAIN, name),
            f"p{LOWEST}": percentile(samples, PLAIN, name, LOWEST),
            f"p{HIGHEST}": percentile(samples, PLAIN, name, HIGHEST),
            "step / NoPE": ratio(samples, name, NOPE),
            "parameters / plain": count(models[name]) / count(plain.model),
        }
    print(
        f"{sizes.layers} layers of {sizes.width}, {sizes.batch} x {sizes.length} tokens, one thread, "
        f"torch {torch.__version__}, median of {sizes.rounds} rounds, load {os.getloadavg()[0]:.1f}"
    )
    print(table("training", rows))


if __name__ == "__main__":
    main()
