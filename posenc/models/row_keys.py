"""The keys of a config that a class declares, by the expressions and lists of its row.

See posenc.models.stack for the keys of a row.
"""

from collections.abc import Mapping
from typing import Any

from posenc.models.expressions import parsed
from posenc.models.family import Row
from posenc.models.layer_words import lists_of
from posenc.models.templates import expressions_in

# The facts of a kind of layer where a row says nothing else.
OF_KIND: Mapping[str, str] = {
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads or heads",
    "head_dim": "head_dim or per_head(hidden_size)",
    "rope_dim": "head_dim",
    "value_dim": "head_dim",
    "cache": "kv_heads * (head_dim + value_dim)",
    "scale": "head_dim ** -0.5",
    "window": "None",
    "state": "0",
    "rows": "None",
    "rotates": "rotates",
    "softcap": "None",
    "sinks": "False",
    "chunked": "False",
    "bias_scale": "1.0",
    "growth": "0.0",
    "growth_length": "1",
    "growth_first": "0",
}
# The facts of a stack where a row says nothing else.
OF_STACK: Mapping[str, str] = {
    "causal": "True",
    "context": "max_position_embeddings",
    "trained": "None",
    "shared": "0",
}
_NO_FACTS: Row = {}
ONE_KIND: Row = {"full_attention": _NO_FACTS}
_NAMES = frozenset(("index", "layers", "rotates", "causal"))  # names that are no keys


def declared_keys(row: Row) -> set[str]:
    """Return the keys that a class declares, but for those of rope blocks."""
    layers, of = row.get("layers", {}), {**OF_KIND, **OF_STACK, **row}
    kinds: Row = row.get("kinds", ONE_KIND)
    names = {
        "hidden_size",
        *row.get("also", ()),
        row.get("layer_bases", "hidden_size"),
    }
    names |= {*lists_of(layers, kinds), *row.get("rope_layers", {}).get("lists", ())}
    names |= row.get("must_be", {}).keys() | row.get("agree", {}).keys()
    for kind in (_NO_FACTS, *kinds.values()):
        for place, name in enumerate(OF_KIND):
            names |= keys_in(row, kind.get(name, of[name]), place)
    checks = row.get("must_be", {}).values()
    expressions = [
        *(of[name] for name in OF_STACK),
        *(part["if"] for part in row.get("alternatives", ())),
        *expressions_in([each for each in checks if isinstance(each, Mapping)]),
        *(text for texts in row.get("agree", {}).values() for text in texts),
        layers.get("count", "num_hidden_layers"),
    ]
    later = [
        *(each for name, each in row.get("position", {}).items() if name != "kind"),
        layers.get("word"),
        row.get("rope_layers", {}).get("word"),
        (row.get("rope") or {}).get("interleaved"),
        *expressions_in((*row.get("notes", ()), *row.get("about", ()))),
        *(each for kind in kinds.values() for each in expressions_in(kind.get("notes", ()))),
    ]
    names |= {key for each in expressions for key in keys_in(row, each, 0)}
    names |= {key for each in later for key in keys_in(row, each, len(OF_KIND))}
    return names


def keys_in(row: Row, expression: Any, known: int) -> set[str]:
    """Return the keys that an expression reads. known: how many facts are known before it."""
    if not isinstance(expression, str):
        return set()
    named, facts = row.get("named", {}), {*list(OF_KIND)[:known]}
    keys = set()
    for name in parsed(expression).names - facts - _NAMES:
        keys |= keys_in(row, named[name], known) if name in named else {name}
    return keys
