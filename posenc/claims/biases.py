"""Claims about biases on the logit: ALiBi's slopes, T5's buckets beside Shaw's clipped distances.

Press et al. 2022, arXiv 2108.12409, section 3; Raffel et al. 2020, arXiv 1910.10683, section 2.1, whose
buckets are given by its public code; Shaw et al. 2018, arXiv 1803.02155, section 3.2.
"""

import itertools

import torch

from posenc.claims.claim import Number, State, Verdict, figure
from posenc.schemes.alibi import alibi_slopes
from posenc.setting import Setting
from posenc.words import counted

BUCKETS, FURTHEST = 32, 128  # of T5
MOST_POSITIONS = 512


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
    count = min(setting.length, MOST_POSITIONS)
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
