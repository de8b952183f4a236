"""Three schemes in a file of a user, which define one hook each and nothing that could be left out."""

# mypy: disable-error-code="no-untyped-def"
from dataclasses import dataclass

import torch

import posenc


class Ramp(posenc.Scheme):
    """Adds the position to every feature."""

    def embed(self, x, positions=None):
        positions = torch.arange(x.shape[-2], device=x.device) if positions is None else positions
        return x + positions[..., None].to(x.dtype) / 1_000


class Growth(posenc.Scheme):
    """Makes keys longer by their position."""

    def rotate(self, q, k, q_positions=None, k_positions=None):
        positions = (
            torch.arange(k.shape[-2], device=k.device) if k_positions is None else k_positions
        )
        return q, k * (1 + positions[..., None].to(k.dtype) / 1_000)


class Root(posenc.Scheme):
    """Subtracts the root of the distance."""

    def offset_bias(self, offsets):
        return -offsets.abs().double().sqrt()[None]


@posenc.register
@dataclass(frozen=True, kw_only=True)
class RampConfig(posenc.SchemeConfig):
    """A ramp."""

    kind: str = "ramp"
    label = "Ramp"
    summary = "Adds the position to every feature."

    def build(self, device=None, seed=0):
        return Ramp(self)


@posenc.register
@dataclass(frozen=True, kw_only=True)
class GrowthConfig(posenc.SchemeConfig):
    """A growth."""

    kind: str = "growth"
    label = "Growth"
    summary = "Makes keys longer by their position."

    def build(self, device=None, seed=0):
        return Growth(self)


@posenc.register
@dataclass(frozen=True, kw_only=True)
class RootConfig(posenc.SchemeConfig):
    """A root."""

    kind: str = "root"
    label = "Root"
    summary = "Subtracts the root of the distance from every logit."

    def build(self, device=None, seed=0):
        return Root(self)
