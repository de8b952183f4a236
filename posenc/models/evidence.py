"""Published recommendations and tests of reading longer texts with known models."""

import functools
from dataclasses import dataclass

from posenc.models.model_config import ModelConfig
from posenc.models.presets import MODELS, ModelPreset
from posenc.schemes.rope import RopeConfig


@dataclass(frozen=True, kw_only=True)
class ModelEvidence:
    """A published statement about one family of models.

    of: the preset of MODELS whose type, base and window its models share. models: their names.
    hidden_size: of the smallest of them. kind: of the scaling that their makers recommend without
    training, "" for none; least, factor: the range of factors that they recommend.
    statement: in sentences. source: where it is published.
    """

    of: str
    models: str
    hidden_size: int
    kind: str = ""
    least: float = 1.0
    factor: float = 0.0
    statement: str
    source: str

    @property
    def preset(self) -> ModelPreset:
        """The preset, which has the length of the training texts."""
        return MODELS[self.of]

    def is_of(self, model: ModelConfig) -> bool:
        """Return whether a config.json may be of one of these models; it does not hold a name."""
        return model.hidden_size >= self.hidden_size and _marks(model) == _preset_marks(self.of)

    def recommends(self, config: RopeConfig, length: int) -> bool:
        """Return whether the makers recommend this scaling for `length` tokens, without training."""
        start, factor = self.preset.trained_length, getattr(config, "factor", 1.0)
        if start is None or config.kind != self.kind:
            return False
        same = getattr(config, "trained_length", None) == start
        return same and max(length / start, self.least) <= factor <= self.factor


def _marks(model: ModelConfig) -> tuple[object, ...]:
    return model.model_type, getattr(model.main.scheme, "base", None), model.main.window


@functools.cache
def _preset_marks(name: str) -> tuple[object, ...]:
    return _marks(MODELS[name].read(scaled=False))


_STATIC = (
    "Turn it on for long texts only: it is the same at every length, and short texts may suffer."
)

EVIDENCE = (
    ModelEvidence(
        of="qwen2.5-7b",
        models="Qwen2.5-Instruct of 7B and larger",
        hidden_size=3_584,
        kind="rope_yarn",
        least=4.0,
        factor=4.0,
        statement="The makers of Qwen2.5-Instruct (7B and larger) recommend YaRN by 4 from 32,768 tokens, "
        f"without training. {_STATIC}",
        source="model card of Qwen2.5-7B-Instruct, Processing Long Texts",
    ),
    ModelEvidence(
        of="qwen3-8b",
        models="Qwen3 of 4B and larger",
        hidden_size=2_560,
        kind="rope_yarn",
        factor=4.0,
        statement="The makers of Qwen3 recommend YaRN from 32,768 tokens without training, by 4 or by less "
        f"where that is enough, and report that they tested it to 131,072. {_STATIC}",
        source="github.com/QwenLM/Qwen3, docs/source/inference/transformers.md, Enabling Long Context",
    ),
    ModelEvidence(
        of="mistral-7b-v0.1",
        models="Mistral-7B-v0.1",
        hidden_size=4_096,
        statement="Mistral-7B-v0.1 as it is had a perplexity of 2.96 at 8,192 tokens, 36.8 at 16,384 and "
        "more than 1,000 at 65,536 on Proof-pile; whether its window was on is not said. A copy "
        "trained further with YaRN for 1,500 steps had 2.19 at 131,072.",
        source="Peng et al. 2023, arXiv 2309.00071, table 6; model card of Yarn-Mistral-7b-128k",
    ),
)


def evidence_of(model: ModelConfig) -> ModelEvidence | None:
    """Return what is published of the models that a config may be of, None where nothing is known."""
    return next((evidence for evidence in EVIDENCE if evidence.is_of(model)), None)
