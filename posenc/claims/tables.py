"""Claims about learned tables: what they are, and where they end.

Gehring et al. 2017, arXiv 1705.03122; Devlin et al. 2018, arXiv 1810.04805.
"""

import math

import torch
from torch.nn import functional

from posenc.claims.claim import Number, State, Verdict, figure, sinusoidal
from posenc.errors import PositionOutOfRange
from posenc.schemes.learned import Learned
from posenc.setting import Setting
from posenc.words import counted

MOST_ROWS = 256


def one_hot(setting: Setting) -> Verdict:
    """Look rows of the learned table up, and multiply one-hot vectors by it."""
    table = learned(setting).weight.detach().double()[:MOST_ROWS]
    if setting.table_dtype is not None:
        table = table.to(setting.table_dtype).double()
    rows = len(table)
    looked_up = functional.embedding(torch.arange(rows), table)
    multiplied = functional.linear(torch.eye(rows, dtype=torch.float64), table.T)
    if not bool(table.isfinite().all()):
        said = "The table holds entries that are not finite, and 0 times infinity is no number."
        return Verdict(State.FALSE, (Number("largest difference", None),), said)
    gap = (looked_up - multiplied).abs().max().item()
    draw = torch.Generator().manual_seed(setting.seed)
    bias = (torch.rand(table.shape[1], generator=draw) * 2 - 1) / math.sqrt(rows)
    return Verdict(
        State.THEOREM if gap == 0 else State.FALSE,
        (Number("largest difference", gap),),
        f"Over {counted(rows, 'row')} of width {table.shape[1]:,}, looking up and multiplying one-hot "
        f"vectors differ by {figure(gap)}: the same numbers, without the zeros.",
        Number("difference of nn.Linear with its default bias", bias.abs().max().item()),
    )


def ends(setting: Setting) -> Verdict:
    """Ask the learned table for the row past its last; the sinusoidal formula must have it."""
    scheme = learned(setting)
    rows = scheme.config.max_len
    at = torch.tensor([rows])
    token = torch.zeros(1, 1, scheme.config.dim)
    try:
        scheme.embed(token, at)
    except PositionOutOfRange as refused:
        state, limit = State.THEOREM, refused.limit
    else:
        state, limit = State.FALSE, rows
    formula = sinusoidal(setting)
    norm = formula.embed(torch.zeros(1, 1, setting.dim), at).norm().item()
    return Verdict(
        state,
        (Number("rows of the table", limit, "row" if limit == 1 else "rows"),),
        f"This table ({scheme.provenance}) has {counted(limit, 'row')} of width "
        f"{scheme.config.dim:,}, from position 0; asking for position {rows:,} is an error.",
        Number(f"norm of the sinusoidal row at {rows:,}, which exists", norm),
    )


def learned(setting: Setting) -> Learned:
    """Return the learned table of a setting."""
    scheme = setting.config("learned").build(seed=setting.seed)
    assert isinstance(scheme, Learned)
    return scheme
