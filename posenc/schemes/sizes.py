"""The numbers that the schemes of a comparison share; the config of each scheme is made from them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch

from posenc import fields, limits
from posenc.errors import ConfigError, quoted

if TYPE_CHECKING:
    from posenc.schemes.base import SchemeConfig

MAX_UNTRAINED_ROWS = 2_048  # of a learned table that is drawn for a comparison
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The numbers of one comparison; `config` makes the config of a scheme from them.

    dim: model dimension, in features; a multiple of twice the heads (even, 2 to 65,536).
    base: base of the frequencies (above 1, at most 1e12).
    heads: number of heads, each dim / heads wide (1 to 1,024).
    length: number of positions that are compared, from 0 (1 to 2,147,483,647).
    train_length: number of positions that are seen in training (1 to 1,048,576).
    equal_width: whether schemes that rotate get the whole model dimension in place of a head's.
    learned_source: the table of the learned scheme: trained, random, minilm, or the name of a run or of
        a table in memory.
    seed: fixes everything random (0 to 2,147,483,647).
    precision: format in which tables and biases are stored; float32 counts as exact, because its
        rounding moves a similarity by less than 1e-6.
    own: fields of one scheme that differ from their defaults, as pairs such as ("rope.layout", "half").
    """

    dim: int = fields.IntRange(low=2, high=limits.MAX_DIM, multiple_of=2, label="Dimension").field(
        512
    )
    base: float = limits.BASE.field(10_000.0)
    heads: int = fields.IntRange(low=1, high=limits.MAX_HEADS, label="Heads").field(8)
    length: int = fields.IntRange(low=1, high=limits.MAX_POSITION, label="Positions").field(256)
    train_length: int = fields.IntRange(
        low=1, high=limits.MAX_TRAIN_LENGTH, label="Training length"
    ).field(128)
    equal_width: bool = fields.Flag(label="Compare at equal width").field(False)
    learned_source: str = fields.Word(
        pattern=rf"trained|random|minilm|{limits.TABLE}|{limits.RUN}",
        in_words="trained, random, minilm, or the name of a run or of an uploaded table",
        label="Learned table",
    ).field("trained")
    seed: int = fields.IntRange(low=0, high=2**31 - 1, label="Seed").field(0)
    precision: str = fields.Choice(options=tuple(PRECISIONS), label="Precision").field("float32")
    own: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        fields.check(self)
        if self.dim % (2 * self.heads):
            raise ConfigError(
                f"Sizes.dim must be a multiple of twice the heads, so that every head has an even width, "
                f"got {self.dim} for {self.heads} heads."
            )
        object.__setattr__(self, "own", _sorted_without_defaults(self.own))
        for kind in _registry():
            self.config(kind)

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.dim // self.heads

    @property
    def rotary_width(self) -> int:
        """Width that schemes rotate: one head, or the model where widths are made equal."""
        return self.dim if self.equal_width else self.head_dim

    @property
    def learned_rows(self) -> int:
        """Rows of an untrained learned table."""
        return min(self.train_length, MAX_UNTRAINED_ROWS)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that tables are rounded to, or None where the exact value counts."""
        return PRECISIONS[self.precision]

    def config(self, kind: str) -> SchemeConfig:
        """Return the config of a scheme at these sizes. Raises ConfigError for an unknown kind."""
        config = _registry()[kind]
        prefix = f"{kind}."
        own = {
            name.removeprefix(prefix): value for name, value in self.own if name.startswith(prefix)
        }
        return config(**config.shape(self) | own)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def own_rules() -> dict[str, fields.Rule]:
    """Return the rules of the fields that belong to one scheme each, such as "rope.layout"."""
    return {
        f"{kind}.{name}": rule
        for kind, config in _registry().items()
        for name, rule in config.own_rules().items()
    }


def own_defaults() -> dict[str, Any]:
    """Return the defaults of the fields that belong to one scheme each."""
    return {
        f"{kind}.{name}": default
        for kind, config in _registry().items()
        for name, default in fields.defaults(config).items()
        if name in config.own_rules()
    }


def _sorted_without_defaults(own: object) -> tuple[tuple[str, Any], ...]:
    """Return the pairs of `own` sorted and without defaults, so that equal sizes compare equal."""
    if isinstance(own, tuple) and not own:
        return ()
    default = own_defaults()
    pairs = own if isinstance(own, tuple) else (None,)
    if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        raise ConfigError(
            f'own must be a tuple of pairs such as ("rope.layout", "half"), got {quoted(own)}.'
        )
    keys = [key for key, _ in pairs]
    for key in keys:
        if key not in default or keys.count(key) > 1:
            prefix = key.partition(".")[0] + "."
            near = ", ".join(name for name in default if name.startswith(prefix))
            allowed = near or "fields of one scheme such as rope.layout"
            raise ConfigError(f"own may hold {allowed}, each once, got {quoted(key)}.")
    return tuple(sorted((key, value) for key, value in pairs if value != default[key]))


def _registry() -> dict[str, type[SchemeConfig]]:
    from posenc.schemes import SCHEMES  # whose modules import this one

    return SCHEMES
