"""Well-known models: as values for the sidebar, and as what their config.json says of position.

PRESETS are usual values of the four main schemes, the sizes of a model that made each of them known:
the numbers are those of the papers' own models; what a paper does not say is left as it is. MODELS are
models by name, each with the keys of its config.json that bear on position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from posenc.model_presets import MODELS, ModelPreset
from posenc.setting import Setting

__all__ = ["MODELS", "PRESETS", "ModelPreset", "Preset"]


@dataclass(frozen=True)
class Preset:
    """A model's numbers as changes to a setting. `source` says where they stand."""

    label: str
    scheme: str
    source: str
    changes: Mapping[str, Any]

    def apply(self, setting: Setting) -> Setting:
        """Return the setting with this model's numbers. Raises ConfigError if they do not fit it."""
        return setting.replace(**self.changes)


def _preset(label: str, scheme: str, source: str, **changes: Any) -> Preset:
    return Preset(label, scheme, source, MappingProxyType(changes))


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "transformer": _preset(
            "Transformer base",
            "sinusoidal",
            "Vaswani et al. 2017, arXiv 1706.03762, sections 3.1, 3.2.2 and 3.5",
            dim=512,
            heads=8,
            base=10_000.0,
        ),
        "bert": _preset(
            "BERT base",
            "learned",
            "Devlin et al. 2019, arXiv 1810.04805, section 3; 512 positions, appendix A.2",
            dim=768,
            heads=12,
            train_length=512,
        ),
        "llama-2": _preset(
            "Llama 2 7B",
            "rope",
            "Touvron et al. 2023, arXiv 2307.09288, table 1; sizes and base as in its config.json",
            dim=4_096,
            heads=32,
            base=10_000.0,
            train_length=4_096,
        ),
        "alibi": _preset(
            "ALiBi on WikiText-103",
            "alibi",
            "Press et al. 2022, arXiv 2108.12409, sections 2.1 and 3; trained on 512 tokens",
            dim=1_024,
            heads=8,
            train_length=512,
        ),
    }
)
