"""Links of earlier versions open as they did; one notice names what they ask for and is no longer here."""

from typing import Any
from urllib.parse import parse_qs

import pytest

from dashboard.pages.similarity.page import Options
from dashboard.settings import Setting
from tests.dashboard.pages import drawn, headline, notices, options, setting, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SMALL = {"dim": "64", "heads": "4", "length": "40", "train_length": "24", "base": "500"}


@pytest.mark.parametrize(
    ("page", "kept", "gone", "told"),
    [
        (
            "similarity",
            {},
            {"predict": "true", "question": "half.rope", "answer": "said 3"},
            "'answer', 'predict' and 'question'",
        ),
        ("extrapolation", {}, {"predict": "true"}, "'predict'"),
        (
            "similarity",
            {"reference": "9"},
            {"seed": "-5", "key_position": "4000"},
            "'key_position' and 'seed'",
        ),
        ("encoding", {"a": "dim~64"}, {"a": "dim~64~gone~1"}, "'a.gone'"),
        (
            "similarity",
            {"schemes": "rope_sections"},
            {"rope_sections.ladders": "each", "rope_sections.normalized": "true"},
            "'rope_sections.ladders' and 'rope_sections.normalized'",
        ),
    ],
)
def test_link_that_asks_for_what_is_gone_opens_the_page_with_one_notice(
    page: str, kept: dict[str, Any], gone: dict[str, Any], told: str
) -> None:
    old = drawn(visit(page, SMALL | kept | gone))
    assert notices(old) == [f"Ignored in this link: {told}."]
    assert headline(old) == headline(drawn(visit(page, SMALL | kept)))


# Copied by the version before this one, whose links named every control.
COPIED = {
    "similarity": "schemes=Learned&schemes=RoPE&dim=64&base=500&length=40&train_length=24&heads=4"
    "&equal_width=false&alibi_head=0&seed=0&learned_source=trained&model=&precision=float32&device=auto"
    "&rope.layout=interleaved&rope.partial_rotary_factor=1&predict=false&reference=3&key_position=7"
    "&from_zero=true",
    "claims": "dim=64&heads=4&verdict=partly+true&theme=all",
    "extrapolation": "reach=8&schemes=RoPE&schemes=ALiBi&dim=64&heads=4&predict=false",
}


@pytest.mark.parametrize("page", COPIED)
def test_copied_link_of_the_version_before_opens_the_same_view(page: str) -> None:
    at = drawn(visit(page, parse_qs(COPIED[page], keep_blank_values=True)))
    gone = ["Ignored in this link: 'predict'."] if "predict" in COPIED[page] else []
    assert notices(at) == gone
    assert (setting(at).dim, setting(at).heads) == (64, 4)
    if page == "similarity":
        assert setting(at) == Setting(
            schemes=("learned", "rope"), dim=64, base=500.0, length=40, train_length=24, heads=4
        )
        assert options(at) == Options(reference=3, key_position=7, from_zero=True)
    if page == "claims":
        assert options(at).verdict == "partly"
