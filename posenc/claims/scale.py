"""Claims about how large position is beside content, and when content drowns it.

Vaswani et al. 2017, arXiv 1706.03762, sections 3.4 and 3.5: token embeddings times sqrt(d_model), plus
the sinusoidal table, whose rows have the norm sqrt(d / 2).
"""

import math
import statistics
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.embedding_sum import STARTS, token_deviation
from posenc.claims.claim import Number, State, Verdict, figure, share, sinusoidal
from posenc.kernel import position_vectors
from posenc.settings import Setting
from posenc.text import counted

SAME_SCALE = 2.0  # norms within this factor are on one scale
LOST = 0.75  # share of pairs in order below which order is lost; guessing gives a half
KEPT = 0.9
POSITIONS = 64
WORDS = 64  # different ones in the experiment; they leave no room in a width of 64 or less
WEAKEST = 1 / 16  # of the norm of position: content that is tried first
STRENGTHS = 80  # steps of sqrt(2) from there
DRAWS = 9  # of words and of the content made of them


@dataclass(frozen=True)
class Drowned:
    """One draw of words: content this many times as long as position loses the order.

    kept: share of pairs in order there. left: the same for a reader that leaves out the words' span.
    """

    strength: float
    kept: float
    left: float


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
    """Compare the norm of position with that of a token as it starts, without and with the factor sqrt(d).

    Vaswani et al. 2017, section 3.4, multiply tokens by it.
    """
    found = token_over_position(setting)
    scaled = {name: 1 / (setting.dim**0.5 * ratio) for name, ratio in found.items()}
    larger = [name for name, ratio in found.items() if ratio < 1 - 1e-9]
    larger_scaled = [name for name, ratio in scaled.items() if ratio > 1 + 1e-9]
    norm = position_norm(setting)
    return Verdict(
        State.PARTLY if larger or larger_scaled else State.HOLDS,
        (
            Number("norm of a position vector", norm),
            Number("starts whose tokens are shorter", len(larger), f"of {len(found)}"),
            Number("the same times sqrt(d)", len(larger_scaled), f"of {len(found)}"),
            *(Number(f"position over token, {name}", 1 / ratio) for name, ratio in found.items()),
            *(
                Number(f"position over token times sqrt(d), {name}", ratio)
                for name, ratio in scaled.items()
            ),
        ),
        f"Entries of at most 1 make a vector of norm {figure(norm)} at width {setting.dim:,}; that is "
        f"{_list({name: 1 / ratio for name, ratio in found.items()})} times the norm of a token as it "
        "starts, without the factor sqrt(d). With that factor (Vaswani et al., section 3.4) it is "
        f"{_list(scaled)} times.",
    )


def overwritten(setting: Setting) -> Verdict:
    """Let content grow until a reader of position loses the order; read the same content concatenated.

    The reader takes the nearest row of the table. A second reader first leaves out the directions
    in which the words lie. Words and content are drawn several times, each from a seed of its own.
    """
    rows = position_vectors(sinusoidal(setting), POSITIONS, dtype=setting.table_dtype)
    dtype = setting.table_dtype or torch.float32
    found = [drown(rows, dtype, seed) for seed in seeds(setting)]
    lost = [one for one in found if one is not None]
    strengths = [one.strength for one in lost]
    if 2 * len(lost) <= len(found):
        strongest = figure(WEAKEST * 2 ** ((STRENGTHS - 1) / 2))
        said = (
            f"In {len(found) - len(lost)} of {len(found)} draws order is kept to content {strongest} "
            "times as long as position."
        )
        return Verdict(State.FALSE, (Number("draws that lose order", len(lost)),), said)
    left = [one.left for one in lost]
    beside = in_order(rows.to(dtype).double(), rows)  # concatenated, content is in other features
    room = statistics.median(left) >= KEPT
    return Verdict(
        State.PARTLY if room else State.HOLDS,
        (
            Number(
                f"content over position where order is lost, median of {len(lost)} draws",
                statistics.median(strengths),
                _times(statistics.median(strengths)),
            ),
            Number("the least of the draws", min(strengths), _times(min(strengths))),
            Number("the most of the draws", max(strengths), _times(max(strengths))),
            Number("pairs in order there, mean", statistics.fmean(one.kept for one in lost)),
            Number(
                "pairs in order for a reader that leaves out the words' span, mean",
                statistics.fmean(left),
            ),
        ),
        f"Over {counted(len(lost), 'draw')} of {WORDS} words, added content of "
        f"{_strengths(strengths)} position's norm leaves "
        f"{_range([f'{100 * one.kept:.0f}' for one in lost])}% of pairs in order for a reader who "
        f"knows no words, and {_range([f'{100 * one:.0f}' for one in left])}% for one who leaves out "
        f"their span in {setting.dim:,} dimensions: "
        + (
            "there is room beside them, so it is not the sum that loses order."
            if room
            else "there is no room beside them."
        )
        + _weak(strengths),
        Number("pairs in order where content is concatenated", beside),
    )


def seeds(setting: Setting) -> range:
    """Return the seeds of the draws: the setting's, and those after it."""
    return range(setting.seed, setting.seed + DRAWS)


def drown(rows: Float[Tensor, "n d"], dtype: torch.dtype, seed: int) -> Drowned | None:
    """Let one draw of content grow by steps of sqrt(2) until order is lost, None where it never is.

    A draw that loses order at WEAKEST, the first strength that is tried, may lose it below that.
    """
    draw = torch.Generator().manual_seed(seed)
    words = torch.randn(WORDS, rows.shape[1], generator=draw, dtype=torch.float64)
    content = words[torch.randint(WORDS, (len(rows),), generator=draw)]
    content = content * (rows.norm(dim=1).mean() / content.norm(dim=1).mean())
    for step in range(STRENGTHS):
        strength = WEAKEST * 2 ** (step / 2)
        added = (strength * content + rows).to(dtype).double()
        kept = in_order(added, rows)
        if kept < LOST:
            break
    else:
        return None
    basis = torch.linalg.qr(words.T)[0]
    spared = rows - rows @ basis @ basis.T
    # Where the words span everything, only rounding is outside their span: a guess.
    room = bool(spared.norm() > 1e-9 * rows.norm())
    return Drowned(
        strength, kept, in_order(added - added @ basis @ basis.T, spared) if room else 0.5
    )


def token_over_position(setting: Setting) -> dict[str, float]:
    """Return the root mean square norm of a token over position's norm, by the token's start."""
    norm = position_norm(setting)
    return {
        name: token_deviation(start, setting.dim) * setting.dim**0.5 / norm
        for start, name in STARTS.items()
    }


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


def _times(strength: float) -> str:
    """Return the unit of a strength where order is lost: of the weakest tried it is a bound."""
    return "times" if strength > WEAKEST else "times or less"


def _strengths(strengths: list[float]) -> str:
    """Write the least to the most content that loses order, as a bound where that is the weakest."""
    written = _range([figure(one) for one in strengths])
    if min(strengths) > WEAKEST:
        return f"{written} times"
    least, to, most = written.partition(" to ")
    return f"{least} or less{to}{most} times"


def _weak(strengths: list[float]) -> str:
    """Say so where content need not be strong: it loses order while it is shorter than position."""
    weak = sum(one < 1 for one in strengths)
    if not weak:
        return ""
    return (
        f" In {share(weak, len(strengths))} draws that is weak content, shorter than position: "
        "it need not be strong."
    )


def _range(written: list[str]) -> str:
    """Write figures as the least to the most, one where they are alike."""
    least, most = (end(written, key=lambda one: float(one.replace(",", ""))) for end in (min, max))
    return least if least == most else f"{least} to {most}"
