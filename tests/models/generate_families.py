"""Write causal_types.json: every causal model type of the installed transformers, read, or why not.

`python -m tests.models.generate_families`
"""

import json
from pathlib import Path
from typing import Any

from posenc.errors import ConfigFileError
from posenc.models import read_config

CAUSAL_TYPES = Path(__file__).with_name("causal_types.json")
STATED = json.loads(Path(__file__).with_name("stated_families.json").read_text())
# What a class needs to run: its defaults do not work, or name one kind of layer alone.
RUN_WITH: dict[str, dict[str, Any]] = STATED["run with"]
# Attention of these classes reads a head_dim, though their configuration classes have no such field.
READS_HEAD_DIM: list[str] = STATED["reads head_dim"]


def causal_types() -> tuple[str, ...]:
    """Return the model types that transformers can generate text with."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def default_config(model_type: str) -> dict[str, Any]:
    """Return the config that a class makes of its defaults, of the text model where it is nested."""
    import transformers

    built = transformers.CONFIG_MAPPING[model_type](**RUN_WITH.get(model_type, {}))
    text = built.get_text_config(decoder=True)
    return json.loads(json.dumps(text.to_dict(), default=str)) | {"model_type": text.model_type}


def outcome(model_type: str) -> str:
    """Return whether such a config is read, or why not."""
    try:
        read_config(default_config(model_type))
    except ConfigFileError as error:
        return error.problem
    return "read"


if __name__ == "__main__":
    outcomes = {name: outcome(name) for name in causal_types()}
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in outcomes.items()]
    CAUSAL_TYPES.write_text("{\n" + ",\n".join(rows) + "\n}\n")
