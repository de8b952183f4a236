"""Position tables in a checkpoint's header, found by name and shape.

Row of position 0: RoBERTa, BART and OPT begin at padding_idx + 1 = 2 (Liu et al. 2019, arXiv 1907.11692);
vision transformers have a class token in row 0 (Dosovitskiy et al. 2020, arXiv 2010.11929) and DeiT a
distillation token in row 1 (Touvron et al. 2020, arXiv 2012.12877).
"""

import math
import re
from dataclasses import dataclass
from enum import IntEnum

from posenc.checkpoints.safetensors_file import Header, TensorEntry, unreadable_reason
from posenc.errors import NoPositionTable
from posenc.text import first_of, printable_name

MAX_POSSIBLE = 32  # tables offered by shape alone; a model holds hundreds of matrices


class Confidence(IntEnum):
    """The evidence by which a candidate was recognised, weakest first."""

    POSSIBLE = 1  # a matrix of an unknown name
    NAMED = 2  # the name speaks of positions
    KNOWN = 3  # name and shape of a known family


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor that may be a position table; position 0 is row `first_row`."""

    name: str
    rows: int
    width: int
    first_row: int
    family: str
    note: str | None
    confidence: Confidence


# The end of a name, its family, and the rule for the row of position 0, which `_first_row` applies; by
# "none" it is row 0.
_FAMILIES = (
    (
        r"(?:(?:xlm_)?roberta(?:_prelayernorm|_xl)?|camembert|longformer|luke|mpnet|esm|ibert|lilt"
        r"|data2vec_text|layoutlmv3|markuplm|xmod|yoso)\.embeddings\.position_embeddings\.weight",
        "RoBERTa",
        "offset",
    ),
    (r"embeddings\.position_embeddings\.weight", "BERT", "offset by shape"),
    (r"(?:transformer\.)?wpe\.weight", "GPT-2", "none"),
    (r"scheme\.weight", "a run of posenc.lab", "none"),
    (r"(?:positions_embed|position_embeds_layer)\.weight", "GPT", "none"),
    (r"embed_positions\.weight", "Whisper and kin", "offset by shape"),
    (r"audio_spectrogram_transformer\.embeddings\.position_embeddings", "AST", "two tokens"),
    (r"text_model\.embeddings\.position_embedding\.weight", "CLIP text", "none"),
    (r"(?:vision_model\.)?embeddings\.position_embedding(?:\.weight)?", "CLIP", "grid"),
    (r"(?:visual|vision_\w+)\.positional_embedding", "CLIP", "grid"),
    (r"positional_embedding", "CLIP text or Whisper", "none"),
    (r"position_embeddings|(?:decoder_)?pos_embed(?:\.weight)?|pos_embedding", "ViT", "grid"),
    (r"position\.weight", "posenc", "none"),
)
# A part of a name of a table of offsets, which is not a position table, and what it holds.
_RELATIVE = {
    r"relative_attention_bias": "T5's bias per head and bucket of offsets",
    r"relative_position_bias(?:_table)?": "Swin's bias per head and offset on a grid",
    r"(?:rel_embeddings|rel_pos_emb)": "vectors per offset",
    r"rel_pos_[hwt]": "vectors per offset along one axis of a grid",
    r"(?:distance_embedding|emb_rel_[kv]|relative_[kv])": "Shaw's vectors per offset",
    r"(?:r_[rw]_bias|pos_bias_[uv])": "Transformer-XL's biases",
    r"inv_freq": "frequencies of rotary positions",
    r"(?:alibi|slopes)": "ALiBi's slopes",
}
_SPEAKS_OF_POSITION = re.compile(
    r"(?:^|[._])(?:pos(?:ition(?:al|s)?)?_?(?:(?:emb|enc|table)\w*)?|pe)"
    r"(?:\.(?:weights?|emb|embed|embedding|pe|position_\w+|\d+))*$"
)
_ONE_IMAGE_AXIS = re.compile(r"(?:^|[._])(?:(?:[xyhw]|row|col|column)_pos|(?:row|column)_embed)")
_IN_A_LAYER = re.compile(r"\.\d+\.")
# Object queries, Fourier matrices, hash buckets; token tables; the matrices of layers.
_NOT_OF_POSITION = re.compile(
    r"query_position|shared_(?:image_)?embedding|char_position|tile_|_token(?:$|\.)|proj(?:ect|$|\.)"
    r"|(?:^|[._])(?:word|words|token|tokens|tok|wte|shared|segment|type|types)(?:$|[._])"
    r"|(?:^|[._])(?:attn|attention|self_attn|mlp|ffn|fc|fc\d|dense|linear|proj|projection|query|key"
    r"|value|qkv|[qkvo]|wi|wo|wi_[01]|head|lm_head|classifier|pooler|experts?|gate|router|conv\d?|norm"
    r"|layer_?norm|ln_\w+|lora_\w+)(?:$|[._])",
    re.IGNORECASE,
)


def table_shape(entry: TensorEntry) -> tuple[int, int, str | None]:
    """Return rows, width and a note on dropped leading axes of size 1. Raises NoPositionTable."""
    shape = list(entry.shape)
    while len(shape) > 2 and shape[0] == 1:
        shape.pop(0)
    problems = {
        "has nothing to show: it is no table of rows": len(shape) < 2 or 0 in shape,
        "is listed only: a position table has two axes": len(shape) > 2,
        "is listed only: rows of one number have no direction": shape[1:] == [1],
        "has nothing to show: one row cannot be compared": shape[:1] == [1],
    }
    problem = next((problem for problem, applies in problems.items() if applies), None)
    if problem is not None:
        label = f"Tensor {printable_name(entry.name)} {list(entry.shape)}"
        raise NoPositionTable(f"{label} {problem}.")
    dropped = len(entry.shape) - 2
    return shape[0], shape[1], "The leading axis of size 1 was dropped." if dropped else None


def find_position_tables(header: Header) -> list[Candidate]:
    """Return the tensors that may be position tables, best first, then in the file's order.

    At most 32 matrices of unknown name are returned. Raises NoPositionTable where there is no candidate.
    """
    candidates = list(filter(None, map(candidate_of, header.tensors.values())))
    if not candidates:
        raise NoPositionTable(_why_none(header))
    candidates.sort(key=lambda candidate: -candidate.confidence)  # stable
    named = sum(candidate.confidence > Confidence.POSSIBLE for candidate in candidates)
    return candidates[: named + MAX_POSSIBLE]


def best_candidates(header: Header) -> list[Candidate]:
    """Return the candidates of the highest confidence. Raises NoPositionTable."""
    candidates = find_position_tables(header)
    return [entry for entry in candidates if entry.confidence == candidates[0].confidence]


def relative_table(name: str) -> str | None:
    """Return what the tensor of a relative scheme (T5, Swin, Shaw, ...) holds, None for another name."""
    parts = ((rf"(?:^|[._]){part}(?:$|[._])", content) for part, content in _RELATIVE.items())
    return next((content for pattern, content in parts if re.search(pattern, name)), None)


def _family(name: str) -> tuple[str, str] | None:
    """Return the family and the rule for its first row by the end of a tensor's name."""
    return next(
        (
            (family, rule)
            for ending, family, rule in _FAMILIES
            if re.search(rf"(?:^|\.)(?:{ending})$", name)
        ),
        None,
    )


def candidate_of(entry: TensorEntry) -> Candidate | None:
    """Return a tensor as a candidate, or None where it cannot be a position table."""
    name = entry.name
    if unreadable_reason(entry) or relative_table(name) or _NOT_OF_POSITION.search(name):
        return None
    try:
        rows, width, _ = table_shape(entry)
    except NoPositionTable:
        return None
    known, first_row, note, confidence = _family(name), 0, None, Confidence.NAMED
    if known is not None:
        first_row, family, note = _first_row(rows, *known)
        confidence = Confidence.KNOWN
    elif _ONE_IMAGE_AXIS.search(name):
        family, note = "one image axis", "Positions along one axis of a page or image."
    elif _SPEAKS_OF_POSITION.search(name):
        family = "position table by its name"
    elif _IN_A_LAYER.search(name):
        return None
    else:
        family, note = "possible", "Offered for its shape alone; its name is unknown."
        confidence = Confidence.POSSIBLE
    if rows - first_row < 2:
        return None
    return Candidate(name, rows, width, first_row, family, note, confidence)


def _first_row(rows: int, family: str, rule: str) -> tuple[int, str, str | None]:
    offset = f"The first 2 of {rows:,} rows are not positions (padding_idx + 1 = 2)."
    if rule == "offset":
        return 2, family, offset
    if rule == "offset by shape":
        # n + 2 rows for a round n: 514, 1,026, 2,050, 4,098. The names of these families are alike.
        if rows % 64 == 2 and rows > 64:
            family = "RoBERTa" if family == "BERT" else "BART, OPT and kin"
            sign = f" Recognised by {rows:,} = {rows - 2:,} + 2; give first_row=0 if that is wrong."
            return 2, family, offset + sign
        return 0, family, None
    if rule == "two tokens":
        return 2, family, "Rows 0 and 1 are the class token and the distillation token."
    return _grid(rows, family) if rule == "grid" else (0, family, None)


def _grid(rows: int, family: str) -> tuple[int, str, str | None]:
    tokens = (
        "",
        "Row 0 is the class token; ",
        "Rows 0 and 1 are the class and distillation tokens; ",
    )
    for extra, prefix in enumerate(tokens):
        positions = rows - extra
        side = math.isqrt(positions)
        if side > 1 and side * side == positions:
            note = f"{prefix}the {positions:,} positions fit a {side} x {side} grid, row by row."
            return extra, family, note[0].upper() + note[1:]
    if family == "CLIP":  # 77 rows: a text model saved without its prefix
        return 0, "CLIP text", None
    note = "The rows fit no square grid; row 0 may be a class token (then give first_row=1)."
    return 0, family, note


def _why_none(header: Header) -> str:
    for name in header.tensors:
        content = relative_table(name)
        if content is not None:
            return (
                f"The file holds no position table: {printable_name(name)} holds {content}, and "
                "belongs to offsets, not to positions."
            )
    for entry in header.tensors.values():
        if _family(entry.name) is not None:
            reason = unreadable_reason(entry)
            if reason is not None:
                return f"The file holds no position table that can be read. {reason}"
            table_shape(entry)  # raises with the reason, unless it is too short to hold a position
    if not header.tensors:
        return "The file holds no tensors, so there is nothing to show."
    names = [
        f"{printable_name(entry.name, 40)} {list(entry.shape)}" for entry in header.tensors.values()
    ]
    return f"The file holds no position table; it holds {first_of(names, 3)}."
