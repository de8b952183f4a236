"""Every claim: a sentence with a source, decided at any legal setting by what it uses."""

import math
import re

import pytest

from posenc import Setting
from posenc.claims import CLAIMS, THEMES, State, figure
from posenc.claims.claim import Claim
from posenc.words import counted
from tests.claim_readings import at, judged

HOSTILE = {
    "defaults": {},
    "least": {"dim": 2, "heads": 1, "length": 2, "train_length": 1, "base": 2.0},
    "least, largest base": {"dim": 2, "heads": 1, "length": 2, "base": 1e12},
    "widest": {"dim": 4096, "heads": 64, "length": 256, "base": 1e8},
    "longest": {"dim": 512, "length": 2048, "train_length": 1_048_576, "base": 1e12},
    "random, bfloat16": {"learned_source": "random", "precision": "bfloat16", "train_length": 1},
    "random, float16": {"learned_source": "random", "precision": "float16", "base": 1e8},
    "odd": {"dim": 72, "heads": 12, "length": 3, "train_length": 5, "base": 3.7, "seed": 2**31 - 1},
    "equal width": {"equal_width": True, "length": 5},
    "halves": {"own": (("rope.layout", "half"), ("sinusoidal.layout", "half"))},
    "partial": {"own": (("rope.partial_rotary_factor", 0.25),)},
}


def test_the_registry_names_every_claim_once_and_the_issue_s_list_is_whole() -> None:
    listed = {
        "unique", "bounded", "near", "falls", "linear_map", "fast_to_slow", "slowest",
        "nearly_linear", "exp_of_log", "sqrt_scale", "dominating", "overwritten", "own_frequency",
        "hour_hand", "one_hot", "overflow", "two_right", "alike", "permutation", "t5_shaw", "ends",
        "sinusoids_extrapolate", "rope_extrapolates", "geometric", "offset_only", "blind",
    }  # fmt: skip
    assert listed <= set(CLAIMS)
    assert all(name == claim.id for name, claim in CLAIMS.items())
    assert len({claim.sentence for claim in CLAIMS.values()}) == len(CLAIMS)
    assert len({claim.test for claim in CLAIMS.values()}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_is_a_sentence_with_a_source_a_link_and_a_documented_test(claim: Claim) -> None:
    assert re.fullmatch(r"[A-Zn].*\.", claim.sentence)
    assert claim.source
    assert claim.link.startswith("https://")
    assert claim.theme in THEMES
    assert claim.test.__doc__
    rules = {*Setting.__dataclass_fields__, "sinusoidal.layout", "rope.layout"}
    assert set(claim.uses) <= rules | {"rope.partial_rotary_factor"}


def test_su_et_al_are_quoted_where_they_speak_of_length() -> None:
    """Their abstract and section 1 name "flexibility"; section 4.5 trains at 1,536, then tests 1,024."""
    source = CLAIMS["rope_extrapolates"].source
    assert source.startswith("Posts; Su et al. 2021, arXiv 2104.09864, sections 1 and 4.5, ")
    assert "test no length past training" in source


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_is_decided_at_any_legal_setting(claim: Claim, name: str) -> None:
    found = judged(claim.id, Setting(**HOSTILE[name]))
    assert isinstance(found.state, State)
    assert found.sentence.endswith(".")
    assert "nan" not in found.sentence
    assert "inf" not in re.findall(r"\w+", found.sentence)
    for one in (*found.numbers, *([found.control] if found.control else [])):
        assert one.name
        assert one.value is None or math.isfinite(one.value), one
    undecided = found.state in (State.NOT_MEASURED, State.UNDECIDED)
    assert bool(found.numbers) != undecided
    if found.state is State.THEOREM:
        assert found.control is not None, "a theorem without a control"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_verdict_depends_on_what_the_claim_says_it_uses_and_on_nothing_else(
    claim: Claim, name: str
) -> None:
    setting = Setting(**HOSTILE[name])
    assert judged(claim.id, claim.relevant(setting)) == judged(claim.id, setting)


def test_equal_relevant_settings_are_equal_keys() -> None:
    one, two = (CLAIMS["slowest"].relevant(Setting(length=n, seed=n)) for n in (8, 16))
    assert one == two
    assert hash(one) == hash(two)
    assert CLAIMS["falls"].relevant(Setting(length=8)) != CLAIMS["falls"].relevant(Setting())


def test_what_refuses_a_setting_is_a_named_error() -> None:
    with pytest.raises(ValueError, match="not held by this server"):
        at("one_hot", learned_source="table-0123456789ab")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (60611.4, "60,611"), (62800.0, "62,800"), (0.97312, "0.973"), (-3.0, "-3"),
     (4.6e-5, "4.6\u00a0×\u00a010⁻⁵"), (3.4028e38, "3.4\u00a0×\u00a010³⁸"), (math.inf, "inf"),
     (0.001, "0.001")],
)  # fmt: skip
def test_figures_are_written_for_people(value: float, text: str) -> None:
    assert figure(value) == text


def test_one_of_a_kind_has_no_plural() -> None:
    assert (counted(1, "row"), counted(0, "row"), counted(1_000, "row")) == (
        "1 row", "0 rows", "1,000 rows"
    )  # fmt: skip
