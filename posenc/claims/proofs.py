"""Proofs of the claims that are true at all sizes, as equations and as words.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5 (the table and its shift); Su et al. 2021, arXiv
2104.09864, section 3.2 (RoPE).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Proof:
    """Why a claim is true at all sizes. lines: equations in LaTeX. words: what they mean."""

    lines: tuple[str, ...]
    words: str

    @property
    def latex(self) -> str:
        """The equations under each other, as one formula."""
        return r"\begin{gathered} " + r" \\ ".join(self.lines) + r" \end{gathered}"


LINEAR_MAP = Proof(
    (
        r"\alpha = \theta p, \quad \beta = \theta k",
        r"\sin(\alpha + \beta) = \cos \beta \sin \alpha + \sin \beta \cos \alpha",
        r"\cos(\alpha + \beta) = -\sin \beta \sin \alpha + \cos \beta \cos \alpha",
        r"M_k = \begin{pmatrix} \cos \beta & \sin \beta \\ -\sin \beta & \cos \beta \end{pmatrix}",
    ),
    "Each pair of the row has a sine and a cosine with the frequency θ. The addition formulas write both "
    "entries at p + k as sums of both entries at p. The factors form the matrix of the pair, M_k. They "
    "contain the offset k, but not the position p, so one matrix works at every position.",
)

TWO_RIGHT = Proof(
    (
        r"p_i \cdot p_j = \sum_m \cos(\theta_m (i - j)) \le \frac{d}{2} = p_i \cdot p_i",
        r"p_i \cdot M_{-2} p_j = p_i \cdot p_{j - 2} \le p_i \cdot p_i",
    ),
    "The first line says that the row p_i of the table is most similar to itself. The key map M moves the "
    "row of position j to position j - 2. So the logit of query i is largest at the key j = i + 2. A large "
    "factor on the logits brings the attention weight there near 1.",
)

OFFSET_ONLY = Proof(
    (
        r"(R_{\theta i} q)^\top (R_{\theta j} k) = q^\top R_{\theta i}^\top R_{\theta j} k",
        r"= q^\top R_{\theta (j - i)} k",
        r"R_\alpha = \begin{pmatrix} \cos \alpha & -\sin \alpha \\ \sin \alpha & \cos \alpha "
        r"\end{pmatrix}, \quad R_\alpha^\top R_\beta = R_{\beta - \alpha}",
    ),
    "RoPE rotates each pair of the query by the angle θi and each pair of the key by θj. R is a rotation. "
    "The transposed rotation turns back, so the two rotations leave one, by the difference of their angles "
    "(addition formulas). The positions i and j enter the logit only as the offset j - i.",
)

BOUNDED = Proof(
    (r"(\sin x)^2 + (\cos x)^2 = 1", r"(\sin x)^2 = 1 - (\cos x)^2 \le 1"),
    "Every entry of the table is a sine or a cosine. No square of a real number is negative, so the "
    "square of a sine is at most 1. The same holds for the cosine.",
)

ONE_HOT = Proof(
    (
        r"\begin{pmatrix} 0 & 1 & 0 \end{pmatrix} "
        r"\begin{pmatrix} W_0 \\ W_1 \\ W_2 \end{pmatrix} = 0 W_0 + 1 W_1 + 0 W_2 = W_1",
    ),
    "This is position 1 of a table W with three rows; it is the same with any number of rows. A linear "
    "layer multiplies the one-hot vector by W. All rows but one get the factor 0, and the row that "
    "nn.Embedding looks up gets the factor 1.",
)

ENDS = Proof(
    (
        r"\text{learned: } PE(p) = W_p, \quad p = 0, 1, \ldots, L - 1",
        r"\text{sinusoidal: } PE(p) = (\sin(\theta_0 p), \cos(\theta_0 p), \ldots), \quad "
        r"\text{any } p",
    ),
    "A learned table W with L rows has no row for position L, because training made none. A formula "
    "has a value at every position.",
)
