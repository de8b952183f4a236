"""The word of every layer, such as mamba: by a list of the config, or by its class.

The rule of a class is data:

lists: keys that list the layers, each with the form of its list; by default layer_types, where the
  class has several kinds. The first that the config has counts. words: a word for each layer;
  cycle: words that repeat; letters: a text of a letter for each layer; groups: lists of words, each
  with its count; flags: the index of a word of `flags` for each layer; indices, numbers: the layers
  of the second word of `flags`, counted from 0 or from 1; any indices: the same, and others than
  those of the layers have no effect.
word: without such a list, an expression of the index of a layer and of the number of layers.
words: other names of a word. last: the word of the last layer in any case. required: without a list
  the config is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from posenc import fields
from posenc.models.config_json import as_json
from posenc.models.record import MAX_LAYERS, Record

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
INDEXED, MLP, NO_ROPE = "indexed_attention", "mlp", "no_rope"
# Words of configs of all ages, and the letters of Nemotron-H.
_OTHER_WORDS = {
    "attention": FULL,
    "moe": MLP,
    "linear": "linear_attention",
    "*": FULL,
    "M": "mamba",
    "-": MLP,
    "E": MLP,
}
WordOf = Callable[[int], str]


def lists_of(rule: Mapping[str, Any], kinds: Collection[str]) -> Mapping[str, str]:
    """Return the keys that list the layers, each with its form. rule: of the class. kinds: its words."""
    lists: Mapping[str, str] = rule.get("lists", {"layer_types": "words"} if len(kinds) > 1 else {})
    return lists


def layer_words(
    record: Record, rule: Mapping[str, Any], kinds: Collection[str], count: int, word_of: WordOf
) -> tuple[str, ...]:
    """Return the word of each of `count` layers.

    rule: of the class. kinds: its words. word_of: returns the word of a layer that no list gives.
    Raises ConfigFileError where a list of the config does not fit.
    """
    words = _listed(record, rule, kinds, count)
    if words is None:
        if rule.get("required"):
            key = next(iter(rule["lists"]))
            raise record.error(key, f"is missing; it must list the layers by {' and '.join(kinds)}")
        words = [word_of(index) for index in range(count)]
    return (*words[:-1], rule.get("last", words[-1]))


def _listed(
    record: Record, rule: Mapping[str, Any], kinds: Collection[str], count: int
) -> list[str] | None:
    """Return the words by the first list that the config has, or None."""
    for name, form in lists_of(rule, kinds).items():
        key, entries = record.raw(name)
        if entries is None:
            entries = record.defaults.get(name)
        if entries is None or (entries == [] and form == "flags"):
            continue  # an empty list of flags stands for the default, as in Llama 4's class
        if not isinstance(entries, str if form == "letters" else list):
            problem = f"must be a list with an entry per layer, got {as_json(entries)}"
            raise record.error(key, problem)
        if form in ("indices", "any indices", "numbers"):
            first = int(form == "numbers")
            last = MAX_LAYERS if form == "any indices" else count + first - 1
            numbers = fields.Numbers(low=first, high=last, least=0, most=count, whole=True)
            listed = record.checked(key, entries, numbers) if record.says(name) else entries
            other, own = rule["flags"]
            return [own if index + first in listed else other for index in range(count)]
        known = (
            dict(enumerate(rule["flags"]))
            if form == "flags"
            else _OTHER_WORDS | rule.get("words", {})
        )
        if form == "groups" and isinstance(entries, list):
            entries = _repeated(entries)
        if form == "cycle" and entries:
            entries = [entries[index % len(entries)] for index in range(count)]
        if len(entries) != count:
            problem = f"must have {count:,} entries, one per layer, got {len(entries):,}"
            raise record.error(key, problem)
        own = rule.get("words", {}) if form != "flags" else known
        allowed = [*kinds, *(str(name) for name in own)]
        return [
            _word(record, f"{key}[{index}]", entry, known, kinds, allowed)
            for index, entry in enumerate(entries)
        ]
    return None


def _word(
    record: Record,
    key: str,
    entry: Any,
    known: Mapping[Any, str],
    kinds: Collection[str],
    allowed: Sequence[str],
) -> str:
    """Return the word of an entry of a list.

    known: words by other names or numbers. allowed: the names that an error lists.
    """
    is_plain = isinstance(entry, str | int) and not isinstance(entry, bool)
    word = known.get(entry, entry) if is_plain else entry
    if not is_plain or word not in kinds:
        raise record.error(key, f"must be one of {', '.join(allowed)}, got {as_json(entry)}")
    return str(word)


def _repeated(groups: list[Any]) -> list[str]:
    """Return GPT-Neo's lists of words, each with its count, as one list; [] for other forms."""
    try:
        counts = [(names, min(int(times), MAX_LAYERS)) for names, times in groups]
        return [word for names, times in counts for _ in range(times) for word in names]
    except (TypeError, ValueError):
        return []
