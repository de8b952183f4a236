"""The next byte of a text."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.corpus import Corpus
from posenc.lab.tasks.base import Batch, Task


@dataclass(frozen=True, eq=False)
class Language(Task):
    """Predict the next byte of text, at every position."""

    corpus: Corpus

    kind: ClassVar[str] = "language"
    label: ClassVar[str] = "Text"
    learns: ClassVar[str] = "next byte of a text"
    vocabulary: ClassVar[int] = 256

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        text = self.corpus.train
        starts = torch.randint(len(text) - self.train_length, (size,), generator=generator)
        window = text[starts[:, None] + torch.arange(self.train_length + 1)].long()
        return window[:, :-1], window[:, 1:]
