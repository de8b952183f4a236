"""A loss curve of few points, however many steps: what a page draws while a training goes on."""

from collections.abc import Sequence

_POINTS = 200  # at the most


class Curve:
    """A loss curve of few points: means over steps, of twice as many steps when it grows too long."""

    def __init__(self, before: Sequence[tuple[int, float]] = ()) -> None:
        """Go on from the points of an earlier sitting."""
        self.points = list(before)
        self._each = self.points[-1][0] - self.points[-2][0] if len(self.points) > 1 else 1
        self._open: list[float] = []

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step."""
        self._open.append(loss)
        if len(self._open) < self._each:
            return
        self.points.append((step, sum(self._open) / len(self._open)))
        self._open = []
        if len(self.points) >= _POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(after[0], (before[1] + after[1]) / 2) for before, after in pairs]
            self._each *= 2
