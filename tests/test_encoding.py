"""The numbers a scheme puts in, its formula in LaTeX, and position beside content."""

import math
import re

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc import SCHEMES, SchemeConfig, Setting, encoding, formula, position_vectors
from posenc.analysis import STARTS, draw_tokens, position_beside_content, row_norms, token_deviation
from posenc.encoding import Encoding
from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.formula import NOTATIONS, Notation, Writer, number
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.scheme import Scheme
from posenc.schemes.sinusoidal import SinusoidalConfig
from tests import independent
from tests.conftest import SMALL

LAYOUTS = ("interleaved", "half")


def found(config: SchemeConfig, length: int, **asked: object) -> Encoding:
    one = encoding(config.build(seed=2), length, **asked)
    assert one is not None
    return one


# The matrix ---------------------------------------------------------------------------------------


def test_every_scheme_has_one_matrix_of_float64_or_none_at_all(scheme: Scheme) -> None:
    one = encoding(scheme, 9)
    if one is None:
        assert scheme.offset_bias(torch.zeros(1, dtype=torch.int64)) is None
        assert scheme.embed(torch.ones(1, 3, 80)).equal(torch.ones(1, 3, 80))
        return
    assert one.values.dtype == torch.float64
    assert one.values.isfinite().all()
    assert len(one.values) == 9
    assert one.is_bias == (one.features == ())
    assert one.values.shape[1] == (9 if one.is_bias else len(one.features))
    assert len(set(one.features)) == len(one.features)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("width", "base"), [(2, 10.0), (8, 10000.0), (12, 777.5)])
def test_sinusoidal_rows_are_the_paper_s_in_either_layout(
    width: int, base: float, layout: str
) -> None:
    one = found(SinusoidalConfig(dim=width, base=base, layout=layout), 11)
    expected = independent.sinusoidal(range(11), width, base, layout)
    assert torch.allclose(one.values, expected, rtol=0, atol=1e-15)
    assert one.unit == "entry of a vector"
    first = ["sin 0", "sin 1"] if layout == "half" and width > 2 else ["sin 0", "cos 0"]
    assert list(one.features[:2]) == first


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("width", "share"), [(2, 1.0), (16, 1.0), (16, 0.5)])
def test_rope_s_table_is_the_cosine_and_sine_of_every_rotated_pair(
    width: int, share: float, layout: str
) -> None:
    config = RopeConfig(dim=width, base=500.0, layout=layout, partial_rotary_factor=share)
    one = found(config, 13)
    rotary = int(width * share)
    assert one.unit == "cosine or sine"
    assert one.values.shape == (13, rotary)
    for column, name in enumerate(one.features):
        wave, pair = name.split()
        m = int(pair)
        place = {"half": m + (wave == "sin") * rotary // 2, "interleaved": 2 * m + (wave == "sin")}
        assert column == place[layout]
        theta = mp.power(mpf(500), mpf(-2 * m) / rotary)
        for position in range(13):
            exact = {"cos": mp.cos, "sin": mp.sin}[wave](position * theta)
            assert one.values[position, column].item() == pytest.approx(float(exact), abs=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rope_s_table_turns_what_the_scheme_turns(layout: str) -> None:
    scheme = RopeConfig(dim=16, base=50.0, layout=layout).build()
    one = found(scheme.config, 6)
    x = torch.randn(1, 1, 6, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    turned = scheme.turn(x)[0, 0]
    for position in range(6):
        for m in range(8):
            first, second = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + 8)
            cos = one.values[position, one.features.index(f"cos {m}")]
            sin = one.values[position, one.features.index(f"sin {m}")]
            a, b = x[0, 0, position, first], x[0, 0, position, second]
            assert turned[position, first].item() == pytest.approx((a * cos - b * sin).item())
            assert turned[position, second].item() == pytest.approx((a * sin + b * cos).item())


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_alibi_s_bias_is_minus_slope_times_distance_in_every_head(heads: int) -> None:
    slopes = independent.alibi_slopes(heads)
    for head in [*range(heads), "mean"]:
        one = found(AlibiConfig(heads=heads), 7, head=head)
        assert (one.unit, one.is_bias) == ("logit", True)
        for i in range(7):
            for j in range(7):
                all_heads = [-slope * abs(j - i) for slope in slopes]
                expected = sum(all_heads) / heads if head == "mean" else all_heads[head]
                assert one.values[i, j].item() == pytest.approx(expected, rel=1e-14)


def test_learned_rows_are_the_table_s_and_end_with_it() -> None:
    scheme = LearnedConfig(dim=6, max_len=5).build(seed=4)
    one = encoding(scheme, 5)
    assert one is not None
    assert torch.equal(one.values, scheme.weight.detach().double())
    assert one.features == ("0", "1", "2", "3", "4", "5")
    with pytest.raises(PositionOutOfRange):
        encoding(scheme, 6)


def test_nope_puts_nothing_in() -> None:
    assert encoding(NoneConfig().build(), 4) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_low_precision_rounds_every_entry_once(kind: str, dtype: torch.dtype) -> None:
    scheme = SMALL.config(kind).build()
    exact, coarse = encoding(scheme, 16, head=0), encoding(scheme, 16, head=0, dtype=dtype)
    if exact is None or coarse is None:
        assert exact is coarse
        return
    assert torch.equal(coarse.values, exact.values.to(dtype).double())


@pytest.mark.usefixtures("no_shape_checks")
def test_what_cannot_be_asked_is_refused_in_one_sentence() -> None:
    scheme = AlibiConfig(heads=2).build()
    for asked in ({"length": 0}, {"length": 3, "head": 2}, {"length": True}, {"length": 3.0}):
        with pytest.raises(SchemeArgumentError):
            encoding(scheme, **asked)
    with pytest.raises(SchemeArgumentError):
        encoding(AlibiConfig(heads=2), 3)


# The formula --------------------------------------------------------------------------------------


@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_scheme_has_a_formula_in_every_notation(config: SchemeConfig, notation: str) -> None:
    for numbers in (False, True):
        for head in ("mean", 0):
            text = formula(config, notation, numbers=numbers, head=head)
            assert text.count("{") == text.count("}")
            assert text.count(r"\begin") == text.count(r"\end")
            assert text.count(r"\left") == text.count(r"\right")
            assert "$" not in text
            assert "None" not in text
            other = r"\mathrm{pos}" if notation == "t, k" else r"\omega"
            assert other not in text
            assert (r"\mathrm{pos}" in text) == (notation == "pos, i")


@pytest.mark.parametrize("notation", NOTATIONS)
def test_numbers_replace_every_symbol_of_a_field(config: SchemeConfig, notation: str) -> None:
    symbolic = formula(config, notation)
    substituted = formula(config, notation, numbers=True)
    uses = {"learned": ("max_len", "dim"), "sinusoidal": ("dim", "base"), "alibi": ("heads",)}
    uses["rope"] = ("rotary_dim", "base")
    for field in uses.get(config.kind, ()):
        assert f"{getattr(config, field):g}" in substituted
    # Neither has a number of the config: those of KERPLE are trained.
    if config.kind not in ("none", "kerple_log", "kerple_power"):
        assert symbolic != substituted


def test_a_scheme_without_a_formula_is_told_in_words() -> None:
    class Plain(NoneConfig):
        summary = "Adds five."

        def formula(self, write: Writer) -> str:
            return SchemeConfig.formula(self, write)

    assert formula(Plain()) == r"\text{Adds five}"


PAPER = {
    "pos, i": r"\begin{aligned} PE_{(\mathrm{pos},\,2i)} &= \sin\left(\frac{\mathrm{pos}}{%s}\right)"
    r" \\ PE_{(\mathrm{pos},\,2i+1)} &= \cos\left(\frac{\mathrm{pos}}{%s}\right) \end{aligned}",
    "t, k": r"\begin{aligned} p_{t}^{(2k)} &= \sin\left(\omega_k\,t\right) \\ p_{t}^{(2k+1)} &= "
    r"\cos\left(\omega_k\,t\right) \\ \omega_k &= \frac{1}{%s} \end{aligned}",
}  # Vaswani et al. 2017, section 3.5; the second as in Kazemnejad 2019


@pytest.mark.parametrize(("notation", "pair"), [("pos, i", "i"), ("t, k", "k")])
def test_the_sinusoidal_formula_is_the_paper_s_word_for_word(notation: Notation, pair: str) -> None:
    config = SinusoidalConfig(dim=8, base=10000.0)
    for numbers, power in ((False, f"{{b}}^{{2{pair}/d}}"), (True, f"{{10000}}^{{2{pair}/8}}")):
        expected = PAPER[notation].replace("%s", power)
        assert formula(config, notation, numbers=numbers) == expected


def test_the_half_layout_names_the_features_it_pairs() -> None:
    half = SinusoidalConfig(dim=8, layout="half")
    assert r"PE_{(\mathrm{pos},\,i)}" in formula(half)
    assert r"PE_{(\mathrm{pos},\,i+d/2)}" in formula(half)
    assert r"PE_{(\mathrm{pos},\,i+4)}" in formula(half, numbers=True)
    assert "x_{k+3}" in formula(RopeConfig(dim=6, layout="half"), "t, k", numbers=True)


@pytest.mark.parametrize("heads", [1, 2, 8, 12, 20])
def test_alibi_s_written_slope_has_the_value_of_the_head(heads: int) -> None:
    slopes = independent.alibi_slopes(heads)
    for head in range(heads):
        text = formula(AlibiConfig(heads=heads), numbers=True, head=head)
        exponent, value = re.search(r"= 2\^\{(.+?)\} = (.+)$", text).groups()
        worked = eval(exponent.replace(r"\cdot", "*").replace(" (", " * ("), {"__builtins__": {}})
        assert 2.0**worked == pytest.approx(slopes[head], rel=1e-12)
        assert float(re.sub(r"\((.+) \\cdot 10\^\{(.+)\}\)", r"\1e\2", value)) == pytest.approx(
            slopes[head], rel=1e-9
        )
        assert text.startswith(f"b_{{{head + 1}}}")


def test_the_cases_of_alibi_s_slopes_hold_for_every_head() -> None:
    text = formula(AlibiConfig(heads=12), numbers=True)
    near, far = re.search(r"2\^\{(.+?)\} & h \\le 8 \\\\ 2\^\{(.+?)\} & 8 < h", text).groups()
    for head, slope in enumerate(independent.alibi_slopes(12)):
        worked = (near if head < 8 else far).replace(r"\cdot h", f"* {head + 1}")
        worked = worked.replace("(h - 8)", f"({head + 1} - 8)").replace("4 (2 (", "4 * (2 * (")
        assert 2.0 ** eval(worked, {"__builtins__": {}}) == pytest.approx(slope, rel=1e-12)


def worked_out(latex: str, pair: int) -> float:
    """The value of a formula without letters but the pair's."""
    text = re.sub(r"\\frac\{1\}\{(.+)\}$", r"1/(\1)", latex)
    for old, new in (
        (r"\cdot", "*"), (r"\left", ""), (r"\right", ""), ("^", "**"), ("{", "("), ("}", ")"),
        ("2i", f"2*{pair}"),
    ):  # fmt: skip
        text = text.replace(old, new)
    return float(eval(text, {"__builtins__": {}}))


@pytest.mark.parametrize(
    "config",
    [
        RopeConfig(dim=8),
        RopeLinearConfig(dim=8, factor=4),
        RopeNtkConfig(dim=8, factor=4),
        RopeNtkConfig(dim=2, factor=4),
        RopeDynamicConfig(dim=8, factor=4, trained_length=10, length=25),
    ],
)
def test_the_written_frequency_has_the_value_of_the_pair(config: RopeConfig) -> None:
    inv_freq = config.build().inv_freq.tolist()
    rate = config.rate_formula(Writer(config, numbers=True))[0]
    for pair, theta in enumerate(inv_freq):
        assert worked_out(rate, pair) == pytest.approx(theta, rel=1e-12)


def test_the_written_ramps_have_their_ends() -> None:
    yarn = SCHEMES["rope_yarn"](dim=128, factor=16.0, trained_length=4_096)
    text = formula(yarn, numbers=True)
    assert r"\frac{46 - i}{46 - 20}" in text
    assert "a = 1.277258872" in text
    assert r"= a\,\begin{pmatrix}" in text
    llama = formula(SCHEMES["rope_llama3"](), numbers=True)
    assert r"{8192}{2 \pi" in llama
    assert "{4 - 1}" in llama


@pytest.mark.parametrize(
    ("value", "text"),
    [(10000.0, "10000"), (777.5, "777.5"), (1e12, "(10^{12})"), (2.5e-5, r"(2.5 \cdot 10^{-5})")],
)
def test_numbers_in_formulas_are_plain_or_powers_of_ten(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.usefixtures("no_shape_checks")
def test_an_unknown_notation_is_refused() -> None:
    with pytest.raises(SchemeArgumentError):
        formula(SinusoidalConfig(), "x, y")


# Position beside content --------------------------------------------------------------------------


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("dim", [16, 512])
def test_the_closed_form_is_what_samples_of_numpy_have(start: str, dim: int) -> None:
    random = np.random.default_rng(5)
    draws = {
        "1/d": lambda shape: random.normal(0, math.sqrt(1 / dim), shape),
        "1": lambda shape: random.normal(0, 1, shape),
        "0.02": lambda shape: random.normal(0, 0.02, shape),
        "xavier": lambda shape: random.uniform(-1, 1, shape) * math.sqrt(6 / (37_000 + dim)),
    }
    tokens = draws[start]((40_000, dim) if dim == 16 else (4_000, dim))
    position = independent.sinusoidal(range(20), dim).numpy()
    norm = np.sqrt((position**2).sum(axis=1).mean())
    one = position_beside_content(float(norm), dim, start)
    measured = np.sqrt((tokens**2).sum(axis=1).mean())
    assert one.token == pytest.approx(measured, rel=5e-3)
    assert one.ratio_plain == pytest.approx(measured / norm, rel=5e-3)
    assert one.ratio_scaled == pytest.approx(measured * math.sqrt(dim) / norm, rel=5e-3)
    rows = position[random.integers(0, 20, len(tokens))]
    for factor, share in ((1.0, one.share_plain), (math.sqrt(dim), one.share_scaled)):
        whole = ((factor * tokens + rows) ** 2).sum(axis=1).mean()
        assert share == pytest.approx((rows**2).sum(axis=1).mean() / whole, rel=2e-2)


@pytest.mark.parametrize("start", STARTS)
def test_drawn_tokens_have_the_deviation_they_are_drawn_with(start: str) -> None:
    tokens = draw_tokens(start, 4_000, 64, torch.Generator().manual_seed(3))
    deviation = token_deviation(start, 64)
    assert tokens.shape == (4_000, 64)
    assert tokens.std().item() == pytest.approx(deviation, rel=1e-2)
    assert abs(tokens.mean().item()) < 0.01 * deviation
    if start == "xavier":
        assert tokens.abs().max().item() <= math.sqrt(6 / (37_000 + 64))
    again = draw_tokens(start, 4_000, 64, torch.Generator().manual_seed(3))
    assert torch.equal(tokens, again)


# Token norm over position norm at d = 512 with the factor sqrt(d), as worked out by hand from
# s * 512 / 16: s = 1/sqrt(512), 1, 0.02 and sqrt(2 / 37512).
WORKED = {"1/d": 1.4142135623, "1": 32.0, "0.02": 0.64, "xavier": 0.2336576}


@pytest.mark.parametrize("start", STARTS)
def test_the_claim_on_the_factor_depends_on_the_start(start: str) -> None:
    norm = row_norms(position_vectors(SinusoidalConfig(dim=512).build(), 100)).root_mean_square
    assert norm == pytest.approx(16, rel=1e-14)  # sqrt(d / 2)
    one = position_beside_content(norm, 512, start)
    assert one.ratio_scaled == pytest.approx(WORKED[start], rel=1e-6)
    assert one.ratio_plain == pytest.approx(WORKED[start] / math.sqrt(512), rel=1e-6)
    assert one.share_scaled == pytest.approx(1 / (1 + WORKED[start] ** 2), rel=1e-6)


def test_row_norms_leave_out_what_is_not_finite() -> None:
    rows = torch.tensor([[3.0, 4.0], [math.inf, 0.0], [0.0, 0.0], [6.0, 8.0]])
    one = row_norms(rows)
    assert (one.least, one.largest, one.rows) == (0.0, 10.0, 3)
    assert one.root_mean_square == pytest.approx(math.sqrt(125 / 3))
    assert math.isnan(row_norms(torch.full((2, 2), math.nan)).root_mean_square)


def test_no_position_at_all_makes_the_token_infinitely_larger() -> None:
    one = position_beside_content(0.0, 8, "1")
    assert (one.ratio_plain, one.share_plain) == (math.inf, 0.0)


@pytest.mark.usefixtures("no_shape_checks")
def test_a_start_that_nobody_knows_is_refused() -> None:
    for call in (
        lambda: token_deviation("N(0, 1)", 8),
        lambda: token_deviation("1", 0),
        lambda: position_beside_content(-1.0, 8, "1"),
        lambda: draw_tokens("1", 0, 8, torch.Generator()),
    ):
        with pytest.raises(SchemeArgumentError):
            call()


def test_a_setting_s_formulas_follow_its_numbers() -> None:
    one, other = Setting(dim=64, heads=4), Setting(dim=64, heads=4, base=500.0)
    changed = {
        kind
        for kind in SCHEMES
        if formula(one.config(kind), numbers=True) != formula(other.config(kind), numbers=True)
    }
    assert changed == {kind for kind in SCHEMES if "base" in SCHEMES[kind].shared}
    assert {"sinusoidal", "rope", "xpos", *ROPE_SCALINGS} <= changed < {*SCHEMES}
