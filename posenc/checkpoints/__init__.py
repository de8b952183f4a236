"""Position tables and parameters in files: strict reading of .safetensors and .npy, and the Hub."""

from posenc.checkpoints.find_tables import (
    Candidate,
    Confidence,
    Relative,
    find_position_tables,
    relative_tables,
    table_shape,
)
from posenc.checkpoints.hub import hub_is_enabled, hub_table
from posenc.checkpoints.position_table import (
    PositionTable,
    TableCheck,
    minilm_table,
    read_position_table,
)
from posenc.checkpoints.safetensors_file import (
    PICKLE_CONVERSION,
    TORCHSCRIPT_CONVERSION,
    Header,
    Source,
    TensorEntry,
    TensorRead,
    read_header,
    read_tensor,
    unreadable_reason,
)
from posenc.checkpoints.sources import named_table
from posenc.errors import NoPositionTable, PickleRefused, SeveralPositionTables
from posenc.text import printable_name

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
    "hub_is_enabled",
    "hub_table",
    "minilm_table",
    "named_table",
    "printable_name",
    "read_header",
    "read_position_table",
    "read_tensor",
    "relative_tables",
    "table_shape",
    "unreadable_reason",
]
