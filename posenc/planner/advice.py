"""Advice on how a model can read a longer context: with no, little or much further training."""

from collections.abc import Iterator
from typing import NamedTuple

from posenc.planner.methods import LARGER_BASE, Readiness
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.text import as_factor, count_of


class Advice(NamedTuple):
    """The advice for one amount of further training.

    method: its label, "" where no source reports one. short: the expected change on short context.
    sentence: what is known. source: of the sentence.
    """

    title: str
    method: str
    short: str
    sentence: str
    source: str


class InferenceMethod(NamedTuple):
    """A change of attention at inference that reads a longer context without training.

    vLLM removed its Dual Chunk Attention in 0.11.0 (vllm-project/vllm, pull request 25351, issue 49296).

    statement: its tested range. support: the software that offers it. source: of the statement.
    """

    label: str
    statement: str
    support: str
    source: str


_AT_INFERENCE = (
    InferenceMethod(
        "Dual Chunk Attention",
        "Attention works in chunks, so that only distances occur that training showed. Llama-2-70B, "
        "trained on 4,096 tokens, read more than 100,000 (x24) without training.",
        "vLLM up to 0.10 (VLLM_ATTENTION_BACKEND=DUAL_CHUNK_FLASH_ATTN, VLLM_USE_V1=0) and SGLang "
        "(--attention-backend dual_chunk_flash_attn), for configs with dual_chunk_attention_config, such "
        "as Qwen2.5-1M",
        "An et al. 2024, arXiv 2402.17463",
    ),
    InferenceMethod(
        "Self-Extend",
        "Near tokens keep their distance, far tokens share positions in groups. Llama-2-7b-chat, trained "
        "on 4,096 tokens, was tested without training up to 16,384 (x4), and up to about 25,000 on "
        "LongBench. These lengths were not verified in the paper's own tables.",
        "llama.cpp's llama-completion (--grp-attn-n, --grp-attn-w) and the authors' code for transformers",
        "Jin et al. 2024, arXiv 2401.01325",
    ),
    InferenceMethod(
        "ReRoPE",
        "Distances beyond a window count as that window. Llama 2, trained on 4,096 tokens, had a loss of "
        "1.500 there, against 1.497 unchanged, and of 1.400 at 16,384 (x4).",
        "its author's code for transformers 4.31",
        "Su 2023, github.com/bojone/rerope",
    ),
)


def at_inference(plan: ContextPlan) -> tuple[InferenceMethod, ...]:
    """Return the methods that are no scalings; () where nothing is to be extended, or without RoPE."""
    return _AT_INFERENCE if plan.longer and plan.trained is not None else ()


# What a method takes that needs no fine-tuning.
TO_DO = {
    Readiness.OWN_SCALING: "use its own scaling as it is",
    Readiness.RECOMMENDED: "use the scaling that its makers recommend",
    Readiness.MADE: "measure with its own scaling as it is first",
    Readiness.UNTRAINED: "measure without training first",
}
# Methods whose sources trained on billions of tokens; the others took some hundred steps of fine-tuning.
_CONTINUED = ("llama3", LARGER_BASE.name)


def times_longer(factor: float) -> str:
    """Return a factor in words, such as 16x."""
    return f"{as_factor(factor).removeprefix('x')}x"


def advice_of(plan: ContextPlan) -> tuple[Advice, ...]:
    """Return the highest-ranked method for each amount of training that a source supports.

    () where nothing is to be extended, or no method is compared.
    """
    return tuple(_advice(plan)) if plan.longer and plan.methods else ()


def _advice(plan: ContextPlan) -> Iterator[Advice]:
    tuned = [method for method in plan.methods if method.readiness is Readiness.TRAINED]
    choices = {
        "No training": [method for method in plan.methods if method.readiness in TO_DO],
        "Light fine-tuning": [method for method in tuned if method.method.name not in _CONTINUED],
        "Continued training": [method for method in tuned if method.method.name in _CONTINUED],
    }
    for title, methods in choices.items():
        if methods:
            yield _advice_of(title, methods[0])
        else:
            length = times_longer(plan.methods[0].factor)
            how = "without training" if title == "No training" else f"after {title.lower()}"
            yield Advice(
                title, "", "", f"No source reports a compared method at {length} {how}.", ""
            )


def _advice_of(title: str, first: MethodPlan) -> Advice:
    sentence, source = first.statements[0] if first.advice is None else first.statements[-1]
    if unseen := first.pairs.unseen_count:
        verb = "reaches" if unseen == 1 else "reach"
        sentence = f"{count_of(unseen, 'pair')} {verb} angles unseen in training. {sentence}"
    cost = first.short
    short = (
        f"mean {cost.mean:.3f}, largest {cost.worst:.3f}. For comparison: the logit of a token with itself "
        f"is {cost.at_zero:.3g}"
    )
    return Advice(title, first.method.label, short, sentence, source)
