"""Laws that do not hold for a scheme, each with the reason; every other law of the contract does.

Such a law is run all the same and must fail (a strict xfail), so that no entry outlives its reason.
"""

import re
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Exempt:
    """law: the test. schemes: a pattern of names of tests.conftest.SMALL_CONFIGS or of kinds.

    asked: a pattern that the rest of the test's name must hold, where the law fails for a part only.
    """

    law: str
    schemes: str
    reason: str
    asked: str = ""

    def holds(self, law: str, scheme: str, name: str) -> bool:
        """Whether this is about the test of this law, scheme and full name."""
        return (
            law == self.law
            and re.fullmatch(rf"(?:{self.schemes})(?:\..*)?", scheme) is not None
            and re.search(self.asked, name) is not None
        )


EXEMPT = (
    Exempt(
        "test_softmax_scale_is_one_over_the_root_of_the_head_width",
        "t5",
        "T5 does not divide its scores by the root of the head width",
    ),
)


def mark(item: pytest.Item) -> None:
    """Expect the failure of a law that does not apply."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return
    scheme = callspec.params.get("variant", callspec.params.get("kind"))
    law = getattr(item, "originalname", item.name)
    for one in EXEMPT:
        if isinstance(scheme, str) and one.holds(law, scheme, callspec.id):
            item.add_marker(pytest.mark.xfail(strict=True, reason=one.reason))
