"""One rope block of a config, of either generation, read as a RoPE config.

A first-generation block is `rope_scaling` with the base and the rotated share beside it; a second-
generation block is `rope_parameters`, which holds them. Which keys a type takes, each scaling says in
its own file; here is only which of them is meant.

One key means more here than in transformers 5.23. Where the blocks of several kinds of layers are nested
in rope_parameters, `truncate` of YaRN is read from the block that it stands in. Its
`_compute_yarn_parameters` looks for it beside those blocks, and so rounds the ramp's ends whatever the
block says. Ours is what the key says; the ladder of such a model in transformers differs from it.
"""

from collections.abc import Mapping

from posenc.errors import ConfigError, ConfigFileError
from posenc.interop.models.block_reader import Around, BlockReader
from posenc.interop.models.keys import Keys
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig

_KINDS = tuple(config for config in SCHEMES.values() if issubclass(config, RopeConfig))
_DEFAULT = RopeConfig.block_types[0]
# By transformers' own words, in the registry's order; the other words of each.
TYPES: Mapping[str, type[RopeConfig]] = {
    kind.block_types[0]: kind for kind in _KINDS if kind.block_types
}
ALIASES: Mapping[str, str] = {
    alias: kind.block_types[0] for kind in _KINDS for alias in kind.block_types[1:]
}
_SCALED = tuple(dict.fromkeys(key for kind in _KINDS for key in kind.block_keys))


def read_block(block: Keys | None, around: Around) -> RopeConfig:
    """Return the RoPE config of a block, or of none. Raises ConfigFileError, naming the key."""
    keys = block or Keys({}, around.outer.path, around.outer)
    reader = BlockReader(keys, around)
    kind = TYPES[_type(keys, around)]
    where = keys.path or "the config"
    try:
        for marked in _marked():
            if kind is marked or reader.has(marked.block_mark):
                # Checked beside another type, too, where text is turned by that type alone.
                found = marked.from_block(reader)
                if kind in (marked, RopeConfig):
                    return found
        scheme = kind.from_block(reader)
        if scheme.rotary_dim > around.ladder_dim:  # p-RoPE, where a part of the head is apart
            raise keys.error(
                "rope_type",
                f"{kind.block_types[0]} makes a ladder of a whole head of {scheme.rotary_dim}, of which "
                f"this model rotates {around.ladder_dim}",
            )
        return scheme
    except ConfigError as error:
        raise ConfigFileError(f"{where} cannot be used: {error}", where) from None


def _marked() -> tuple[type[RopeConfig], ...]:
    """Return the kinds whose blocks may be of type default, too."""
    return tuple(kind for kind in _KINDS if kind.block_mark)


def _type(keys: Keys, around: Around) -> str:
    """Return the block's type, by transformers' own word for it."""
    found = {name: keys.text(name) for name in ("rope_type", "type")}
    words = {
        name: around.types.get(word, ALIASES.get(word, word))
        for name, word in found.items()
        if word is not None
    }
    for name, word in words.items():
        if word not in TYPES:
            accepted = ", ".join((*TYPES, *ALIASES))
            raise keys.error(name, f"must be one of {accepted}, got {found[name]!r:.60}")
        if around.takes and word not in around.takes:
            raise keys.error(
                name,
                f"must be one of {', '.join(around.takes)}, all that transformers takes for this model, "
                f"got {found[name]!r:.60}",
            )
    kinds = set(words.values())
    if len(kinds) == 2 and _DEFAULT in kinds:  # as transformers writes Qwen2-VL's
        other = (kinds - {_DEFAULT}).pop()
        kinds = {other} if TYPES[other].block_mark else kinds
    if len(kinds) > 1:
        raise keys.error(
            "type",
            f"says {words['type']}, but rope_type says {words['rope_type']}; they must agree",
        )
    if kinds:
        return kinds.pop()
    telling = [name for name in _SCALED if keys.record.get(name) is not None]
    if telling:
        raise keys.error(
            "rope_type", f"is missing beside {telling[0]}; it must be one of {', '.join(TYPES)}"
        )
    return _DEFAULT
