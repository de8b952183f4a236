"""Real models: their config.json, strict reading of .safetensors, and the position tables in them."""

from typing import TYPE_CHECKING

from posenc.errors import NoPositionTable, PickleRefused, SeveralPositionTables
from posenc.interop.foreign_files import PICKLE_CONVERSION, TORCHSCRIPT_CONVERSION
from posenc.interop.hub import hub_is_enabled, hub_table
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

if TYPE_CHECKING:
    from posenc.interop.models.json_text import Source as ConfigSource
    from posenc.interop.models.model_config import ModelConfig


def read_config(source: "ConfigSource", assume: str | None = None) -> "ModelConfig":
    """Read what a Hugging Face config.json says of position; see `posenc.interop.models`.

    source: a mapping, JSON text, bytes (always JSON), or the path of a config.json. assume: a model type,
    such as llama, as which an unknown one is read all the same. Raises ConfigFileError.
    """
    # Here, because it makes schemes, and schemes read their tables from this package.
    from posenc.interop.models.config_reader import read_config as read

    return read(source, assume)


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
    "printable_name",
    "read_config",
    "read_header",
    "read_position_table",
    "read_tensor",
    "relative_tables",
    "table_shape",
    "unreadable_reason",
]
