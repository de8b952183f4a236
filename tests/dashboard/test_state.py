"""The state of a visitor and its link: each is read back as it was, and of any text only what is legal."""

import functools
import inspect
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard import state
from dashboard.pages.lessons.page import Options as LessonsOptions
from dashboard.pages.similarity.page import Options as SimilarityOptions
from dashboard.sentence_rule import Sentence
from dashboard.settings import Setting, record
from dashboard.settings.field_text import read
from dashboard.settings.labelled import LabelledChoice, LabelledMultiChoice, labels_of
from dashboard.settings.setting import MAX_SHOWN_DIM, MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from dashboard.settings.stops import STOPS
from dashboard.state import RULES, State, read_query, read_token, to_query, to_token
from posenc import SCHEMES, ConfigError, fields, limits
from posenc.schemes.sizes import own_defaults, own_rules

# Fields are checked by their own rules; checking types at every call as well doubles the time.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


@dataclass(frozen=True, kw_only=True)
class EveryKind:
    """Options with a rule of every kind, one of which no link holds."""

    UNLINKED = ("asked",)

    count: int = fields.IntRange(low=0, high=40, multiple_of=2, label="Count").field(4)
    share: float = fields.FloatRange(low=0.25, high=8.0, or_zero=True, label="Share").field(1.0)
    word: str = fields.Word(pattern="[a-z-]{1,9}", in_words="letters", label="Word").field("a")
    place: str = LabelledChoice(
        options=("near", "far"), labels={"near": "near by", "far": "far away"}, label="Place"
    ).field("near")
    on: bool = fields.Flag(label="On").field(False)
    several: tuple[str, ...] = LabelledMultiChoice(
        options=("x", "y", "z"), labels={"x": "X", "y": "Y", "z": "Z"}, most=2, label="Several"
    ).field(("x",))
    factors: tuple[float, ...] = fields.Numbers(
        low=0.5, high=100.0, least=0, most=3, label="Factors"
    ).field(())
    text: str = Sentence(least=2, most=4, longest=30, label="Text").field("one two")
    asked: bool = fields.Flag(label="Asked").field(False)


def values_of(rule: fields.Rule) -> st.SearchStrategy[Any]:
    """Legal values of a rule."""
    match rule:
        case fields.Flag():
            return st.booleans()
        case fields.IntRange():
            step = rule.multiple_of
            return st.integers(-(-rule.low // step), rule.high // step).map(step.__mul__)
        case fields.FloatRange():
            return st.floats(rule.low, rule.high, exclude_min=not rule.closed)
        case fields.Choice():
            return st.sampled_from(rule.options)
        case fields.MultiChoice():
            options = [*rule.options]
            chosen = st.sets(st.sampled_from(options), min_size=1, max_size=rule.most)
            return chosen.map(lambda words: tuple(one for one in options if one in words))
        case fields.Numbers():
            number: Any = st.floats(rule.low, rule.high)
            if rule.whole:
                number = st.integers(int(rule.low), int(rule.high))
            return st.lists(number, min_size=rule.least, max_size=min(rule.most, 4)).map(tuple)
        case Sentence():
            words = st.text("abé\u0643&=~,+% ;#", min_size=1, max_size=8)
            return st.lists(words, min_size=2, max_size=4).map(" ".join).filter(rule.accepts)
    return st.sampled_from(["a", "b-c"])


@st.composite
def settings_of(draw: st.DrawFn) -> Setting:
    """A legal setting: what does not go with the other values keeps its default."""
    own = [name for name in own_rules() if not name.endswith(".source")]
    names = draw(st.sets(st.sampled_from([*fields.rules(Setting), *own]), max_size=9))
    names -= {"learned_source", "model"}
    values = {name: draw(values_of(RULES[name])) for name in sorted(names)}
    return state.setting_of(values)[0]


@st.composite
def states(draw: st.DrawFn) -> State:
    rules = fields.rules(EveryKind)
    names = draw(st.sets(st.sampled_from([name for name in rules if name != "asked"])))
    options = EveryKind(**{name: draw(values_of(rules[name])) for name in sorted(names)})
    pinned = draw(st.none() | settings_of())
    return State(draw(settings_of()), pinned, draw(st.booleans()), {"here": options})


def values(one: State) -> tuple[Any, ...]:
    return one.setting, one.pinned, one.presenting, dict(one.options)


@settings(max_examples=60)
@given(states())
def test_state_is_read_back_from_its_link_as_it_was(one: State) -> None:
    query = to_query(one, "here", EveryKind)
    sent = parse_qs(urlencode(query, doseq=True, safe=",~"), keep_blank_values=True)
    linked = read_query(sent, "here", EveryKind)
    assert (linked.ignored, linked.cut, linked.notice) == ((), (), "")
    assert values(linked.state) == values(one)
    # It says what differs from the defaults, and nothing else.
    changed = {name for name, value in record(one.setting).items() if value != state.DEFAULTS[name]}
    own = vars(one.of("here", EveryKind)).items()
    changed |= {name for name, value in own if value != fields.defaults(EveryKind)[name]}
    changed |= {"a"} if one.pinned else set()
    changed |= {"present"} if one.presenting else set()
    assert query.keys() == (changed | {"v"} if changed else set())


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

RULES_HERE = RULES | fields.rules(EveryKind)
OPTIONS = {str(word) for rule in RULES_HERE.values() for word in getattr(rule, "options", ())}
ENDS = {str(getattr(rule, end, 0)) for rule in RULES_HERE.values() for end in ("low", "high")}
legal = st.sampled_from(sorted(OPTIONS | ENDS))
numbers = st.one_of(
    st.integers().map(str), st.integers(-5, 5_000).map(str), st.floats().map(repr),
    st.integers(0, 5_000).map(lambda digits: "9" * digits),
)  # fmt: skip
texts = st.one_of(
    legal, numbers, st.text(max_size=60), st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*SCHEMES, "t5", "", "Learned"]), max_size=9).map(",".join),
    st.binary(max_size=12).map(lambda raw: raw.decode("latin-1")),
    st.lists(st.one_of(legal, st.sampled_from([*RULES])), max_size=6).map(state.SEPARATOR.join),
)  # fmt: skip
names_of_links = st.one_of(
    st.sampled_from([*RULES_HERE]),
    st.sampled_from([*RULES, "a", "v", "present", "__proto__", "a[]", "dim ", "DIM", "dim.x"]),
    st.text(max_size=12),
)
QUERIES = (
    "dim=64&dim=128",
    "dim=1000000000000&base=nan&length=-5&heads=0x10&seed=1_000",
    "schemes=&schemes=Learned&schemes=Learned",
    "&".join(f"key{n}=1" for n in range(1_200)),
    "x=" + "9" * 600_000,
    "dim=" + "9" * 600_000,
    "a=" + "dim~64~" * 100_000,
    "a=dim~64~dim~128~schemes~rope",
    "model=config-" + "A" * 4_083,
    "%ff%fe=%ff&dim=%00&base=%&length=%zz",
    "dim=%D9%A3%D9%A2&heads=%F0%9D%9F%96",
)


@functools.lru_cache(maxsize=4_096)  # most texts give the same few
def assert_legal(setting: Setting) -> None:
    """Assert what every setting promises, rules between fields included."""
    for name, rule in fields.rules(Setting).items():
        assert rule.accepts(getattr(setting, name)), name
    assert setting.dim <= MAX_SHOWN_DIM
    assert setting.dim % (2 * setting.heads) == 0
    assert setting.length <= MAX_SHOWN_LENGTH
    assert setting.length * setting.dim <= MAX_SHOWN_ELEMENTS
    for kind in SCHEMES:
        assert setting.config(kind).kind == kind
    for key, value in setting.own:
        assert own_rules()[key].accepts(value)
        assert value != own_defaults()[key]


def assert_survives(query: dict[str, list[str]]) -> None:
    """Assert that a query is read as a legal state, and that each name of it counts or is named."""
    linked = read_query(query, "here", EveryKind)
    one = linked.state
    assert_legal(one.setting)
    if one.pinned is not None:
        assert_legal(one.pinned)
    options = one.of("here", EveryKind)
    fields.check(options)
    assert not options.asked
    for name, given_texts in query.items():
        if name in linked.ignored or name in ("v", "a", "present"):
            continue
        value = {**record(one.setting), **vars(options)}[name]
        assert means(RULES_HERE[name], given_texts, value), (name, given_texts[-1][:60], value)
    assert len(linked.notice) < 500
    again = read_query(to_query(one, "here", EveryKind), "here", EveryKind)
    assert (values(again.state), again.ignored) == (values(one), ())


def means(rule: fields.Rule, given_texts: list[str], value: Any) -> bool:
    """Whether texts of a link say exactly this value, or of a sentence its beginning."""
    text = given_texts[-1]
    match rule:
        case fields.MultiChoice():
            labels = labels_of(rule)
            words = {word for one in given_texts for word in one.split(",")}
            return {labels.get(word, word) for word in words} == {labels[one] for one in value}
        case fields.Choice():
            return text in (value, labels_of(rule)[value])
        case fields.Numbers():
            return text == "none" if not value else [*map(float, text.split(","))] == [*value]
        case fields.Flag():
            return text == str(value).lower()
        case Sentence():
            return text == value or not rule.accepts(text)
    ascii_number = text.isascii() and "_" not in text and not isinstance(value, str)
    return text == value or (ascii_number and float(text) == value)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:32])
def test_of_a_hostile_query_what_is_legal_is_read(query: str) -> None:
    assert_survives(parse_qs(query, keep_blank_values=True))


@settings(max_examples=80)
@given(st.dictionaries(names_of_links, st.lists(texts, min_size=1, max_size=3), max_size=14))
@example({})
@example({"dim": ["2"], "heads": ["64"], "alibi_head": ["64"]})
@example({"dim": ["4096"], "heads": ["63"], "length": ["2048"]})
@example({"rope.partial_rotary_factor": ["0.3"], "rope.layout": ["half"]})
def test_of_any_query_each_name_counts_as_it_stands_or_is_named(
    query: dict[str, list[str]],
) -> None:
    assert_survives(query)


# Of a setting every field, and an own field of every kind of rule.
VARIED = [
    *fields.rules(Setting), "rope.layout", "rope.partial_rotary_factor", "rope_yarn.attention_factor",
    "rope_longrope.short_factor", "rope_sections.sections", "rope_sections.interleaved", "shaw.source",
    "t5.max_distance", *fields.rules(EveryKind),
]  # fmt: skip


@pytest.mark.parametrize("name", VARIED)
def test_hostile_text_of_a_field_counts_exactly_or_is_named(name: str) -> None:
    for text in HOSTILE:
        assert_survives({name: [text]})
    if name != "text":  # which is a sentence
        notice = read_query({name: ["<img src=x onerror=alert(1)>"]}, "here", EveryKind).notice
        assert (
            notice == f"Ignored in this link: '{name}'."
        )  # what it says is never echoed into a page


# Ranges and defaults of shared numbers: links that people have stored rely on them.
RANGES: dict[str, tuple[float, float, float]] = {
    "dim": (2, 4096, 512),
    "base": (2, 1e12, 10000),
    "length": (2, 2048, 256),
    "train_length": (1, limits.MAX_TRAIN_LENGTH, 128),
    "heads": (1, 64, 8),
    "alibi_head": (0, 64, 0),
    "seed": (0, 2**31 - 1, 0),
}


def read_one(name: str, text: str) -> tuple[Any, tuple[str, ...]]:
    """What a link that names one number gives it, and the names left out."""
    linked = read_query({name: [text]}, "here", EveryKind)
    return record(linked.state.setting)[name], linked.ignored


@pytest.mark.parametrize("name", RANGES)
def test_number_in_a_link_counts_as_it_is_or_is_left_out(name: str) -> None:
    low, high, default = RANGES[name]
    assert read_one(name, f"{default:.0f}") == (default, ())
    for text in ("nan", "\u0663", "-5", "9999999999999", f"{high * 2:.0f}", ""):
        assert read_one(name, text) == (default, (name,)), text
    fraction = read_one(name, "3.5")
    assert fraction == ((3.5, ()) if name == "base" else (default, (name,)))
    # At its ends, where they go with the default of everything else.
    apart = {("dim", low), ("dim", high), ("heads", high), ("alibi_head", high)}
    for end in (low, high):
        if (name, end) not in apart:
            assert read_one(name, f"{end:.0f}") == (end, ())


@pytest.mark.parametrize(
    ("query", "left_out", "expected"),
    [
        ({"dim": "40", "heads": "4"}, (), (40, 4, 256)),  # 40 goes with 4 heads, not with 8
        ({"dim": "40"}, ("dim",), (512, 8, 256)),
        ({"heads": "12"}, ("heads",), (512, 8, 256)),
        ({"dim": "4096", "length": "2048", "base": "500"}, ("dim",), (512, 8, 2048)),
        ({"dim": "40", "heads": "3", "length": "9", "seed": "-1"}, ("seed", "dim", "heads"), (512, 8, 9)),
    ],
)  # fmt: skip
def test_number_that_does_not_go_with_the_others_is_left_out(
    query: dict[str, str], left_out: tuple[str, ...], expected: tuple[int, int, int]
) -> None:
    linked = read_query({name: [text] for name, text in query.items()}, "here", EveryKind)
    setting = linked.state.setting
    assert (linked.ignored, (setting.dim, setting.heads, setting.length)) == (left_out, expected)


def test_other_spellings_of_a_value_are_read_without_a_notice() -> None:
    query = {
        "base": ["1e4"], "dim": ["+256"], "length": ["64.0"], "place": ["far away"],
        "schemes": ["RoPE", "alibi"], "several": ["Z,x"], "factors": ["1, 2.5"],
    }  # fmt: skip
    linked = read_query(query, "here", EveryKind)
    assert linked.notice == ""
    setting, options = linked.state.setting, linked.state.of("here", EveryKind)
    assert (setting.base, setting.dim, setting.length) == (10_000, 256, 64)
    assert setting.schemes == ("rope", "alibi")
    assert (options.place, options.several, options.factors) == ("far", ("x", "z"), (1.0, 2.5))


NUMBERS = fields.Numbers(low=0, high=64, least=2, most=4, whole=True, label="Sizes")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16,24,24", (16, 24, 24)),
        ("2.4,70", None),
        ("16", None),
        ("none", None),
        ("1,2,3,4,5", None),
    ],
)
def test_whole_numbers_are_read_exactly_or_not_at_all(
    text: str, expected: tuple[int, ...] | None
) -> None:
    found = read(NUMBERS, text)
    assert found == expected
    assert all(type(number) is int for number in found or ())


def test_sentence_of_a_link_that_is_too_long_is_cut_and_told() -> None:
    linked = read_query({"text": ["one two three four five"]}, "here", EveryKind)
    assert linked.state.of("here", EveryKind).text == "one two three four"
    assert linked.notice == (
        "Text must be 2 to 4 words and at most 30 characters; \u201cone two three four\u201d is used "
        "instead."
    )
    linked = read_query({"text": ["one"]}, "here", EveryKind)
    assert linked.notice == "Ignored in this link: 'text'."


def test_what_no_link_holds_is_ignored_in_one_and_kept_from_before() -> None:
    before = State(options={"here": EveryKind(asked=True, count=8), "there": SimilarityOptions()})
    linked = read_query({"asked": ["true"], "count": ["6"]}, "here", EveryKind, before)
    assert linked.ignored == ("asked",)
    assert linked.state.options["here"] == EveryKind(asked=True, count=6)
    assert linked.state.options["there"] is before.options["there"]
    assert "asked" not in to_query(before, "here", EveryKind)


# The pinned setting ---------------------------------------------------------------------------


@settings(max_examples=30)
@given(settings_of())
def test_pinned_setting_is_read_back_as_it_was(one: Setting) -> None:
    assert read_token(to_token(one)) == (one, [])


@pytest.mark.parametrize(
    ("word", "left_out"),
    [
        ("~~~~", ["a"]),
        ("dim~7", ["a.dim"]),
        ("base~nan~dim~64", ["a.base"]),
        ("dim~64~gone~1", ["a.gone"]),  # of a version that had such a control
        ("<img src=x>~[x](http://evil.example)", ["a"]),
        # One that is too long is not read in part.
        ("dim~64~seed~" + "9" * state.MOST_CHARACTERS, ["a"]),
    ],
)
def test_illegal_part_of_a_pinned_setting_is_left_out_and_named(
    word: str, left_out: list[str]
) -> None:
    pinned, ignored = read_token(word)
    assert ignored == left_out
    assert (pinned is None) == (left_out == ["a"])


def test_pinned_setting_shows_the_schemes_of_b() -> None:
    one = State(Setting(schemes=("rope",)), Setting(base=500.0))
    assert one.a == Setting(base=500.0, schemes=("rope",))
    assert State().a is None


def test_a_and_b_are_named_by_what_differs() -> None:
    b = Setting(base=500.0, dim=64, heads=4, seed=3)
    assert state.names(b, b) == {"A": "A (pinned)", "B": "B (current)"}
    assert state.names(b, b.replace(base=2.5)) == {"A": "A: base 2.5", "B": "B: base 500"}
    assert state.names(b, Setting())["A"] == "A: model dimension 512, base 10,000, 2 more"
    assert state.differences(b.replace(alibi_head=2), b) == [("head shown", "2", "mean")]
    assert state.differences(b.replace(equal_width=True), b) == [
        ("compare at equal width", "true", "false")
    ]


# Changes --------------------------------------------------------------------------------------


def test_change_sets_fields_of_setting_page_and_state_and_leaves_the_rest() -> None:
    one = State().changed("here", EveryKind, {"base": 500.0, "rope.layout": "half", "count": 8})
    two = one.changed("here", EveryKind, {"presenting": True, "pinned": one.setting, "base": 2.0})
    assert two.setting == Setting(base=2.0, own=(("rope.layout", "half"),))
    assert two.of("here", EveryKind) == EveryKind(count=8)
    assert (two.presenting, two.pinned) == (True, one.setting)
    assert two.of("there", SimilarityOptions) == SimilarityOptions()
    assert values(State()) == (Setting(), None, False, {})  # a state is a value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dim": 500}, "Model dimension must be a multiple of twice the heads"),
        ({"length": 2048, "dim": 4096}, "Positions shown times dim must be at most"),
        ({"alibi_head": 9}, "Head shown must be from 0"),
        ({"count": 3}, "EveryKind.count must be a multiple of 2"),
        ({"rope.partial_rotary_factor": 0.3}, "RopeConfig.partial_rotary_factor"),
    ],
)
def test_change_that_does_not_fit_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        State().changed("here", EveryKind, changes)
    assert state.refusal(refused.value).startswith(words)


@dataclass(frozen=True, kw_only=True)
class Follower:
    """Options of which one belongs to the base."""

    mark: int = fields.IntRange(low=0, high=9, label="Mark").field(0)

    def following(self, before: Setting, after: Setting) -> "Follower":
        return Follower() if before.base != after.base else self


def test_option_that_belongs_to_a_setting_follows_its_change() -> None:
    one = State().changed("here", Follower, {"mark": 3})
    assert one.of("here", Follower).mark == 3
    assert one.changed("here", Follower, {"seed": 5}).of("here", Follower).mark == 3
    assert one.changed("here", Follower, {"base": 5.0}).of("here", Follower).mark == 0


def test_option_of_another_page_follows_a_change_of_the_setting_too() -> None:
    there = State().changed("there", Follower, {"mark": 3}).changed("here", EveryKind, {"count": 6})
    assert there.of("there", Follower).mark == 3
    both = there.changed("here", EveryKind, {"base": 5.0})
    assert both.of("there", Follower).mark == 0
    assert both.of("here", EveryKind) == there.of("here", EveryKind)


SIZES = (
    Setting(), Setting(dim=768, heads=12), Setting(dim=500, heads=2, alibi_head=2),
    Setting(dim=4096, length=256, heads=1), Setting(model="llama-3-8b", dim=96, heads=3),
)  # fmt: skip


@pytest.mark.parametrize("name", [*STOPS, "heads", "alibi_head"])
def test_every_stop_of_a_slider_goes_with_the_other_numbers(name: str) -> None:
    for setting in SIZES:
        offered = state.stops(setting, name, 1_024)
        assert record(setting)[name] in offered
        assert offered == sorted({*offered})
        for value in offered:
            assert record(state.with_changes(setting, {name: value}))[name] == value
        if name == "length":
            assert max(offered) <= 1_024
    grid = [width for width in STOPS["dim"] if width % 24 == 0]
    assert state.stops(Setting(dim=768, heads=12), "dim", 2_048) == grid


def test_names_of_fields_are_apart_from_those_of_the_link_and_of_other_fields() -> None:
    for kind in (EveryKind, SimilarityOptions, LessonsOptions):
        own = fields.rules(kind).keys()
        assert not own & {*RULES, "v", "a", "present", *inspect.signature(State).parameters}
    assert not RULES.keys() & {"v", "a", "present", *inspect.signature(State).parameters}
