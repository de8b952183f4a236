"""The docstring of every config says what each field means, its range and who published the scheme."""

import re
from dataclasses import dataclass

import pytest

import posenc
from posenc import fields
from posenc.schemes import SCHEMES


@dataclass(frozen=True, kw_only=True)
class _Rotation:
    """A rotation.

    dim: width of a head, even.
    base: of the frequencies; a larger one slows the slow pairs
        more than the fast ones.
    heads: this is no field.
    """

    dim: int = fields.IntRange(low=2, high=9, label="Width").field(2)
    base: float = fields.FloatRange(low=1, high=9, label="Base", help="Its own text.").field(2.0)


@dataclass(frozen=True, kw_only=True)
class _Scaled(_Rotation):
    """A scaled rotation.

    dim: width of the rotated features.
    """

    factor: float = fields.FloatRange(low=1, high=9, label="Factor").field(2.0)


def test_help_is_the_line_of_the_nearest_class_with_what_is_indented_below() -> None:
    assert fields.help_of(_Scaled) == {
        "dim": "Width of the rotated features.",
        "base": "Of the frequencies; a larger one slows the slow pairs more than the fast ones.",
    }
    helps = {name: rule.help for name, rule in fields.rules(_Scaled).items()}
    assert helps == {"dim": "Width of the rotated features.", "base": "Its own text.", "factor": ""}


@pytest.mark.parametrize(
    ("number", "words"),
    [(1e8, "100,000,000"), (1e12, "1e12"), (1e-6, "1e-6"), (0.001, "0.001"), (0.35, "0.35"),
     (2.0, "2"), (-3, "-3"), (1_048_576, "1,048,576"), (2.5e-11, "2.5e-11"), (0, "0")],
)  # fmt: skip
def test_ends_of_ranges_are_written_as_people_write_them(number: float, words: str) -> None:
    rule = fields.FloatRange(low=number, high=2e12)
    assert rule.allowed() == f"a number from {words} to 2e12"
    numbers = fields.Numbers(low=number, high=2e12, least=1, most=2)
    assert numbers.allowed_list() == f"a list of 1 to 2 numbers from {words} to 2e12"


@pytest.mark.parametrize("kind", SCHEMES)
def test_docstring_of_a_config_describes_every_field_with_its_range(kind: str) -> None:
    config = SCHEMES[kind]
    described = fields.help_of(config)
    for name, rule in fields.rules(config).items():
        assert len(described.get(name, "")) > 10, name
        for end in ("low", "high"):
            number = getattr(rule, end, None)
            if number is not None:
                words = fields.plain_number(number)
                assert re.search(rf"(?<![\d.,]){re.escape(words)}(?![\d,])", described[name]), name
        if getattr(rule, "multiple_of", 1) == 2:
            assert "even" in described[name], name


@pytest.mark.parametrize("kind", SCHEMES)
def test_docstring_of_a_config_cites_its_paper(kind: str) -> None:
    assert re.search(r"\d{4}, arXiv \d{4}\.\d{5}", SCHEMES[kind].__doc__ or "")


@pytest.mark.parametrize("kind", SCHEMES)
def test_posenc_exports_the_config_of_every_scheme(kind: str) -> None:
    name = SCHEMES[kind].__name__
    assert getattr(posenc, name) is SCHEMES[kind]
    assert name in posenc.__all__
