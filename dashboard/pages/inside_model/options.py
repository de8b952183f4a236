"""Options of Inside a model: which part is open, which model and layer, how far and how it is evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dashboard import visitor_weights
from dashboard.blocks import Changes
from dashboard.settings.labelled import LabelledChoice
from dashboard.visitor_files import UploadOptions, upload_field
from posenc import fields
from posenc.lab.evaluate import TRAINED
from posenc.lab.shipped_models import shipped_models, shipped_specification
from posenc.lab.specification import DEFAULT_SCALINGS, Specification
from posenc.schemes.rope_scaling import AFTER_TRAINING

SHIPPED, CHECKPOINT = "Models that ship", "Your checkpoint"
CAPTURED, TABLE = "Captured queries and keys", "Learned table"
# Tables under the pictures, of which one is open.
BY_HEAD, BY_LENGTH, BY_LAYER = "By head", "By length of the text", "By layer"
CUTS = "Pairs that lose their rotation"
MOST_LAYERS = 512  # of a visitor's model
LENGTHS = ("1", "2", "4")  # evaluated tokens over the training length
# How a model past its training length is evaluated, as the lab names it.
READINGS = (TRAINED, *(AFTER_TRAINING[kind].scaling_name for kind in DEFAULT_SCALINGS))


def label(specification: Specification) -> str:
    """Return how a trained model is called."""
    return f"{specification.scheme.label}, {specification.train_length} tokens"


def _models() -> dict[str, str]:
    """Return the label of each model that ships by the id of its run; those that rotate first."""
    specifications = {run_id: shipped_specification(run_id) for run_id in shipped_models()}
    order = sorted(
        specifications,
        key=lambda run_id: (
            not specifications[run_id].scheme.kind.startswith("rope"),
            specifications[run_id].train_length,
            run_id,
        ),
    )
    return {run_id: label(specifications[run_id]) for run_id in order}


MODELS = _models()


@dataclass(frozen=True, kw_only=True)
class Options(UploadOptions):
    """Which part is open; which trained model, at which layer, and how it is evaluated; what was uploaded.

    PARTS: of the page that need no upload, one after the other where it is written as files.
    """

    UNLINKED: ClassVar[tuple[str, ...]] = ("weights", *UploadOptions.UNLINKED)
    PARTS: ClassVar[Mapping[str, Changes]] = {part: {"part": part} for part in (SHIPPED, TABLE)}

    part: str = fields.Choice(
        options=(SHIPPED, CHECKPOINT, CAPTURED, TABLE),
        label="Look at",
        help="Small models that ship, the projections of your own checkpoint, queries and keys that you "
        "captured, or a learned position table.",
    ).field(SHIPPED)
    trained: str = LabelledChoice(
        options=tuple(MODELS),
        labels=MODELS,
        label="Trained model",
        help="Small models that ship, each with the scheme and the length that it was trained with.",
    ).field(next(iter(MODELS)))
    layer: int = fields.IntRange(
        low=1, high=3, label="Layer", help="Counted from 1, the first after the embedding."
    ).field(2)
    times: str = LabelledChoice(
        options=LENGTHS,
        labels={"1": "the training length", "2": "2 times it", "4": "4 times it"},
        label="Text of",
        help="How many tokens the model reads. The same tokens at its end are looked at. A model with "
        "RoPE can read a longer text with a scaling.",
    ).field("1")
    reading: str = fields.Choice(
        options=READINGS,
        label="Frequencies",
        help="Past its training length a model with RoPE can be evaluated with a scaling, untrained.",
    ).field(TRAINED)
    table: str = fields.Choice(options=(BY_HEAD, BY_LENGTH, CUTS, BY_LAYER), label="Table").field(
        BY_HEAD
    )
    of_layer: int = fields.IntRange(
        low=1,
        high=MOST_LAYERS,
        label="Layer of your model",
        help="Counted from 1, as on this page.",
    ).field(1)
    weights: str = upload_field("Checkpoint", visitor_weights.NAME)
