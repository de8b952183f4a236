"""The Claims page: verdicts of the library, filtered, counted, drawn, and as a script."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.controls.page_options import ClaimsChoice
from dashboard.pages.claims import data
from posenc.claims import CLAIMS, THEMES, Status
from posenc.claims.distances import two_ahead_control, two_ahead_weights
from posenc.settings import Setting
from tests.dashboard.pages import as_read, drawn, headline, matrices, opened, setting, table, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def shown(at: AppTest) -> list[str]:
    """The ids of the claims whose sentences stand on the page, in order."""
    ids = {claim.sentence: claim.id for claim in CLAIMS.values()}
    texts = [as_read(text.value).strip("*") for text in at.main.markdown]
    return [ids[text] for text in texts if text in ids]


def test_page_shows_every_verdict_and_counts_them() -> None:
    """What it says at default settings was reviewed; see test_every_page.py."""
    link = {
        "dim": "64", "heads": "4", "length": "48", "train_length": "32", "base": "1e8",
        "learned_source": "random", "precision": "float16", "sinusoidal.layout": "half",
        "rope.layout": "half",
    }  # fmt: skip
    at = drawn(visit("claims", link, **opened("claims")))
    assert shown(at) == [*CLAIMS]
    verdicts = [claim.test(setting(at)) for claim in CLAIMS.values()]
    read = [as_read(text.value) for text in at.main.markdown]
    badges = [text for text in read if "-badge[" in text]
    sources = [text for text in read if text.startswith(":small[")]
    numbers = table(at, "claims").to_dict("records")
    for claim, verdict, badge, source, row in zip(
        CLAIMS.values(), verdicts, badges, sources, numbers, strict=True
    ):
        assert verdict.sentence in read, claim.id
        assert badge.endswith(f" {verdict.status.capitalize()}]")
        assert f"]({claim.link})" in source
        assert ("Control: " in source) == (verdict.control is not None)
        if verdict.control:
            assert verdict.control.text in source
        assert (row["id"], row["state"]) == (claim.id, str(verdict.status))
        if verdict.decides:
            assert f"### {verdict.decides.text}" in read
            number, value = pd.to_numeric([row["number"], verdict.decides.value])
            assert number == pytest.approx(value, rel=1e-12, abs=1e-13, nan_ok=True)
    states = [verdict.status for verdict in verdicts]
    said = headline(at)
    assert f"Of {len(CLAIMS)} sentences" in said
    proofs = states.count(Status.THEOREM)
    assert f"{states.count(Status.HOLDS) + proofs} hold" in said
    assert f"({proofs} of them by proof)" in said
    for state, words in (
        (Status.PARTLY, "in part"),
        (Status.FALSE, "false"),
        (Status.NOT_HERE, "not so in the small models"),
        (Status.NOT_MEASURED, "not measured"),
        (Status.UNDECIDED, "nothing to decide"),
    ):
        counted = re.findall(rf"(\d+) \w+ {words}", said)
        assert [int(text) for text in counted] == [states.count(state)] * (state in states)


def test_filters_by_verdict_and_theme_leave_what_they_name() -> None:
    for verdict, theme in [*product(data.FILTERS, ("all", THEMES[0])), *product(["all"], THEMES)]:
        read = data.read(Setting(base=500.0), ClaimsChoice(verdict=verdict, theme=theme))
        assert [*read.shown] == [
            claim.id
            for claim in CLAIMS.values()
            if read.verdicts[claim.id].status in data.FILTERS[verdict]
            and theme in ("all", claim.theme)
        ]
    assert {state for states in data.FILTERS.values() for state in states} == {*Status}
    assert shown(drawn(visit("claims", {"theme": "models", "verdict": "partly"}))) == []
    at = drawn(visit("claims", {"theme": THEMES[0]}))
    assert shown(at) == [claim.id for claim in CLAIMS.values() if claim.theme == THEMES[0]]


def test_opened_claim_shows_its_code_its_numbers_and_its_attention_weights() -> None:
    at = drawn(visit("claims", claim_code_slowest=True))
    assert any(code.value.startswith("def slowest") for code in at.main.code)
    (numbers,) = [frame.value for frame in at.main.table]
    # 2 pi 10,000^(510/512), and the 2 pi 10,000 that is often quoted
    assert [as_read(text) for text in numbers["found"]] == ["60,611 positions", "62,832 positions"]
    _, found = matrices(at)
    for title, weights in (
        ("Sinusoidal rows", two_ahead_weights(Setting())),
        ("Random rows", two_ahead_control(Setting())),
    ):
        assert np.allclose(found[title], weights[:16, :16].numpy(), atol=1e-7)
    assert (found["Sinusoidal rows"].argmax(1)[:14] == np.arange(14) + 2).all()


def test_claim_on_a_missing_table_is_undecided_with_the_reason() -> None:
    found = data.read(Setting(learned_source="table-0123456789ab"), ClaimsChoice())
    assert found.verdicts["ends"].status is Status.UNDECIDED
    assert "is not held by this server" in found.verdicts["ends"].sentence
    assert found.verdicts["slowest"].status is Status.FALSE
