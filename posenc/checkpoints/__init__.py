"""Position tables, parameters, projections: strict reading of .safetensors and .npy files, and the Hub."""

from posenc.checkpoints.find_tables import (
    Candidate,
    Confidence,
    find_position_tables,
    table_shape,
)
from posenc.checkpoints.hub import hub_is_enabled, hub_table
from posenc.checkpoints.position_table import (
    PositionTable,
    minilm_table,
    read_position_table,
)
from posenc.checkpoints.safetensors_file import (
    PICKLE_CONVERSION,
    FileSource,
    Header,
    TensorEntry,
    TensorRead,
    read_header,
    read_tensor,
    unreadable_reason,
)
from posenc.checkpoints.sharded import Checkpoint, hub_checkpoint, local_checkpoint
from posenc.checkpoints.sources import named_table

__all__ = [
    "PICKLE_CONVERSION",
    "Candidate",
    "Checkpoint",
    "Confidence",
    "FileSource",
    "Header",
    "PositionTable",
    "TensorEntry",
    "TensorRead",
    "find_position_tables",
    "hub_checkpoint",
    "hub_is_enabled",
    "hub_table",
    "local_checkpoint",
    "minilm_table",
    "named_table",
    "read_header",
    "read_position_table",
    "read_tensor",
    "table_shape",
    "unreadable_reason",
]
