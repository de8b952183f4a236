"""Claims about distance: similarity, linear maps, RoPE's logits, and biases on the logit.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2;
Press et al. 2022, arXiv 2108.12409, section 3; Raffel et al. 2020, arXiv 1910.10683, section 2.1;
Shaw et al. 2018, arXiv 1803.02155, section 3.2.
"""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis import cosine_curve, first_rise, kendall_tau, verify_map
from posenc.claims import proofs
from posenc.claims.claim import (
    EXACT,
    TABLE,
    VASWANI,
    Number,
    Status,
    Verdict,
    claim,
    figure,
    randn,
    relative_change,
    sinusoidal,
    undecided,
)
from posenc.kernel import offset_curve, position_vectors
from posenc.schemes.alibi import alibi_slopes
from posenc.schemes.base import NoneConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.sizes import Sizes
from posenc.schemes.t5 import t5_buckets
from posenc.sdpa import attention
from posenc.text import count_of, significant

OFFSETS = (1, 2, 10, 100)  # of the matrices that are checked
MAX_POSITIONS = 64  # of a small attention
AHEAD = 2
BUCKETS = 32  # of T5
MAX_BIAS_POSITIONS = 512


def by_distance(sizes: Sizes) -> Float[Tensor, " n"]:
    """Return the cosine similarity of sinusoidal rows at distance 0 .. length - 1."""
    curve = offset_curve(sinusoidal(sizes), sizes.length)
    return cosine_curve(curve)[sizes.length - 1 :]


@claim(
    "Neighbours are more similar than positions farther apart.",
    theme="distance",
    source=f"Tutorials on {VASWANI}, section 3.5",
    steps=(by_distance,),
    uses=("dim", "base", "length"),
)
def near(sizes: Sizes) -> Verdict:
    """Compare the similarity at distance 1 with the largest at any larger distance."""
    curve = by_distance(sizes)
    if len(curve) < 3:
        return undecided("Two positions have one distance: none is further.")
    neighbours, further = curve[1].item(), curve[2:].max().item()
    distance = int(curve[2:].argmax()) + 2
    tau = kendall_tau(curve)
    order = "" if tau is None else f" The rank correlation with nearness is {figure(tau)}."
    status = Status.HOLDS if (tau or 0) > 0 else Status.PARTLY
    return Verdict(
        Status.FALSE if neighbours <= further else status,
        (
            Number("cosine similarity at distance 1", neighbours),
            Number(f"largest further out, at distance {distance:,}", further),
            Number("rank correlation with nearness", tau),
        ),
        f"Neighbours have cosine similarity {neighbours:.4f}. Of all larger distances to "
        f"{len(curve) - 1:,}, distance {distance:,} has the highest, {further:.4f}.{order}",
    )


@claim(
    "Similarity falls with every step of distance.",
    theme="distance",
    source=f"Tutorials on {VASWANI}, section 3.5",
    steps=(by_distance,),
    uses=("dim", "base", "length"),
)
def falls(sizes: Sizes) -> Verdict:
    """Find the first distance at which similarity exceeds that at the distance before."""
    curve = by_distance(sizes)
    rise = first_rise(curve)
    if rise is None:
        sentence = f"Up to distance {len(curve) - 1:,} cosine similarity falls at every step."
        return Verdict(Status.HOLDS, (Number("first rise at distance", None),), sentence)
    amount = (curve[rise] - curve[rise - 1]).item()
    return Verdict(
        Status.FALSE,
        (Number("first rise at distance", rise, "positions"), Number("rise", amount)),
        f"Cosine similarity first rises from distance {rise - 1:,} to {rise:,}, by {figure(amount)}. "
        f"Distances to {len(curve) - 1:,} are compared.",
    )


@claim(
    "PE(pos + k) is a linear function of PE(pos).",
    theme="distance",
    source=f"{VASWANI}, section 3.5",
    uses=(*TABLE, "seed"),
    proof=proofs.LINEAR_MAP,
)
def linear_map(sizes: Sizes) -> Verdict:
    """Map the table's rows by the closed form M_k; the same M_k must fail on random rows."""
    scheme, count = sinusoidal(sizes), 2 * OFFSETS[-1]
    rows = position_vectors(scheme, count, dtype=sizes.dtype)
    noise = randn(sizes.seed, count, sizes.dim)
    errors, controls = [], []
    for offset in OFFSETS:
        matrix = scheme.offset_map(offset, size=1)
        assert matrix is not None
        errors.append(verify_map(rows, matrix, offset))
        controls.append(verify_map(noise, matrix, offset))
    error = max(errors)
    stored = "in float64" if sizes.dtype is None else f"stored in {sizes.precision}"
    end = "." if error <= EXACT else ", which is the rounding of the table."
    return Verdict(
        Status.THEOREM if error <= EXACT else Status.PARTLY,
        (Number("relative error of the map", error),),
        f"For each offset k of {', '.join(map(str, OFFSETS))}, one matrix turns every row PE(pos) of a "
        f"table of {count:,} rows into the row PE(pos + k), {stored}. The relative error is "
        f"{figure(error)}{end}",
        Number("the same matrix on random rows", min(controls)),
    )


def attend_two_ahead(sizes: Sizes, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """Return softmax(c p_i . M_(-2) p_j / sqrt(d)) of any rows p; c is large enough for a weight near 1.

    For sinusoidal rows M_(-2) p_j = p_(j-2), so the logit is largest at j = i + 2.
    """
    scheme = sinusoidal(sizes)
    back = scheme.offset_map(-AHEAD, size=1)
    assert back is not None
    reach = len(rows) + AHEAD
    curve = offset_curve(scheme, reach)[reach - 1 :]
    gap = (curve[0] - curve[1:].max()).item()
    constant = math.sqrt(sizes.dim) * math.log(100 * len(rows)) / gap
    keys = (back @ rows.T).T * constant
    identity = torch.eye(len(rows), dtype=rows.dtype)  # as values: the output is the weights
    q, k, v = (x[None, None] for x in (rows, keys, identity))
    return attention(q, k, v, NoneConfig().build(), causal=False)[0, 0]


def two_ahead_weights(sizes: Sizes) -> Float[Tensor, "n n"]:
    """Return attention weights (query, key) of sinusoidal rows under the key map M_(-2)."""
    count = min(sizes.length, MAX_POSITIONS)
    rows = position_vectors(sinusoidal(sizes), count, dtype=sizes.dtype)
    return attend_two_ahead(sizes, rows)


def two_ahead_control(sizes: Sizes) -> Float[Tensor, "n n"]:
    """Return attention weights (query, key) of 64 random rows under the same key map."""
    return attend_two_ahead(sizes, randn(sizes.seed, MAX_POSITIONS, sizes.dim))


def two_ahead_hits(weights: Float[Tensor, "n n"]) -> tuple[float, float]:
    """Return the share of queries whose largest weight is at i + 2, and the mean weight there."""
    queries = torch.arange(len(weights) - AHEAD)
    rows = weights[queries]
    share = (rows.argmax(dim=1) == queries + AHEAD).double().mean()
    return share.item(), rows[queries, queries + AHEAD].mean().item()


@claim(
    "A linear key map can attend two to the right.",
    theme="distance",
    source=f"Lectures on {VASWANI}, section 3.5",
    steps=(attend_two_ahead, two_ahead_hits),
    uses=(*TABLE, "length", "seed"),
    proof=proofs.TWO_RIGHT,
)
def two_right(sizes: Sizes) -> Verdict:
    """Count the queries whose largest weight is two to the right under one linear key map."""
    queries = min(sizes.length, MAX_POSITIONS) - AHEAD
    if queries <= 0:
        return undecided("No position shown has another two to its right.")
    share, weight = two_ahead_hits(two_ahead_weights(sizes))
    hits = share * queries
    return Verdict(
        Status.THEOREM if share == 1 else Status.PARTLY if share else Status.FALSE,
        (
            Number("queries that look two to the right", hits, f"of {queries:,}"),
            Number("mean weight there", weight),
        ),
        f"One linear map of the keys moves each by two positions and multiplies it by a constant. Without "
        f"a mask, {figure(hits)} of {count_of(queries, 'query', 'queries')} then attend most to the key "
        f"two to the right. The mean weight there is {weight:.4f}.",
        Number("share of queries on random rows", two_ahead_hits(two_ahead_control(sizes))[0]),
    )


@claim(
    "RoPE's logit depends on the offset only.",
    theme="distance",
    source="Su et al. 2021, arXiv 2104.09864, section 3.2",
    uses=(
        *("dim", "heads", "equal_width", "base", "rope.partial_rotary_factor", "precision"),
        *("length", "train_length", "seed", "rope.layout"),
    ),
    proof=proofs.OFFSET_ONLY,
)
def offset_only(sizes: Sizes) -> Verdict:
    """Shift queries and keys together: RoPE's logits must stay, those of added sinusoids must not."""
    rope, width, shift = sizes.config("rope").build(), sizes.rotary_width, sizes.train_length
    count = min(sizes.length, MAX_POSITIONS)
    q, k = randn(sizes.seed, 2, 1, 1, count, width).to(sizes.dtype or torch.float64)
    positions = (torch.arange(count), torch.arange(count) + shift)
    before, after = (rope.scores(q, k, at, at).double() for at in positions)
    error = relative_change(after, before)
    added = SinusoidalConfig(dim=width, base=sizes.base).build()
    before, after = (
        added.embed(q[0].double(), at) @ added.embed(k[0].double(), at).mT for at in positions
    )
    exact, unit = sizes.dtype is None, "of the largest logit"
    end = "in float64" if exact else f"which is the rounding of {sizes.precision}"
    return Verdict(
        Status.THEOREM if error <= EXACT else Status.PARTLY,
        (Number("change of the logits", error, unit),),
        f"Queries and keys are both moved by {count_of(shift, 'position')}. The {count**2:,} logits of "
        f"width {width:,} then change by {figure(error)} of the largest logit, {end}.",
        Number("change with sinusoids added instead", relative_change(after, before), unit),
    )


@claim(
    "ALiBi's slopes are a geometric sequence.",
    theme="biases",
    source="Press et al. 2022, arXiv 2108.12409, section 3",
    uses=("heads",),
)
def geometric(sizes: Sizes) -> Verdict:
    """Divide every slope by the slope before it; a geometric sequence has one ratio."""
    slopes = alibi_slopes(sizes.heads, dtype=torch.float64).tolist()
    if len(slopes) < 3:
        return undecided(
            f"{count_of(len(slopes), 'slope')} cannot fail to be a geometric sequence."
        )
    ratios = [after / before for before, after in itertools.pairwise(slopes)]
    power = "a power of two" if sizes.heads.bit_count() == 1 else "no power of two"
    head = next((i + 2 for i, x in enumerate(ratios) if abs(x / ratios[0] - 1) > 1e-12), None)
    change = ""
    if head:
        change = f"; from head {head - 1} to {head} it changes to {significant(ratios[head - 2])}"
    return Verdict(
        Status.FALSE if head else Status.HOLDS,
        (
            Number(
                "largest ratio of neighbouring slopes over the smallest", max(ratios) / min(ratios)
            ),
            Number("first ratio", ratios[0]),
            Number("first head that leaves the sequence", head),
        ),
        f"The slopes of {sizes.heads} heads begin with the ratio {figure(ratios[0])}{change}; "
        f"{sizes.heads} is {power}.",
    )


def clip_distance(classes: list[int], count: int) -> int | None:
    """Return Shaw's clipping distance that groups offsets 1 - count .. count - 1 like `classes`."""
    # Clipping to K leaves 2 K + 1 classes, so only one K can fit.
    distance, odd = divmod(len(set(classes)), 2)
    return distance if odd and _groups(clipped(distance, count)) == _groups(classes) else None


def clipped(distance: int, count: int) -> list[int]:
    """Return Shaw's class of every offset: the offset, clipped to -distance .. distance."""
    return [max(-distance, min(distance, offset)) for offset in range(1 - count, count)]


def _groups(classes: list[int]) -> list[int]:
    """Number classes by first appearance, so that equal partitions are equal lists."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(x, len(numbers)) for x in classes]


@claim(
    "T5 uses Shaw's scheme.",
    theme="biases",
    source="Posts; Raffel et al. 2020, arXiv 1910.10683, section 2.1, decides",
    steps=(clip_distance, clipped),
    uses=("length",),
)
def t5_shaw(sizes: Sizes) -> Verdict:
    """Search for a clipping distance of Shaw's that groups offsets as T5's buckets do."""
    count = min(sizes.length, MAX_BIAS_POSITIONS)
    offsets = torch.arange(1 - count, count)
    buckets = t5_buckets(offsets, buckets=BUCKETS, bidirectional=True).tolist()
    shared = sum(x == y for x, y in itertools.pairwise(buckets))
    used, fit = len(set(buckets)), clip_distance(buckets, count)
    control = clip_distance(clipped(BUCKETS // 2, count), count)
    if fit is None:
        sentence = (
            f"T5 puts offsets to {count - 1:,} into {count_of(used, 'bucket')}. Shaw's scheme puts the "
            f"same offsets together at no clipping distance: in T5 {_first_shared(buckets[count - 1 :])}. "
            "Shaw's scheme has a class of its own for every distance below the clipping distance."
        )
    else:
        sentence = (
            f"Offsets to {count - 1:,} are too small to separate the two schemes: Shaw's scheme groups "
            "them as T5's buckets do at one clipping distance."
        )
    return Verdict(
        Status.FALSE if fit is None else Status.PARTLY,
        (
            Number(
                "clipping distances at which Shaw's scheme groups offsets as T5 does",
                fit is not None,
            ),
            Number("buckets in use", used, f"of {BUCKETS}"),
            Number("neighbouring offsets that share a bucket", shared, f"of {len(buckets) - 1:,}"),
        ),
        f"{sentence} T5 adds one number per bucket to the logit, the same for every query. Shaw's scheme "
        "adds the product q . a of the query with a vector a. Learned values are not examined.",
        Number("clipping distance found for Shaw's own classes", control or 0),
    )


def _first_shared(buckets: list[int]) -> str:
    """Name the first distance that shares its bucket with the next, and the first past that bucket."""
    for distance in range(1, len(buckets) - 1):
        if buckets[distance] == buckets[distance + 1]:
            later = [n for n, x in enumerate(buckets) if n > distance and x != buckets[distance]]
            end = f", and {later[0]:,} is in the next" if later else ""
            return f"distances {distance:,} and {distance + 1:,} share a bucket{end}"
    return "no distances share a bucket"
