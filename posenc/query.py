"""What one scheme of a setting is asked: a value that decides every number and keys every cache."""

from dataclasses import dataclass
from typing import Self

import torch

from posenc.schemes.scheme import Head, Scheme, SchemeConfig
from posenc.setting import PRECISIONS, Setting


@dataclass(frozen=True)
class Query:
    """Everything that decides what one scheme shows; what the scheme ignores is left out."""

    config: SchemeConfig
    length: int
    head: Head = "mean"
    precision: str = "float32"
    seed: int = 0
    device: str = "cpu"

    @classmethod
    def of(
        cls, setting: Setting, kind: str, device: str = "cpu", length: int | None = None
    ) -> Self:
        """Make the query of one scheme of a setting, to be computed on a device."""
        config = setting.config(kind)
        return cls(
            config=config,
            length=setting.length if length is None else length,
            head=setting.head if "heads" in config.shared else "mean",
            precision=setting.precision,
            seed=setting.seed if "seed" in config.uses else 0,
            device=device,
        )

    def build(self, place: torch.device | str = "cpu") -> Scheme:
        """Return the scheme on a device."""
        return self.config.build(device=place, seed=self.seed)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype tables are rounded to, None for exact."""
        return PRECISIONS[self.precision]


def known(scheme: Scheme, length: int) -> int:
    """Return how many of the first `length` positions have a value."""
    return length if scheme.max_length is None else min(length, scheme.max_length)
