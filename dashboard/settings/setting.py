"""One what-if: the shared numbers from which the config of every scheme is made.

A Setting is a value: frozen, hashable and strict, so that a bad number raises ConfigError.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from dashboard.settings.chosen_model import MAX_SHOWN_DIM, ChosenModel, ModelRule, chosen_model
from dashboard.settings.labelled import LabelledIntRange, LabelledMultiChoice
from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.schemes import SCHEMES
from posenc.schemes.base import Head, Request, SchemeConfig
from posenc.schemes.sizes import PRECISIONS, Sizes
from posenc.text import with_advanced

MAX_SHOWN_LENGTH = 2_048  # positions shown
MAX_SHOWN_ELEMENTS = 2**20  # positions x dimension: products stay under a second
MAX_SHOWN_HEADS = 64
MAX_SCHEMES = 6

DEFAULT_SCHEMES = ("learned", "sinusoidal", "rope", "alibi")


class _SchemeLabels(Mapping[str, str]):
    """The labels of the registered schemes, also of those that are registered later."""

    def __getitem__(self, kind: str) -> str:
        return SCHEMES[kind].label

    def __iter__(self) -> Iterator[str]:
        return iter(SCHEMES)

    def __len__(self) -> int:
        return len(SCHEMES)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The numbers that every scheme of a comparison shares.

    `own` holds the fields that belong to one scheme, as sorted pairs such as ("rope.layout", "half").
    """

    schemes: tuple[str, ...] = LabelledMultiChoice(
        options=SCHEMES.keys(),
        labels=_SchemeLabels(),
        most=MAX_SCHEMES,
        label="Schemes",
        help=with_advanced(
            "Which schemes are compared.",
            (config.label for config in SCHEMES.values() if config.advanced),
        ),
    ).field(DEFAULT_SCHEMES)
    dim: int = fields.IntRange(
        low=2,
        high=MAX_SHOWN_DIM,
        multiple_of=2,
        label="Model dimension",
        help="Width of the token vectors; learned and sinusoidal act on all of it.",
    ).field(512)
    base: float = fields.FloatRange(
        low=2.0,
        high=limits.MAX_BASE,
        label="Base",
        help="Sets the frequencies: with a larger base all pairs but the first turn more slowly. Learned "
        "and ALiBi have no pairs, so no base.",
    ).field(10000.0)
    length: int = fields.IntRange(
        low=2,
        high=MAX_SHOWN_LENGTH,
        label="Positions shown",
        help="How many positions are computed, from 0.",
    ).field(256)
    train_length: int = fields.IntRange(
        low=1,
        high=limits.MAX_TRAIN_LENGTH,
        label="Training length",
        help="Positions seen in training; an untrained learned table ends there.",
    ).field(128)
    heads: int = fields.IntRange(
        low=1,
        high=MAX_SHOWN_HEADS,
        label="Heads",
        help="RoPE acts on dimension / heads; ALiBi and other biases differ from head to head.",
    ).field(8)
    equal_width: bool = fields.Flag(
        label="Compare at equal width",
        help="Schemes that rotate get the whole model dimension instead of dimension / heads.",
    ).field(False)
    alibi_head: int = LabelledIntRange(
        low=0,
        labels={0: "mean"},
        high=MAX_SHOWN_HEADS,
        label="Head shown",
        help="Of schemes whose heads differ, such as ALiBi: the mean of all, or one; 1 is the first.",
    ).field(0)
    seed: int = fields.IntRange(
        low=0,
        high=2**31 - 1,
        label="Seed",
        help="Fixes everything random: initial tables and parameters, weights, controls.",
    ).field(0)
    learned_source: str = fields.Word(
        pattern=rf"trained|random|minilm|{limits.TABLE}|{limits.RUN}",
        in_words="trained, random, minilm, or the name of a run or of an uploaded table",
        label="Learned table",
        help="The table of a trained model, or a random start.",
    ).field("trained")
    model: str = ModelRule(
        label="Model", help="A real model: its scheme takes the model's numbers instead of these."
    ).field("")
    precision: str = fields.Choice(
        options=tuple(PRECISIONS),
        label="Precision",
        help="The precision in which a model stores its tables (ALiBi: its bias).",
    ).field("float32")
    device: str = fields.Choice(
        options=("auto", "cpu", "cuda", "mps"),
        label="Device",
        help="Device that computes the numbers; auto takes the best available.",
    ).field("auto")
    own: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        fields.check(self)
        try:
            model = self.real_model
        except ConfigFileError as error:
            raise ConfigError(f"Setting.model cannot be used: {error}") from None
        widest = largest_width(self.dim, model)
        if self.length * widest > MAX_SHOWN_ELEMENTS:
            raise ConfigError(
                f"Setting.length times {'dim' if widest == self.dim else 'the width of the model'} must "
                f"be at most {MAX_SHOWN_ELEMENTS:,}, got {self.length:,} x {widest:,}."
            )
        most = head_count(self.heads, model)
        if self.alibi_head > most:
            raise ConfigError(
                f"Setting.alibi_head must be from 0 (the mean) to {most}, got {self.alibi_head}."
            )
        object.__setattr__(self, "own", self.sizes.own)

    @functools.cached_property
    def sizes(self) -> Sizes:
        """The numbers from which the config of every scheme is made."""
        names = (field.name for field in dataclasses.fields(Sizes))
        return Sizes(**{name: getattr(self, name) for name in names})

    @property
    def head(self) -> Head:
        """The head asked for, as `position_kernel` takes it: "mean" or a number from 0."""
        return "mean" if self.alibi_head == 0 else self.alibi_head - 1

    @property
    def real_model(self) -> ChosenModel | None:
        """The chosen model, whose numbers replace these for its scheme; None for none."""
        return chosen_model(self.model) if self.model else None

    def of_model(self, kind: str) -> SchemeConfig | None:
        """Return the model's own config of a scheme, None where this setting's numbers make it.

        A model gives the shape of trained numbers, not their values: only a random start takes it.
        """
        model = self.real_model
        scheme = None if model is None else model.scheme
        if scheme is None or scheme.kind != kind:
            return None
        if kind == "learned" and self.learned_source != "random":
            return None
        return None if f"{kind}.source" in dict(self.own) else scheme

    def config(self, kind: str) -> SchemeConfig:
        """Return the config that this setting, or its model, means for one scheme."""
        return self.of_model(kind) or self.sizes.config(kind)

    def request(self, kind: str, device: str | None = None, length: int | None = None) -> Request:
        """Return the request of one scheme, without what it ignores.

        length: other positions than are shown.
        """
        config = self.config(kind)
        return Request(
            config=config,
            length=self.length if length is None else length,
            head=self.head if "heads" in fields.rules(config) else "mean",
            dtype=self.sizes.dtype,
            seed=self.seed if "seed" in config.uses else 0,
            device=device,
        )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def largest_width(dim: int, model: ChosenModel | None) -> int:
    """Return the larger of a model dimension and the width of a model's scheme, if it has one."""
    return max(dim, 0 if model is None else getattr(model.scheme, "dim", 0))


def head_count(heads: int, model: ChosenModel | None) -> int:
    """Return the heads of a model's bias, or `heads` where it has none."""
    return heads if model is None else getattr(model.scheme, "heads", heads)
