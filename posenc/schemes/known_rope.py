"""What is known of a kind of RoPE: its words in a config.json, servers' options, evidence, and tables.

Every part has a default that says "nothing". A scaling overrides what it has in its one file, and the
reader and writer of configs, the planner, identification, the pages and the command line take it from
there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from posenc import fields
from posenc.errors import ConfigFileError
from posenc.schemes.base import LengthNote, LongerText
from posenc.text import power

TRAINED = "original_max_position_embeddings"  # a block's key of the length before scaling

Block = dict[str, Any]
Training = Literal["trained", "fine-tuning", "new length", "untold", "fails"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What sources say of reading a trained model so: `statement`, in sentences; `source`: where.

    training: what such a reading takes.
    untrained_to: the largest factor at which a source reports that it works without training; 0 for none.
    trained_to: the largest factor to which the sources trained a model with it; 0 for none.
    measured_as: kind of another scaling that has the same frequencies at the target, "" for none: what
    was measured with that one holds for this one.
    """

    training: Training
    statement: str
    source: str
    untrained_to: float = 0.0
    trained_to: float = 0.0
    measured_as: str = ""


@dataclass(frozen=True, kw_only=True)
class InCode:
    """Another scaling that public code computes under the name of a printed one.

    kind: of that scaling. rule: what to beware of, one sentence. source: where both stand.
    """

    kind: str
    rule: str
    source: str


@dataclass(frozen=True, kw_only=True)
class SeenLadder:
    """What a table shows of its frequencies before a scaling is named.

    dim: twice its pairs. bases: those that its fastest pairs speak for, which scalings leave alone.
    turning: how many pairs, the fastest ones, may turn; () where all do.
    """

    dim: int
    bases: tuple[float, ...]
    turning: tuple[int, ...] = ()


@runtime_checkable  # for the shape checks of the tests
class RopeBlock(Protocol):
    """A rope block of a config.json and the model around it, as a scaling reads it.

    Errors name the key; what is taken for granted is noted.
    """

    @property
    def context(self) -> tuple[str, int]:
        """The key of the length that the config says the model takes, and its value."""

    def head(self) -> dict[str, Any]:
        """Return width, base and layout of the head."""

    def shared(self) -> dict[str, Any]:
        """Return what plain RoPE is made of: `head`, and the share of it that is rotated."""

    def share(self) -> float | None:
        """Return the rotated share as the config says it, or None."""

    def pairs(self) -> int:
        """Return the number of pairs of the rotated width."""

    def has(self, name: str) -> bool:
        """Whether the block says a key."""

    def factor(self, trained: int | None = None, *, absent: bool = True) -> float:
        """Return the scale factor; without one, the context over `trained` where that is given.

        absent: whether the key may be left out, too, and not only be null.
        """

    def trained_length(self) -> int:
        """Return the length before scaling, or what transformers takes for it."""

    def own(self, owner: type, name: str, *, required: bool = False) -> Any:
        """Return the key of a field's name, by the field's rule; its default where it is absent."""

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""

    def numbers(self, name: str, count: int, rule: fields.FloatRange) -> tuple[float, ...]:
        """Return a list of exactly `count` numbers; the key is required."""

    def counts(self, name: str, total: int) -> tuple[int, ...]:
        """Return a list of 1 to 4 counts that sum to `total`."""

    def assume(self, sentence: str) -> None:
        """Note what is taken for granted."""

    def named(self, name: str) -> str:
        """Return a key with its way from the top."""

    def error(self, name: str, problem: str) -> ConfigFileError:
        """Return an error about a key; `problem` goes on from its name."""


class KnownRope:
    """What is known of one kind of RoPE beside its formula.

    block_types: words of rope_type that mean it, transformers' own first; empty for none.
    block_keys: keys of its block that a block without any type must not have.
    block_mark: a key that makes a block of type default one of this kind.
    starts_at_context: whether public code takes the length that scaling starts from from the context.
    vllm_counts_factor: whether vLLM makes the context longer by the block's factor, untold.
    vllm_doubt: why no flags of vLLM are given; "" where they are.
    in_code: what public code computes instead, where it does not compute this.
    evidence: what its source says of reading a trained model so; None is not offered as a way to.
    """

    label: ClassVar[str]
    base: float

    block_types: ClassVar[tuple[str, ...]] = ()
    block_keys: ClassVar[tuple[str, ...]] = ()
    block_mark: ClassVar[str] = ""
    starts_at_context: ClassVar[bool] = False
    vllm_counts_factor: ClassVar[bool] = False
    vllm_doubt: ClassVar[str] = ""
    in_code: ClassVar[InCode | None] = None
    evidence: ClassVar[Evidence | None] = None

    def to_block(self) -> Block | None:
        """Return rope_type and its keys as a config has them; None where transformers has no words.

        The base is that of the config, unless the block says a rope_theta of its own.
        """
        return None

    def llama_cpp(self) -> str:
        """Return the options of llama.cpp, "" where it has none for this."""
        return ""

    def stretch(self, length: int) -> float | None:
        """Return by what the slowest frequencies are divided in a text of `length`, None for none."""
        return None

    def length_note(self, text: LongerText) -> LengthNote:
        """Return whether distances occur that training did not show."""
        name = f"{self.label} of base {power(self.base)}"
        if text.trained_length is None:
            return LengthNote(
                sentence=f"{name}; the trained length is not known.", source="its config"
            )
        if text.reach <= text.trained_length:
            return LengthNote(
                sentence=f"{name}: no distance occurs that training did not show.",
                source="computed",
            )
        return LengthNote(
            sentence=f"{name}: distances from {text.trained_length:,} on were never trained.",
            source="computed",
        )

    @property
    def made_for(self) -> float | None:
        """How many tokens the scaling reaches, None where it does not say or follows the text."""
        return None

    @classmethod
    def like(cls, seen: SeenLadder) -> Iterator[Self]:
        """Yield the configs in use whose frequencies a table like this may have."""
        return iter(())

    @classmethod
    def of_ladder(cls, dim: int, base: float, scale: float) -> Self | None:
        """Return the config of the frequencies scale * base^(-2m/dim), where scale is not 1."""
        return None

    @classmethod
    def meant_by(cls, dim: int, base: float, usual: Sequence[float]) -> list[tuple[float, str]]:
        """Return the bases near one that this makes out of usual bases, each with how, in words."""
        return []
