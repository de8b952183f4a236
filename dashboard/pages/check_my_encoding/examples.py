"""The table that is checked: an example, as code in use makes it, right or wrong; or a visitor's upload."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

import posenc
from dashboard.settings import Setting
from dashboard.visitor_files import cached_numbers
from posenc.kernel import position_vectors
from posenc.tables import rope_tables, sinusoidal_table

NO_TABLE = "There is no table to check."

Tables = tuple[Tensor, Tensor | None]

IMPORTS = """\
import math
import posenc
import torch
from torch import Tensor
from posenc.kernel import position_vectors
from posenc.tables import rope_tables, sinusoidal_table"""


def make(name: str, sizes: posenc.Sizes) -> Tables:
    """Return an example (length, width), or cosines and sines, rounded to the precision of the sizes.

    Raises CheckpointError where the learned table is not here.
    """
    table, sines = EXAMPLES[name](sizes)
    dtype = sizes.dtype
    if dtype is None:
        return table, sines
    return table.to(dtype), None if sines is None else sines.to(dtype)


def code(name: str) -> str:
    """Return the source of an example, for a script with IMPORTS; recipe(sizes) makes it."""
    function = EXAMPLES[name]
    source = inspect.getsource(function).replace(function.__name__, "recipe")
    if "_angles(" in source:
        source = f"{inspect.getsource(_angles)}\n\n{source}"
    return source.replace("-> Tables", "-> tuple[Tensor, Tensor | None]")


def _sinusoidal(sizes: posenc.Sizes) -> Tables:
    """The sinusoidal table of these settings, exact."""
    return sinusoidal_table(sizes.length, sizes.dim, sizes.base), None


def _tutorial(sizes: posenc.Sizes) -> Tables:
    """As tutorials make it: float32 exponentials of logarithms, times float32 positions."""
    position = torch.arange(sizes.length, dtype=torch.float32).unsqueeze(1)
    even = torch.arange(0, sizes.dim, 2, dtype=torch.float32)
    rates = torch.exp(even * (-math.log(sizes.base) / sizes.dim))
    table = torch.zeros(sizes.length, sizes.dim)
    table[:, 0::2] = torch.sin(position * rates)
    table[:, 1::2] = torch.cos(position * rates)
    return table, None


def _from_one(sizes: posenc.Sizes) -> Tables:
    """The sinusoidal table, its first row for position 1."""
    return sinusoidal_table(sizes.length, sizes.dim, sizes.base, start=1), None


def _m_over_d(sizes: posenc.Sizes) -> Tables:
    """The sinusoidal table with m/d in place of 2m/d."""
    angles = _angles(sizes.length, sizes.base, torch.arange(sizes.dim // 2) / sizes.dim)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float(), None


def _tensor2tensor(sizes: posenc.Sizes) -> Tables:
    """Sines, then cosines, with tensor2tensor's exponent, 2m/(d - 2) in place of 2m/d."""
    pairs = sizes.dim // 2
    exponents = torch.arange(pairs) / max(1, pairs - 1)
    angles = _angles(sizes.length, sizes.base, exponents)
    return torch.cat((angles.sin(), angles.cos()), 1).float(), None


def _swapped(sizes: posenc.Sizes) -> Tables:
    """All cosines, then all sines."""
    table = sinusoidal_table(sizes.length, sizes.dim, sizes.base, layout="half")
    return table.roll(sizes.dim // 2, 1), None


def _cache(sizes: posenc.Sizes) -> Tables:
    """Cosines and sines of one head as transformers keeps them."""
    cos, sin = rope_tables(sizes.length, sizes.rotary_width, sizes.base)
    return torch.cat((cos, cos), 1), torch.cat((sin, sin), 1)


def _bfloat16(sizes: posenc.Sizes) -> Tables:
    """Cosines and sines from frequencies kept in bfloat16, as in a model that was cast to it."""
    exponents = torch.arange(0, sizes.rotary_width, 2).float() / sizes.rotary_width
    rates = (1.0 / sizes.base**exponents).bfloat16().float()
    angles = torch.arange(sizes.length).float().unsqueeze(1) * rates
    twice = torch.cat((angles, angles), 1)
    return twice.cos(), twice.sin()


def _learned(sizes: posenc.Sizes) -> Tables:
    """The learned table that is chosen in the sidebar."""
    scheme = sizes.config("learned").build("cpu", seed=sizes.seed)
    return position_vectors(scheme, scheme.positions_within(sizes.length)), None


def _random(sizes: posenc.Sizes) -> Tables:
    """Independent normal numbers, which no formula makes."""
    generator = torch.Generator().manual_seed(sizes.seed)
    return torch.randn(sizes.length, sizes.dim, generator=generator), None


def _angles(length: int, base: float, exponents: Tensor) -> Tensor:
    return torch.arange(length).double().unsqueeze(1) * base ** -exponents.double()


# By name, broken ones first; the docstring says how it is made.
EXAMPLES: dict[str, Callable[[posenc.Sizes], Tables]] = {
    "RoPE cache in bfloat16": _bfloat16,
    "starts at 1": _from_one,
    "exponent m/d": _m_over_d,
    "swapped halves": _swapped,
    "tutorial code": _tutorial,
    "random numbers": _random,
    "sinusoidal": _sinusoidal,
    "RoPE cache": _cache,
    "tensor2tensor": _tensor2tensor,
    "learned": _learned,
}


def without_model(setting: Setting) -> Setting:
    """Return a setting without its real model, which examples and probes do not read."""
    return replace(setting, model="", alibi_head=0)


def chosen_table(name: str, setting: Setting) -> Tables:
    """Return the table of a name, or its cosines and sines; raises CheckpointError if it is gone."""
    if name in EXAMPLES:
        return make(name, setting.sizes)
    uploaded = cached_numbers.get(name).table
    return uploaded.table, uploaded.sines
