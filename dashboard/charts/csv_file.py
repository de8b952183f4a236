"""A frame as the bytes of a CSV file, its texts safe in any spreadsheet; see posenc.text."""

import pandas as pd

from posenc.text import csv_cell


def written(frame: pd.DataFrame) -> bytes:
    """Return the rows of a frame under the names of its columns; numbers are written in full."""
    texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    safe = (
        frame.assign(**{str(name): frame[name].map(csv_cell) for name in texts}) if texts else frame
    )
    text: str = safe.rename(columns=csv_cell).to_csv(index=False)
    return text.encode()
