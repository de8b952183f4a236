"""Sentences that textbooks and posts repeat, each with a test that decides it at any setting.

A claim is one function, setting to verdict, and one entry of CLAIMS:

    CLAIMS["slowest"].test(Setting(dim=512)).sentence
"""

from posenc.claims import distances, order, scale, tables, training
from posenc.claims.claim import Claim, Number, State, Verdict, figure

VASWANI = "Vaswani et al. 2017, arXiv 1706.03762"
TABLE = ("dim", "base", "precision")
ROPE = ("dim", "heads", "equal_width", "base", "rope.partial_rotary_factor")

_CLAIMS = (
    # The table's entries
    Claim(
        id="unique",
        sentence="Every position has a unique vector.",
        theme="values",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=tables.unique,
        steps=(tables.distinct_rows,),
        uses=TABLE,
    ),
    Claim(
        id="bounded",
        sentence="The values lie in [-1, 1].",
        theme="values",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=tables.bounded,
        uses=(*TABLE, "seed"),
    ),
    Claim(
        id="overflow",
        sentence="Raising the base, 10000, to a power directly overflows.",
        theme="values",
        source=f"Comments in code for {VASWANI}; the ladder of section 3.5 decides",
        test=tables.overflow,
        uses=TABLE,
    ),
    Claim(
        id="exp_of_log",
        sentence="Exp of a log is the more accurate way to the frequencies.",
        theme="values",
        source=f"Comments in code for {VASWANI}; the ladder of section 3.5 decides",
        test=tables.exp_of_log,
        steps=(tables.ladder_error,),
    ),
    # Beside content
    Claim(
        id="sqrt_scale",
        sentence="Multiplying by sqrt(d_model) puts token and position on one scale.",
        theme="content",
        source=f"Tutorials on {VASWANI}, section 3.4",
        test=scale.sqrt_scale,
        steps=(scale.token_over_position,),
        uses=TABLE,
    ),
    Claim(
        id="dominating",
        sentence="Values in [-1, 1] keep position from dominating the token.",
        theme="content",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=scale.dominating,
        steps=(scale.token_over_position,),
        uses=TABLE,
    ),
    Claim(
        id="overwritten",
        sentence="Strong content can overwrite position, because it is added and not concatenated.",
        theme="content",
        source=f"Posts on {VASWANI}, section 3.5; measured here",
        test=scale.overwritten,
        steps=(scale.drown, scale.in_order),
        uses=(*TABLE, "seed"),
    ),
    # Wavelengths
    Claim(
        id="fast_to_slow",
        sentence="Low dimensions turn fast, high ones slowly.",
        theme="wavelengths",
        source=f"{VASWANI}, section 3.5",
        test=tables.fast_to_slow,
        steps=(tables.feature_frequencies,),
        uses=("dim", "base", "sinusoidal.layout"),
    ),
    Claim(
        id="own_frequency",
        sentence="Each dimension has its own frequency.",
        theme="wavelengths",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=tables.own_frequency,
        steps=(tables.feature_frequencies,),
    ),
    Claim(
        id="slowest",
        sentence="The slowest pair's cycle is about 2 pi times the base: 62,800 positions for 10000.",
        theme="wavelengths",
        source=f"{VASWANI}, section 3.5, in words; its formula says less",
        test=tables.slowest,
    ),
    Claim(
        id="nearly_linear",
        sentence="Below 10,000 positions all pairs stay in a nearly linear regime.",
        theme="wavelengths",
        source=f"Posts on why the base is 10000; the ladder of {VASWANI} decides",
        test=tables.nearly_linear,
    ),
    Claim(
        id="hour_hand",
        sentence="The hour hand, the slowest pair, never completes a turn.",
        theme="wavelengths",
        source="Tutorials that draw pairs as clock hands; Liu et al. 2023, arXiv 2310.05209, decides",
        test=tables.hour_hand,
        uses=("dim", "base", "train_length"),
    ),
    # Distance
    Claim(
        id="near",
        sentence="Near positions are more similar than far ones.",
        theme="distance",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=distances.near,
        steps=(distances.by_distance,),
        uses=("dim", "base", "length"),
    ),
    Claim(
        id="falls",
        sentence="Similarity falls with distance.",
        theme="distance",
        source=f"Tutorials on {VASWANI}, section 3.5",
        test=distances.falls,
        steps=(distances.by_distance,),
        uses=("dim", "base", "length"),
    ),
    Claim(
        id="linear_map",
        sentence="PE(pos + k) is a linear function of PE(pos).",
        theme="distance",
        source=f"{VASWANI}, section 3.5",
        test=distances.linear_map,
        uses=(*TABLE, "seed"),
    ),
    Claim(
        id="two_right",
        sentence="A linear key map can attend two to the right.",
        theme="distance",
        source=f"Lectures on {VASWANI}, section 3.5",
        test=distances.two_to_the_right,
        steps=(distances.attend_two_ahead, distances.aimed),
        uses=(*TABLE, "length", "seed"),
    ),
    Claim(
        id="offset_only",
        sentence="RoPE's logit depends on the offset only.",
        theme="distance",
        source="Su et al. 2021, arXiv 2104.09864, section 3.2",
        test=distances.offset_only,
        uses=(*ROPE, "precision", "length", "train_length", "seed", "rope.layout"),
    ),
    # Order
    Claim(
        id="permutation",
        sentence="Attention without position is permutation-invariant.",
        theme="order",
        source="Textbooks; Lee et al. 2019, arXiv 1810.00825, decides",
        test=order.permutation,
        steps=(order.layer, order.rotated),
        uses=("dim", "heads", "base", "seed"),
    ),
    Claim(
        id="blind",
        sentence="Attention without position is blind to order.",
        theme="order",
        source="Textbooks; Kazemnejad et al. 2023, arXiv 2305.19466, decides",
        test=order.blind,
        steps=(order.layer, order.rotated),
        uses=("dim", "heads", "base", "seed"),
    ),
    # Learned tables
    Claim(
        id="one_hot",
        sentence="nn.Embedding equals a one-hot nn.Linear.",
        theme="tables",
        source="PyTorch's documentation of nn.Embedding and nn.Linear",
        url="https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
        test=tables.one_hot,
        uses=("dim", "train_length", "learned_source", "seed", "precision"),
    ),
    Claim(
        id="ends",
        sentence="Learned tables end at their length.",
        theme="tables",
        source="Devlin et al. 2018, arXiv 1810.04805",
        test=tables.ends,
        uses=("dim", "base", "train_length", "learned_source", "seed"),
    ),
    # Biases
    Claim(
        id="geometric",
        sentence="ALiBi's slopes are a geometric sequence.",
        theme="biases",
        source="Press et al. 2022, arXiv 2108.12409, section 3",
        test=distances.geometric,
        uses=("heads",),
    ),
    Claim(
        id="t5_shaw",
        sentence="T5 uses Shaw's scheme.",
        theme="biases",
        source="Posts; Raffel et al. 2020, arXiv 1910.10683, section 2.1, decides",
        test=distances.t5_is_shaw,
        steps=(distances.t5_bucket, distances.clip_that_fits),
        uses=("length",),
    ),
    # Trained models
    Claim(
        id="alike",
        sentence="Up to the training length, learned and sinusoidal work alike.",
        theme="models",
        source=f"{VASWANI}, table 3, row E; measured here on small models",
        test=training.alike,
        uses=("base", "train_length"),
    ),
    Claim(
        id="sinusoids_extrapolate",
        sentence="Sinusoids extrapolate past the training length.",
        theme="models",
        source=f"{VASWANI}, section 3.5, hoped so; measured here on small models",
        test=training.sinusoids_extrapolate,
        steps=(training.extrapolates,),
        uses=("base", "train_length"),
    ),
    Claim(
        id="rope_extrapolates",
        sentence="RoPE extrapolates past the training length.",
        theme="models",
        source="Posts; Su et al. 2021, arXiv 2104.09864, sections 1 and 4.5, name sequence length "
        "flexibility and test no length past training; measured here on small models",
        test=training.rope_extrapolates,
        steps=(training.extrapolates,),
        uses=(*ROPE, "train_length"),
    ),
    Claim(
        id="alibi_extrapolates",
        sentence="ALiBi extrapolates past the training length.",
        theme="models",
        source="Press et al. 2022, arXiv 2108.12409; measured here on small models",
        test=training.alibi_extrapolates,
        steps=(training.extrapolates,),
        uses=("train_length",),
    ),
)

CLAIMS = {claim.id: claim for claim in _CLAIMS}
THEMES = tuple(dict.fromkeys(claim.theme for claim in _CLAIMS))

__all__ = ["CLAIMS", "THEMES", "Claim", "Number", "State", "Verdict", "figure"]
