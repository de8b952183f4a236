"""Formulas as MathML: every formula of the library is read, and by its structure as LaTeX means it."""

from xml.etree import ElementTree

import pytest

import posenc
from dashboard.mathml import UnknownLatex, mathml
from posenc.latex import NOTATIONS, Notation
from posenc.schemes import SCHEMES


def leaves(latex: str) -> str:
    """Return the texts of a formula in the order in which they are read."""
    return "".join(ElementTree.fromstring(mathml(latex)).itertext()).replace("\u2061", "")


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("numbers", [False, True])
def test_every_formula_of_a_scheme_is_read_whole(
    kind: str, notation: Notation, numbers: bool
) -> None:
    formula = posenc.formula(posenc.Sizes().config(kind), notation, numbers=numbers)
    written = mathml(formula)
    root = ElementTree.fromstring(written)
    assert "\\" not in "".join(root.itertext())
    assert len(root.findall(".//mtr")) == formula.count(r"\\") + formula.count(r"\begin")
    assert len(root.findall(".//mfrac")) == formula.count(r"\frac") + formula.count(r"\tfrac")
    assert len(root.findall(".//msqrt")) == formula.count(r"\sqrt")


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"x'_{2i}", "<msubsup><mi>x</mi><mrow><mi>{}</mi></mrow><mrow><mo>′</mo></mrow></msubsup>"),
        (r"b^{2}", "<msup><mi>b</mi><mrow><mrow><mn>2</mn></mrow></mrow></msup>"),
        (r"\frac{1}{d}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>d</mi></mrow></mfrac>"),
        (r"\sum_{i}^{n}", "<munderover><mo>∑</mo><mrow><mi>i</mi></mrow>"),
        (r"\prod_{i}^{n}", "<munderover><mo>∏</mo><mrow><mi>i</mi></mrow>"),
        (r"\left|x\right|", '<mo stretchy="true">|</mo><mrow><mi>x</mi></mrow><mo stretchy="true">|</mo>'),
        (r"10{,}000", "<mn>10</mn><mrow><mo>,</mo></mrow><mn>000</mn>"),
    ],
)  # fmt: skip
def test_a_construct_becomes_the_element_that_draws_it(latex: str, expected: str) -> None:
    assert expected.replace("<mi>{}</mi>", "<mn>2</mn><mi>i</mi>") in mathml(latex)


def test_rows_and_cells_of_a_matrix_stay_apart() -> None:
    root = ElementTree.fromstring(mathml(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}"))
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("mtr")]
    assert rows == [["a", "b"], ["c", "d"]]


def test_words_keep_their_blanks_and_signs_are_those_of_print() -> None:
    assert leaves(r"\text{from } 1 - 2") == "from\u00a01−2"
    assert leaves(r"\mathrm{a<b}") == "a<b"


@pytest.mark.parametrize(
    "latex", [r"\unknown", "{x", "x}", r"\begin{tabular} x \end{tabular}", r"\frac{1}", r"\left( x", "#"]
)  # fmt: skip
def test_what_is_not_read_is_an_error_and_never_a_wrong_formula(latex: str) -> None:
    with pytest.raises(UnknownLatex):
        mathml(latex)
