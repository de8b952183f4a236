"""Learned tables by name: of the run that ships, of runs in the store, on every page."""

from pathlib import Path

import pytest
import torch

from dashboard import used
from posenc import Setting
from posenc.errors import CheckpointError, ConfigError
from posenc.interop import read_position_table
from posenc.interop.sources import RESULTS, TRAINED, named_table
from posenc.lab import Store
from posenc.run_files import ENVIRONMENT
from posenc.schemes.learned import LearnedConfig
from tests.pages import PAGES, as_read, captions, drawn, matrices, setting, visit
from tests.small_runs import made, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "runs"))
    return made(tmp_path, "learned")[0]


def test_the_default_table_is_that_of_the_run_it_names() -> None:
    store = Store(RESULTS)
    run, table = store.read(TRAINED), store.tables(TRAINED)["scheme.weight"]
    found = named_table("trained")
    assert torch.equal(found.table, table)
    assert found.table.shape == (run.specification.train_length, run.specification.model.width)
    assert run.stopped is None
    assert found.provenance == "trained table 128x128 of a small model"
    assert found.notes == (f"Trained by this library: {run.specification.described}.",)
    scheme = Setting().config("learned").build()
    assert torch.equal(scheme.weight, table)
    assert (scheme.untrained, scheme.provenance) == (False, found.provenance)
    # It moved from where it began, or nothing was learned.
    start = run.specification.scheme.build(seed=run.specification.seed).weight
    assert (table - start).norm() > start.norm()


def test_a_run_of_the_store_is_a_source_by_its_name(own: Store) -> None:
    (run_id,) = own.ids()
    config = LearnedConfig(source=f"run-{run_id}")
    assert torch.equal(config.build().weight, own.tables(run_id)["scheme.weight"])
    file = Path(own.path(f"{run_id}.safetensors"))
    alone = read_position_table(file)  # recognised by its name, without being told which
    assert torch.equal(alone.table, own.tables(run_id)["scheme.weight"])
    assert small("learned").described in named_table(f"run-{run_id}").notes[0]


def test_a_run_that_is_not_here_or_has_no_table_is_refused(own: Store) -> None:
    with pytest.raises(CheckpointError, match=r"^There is no table of a run 0{20} here\.$"):
        named_table("run-" + "0" * 20)
    rope = next(run for run in Store(RESULTS) if run.specification.scheme.kind == "rope")
    with pytest.raises(CheckpointError, match="no table of a run"):
        named_table(f"run-{rope.run_id}")
    for odd in ("run-", "run-XYZ", "run-" + "0" * 19, "run-../../secret", "run-" + "0" * 20 + "\n"):
        with pytest.raises(ConfigError):
            Setting(learned_source=odd)


@pytest.mark.parametrize("page", PAGES)
def test_the_table_of_a_finished_run_can_be_chosen_on_every_page(page: str, own: Store) -> None:
    (run_id,) = own.ids()
    link = {"learned_source": f"run-{run_id}"}
    at = drawn(visit(page, link))
    assert setting(at).learned_source == f"run-{run_id}"
    if "learned_source" not in used.controls("" if page == "start" else page, setting(at)):
        return
    (box,) = [one for one in at.sidebar.selectbox if one.key == "learned_source_control"]
    one = small("learned")
    assert box.options[0] == "Trained"
    assert box.value == f"run-{run_id}"
    assert len({*box.options}) == len(box.options)
    called = f"Of {one.train_length} rows, width {one.model.width}, seed {one.seed}"
    assert box.options[box.index] == called
    words = f"trained on {one.train_length} tokens; 1 layer of width {one.model.width}"
    assert any(words in as_read(text.value) for text in at.sidebar.caption)
    table = f"trained table {one.train_length}x{one.model.width} of a small model"
    if page in ("pca", "relative_offsets", "extrapolation"):
        assert any(table in text for text in captions(at))
    if page in ("overview", "similarity"):
        assert table in matrices(at)[0]["panels"][0]["subtitle"]


def test_a_link_to_a_run_that_is_gone_says_so_and_shows_no_other(own: Store) -> None:
    at = drawn(visit("overview", {"learned_source": "run-" + "0" * 20}))
    assert setting(at).learned_source == "run-" + "0" * 20
    assert not any("Learned" in one.value for one in at.subheader)
    assert any("There is no table of a run" in box.value for box in at.warning)
