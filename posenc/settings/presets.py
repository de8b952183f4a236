"""Well-known models: as values for the sidebar, and as what their config.json says of position.

PRESETS are usual values of the four main schemes, the sizes of a model that made each of them known,
taken from MODELS where it is one of them; what its paper does not say is left as it is. MODELS are models
by name, each with the keys of its config.json that bear on position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from posenc.models.presets import MODELS
from posenc.settings.setting import Setting


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


def _of_model(label: str, source: str, model: str, *taken: str) -> Preset:
    """Return a preset with the sizes of one of MODELS, and of its base and context what is taken."""
    config = MODELS[model].read()
    (kind,) = config.layer_kinds
    scheme = kind.scheme
    assert scheme is not None
    more = {"base": getattr(scheme, "base", None), "train_length": config.context}
    sizes = {"dim": config.hidden_size, "heads": kind.heads}
    return _preset(label, scheme.kind, source, **sizes, **{name: more[name] for name in taken})


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "transformer": _of_model(
            "Transformer base",
            "Vaswani et al. 2017, arXiv 1706.03762, sections 3.1, 3.2.2 and 3.5",
            "transformer",
            "base",
        ),
        "bert": _of_model(
            "BERT base",
            "Devlin et al. 2019, arXiv 1810.04805, section 3; 512 positions, appendix A.2",
            "bert-base",
            "train_length",
        ),
        "llama-2": _of_model(
            "Llama 2 7B",
            "Touvron et al. 2023, arXiv 2307.09288, table 1; sizes and base as in its config.json",
            "llama-2-7b",
            "base",
            "train_length",
        ),
        # Not one of MODELS: the paper's own model, which was never published as files.
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
