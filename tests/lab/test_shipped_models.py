"""Models that ship whole: their files, their losses, and what their layers receive."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from posenc.checkpoints.sources import RESULTS
from posenc.lab import Store, train
from posenc.lab.corpus import TEXTS
from posenc.lab.evaluate import Variant, as_trained, segment_ends
from posenc.lab.model import Block
from posenc.lab.shipped_models import (
    LONGEST,
    WEIGHTS,
    from_bytes,
    layer_inputs,
    layer_projections,
    shipped_model,
    shipped_models,
    to_bytes,
)
from posenc.sdpa import attention
from tests.lab.small_runs import CORPUS, corpus_for, small_spec

MOST_BYTES = 1_400_000  # of a file


@pytest.mark.parametrize("kind", ["rope", "learned"])
def test_a_stored_model_is_the_trained_one_rounded_to_bfloat16(kind: str) -> None:
    spec = small_spec(kind, layers=2)
    trainer = train(spec, corpus_for(spec))
    stored = from_bytes(to_bytes(trainer))
    assert stored.specification == spec
    for name, value in trainer.model.state_dict().items():
        dtype = torch.float32 if name.startswith("scheme.") else torch.bfloat16
        assert torch.equal(stored.model.state_dict()[name], value.to(dtype).float())
    assert stored.text.shape == (8, LONGEST * 16 + 1)
    text = bytes(CORPUS.validation.tolist())
    assert all(bytes(window.tolist()) in text for window in stored.text)


@pytest.mark.parametrize("kind", ["rope", "alibi", "learned"])
def test_layers_receive_what_their_attention_is_called_with(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small_spec(kind, layers=2)
    trainer = train(spec, corpus_for(spec))
    tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(0))
    calls: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> torch.Tensor:
        calls.append(arguments)
        return attention(*arguments)

    monkeypatch.setattr("posenc.lab.model.attention", record)
    variant = Variant("as trained")
    with torch.inference_mode():
        variant.logits(trainer.model, tokens)
    wanted, calls = calls, []
    found = list(layer_inputs(trainer.model, tokens, variant))
    assert len(found) == len(wanted) == 2
    for received, (q, k, _, scheme) in zip(found, wanted, strict=True):
        assert torch.equal(received.queries, q)
        assert torch.equal(received.keys, k)
        assert received.scheme is scheme


def test_projections_of_a_layer_give_its_queries_and_keys() -> None:
    spec = small_spec("rope", layers=2)
    model = train(spec, corpus_for(spec)).model
    with torch.no_grad():
        model.blocks[1].get_submodule("norm_attention").get_parameter("weight").mul_(1.5)
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    block = model.blocks[1]
    assert isinstance(block, Block)
    q, k, _ = block.queries_keys_values(x, model.scheme.layer(1))
    normalised = functional.layer_norm(x, (16,))
    for part, weight in zip((q, k), layer_projections(model, 1), strict=True):
        wanted = torch.einsum("hdw,btw->bhtd", weight, normalised)
        assert torch.allclose(part, wanted, atol=1e-5)
    assert float(normalised.norm(dim=-1).max()) <= 4.0  # the square root of the width


def test_the_models_that_ship_are_small_and_of_runs_that_ship() -> None:
    store = Store(RESULTS)
    assert shipped_models()
    for run_id in shipped_models():
        assert (WEIGHTS / f"{run_id}.safetensors").stat().st_size < MOST_BYTES
        assert shipped_model(run_id).specification == store.info(run_id).specification


@pytest.mark.parametrize("run_id", shipped_models())
def test_a_model_that_ships_has_the_loss_of_its_run(run_id: str) -> None:
    trained = shipped_model(run_id)
    spec = trained.specification
    scores = {
        (score.variant, score.x): score.value
        for score in Store(RESULTS).read(run_id).scores
        if score.measure == "context"
    }
    corpus = next((c for text in TEXTS.values() if (c := text()).sha256 == spec.corpus), None)
    if corpus is None:
        pytest.skip("the text of the run is that of another Python")
    length = spec.train_length
    ends = segment_ends(len(corpus.validation), spec.longest * length, spec.segments)
    windows = corpus.validation[ends[:, None] + torch.arange(-length, 1)].long()
    with torch.inference_mode():
        logits = as_trained(trained.model, length).logits(trained.model, windows[:, :-1])
    scored = length // 4
    loss = functional.cross_entropy(
        logits[:, -scored:].flatten(0, 1).double(), windows[:, -scored:].flatten()
    )
    assert float(loss) == pytest.approx(scores["as trained", length], abs=0.01)


def test_a_model_is_built_without_torchs_compiler() -> None:
    """Its import takes a second, for which the first picture of a page would wait."""
    code = (
        "import sys; from posenc.lab.shipped_models import shipped_model, shipped_models;"
        "shipped_model(shipped_models()[0]); print('torch._dynamo' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert run.stdout.split() == ["False"]
