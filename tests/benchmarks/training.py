"""Training steps of every scheme against a nanoGPT-style loop of the same size, and against NoPE.

    python -m tests.benchmarks.training [--length 64] [--width 128] [--layers 3] [--batch 32]

One thread, one run, one step of each contender in turn, in processor time, which leaves out the turns
of other processes; a shared cache and clock still move single rounds by a tenth and more. The loop is
written the way nanoGPT trains (github.com/karpathy/nanoGPT): learned positions, fused AdamW, clipped
gradients, the loss read at every step. Targets: at least as many tokens a second for every scheme;
ALiBi and RoPE within 1.15 of NoPE's step.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc import SCHEMES
from posenc.lab import Corpus, Specification, Trainer, specifications, standard_library
from posenc.lab.tasks import Language
from posenc.lab.train import BETAS, CLIP
from tests.benchmarks.timing import options, paired_seconds, ratio, table

PLAIN = "nanoGPT style"


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
        blocks = (PlainBlock(model.width, model.heads) for _ in range(model.layers))
        self.blocks = nn.ModuleList(blocks)
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
        groups = [{"params": decayed, "weight_decay": specification.weight_decay}]
        groups += [{"params": others, "weight_decay": 0.0}]
        rate = specification.learning_rate
        self.optimizer = torch.optim.AdamW(groups, lr=rate, betas=BETAS, fused=True)

    def batch(self) -> tuple[Tensor, Tensor]:
        length = self.specification.train_length
        starts = torch.randint(len(self.text) - length, (self.specification.batch,))
        inputs = torch.stack([self.text[i : i + length].long() for i in starts])
        targets = torch.stack([self.text[i + 1 : i + 1 + length].long() for i in starts])
        return inputs, targets

    def step(self) -> float:
        loss = self.model(*self.batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def main() -> None:
    sizes = options(__doc__, length=64, width=128, layers=3, batch=32, rounds=40)
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
    rows = {}
    for name in steps:
        rows[name] = {
            "tokens/CPU s": tokens / statistics.median(samples[name]),
            f"x {PLAIN}": ratio(samples, PLAIN, name),
            "step / NoPE": ratio(samples, name, "none"),
        }
    print(table(f"{sizes.layers} layers of {sizes.width}, {sizes.batch} x {sizes.length}", rows))


if __name__ == "__main__":
    main()
