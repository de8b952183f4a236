"""What is known of reading longer contexts by a scaling: published statements and measured ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.models.model_config import ModelConfig
from posenc.models.presets import MODELS, ModelPreset
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.text import as_factor, count_of, significant


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What sources say of reading a longer context by one method.

    training: what the method takes: nothing ("trained", of a model's own scaling within its context; or
    "made", of one that reaches the length and that no training is known of), "fine-tuning", training at
    the "new length", something that is not known ("unknown"), or it "fails".
    statement: in sentences. source: where it is published.
    untrained_to: the largest factor reported to work without training; 0 for none.
    trained_to: the largest factor that sources trained a model to; 0 for none.
    measured_as: kind of another scaling with the same frequencies at the target, whose measured ratios
    hold for this one, too; "" for none.
    """

    training: Literal["trained", "made", "fine-tuning", "new length", "unknown", "fails"]
    statement: str
    source: str
    untrained_to: float = 0.0
    trained_to: float = 0.0
    measured_as: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelEvidence:
    """A published statement about one family of models.

    preset_name: of the preset in MODELS whose type, base and window its models share. models: their names.
    hidden_size: of the smallest of them. kind: of the scaling that their makers recommend without
    training, "" for none; least_factor, factor: the range of factors that they recommend.
    statement: in sentences. source: where it is published.
    """

    preset_name: str
    models: str
    hidden_size: int
    kind: str = ""
    least_factor: float = 1.0
    factor: float = 0.0
    statement: str
    source: str

    @property
    def preset(self) -> ModelPreset:
        """The preset, which has the length of the training texts."""
        return MODELS[self.preset_name]

    def is_of(self, model: ModelConfig) -> bool:
        """Return whether a config.json, which holds no name, may be of one of these models."""
        first, second = (
            (m.model_type, getattr(m.main.scheme, "base", None), m.main.window)
            for m in (model, self.preset.read(scaled=False))
        )
        return model.hidden_size >= self.hidden_size and first == second

    def factor_for(self, length: int) -> float | None:
        """Return the least factor that the makers recommend for `length` tokens, None for none."""
        start = self.preset.trained_length
        if not self.kind or start is None or not start < length <= self.factor * start:
            return None
        return max(length / start, self.least_factor)

    def recommends(self, config: RopeConfig, length: int) -> bool:
        """Return whether the makers recommend this scaling for `length` tokens, without training."""
        least, start = self.factor_for(length), self.preset.trained_length
        if least is None or config.kind != self.kind:
            return False
        same = getattr(config, "trained_length", None) == start
        return same and least <= getattr(config, "factor", 1.0) <= self.factor


@dataclass(frozen=True)
class MeasuredRatio:
    """Perplexity of small RoPE models at a longer context over that at their training length.

    kind: scaling that they were evaluated with; "rope" is none. train_length: tokens. factor: the context
    over that length. seeds: number of models. mean: geometric, over seeds; low, high: lowest and highest
    seed.
    """

    kind: str
    train_length: int
    factor: float
    seeds: int
    mean: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The ratio in words."""
        return (
            f"{significant(self.mean)} times (geometric mean of {count_of(self.seeds, 'seed')}, "
            f"{significant(self.low)} to {significant(self.high)}, trained on {self.train_length:,} bytes)"
        )


# Of the language runs of plain RoPE in posenc/lab/results, without training at the longer context.
MEASURED = (
    MeasuredRatio("rope", 64, 1.5, 3, 1.1222751874397947, 1.0768913731096097, 1.148370383071293),
    MeasuredRatio("rope", 64, 2.0, 3, 2.689366697841367, 2.0880111350598285, 3.4983401281212436),
    MeasuredRatio("rope", 64, 4.0, 3, 5.2512297945980055, 4.250571118125452, 6.026648469058551),
    MeasuredRatio("rope", 64, 8.0, 3, 8.391943063273173, 7.610287453064789, 9.494065146779084),
    MeasuredRatio("rope", 64, 16.0, 3, 10.64949714162154, 9.66579903316347, 12.010177071287886),
    MeasuredRatio("rope_linear", 64, 1.5, 3, 1.774474288603391, 1.7282925388054462, 1.8172474153041571),
    MeasuredRatio("rope_linear", 64, 2.0, 3, 2.840311522237562, 2.7395662058519834, 2.9137126842034378),
    MeasuredRatio("rope_linear", 64, 4.0, 3, 5.551449695773088, 5.230948474817398, 5.787148270924315),
    MeasuredRatio("rope_linear", 64, 8.0, 3, 7.93149555311366, 7.001577768969739, 9.117566210081755),
    MeasuredRatio("rope_linear", 64, 16.0, 3, 9.964742986565028, 9.077425982698061, 10.93327843857553),
    MeasuredRatio("rope_ntk", 64, 1.5, 3, 1.1105752408431848, 1.0660150487884352, 1.1366628849784624),
    MeasuredRatio("rope_ntk", 64, 2.0, 3, 1.345745198112156, 1.2004131626341645, 1.466632893612688),
    MeasuredRatio("rope_ntk", 64, 4.0, 3, 2.900100435278743, 2.591565216744162, 3.209971588684904),
    MeasuredRatio("rope_ntk", 64, 8.0, 3, 6.328899111153768, 5.330822111818509, 7.362410506612723),
    MeasuredRatio("rope_ntk", 64, 16.0, 3, 8.046645523889929, 6.945350009095216, 9.083444538848106),
    MeasuredRatio("rope", 128, 1.5, 3, 1.3436755971876098, 1.3095012630179812, 1.3811812689362886),
    MeasuredRatio("rope", 128, 2.0, 3, 2.371213982050795, 2.273912172089394, 2.497835540693344),
    MeasuredRatio("rope", 128, 4.0, 3, 4.665640754490865, 4.213644458282989, 4.938732703586885),
    MeasuredRatio("rope", 128, 8.0, 3, 7.488466080395818, 6.866056273858629, 8.1589326113812),
    MeasuredRatio("rope", 128, 16.0, 3, 8.58542167355926, 8.16695664857969, 9.081181793151691),
    MeasuredRatio("rope_linear", 128, 1.5, 3, 1.6688453803105496, 1.6108373471856365, 1.757715937683969),
    MeasuredRatio("rope_linear", 128, 2.0, 3, 2.5765227609497616, 2.4167786438036507, 2.791847496629804),
    MeasuredRatio("rope_linear", 128, 4.0, 3, 4.994953013984127, 4.876732982227828, 5.192541692143561),
    MeasuredRatio("rope_linear", 128, 8.0, 3, 7.059601439208578, 6.925330171228735, 7.189937250464852),
    MeasuredRatio("rope_linear", 128, 16.0, 3, 8.773729775884304, 8.222449656863628, 9.376471969510616),
    MeasuredRatio("rope_ntk", 128, 1.5, 3, 1.042569619924907, 1.0273198784787994, 1.0612786517864723),
    MeasuredRatio("rope_ntk", 128, 2.0, 3, 1.4553041614344668, 1.3958287325745258, 1.5000225879918907),
    MeasuredRatio("rope_ntk", 128, 4.0, 3, 2.498420834905403, 2.2373108730312556, 2.707019694639377),
    MeasuredRatio("rope_ntk", 128, 8.0, 3, 6.0558881844384, 5.6690342430771805, 6.876615104377793),
    MeasuredRatio("rope_ntk", 128, 16.0, 3, 6.850631617618035, 6.683784185412088, 7.02383769556787),
)  # fmt: skip


def measured_at(kind: str, factor: float) -> tuple[MeasuredRatio, ...]:
    """Return what was measured of a scaling at a factor, one ratio for each training length.

    For a factor that was not measured: the next larger one, or else the largest.
    """
    ratios: dict[int, MeasuredRatio] = {}
    for ratio in MEASURED:
        if ratio.kind == kind:
            last = ratios.get(ratio.train_length)
            if last is None or last.factor < factor:
                ratios[ratio.train_length] = ratio
    return tuple(ratios.values())


def measured_factor(ratios: Sequence[MeasuredRatio], factor: float) -> str:
    """Return the factor that was measured, in words, and why where it is not the one asked for."""
    measured = max(ratio.factor for ratio in ratios)
    if measured == factor:
        return as_factor(measured)
    which = "next" if measured > factor else "largest"
    return f"{as_factor(measured)}, the {which} factor that was measured"


def statements(
    evidence: Evidence,
    factor: float,
    measured: Sequence[MeasuredRatio],
    advice: ModelEvidence | None,
) -> tuple[tuple[str, str], ...]:
    """Return statements about a method at a factor, each with its source."""
    pairs = [(evidence.statement, evidence.source)]
    if measured:
        how = "evaluated in this way"
        if evidence.measured_as:
            scaling = SCHEMES[evidence.measured_as].scaling_name
            how = f"read with {scaling} scaling, which has the same frequencies at this length"
        ratios = " and ".join(ratio.text for ratio in measured)
        sentence = (
            f"Measured here, small byte-level language models with RoPE, {how} without training: at "
            f"{measured_factor(measured, factor)}, the perplexity is {ratios} that at the training length."
        )
        pairs.append((sentence, "this project's runs, posenc/lab/results"))
    if advice is not None:
        pairs.append((advice.statement, advice.source))
    return tuple(pairs)


# Kinds of printed formulas, and of what public code computes under the same name.
IN_CODE = {"rope_yarn_paper": "rope_yarn"}
PAPER_AND_CODE = "Peng et al. 2023, arXiv 2309.00071, eqs. 17 to 22, against the authors' code"
# By kind of scaling. A kind that is missing is not offered as a method.
EVIDENCE: dict[str, Evidence] = {
    "rope_linear": Evidence(
        training="fine-tuning",
        statement="LLaMA models trained on 2,048 tokens were extended to 32,768 (x16) by up to 1,000 steps "
        "of fine-tuning. Without it, LLaMA 7B had a perplexity of 16.1 at x4 and 112 at x8, against 7.2 at "
        "its trained length.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract and tables 1 and 3",
        trained_to=16.0,
    ),
    "rope_ntk": Evidence(
        training="fine-tuning",
        statement="LLaMA 7B, trained on 2,048 tokens, was evaluated at 4,096 (x2) without training, with "
        "little loss. Some pairs turn past their trained angles, so the length that works falls short of "
        "the factor, and fine-tuned models are worse than with position interpolation (x2).",
        source="bloc97 2023, reddit.com/r/LocalLLaMA, post 14lz7j5; Peng et al. 2023, arXiv 2309.00071, "
        "section 3.1 and table 1",
        untrained_to=2.0,
        trained_to=2.0,
    ),
    "rope_dynamic": Evidence(
        training="fine-tuning",
        statement="Proposed for models that are not trained further: they degrade gradually. With it, "
        "Llama-2-7B had a perplexity of 10.2 at x2 and 23.3 at x4 on PG-19, and 3.5 and 3.9 on Proof-pile. "
        "Keys must be cached unrotated. As planned here its factor is 1, because the base grows with the "
        "text anyway.",
        source="emozilla 2023, reddit.com/r/LocalLLaMA, post 14mrgpr; Peng et al. 2023, arXiv 2309.00071, "
        "section 3.3; Ding et al. 2024, arXiv 2402.13753, table 1",
        untrained_to=2.0,
        measured_as="rope_ntk",
    ),
    "rope_yarn": Evidence(
        training="fine-tuning",
        statement="Llama 2 was fine-tuned to x16 in 400 steps and to x32 in 200 more. Its dynamic "
        "variant is reported to work without training beyond x2. In the variant compared here, "
        "Llama-2-7B had a perplexity of 32.6 at x2 on PG-19, and of 3.5 on Proof-pile.",
        source="Peng et al. 2023, arXiv 2309.00071, sections 1 and 4.1; Ding et al. 2024, arXiv "
        "2402.13753, table 1",
        trained_to=32.0,
    ),
    "rope_yarn_paper": Evidence(
        training="fine-tuning",
        statement="The printed formula; the authors' own code ramps over pairs instead, and their models "
        "were trained with that.",
        source=PAPER_AND_CODE,
    ),
    "rope_llama3": Evidence(
        training="fine-tuning",
        statement="Llama 3.1 was trained further in six stages from 8K to 128K tokens (x16), on about 800B "
        "tokens. Its config has factor 8 for that, Llama 3.2's has 32 for the same lengths. No test of "
        "another factor or without training is reported.",
        source="Grattafiori et al. 2024, arXiv 2407.21783, section 3.4.2; the makers' config.json",
        trained_to=16.0,
    ),
}


_STATIC = (
    "Turn it on for long texts only: it is the same at every length, and short texts may suffer."
)

MODEL_EVIDENCE = (
    ModelEvidence(
        preset_name="qwen2.5-7b",
        models="Qwen2.5-Instruct of 7B and larger",
        hidden_size=3_584,
        kind="rope_yarn",
        least_factor=4.0,
        factor=4.0,
        statement="The makers of Qwen2.5-Instruct (7B and larger) recommend YaRN by 4 from 32,768 tokens, "
        f"without training. {_STATIC}",
        source="model card of Qwen2.5-7B-Instruct, Processing Long Texts",
    ),
    ModelEvidence(
        preset_name="qwen3-8b",
        models="Qwen3 of 4B and larger",
        hidden_size=2_560,
        kind="rope_yarn",
        factor=4.0,
        statement="The makers of Qwen3 recommend YaRN from 32,768 tokens without training, by 4 or by less "
        f"where that is enough, and report that they tested it to 131,072. {_STATIC}",
        source="github.com/QwenLM/Qwen3, docs/source/inference/transformers.md, Enabling Long Context",
    ),
    ModelEvidence(
        preset_name="mistral-7b-v0.1",
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
    return next((evidence for evidence in MODEL_EVIDENCE if evidence.is_of(model)), None)
