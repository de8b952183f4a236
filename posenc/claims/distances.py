"""Claims about distances: what is similar, what moves a position along, what a rotation leaves.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.

Claims about biases on the logit: ALiBi's slopes, T5's buckets beside Shaw's clipped distances.

Press et al. 2022, arXiv 2108.12409, section 3; Raffel et al. 2020, arXiv 1910.10683, section 2.1, whose
buckets are given by its public code; Shaw et al. 2018, arXiv 1803.02155, section 3.2.
"""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis import cosine_curve, first_rise, kendall_tau, verify_map
from posenc.attention import attention
from posenc.claims.claim import Number, State, Verdict, figure, sinusoidal
from posenc.kernel import offset_curve, position_vectors
from posenc.schemes.alibi import alibi_slopes
from posenc.schemes.base import NoneConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.settings import Setting
from posenc.text import counted

BUCKETS, FURTHEST = 32, 128  # of T5
MOST_POSITIONS_of_biases = 512


def geometric(setting: Setting) -> Verdict:
    """Divide every slope by the one before; a geometric sequence has one ratio."""
    slopes = alibi_slopes(setting.heads, dtype=torch.float64).tolist()
    if len(slopes) < 3:
        said = f"{counted(len(slopes), 'slope')} cannot fail to be a geometric sequence."
        return Verdict(State.UNDECIDED, (), said)
    ratios = [after / before for before, after in itertools.pairwise(slopes)]
    spread = max(ratios) / min(ratios)
    power = "a power of two" if setting.heads.bit_count() == 1 else "no power of two"
    at = next((i + 2 for i, ratio in enumerate(ratios) if abs(ratio / ratios[0] - 1) > 1e-12), None)
    broken = (
        "" if at is None else f"; from head {at - 1} to {at} it changes to {ratios[at - 2]:.3g}"
    )
    return Verdict(
        State.HOLDS if at is None else State.FALSE,
        (
            Number("largest ratio over smallest", spread),
            Number("first ratio", ratios[0]),
            Number("first head that leaves the sequence", at),
        ),
        f"The slopes of {setting.heads} heads begin with the ratio {figure(ratios[0])}{broken}; "
        f"{setting.heads} is {power}.",
    )


def t5_is_shaw(setting: Setting) -> Verdict:
    """Look for a clipping distance of Shaw's that puts the same offsets together as T5's buckets."""
    count = min(setting.length, MOST_POSITIONS_of_biases)
    offsets = range(1 - count, count)
    buckets = [t5_bucket(offset) for offset in offsets]
    merged = sum(one == other for one, other in itertools.pairwise(buckets))
    fitting = clip_that_fits(buckets, count)
    clipped = [clipped_offset(offset, BUCKETS // 2) for offset in offsets]
    used = len(set(buckets))
    if fitting is None:
        said = (
            f"Among offsets to {count - 1:,} T5 has {counted(used, 'bucket')} and no clipping distance of "
            f"Shaw's puts the same offsets together: {_widening(count)}, where Shaw's are told apart up "
            "to the distance of clipping."
        )
    else:
        said = (
            f"Offsets to {count - 1:,} are too near to tell the two apart: what T5 puts in one bucket, "
            "a clipping distance of Shaw's puts together, too."
        )
    said += " A bucket adds one number to the logit whatever the query, Shaw's vector a the product q . a; "
    said += "what either learned is not examined."
    return Verdict(
        State.FALSE if fitting is None else State.PARTLY,
        (
            Number("clipping distances of Shaw's that fit", 0 if fitting is None else 1),
            Number("buckets in use", used, f"of {BUCKETS}"),
            Number("neighbouring offsets that share a bucket", merged, f"of {len(buckets) - 1:,}"),
        ),
        said,
        Number(
            "clipping distance found for Shaw's own classes", clip_that_fits(clipped, count) or 0
        ),
    )


def t5_bucket(offset: int, buckets: int = BUCKETS, furthest: int = FURTHEST) -> int:
    """Return T5's bidirectional bucket of an offset, key minus query, in exact whole numbers.

    Half the buckets are for keys after the query. Of a side's b, the first e = b / 2 hold one distance
    each; a distance n >= e goes to e + floor((b - e) ln(n / e) / ln(furthest / e)), the last at most.
    """
    side = buckets // 2
    exact = side // 2
    start, distance = (side if offset > 0 else 0), abs(offset)
    if distance < exact:
        return start + distance
    # j <= (b - e) ln(n / e) / ln(D / e) is (n / e)^(b - e) >= (D / e)^j: no logarithm is rounded.
    step = 0
    while exact + step + 1 < side and distance ** (side - exact) * exact ** (
        step + 1
    ) >= furthest ** (step + 1) * exact ** (side - exact):
        step += 1
    return start + exact + step


def clipped_offset(offset: int, furthest: int) -> int:
    """Return Shaw's class of an offset: the offset itself, clipped to -furthest .. furthest."""
    return max(-furthest, min(furthest, offset))


def clip_that_fits(classes: list[int], count: int) -> int | None:
    """Return the clipping distance with these classes of offsets 1 - count .. count - 1."""
    # Clipping to K leaves 2 K + 1 classes, so that only one K can fit.
    furthest, odd = divmod(len(set(classes)), 2)
    clipped = [clipped_offset(offset, furthest) for offset in range(1 - count, count)]
    return furthest if odd and _partition(clipped) == _partition(classes) else None


def _partition(classes: list[int]) -> list[int]:
    """Number classes by their first appearance, so that equal partitions are equal lists."""
    seen: dict[int, int] = {}
    return [seen.setdefault(one, len(seen)) for one in classes]


def _widening(count: int) -> str:
    """Say where offsets share a bucket though later ones do not."""
    for distance in range(1, count - 1):
        if t5_bucket(distance) == t5_bucket(distance + 1):
            later = next(
                (n for n in range(distance + 1, count) if t5_bucket(n) != t5_bucket(distance)), None
            )
            also = "" if later is None else f", and {later:,} does not"
            return f"{distance:,} and {distance + 1:,} share one{also}"
    return "none share one"


EXACT = 1e-9  # what float64 leaves of an identity, with room
STEPS = (1, 2, 10, 100)  # offsets at which one map is checked
MOST_POSITIONS = 64  # tokens of a small attention
AHEAD = 2


def near(setting: Setting) -> Verdict:
    """Compare the similarity of neighbours with the largest of all that are further apart."""
    curve = by_distance(setting)
    if len(curve) < 3:
        return Verdict(State.UNDECIDED, (), "Two positions have one distance: none is further.")
    further = curve[2:].max().item()
    at = int(curve[2:].argmax()) + 2
    tau = kendall_tau(curve)
    order = "" if tau is None else f"; the rank correlation with nearness is {figure(tau)}"
    return Verdict(
        State.FALSE if curve[1] <= further else State.HOLDS if (tau or 0) > 0 else State.PARTLY,
        (
            Number("cosine similarity at distance 1", curve[1].item()),
            Number(f"largest further out, at distance {at:,}", further),
            Number("rank correlation with nearness", tau),
        ),
        f"Neighbours have cosine similarity {curve[1].item():.4f}; of all distances to "
        f"{len(curve) - 1:,} the next best is {further:.4f}, at {at:,}{order}.",
    )


def falls(setting: Setting) -> Verdict:
    """Find the first distance at which similarity is higher than one step nearer."""
    curve = by_distance(setting)
    rise = first_rise(curve)
    if rise is None:
        said = f"Up to distance {len(curve) - 1:,} cosine similarity falls at every step."
        return Verdict(State.HOLDS, (Number("first rise at distance", None),), said)
    by = (curve[rise] - curve[rise - 1]).item()
    return Verdict(
        State.FALSE,
        (Number("first rise at distance", rise, "positions"), Number("rise", by)),
        f"Cosine similarity first rises from distance {rise - 1:,} to {rise:,}, by {figure(by)}, "
        f"among distances to {len(curve) - 1:,}.",
    )


def linear_map(setting: Setting) -> Verdict:
    """Move the table along by its closed form M_k; the same M_k must fail on random rows."""
    scheme = sinusoidal(setting)
    count = 2 * STEPS[-1]
    rows = position_vectors(scheme, count, dtype=setting.table_dtype)
    draw = torch.Generator().manual_seed(setting.seed)
    noise = torch.randn(count, setting.dim, generator=draw, dtype=torch.float64)
    errors, controls = [], []
    for step in STEPS:
        moved = scheme.offset_map(step, size=1)
        assert moved is not None
        errors.append(verify_map(rows, moved, step))
        controls.append(verify_map(noise, moved, step))
    error, control = max(errors), min(controls)
    held = ", in float64" if setting.table_dtype is None else f", held in {setting.precision}"
    listed = ", ".join(map(str, STEPS))
    return Verdict(
        State.THEOREM if error <= EXACT else State.PARTLY,
        (Number("relative error of the map", error),),
        f"One matrix for each of the offsets {listed} moves every one of {count:,} positions that has "
        f"one there{held}, with a relative error of {figure(error)}"
        + ("." if error <= EXACT else ", which is the rounding of the table."),
        Number("the same matrix on random rows", control),
    )


def two_to_the_right(setting: Setting) -> Verdict:
    """Count the queries whose largest weight lies two to the right under one linear key map."""
    count = min(setting.length, MOST_POSITIONS)
    if count <= AHEAD:
        return Verdict(State.UNDECIDED, (), "No position shown has another two to its right.")
    hit, weight = aimed(two_ahead_weights(setting))
    missed, _ = aimed(two_ahead_control(setting))
    return Verdict(
        State.THEOREM if hit == 1 else State.PARTLY if hit else State.FALSE,
        (
            Number(
                "queries that look two to the right", hit * (count - AHEAD), f"of {count - 2:,}"
            ),
            Number("mean weight there", weight),
        ),
        f"Without a mask, one key map, position two back times a constant, sends "
        f"{figure(hit * (count - AHEAD))} of {counted(count - AHEAD, 'query', 'queries')} to the key "
        f"two to the right, with a mean weight of {weight:.4f}.",
        Number("share of queries on random rows", missed),
    )


def offset_only(setting: Setting) -> Verdict:
    """Move queries and keys along together; RoPE's logits must stay, those of added rows must not."""
    rope = setting.config("rope").build()
    width = setting.rope_width
    dtype = setting.table_dtype or torch.float64
    count = min(setting.length, MOST_POSITIONS)
    draw = torch.Generator().manual_seed(setting.seed)
    q, k = torch.randn(2, 1, 1, count, width, generator=draw, dtype=torch.float64).to(dtype)
    here = torch.arange(count)
    there = here + setting.train_length
    still, moved = (rope.scores(q, k, at, at).double() for at in (here, there))
    error = _relative(moved, still)
    added = SinusoidalConfig(dim=width, base=setting.base).build()
    both = [
        added.embed(q[0].double(), at) @ added.embed(k[0].double(), at).mT for at in (here, there)
    ]
    control = _relative(both[1], both[0])
    return Verdict(
        State.THEOREM if error <= EXACT else State.PARTLY,
        (Number("change of the logits", error, "of the largest"),),
        f"Moved along by {counted(setting.train_length, 'position')}, {count**2:,} logits of width "
        f"{width:,} change by {figure(error)} of the largest"
        + (
            ", in float64."
            if setting.table_dtype is None
            else f", which is the rounding of {setting.precision}."
        ),
        Number("change with sinusoids added instead", control, "of the largest"),
    )


def by_distance(setting: Setting) -> Float[Tensor, " n"]:
    """Return the cosine similarity of sinusoidal rows at distance 0 .. length - 1."""
    curve = offset_curve(sinusoidal(setting), setting.length)
    return cosine_curve(curve)[setting.length - 1 :]


def two_ahead_weights(setting: Setting) -> Float[Tensor, "n n"]:
    """Return attention weights (query, key) where keys are mapped to the position two before them.

    Queries are the sinusoidal rows p_i, keys c M_(-2) p_j = c p_(j-2), so the logit c p_i . p_(j-2)
    is largest at j = i + 2. The constant c makes it 100 times the weight of all others together.
    """
    scheme = sinusoidal(setting)
    count = min(setting.length, MOST_POSITIONS)
    return attend_two_ahead(setting, position_vectors(scheme, count, dtype=setting.table_dtype))


def two_ahead_control(setting: Setting) -> Float[Tensor, "n n"]:
    """Return the same weights where positions are 64 random rows, which no rotation moves along."""
    draw = torch.Generator().manual_seed(setting.seed)
    noise = torch.randn(MOST_POSITIONS, setting.dim, generator=draw, dtype=torch.float64)
    return attend_two_ahead(setting, noise)


def attend_two_ahead(setting: Setting, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """Return softmax(c p_i . M_(-2) p_j / sqrt(d)) of any rows p, without a mask."""
    scheme = sinusoidal(setting)
    back = scheme.offset_map(-AHEAD, size=1)
    assert back is not None
    reach = len(rows) + AHEAD
    curve = offset_curve(scheme, reach)[reach - 1 :]
    gap = (curve[0] - curve[1:].max()).item()
    constant = math.sqrt(setting.dim) * math.log(100 * len(rows)) / gap
    keys = (back @ rows.T).T * constant
    values = torch.eye(len(rows), dtype=rows.dtype)[None, None]  # the weights themselves come out
    plain = NoneConfig().build()
    return attention(rows[None, None], keys[None, None], values, plain, causal=False)[0, 0]


def aimed(weights: Float[Tensor, "n n"]) -> tuple[float, float]:
    """Return the share of queries whose largest weight is two to the right, and its mean weight."""
    queries = torch.arange(len(weights) - AHEAD)
    rows = weights[queries]
    hit = (rows.argmax(dim=1) == queries + AHEAD).double().mean()
    return hit.item(), rows[queries, queries + AHEAD].mean().item()


def _relative(moved: Tensor, still: Tensor) -> float:
    return ((moved - still).abs().max() / still.abs().max()).item()
