"""NoPE: nothing is added; a causal decoder still sees order.

Kazemnejad et al. 2023, The Impact of Positional Encoding on Length Generalization in Transformers,
arXiv 2305.19466.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from posenc.formula import Writer
from posenc.schemes.longer_text import LengthNote, LongerText
from posenc.schemes.scheme import Scheme, SchemeConfig


@dataclass(frozen=True, kw_only=True)
class NoneConfig(SchemeConfig):
    """No positional encoding."""

    kind: Literal["none"] = "none"

    label: ClassVar[str] = "NoPE"
    summary: ClassVar[str] = "Adds nothing: order shows only through the causal mask."
    paper: ClassVar[str] = "Kazemnejad et al. 2023, arXiv 2305.19466"

    def length_note(self, text: LongerText) -> LengthNote:
        return LengthNote(
            sentence="No position is put in, so there is nothing to scale.", source="its config"
        )

    def formula(self, write: Writer) -> str:
        return (
            rf"\mathrm{{logit}}({write.position}, {write.key}) = "
            rf"\frac{{q_{{{write.position}}} \cdot k_{{{write.key}}}}}{{\sqrt{{d_\mathrm{{head}}}}}}"
        )

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> Scheme:
        return Scheme(self)
