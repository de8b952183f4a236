"""What a page shows twice: for the current setting, B, and for the pinned one, A, where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value", covariant=True)
Result = TypeVar("Result")


@dataclass(frozen=True)
class AB(Generic[Value]):
    """A value of the current setting, and that of the pinned setting or None."""

    current: Value
    pinned: Value | None = None

    def map(self, function: Callable[[Value], Result]) -> "AB[Result]":
        """Return the function's results of both."""
        return AB(function(self.current), None if self.pinned is None else function(self.pinned))

    @property
    def each(self) -> "tuple[Value, ...]":
        """That of B, and that of A where a setting is pinned."""
        return (self.current,) if self.pinned is None else (self.current, self.pinned)

    @property
    def compared(self) -> bool:
        """Whether a setting is pinned."""
        return self.pinned is not None
