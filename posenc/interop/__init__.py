"""Checkpoints of real models: strict reading of .safetensors, and the position tables in them."""

from posenc.errors import NoPositionTable, PickleRefused, SeveralPositionTables
from posenc.interop.foreign_files import PICKLE_CONVERSION, TORCHSCRIPT_CONVERSION
from posenc.interop.position_tables import PositionTable, minilm_table, read_position_table
from posenc.interop.safetensors_file import (
    Source,
    TensorRead,
    read_header,
    read_tensor,
    unreadable_reason,
)
from posenc.interop.safetensors_header import Header, TensorEntry
from posenc.interop.shown_name import printable_name
from posenc.interop.table_candidates import (
    Candidate,
    Confidence,
    Relative,
    find_position_tables,
    relative_tables,
    table_shape,
)
from posenc.interop.table_check import TableCheck

__all__ = [
    "PICKLE_CONVERSION",
    "TORCHSCRIPT_CONVERSION",
    "Candidate",
    "Confidence",
    "Header",
    "NoPositionTable",
    "PickleRefused",
    "PositionTable",
    "Relative",
    "SeveralPositionTables",
    "Source",
    "TableCheck",
    "TensorEntry",
    "TensorRead",
    "find_position_tables",
    "minilm_table",
    "printable_name",
    "read_header",
    "read_position_table",
    "read_tensor",
    "relative_tables",
    "table_shape",
    "unreadable_reason",
]
