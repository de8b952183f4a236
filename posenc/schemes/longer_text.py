"""What a scheme says of itself when a model reads a longer text: the question, and the answer."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LongerText:
    """A text of `target` tokens, read by one kind of layer of a model.

    reach: how many of them a query sees, itself included. trained_length: of the texts of training, None
    where it is not known. bias_divisor: what the model divides a scheme's bias by before adding it.
    """

    target: int
    reach: int
    trained_length: int | None = None
    bias_divisor: float = 1.0


@dataclass(frozen=True)
class LengthNote:
    """What happens at that length, and the source of it.

    works: whether positions up to the target have a value; that alone is no promise of quality.
    """

    sentence: str
    source: str
    works: bool = True
