"""Checkpoints of real models: strict reading of .safetensors, and the position tables in them."""

from posenc.interop.position_tables import (
    Candidate,
    Confidence,
    PositionTable,
    Relative,
    TableCheck,
    find_position_tables,
    minilm_table,
    read_position_table,
    relative_tables,
    table_shape,
)
from posenc.interop.safetensors_file import (
    PICKLE_CONVERSION,
    TORCHSCRIPT_CONVERSION,
    Header,
    Source,
    TensorEntry,
    TensorRead,
    printable_name,
    read_header,
    read_tensor,
    unreadable_reason,
)

__all__ = [
    "PICKLE_CONVERSION",
    "TORCHSCRIPT_CONVERSION",
    "Candidate",
    "Confidence",
    "Header",
    "PositionTable",
    "Relative",
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
