"""Schemes with parameters: drawn by a seed, or those of a training run.

All layers of a model share one set, as in T5 (Raffel et al. 2020, arXiv 1910.10683, section 2.1), except
where a config counts `layers`: then each layer has its own.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc import fields, limits
from posenc.device import resolve_device
from posenc.errors import CheckpointError, SchemeArgumentError
from posenc.schemes.base import Scheme, SchemeConfig

INITIAL = "initial"
INITIAL_STD = 0.02  # of tables, as in BERT, GPT-2 and Transformer-XL's public code
LAYERS = fields.IntRange(low=1, high=1_024, label="Layers")
_DEEPER = "deeper."  # how names of parameters of layers above the first begin


def source_field(label: str) -> Any:
    """Return the field that names the source of a scheme's parameters."""
    rule = fields.Word(
        pattern=rf"{INITIAL}|trained|{limits.RUN}",
        in_words="initial, trained or run- with the name of a run",
        label=f"{label} parameters",
    )
    return rule.field(INITIAL)


@dataclass(frozen=True, kw_only=True)
class TrainableConfig(SchemeConfig):
    """A scheme with parameters.

    source: initial: as drawn at the start, untrained. trained: of a run that ships with posenc. Or the
        name of a run.
    """

    source: str = source_field("Scheme")

    start: ClassVar[str] = "an untrained start"

    @property
    def uses(self) -> tuple[str, ...]:
        return (*super().uses, "seed") if self.source == INITIAL else super().uses

    @abstractmethod
    def initial(self, generator: torch.Generator) -> "Trainable":
        """Return the scheme on the CPU with float32 parameters drawn from `generator`."""

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Trainable":
        """Return the scheme. Raises CheckpointError unless the source is a run of these sizes."""
        limits.check_seed(seed)
        scheme = self.initial(torch.Generator("cpu").manual_seed(seed))
        scheme.seed = seed
        scheme.provenance = f"initial parameters, seed {seed}, untrained"
        if self.source != INITIAL:
            scheme.load_run(self.source)
        return scheme.to(resolve_device(device))


class Trainable(Scheme):
    """A scheme with parameters, random until a run's are loaded."""

    config: TrainableConfig
    untrained = True
    seed: int = 0

    def reset_parameters(self) -> None:
        """Fill the parameters with those that `build` gave: drawn by the seed, or those of a run.

        For a scheme that was built on the meta device and materialised by `to_empty`.
        """
        copy_parameters(self.config.build(device="cpu", seed=self.seed), self)

    def load_run(self, source: str) -> None:
        """Load the parameters of a run. Raises CheckpointError unless they fit."""
        from posenc.checkpoints.sources import run_parameters  # most schemes read no files

        run = run_parameters(source, self.config.kind)
        shapes = {name: tuple(value.shape) for name, value in self.named_parameters()}
        tensors = {
            name: value
            for name, value in run.tensors.items()
            if name in shapes or not name.startswith(_DEEPER)
        }
        run_shapes = {name: tuple(value.shape) for name, value in tensors.items()}
        if shapes != run_shapes:
            raise CheckpointError(
                f"{self.config.label}: the {run.provenance} do not fit these sizes, their shapes are "
                f"{_listed(run_shapes)} and {_listed(shapes)} is asked for; take the heads and the "
                f"dimension of that run ({run.description})."
            )
        self.load_state_dict(tensors)
        self.provenance, self.untrained = run.provenance, False


@dataclass(frozen=True, kw_only=True)
class PerLayerConfig(TrainableConfig):
    """A scheme whose parameters every layer of a model has for itself.

    layers: number of layers with parameters of their own; with 1 all layers share them (1 to 1,024).
    """

    layers: int = LAYERS.field(1)

    of_models: ClassVar[tuple[str, ...]] = ("layers",)

    @abstractmethod
    def of_layer(self, generator: torch.Generator) -> "PerLayer":
        """Return the scheme of one layer on the CPU with float32 parameters drawn from `generator`."""

    def initial(self, generator: torch.Generator) -> "PerLayer":
        first = self.of_layer(generator)
        first.deeper.extend(self.of_layer(generator) for _ in range(self.layers - 1))
        return first


class PerLayer(Trainable):
    """The scheme of the first layer, which holds those of the layers above it."""

    config: PerLayerConfig

    def __init__(self, config: PerLayerConfig) -> None:
        super().__init__(config)
        self.deeper = nn.ModuleList()

    def reset_parameters(self) -> None:
        """Fill the parameters of all layers; see `Trainable`. A layer above the first does nothing."""
        if 1 + len(self.deeper) == self.config.layers:
            super().reset_parameters()

    def layer(self, index: int) -> Scheme:
        """Return the scheme of a layer. Raises SchemeArgumentError above the last one."""
        if self.config.layers == 1 or index == 0:
            return self
        if index >= self.config.layers:
            raise SchemeArgumentError(
                f"{self.config.label} has parameters of {self.config.layers} layers: there is no layer "
                f"{index}."
            )
        deeper = self.deeper[index - 1]
        assert isinstance(deeper, Scheme)
        return deeper


@torch.no_grad()
def copy_parameters(source: nn.Module, target: nn.Module) -> None:
    """Copy every parameter of a module into another module of the same class and sizes."""
    for new, old in zip(source.parameters(), target.parameters(), strict=True):
        old.copy_(new)


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())


def drawn_parameter(generator: torch.Generator, *shape: int) -> Float[Tensor, " *shape"]:
    """Return a parameter with entries from N(0, INITIAL_STD^2), on the CPU."""
    normal = torch.randn(*shape, generator=generator, dtype=torch.float32, device="cpu")
    return nn.Parameter(normal * INITIAL_STD)


def uniform(
    generator: torch.Generator, *shape: int, low: float, high: float
) -> Float[Tensor, " *shape"]:
    """Return uniform random numbers in [low, high), float32 on the CPU."""
    unit = torch.rand(*shape, generator=generator, dtype=torch.float32, device="cpu")
    return low + (high - low) * unit
