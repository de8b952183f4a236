"""The RoPE of one kind of layer, from the rope blocks of a config and the data of its class.

A config has its blocks as `rope_scaling`, with base and share beside it, or as `rope_parameters`,
which holds them and may have one block per kind of layer. The data of a class has these keys:

interleaved: whether pairs are neighbouring features, or an expression of it. clockwise: whether it
  rotates by minus the angle.
share: the default rotated share; absent where the class always rotates the whole head.
  scaled_share: the default where the block scales. share_names: its keys outside of a block.
  share_of_head: whether it may count the whole head, of which a part is rotated. rotary_key: the
  key under which the config may give the rotated width.
base: the default base of all kinds; or bases: by kind of layer, as posenc.models.rope_bases.Base.
blocks: the default block by kind of layer, "" for all kinds. trained_length: the default of
  original_max_position_embeddings. takes: the only types that it takes. types: its own words for a
  type.
type_alone: whether `type` in rope_scaling counts without rope_type. sections: the default of
  mrope_section; needs_sections: whether it counts only where there is no block.
  interleaved_sections: whether its axes take turns. alpha: whether dynamic scaling by alpha is a
  larger base. needs: keys that every block has, and the expressions of their values. needs_kinds:
  kinds of which rope_parameters must have a block or null where it has blocks of kinds.
  scales_softmax: whether the logits are multiplied by the square of YaRN's g(s, mscale_all_dim),
  which a block of any scaling may have. also: keys of a block that change none of this.

Where rope_parameters nests a block per kind of layer, YaRN's `truncate` is read from its block;
transformers 5.23 looks for it outside, and so always rounds the ramp's ends.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from posenc.models.record import Record
from posenc.models.rope_bases import Base, base_of, bases_of
from posenc.models.rope_numbers import NEW, OLD, BlockNumbers, Head, note_unread
from posenc.models.rope_types import DEFAULT, TRAINED
from posenc.schemes.base import NoneConfig
from posenc.schemes.rope import RopeConfig

_USUAL_WORDS = {"full_attention", "sliding_attention"}


def check_blocks(
    record: Record, rope: Mapping[str, Any], kinds: Iterable[str], rotates: Mapping[str, bool]
) -> None:
    """Note the keys that no kind of layer reads, where rope_parameters has a block for each kind.

    rope: of the class. kinds: its words. rotates: by the word of each kind that layers are of.
    Raises ConfigFileError where the block of one that does not rotate is missing: null must stand
    there.
    """
    block, bases = record.section(NEW), bases_of(rope)
    if block is None or not any(isinstance(value, dict) for value in block.content.values()):
        return
    words = {*bases, *kinds}
    if not words.isdisjoint(_USUAL_WORDS):
        words |= _USUAL_WORDS
    unread = {word for word, is_rotated in rotates.items() if not is_rotated}
    for word in rope.get("needs_kinds", ()):
        if word not in block.content and any(rotates.values()):
            raise block.error(word, "is missing: null stands there for layers without RoPE")
    for name, value in block.content.items():
        if name in words - unread:
            continue
        inner = block.section(name) if isinstance(value, dict) else None
        if inner is None:
            note_unread(block, name)
            continue
        for key in inner.content:
            if key != TRAINED:
                note_unread(inner, key)


class BlockReader:
    """Finds the rope block of one kind of layer, and reads it.

    record: the config. rope, bases: the data of its class. word: of the kind of layer. numbers: reads
    the block.
    """

    def __init__(
        self,
        record: Record,
        rope: Mapping[str, Any],
        bases: Mapping[str, Base],
        word: str,
        head: Head,
    ) -> None:
        self.record = record
        self.rope = rope
        self.word = word
        self.bases = bases
        self.is_shared = "" in bases  # one block for all kinds
        self.base = base_of(bases, word)
        self.numbers = BlockNumbers(record, rope, self.base, self.is_shared, head)

    def scheme(self) -> RopeConfig | NoneConfig:
        """Return the scheme. Raises ConfigFileError, also where two blocks disagree."""
        record = self.record
        if record.says(OLD) and not any(base.takes_scaling for base in self.bases.values()):
            raise record.error(OLD, f"is not what this class reads: it takes {NEW} alone")
        new, is_null = self._new_block()
        if is_null:
            return NoneConfig()
        old = record.section(OLD) if self.base.takes_scaling else None
        if old is not None and not old.content:
            old = None
        blocks = [block for block in (new, old) if block is not None]
        if old is not None:
            self._check_type_alone(old)
        is_given = bool(blocks)
        if not is_given:
            blocks = [self._default_block()]
        schemes = [self.numbers.scheme(block, is_given) for block in blocks]
        if schemes[0] != schemes[-1]:
            raise record.error(
                OLD, f"and {record.named(NEW)} are both given and do not agree; keep one of them"
            )
        return schemes[0]

    def _new_block(self) -> tuple[Record | None, bool]:
        """Return the block of rope_parameters, and whether it is null: no RoPE there."""
        block = self.record.section(NEW)
        if block is None:
            return None, False
        if any(isinstance(value, dict) for value in block.content.values()):
            return self._of_kind(block)
        if self.is_shared:
            return block, False
        if not block.content and self.base.may_be_absent:
            return None, False
        raise self.record.error(
            NEW,
            f"must have one entry per kind of layer, such as {self.word}, each an object in braces",
        )

    def _of_kind(self, block: Record) -> tuple[Record | None, bool]:
        """Return the block of this kind of layer, and whether it is null."""
        if self.word not in block.content:
            if self.is_shared or not self.base.may_be_absent:
                default = self.rope.get("blocks", {}).get(self.word)
                raise block.error(
                    self.word,
                    f"is missing; the default of the class is {json.dumps(default)}"
                    if default
                    else "is missing: the layers of this kind have no rope parameters",
                )
            return None, False  # these classes fill a kind that is left out with their default
        if block.content[self.word] is None:
            return None, not self.is_shared
        return block.section(self.word), False

    def _check_type_alone(self, old: Record) -> None:
        word = old.content.get("type")
        if self.rope.get("type_alone", True) or old.content.get("rope_type") is not None:
            return
        if word not in (None, DEFAULT):
            raise old.error(
                "type",
                "does not scale without rope_type beside it in this class: write it as rope_type",
            )

    def _default_block(self) -> Record:
        """Return the block of the class, empty where it has none."""
        blocks = self.rope.get("blocks", {})
        content = blocks.get(self.word) or blocks.get("")
        if not content:
            return Record({}, self.record.path)
        path = self.record.named(NEW if self.is_shared else f"{NEW}.{self.word}")
        self.record.take(path, path, content["rope_type"])
        return Record(content, path)
