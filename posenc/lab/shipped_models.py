"""Trained models that ship whole, and what their layers do with a text: queries, keys, projections.

Weights are in bfloat16, those of the scheme in float32. Each file has a text that its model was not trained
on: windows of WINDOWS times four training lengths, whose last tokens are scored at every context length.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from posenc.checkpoints.safetensors_file import Header, read_header, read_tensor
from posenc.errors import RunError
from posenc.lab.evaluate import SCORED_SHARE, Variant, segment_ends
from posenc.lab.model import Block, LanguageModel
from posenc.lab.specification import Specification
from posenc.lab.tasks import TASKS, Language, generator_for
from posenc.lab.train import Trainer
from posenc.schemes.base import Scheme

WEIGHTS = Path(__file__).with_name("weights")
WINDOWS, LONGEST = 8, 4  # windows of text, and their length over the training length
_SCHEME = "scheme."


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, its specification, and its text: windows of 4 x training length + 1 tokens."""

    specification: Specification
    model: LanguageModel
    text: Int[Tensor, "windows tokens"]

    def window(self, length: int) -> Int[Tensor, "windows length"]:
        """Return the last `length` tokens of each window that have a next token."""
        return self.text[:, -length - 1 : -1]

    def loss(self, variant: Variant, length: int) -> float:
        """Return the loss in nats per token over the last quarter of a training length of every window."""
        scored = max(1, self.specification.train_length // SCORED_SHARE)
        with torch.inference_mode():
            logits = variant.logits(self.model, self.window(length))[:, -scored:]
        return float(
            functional.cross_entropy(logits.flatten(0, 1), self.text[:, -scored:].flatten())
        )


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """Queries and keys of a layer before any rotation, (windows, heads, tokens, features); its scheme."""

    queries: Float[Tensor, "b h n d"]
    keys: Float[Tensor, "b h n d"]
    scheme: Scheme


def shipped_models() -> tuple[str, ...]:
    """Return the ids of the runs whose models ship."""
    return tuple(sorted(path.stem for path in WEIGHTS.glob("*.safetensors")))


def shipped_specification(run_id: str) -> Specification:
    """Return the specification of a model that ships, without its weights."""
    return _specification(read_header(WEIGHTS / f"{run_id}.safetensors"))


@functools.lru_cache(maxsize=8)  # what ships never changes
def shipped_model(run_id: str) -> TrainedModel:
    """Return the trained model of a run. Raises RunError where it does not ship."""
    if run_id not in shipped_models():
        raise RunError(f"The weights of run {run_id} do not ship.")
    return from_bytes((WEIGHTS / f"{run_id}.safetensors").read_bytes())


def to_bytes(trainer: Trainer) -> bytes:
    """Return a trained language model as a .safetensors file. Raises RunError for another task."""
    if not isinstance(trainer.task, Language):
        raise RunError("Only models of language are stored whole.")
    spec, validation = trainer.specification, trainer.task.corpus.validation
    length = LONGEST * spec.train_length
    ends = segment_ends(len(validation), length, WINDOWS)
    text = bytes(validation[ends[:, None] + torch.arange(-length, 1)].flatten().tolist())
    tensors = {
        name: value.detach()
        .cpu()
        .contiguous()
        .to(torch.float32 if name.startswith(_SCHEME) else torch.bfloat16)
        for name, value in trainer.model.state_dict().items()
    }
    note = {
        "run": spec.run_id,
        "specification": json.dumps(spec.record),
        "text": text.decode("latin-1"),
    }
    return save(tensors, note)


def from_bytes(content: bytes) -> TrainedModel:
    """Return the model of a file that `to_bytes` wrote."""
    header = read_header(content)
    specification = _specification(header)
    scheme = specification.scheme.build(seed=specification.seed)
    vocabulary = TASKS[specification.task].vocabulary
    generator = generator_for(specification.seed, "weights")
    model = LanguageModel(specification.model, vocabulary, scheme, generator)
    model.load_state_dict({name: read_tensor(content, name).tensor for name in header.tensors})
    text = torch.tensor(list(header.metadata["text"].encode("latin-1")))
    return TrainedModel(specification, model.eval().requires_grad_(False), text.view(WINDOWS, -1))


def _specification(header: Header) -> Specification:
    return Specification.from_record(json.loads(header.metadata["specification"]))


def layer_inputs(
    model: LanguageModel, tokens: Int[Tensor, "b n"], variant: Variant
) -> Iterator[LayerInputs]:
    """Yield what the attention of each layer receives for a text, evaluated by a variant."""
    scheme = model.scheme if variant.scheme is None else variant.scheme
    with torch.inference_mode():
        x = model.embedded(tokens, variant.positions(tokens), scheme)
        for index, block in enumerate(model.blocks):
            assert isinstance(block, Block)
            own = scheme.layer(index)
            queries, keys, _ = block.queries_keys_values(x, own)
            yield LayerInputs(queries, keys, own)
            x = block(x, own)


def layer_projections(
    model: LanguageModel, layer: int
) -> tuple[Float[Tensor, "h d w"], Float[Tensor, "h d w"]]:
    """Return the query and key projections of a layer, by head, with the weights of the norm before them.

    What they multiply is normalised, so that its norm is at most the square root of its width.
    """
    block = model.blocks[layer]
    assert isinstance(block, Block)
    weight = (block.qkv.weight * block.norm_attention.weight).detach()
    queries, keys, _ = weight.unflatten(0, (3, model.config.heads, -1))
    return queries, keys
