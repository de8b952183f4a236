"""A plan as a record: every method compared and ranked at one target, and what each costs."""

from dataclasses import dataclass

from posenc.analysis import BaseWindow
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.notebook import Shown, View
from posenc.planner.evidence import (
    INFERENCE_METHODS,
    FineTunedRatio,
    InferenceMethod,
    MeasuredRatio,
    ModelEvidence,
    PresetLengths,
    Training,
    statements,
)
from posenc.planner.facts import Fact, say, say_with_source
from posenc.planner.layers import own_length
from posenc.planner.methods import LARGER_BASE, NAMES, Method
from posenc.planner.ranking import NO_TRAINING, Compared, Readiness, Standing, first_after
from posenc.planner.scaling_effects import Pairs, ShortCost
from posenc.schemes.rope import RopeConfig

_ROUNDING = 1e-9  # of a softmax scale over another


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """One method at the target.

    config: RoPE that reads the target. attention_factor: factor of its cosines and sines.
    pairs: frequencies before and after. short: change of logits within the trained length. kernel:
    expected logit of unit content by distance, at a quarter, half and the whole of what a query sees.
    first_negative: first distance below the target with B(k) < 0 at these frequencies. stale_from: text
    length from which cached rotated keys no longer fit, None if they always do. cosine_error: largest
    error of cosines whose angles are computed in float32 from exact frequencies. code_cosine_error: the
    same from the float32 frequencies of transformers; None where it has none. softmax_weight,
    softmax_scale: mscale_all_dim of the block to paste and the softmax scale over the configured one, as
    `posenc.models.rope_writing.softmax_scale` has them. factor: what a query sees
    at the target over the trained length. measured: ratios measured at that factor without training.
    fine_tuned: what was measured after fine-tuning; None where nothing was.
    advice: what the makers of the model recommend, where it is this method. standing: what ranks it, but
    for its comparisons with others. rank: from 1; methods that no source puts in order share one.
    """

    method: Method
    config: RopeConfig
    attention_factor: float
    pairs: Pairs
    short: ShortCost
    kernel: dict[int, float]
    first_negative: int | None
    stale_from: int | None
    cosine_error: float
    code_cosine_error: float | None
    softmax_weight: float
    softmax_scale: float | None
    factor: float
    measured: tuple[MeasuredRatio, ...]
    fine_tuned: FineTunedRatio | None
    advice: ModelEvidence | None
    standing: Standing
    rank: int = 1

    @property
    def readiness(self) -> Readiness:
        """The readiness of the method for use at the factor."""
        return self.standing.readiness

    @property
    def readiness_text(self) -> str:
        """The readiness of the method, in a few words."""
        evidence, word = self.method.evidence, self.readiness.value
        if self.readiness is Readiness.FAILS and not self.pairs.unseen_count:
            word = "unreported"  # models that failed met angles that training had not shown
        numbers = {
            "factor": self.factor,
            "untrained": evidence.untrained_to,
            "trained": evidence.trained_to,
        }
        return say("readiness_at_factor", Fact(word, numbers))

    @property
    def changes_softmax(self) -> bool:
        """Whether the block to paste gives the model another softmax scale."""
        return self.softmax_scale is not None and abs(self.softmax_scale - 1) > _ROUNDING

    @property
    def statements(self) -> tuple[tuple[str, str], ...]:
        """Statements on what is known of using it, each with its source."""
        facts = statements(
            self.method.evidence,
            self.method.known,
            self.factor,
            self.measured,
            self.fine_tuned,
            self.advice,
        )
        return tuple(say_with_source("statements", fact) for fact in facts)


@dataclass(frozen=True, eq=False)
class ContextPlan(Shown):
    """A plan to read `target` tokens with a model.

    reach: tokens that a query sees, itself included, in the layers that see farthest: the target or
    their window. scanned: distances at which the sign of B(k) was computed, from 0. trained: RoPE as it
    was trained; None for a model without. first_negative: the first of those distances with B(k) < 0.
    base_window: the smallest base that satisfies B(k) at the target; None where there is none, or
    where `base_searched` is False. cache: GiB of one sequence at the target, by number type.
    distinct_bfloat16, distinct_float32: different numbers that positions below the target round to.
    assumed: what is taken for granted of its trained length. evidence: what is published of the model.
    known_lengths: what is claimed of it and what benchmarks measured, in tokens. methods: ranked.
    comparisons: what direct comparisons say of two of them. left_out: why other methods are missing.
    warnings: what to mind, the most important first.
    """

    name: str
    model: ModelConfig
    target: int
    trained_length: int | None
    reach: int
    scanned: int
    trained: RopeConfig | None
    first_negative: int | None
    base_window: BaseWindow | None
    base_searched: bool
    cache: dict[str, float]
    distinct_bfloat16: int
    distinct_float32: int
    assumed: tuple[Fact, ...]
    evidence: ModelEvidence | None
    known_lengths: PresetLengths | None
    methods: tuple[MethodPlan, ...] = ()
    comparisons: tuple[Compared, ...] = ()
    left_out: tuple[Fact, ...] = ()
    warnings: tuple[Fact, ...] = ()

    def view(self) -> View:
        return View(
            title=f"{self.name} to {self.target:,} tokens",
            numbers={
                "trained length": self.trained_length,
                "factor": self.factor,
                "smallest base by B(k)": None
                if self.base_window is None
                else self.base_window.base,
            },
            columns={
                "method": [one.method.label for one in self.methods],
                "rank": [one.rank for one in self.methods],
                "logit change on short texts": [one.short.mean for one in self.methods],
                "pairs at unseen angles": [one.pairs.unseen_count for one in self.methods],
                "attention factor": [one.attention_factor for one in self.methods],
            },
        )

    @property
    def kind(self) -> LayerKind:
        """The layers that are planned for."""
        return self.model.rotary_kind

    @property
    def own_length(self) -> int | None:
        """The context that the scaling in its config is made for; None where it is not longer."""
        own, trained = own_length(self.model, self.kind), self.trained_length
        return own if own and trained and own > trained else None

    @property
    def trained_with_scaling(self) -> bool:
        """Whether the model was trained with the scaling of its config, by what the config says.

        It was where the scaling reaches the context that the config names, as in Llama 3.1 (from 8,192 to
        131,072); not where its makers recommend the scaling without training, as those of Qwen3.
        """
        own, scheme = own_length(self.model, self.kind), self.kind.scheme
        if self.trained_length is None or own is None or own != self.model.context:
            return False
        if self.evidence is not None and scheme is not None and self.evidence.kind == scheme.kind:
            return False
        return own > self.trained_length or self.model.trained_length is not None

    @property
    def longest_trained(self) -> int | None:
        """The longest texts that the model was trained on: those of its scaling, where it was."""
        return self.own_length if self.trained_with_scaling else self.trained_length

    @property
    def factor(self) -> float | None:
        """The target over the trained length."""
        return None if self.trained_length is None else self.target / self.trained_length

    def first_after(self, training: Training, *, plain: bool = False) -> tuple[MethodPlan, ...]:
        """Return the methods that share the first rank after an amount of training; () where none is known.

        plain: without a larger base where the config has a scaling, because sources tested it for plain
        RoPE only.
        """
        if training == "none":
            return tuple(
                method
                for method in self.methods
                if method.readiness in NO_TRAINING and method.rank == self.methods[0].rank
            )
        methods = {
            method.method.kind: method
            for method in sorted(self.methods, key=lambda each: NAMES.index(each.method.name))
            if not (plain and self.own_length and method.method.name == LARGER_BASE.name)
        }
        standings = [method.standing for method in methods.values()]
        stretch = self.methods[0].factor if self.methods else 1.0
        return tuple(methods[kind] for kind in first_after(standings, training, stretch))

    @property
    def longer(self) -> bool:
        """Whether distances occur that training did not show."""
        return self.trained_length is not None and self.reach > self.trained_length


def at_inference(plan: ContextPlan) -> tuple[InferenceMethod, ...]:
    """Return the methods that are no scalings; () where nothing is to be extended, or without RoPE."""
    return INFERENCE_METHODS if plan.longer and plan.trained is not None else ()
