"""Watch the layers of a model of transformers while it runs: what they rotate, and what they attend to."""

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

ROTATES = re.compile(r"^apply_.*rot")


class Observer:
    """What the layers of one run did, by their index."""

    def __init__(self) -> None:
        self.layer: int | None = None
        self.rotations: dict[int, torch.Tensor] = {}
        self.masks: dict[int, torch.Tensor | None] = {}
        self.known: dict[Any, torch.Tensor] = {}

    def attention(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **_: Any
    ) -> Any:
        """Stand in for the attention: write down what it is given, and return zeros."""
        assert self.layer is not None
        self.masks[self.layer] = attention_mask
        zeros = (query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
        return torch.zeros(zeros, dtype=query.dtype), None

    def rotation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that rotates; the first token of the run stands at position 1."""

        def wrapper(heads: torch.Tensor, *rest: Any, **named: Any) -> Any:
            if self.layer is None or self.layer in self.rotations:
                return function(heads, *rest, **named)
            angles = [one for one in (*rest, *named.values()) if isinstance(one, torch.Tensor)]
            key = (
                function,
                heads.shape[-1],
                *(str(one.tolist()) for one in angles if one.dim() < 4),
            )
            if key not in self.known:
                columns = []
                for feature in range(heads.shape[-1]):
                    unit = torch.zeros_like(heads)
                    unit[..., feature] = 1.0
                    found = function(unit, *rest, **named)
                    found = found[0] if isinstance(found, tuple) else found
                    columns.append(found.reshape(-1, found.shape[-1])[0])
                self.known[key] = torch.stack(columns, dim=1)
            self.rotations[self.layer] = self.known[key]
            return function(heads, *rest, **named)

        return wrapper


OBSERVER = Observer()


def stand_in(*arguments: Any, **named: Any) -> Any:
    return OBSERVER.attention(*arguments, **named)


@contextlib.contextmanager
def observed(model: torch.nn.Module, layers: Any) -> Iterator[Observer]:
    """Observe the layers of a model while it runs."""
    global OBSERVER
    OBSERVER = Observer()
    undo: list[Callable[[], Any]] = []
    for index, layer in enumerate(layers):

        def enter(*_: Any, index: int = index) -> None:
            OBSERVER.layer = index

        undo.append(layer.register_forward_pre_hook(enter).remove)
    for module in {sys.modules[type(one).__module__] for one in model.modules()}:
        for name, function in list(vars(module).items()):
            if ROTATES.match(name) and "vision" not in name and callable(function):
                setattr(module, name, OBSERVER.rotation(function))
                undo.append(partial(setattr, module, name, function))
    try:
        yield OBSERVER
    finally:
        for one in undo:
            one()


def read_rotation(matrix: torch.Tensor) -> dict[str, Any]:
    """Return the pairs, angles and factor of a rotation by position 1."""
    pairs: dict[tuple[int, int], int] = {}
    for row in range(matrix.shape[0]):
        features = tuple(int(one) for one in matrix[row].nonzero().flatten())
        if len(features) == 2:
            pairs.setdefault((features[0], features[1]), row)
    distances = {b - a for a, b in pairs}
    layout = "interleaved" if distances == {1} else "half" if len(distances) == 1 else "other"
    assert layout != "other", distances
    angles, factors = [], set()
    for (a, b), row in sorted(pairs.items()):
        cosine, sine = float(matrix[row, a]), abs(float(matrix[row, b]))
        angles.append(math.atan2(sine, cosine))
        factors.add(round(math.hypot(sine, cosine), 5))
    assert len(factors) == 1, factors
    return {
        "rotated": 2 * len(pairs),
        "layout": layout,
        "attention_factor": factors.pop(),
        "frequencies": angles,
    }


def sampled(values: list[float]) -> list[float]:
    """Return the first, second, middle, last but one and last of a list."""
    return [values[index] for index in (0, 1, len(values) // 2, -2, -1)]
