"""Reading a position table: its rows, where they come from, which one is chosen, what they hold."""

import hashlib
import math
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.errors import (
    CheckpointError,
    NoPositionTable,
    PickleRefused,
    SchemeArgumentError,
    SeveralPositionTables,
)
from posenc.interop import position_tables
from posenc.interop.position_tables import read_position_table
from posenc.interop.safetensors_file import read_header
from posenc.interop.table_candidates import (
    find_position_tables,
)
from posenc.interop.table_check import TableCheck
from tests.crafted_files import checkpoint
from tests.hostile_files import HOSTILE_FILES, HostileFile
from tests.table_files import file_of, refusal


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
