"""Claims about how large position is beside content, and when content drowns it.

Vaswani et al. 2017, arXiv 1706.03762, sections 3.4 and 3.5: token embeddings times sqrt(d_model), plus
the sinusoidal table, whose rows have the norm sqrt(d / 2).
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.claims.claim import Number, State, Verdict, figure, share, sinusoidal
from posenc.kernel import position_vectors
from posenc.schemes.learned import INITIAL_STD
from posenc.setting import Setting

VOCABULARY = 37_000  # of Vaswani et al. 2017, section 5.1, for Xavier's start
SAME_SCALE = 2.0  # norms within this factor are on one scale
LOST = 0.75  # share of pairs in order below which order is lost; guessing gives a half
KEPT = 0.9
POSITIONS = 64
WORDS = 64  # different ones in the experiment; they leave no room in a width of 64 or less
STRENGTHS = 80  # steps of sqrt(2), from a sixteenth of the norm of position

# The standard deviation of one entry of a token embedding of width d, as it is usually started.
STARTS: dict[str, Callable[[int], float]] = {
    "N(0, 1/d)": lambda dim: dim**-0.5,
    "N(0, 1)": lambda dim: 1.0,  # torch.nn.Embedding
    "N(0, 0.02^2)": lambda dim: INITIAL_STD,  # BERT, GPT-2
    "Xavier": lambda dim: math.sqrt(2 / (VOCABULARY + dim)),
}


def sqrt_scale(setting: Setting) -> Verdict:
    """Divide the norm of a token times sqrt(d) by that of position, for every usual start."""
    found = {name: setting.dim**0.5 * ratio for name, ratio in token_over_position(setting).items()}
    within = [
        name for name, ratio in found.items() if abs(math.log(ratio)) <= math.log(SAME_SCALE) + 1e-9
    ]
    state = State.HOLDS if len(within) == len(found) else State.PARTLY
    return Verdict(
        state if len(within) > 1 else State.FALSE,
        (
            Number("starts on one scale", len(within), f"of {len(found)}"),
            *(Number(f"token over position, {name}", ratio) for name, ratio in found.items()),
        ),
        f"At width {setting.dim:,} a token times sqrt(d) is {_list(found)} times as long as position; "
        f"{share(len(within), len(found))} usual starts are within a factor of {SAME_SCALE:g}.",
        Number("N(0, 1/d) without the factor", found["N(0, 1/d)"] / setting.dim**0.5),
    )


def dominating(setting: Setting) -> Verdict:
    """Compare the norm of position with that of a token as it starts, without the factor sqrt(d)."""
    found = token_over_position(setting)
    larger = [name for name, ratio in found.items() if ratio < 1 - 1e-9]
    norm = position_norm(setting)
    few = State.PARTLY if larger else State.HOLDS
    return Verdict(
        State.FALSE if len(larger) > len(found) / 2 else few,
        (
            Number("norm of a position vector", norm),
            Number("starts whose tokens are shorter", len(larger), f"of {len(found)}"),
            *(Number(f"position over token, {name}", 1 / ratio) for name, ratio in found.items()),
        ),
        f"Entries of at most 1 make a vector of norm {figure(norm)} at width {setting.dim:,}; that is "
        f"{_list({name: 1 / ratio for name, ratio in found.items()})} times a token's.",
    )


def overwritten(setting: Setting) -> Verdict:
    """Let content grow until a reader of position loses the order; read the same content concatenated.

    The reader takes the nearest row of the table. A second reader first leaves out the directions
    in which the words lie.
    """
    scheme = sinusoidal(setting)
    rows = position_vectors(scheme, POSITIONS, dtype=setting.table_dtype)
    draw = torch.Generator().manual_seed(setting.seed)
    words = torch.randn(WORDS, setting.dim, generator=draw, dtype=torch.float64)
    content = words[torch.randint(WORDS, (POSITIONS,), generator=draw)]
    content = content * (rows.norm(dim=1).mean() / content.norm(dim=1).mean())
    basis = torch.linalg.qr(words.T)[0]
    spared = rows - rows @ basis @ basis.T
    dtype = setting.table_dtype or torch.float32
    for step in range(STRENGTHS):
        strength = 2 ** (step / 2 - 4)
        added = (strength * content + rows).to(dtype).double()
        if in_order(added, rows) < LOST:
            break
    else:
        said = f"Order is kept to content {figure(strength)} times as long as position."
        return Verdict(State.FALSE, (Number("content over position", None, "times"),), said)
    # Where the words span everything, only rounding is outside their span: a guess.
    room = bool(spared.norm() > 1e-9 * rows.norm())
    left = in_order(added - added @ basis @ basis.T, spared) if room else 0.5
    beside = in_order(rows.to(dtype).double(), rows)  # concatenated, content is in other features
    return Verdict(
        State.PARTLY if left >= KEPT else State.HOLDS,
        (
            Number("content over position where order is lost", strength, "times"),
            Number("pairs in order there", in_order(added, rows)),
            Number("pairs in order for a reader that leaves out the words' span", left),
        ),
        f"Added, content of {figure(strength)} times position's norm leaves "
        f"{100 * in_order(added, rows):.0f} % of pairs in order for a reader who knows no words, and "
        f"{100 * left:.0f} % for one who leaves out the span of {WORDS} words in {setting.dim:,} "
        "dimensions: "
        + (
            "there is room beside them, so it is not the sum that loses order."
            if left >= KEPT
            else "there is no room beside them."
        ),
        Number("pairs in order where content is concatenated", beside),
    )


def token_over_position(setting: Setting) -> dict[str, float]:
    """Return the root mean square norm of a token over position's norm, by the token's start."""
    norm = position_norm(setting)
    return {name: start(setting.dim) * setting.dim**0.5 / norm for name, start in STARTS.items()}


def position_norm(setting: Setting) -> float:
    """Return the mean norm of the first rows of the table, as the precision holds them."""
    scheme = sinusoidal(setting)
    return position_vectors(scheme, POSITIONS, dtype=setting.table_dtype).norm(dim=1).mean().item()


def in_order(read: Float[Tensor, "n d"], rows: Float[Tensor, "n d"]) -> float:
    """Decode every vector as its nearest row; return the share of pairs decoded in order, ties half."""
    decoded = (2 * read @ rows.T - rows.square().sum(dim=1)).argmax(dim=1)
    first, second = torch.triu_indices(len(read), len(read), 1)
    return ((decoded[second] - decoded[first]).sign().double().mean().item() + 1) / 2


def _list(found: dict[str, float]) -> str:
    return ", ".join(f"{figure(ratio)} ({name})" for name, ratio in found.items())
