"""The modules that tutorials define, with exact tables.

Sizes are keyword-only because tutorials disagree on their order.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import limits
from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.hook_arguments import is_real, type_and_shape
from posenc.schemes.trainable import INITIAL_STD
from posenc.tables import sinusoidal_table


class _PositionTable(nn.Module):
    """Adds the rows of a table, (max_len, d_model), then dropout."""

    table: Tensor
    dropout: nn.Dropout

    def forward(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """Return x plus the rows of positions 0 .. t-1. Raises PositionOutOfRange past max_len."""
        rows, width = self.table.shape
        if not is_real(x) or x.dim() != 3 or x.shape[2] != width:
            raise SchemeArgumentError(
                f"x must have the shape (batch, tokens, {width}), got {type_and_shape(x)}."
            )
        if x.shape[1] > rows:
            raise PositionOutOfRange(
                f"The table has rows for positions 0 to {rows - 1:,}; "
                f"position {x.shape[1] - 1:,} has none.",
                limit=rows,
            )
        return self.dropout(x + self.table[: x.shape[1]])


class SinusoidalPositionalEncoding(_PositionTable):
    """Adds the sinusoidal table (Vaswani et al. 2017, arXiv 1706.03762, section 3.5), then dropout.

    The table is a buffer saved with the model, (max_len, d_model), in the dtype the model has.
    Raises SchemeArgumentError for an odd d_model: sines and cosines come in pairs.
    """

    def __init__(
        self, *, d_model: int, max_len: int = 5000, base: float = 10000.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        limits.check_count("max_len", max_len, 1, limits.MAX_POSITION)
        limits.check_width("d_model", d_model)
        self.base = base
        self.register_buffer("table", sinusoidal_table(max_len, d_model, base))
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Fill the table by its formula, as after `to_empty` of a module built on the meta device."""
        rows, width = self.table.shape
        self.table.copy_(sinusoidal_table(rows, width, self.base, device="cpu"))


class LearnedPositionalEncoding(_PositionTable):
    """Adds a trainable row per position (Gehring et al. 2017, arXiv 1705.03122), then dropout.

    The table starts as N(0, 0.02), drawn from torch's own generator like any other layer.
    """

    def __init__(self, *, d_model: int, max_len: int = 5000, dropout: float = 0.0) -> None:
        super().__init__()
        limits.check_count("max_len", max_len, 1, limits.MAX_POSITION)
        limits.check_count("d_model", d_model, 1, limits.MAX_DIM)
        limits.check_elements(max_len, d_model)
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        self.reset_parameters()
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw the table from N(0, 0.02), by torch's own generator."""
        nn.init.normal_(self.table, std=INITIAL_STD)


class TokenPlusPositionEmbedding(nn.Module):
    """Token embedding times sqrt(d_model), plus position, then dropout (Vaswani et al. 2017, 3.4-3.5).

    position: "sinusoidal" or "learned".
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        d_model: int,
        max_len: int = 5000,
        dropout: float = 0.1,
        position: Literal["sinusoidal", "learned"] = "sinusoidal",
    ) -> None:
        super().__init__()
        limits.check_count("vocab_size", vocab_size, 1, limits.MAX_POSITION)
        limits.check_count("d_model", d_model, 1, limits.MAX_DIM)
        limits.check_elements(vocab_size, d_model)
        kinds = {"sinusoidal": SinusoidalPositionalEncoding, "learned": LearnedPositionalEncoding}
        limits.check_choice("position", position, kinds)
        self.position = kinds[position](d_model=d_model, max_len=max_len)
        self.token = nn.Embedding(vocab_size, d_model)
        self.scale = math.sqrt(d_model)
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw the token vectors from N(0, 1), as nn.Embedding does, and fill the table of positions."""
        self.token.reset_parameters()
        self.position.reset_parameters()

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Return the vectors of token numbers at positions 0 .. t-1.

        Raises PositionOutOfRange past max_len.
        """
        return self.dropout(self.position(self.token(tokens) * self.scale))
