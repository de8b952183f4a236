"""Write the rows of model types from the installed transformers and from what is stated of them.

`python -m tests.models.generate_families` writes families.json, others.json and causal_types.json; with
names of types behind it, it prints their expressions with their values, and writes nothing.

A row is what its class shows, with what stated_families.json states of the type laid over it (null takes
an entry away): the class and the defaults come from its fields, other names of keys from its
attribute_map, layout and direction from a run, blocks and the names of keys outside of them from configs
that it makes. Everything else is stated: kinds of layers, expressions, notes. Nothing is written where a
field of a class bears on position and the row neither reads it nor promises that it changes nothing.
"""

import copy
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import posenc.models.family as family
from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.expressions import parsed
from posenc.models.family import merged
from posenc.models.position_keys import bears_on_position
from posenc.models.row_keys import OF_KIND, declared_keys
from posenc.models.stack import Stack
from tests.models.probe_rope import BASES, SHARES, outer_keys
from tests.models.published_models.establish import establish
from tests.models.row_text import file_text

FOLDER = Path(family.__file__).parent / "data"
CAUSAL_TYPES = Path(__file__).with_name("causal_types.json")
STATED = json.loads(Path(__file__).with_name("stated_families.json").read_text("utf-8"))
# What a class needs to run: its defaults do not work, or name one kind of layer alone.
RUN_WITH: dict[str, dict[str, Any]] = STATED["run with"]
# Attention of these classes reads a head_dim, though their configuration classes have no such field.
READS_HEAD_DIM: list[str] = STATED["reads head_dim"]
# Fields that are refused where they say something: with them a class works otherwise, or what it does
# with them is not established.
REFUSED: dict[str, list[str]] = STATED["refused"]
FEW = 8  # layers of a class that is run
RUN_WHOLE = ("gemma3n_text",)  # it shares keys among more layers
# Keys of rope blocks and beside them, whose defaults stand in the blocks.
_OF_BLOCKS = {
    *BASES,
    *SHARES,
    "rope_parameters",
    "rope_scaling",
    "original_max_position_embeddings",
}


def config_class(model_type: str) -> Any:
    """Return the class of transformers, None where it has none of this name."""
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type] if model_type in CONFIG_MAPPING else None  # noqa: SIM401, it has no get


def row(model_type: str) -> dict[str, Any]:
    """Return the row of a model type."""
    stated, of_class = STATED["rows"][model_type], config_class(model_type)
    if isinstance(stated, str):  # the type that has the same row
        return row(stated)
    if of_class is None:
        return stated
    made: dict[str, Any] = {"class": of_class.__name__}
    if "position" not in stated and stated.get("rotates") != "False":
        made["rope"] = rope(model_type)
    if own := other_names(of_class, laid_over(made, stated)):
        made["names"] = own
    made |= with_defaults(of_class, laid_over(made, stated))
    whole = in_order(laid_over(made, stated))
    if unread := unread_fields(model_type, of_class, whole):
        raise ValueError(
            f"{of_class.__name__} has {', '.join(sorted(unread))}, which bears on position: read it in "
            f"the row of {model_type}, promise under also that it changes nothing, or list it as refused"
        )
    return whole


def laid_over(made: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with another's entries in place of its own; null takes an entry away.

    Bases are stated whole: there null is a value.
    """
    joined = dict(made)
    for name, value in stated.items():
        if value is None:
            joined.pop(name)
        elif isinstance(value, dict) and isinstance(made.get(name), dict) and name != "bases":
            joined[name] = laid_over(made[name], value)
        else:
            joined[name] = value
    return joined


def rope(model_type: str) -> dict[str, Any]:
    """Return the RoPE of a class: layout and direction of a run, base, share and blocks of its defaults."""
    sizes = {} if model_type in RUN_WHOLE else {"num_hidden_layers": FEW}
    kinds = establish({"config": default_config(model_type, **sizes)})["kinds"]
    found: dict[str, Any] = {}
    if {kind["layout"] for kind in kinds if "layout" in kind} == {"interleaved"}:
        found["interleaved"] = True
    if any("clockwise" in kind for kind in kinds):
        found["clockwise"] = True
    needs = RUN_WITH.get(model_type, {})
    block = dict(getattr(config_class(model_type)(), "rope_parameters", None) or {})
    default = block or needs.get("rope_parameters", {})
    found |= outer_keys(model_type, needs, default)
    by_kind = {kind: inner for kind, inner in block.items() if isinstance(inner, dict)}
    if by_kind:
        return found | {"blocks": by_kind}
    if "partial_rotary_factor" in block:
        found["share"] = block["partial_rotary_factor"]
    if block.get("rope_type", "default") != "default":
        left_out = {"rope_theta", "partial_rotary_factor", "type"}
        found["blocks"] = {"": {key: block[key] for key in sorted({*block} - left_out)}}
    return found


def other_names(of_class: Any, row: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of each key that a class reads under several, its own first.

    A key that two expressions of the row read under two names keeps both apart.
    """
    parts = [merged(row, part) for part in row.get("stacks", {"": {}}).values()]
    read = {key for part in parts for key in declared_keys({**part, "also": ()})}
    stated = [{*part.get("names", {})} for part in row.get("stacks", {}).values()]
    read -= set.intersection(*stated) if stated else set()
    others: dict[str, list[str]] = {}
    for other, name in of_class.attribute_map.items():
        others.setdefault(name, [name]).append(other)
    groups = {name: (read & {*names}, names) for name, names in others.items()}
    return {min(keys): names for keys, names in groups.values() if len(keys) == 1}


def with_defaults(of_class: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a class: those that all stacks share, and those of each."""
    # A check of a key by an expression takes no default, and a promise on a key reads none.
    lists = {key: rule for key, rule in row.get("must_be", {}).items() if isinstance(rule, list)}
    bare = {name: value for name, value in row.items() if name != "also"} | {"must_be": lists}
    by_stack = {stack.name: defaults(of_class, stack) for stack in stacks(bare)}
    first = next(iter(by_stack.values()))
    shared = {
        name: value
        for name, value in first.items()
        if all(name in each and each[name] == value for each in by_stack.values())
    }
    if "stacks" not in row:
        return {"defaults": shared}
    own = {
        stack: {name: value for name, value in each.items() if name not in shared}
        for stack, each in by_stack.items()
    }
    return {
        "defaults": shared,
        "stacks": {stack: {"defaults": each} if each else {} for stack, each in own.items()},
    }


def defaults(of_class: Any, stack: Stack) -> dict[str, Any]:
    """Return the defaults of a class for the keys that a stack reads."""
    fields = {field.name: field.default for field in dataclasses.fields(of_class)}
    names = stack.record.names
    spelled = {each for name in names for each in names[name]} - {*names}
    read = {*stack.keys_read()} | parsed(stack.row.get("first_row", "0")).names
    found: dict[str, Any] = {}
    for name in {*read, *names} - spelled - _OF_BLOCKS:
        others = names.get(name, (name,))
        values = [fields.get(of_class.attribute_map.get(each, each)) for each in others]
        given = [value for value in values if isinstance(value, bool | int | float | str)]
        if given and read & {*others}:
            found[name] = given[0]
    return found


def in_order(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its keys, and those of some of its parts, in the order of their names."""
    first = {"class": row["class"]} if "class" in row else {}
    ordered = first | {name: row[name] for name in sorted({*row} - {"class"})}
    for name in {"defaults", "names", "rope"} & {*row}:
        ordered[name] = json.loads(json.dumps(row[name], sort_keys=True))
    if "stacks" in row:
        ordered["stacks"] = {stack: in_order(part) for stack, part in row["stacks"].items()}
    return ordered


def stacks(row: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> list[Stack]:
    """Return each stack of a row, with a config or an empty one."""
    parts = row.get("stacks", {"": {}})
    return [Stack(config or {}, merged(row, part), name=name) for name, part in parts.items()]


def unread_fields(model_type: str, of_class: Any, row: Mapping[str, Any]) -> set[str]:
    """Return the fields of a class that bear on position and are neither read nor promised or refused."""
    declared: set[str] = set()
    for stack in stacks(row, default_config(model_type)):
        stack.layers()
        declared |= {*stack.keys_read()}
    declared |= {of_class.attribute_map.get(key, key) for key in declared}
    fields = {field.name for field in dataclasses.fields(of_class) if bears_on_position(field.name)}
    return fields - declared - {*REFUSED.get(model_type, ())}


def explained(model_type: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield each expression of a row with its value at the defaults of its class."""
    for stack in stacks(row, default_config(model_type)):
        place = f"{model_type} {stack.name}".strip()
        layers = stack.layers()
        words = [(len(each.indices), each.word) for each in layers]
        yield f"{place}: layers: {', '.join(f'{count} {word}' for count, word in words)}"
        for name, text in stack.row.get("layers", {}).items():
            if name in ("word", "count"):
                yield f"{place}: layers: {name}: {text}"
        for each in layers:
            stack.indices, stack.facts = each.indices, dict(each.facts)
            kind = stack.row.get("kinds", {}).get(each.word, {})
            own = {name: stack.row[name] for name in OF_KIND if name in stack.row} | kind
            texts = {name: own[name] for name in OF_KIND if isinstance(own.get(name), str)}
            texts |= {
                name: stack.row[name]
                for name in ("context", "trained", "shared")
                if name in stack.row
            }
            texts |= stack.row.get("named", {})
            for key, allowed in stack.row.get("agree", {}).items():
                texts |= {f"{key} agrees with": text for text in allowed}
            texts |= {
                key: text for key, text in stack.row.get("position", {}).items() if key != "kind"
            }
            checks = stack.row.get("must_be", {}).items()
            texts |= {f"{key} is wrong": c["if"] for key, c in checks if isinstance(c, dict)}
            for name, text in texts.items():
                yield f"{place}: {each.word}: {name}: {text} = {stack.value(text)}"


def others(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return what others.json has: the kinds of types without a row, and stated reasons."""
    from tests.models.generate_model_types import kinds

    return {"kinds": kinds({*rows}) | STATED["kinds"], **STATED["others"]}


def causal_types() -> tuple[str, ...]:
    """Return the model types that transformers can generate text with."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def default_config(model_type: str, **sizes: int) -> dict[str, Any]:
    """Return the config that a class makes of its defaults, of the text model where it is nested."""
    needs = copy.deepcopy(RUN_WITH.get(model_type, {}))
    built = config_class(model_type)(**sizes | needs)
    text = built.get_text_config(decoder=True)
    return json.loads(json.dumps(text.to_dict(), default=str)) | {"model_type": text.model_type}


def outcome(model_type: str) -> str:
    """Return whether such a config is read, or why not."""
    try:
        read_config(default_config(model_type))
    except ConfigFileError as error:
        return error.problem
    return "read"


def main(names: list[str]) -> None:
    if names:
        for name in names:
            print(*explained(name, row(name)), sep="\n")
        return
    rows = {name: row(name) for name in sorted(STATED["rows"])}
    (FOLDER / "families.json").write_text(file_text(rows), "utf-8")
    text = json.dumps(others(rows), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (FOLDER / "others.json").write_text(text, "utf-8")
    lines = (f"{json.dumps(name)}: {json.dumps(outcome(name))}" for name in causal_types())
    CAUSAL_TYPES.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
