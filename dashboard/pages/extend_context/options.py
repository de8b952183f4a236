"""Options of Extend a model's context: target, trained length, methods, and which tabs are open."""

from dataclasses import dataclass, replace
from typing import ClassVar

from dashboard.pages.extend_context import model
from dashboard.settings import Setting
from dashboard.settings.chosen_model import ModelRule
from dashboard.settings.labelled import LabelledMultiChoice
from posenc import fields, limits
from posenc.planner import METHODS
from posenc.planner.memory import MAX_BATCH, SIZE, SIZE_IN_WORDS
from posenc.planner.methods import CONFIGURED_LABEL, DEFAULT_METHODS
from posenc.planner.tables import COVERAGE, TRADE_OFFS
from posenc.text import with_advanced

WAVELENGTHS, RATIOS, LOGITS = "Wavelengths", "Change per pair", "Expected logit"
BOUND = "B(k) and base"
TABLES = (TRADE_OFFS, COVERAGE)
PICTURES = (*TABLES, WAVELENGTHS, RATIOS, LOGITS, BOUND)
FIRST = "first"
TRANSFORMERS_5, TRANSFORMERS_4 = "config.json, transformers 5", "config.json, transformers 4"
VLLM, SGLANG, LLAMA_CPP = "vLLM", "SGLang", "llama.cpp"
LONGER = 4  # times the trained length of a newly chosen model


@dataclass(frozen=True, kw_only=True)
class Options:
    """To which length the page plans for the setting's model, by which methods, and what is open."""

    UNLINKED: ClassVar[tuple[str, ...]] = ("searched",)

    context: int = fields.IntRange(
        low=1,
        high=limits.MAX_TRAIN_LENGTH,
        label="Target context",
        help="The number of tokens that the model should read.",
    ).field(131_072)
    trained: int = fields.IntRange(
        low=0,
        high=limits.MAX_TRAIN_LENGTH,
        label="Trained length",
        help="Training length in tokens. Empty: what the model's makers or its config say, or else its "
        "context.",
    ).field(0)
    methods: tuple[str, ...] = LabelledMultiChoice(
        options=tuple(METHODS),
        labels={name: method.label for name, method in METHODS.items()},
        most=len(METHODS),
        label="Methods",
        help=with_advanced(
            "Ways to extend the context, compared below.",
            (method.label for method in METHODS.values() if method.advanced),
        ),
    ).field(DEFAULT_METHODS)
    picture: str = fields.Choice(options=PICTURES, label="Picture").field(TRADE_OFFS)
    paste: str = fields.Choice(
        options=(FIRST, CONFIGURED_LABEL, *(method.label for method in METHODS.values())),
        label="Method to paste",
    ).field(FIRST)
    form: str = fields.Choice(
        options=(TRANSFORMERS_5, TRANSFORMERS_4, VLLM, SGLANG, LLAMA_CPP), label="Form to paste"
    ).field(TRANSFORMERS_5)
    fits_memory: bool = fields.Flag(label="Tokens that fit in a memory").field(False)
    memory: str = fields.Word(
        pattern=SIZE,
        in_words=SIZE_IN_WORDS,
        label="Memory",
        help="Of the weights and the KV cache together, such as 24GiB or 80GB.",
    ).field("24GiB")
    weights: str = fields.Word(
        pattern=SIZE,
        in_words=SIZE_IN_WORDS,
        label="Weights",
        help="What the weights take of it, such as 16GiB: 2 bytes per parameter in bfloat16.",
    ).field("0GiB")
    batch: int = fields.IntRange(
        low=1, high=MAX_BATCH, label="Sequences at a time", help="Each has a KV cache of its own."
    ).field(1)
    compares: bool = fields.Flag(label="Compare with another config").field(False)
    against: str = ModelRule(
        label="Against", help="The model whose config this one is compared with."
    ).field("")
    searched: str = fields.Word(
        pattern=r"(\d+ .+)?",
        in_words="a target and the name of a model, for which the base is searched",
        label="Searched",
    ).field("")

    def following(self, before: Setting, after: Setting) -> "Options":
        """Return the options once the setting has changed: numbers of another model do not outlive it.

        The trained length is that of the new model, and a target within it is raised to 4 times it.
        """
        if model.token(before) == model.token(after):
            return self
        length, _ = model.known_length(after)
        if length is None or self.context > length:
            return replace(self, trained=0)
        return replace(self, trained=0, context=min(LONGER * length, limits.MAX_TRAIN_LENGTH))
