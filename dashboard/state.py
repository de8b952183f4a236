"""The choices of a visitor as one value, and the same as the text of a link.

Nothing here knows of Streamlit. `session` keeps the state of each visitor; the link is a function of it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from dashboard import run_descriptions
from dashboard.sentence_rule import Sentence, cut
from dashboard.settings import Setting, record, to_text
from dashboard.settings.field_text import describe, quoted_text, read
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, head_count, largest_width
from dashboard.settings.stops import STOPS
from dashboard.text import listed
from posenc import fields
from posenc.errors import ConfigError
from posenc.models.config_token import MAX_TOKEN
from posenc.schemes.sizes import own_defaults, own_rules

Options = TypeVar("Options")
Query = Mapping[str, Sequence[str]]  # of an address: the texts of every name

VERSION = "1"  # of the defaults that a link leaves out
VERSIONED, PINNED, PRESENT = "v", "a", "present"
SEPARATOR = "~"  # of names and texts of the pinned setting: in no value, and written as it is
MOST_NAMED = 8  # of what a link has and was ignored
MOST_CHARACTERS = 3_000 + MAX_TOKEN  # of a pinned setting
SHARED = fields.rules(Setting)
RULES = SHARED | own_rules()  # of a setting, those that belong to one scheme too
DEFAULTS = fields.defaults(Setting) | own_defaults()


@runtime_checkable
class Following(Protocol):
    """Options of a page that follow the setting, such as a length that belongs to its model."""

    def following(self, before: Setting, after: Setting) -> Self:
        """Return the options once the setting has changed."""
        ...


@dataclass(frozen=True, eq=False)
class State:
    """The setting at hand, B; the pinned one, A; the options of every page by its name.

    presenting: whether a class is presented to.
    """

    setting: Setting = Setting()
    pinned: Setting | None = None
    presenting: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def of(self, page: str, kind: type[Options]) -> Options:
        """Return the options of a page, the defaults where nobody chose any."""
        options: Options = self.options.get(page) or kind()
        return options

    @property
    def a(self) -> Setting | None:
        """The pinned setting as it is compared: with the schemes of the one at hand."""
        return None if self.pinned is None else self.pinned.replace(schemes=self.setting.schemes)

    def changed(self, page: str, kind: type, changes: Mapping[str, Any]) -> "State":
        """Return the state with some fields changed: of the setting, of the page, or its own.

        kind: class of the page's options. Options that follow the setting, of this page or another, change
        with it. Raises ConfigError for a value that is not allowed, or does not go with the others.
        """
        own = {name: value for name, value in changes.items() if name in fields.rules(kind)}
        shared = {name: value for name, value in changes.items() if name in RULES}
        rest = {n: value for n, value in changes.items() if n not in own.keys() | shared.keys()}
        setting = with_changes(self.setting, shared)
        chosen: Any = replace(self.of(page, kind), **own)
        fields.check(chosen)
        options = {
            name: one.following(self.setting, setting) if isinstance(one, Following) else one
            for name, one in {**self.options, page: chosen}.items()
        }
        return replace(self, setting=setting, options=options, **rest)


def with_changes(setting: Setting, changes: Mapping[str, Any]) -> Setting:
    """Return a setting with fields changed, of one scheme too. Raises ConfigError where that is illegal."""
    shared = {name: value for name, value in changes.items() if name in SHARED}
    own = {name: value for name, value in changes.items() if name not in SHARED}
    return setting.replace(**shared, own=tuple((dict(setting.own) | own).items()))


def refusal(error: ConfigError) -> str:
    """Return the sentence of an error on a setting, which names controls as people read them."""
    return re.sub(r"\b(?:Setting|Sizes)\.(\w+)", lambda name: _label(name[1]), str(error))


def _label(name: str) -> str:
    return RULES[name].label if name in RULES else name


# The link -------------------------------------------------------------------------------------


def to_query(state: State, page: str, kind: type) -> dict[str, list[str]]:
    """Return what the link of a page says: everything that is not at its default."""
    texts = {
        name: _words(RULES[name], value)
        for name, value in record(state.setting).items()
        if value != DEFAULTS[name]
    }
    options: Any = state.of(page, kind)
    default = fields.defaults(kind)
    for name, rule in fields.rules(kind).items():
        value = vars(options)[name]
        if value != default[name] and name not in unlinked(kind):
            texts[name] = _words(rule, value)
    if state.pinned is not None:
        texts[PINNED] = [to_token(state.pinned)]
    if state.presenting:
        texts[PRESENT] = ["true"]
    return {VERSIONED: [VERSION]} | texts if texts else {}


def to_token(setting: Setting) -> str:
    """Return a setting as one text, which a link has of the pinned one."""
    pairs = {VERSIONED: VERSION} | to_text(setting)
    return SEPARATOR.join(part for pair in pairs.items() for part in pair)


def unlinked(kind: type) -> Collection[str]:
    """Return the options of a class that a link never holds."""
    names: Collection[str] = vars(kind).get("UNLINKED", ())
    return names


def _words(rule: fields.Rule, value: Any) -> list[str]:
    return [*value] if isinstance(rule, fields.MultiChoice) else [fields.written(value)]


@dataclass(frozen=True)
class Linked:
    """The meaning of a link: a state, ignored names, and a sentence for each text that was cut."""

    state: State
    ignored: tuple[str, ...]
    cut: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """The sentence on what was ignored or cut, "" for nothing."""
        texts = [*self.cut]
        if self.ignored:
            names = sorted({*self.ignored})
            words = [quoted_text(name) for name in names[:MOST_NAMED]]
            more = len(names) - len(words)
            words += [f"{more:,} more"] if more else []
            texts.insert(0, f"Ignored in this link: {listed(words)}.")
        return " ".join(texts)


def read_query(query: Query, page: str, kind: type, before: State | None = None) -> Linked:
    """Return the state that the link of a page means; what it says nothing of is at its default.

    before: whose options of other pages stay, and those of this page that no link holds.
    """
    before = before or State()
    rules, values, ignored, too_long = RULES | fields.rules(kind), dict[str, Any](), [], []
    for name, texts in query.items():
        if name in (VERSIONED, PINNED, PRESENT) or not texts:
            continue
        rule = rules.get(name)
        if rule is None or name in unlinked(kind):
            ignored.append(name)
            continue
        text = ",".join(texts) if isinstance(rule, fields.MultiChoice) else texts[-1]
        value = read(rule, text)
        if value is None and isinstance(rule, Sentence):
            value = cut(rule, text)
            too_long += [] if value is None else [told_cut(rule, value)]
        if value is None:
            ignored.append(name)
        else:
            values[name] = value
    own = {name: values[name] for name in fields.rules(kind) if name in values}
    kept = {name: vars(before.of(page, kind))[name] for name in unlinked(kind)}
    setting, refused = setting_of({name: values[name] for name in RULES if name in values})
    pinned, lost = read_token(query.get(PINNED, [""])[-1])
    options = {**before.options, page: kind(**own | kept)}
    state = State(setting, pinned, query.get(PRESENT, [""])[-1] == "true", options)
    return Linked(state, (*ignored, *refused, *lost), (*too_long,))


def told_cut(rule: fields.Rule, value: str) -> str:
    """Say that a sentence was cut, and to what."""
    return f"{rule.label} must be {rule.allowed()}; {describe(rule, value)} is used instead."


def read_token(token: str) -> tuple[Setting | None, list[str]]:
    """Return the pinned setting of a link, None without one, and the names of what was ignored."""
    if not token:
        return None, []
    parts = token.split(SEPARATOR) if len(token) <= MOST_CHARACTERS else []
    texts = dict(zip(parts[::2], parts[1::2], strict=False))
    if not texts.keys() & {VERSIONED, *RULES}:
        return None, [PINNED]
    read_values = {name: read(RULES[name], texts[name]) for name in texts if name in RULES}
    values = {name: value for name, value in read_values.items() if value is not None}
    setting, refused = setting_of(values)
    ignored = [name for name in texts if name not in {VERSIONED, *values}]
    return setting, [f"{PINNED}.{name}" for name in (*ignored, *refused)]


def setting_of(values: Mapping[str, Any]) -> tuple[Setting, list[str]]:
    """Return the setting of legal values, and the names of those that do not go with the others.

    That is one of them where leaving it out is enough, else each that does not go with those before it.
    """
    for name in (None, *values):
        rest = {other: value for other, value in values.items() if other != name}
        setting = _legal(Setting(), rest)
        if setting is not None:
            return setting, [name] if name else []
    setting, refused = Setting(), []
    for name, value in values.items():
        changed = _legal(setting, {name: value})
        if changed is None:
            refused.append(name)
        else:
            setting = changed
    return setting, refused


def _legal(setting: Setting, changes: Mapping[str, Any]) -> Setting | None:
    try:
        return with_changes(setting, changes)
    except ConfigError:
        return None


# What differs ---------------------------------------------------------------------------------


def differences(b: Setting, a: Setting) -> list[tuple[str, str, str]]:
    """Return what differs between two settings: label, the text of B, that of A."""
    of_b, of_a = record(b), record(a)
    return [
        (RULES[n].label.lower(), _described(n, of_b[n]), _described(n, of_a[n]))
        for n in differing(b, a)
    ]


def _described(name: str, value: Any) -> str:
    """Return a value as a sentence names it; an uploaded table has the name of its file."""
    if name != "learned_source" or value in run_descriptions.TABLES:
        return describe(RULES[name], value)
    text = run_descriptions.table_name(value)
    return text if value.startswith("table-") else f"{text[0].lower()}{text[1:]}"


def differing(b: Setting, a: Setting) -> list[str]:
    """Return the names of the fields in which two settings differ, those of one scheme too."""
    of_b, of_a = record(b), record(a)
    return [name for name in RULES if of_b[name] != of_a[name]]


def names(b: Setting, a: Setting) -> dict[str, str]:
    """Return what A and B are called: by what differs, the first two things where it is more."""
    differing = differences(b, a)
    if not differing:
        return {"A": "A (pinned)", "B": "B (current)"}
    more = [f"{len(differing) - 2} more"] if len(differing) > 2 else []
    of_b = [f"{label} {text}" for label, text, _ in differing[:2]]
    of_a = [f"{label} {text}" for label, _, text in differing[:2]]
    return {"A": f"A: {', '.join(of_a + more)}", "B": f"B: {', '.join(of_b + more)}"}


def stops(setting: Setting, name: str, most_positions: int) -> list[Any]:
    """Return the usual values of a number that go with the others, its own value among them.

    A number without usual values has every one of its range. most_positions: that are shown at most.
    """
    rule, model = RULES[name], setting.real_model
    legal: Sequence[Any] = STOPS.get(name, ())
    if isinstance(rule, fields.IntRange) and not legal:
        legal = range(rule.low, rule.high + 1)
    match name:
        case "dim":
            most = MAX_SHOWN_ELEMENTS // setting.length
            legal = [
                dim
                for dim in legal
                if dim % (2 * setting.heads) == 0 and largest_width(dim, model) <= most
            ]
        case "heads":
            least = setting.alibi_head if model is None else 0
            legal = [heads for heads in legal if setting.dim % (2 * heads) == 0 and heads >= least]
        case "length":
            most = min(most_positions, MAX_SHOWN_ELEMENTS // largest_width(setting.dim, model))
            legal = [length for length in legal if length <= most]
        case "alibi_head":
            legal = [head for head in legal if head <= head_count(setting.heads, model)]
    own = (vars(setting) | dict(setting.own)).get(name, DEFAULTS[name])
    return sorted({*legal, own})
