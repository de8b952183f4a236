r"""Dynamic NTK: NTK-aware scaling that grows with the text; none up to the trained length.

emozilla 2023, as in Peng et al. 2023, arXiv 2309.00071, section 3.3 and, with the factor s, all public
code: at n positions :math:`b' = b\,(s n / L_0 - (s - 1))^{d/(d-2)}`, :math:`n \ge L_0`. The frequencies
move as the text grows, so keys that were rotated and kept for a shorter text are stale.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from jaxtyping import Float
from torch import Tensor

from posenc.formula import Writer, number
from posenc.schemes.known_rope import Block, Evidence, RopeBlock
from posenc.schemes.rope import RopeConfig, float32_powers
from posenc.schemes.rope_scaling.ntk import larger_base, larger_base_formula
from posenc.schemes.rope_scaling.scaled import (
    ScaledRopeConfig,
    factor_field,
    read_length_field,
    trained_length_field,
)


@dataclass(frozen=True, kw_only=True)
class RopeDynamicConfig(ScaledRopeConfig):
    """RoPE with NTK-aware scaling for a text of `length` positions."""

    kind: str = "rope_dynamic"
    factor: float = factor_field(4.0, "How fast the base grows past the trained length.")
    trained_length: int = trained_length_field(2_048)
    length: int = read_length_field()

    label: ClassVar[str] = "RoPE dynamic NTK"
    summary: ClassVar[str] = "RoPE whose base grows with the text past the trained length."
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071"
    reading: ClassVar[str] = "dynamic NTK"
    shared: ClassVar[dict[str, str]] = ScaledRopeConfig.shared | {"length": "length"}
    block_types: ClassVar[tuple[str, ...]] = ("dynamic",)
    block_keys: ClassVar[tuple[str, ...]] = ("factor",)
    starts_at_context: ClassVar[bool] = True  # max_position_embeddings is L0 in transformers
    vllm_doubt: ClassVar[str] = (
        "No vLLM flags: that its dynamic NTK grows with the text as here was not verified."
    )
    evidence: ClassVar[Evidence | None] = Evidence(
        training="fine-tuning",
        statement="Proposed for models that are not trained further: they degrade gradually. Llama-2-7B "
        "read so had a perplexity of 10.2 at x2 and 23.3 at x4 on PG-19, and 3.5 and 3.9 on Proof-pile. "
        "Keys must be cached unrotated. As planned here its factor is 1, because the base grows with the "
        "text anyway.",
        source="emozilla 2023, reddit.com/r/LocalLLaMA, post 14mrgpr; Peng et al. 2023, arXiv 2309.00071, "
        "section 3.3; Ding et al. 2024, arXiv 2402.13753, table 1",
        untrained_to=2.0,
        measured_as="rope_ntk",
    )

    @classmethod
    def planned(
        cls, trained: RopeConfig, *, text: int, reach: int, trained_length: int
    ) -> Self | None:
        # It looks at the whole text, whatever a query sees of it. With factor 1 the base grows by
        # n / L, the s of the paper's section 3.3; a larger factor, which public code allows, divides
        # the slowest pair by more than the text is longer.
        found = cls.stretching(trained, text, trained_length)
        return None if found is None else found.replace(factor=1.0)

    @classmethod
    def from_block(cls, block: RopeBlock) -> Self:
        name, context = block.context
        block.assume(
            f"dynamic scaling begins at {context:,}, which is {name}, as transformers has it; the model "
            "may have been trained on another length."
        )
        return cls(**block.shared(), factor=block.factor(), trained_length=context)

    def to_block(self) -> Block | None:
        return {"rope_type": "dynamic", "factor": self.factor}

    def stretch(self, length: int) -> float | None:
        return self.at_length(length).growth

    @property
    def made_for(self) -> float | None:
        return None  # it follows the text

    @property
    def growth(self) -> float:
        """What the base is multiplied by, to the power d/(d-2): s n / L0 - (s - 1), 1 up to L0."""
        n, trained = max(self.length, self.trained_length), self.trained_length
        return (self.factor * n / trained) - (self.factor - 1)

    def at_length(self, length: int) -> Self:
        return self.replace(length=length)

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        if write.numbers:
            return larger_base_formula(write, number(self.growth))
        growth = r"\left(\frac{s\,\max(n, L)}{L} - (s - 1)\right)"
        return larger_base_formula(write, growth)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return larger_base(self.rotary_dim // 2, self.growth)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        if rotary_dim == 2:  # one pair keeps its frequency; transformers divides by zero
            return super().float32_ladder(rotary_dim)
        base = self.base * self.growth ** (rotary_dim / (rotary_dim - 2))
        return 1.0 / float32_powers(base, rotary_dim)
