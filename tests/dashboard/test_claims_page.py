"""The Claims page: verdicts of the library, filtered, counted, drawn, and as a script."""

import re
from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.pages.claims import data
from dashboard.pages.claims.options import ClaimsChoice
from dashboard.settings import Setting
from posenc.claims import CLAIMS, THEMES, Status
from posenc.claims.distances import two_ahead_control, two_ahead_weights
from posenc.schemes.sizes import Sizes
from tests.dashboard.pages import as_read, drawn, headline, matrices, opened, setting, table, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def lines(at: AppTest) -> dict[str, str]:
    """The lines of the page as read, by the ids of their claims, in order."""
    found: dict[str, str] = {}
    for expander in at.main.expander:
        text = as_read(expander.label)
        found |= {claim.id: text for claim in CLAIMS.values() if f".** {claim.sentence}" in text}
    return found


def by_rank(names: Iterable[str], setting: Setting) -> list[str]:
    """Claims in the order of the page: false, false in small models, partly true, true, true in small
    models, undecided."""
    groups = (
        (Status.FALSE,), (Status.NOT_HERE,), (Status.PARTLY,), (Status.HOLDS, Status.THEOREM),
        (Status.HOLDS_HERE,), (Status.NOT_MEASURED, Status.UNDECIDED),
    )  # fmt: skip
    places = {state: n for n, states in enumerate(groups) for state in states}
    last = len(data.FIRST) + 1

    def rank(name: str) -> tuple[int, int]:
        place = data.FIRST.index(name) if name in data.FIRST else len(data.FIRST)
        place = last + data.LAST.index(name) if name in data.LAST else place
        return places[data.judge(CLAIMS[name], setting).status], place

    return sorted(names, key=rank)


def test_page_shows_every_verdict_and_counts_them() -> None:
    """What it says at default settings was reviewed; see test_every_page.py."""
    link = {
        "dim": "64", "heads": "4", "length": "48", "train_length": "32", "base": "1e8",
        "learned_source": "random", "precision": "float16", "sinusoidal.layout": "half",
        "rope.layout": "half",
    }  # fmt: skip
    at = drawn(visit("claims", link, **opened("claims")))
    found = lines(at)
    assert [*found] == by_rank(CLAIMS, setting(at))
    verdicts = {name: claim.test(setting(at).sizes) for name, claim in CLAIMS.items()}
    numbers = {row["id"]: row for row in table(at, "claims").to_dict("records")}
    for name, verdict in verdicts.items():
        word = data.OUTCOMES[verdict.status].word
        assert f" **{word}.** {CLAIMS[name].sentence}" in found[name]
        row = numbers[name]
        assert row["state"] == str(verdict.status)
        if verdict.decides:
            named = f"{verdict.decides.name}: **{verdict.decides.text}**"
            assert found[name].lower().endswith(named.lower())
            number, value = pd.to_numeric([row["number"], verdict.decides.value])
            assert number == pytest.approx(value, rel=1e-12, abs=1e-13, nan_ok=True)
    words = [data.OUTCOMES[verdict.status].word for verdict in verdicts.values()]
    said = headline(at)
    assert said.startswith(f"{len(CLAIMS)} common claims at these settings: ")
    for heading, own in {
        "false": ("False",), "false in small models": ("False in small models",),
        "partly true": ("Partly true",), "true": ("True", "Proven"),
        "true in small models": ("True in small models",),
        "undecided": ("Not measured", "Undecided"),
    }.items():  # fmt: skip
        count = sum(word in own for word in words)
        assert re.findall(rf"(\d+) {heading}(?=[,.])", said) == [str(count)] * (count > 0)


def test_filters_by_verdict_and_theme_leave_what_they_name() -> None:
    left: dict[str, set[Status]] = {
        "all": {*Status}, "holds": {Status.HOLDS, Status.THEOREM, Status.HOLDS_HERE},
        "partly": {Status.PARTLY},
        "false": {Status.FALSE},
        "small": {Status.NOT_HERE},
        "undecided": {Status.NOT_MEASURED, Status.UNDECIDED},
    }  # fmt: skip
    for verdict, theme in [*product(left, ("all", THEMES[0])), *product(["all"], THEMES)]:
        read = data.read(Setting(base=500.0), ClaimsChoice(verdict=verdict, theme=theme))
        names = [
            claim.id
            for claim in CLAIMS.values()
            if read.verdicts[claim.id].status in left[verdict] and theme in ("all", claim.theme)
        ]
        assert [*read.shown] == by_rank(names, Setting(base=500.0))
    assert lines(drawn(visit("claims", {"theme": "models", "verdict": "partly"}))) == {}
    at = drawn(visit("claims", {"theme": THEMES[0]}))
    assert {*lines(at)} == {claim.id for claim in CLAIMS.values() if claim.theme == THEMES[0]}


def test_opened_claim_shows_its_evidence_its_numbers_and_its_code() -> None:
    at = drawn(visit("claims", claim_code_slowest=True))
    assert any(code.value.startswith("def slowest") for code in at.main.code)
    verdict = CLAIMS["slowest"].test(Sizes())
    assert verdict.sentence in [as_read(text.value) for text in at.main.markdown]
    assert any(f"]({CLAIMS['slowest'].link})" in text.value for text in at.main.markdown)
    (numbers,) = [frame.value for frame in at.main.table]
    # 2 pi 10,000^(510/512), and the 2 pi 10,000 that is often quoted
    assert [as_read(text) for text in numbers["found"]] == ["60,611 positions", "62,832 positions"]


def test_opened_two_right_draws_its_attention_weights() -> None:
    _, found = matrices(drawn(visit("claims", claim_code_two_right=True)))
    for title, weights in (
        ("Sinusoidal rows", two_ahead_weights(Sizes())),
        ("Random rows", two_ahead_control(Sizes())),
    ):
        assert np.allclose(found[title], weights[:16, :16].numpy(), atol=1e-7)
    assert (found["Sinusoidal rows"].argmax(1)[:14] == np.arange(14) + 2).all()


def test_claim_on_a_missing_table_is_undecided_with_the_reason() -> None:
    found = data.read(Setting(learned_source="table-0123456789ab"), ClaimsChoice())
    assert found.verdicts["ends"].status is Status.UNDECIDED
    assert "is not on this server" in found.verdicts["ends"].sentence
    assert found.verdicts["slowest"].status is Status.FALSE
