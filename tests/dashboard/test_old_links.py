"""Links of earlier versions open as they did; one notice names what they ask for and is no longer here."""

from typing import Any

import pytest

from tests.dashboard.pages import drawn, headline, notices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SMALL = {"dim": "64", "heads": "4", "length": "40", "train_length": "24", "base": "500"}


@pytest.mark.parametrize(
    ("page", "gone", "told"),
    [
        (
            "similarity",
            {"predict": "true", "question": "half.rope", "answer": "said 3"},
            "Ignored in this link: 'answer', 'predict' and 'question'.",
        ),
        ("extrapolation", {"predict": "true"}, "Ignored in this link: 'predict'."),
    ],
)
def test_link_that_asks_for_what_is_gone_opens_the_page_with_one_notice(
    page: str, gone: dict[str, Any], told: str
) -> None:
    old = drawn(visit(page, SMALL | gone))
    assert notices(old) == [told]
    assert headline(old) == headline(drawn(visit(page, SMALL)))
