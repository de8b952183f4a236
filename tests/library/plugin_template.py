"""The file of a user's own scheme that the guide prints."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "posenc" / "README.md"


def template() -> str:
    """Return the file as text; it registers the scheme `distance_table`."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (text,) = (block for block in blocks if "@posenc.register" in block)
    return str(text)
