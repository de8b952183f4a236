"""What a page shows twice: for the setting at hand, B, and for the pinned one, A, where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value", covariant=True)
Result = TypeVar("Result")


@dataclass(frozen=True)
class AB(Generic[Value]):
    """One thing of the setting at hand, and the same of the pinned setting or None."""

    now: Value
    pinned: Value | None = None

    def map(self, function: Callable[[Value], Result]) -> "AB[Result]":
        """Return what the function makes of both."""
        return AB(function(self.now), None if self.pinned is None else function(self.pinned))

    @property
    def each(self) -> "tuple[Value, ...]":
        """That of B, and that of A where something is pinned."""
        return (self.now,) if self.pinned is None else (self.now, self.pinned)

    @property
    def compared(self) -> bool:
        """Whether there is something pinned to compare with."""
        return self.pinned is not None
