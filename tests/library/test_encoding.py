"""The numbers a scheme puts in, as one matrix; position beside content."""

import cmath
import math
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from posenc import SCHEMES, Scheme, SchemeConfig, encoding, formula, position_vectors
from posenc.analysis import STARTS, content_and_position, draw_tokens, row_norm, token_deviation
from posenc.errors import NoPositionKernel, PositionOutOfRange, SchemeArgumentError
from posenc.latex import Notation, Writer, symbols
from posenc.latex import number as latex_number
from posenc.scheme_numbers import Encoding
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig, RopeNtkConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from tests.library import independent
from tests.library.configs import config_of
from tests.library.law_exceptions import LAW_VARIANTS, NO_KERNEL, PUTS_NOTHING_IN, for_schemes
from tests.library.small_schemes import DIM, HEADS, SMALL_CONFIGS, WIDTH, code_paths, small_scheme
from tests.library.tensors import assert_close

LAYOUTS = ("interleaved", "half")


def encoding_of(config: SchemeConfig, length: int, **options: Any) -> Encoding:
    result = encoding(config.build(seed=2), length, **options)
    assert result is not None
    return result


@for_schemes(NO_KERNEL, PUTS_NOTHING_IN, among=code_paths())
def test_encoding_is_one_matrix_of_float64_rounded_once_on_request(scheme: Scheme) -> None:
    matrix = encoding(scheme, 9, head=0)
    coarse = encoding(scheme, 9, head=0, dtype=torch.bfloat16)
    assert matrix is not None
    assert coarse is not None
    assert matrix.values.dtype == torch.float64
    assert matrix.values.isfinite().all()
    assert matrix.is_bias == (matrix.features == ())
    assert matrix.values.shape == (9, 9 if matrix.is_bias else len(matrix.features))
    assert len(set(matrix.features)) == len(matrix.features)
    # The same cast of the same numbers: equal bits.
    assert torch.equal(coarse.values, matrix.values.to(torch.bfloat16).double())


@for_schemes(NO_KERNEL, among=("sinusoidal", "sinusoidal.layout=half", "learned", "alibi", "t5"))
def test_encoding_is_what_the_hooks_add(scheme: Scheme) -> None:
    """T5 tells queries, in rows, from keys."""
    blank = torch.zeros(1, HEADS, 5, WIDTH, dtype=torch.float64)
    bias = scheme.bias(blank, blank)
    for head in (0, 3, "mean"):
        matrix = encoding(scheme, 5, head=head)
        assert matrix is not None
        if bias is None:
            expected = scheme.embed(torch.zeros(1, 5, DIM, dtype=torch.float64))[0]
            assert matrix.unit == "entry of a vector"
        else:
            expected = bias[0].mean(0) if isinstance(head, str) else bias[0, head]
            assert (matrix.unit, matrix.is_bias) == ("logit", True)
        assert_close(matrix.values, expected.detach(), atol=1e-7)


def test_columns_have_the_names_of_their_waves_and_a_table_ends() -> None:
    for layout, names in (("half", ["sin 0", "sin 1"]), ("interleaved", ["sin 0", "cos 0"])):
        matrix = encoding_of(SinusoidalConfig(dim=12, layout=layout), 3)  # type: ignore[arg-type]
        assert list(matrix.features[:2]) == names
    assert encoding_of(LearnedConfig(dim=3, max_len=5), 5).features == ("0", "1", "2")
    with pytest.raises(PositionOutOfRange):
        encoding_of(LearnedConfig(dim=3, max_len=5), 6)


def test_scheme_without_fixed_numbers_has_no_matrix() -> None:
    assert encoding(NoneConfig().build(), 4) is None
    for kind in NO_KERNEL:
        with pytest.raises(NoPositionKernel, match="depends on content"):
            encoding(small_scheme(kind), 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("width", "share"), [(2, 1.0), (16, 0.5)])
def test_rope_table_holds_cosine_and_sine_of_every_pair(
    width: int, share: float, layout: str
) -> None:
    config = RopeConfig(dim=width, base=500.0, layout=layout, partial_rotary_factor=share)  # type: ignore[arg-type]
    matrix, rotary = encoding_of(config, 13), int(width * share)
    assert matrix.unit == "cosine or sine"
    assert matrix.values.shape == (13, rotary)
    waves = independent.sinusoidal(range(13), rotary, 500.0, "half")  # all sines, then all cosines
    for column, name in enumerate(matrix.features):
        wave, pair = name.split()
        m, is_sine = int(pair), wave == "sin"
        assert column == (m + is_sine * rotary // 2 if layout == "half" else 2 * m + is_sine)
        expected = waves[:, m + (not is_sine) * rotary // 2]
        assert_close(matrix.values[:, column], expected, atol=1e-15)


# Token norm over position norm at d = 512 with the factor sqrt(d), as worked out by hand from
# s * 512 / 16: s = 1/sqrt(512), 1, 0.02 and sqrt(2 / 37512).
WORKED = {"1/d": 1.4142135623, "1": 32.0, "0.02": 0.64, "xavier": 0.2336576}


@pytest.mark.parametrize("start", STARTS)
def test_drawn_tokens_have_the_stated_deviation_and_follow_the_seed(start: str) -> None:
    tokens = draw_tokens(start, 4_000, 64, torch.Generator().manual_seed(3))
    deviation = token_deviation(start, 64)
    assert tokens.shape == (4_000, 64)
    assert tokens.std().item() == pytest.approx(deviation, rel=1e-2)
    assert abs(tokens.mean().item()) < 0.01 * deviation
    if start == "xavier":
        assert tokens.abs().max().item() <= math.sqrt(6 / (37_000 + 64))
    again = draw_tokens(start, 4_000, 64, torch.Generator().manual_seed(3))
    assert torch.equal(tokens, again)  # the same draw


@pytest.mark.parametrize("start", STARTS)
def test_effect_of_the_factor_depends_on_how_tokens_start(start: str) -> None:
    norm = row_norm(position_vectors(SinusoidalConfig(dim=512).build(), 20))
    assert norm == pytest.approx(16, rel=1e-14)  # sqrt(d / 2)
    summary = content_and_position(norm, 512, start)
    assert summary.token == pytest.approx(WORKED[start] * norm / math.sqrt(512), rel=1e-6)
    assert summary.ratio_scaled == pytest.approx(WORKED[start], rel=1e-6)
    assert summary.ratio_plain == pytest.approx(WORKED[start] / math.sqrt(512), rel=1e-6)
    assert summary.share_scaled == pytest.approx(1 / (1 + WORKED[start] ** 2), rel=1e-6)
    assert summary.share_plain == pytest.approx(1 / (1 + WORKED[start] ** 2 / 512), rel=1e-6)


def test_norms_of_rows_that_are_zero_or_not_finite() -> None:
    norm = row_norm(torch.tensor([[3.0, 4.0], [math.inf, 0.0], [0.0, 0.0], [6.0, 8.0]]))
    assert norm == pytest.approx(math.sqrt(125 / 3))
    assert math.isnan(row_norm(torch.full((2, 2), math.nan)))
    summary = content_and_position(0.0, 8, "1")
    assert (summary.ratio_plain, summary.share_plain) == (math.inf, 0.0)


@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_arguments_are_refused() -> None:
    alibi: Any = AlibiConfig(heads=2).build()
    for options in ({"length": 0}, {"length": 3, "head": 2}, {"length": True}, {"length": 3.0}):
        with pytest.raises(SchemeArgumentError):
            encoding(alibi, **options)
    for call in (
        lambda: token_deviation("N(0, 1)", 8),
        lambda: token_deviation("1", 0),
        lambda: content_and_position(-1.0, 8, "1"),
        lambda: draw_tokens("1", 0, 8, torch.Generator()),
        lambda: formula(SinusoidalConfig(), "x, y"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SchemeArgumentError):
            call()


NAMES: tuple[Notation, ...] = get_args(Notation)


@pytest.mark.parametrize("notation", NAMES)
@pytest.mark.parametrize("numbers", [False, True])
def test_formula_of_every_scheme_is_balanced_latex(notation: Notation, numbers: bool) -> None:
    for name in LAW_VARIANTS:
        for head in ("mean", 0):
            text = formula(SMALL_CONFIGS[name], notation, numbers=numbers, head=head)
            for opened, closed in (("{", "}"), (r"\begin", r"\end"), (r"\left", r"\right")):
                assert text.count(opened) == text.count(closed), name
            assert "$" not in text
            assert "None" not in text
            assert (r"\mathrm{pos}" in text) == (notation == "pos, i"), name
            assert r"\omega" not in text or notation == "t, k"


PAPER = {
    "pos, i": r"\begin{aligned} PE_{(\mathrm{pos},\,2i)} &= \sin\left(\frac{\mathrm{pos}}{%s}\right)"
    r" \\ PE_{(\mathrm{pos},\,2i+1)} &= \cos\left(\frac{\mathrm{pos}}{%s}\right) \end{aligned}",
    "t, k": r"\begin{aligned} p_{t}^{(2k)} &= \sin\left(\omega_k\,t\right) \\ p_{t}^{(2k+1)} &= "
    r"\cos\left(\omega_k\,t\right) \\ \omega_k &= \frac{1}{%s} \end{aligned}",
}  # Vaswani et al. 2017, section 3.5; the second as in Kazemnejad 2019


@pytest.mark.parametrize("notation", NAMES)
def test_sinusoidal_formula_is_that_of_the_paper(notation: Notation) -> None:
    pair = notation[-1]
    config = SinusoidalConfig(dim=8, base=10000.0)
    for numbers, power in ((False, f"{{b}}^{{2{pair}/d}}"), (True, f"{{10000}}^{{2{pair}/8}}")):
        expected = PAPER[notation].replace("%s", power)
        assert formula(config, notation, numbers=numbers) == expected
    assert "{(10^{12})}" in formula(SinusoidalConfig(dim=8, base=1e12), numbers=True)
    assert r"(2.5 \cdot 10^{11})" in formula(SinusoidalConfig(dim=8, base=2.5e11), numbers=True)
    half = SinusoidalConfig(dim=8, layout="half")  # its formula names the features that are paired
    assert r"PE_{(\mathrm{pos},\,i+4)}" in formula(half, numbers=True)
    assert "x_{k+3}" in formula(RopeConfig(dim=6, layout="half"), "t, k", numbers=True)


def worked_out(latex: str, **letters: float) -> float:
    """Return the value of a formula of products, powers and fractions."""
    text = re.sub(r"\\frac\{1\}\{(.+)\}$", r"1/(\1)", latex)
    for old, new in (
        (r"\cdot", "*"), (r"\left", ""), (r"\right", ""), ("^", "**"), ("{", "("), ("}", ")"),
        ("2i", "2*i"), (" (2 (", " * (2 * ("),
    ):  # fmt: skip
        text = text.replace(old, new)
    return float(eval(text, {"__builtins__": {}}, letters))


@pytest.mark.parametrize("heads", [1, 12])
def test_written_slope_of_alibi_has_the_value_of_the_head(heads: int) -> None:
    slopes = independent.alibi_slopes(heads)
    for head, slope in enumerate(slopes):
        text = formula(AlibiConfig(heads=heads), numbers=True, head=head)
        match = re.search(r"= (2\^\{.+?\}) = (.+)$", text)
        assert match is not None
        assert worked_out(match[1]) == pytest.approx(slope, rel=1e-12)
        value = re.sub(r"\((.+) \\cdot 10\^\{(.+)\}\)", r"\1e\2", match[2])
        assert float(value) == pytest.approx(slope, rel=1e-9)
        assert text.startswith(rf"\mathrm{{bias}}_{{{head + 1}}}")
    if heads == 12:  # of all heads at once: two cases
        text = formula(AlibiConfig(heads=12), numbers=True)
        match = re.search(r"(2\^\{[^&]+?\}) & h \\le 8 \\\\ (2\^\{.+?\}) & 8 < h", text)
        assert match is not None
        for head, slope in enumerate(slopes):
            written = match[1] if head < 8 else match[2]
            assert worked_out(written, h=head + 1) == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize(
    "config",
    [RopeConfig(dim=8), RopeLinearConfig(dim=8, factor=4), RopeNtkConfig(dim=8, factor=4),
     RopeNtkConfig(dim=2, factor=4),
     RopeDynamicConfig(dim=8, factor=4, trained_length=10, length=25)],
    ids=lambda config: f"{config.kind} {config.dim}",
)  # fmt: skip
def test_written_frequency_has_the_value_of_the_pair(config: RopeConfig) -> None:
    inv_freq = config.build().inv_freq
    assert inv_freq is not None
    rate = config.frequency_formula(Writer(config, numbers=True))[0]
    for pair, theta in enumerate(inv_freq.tolist()):
        assert worked_out(rate, i=pair) == pytest.approx(theta, rel=1e-12)


@pytest.mark.parametrize("config", SMALL_CONFIGS.values(), ids=SMALL_CONFIGS)
def test_symbols_are_the_fields_whose_numbers_a_formula_can_show(config: SchemeConfig) -> None:
    text, named = formula(config), symbols(config)
    for field, symbol in named.items():
        assert symbol in text
        assert latex_number(getattr(config, field)) in formula(config, numbers=True)
    if isinstance(config, RopeConfig | SinusoidalConfig):
        assert "base" in named
    given: Any = config
    other = replace(given, base=2 * given.base) if hasattr(config, "base") else config
    changes = formula(other, numbers=True) != formula(config, numbers=True)
    assert changes == ("base" in named)


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_written_equations_of_rope_rotate_a_pair(layout: Any, clockwise: bool) -> None:
    text = formula(RopeConfig(dim=8, layout=layout, clockwise=clockwise), "t, k", numbers=True)
    equations = re.findall(r"x'_\{(.+?)\} &= (.+?) \\\\", text)
    assert len(equations) == 2
    assert r"\rho_k &= \omega_k\,t \\ \omega_k &= \frac{1}{{10000}^{2k/8}}" in text
    x, position = torch.arange(1.0, 9.0, dtype=torch.float64).tolist(), 3
    for k in range(4):
        angle = (-1 if clockwise else 1) * position * 10_000 ** (-2 * k / 8)
        first, second = (2 * k, 2 * k + 1) if layout == "interleaved" else (k, k + 4)
        turned = complex(x[first], x[second]) * cmath.exp(1j * angle)
        for (feature, right), place, value in zip(
            equations, (first, second), (turned.real, turned.imag), strict=True
        ):
            for old, new in (
                (r"\rho_k", "(angle)"), (r" \cos ", "*cos"), (r" \sin ", "*sin"), ("{", "["),
                ("}", "]"), ("x_", "x"), ("2k", "2*k"),
            ):  # fmt: skip
                right, feature = right.replace(old, new), feature.replace(old, new)
            names = {"x": x, "k": k, "angle": abs(angle), "cos": math.cos, "sin": math.sin}
            assert eval(feature, {"__builtins__": {}}, names) == place
            assert eval(right, {"__builtins__": {}}, names) == pytest.approx(value, rel=1e-12)


def test_letter_of_the_base_means_nothing_else() -> None:
    for name in LAW_VARIANTS:
        config = SMALL_CONFIGS[name]
        text = re.sub(r"\\(text|mathrm)\{[^}]*\}|\\[a-z]+", "", formula(config))
        assert ("b" in text) <= hasattr(config, "base"), name
        assert "bias" not in text


def test_written_position_of_a_grid_is_the_place_on_an_axis() -> None:
    on_grid = RopeSectionsConfig(dim=22, grid=7)
    assert "grid of 7 columns" in on_grid.frequency_formula(Writer(on_grid))[-1]
    assert on_grid.build().inv_freq is None  # no pair turns by the number of the token


def test_written_ramps_have_their_ends() -> None:
    yarn = config_of("rope_yarn", dim=128, factor=16.0, trained_length=4_096)
    llama = formula(SCHEMES["rope_llama3"](), numbers=True)
    for part, text in ((r"\frac{46 - i}{46 - 20}", formula(yarn, numbers=True)),
                       ("a = 1.277258872", formula(yarn, numbers=True)),
                       (r"{8192}{2 \pi", llama), ("{4 - 1}", llama)):  # fmt: skip
        assert part in text
