"""The rows of posenc.models: their form, their expressions, and their numbers against transformers."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc.models.family as family
from posenc.models.expressions import Scope, parsed
from posenc.models.family import FAMILIES, TEXT_TYPES, stacks_of
from posenc.models.layer_words import layer_words
from posenc.models.record import Record
from posenc.models.row_keys import OF_KIND
from posenc.models.stack import Stack
from tests.models.generate_families import REFUSED, unread_fields

FOLDER = Path(family.__file__).parent / "data"
TEXT = (FOLDER / "families.json").read_text("utf-8")
PARTS = [(name, stack, row) for name in FAMILIES for stack, row in stacks_of(name).items()]
IDS = [f"{name} {stack}".strip() for name, stack, _ in PARTS]
KEYS = {
    "about", "agree", "also", "alternatives", "cached", "causal", "class", "context", "defaults",
    "first_row", "kinds", "layer_bases", "layers", "must_be", "named", "names", "notes", "position",
    "rope", "rope_layers", "sections", "shared", "stacks", "trained", *OF_KIND,
}  # fmt: skip


def config_class(name: str) -> Any:
    transformers = pytest.importorskip("transformers", minversion="5")
    if name not in transformers.CONFIG_MAPPING:
        pytest.skip("no class of transformers")
    return transformers.CONFIG_MAPPING[name]


def test_rows_stand_in_the_order_of_their_names_each_key_once() -> None:
    def in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        assert len({*names}) == len(names)
        return dict(pairs)

    rows = json.loads(TEXT, object_pairs_hook=in_order)
    assert [*rows] == sorted(rows)
    for name, row in rows.items():
        assert row.keys() <= KEYS, name
        first, *others = row
        assert (first, others) == ("class", sorted(others)), name


def test_types_of_text_models_are_read() -> None:
    assert {*TEXT_TYPES.values()} <= FAMILIES.keys()


@pytest.mark.parametrize(("name", "stack", "row"), PARTS, ids=IDS)
def test_every_expression_of_a_row_can_be_read(name: str, stack: str, row: Any) -> None:
    assert [*Stack({}, row, name=stack).keys_read()]
    for text in _expressions(row):
        parsed(text)


def _expressions(row: Any) -> Iterator[str]:
    kinds = row.get("kinds", {}).values()
    for part in (row, *kinds, *row.get("alternatives", ())):
        yield from (part[name] for name in (*OF_KIND, "if") if isinstance(part.get(name), str))
    yield from row.get("named", {}).values()


@pytest.mark.parametrize(("name", "stack", "row"), PARTS, ids=IDS)
def test_defaults_are_those_of_the_class(name: str, stack: str, row: Any) -> None:
    of_class = config_class(name)
    assert of_class.__name__ == row["class"] or name == "unknown"
    fields = {field.name: field.default for field in dataclasses.fields(of_class)}
    names = {**Record({}, names=row.get("names")).names}
    wrong = {}
    for key, value in row.get("defaults", {}).items():
        others = names.get(key, (key,))
        given = [fields.get(of_class.attribute_map.get(each, each)) for each in others]
        given = [each for each in given if isinstance(each, int | float | str)]
        if given and value != given[0]:
            wrong[key] = (value, given[0])
    assert wrong == {}


@pytest.mark.parametrize("name", [name for name in FAMILIES if "stacks" not in FAMILIES[name]])
def test_every_key_of_a_class_that_bears_on_position_is_declared_or_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new key of a new transformers is reviewed here, not by those who read such a config."""
    of_class, refused = config_class(name), {*REFUSED.get(name, ())}
    assert unread_fields(name, of_class, FAMILIES[name]) == set()
    monkeypatch.setitem(REFUSED, name, [])
    assert unread_fields(name, of_class, FAMILIES[name]) == refused


SCOPE = Scope(
    value={"heads": 8, "kv.rank": 512, "none": None, "words": ["a", "b"]}.__getitem__,
    functions={"here": lambda value: value[0]},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("heads * 2 + 1", 17),
        ("2 ** -1", 0.5),
        ("-heads // 3", -3),
        ("kv.rank // heads % 10", 4),
        ("none or heads", 8),
        ("none and heads", None),
        ("heads and none or 3", 3),
        ("not none", True),
        ("none is None", True),
        ("heads is not None", True),
        ("'a' in words", True),
        ("heads in (4, 8)", True),
        ("'yes' if heads >= 8 else 'no'", "yes"),
        ("max(heads, 10) + len(words)", 12),
        ("here(words)", "a"),
        ("int(0.75 * heads)", 6),
        ("(heads > 2) == (heads < 9)", True),
    ],
)
def test_an_expression_has_the_value_that_it_has_in_python(text: str, value: Any) -> None:
    assert parsed(text).value(SCOPE) == value


def test_an_expression_names_the_keys_that_it_reads() -> None:
    assert parsed("a.b + max(c, 2) if d else here(e)").names == {"a.b", "c", "d", "e"}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('ls')", "open('x')", "a[0]", "(lambda: 1)()", "[x for x in a]",
        "f'{a}'", "a := 1", "1 < a < 3", "a << 2", "'x'.join(a)", "{1: 2}", "max(a, key=b)", "b'x'",
        "1j", "...",
    ],
)  # fmt: skip
def test_nothing_else_is_an_expression(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        parsed(text)


LISTS = [
    ("words", ["mamba", "attention"], ["mamba", "full_attention"]),
    ("letters", "M*", ["mamba", "full_attention"]),
    ("flags", [0, 1], ["mamba", "full_attention"]),
    ("indices", [1], ["mamba", "full_attention"]),
    ("numbers", [1], ["full_attention", "mamba"]),
    ("cycle", ["mamba"], ["mamba", "mamba"]),
    ("groups", [[["attention"], 2]], ["full_attention", "full_attention"]),
]


@pytest.mark.parametrize(("form", "value", "words"), LISTS, ids=[form for form, *_ in LISTS])
def test_each_form_of_a_list_gives_a_word_for_each_layer(
    form: str, value: Any, words: list[str]
) -> None:
    rule = {"lists": {"layers": form}, "flags": ["mamba", "full_attention"]}
    found = layer_words(Record({"layers": value}), rule, ("full_attention", "mamba"), 2, str)
    assert [*found] == words


def test_notes_have_no_unknown_braces() -> None:
    for match in re.finditer(r"\{(\w[^{}:]*)(?::[^{}]*)?\}", TEXT):
        parsed(match[1])
