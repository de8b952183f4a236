"""A value that a page has for two settings: the current one, B, and the pinned one, A, if there is one."""

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
        """The value of B, then the value of A if a setting is pinned."""
        return (self.current,) if self.pinned is None else (self.current, self.pinned)

    @property
    def compared(self) -> bool:
        """Whether a setting is pinned."""
        return self.pinned is not None
