"""Tables to try identification on: as code in use makes them, right and wrong, at a setting's sizes."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.kernel import position_vectors
from posenc.settings import Query, Setting, known
from posenc.tables import rope_tables, sinusoidal_table

Tables = tuple[Tensor, Tensor | None]

_IMPORTS = (
    "import math",
    "import torch",
    "from torch import Tensor",
    "from posenc.kernel import position_vectors",
    "from posenc.settings import Query, Setting, known",
    "from posenc.tables import rope_tables, sinusoidal_table",
)


@dataclass(frozen=True)
class Example:
    """One table. name: unique. sentence: how it is made. recipe: makes it at a setting's sizes."""

    name: str
    sentence: str
    recipe: Callable[[Setting], Tables]

    def make(self, setting: Setting) -> Tables:
        """Return the table (length, width), or cosines and sines, rounded to the setting's precision.

        Raises CheckpointError where the setting's learned table is not here.
        """
        table, sines = self.recipe(setting)
        dtype = setting.table_dtype
        if dtype is None:
            return table, sines
        return table.to(dtype), None if sines is None else sines.to(dtype)

    def code(self) -> tuple[str, str]:
        """Return the imports and the source of `recipe`, for a script; recipe(setting) makes the table."""
        source = inspect.getsource(self.recipe)
        if "_angles(" in source:
            source = f"{inspect.getsource(_angles)}\n\n{source}"
        source = source.replace(self.recipe.__name__, "recipe")
        source = source.replace("-> Tables", "-> tuple[Tensor, Tensor | None]")
        used = set(re.findall(r"\w+", source)) | {"Tensor"}
        imports = [line for line in _IMPORTS if used & set(re.findall(r"\w+", line)[1:])]
        return "\n".join(imports), source


def _sinusoidal(setting: Setting) -> Tables:
    return sinusoidal_table(setting.length, setting.dim, setting.base), None


def _tutorial(setting: Setting) -> Tables:
    position = torch.arange(setting.length, dtype=torch.float32).unsqueeze(1)
    even = torch.arange(0, setting.dim, 2, dtype=torch.float32)
    rates = torch.exp(even * (-math.log(setting.base) / setting.dim))
    table = torch.zeros(setting.length, setting.dim)
    table[:, 0::2] = torch.sin(position * rates)
    table[:, 1::2] = torch.cos(position * rates)
    return table, None


def _from_one(setting: Setting) -> Tables:
    return sinusoidal_table(setting.length, setting.dim, setting.base, start=1), None


def _m_over_d(setting: Setting) -> Tables:
    angles = _angles(setting.length, setting.base, torch.arange(setting.dim // 2) / setting.dim)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float(), None


def _tensor2tensor(setting: Setting) -> Tables:
    pairs = setting.dim // 2
    exponents = torch.arange(pairs) / max(1, pairs - 1)
    angles = _angles(setting.length, setting.base, exponents)
    return torch.cat((angles.sin(), angles.cos()), 1).float(), None


def _swapped(setting: Setting) -> Tables:
    table = sinusoidal_table(setting.length, setting.dim, setting.base, layout="half")
    return table.roll(setting.dim // 2, 1), None


def _cache(setting: Setting) -> Tables:
    cos, sin = rope_tables(setting.length, setting.rope_width, setting.base)
    return torch.cat((cos, cos), 1), torch.cat((sin, sin), 1)


def _bfloat16(setting: Setting) -> Tables:
    exponents = torch.arange(0, setting.rope_width, 2).float() / setting.rope_width
    rates = (1.0 / setting.base**exponents).bfloat16().float()
    angles = torch.arange(setting.length).float().unsqueeze(1) * rates
    twice = torch.cat((angles, angles), 1)
    return twice.cos(), twice.sin()


def _learned(setting: Setting) -> Tables:
    query = Query.of(setting, "learned")
    scheme = query.build("cpu")
    return position_vectors(scheme, known(scheme, query.length)), None


def _random(setting: Setting) -> Tables:
    generator = torch.Generator().manual_seed(setting.seed)
    return torch.randn(setting.length, setting.dim, generator=generator), None


def _angles(length: int, base: float, exponents: Tensor) -> Tensor:
    return torch.arange(length).double().unsqueeze(1) * base ** -exponents.double()


EXAMPLES = {
    one.name: one
    for one in (
        Example("sinusoidal", "The sinusoidal table of these settings, exact.", _sinusoidal),
        Example(
            "tutorial code",
            "As tutorials make it: float32 exponentials of logarithms, times float32 positions.",
            _tutorial,
        ),
        Example("starts at 1", "The sinusoidal table, its first row for position 1.", _from_one),
        Example("exponent m/d", "The sinusoidal table with m/d in place of 2m/d.", _m_over_d),
        Example(
            "tensor2tensor",
            "Sines, then cosines, with tensor2tensor's exponent, 2m/(d - 2) in place of 2m/d.",
            _tensor2tensor,
        ),
        Example("swapped halves", "All cosines, then all sines.", _swapped),
        Example("RoPE cache", "Cosines and sines of one head as transformers keeps them.", _cache),
        Example(
            "RoPE cache in bfloat16",
            "Cosines and sines from frequencies kept in bfloat16, as in a model that was cast to it.",
            _bfloat16,
        ),
        Example("learned", "The learned table that is chosen in the sidebar.", _learned),
        Example("random numbers", "Independent normal numbers, which no formula makes.", _random),
    )
}
