"""Well-known models by name: the part of their config.json that bears on position, with its source.

A context is what the config says the model takes; it is not the length of training. That is
`original_max_position_embeddings`, or else the `trained_length` of a preset whose makers published it.
The LongRoPE factors of Phi-3-mini-128k were found by search on it (Ding et al. 2024, arXiv 2402.13753)
and are those of its config.json since June 2024.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.models.layer_facts import LayerFacts
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.read_config import read_config
from posenc.schemes import SCHEMES

PRESETS = Path(__file__).parent / "data" / "presets.json"


@dataclass(frozen=True, kw_only=True)
class ModelPreset:
    """One model.

    year: of its release, 0 for a visitor's own model.
    source: where its numbers were checked. unverified: which of them were not, "" where all were.
    config: what its config.json says of position. paper: of a model without such a file, its numbers as
    its paper and code have them: scheme, hidden_size, layers, heads, head_dim, and notes of its layers.
    model: the model itself, of a visitor.
    optional: whether the config's scaling is one that its makers recommend for long texts only, and
    that the published file leaves out. note: what else to know, "" for nothing.
    trained_length: tokens of the longest training texts, where the makers published it and the config
    does not have it. trained_source: where they did.
    """

    label: str
    year: int = 0
    source: str
    unverified: str = ""
    config: Mapping[str, Any] | None = None
    paper: Mapping[str, Any] | None = None
    optional: bool = False
    note: str = ""
    trained_length: int | None = None
    trained_source: str = ""
    model: ModelConfig | None = None

    def read(self, *, scaled: bool = True) -> ModelConfig:
        """Return the model; without its optional scaling if not `scaled`."""
        if self.model is not None:
            return self.model
        if self.paper is not None:
            return _model_of_paper(**self.paper)
        config = dict(self.config or {})
        if self.optional and not scaled:
            del config["rope_scaling"]
        return read_config(config)


def _model_of_paper(
    *,
    scheme: Mapping[str, Any],
    hidden_size: int,
    layers: int,
    heads: int,
    head_dim: int,
    notes: Sequence[str],
) -> ModelConfig:
    """Return a model whose layers are all alike. scheme: its kind and its fields."""
    own = {name: value for name, value in scheme.items() if name != "kind"}
    kind = LayerKind(
        facts=LayerFacts(word="", own_notes=tuple(notes)),
        layers=tuple(range(layers)),
        scheme=SCHEMES[scheme["kind"]](**own),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        cache_width=2 * heads * head_dim,
        softmax_scale=head_dim**-0.5,
    )
    note = "This model has no config.json; its numbers are those of its paper and code."
    return ModelConfig(
        model_type="",
        hidden_size=hidden_size,
        layers=layers,
        context=None,
        trained_length=None,
        layer_kinds=(kind,),
        notes=(note,),
    )


MODELS: Mapping[str, ModelPreset] = {
    name: ModelPreset(**preset) for name, preset in json.loads(PRESETS.read_text("utf-8")).items()
}
