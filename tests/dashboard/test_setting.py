"""Settings: hostile text becomes a legal setting with a notice; bad values in code are refused."""

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard.settings import PRESETS, Setting, chosen_model, from_text, to_text
from dashboard.settings.field_text import nearest
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from dashboard.settings.stops import STOPS
from posenc import SCHEMES, ConfigError, PosencError, fields, limits
from posenc.models.presets import MODELS
from posenc.schemes.sizes import own_defaults, own_rules
from tests.library.configs import config_of

# Fields are checked by their own rules; checking types at every call as well doubles the time.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

RULES = fields.rules(Setting) | own_rules()
SMALL_SETTING = Setting(dim=80, heads=10, length=16, train_length=300, learned_source="random")
# Every field of a setting, and an own field of every kind of rule.
VARIED_RULES = [
    *fields.rules(Setting), "rope.layout", "rope.partial_rotary_factor", "rope_yarn.attention_factor",
    "rope_longrope.short_factor", "rope_sections.sections", "rope_sections.interleaved", "shaw.source",
    "t5.max_distance",
]  # fmt: skip

# What people, programs and attackers put into an address.
HOSTILE = [
    "", " ", "0", "-0", "-5", "1", "2", "7", "1.5", "255", "256", "1000000000000", "nan", "inf",
    "-inf", "1e9", "1e308", "1e-308", "1e999", "1e", "0x10", "1_000", "1,000", "١٢٣", "１２８", "²",
    "+8", "--8", " 8", "8\n", "9" * 41, "9" * 5_000, "0" * 5_000, "." * 100, "1." + "0" * 50, ".5",
    "true", "True", "None", "[]", "{}", "rope", "ROPE", "rope,", "rope,rope", "alibi,rope",
    "rope;alibi", "half", "Half", "float32", "float64", "cpu", "cuda:1", "minilm",
    "table-0123456789ab", "table-0123456789AB", "../../etc/passwd", "C:\\x", "x.safetensors",
    "\x00", "\ud800", "\ufffd", "<script>alert(1)</script>", "'; DROP TABLE runs; --", "{{7*7}}",
    "%00", "🙂", "a" * 100_000, "\u202e8", "𝟖", "1E4", "10000.0", "1e-5",
]  # fmt: skip

LEGAL: set[str] = set()  # settings that were checked before: most texts give the same few


def within(setting: Setting) -> None:
    """Assert what every setting promises, rules between fields included."""
    if repr(setting) in LEGAL:
        return
    for name, rule in fields.rules(Setting).items():
        assert rule.accepts(getattr(setting, name)), name
    assert setting.dim % (2 * setting.heads) == 0
    assert setting.alibi_head <= setting.heads
    assert setting.length * setting.dim <= MAX_SHOWN_ELEMENTS
    for kind in SCHEMES:
        assert setting.config(kind).kind == kind
    for key, value in setting.own:
        assert own_rules()[key].accepts(value)
        assert value != own_defaults()[key]
    again, notices = from_text(to_text(setting))
    assert (again, notices) == (setting, [])
    assert hash(again) == hash(setting)
    LEGAL.add(repr(setting))


def snap(raw: dict[str, str]) -> tuple[Setting, list[str]]:
    """Snap `raw`, assert that the setting is legal and the notices are short sentences."""
    setting, notices = from_text(raw)
    within(setting)
    assert all(notice.endswith(".") and len(notice) < 400 for notice in notices)
    return setting, notices


@pytest.mark.parametrize("name", VARIED_RULES)
def test_hostile_text_gives_a_legal_setting_and_a_notice(name: str) -> None:
    default = own_defaults().get(name)
    for text in HOSTILE:
        setting, notices = snap({name: text})
        value = getattr(setting, name, dict(setting.own).get(name, default))
        if not notices:  # it reads as exactly this value
            written, numbers = fields.written(value), value if type(value) is tuple else (value,)
            words = {*text.split(",")} == {*written.split(",")}
            digits = text.isascii() and "_" not in text
            assert words or (digits and numbers == (float(text),)), (text[:40], value)
    marker = "<img src=x onerror=alert(1)>"
    _, notices = snap({name: marker})
    assert notices
    assert marker not in " ".join(notices)  # text of visitors is never echoed into a page


values = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=40),
    st.integers().map(str),
    st.integers(0, 10_000).map(str),
    st.floats().map(repr),
    st.floats(0, 1e13).map(str),
    st.lists(st.sampled_from([*SCHEMES, "t6", ""]), max_size=9).map(",".join),
    st.sampled_from([option for rule in RULES.values() for option in getattr(rule, "options", ())]),
)
keys = st.one_of(
    st.sampled_from([*RULES]),
    st.sampled_from(["rope.", ".layout", "rope.dim", "rope.kind", "learned.source", "own", "x.y"]),
)


@settings(max_examples=30)
@given(st.dictionaries(keys, values, max_size=16))
@example({"dim": "2", "heads": "64", "alibi_head": "64"})
@example({"dim": "4096", "heads": "63", "length": "2048"})
@example({"rope.partial_rotary_factor": "0.3", "rope.layout": "half"})
@example({"dim": "16", "heads": "8", "rope.partial_rotary_factor": "0.5"})
def test_any_mapping_of_text_gives_a_legal_setting(raw: dict[str, str]) -> None:
    snap(raw)


@settings(max_examples=30)
@given(st.fixed_dictionaries({}, optional={
    "dim": st.integers(1, 2_048).map(lambda half: 2 * half), "heads": st.integers(1, 64),
    "length": st.integers(2, 2_048), "train_length": st.integers(1, limits.MAX_TRAIN_LENGTH),
    "base": st.floats(2, 1e12), "alibi_head": st.integers(0, 64), "seed": st.integers(0, 2**31 - 1),
}))  # fmt: skip
def test_legal_numbers_move_only_to_fit_together(raw: dict[str, object]) -> None:
    setting, notices = snap({name: repr(value) for name, value in raw.items()})
    moved = {name for name in fields.rules(Setting)
             if getattr(setting, name) != raw.get(name, getattr(Setting(), name))}  # fmt: skip
    assert moved <= {"dim", "heads", "length", "alibi_head"}
    assert bool(moved) == bool(notices)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"dim": "130", "heads": "8"}, {"dim": 128, "heads": 8}),
        ({"dim": "6", "heads": "8"}, {"heads": 3}),
        ({"dim": "4096", "heads": "50"}, {"dim": 4_000}),
        ({"length": "1000000000000"}, {"length": MAX_SHOWN_LENGTH}),
        ({"length": "-5"}, {"length": 2}),
        ({"base": "1e308"}, {"base": limits.MAX_BASE}),
        ({"base": "nan"}, {"base": 10000.0}),
        ({"alibi_head": "9"}, {"alibi_head": 0}),
        ({"schemes": "alibi,bogus,rope"}, {"schemes": ("rope", "alibi")}),
        ({"schemes": ",".join([*SCHEMES][6::-1])}, {"schemes": tuple(SCHEMES)[:6]}),
        ({"precision": "float8"}, {"precision": "float32"}),
        ({"learned_source": "../x.safetensors"}, {"learned_source": "trained"}),
        ({"base": "1e4", "dim": "+256", "length": "64.0", "equal_width": "true"}, None),
    ],
)
def test_impossible_text_becomes_the_nearest_legal_value_with_a_notice(
    raw: dict[str, str], expected: dict[str, object] | None
) -> None:
    setting, notices = snap(raw)
    if expected is None:  # other notation of legal values
        assert (setting.dim, setting.length, setting.equal_width, notices) == (256, 64, True, [])
        return
    assert {name: getattr(setting, name) for name in expected} == expected
    labels = [fields.rules(Setting)[name].label for name in raw]
    assert any(label in notice for label in labels for notice in notices)


def test_many_unknown_keys_and_a_megabyte_of_digits_give_the_default() -> None:
    raw = {f"key{i}": "x" * 800 for i in range(1_200)} | {"dim": "9" * 1_000_000}
    setting, notices = snap(raw)
    assert setting == Setting()
    assert len(notices) == 1


BAD_VALUES: dict[str, list[object]] = {
    "schemes": [(), ("bogus",), ["rope"], ("alibi", "rope"), ("rope", "rope"), None,
                tuple(SCHEMES)[:7]],
    "dim": [0, 3, -2, 4_098, 10**5_000, 64.0, "64", True, None, float("nan")],
    "base": [1, 1.999, 1e13, float("nan"), float("inf"), "1e4", True, 10**5_000],
    "length": [1, 2_049, 1.5],
    "train_length": [0, limits.MAX_TRAIN_LENGTH + 1],
    "heads": [0, 65, 3, 8.0],
    "equal_width": [1, "true"],
    "alibi_head": [-1, 9, 65],
    "seed": [-1, 2**31],
    "learned_source": ["", "x.safetensors", "table-xyz", "minilm\n", "../random", 5],
    "precision": ["float64", "Float32", None, torch.float32],
    "device": ["gpu", "cuda:0"],
    "own": [
        (("rope.bogus", 1),), (("bogus.layout", "half"),), (("rope.layout", "Half"),),
        (("rope.partial_rotary_factor", 0.3),), (("rope.layout", "half"),) * 2,
        [("rope.layout", "half")], ("rope.layout", "half"), None, ((1, 2),),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_value_in_code_is_refused_by_name(name: str) -> None:
    for value in BAD_VALUES[name]:
        with pytest.raises(ConfigError) as refused:
            Setting(**{name: value})  # type: ignore[arg-type]
        message = str(refused.value)
        names = {
            "own": ("own", "RopeConfig"),
            "heads": ("Setting.heads", "Sizes.dim"),
            "dim": ("Setting.dim", "Sizes.dim"),
        }
        assert any(part in message for part in names.get(name, (f"Setting.{name}",))), message
        assert len(message) < 400
        assert isinstance(refused.value, ValueError)
        assert isinstance(refused.value, PosencError)


def test_setting_gives_every_scheme_its_config() -> None:
    setting = Setting(
        dim=96, heads=12, base=500.0, train_length=77, own=(("rope.layout", "half"),),
        learned_source="random",
    )  # fmt: skip
    expected: dict[str, dict[str, object]] = {
        "learned": {"dim": 96, "max_len": 77}, "sinusoidal": {"dim": 96, "base": 500.0},
        "rope": {"dim": 8, "base": 500.0, "layout": "half"}, "alibi": {"heads": 12}, "none": {},
    }  # fmt: skip
    for kind, values in expected.items():
        assert setting.config(kind) == config_of(kind, **values)
    assert getattr(setting.replace(equal_width=True).config("rope"), "dim", None) == 96
    assert [Setting(alibi_head=n).head for n in (0, 1, 8)] == ["mean", 0, 7]
    assert Setting(precision="bfloat16").sizes.dtype == torch.bfloat16
    assert Setting().sizes.dtype is None


def test_a_query_builds_its_scheme_on_its_own_device() -> None:
    request = SMALL_SETTING.request("t5", "meta")
    devices = {parameter.device.type for parameter in request.build().parameters()}
    assert devices == {"meta"}
    assert {parameter.device.type for parameter in request.build("cpu").parameters()} == {"cpu"}


def test_only_changes_from_the_default_are_written_and_compared() -> None:
    assert to_text(Setting()) == {}
    assert to_text(Setting(base=500000.0, heads=4)) == {"base": "500000", "heads": "4"}
    assert to_text(Setting(base=2.5)) == {"base": "2.5"}
    assert to_text(Setting(schemes=("rope", "none"))) == {"schemes": "rope,none"}
    assert Setting(own=(("rope.layout", "interleaved"),)) == Setting()
    own = (("rope.layout", "half"), ("sinusoidal.layout", "half"))
    assert Setting(own=own) == Setting(own=own[::-1])
    assert hash(Setting(own=own)) == hash(Setting(own=own[::-1]))
    assert to_text(Setting(own=own)) == {"rope.layout": "half", "sinusoidal.layout": "half"}


def test_numbers_that_a_scheme_ignores_change_no_config() -> None:
    assert {*SMALL_SETTING.ignored_by("learned")} == {"Base", "Heads"}
    assert {*SMALL_SETTING.ignored_by("rope")} == set()
    assert {*SMALL_SETTING.ignored_by("alibi")} == {"Model dimension", "Base"}
    for kind in SCHEMES:
        for name, change in (("dim", 160), ("base", 123.0), ("heads", 5)):
            same = SMALL_SETTING.replace(**{name: change}).config(kind) == SMALL_SETTING.config(
                kind
            )
            assert same == (fields.rules(Setting)[name].label in SMALL_SETTING.ignored_by(kind)), (
                kind
            )


# Dimension, heads, base, training length; None where the paper does not say.
PAPERS: dict[str, tuple[int, int, float | None, int | None]] = {
    "transformer": (512, 8, 10_000.0, None),
    "bert": (768, 12, None, 512),
    "llama-2": (4_096, 32, 10_000.0, 4_096),
    "alibi": (1_024, 8, None, 512),
}


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_the_numbers_of_its_paper_and_changes_no_others(name: str) -> None:
    before = Setting(seed=9, length=64, base=500.0, train_length=99, schemes=("rope",))
    dim, heads, base, train_length = PAPERS[name]
    assert before.replace(**PRESETS[name].changes) == before.replace(
        dim=dim, heads=heads, base=base or 500.0, train_length=train_length or 99
    )


FACTORS = fields.Numbers(low=0.5, high=100.0, least=0, most=6, label="Factors")
SIZES = fields.Numbers(low=0, high=64, least=2, most=4, whole=True, label="Sizes")
NEAREST: dict[str, tuple[float, ...] | None] = {
    "1, 2.5": (1.0, 2.5), "0.1,1e9": (0.5, 100.0), "1,1,1,1,1,1,1,1": (1.0,) * 6, "none": (),
    "": None, "1,,2": None, "1,nan": None, "1;2": None,
}  # fmt: skip
WHOLE = {"16,24,24": (16, 24, 24), "2.4,70": (2, 64), "16": None, "none": None}


@pytest.mark.parametrize(("rule", "expected"), [(FACTORS, NEAREST), (SIZES, WHOLE)])
def test_text_of_numbers_becomes_the_nearest_numbers_or_nothing(
    rule: fields.Numbers, expected: dict[str, tuple[float, ...] | None]
) -> None:
    for text, value in expected.items():
        assert nearest(rule, text) == value
        if value is not None:
            assert rule.accepts(value)
            assert nearest(rule, fields.written(value)) == value


def test_text_of_a_factor_that_may_be_zero_becomes_zero_below_half_its_range() -> None:
    rule = own_rules()["rope_yarn.attention_factor"]
    expected = {"-1": 0.0, "0": 0.0, "1e-200": 0.0, "0.004": 0.0, "0.006": 0.01, "1e9": 100.0}
    assert {text: nearest(rule, text) for text in expected} == expected


def test_numbers_rule_refuses_other_values_and_states_its_range() -> None:
    for value in (None, 1.0, [1.0], (0.4,), (101.0,), (True,), ("1",), (float("nan"),), (1.0,) * 7):
        assert not FACTORS.accepts(value), value
    assert SIZES.accepts((16, 24))
    assert not SIZES.accepts((16.0, 24))
    assert "1 to 6 numbers from 0.5 to 100" in FACTORS.allowed()
    assert "2 to 4 whole numbers from 0 to 64" in SIZES.allowed()
    assert fields.described((1.0, 2.0, 3.0, 4.0, 5.0)) == "1, 2, ... (5 numbers)"


def test_from_text_refuses_what_is_no_text() -> None:
    numbers: Any = {"dim": 5}
    with pytest.raises(ConfigError, match="got 5 for dim"):
        from_text(numbers)


def test_every_preset_of_a_model_is_chosen_by_its_name() -> None:
    assert set(PRESETS) == {"transformer", "bert", "llama-2", "alibi"}  # of sizes alone
    for name, preset in MODELS.items():
        assert chosen_model(name).preset == preset


def test_stops_of_every_dial_are_legal_and_rise() -> None:
    for name, stops in STOPS.items():
        rule = RULES[name]
        assert isinstance(rule, fields.IntRange | fields.FloatRange)
        assert all(rule.accepts(stop) for stop in stops), name
        assert [*stops] == sorted({*stops}), name
