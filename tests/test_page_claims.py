"""The Claims page: what it says is what the library finds, filtered, drawn, and as a script."""

import ast
import csv
import io
import re
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import claim_cards, claims
from dashboard.choices import ClaimsChoice
from dashboard.scripts.claims import script
from posenc import Setting, limits
from posenc.claims import CLAIMS, THEMES, State
from posenc.claims.offsets import two_ahead_control, two_ahead_weights
from tests.pages import (
    as_read,
    captions,
    drawn,
    headline,
    matrices,
    notices,
    opened,
    setting,
    table,
    visit,
)
from tests.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

LINKS: dict[str, dict[str, str]] = {
    "defaults": {},
    "least": {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "base": "2"},
    "random, float16": {"learned_source": "random", "precision": "float16", "base": "1e8"},
    "widest": {"dim": str(limits.MAX_SHOWN_DIM), "heads": "64", "precision": "bfloat16"},
    "longest": {"length": "2048", "train_length": "1048576", "base": "1e12"},
    "halves": {"sinusoidal.layout": "half", "rope.layout": "half"},
    "one scheme": {"schemes": "none"},
}


def shown(at: AppTest) -> list[str]:
    """The ids of the claims whose sentences stand on the page, in order."""
    ids = {claim.sentence: claim.id for claim in CLAIMS.values()}
    texts = [as_read(one.value).strip("*") for one in at.main.markdown]
    return [ids[text] for text in texts if text in ids]


def texts(at: AppTest) -> list[str]:
    return [as_read(one.value) for one in at.main.markdown]


@pytest.mark.parametrize("name", LINKS)
def test_every_legal_link_shows_every_verdict(name: str) -> None:
    at = drawn(visit("claims", LINKS[name]))
    assert notices(at) == []
    assert shown(at) == [*CLAIMS]
    here = setting(at)
    for claim in CLAIMS.values():
        found = claim.test(here)
        assert found.sentence in texts(at), claim.id
        if found.decides:
            assert f"### {found.decides.written}" in texts(at)
            assert found.decides.name in captions(at)
    badges = [text for text in texts(at) if "-badge[" in text]
    assert len(badges) == len(CLAIMS)


def test_every_badge_is_a_word_with_an_icon() -> None:
    at = drawn(visit("claims"))
    badges = [text for text in texts(at) if "-badge[" in text]
    states = [claim.test(Setting()).state for claim in CLAIMS.values()]
    for badge, state in zip(badges, states, strict=True):
        assert badge.endswith(f" {state.capitalize()}]")
        assert ":material/" in badge
    assert set(claim_cards.BADGES) == set(State)
    icons = [icon for icon, _ in claim_cards.BADGES.values()]
    assert len(set(icons)) == len(icons)


@pytest.mark.parametrize("link", [{}, {"base": "500"}, {"dim": "4096"}, LINKS["least"]])
def test_the_headline_counts_the_verdicts(link: dict[str, str]) -> None:
    at = drawn(visit("claims", link))
    states = [claim.test(setting(at)).state for claim in CLAIMS.values()]
    said = headline(at)
    hold = states.count(State.HOLDS) + states.count(State.THEOREM)
    assert said.startswith(f"Of {len(CLAIMS)} sentences that are often repeated, {hold} hold")
    assert f"({states.count(State.THEOREM)} of them by proof)" in said
    for state, words in (
        (State.PARTLY, "in part"),
        (State.FALSE, "false"),
        (State.NOT_HERE, "not so in the small models trained here"),
        (State.NOT_MEASURED, "not measured"),
        (State.UNDECIDED, "nothing to decide"),
    ):
        counted = re.findall(rf"(\d+) \w+ {words}", said)
        assert [int(text) for text in counted] == [states.count(state)] * (state in states)


@pytest.mark.parametrize("verdict", [*claims.FILTERS])
def test_filters_leave_what_they_name(verdict: str) -> None:
    at = drawn(visit("claims", {"verdict": verdict, "base": "500"}))
    here = setting(at)
    expected = [
        claim.id for claim in CLAIMS.values() if claim.test(here).state in claims.FILTERS[verdict]
    ]
    assert shown(at) == expected


def test_themes_leave_their_own_and_both_filters_meet() -> None:
    for theme in THEMES:
        at = drawn(visit("claims", {"theme": theme}))
        assert shown(at) == [claim.id for claim in CLAIMS.values() if claim.theme == theme]
        assert [one.value for one in at.main.subheader] == [claim_cards.HEADINGS[theme]]
    at = drawn(visit("claims", {"theme": "models", "verdict": "partly"}))
    assert shown(at) == []
    assert at.info[0].value == "No sentence has this verdict and this theme here."


def test_the_filters_of_the_page_cover_every_state_and_theme() -> None:
    assert {state for states in claims.FILTERS.values() for state in states} == set(State)
    rules = ClaimsChoice.__dataclass_fields__
    assert rules["verdict"].metadata["rule"].options == tuple(claims.FILTERS)
    assert set(claim_cards.HEADINGS) == set(THEMES)


def test_code_and_numbers_come_when_they_are_opened() -> None:
    closed = drawn(visit("claims"))
    assert not [one for one in closed.main.code if "def slowest" in one.value]
    at = drawn(visit("claims", claim_code_slowest=True))
    (code,) = [one for one in at.main.code if one.value.startswith("def slowest")]
    assert "2 pi times the base" in code.value
    (found,) = [one.value for one in at.main.table]
    assert [as_read(text) for text in found["found"]] == ["60,611 positions", "62,832 positions"]
    assert "The verdict depends on model dimension and base." in captions(at)


def test_the_source_is_a_link_and_the_control_is_said() -> None:
    at = drawn(visit("claims"))
    lines = [text for text in texts(at) if text.startswith(":small[")]
    assert len(lines) == len(CLAIMS)
    for line, claim in zip(lines, CLAIMS.values(), strict=True):
        assert f"]({claim.link})" in line
        found = claim.test(Setting()).control
        assert ("Control: " in line) == (found is not None)
        if found:
            assert found.written in line


def test_the_drawn_claim_shows_its_attention_weights() -> None:
    at = drawn(visit("claims"))
    header, found = matrices(at)
    assert header["scale"]["unit"] == "attention weight"
    for title, weights in (
        ("Sinusoidal rows", two_ahead_weights(Setting())),
        ("Random rows", two_ahead_control(Setting())),
    ):
        assert np.array_equal(found[title], weights[:16, :16].float().numpy())
    assert (found["Sinusoidal rows"].argmax(1)[:14] == np.arange(14) + 2).all()


def test_too_few_positions_draw_nothing() -> None:
    at = drawn(visit("claims", {"length": "2"}))
    assert not [one for one in at.get("bidi_component") if one.proto.bytes]


def test_the_table_holds_every_number_in_full() -> None:
    found = table(drawn(visit("claims", {"verdict": "false"}, **opened("claims"))), "claims")
    for row, claim in zip(found.to_dict("records"), CLAIMS.values(), strict=True):
        verdict = claim.test(Setting())
        assert (row["id"], row["state"]) == (claim.id, str(verdict.state))
        assert row["number"] == pytest.approx(verdict.decides.value, rel=0, nan_ok=True)


def test_a_lost_table_is_said_in_its_own_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = claims.read(Setting(learned_source="table-0123456789ab"), ClaimsChoice())
    assert found.verdicts["ends"].state is State.UNDECIDED
    assert "is not held by this server" in found.verdicts["ends"].sentence
    assert found.verdicts["slowest"].state is State.FALSE


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dim": 2, "heads": 1, "length": 2, "train_length": 1, "base": 2.0},
        {"base": 12345.678901, "precision": "bfloat16", "own": (("sinusoidal.layout", "half"),)},
    ],
)
def test_the_script_prints_the_numbers_of_the_table(changes: dict[str, Any]) -> None:
    here = Setting(**changes)
    code = script(here, ClaimsChoice())
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(code))
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert imported == {"csv", "sys", "posenc"}
    ran = run(code)
    assert ran.returncode == 0, ran.stderr
    printed = list(csv.DictReader(io.StringIO(ran.stdout)))
    frame = claims.read(here, ClaimsChoice()).numbers
    assert [row["id"] for row in printed] == frame["id"].tolist() == [*CLAIMS]
    assert [row["state"] for row in printed] == frame["state"].tolist()
    for column in ("number", "control"):
        said = [float(row[column]) if row[column] else np.nan for row in printed]
        # Another process may add up in another order: rounding errors themselves differ.
        assert said == pytest.approx(frame[column].tolist(), rel=1e-12, abs=1e-13, nan_ok=True)
