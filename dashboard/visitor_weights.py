"""Query and key projections of visitors' checkpoints: of one file, of several, or of layers from the Hub.

The other tensors of a checkpoint are left out, so that they take no memory; their names stay.
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from dashboard.visitor_files import MAX_TABLES, UploadCache
from posenc.checkpoints import Checkpoint, read_header
from posenc.checkpoints.excerpt import excerpt
from posenc.checkpoints.safetensors_file import ByteRanges, opened
from posenc.errors import CheckpointError
from posenc.models.model_config import ModelConfig
from posenc.models.projections import projection_names

NAME = r"weights-[0-9a-f]{12}"
MAX_BYTES = 128 * 2**20  # of the projections of all checkpoints
MAX_CHECKPOINT_BYTES = 64 * 2**20  # of those of one
_SHARD = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")
_NOT_HERE = ""  # the file of tensors on the Hub that were not fetched


@dataclass(frozen=True, slots=True, eq=False)
class VisitorWeights:
    """The projections of a checkpoint.

    source: for people. files: the name of the file of each tensor, of those without projections here, too.
    contents: of the files, as .safetensors files without the other tensors. is_hub: whether they were
    fetched from the Hub, a layer at a time.
    """

    source: str
    files: Mapping[str, str]
    contents: Mapping[str, bytes]
    is_hub: bool = False

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint, of which the projections that are here can be read."""

        def open_file(name: str) -> contextlib.AbstractContextManager[ByteRanges]:
            return opened(self.contents[name])

        return Checkpoint(self.files, open_file, self.source)

    @property
    def missing(self) -> list[str]:
        """The files of a checkpoint in parts that were not uploaded."""
        shards = [shard for file in self.contents if (shard := Shard.of(file))]
        if not shards:
            return []
        name, count = shards[0].name, shards[0].count
        whole = [f"{name}-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
        return [file for file in whole if file not in self.contents]

    def has(self, layers: Collection[int]) -> bool:
        """Whether the projections of these layers, as far as there are any, are here."""
        names = projection_names(self.files, layers)
        return all(self.files[name] in self.contents for name in names)

    @property
    def size(self) -> int:
        """Bytes of all contents."""
        return sum(map(len, self.contents.values()))


@dataclass(frozen=True)
class Shard:
    """The name, number and count of a file of a checkpoint in parts."""

    name: str
    number: int
    count: int

    @classmethod
    def of(cls, file: str) -> "Shard | None":
        """Return what the name of a file says, None for a whole checkpoint."""
        match = _SHARD.fullmatch(file)
        if match is None or not 1 <= int(match["number"]) <= int(match["count"]) <= 999:
            return None
        return cls(match["name"], int(match["number"]), int(match["count"]))


def of_file(file: str, content: bytes, before: VisitorWeights | None) -> VisitorWeights:
    """Return the projections of a file; with those of other parts of the same checkpoint before it.

    file: its name. Raises CheckpointError for a file that cannot be read.
    """
    names = [*read_header(content).tensors]
    part = {file: excerpt(content, projection_names(names))}
    files = dict.fromkeys(names, file)
    if before is not None and not before.is_hub and _belongs(file, before):
        others = {name: where for name, where in before.files.items() if where != file}
        contents = {**before.contents, **part}
        return VisitorWeights(_listed(contents), {**others, **files}, contents)
    return VisitorWeights(file, files, part)


def of_layers(
    checkpoint: Checkpoint, layers: Collection[int], before: VisitorWeights | None
) -> VisitorWeights:
    """Return the projections of some layers, of which alone bytes are read; with those read before.

    Raises CheckpointError.
    """
    wanted: dict[str, list[str]] = {}
    for name in projection_names(checkpoint.files, layers):
        wanted.setdefault(checkpoint.files[name], []).append(name)
    files, contents = dict.fromkeys(checkpoint.files, _NOT_HERE), {}
    for file, names in wanted.items():
        place = f"{file}, layers {sorted(layers)}"
        with checkpoint.open_file(file) as source:
            contents[place] = excerpt(source, names)
        files |= dict.fromkeys(names, place)
    new = VisitorWeights(checkpoint.label, files, contents, is_hub=True)
    if before is None or not before.is_hub or {*before.files} != {*files}:
        return new
    if before.source != new.source or before.size + new.size > MAX_CHECKPOINT_BYTES:
        return new
    here = {name: place for name, place in before.files.items() if files[name] == _NOT_HERE}
    return VisitorWeights(
        new.source, {**files, **here}, {**before.contents, **contents}, is_hub=True
    )


def layers_of(model: ModelConfig, layer: int) -> tuple[int, ...]:
    """Return the layers whose projections a layer uses: its own, and that whose keys it shares."""
    kind = next(kind for kind in model.layer_kinds if layer in kind.layers)
    source = kind.facts.source
    return (layer,) if source is None else (layer, source)


def _belongs(file: str, before: VisitorWeights) -> bool:
    """Whether a file is a part of the same checkpoint as those before it."""
    shard = Shard.of(file)
    others = [Shard.of(other) for other in before.contents]
    return shard is not None and all(
        other is not None and (other.name, other.count) == (shard.name, shard.count)
        for other in others
    )


def _listed(files: Iterable[str]) -> str:
    names = sorted(files)
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


cached_weights: UploadCache[VisitorWeights] = UploadCache(
    MAX_TABLES, MAX_BYTES, lambda weights: weights.size
)


def cache_weights(weights: VisitorWeights, owner: str | None = None) -> str:
    """Cache projections and return their name, which is the same in every process.

    Raises CheckpointError for more than 64 MiB of them.
    """
    if weights.size > MAX_CHECKPOINT_BYTES:
        raise CheckpointError(
            f"The projections of a checkpoint may have at most {MAX_CHECKPOINT_BYTES // 2**20} MiB here, "
            f"these have {weights.size / 2**20:,.0f} MiB; the command posenc pairs reads more."
        )
    content = hashlib.sha256(repr((weights.source, *weights.files.items())).encode())
    for file, part in weights.contents.items():
        content.update(f"\0{file}\0".encode())
        content.update(part)
    name = f"weights-{content.hexdigest()[:12]}"
    cached_weights.put(name, weights, owner)
    return name
