"""Settings as values: strict when made, forgiving when read from a link, the same either way."""

import dataclasses

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posenc import (
    SCHEMES,
    ConfigError,
    PosencError,
    Setting,
    alibi_slopes,
    fields,
    limits,
    own_fields,
    rope_tables,
    sinusoidal_table,
)
from posenc.schemes import ROPE_SCALINGS
from posenc.setting import PRECISIONS
from tests.conftest import SMALL

RULES = fields.rules(Setting) | own_fields.rules()

# robustness.md Q1, Q2: what people, programs and attackers put into an address.
HOSTILE = [
    "", " ", "0", "-0", "-5", "1", "2", "3", "7", "1.5", "2.5", "255", "256", "257", "1000000000000",
    "nan", "NaN", "inf", "-inf", "Infinity", "1e9", "1e308", "1e-308", "1e999", "-1e999", "1e", "e1",
    "0x10", "0b1", "0o7", "1_000", "1,000", "١٢٣", "１２８", "²", "+8", "--8", "8 ", " 8", "8\n", "\t8",
    "9" * 40, "9" * 41, "9" * 5_000, "0" * 5_000, "." * 100, "1." + "0" * 50, ".5", "5.", "1e1e1",
    "true", "True", "TRUE", "false", "yes", "on", "None", "null", "undefined", "[]", "{}",
    "rope", "ROPE", "rope,", ",rope", "rope,rope", "alibi,rope", "rope;alibi", "all", "learned,none",
    "half", "interleaved", "Half", "float32", "bfloat16", "float64", "cuda", "cpu", "cuda:1", "mps",
    "minilm", "random", "table-0123456789ab", "table-0123456789AB", "table-", "../../etc/passwd",
    "/etc/passwd", "C:\\x", "x.safetensors", "../x.safetensors", "\x00", "\ud800", "\ufffd", "％",
    "<script>alert(1)</script>", "'; DROP TABLE runs; --", "${7*7}", "{{7*7}}", "%00", "%ff%fe", "%",
    "🙂", "a" * 100_000, "‮", "\u202e8", "𝟖", "Ⅷ", "1e+4", "1E4", "10000.0", "1e-5", "0.0001",
]  # fmt: skip


PROVEN: set[str] = (
    set()
)  # settings that kept every promise before: most texts come to the same ones


def within(setting: Setting) -> None:
    """Assert everything a Setting promises, cross-field rules included."""
    if repr(setting) in PROVEN:
        return
    for name, rule in fields.rules(Setting).items():
        assert rule.accepts(getattr(setting, name)), name
    assert setting.dim % (2 * setting.heads) == 0
    assert setting.alibi_head <= setting.heads
    assert setting.length * setting.dim <= limits.MAX_SHOWN_ELEMENTS
    for kind in SCHEMES:
        config = setting.config(kind)
        assert config.kind == kind
    for key, value in setting.own:
        assert own_fields.rules()[key].accepts(value)
        assert value != own_fields.defaults()[key]
    again, nothing = Setting.snap(setting.write())
    assert again == setting
    assert nothing == []
    assert hash(again) == hash(setting)
    assert (
        Setting(**{f.name: getattr(setting, f.name) for f in dataclasses.fields(Setting)})
        == setting
    )
    PROVEN.add(repr(setting))


def survives(raw: dict[str, str]) -> tuple[Setting, list[str]]:
    """Snap `raw`, assert that the answer is legal and stable, and return it with what was said."""
    setting, notices = Setting.snap(raw)
    within(setting)
    assert all(isinstance(notice, str) and notice.endswith(".") for notice in notices)
    assert max((len(notice) for notice in notices), default=0) < 400
    return setting, notices


@pytest.mark.parametrize("name", RULES)
def test_hostile_text_in_any_field_gives_a_legal_setting_and_a_sentence(name: str) -> None:
    for text in HOSTILE:
        setting, notices = survives({name: text})
        held = dict(setting.own).get(
            name, own_fields.defaults().get(name, getattr(setting, name, None))
        )
        said = held is not None and _means(text, held)
        assert said or notices, f"{text[:40]!r} became {held!r} without a word"


def _means(text: str, value: object) -> bool:
    """Whether a person would read `text` as exactly `value`."""
    if isinstance(value, bool):
        return text == str(value).lower()
    if value == ():
        return text == "none"
    if isinstance(value, tuple) and not isinstance(value[0], str):
        parts = text.split(",")
        return len(parts) == len(value) and all(map(_means, parts, value))
    if isinstance(value, tuple):
        return set(text.split(",")) == set(value)
    if isinstance(value, str):
        return text == value
    try:
        return text.isascii() and "_" not in text and float(text) == value
    except ValueError:
        return False


numbers = st.one_of(
    st.integers().map(str),
    st.integers(0, 10_000).map(str),
    st.floats().map(repr),
    st.floats(0, 1e13).map(str),
)
words = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=40),
    numbers,
    st.lists(st.sampled_from([*SCHEMES, "t5", ""]), max_size=9).map(",".join),
    st.sampled_from([option for rule in RULES.values() for option in getattr(rule, "options", ())]),
)
keys = st.one_of(st.sampled_from(list(RULES)), st.text(max_size=20), st.sampled_from(
    ["rope.", ".layout", "rope.dim", "rope.base", "rope.kind", "learned.source", "kind", "own", "x.y"]
))  # fmt: skip


@settings(max_examples=2_500)
@given(st.dictionaries(keys, words, max_size=16))
@example({"dim": "130", "heads": "8"})
@example({"dim": "2", "heads": "64", "alibi_head": "64"})
@example({"dim": "4096", "heads": "63", "length": "2048"})
@example({"rope.partial_rotary_factor": "0.3", "rope.layout": "half"})
@example({"dim": "16", "heads": "8", "rope.partial_rotary_factor": "0.5"})
def test_any_mapping_of_text_gives_a_legal_setting(raw: dict[str, str]) -> None:
    survives(raw)


legal_numbers = {
    "dim": st.integers(1, 2_048).map(lambda n: 2 * n),
    "heads": st.integers(1, 64),
    "length": st.integers(2, 2_048),
    "train_length": st.integers(1, limits.MAX_TRAIN_LENGTH),
    "base": st.floats(2, 1e12),
    "alibi_head": st.integers(0, 64),
    "seed": st.integers(0, 2**31 - 1),
}


@settings(max_examples=500)
@given(st.fixed_dictionaries({}, optional=legal_numbers))
def test_legal_numbers_are_moved_only_to_make_them_fit_together(raw: dict[str, object]) -> None:
    setting, notices = survives({name: repr(value) for name, value in raw.items()})
    moved = {name for name, value in raw.items() if getattr(setting, name) != value}
    assert moved <= {"dim", "heads", "length", "alibi_head"}
    if moved:
        assert notices
    for name in ("dim", "heads", "length", "alibi_head"):
        if name not in raw and getattr(setting, name) != getattr(Setting(), name):
            assert notices


def test_the_nearest_fitting_width_is_taken() -> None:
    setting, notices = survives({"dim": "130", "heads": "8"})
    assert (setting.dim, setting.heads) == (128, 8)
    assert any(
        "multiple of twice the heads (16)" in n and "128" in n and "130" in n for n in notices
    )
    assert survives({"dim": "6", "heads": "8"})[0].heads == 3
    assert survives({"dim": "4096", "heads": "50"})[0].dim == 4_000
    assert survives({"dim": "511"})[0].dim in (512, 496)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"length": "1000000000000"}, {"length": limits.MAX_SHOWN_LENGTH}),
        ({"length": "-5"}, {"length": 2}),
        ({"base": "0"}, {"base": 2.0}),
        ({"base": "1e308"}, {"base": limits.MAX_BASE}),
        ({"base": "nan"}, {"base": 10000.0}),
        ({"heads": "65"}, {"heads": 64}),
        ({"alibi_head": "9"}, {"alibi_head": 0}),
        ({"schemes": "alibi,bogus,rope"}, {"schemes": ("rope", "alibi")}),
        ({"schemes": ""}, {"schemes": Setting().schemes}),
        ({"precision": "float8"}, {"precision": "float32"}),
        ({"learned_source": "../x.safetensors"}, {"learned_source": "trained"}),
    ],
)
def test_what_cannot_be_becomes_the_nearest_that_can_and_is_said(
    raw: dict[str, str], expected: dict[str, object]
) -> None:
    setting, notices = survives(raw)
    for name, value in expected.items():
        assert getattr(setting, name) == value
        assert any(fields.rules(Setting)[name].label in notice for notice in notices)


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ({"base": "1e4"}, "base", 10000.0),
        ({"base": "500000.0"}, "base", 500000.0),
        ({"dim": "+256"}, "dim", 256),
        ({"length": "64.0"}, "length", 64),
        ({"schemes": "alibi,learned"}, "schemes", ("learned", "alibi")),
        ({"equal_width": "true"}, "equal_width", True),
        ({"train_length": "1e3"}, "train_length", 1_000),
    ],
)
def test_another_way_of_writing_a_value_is_no_news(
    raw: dict[str, str], name: str, value: object
) -> None:
    setting, notices = survives(raw)
    assert getattr(setting, name) == value
    assert notices == []


@pytest.mark.parametrize("kind", [kind for kind in SCHEMES if kind not in ROPE_SCALINGS])
def test_the_help_of_the_base_names_the_schemes_that_it_changes(kind: str) -> None:
    rule = RULES["base"]
    changed = Setting(base=500.0).config(kind) != Setting().config(kind)
    named = rule.help.partition("; ")[2].removesuffix(" use it.").replace(" and ", ", ").split(", ")
    assert (SCHEMES[kind].label in named) == changed


def test_of_seven_schemes_the_first_six_are_taken_and_told() -> None:
    seven = tuple(SCHEMES)[:7]
    assert Setting(schemes=seven[:6]).schemes == seven[:6]
    setting, notices = survives({"schemes": ",".join(reversed(seven))})
    assert setting.schemes == seven[:6]
    labels = ", ".join(SCHEMES[kind].label for kind in seven[:6])
    (notice,) = notices
    assert notice.startswith("Schemes must be 1 to 6 of ")
    assert notice.endswith(f"; {labels} are used instead.")
    assert survives({"schemes": ",".join(seven[:6])})[1] == []


def test_twelve_hundred_keys_and_a_megabyte_of_text_are_read_at_once() -> None:
    raw = {f"key{i}": "x" * 800 for i in range(1_200)} | {"dim": "9" * 1_000_000}
    setting, notices = survives(raw)
    assert setting == Setting()
    assert len(notices) == 1


def test_notices_show_no_text_that_a_visitor_brought() -> None:
    """Hostile text is never echoed into a page."""
    marker = "<img src=x onerror=alert(1)>"
    for name in RULES:
        _, notices = survives({name: marker})
        assert notices
        assert marker not in " ".join(notices)


# Made directly ----------------------------------------------------------------------------------

BAD = {
    "schemes": [(), ("bogus",), ["rope"], ("alibi", "rope"), ("rope", "rope"), "rope", None,
                tuple(SCHEMES)[:7]],
    "dim": [0, 1, 3, -2, 4_098, 10**30, 10**5_000, 64.0, "64", True, None, float("nan")],
    "base": [0, 1, 1.999, -1, 1e13, float("nan"), float("inf"), "1e4", True, None, 10**5_000],
    "length": [0, 1, -1, 2_049, 1.5, "8"],
    "train_length": [0, -1, limits.MAX_TRAIN_LENGTH + 1, 2.0],
    "heads": [0, -1, 65, 3, 8.0],
    "equal_width": [0, 1, "true", None],
    "alibi_head": [-1, 9, 65, 1.0],
    "seed": [-1, 2**31, 0.5],
    "learned_source": ["", "x.safetensors", "table-xyz", "run-0", "minilm\n", "../random", 5, None],
    "precision": ["float64", "Float32", "", None, torch.float32],
    "device": ["gpu", "cuda:0", "", None],
    "own": [
        (("rope.bogus", 1),), (("bogus.layout", "half"),), (("rope.dim", 64),), (("layout", "half"),),
        (("rope.layout", "Half"),), (("rope.layout", 5),), (("rope.partial_rotary_factor", 0.3),),
        (("rope.partial_rotary_factor", float("nan")),), (("rope.layout", "half"),) * 2,
        [("rope.layout", "half")], ("rope.layout", "half"), {"rope.layout": "half"}, None, ((1, 2),),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD.items() for value in values],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
@pytest.mark.usefixtures("no_shape_checks")
def test_a_bad_value_given_directly_is_refused_by_name_value_and_range(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError) as refused:
        Setting(**{name: value})
    message = str(refused.value)
    if name == "own":
        assert "own" in message or "RopeConfig" in message
    else:
        assert f"Setting.{name}" in message or (name == "heads" and "Setting.dim" in message)
    assert len(message) < 400  # the names of all schemes are told
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, PosencError)


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        ("sinusoidal", "dim", 7, r"SinusoidalConfig\.dim .*multiple of 2 from 2 to 65,536.*7"),
        ("sinusoidal", "dim", 0, r"SinusoidalConfig\.dim .* 0"),
        ("sinusoidal", "base", 1.0, r"SinusoidalConfig\.base .*greater than 1.*1\.0"),
        ("sinusoidal", "base", float("inf"), r"SinusoidalConfig\.base .*inf"),
        ("sinusoidal", "layout", "other", r"one of interleaved, half.*'other'"),
        ("rope", "dim", 10**9, r"RopeConfig\.dim .*1000000000"),
        ("rope", "dim", 10**5_000, r"RopeConfig\.dim .*more than 40 digits"),
        ("rope", "partial_rotary_factor", 0.0, r"partial_rotary_factor"),
        ("rope", "partial_rotary_factor", 0.3, r"0\.3 of width 128 rotates 38|even number"),
        ("rope", "partial_rotary_factor", 1.01, r"partial_rotary_factor .*1\.01"),
        ("alibi", "heads", 0, r"AlibiConfig\.heads .*1 to 1,024.*0"),
        ("alibi", "heads", 1_025, r"AlibiConfig\.heads .*1025"),
        ("learned", "max_len", 0, r"LearnedConfig\.max_len"),
        ("learned", "max_len", 2**31, r"LearnedConfig\.max_len"),
        (
            "learned",
            "max_len",
            2**23,
            r"LearnedConfig\.max_len times dim .*2,147,483,648.*8,388,608 x 512",
        ),
        ("learned", "dim", 0, r"LearnedConfig\.dim"),
        (
            "learned",
            "source",
            "weights.bin",
            r"LearnedConfig\.source .*safetensors.*'weights\.bin'",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
@pytest.mark.usefixtures("no_shape_checks")
def test_a_bad_field_of_a_config_is_refused_by_name_value_and_range(
    kind: str, field: str, value: object, said: str
) -> None:
    if (kind, field, value) == ("rope", "partial_rotary_factor", 0.3):
        assert SCHEMES["rope"](dim=128, partial_rotary_factor=0.3).rotary_dim == 38
        with pytest.raises(ConfigError, match="even number"):
            SCHEMES["rope"](dim=10, partial_rotary_factor=0.3)
        return
    with pytest.raises(ConfigError, match=said):
        SCHEMES[kind](**{field: value})


@pytest.mark.usefixtures("no_shape_checks")
def test_public_functions_refuse_sizes_by_name() -> None:
    cases = [
        ("dim .*even", lambda: sinusoidal_table(4, 7)),
        ("dim .*from 2", lambda: sinusoidal_table(4, 0)),
        ("length", lambda: sinusoidal_table(-1, 8)),
        ("length.*40 digits", lambda: sinusoidal_table(10**5_000, 8)),
        ("length x dim", lambda: sinusoidal_table(2**30, 8)),
        ("base", lambda: sinusoidal_table(4, 8, 1.0)),
        ("base", lambda: sinusoidal_table(4, 8, float("nan"))),
        ("base", lambda: rope_tables(4, 8, "1e4")),
        ("start", lambda: sinusoidal_table(4, 8, start=2**31)),
        ("positions", lambda: sinusoidal_table(4, 8, start=2**31 - 2)),
        ("layout", lambda: sinusoidal_table(4, 8, layout="other")),
        ("dtype", lambda: sinusoidal_table(4, 8, dtype=torch.int32)),
        ("heads", lambda: alibi_slopes(0)),
        ("heads", lambda: alibi_slopes(1_025)),
        ("heads", lambda: alibi_slopes(8.0)),
    ]
    for message, call in cases:
        with pytest.raises(PosencError, match=message):
            call()


# What a setting means ---------------------------------------------------------------------------


def test_one_setting_makes_every_config() -> None:
    setting = Setting(
        dim=96, heads=12, base=500.0, train_length=77, own=(("rope.layout", "half"),),
        learned_source="random",
    )  # fmt: skip
    made = {kind: setting.config(kind) for kind in SCHEMES}
    assert made["learned"] == SCHEMES["learned"](dim=96, max_len=77)
    assert made["sinusoidal"] == SCHEMES["sinusoidal"](dim=96, base=500.0)
    assert made["rope"] == SCHEMES["rope"](dim=8, base=500.0, layout="half")
    assert made["alibi"] == SCHEMES["alibi"](heads=12)
    assert made["none"] == SCHEMES["none"]()
    assert setting.replace(equal_width=True).config("rope").dim == 96
    assert list(setting.configs()) == list(setting.schemes)


def test_equal_settings_compare_equal_however_their_own_fields_were_given() -> None:
    plain = Setting()
    assert Setting(own=(("rope.layout", "interleaved"),)) == plain
    two = (("rope.layout", "half"), ("sinusoidal.layout", "half"))
    assert Setting(own=two) == Setting(own=two[::-1])
    assert hash(Setting(own=two)) == hash(Setting(own=two[::-1]))
    assert Setting(own=two).write() == {"rope.layout": "half", "sinusoidal.layout": "half"}


def test_only_what_differs_from_the_default_is_written() -> None:
    assert Setting().write() == {}
    assert Setting(base=500000.0, heads=4).write() == {"base": "500000", "heads": "4"}
    assert Setting(base=2.5).write() == {"base": "2.5"}
    assert Setting(schemes=("rope", "none")).write() == {"schemes": "rope,none"}


def test_every_default_is_legal_and_every_stop_of_a_slider_too() -> None:
    within(Setting())
    for name, rule in RULES.items():
        for stop in getattr(rule, "grid", ()):
            assert rule.accepts(stop), (name, stop)
            assert rule.nearest(rule.write(stop)) == stop
        grid = list(getattr(rule, "grid", ()))
        assert grid == sorted(set(grid))


def test_heads_and_precisions_mean_what_they_say() -> None:
    assert Setting().head == "mean"
    assert Setting(alibi_head=1).head == 0
    assert Setting(alibi_head=8).head == 7
    assert Setting().table_dtype is None
    assert {name: Setting(precision=name).table_dtype for name in PRECISIONS} == PRECISIONS


def test_a_setting_knows_which_numbers_a_scheme_ignores() -> None:
    ignored = {kind: set(SMALL.ignored_by(kind)) for kind in SCHEMES}
    assert ignored["learned"] == {"Base", "Heads"}
    assert ignored["sinusoidal"] == {"Heads"}
    assert ignored["rope"] == set()
    assert ignored["alibi"] == {"Model dimension", "Base"}
    assert ignored["none"] == {"Model dimension", "Base", "Heads"}


@pytest.mark.parametrize(("name", "change"), [("dim", 160), ("base", 123.0), ("heads", 5)])
def test_a_number_that_is_called_ignored_changes_no_config(
    kind: str, name: str, change: object
) -> None:
    label = fields.rules(Setting)[name].label
    moved = SMALL.replace(**{name: change})
    assert (moved.config(kind) == SMALL.config(kind)) == (label in SMALL.ignored_by(kind))
