"""The Claims page: verdicts of the library, filtered, counted, drawn, and as a script."""

import re
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd
import pytest

from dashboard import blocks, compare
from dashboard.blocks import Block, Code, Drawer, Formula, Matrices, Page, Table, Text
from dashboard.pages.claims import data
from dashboard.pages.claims.page import Options, page
from dashboard.pages.relative_offsets import page as relative_offsets
from dashboard.settings import Setting
from posenc import fields
from posenc.claims import CLAIMS, THEMES, Status
from posenc.claims.distances import two_ahead_control, two_ahead_weights
from posenc.schemes.sizes import Sizes
from tests.dashboard.called_pages import data as data_of
from tests.dashboard.called_pages import texts
from tests.dashboard.pages import as_read, drawn, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def lines(shown: Page) -> dict[str, Drawer]:
    """Return the lines that the page shows by the ids of their claims, in order."""
    drawers = [block for block in shown.all_blocks if isinstance(block, Drawer) and block.shown]
    return {drawer.key.removeprefix("claim_code_"): drawer for drawer in drawers}


def opened(name: str, setting: Setting | None = None) -> Sequence[Block]:
    """Return what the line of a claim opens to."""
    return lines(page(setting or Setting(), Options()))[name].make()


def by_rank(names: Iterable[str], setting: Setting) -> list[str]:
    """Claims in the order of the page: false, false in small models, partly true, true, proven, true in
    small models, not measured, undecided."""
    groups = (
        Status.FALSE, Status.NOT_HERE, Status.PARTLY, Status.HOLDS, Status.THEOREM, Status.HOLDS_HERE,
        Status.NOT_MEASURED, Status.UNDECIDED,
    )  # fmt: skip
    places = {state: n for n, state in enumerate(groups)}
    last = len(data.FIRST) + 1

    def rank(name: str) -> tuple[int, int]:
        place = data.FIRST.index(name) if name in data.FIRST else len(data.FIRST)
        place = last + data.LAST.index(name) if name in data.LAST else place
        return places[data.judge(CLAIMS[name], setting).status], place

    return sorted(names, key=rank)


def test_page_shows_every_verdict_and_counts_them() -> None:
    """What it says at default settings was reviewed; see test_every_page.py."""
    setting = Setting(
        dim=64, heads=4, length=48, train_length=32, base=1e8, learned_source="random",
        precision="float16", own=(("rope.layout", "half"), ("sinusoidal.layout", "half")),
    )  # fmt: skip
    shown = page(setting, Options())
    titles = {name: as_read(drawer.title) for name, drawer in lines(shown).items()}
    found = {name: title.replace("\u00a0", " ") for name, title in titles.items()}
    assert [*found] == by_rank(CLAIMS, setting)
    verdicts = {name: claim.test(setting.sizes) for name, claim in CLAIMS.items()}
    numbers = {row["id"]: row for row in data_of(shown, "Claims").to_dict("records")}
    for name, verdict in verdicts.items():
        word = data.OUTCOMES[verdict.status].word
        assert f" **{word}:** \u201c{CLAIMS[name].sentence}\u201d" in found[name]
        row = numbers[name]
        assert row["state"] == str(verdict.status)
        if verdict.decides:
            named = f"{verdict.decides.name}: **{verdict.decides.text}**"
            assert found[name].lower().endswith(named.lower())
            number, value = pd.to_numeric([row["number"], verdict.decides.value])
            assert number == pytest.approx(value, rel=1e-12, abs=1e-13, nan_ok=True)
    words = [data.OUTCOMES[verdict.status].word for verdict in verdicts.values()]
    said = shown.headline
    assert said.startswith(f"{len(CLAIMS)} common claims at these settings: ")
    for word in (
        "False", "False in small models", "Partly true", "True", "Proven", "True in small models",
        "Not measured", "Undecided",
    ):  # fmt: skip
        count = words.count(word)
        assert re.findall(rf"(\d+) {word.lower()}(?=[,.])", said) == [str(count)] * (count > 0)
    headings = [text for text in texts(shown) if text[-1] == ")"]
    assert headings == [
        f"{word} ({words.count(word)})"
        for word in dict.fromkeys(drawer.mark for drawer in lines(shown).values())
    ]


def test_filters_by_verdict_and_theme_leave_what_they_name() -> None:
    left: dict[str, set[Status]] = {
        "all": {*Status}, "holds": {Status.HOLDS}, "proven": {Status.THEOREM},
        "partly": {Status.PARTLY}, "false": {Status.FALSE}, "small": {Status.NOT_HERE},
        "true_small": {Status.HOLDS_HERE}, "not_measured": {Status.NOT_MEASURED},
        "undecided": {Status.UNDECIDED},
    }  # fmt: skip
    rule = fields.rules(Options)["verdict"]
    assert isinstance(rule, fields.Choice)
    assert {*left} == {*rule.options}
    setting = Setting(base=500.0)
    states = {name: data.judge(claim, setting).status for name, claim in CLAIMS.items()}
    for verdict, theme in [*product(left, ("all", THEMES[0])), *product(["all"], THEMES)]:
        shown = page(setting, Options(verdict=verdict, theme=theme))
        names = [
            claim.id
            for claim in CLAIMS.values()
            if states[claim.id] in left[verdict] and theme in ("all", claim.theme)
        ]
        assert [*lines(shown)] == by_rank(names, setting)
        assert ("No claim has this verdict and this theme here." in texts(shown)) == (not names)
        counts = [int(text[text.index("(") + 1 : -1]) for text in texts(shown) if text[-1] == ")"]
        assert sum(counts) == len(names)


def test_line_of_b_says_what_a_has_even_where_the_filter_leaves_it_out() -> None:
    gone = Setting(learned_source="table-0123456789ab")
    b, a = (page(setting, Options(verdict="proven")) for setting in (Setting(), gone))
    assert "ends" not in lines(a)
    both = compare.pages(b, a, {"A": "A: no table", "B": "B"}, ["table"])
    assert [*lines(both)] == [*lines(b)]
    assert lines(both)["ends"].title == f"{lines(b)['ends'].title} (A: Undecided)"


def test_opened_claim_shows_its_evidence_its_numbers_and_its_code() -> None:
    evidence, source, table, *_, test = opened("slowest")
    assert isinstance(test, Drawer)
    (code,) = test.make()
    assert isinstance(code, Code)
    assert code.code.startswith("def slowest")
    assert isinstance(evidence, Text)
    assert as_read(evidence.text) == CLAIMS["slowest"].test(Sizes()).sentence
    assert isinstance(source, Text)
    assert f"]({CLAIMS['slowest'].link})" in source.text
    assert isinstance(table, Table)
    # 2 pi 10,000^(510/512), and the 2 pi 10,000 that is often quoted
    _, *numbers = table.frame.iloc[0]
    assert [as_read(text) for text in numbers] == ["60,611 positions", "62,832 positions"]


def test_claim_that_is_proven_shows_its_proof_and_a_rounded_one_does_not() -> None:
    verdicts = {name: claim.test(Sizes()) for name, claim in CLAIMS.items()}
    proven = [name for name, found in verdicts.items() if found.status is Status.THEOREM]
    assert {"linear_map", "offset_only"} <= {*proven}
    for name, claim in CLAIMS.items():
        formulas = [block.latex for block in opened(name) if isinstance(block, Formula)]
        assert formulas == ([claim.proof.latex] if name in proven and claim.proof else [])
    rounded = opened("linear_map", Setting(precision="bfloat16"))
    assert not [block for block in rounded if isinstance(block, Formula)]


def test_claim_that_is_opened_on_the_page_sends_its_evidence_and_no_other() -> None:
    closed = drawn(visit("claims", claim_code_slowest=True))
    assert not closed.main.code
    (table,) = closed.main.table
    assert "2 pi times the base" in table.value.to_string()
    at = drawn(visit("claims", claim_code_slowest=True, claim_test_slowest=True))
    assert [code.value.split("(")[0] for code in at.main.code] == ["def slowest"]


def test_link_to_a_claim_opens_its_line_until_it_is_closed() -> None:
    at = drawn(visit("claims", {"claim": "linear_map"}))
    proof = next(one.value for one in at.markdown if one.value.startswith("For each offset k"))
    assert "\u00a0×\u00a010" in proof  # no line ends inside a number
    assert " ×" not in proof
    closed = lines(page(Setting(), Options()))["linear_map"]
    assert not closed.opened
    linked = lines(page(Setting(), Options(claim="linear_map")))["linear_map"]
    assert linked.changes == ({"claim": "linear_map"}, {"claim": "none"})


def test_opened_two_right_draws_its_attention_weights() -> None:
    (row,) = [block for block in opened("two_right") if isinstance(block, Matrices)]
    found = {panel.title: panel.values.dense() for panel in row.panels}
    for title, weights in (
        ("Sinusoidal rows", two_ahead_weights(Sizes())),
        ("Random rows", two_ahead_control(Sizes())),
    ):
        assert np.allclose(found[title], weights[:16, :16].numpy(), atol=1e-7)
    assert (found["Sinusoidal rows"].argmax(1)[:14] == np.arange(14) + 2).all()


def test_claim_on_a_missing_table_is_undecided_with_the_reason() -> None:
    gone = Setting(learned_source="table-0123456789ab")
    shown = lines(page(gone, Options()))
    assert shown["ends"].mark == "Undecided"
    assert shown["slowest"].mark == "False"
    (evidence, *_) = opened("ends", gone)
    assert isinstance(evidence, Text)
    assert "is not on this server" in as_read(evidence.text)


def test_claim_of_a_linear_map_and_relative_offsets_lead_to_each_other() -> None:
    evidence = blocks.walk(opened("linear_map"))
    assert [one.page for one in evidence if isinstance(one, blocks.Link)] == ["relative_offsets"]
    other = relative_offsets.page(Setting(), relative_offsets.Options())
    (link,) = [one for one in other.all_blocks if isinstance(one, blocks.Link)]
    assert link.page == "claims"
    shown = lines(page(Setting(), Options(**link.changes)))
    assert {"linear_map", "offset_only"} <= {*shown}
    assert [name for name, line in shown.items() if line.opened] == ["linear_map"]  # the proof
