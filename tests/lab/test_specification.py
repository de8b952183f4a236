"""The name of a run, in which every field counts, and sweeps: every combination once, in spite of kills."""

import dataclasses
import json
import os
import sys
import threading
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from posenc import SCHEMES, ConfigError, Scheme, SchemeConfig, register
from posenc.errors import PosencError, RunError, RunOfAnotherVersion, SchemeArgumentError
from posenc.lab import Specification, Store, SweepTask, local_sweep, specifications, sweep
from posenc.lab.specification import FineTuning, current_versions
from posenc.lab.summary import comparison
from posenc.lab.sweep import Outcome
from posenc.lab.tasks import TASKS, Language
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.sizes import Sizes
from tests.lab.small_runs import CORPUS, SIZES, KillingJob, sentences, small_spec
from tests.lab.worker_processes import ROOT
from tests.library.small_schemes import SMALL_CONFIGS

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def change(specification: Specification, **others: Any) -> Specification:
    return dataclasses.replace(specification, **others)


def read_back(specification: Specification) -> Specification:
    return Specification.from_record(json.loads(json.dumps(specification.record)))


def test_name_changes_with_every_field() -> None:
    plain = small_spec()
    others: dict[str, Any] = {
        "scheme": small_spec("alibi").scheme, "corpus": "0" * 64,
        "train_length": 17, "steps": 13, "batch": 5, "learning_rate": 0.011, "weight_decay": 0.2,
        "seed": 1, "data_seed": 1, "scheme_rate": 10.0, "longest": 5, "segments": 9,
        "fine_tuning": FineTuning(before=plain.scheme),
        "device": "cuda", "threads": 2, "compiled": True,
        "scalings": ("rope_yarn",),
        "versions": (("posenc", "0.0"), ("torch", "2.0")),
        "model": dataclasses.replace(plain.model, layers=2),
    }  # fmt: skip
    names = {plain.run_id}
    names |= {change(plain, task=task, corpus="").run_id for task in {*TASKS} - {"language"}}
    names |= {change(plain, **{name: value}).run_id for name, value in others.items()}
    assert {field.name for field in dataclasses.fields(plain)} == {*others, "task", "corpus_name"}
    assert len(names) == len(others) + len(TASKS)
    assert all(len(name) == 20 and int(name, 16) >= 0 for name in names)


def test_every_variant_is_read_back_from_its_record() -> None:
    for variant, config in SMALL_CONFIGS.items():
        sizes = {"width": 80, "heads": 10, "layers": config.least_layers}
        model = dataclasses.replace(small_spec().model, **sizes)
        length = max(getattr(config, "max_len", getattr(config, "length", 16)), 16)
        scheme = config.replace(length=length) if hasattr(config, "length") else config
        specification = change(small_spec(), model=model, scheme=scheme, train_length=length)
        back = read_back(specification)
        assert (back, back.run_id) == (specification, specification.run_id), variant
        assert back.versions == specification.versions


def test_fields_added_later_keep_the_names_of_older_runs() -> None:
    record = small_spec("rope").record
    assert "compiled" not in record
    assert not {"scalings", "data_seed", "scheme_rate"} & {*record}
    assert record["scheme"] == {
        "kind": "rope", "dim": 8, "base": 10_000.0, "layout": "interleaved",
        "partial_rotary_factor": 1.0, "scaling": {"kind": "none"},
    }  # fmt: skip
    assert RopeConfig.from_record(record["scheme"]) == RopeConfig(dim=8)
    with pytest.raises(ConfigError, match="rope_linear"):
        RopeConfig.from_record(record["scheme"] | {"scaling": {"kind": "linear", "factor": 2.0}})
    assert read_back(change(small_spec(), compiled=True)).compiled


def test_what_changes_no_run_does_not_change_the_name() -> None:
    plain, alibi = small_spec(), small_spec("alibi")
    titled = change(plain, corpus_name="another title")
    assert plain.record != titled.record
    assert (plain, plain.run_id) == (titled, titled.run_id)
    assert comparison(titled) == comparison(plain)
    assert read_back(titled).corpus_name == "another title"
    scaled = change(plain, scalings=("rope_linear", "rope_yarn"))  # they are read after training
    assert scaled.run_id != plain.run_id
    assert comparison(scaled) == comparison(plain)
    assert read_back(scaled) == scaled
    assert change(alibi, scalings=("rope_yarn",)) == alibi


def test_order_of_the_data_has_a_seed_of_its_own() -> None:
    plain = change(small_spec(), seed=3)
    assert plain.trial == (3, 3)
    assert change(plain, data_seed=3) == plain
    assert change(plain, data_seed=3).run_id == plain.run_id
    other = change(plain, data_seed=0)
    assert (other.trial, read_back(other)) == ((3, 0), other)
    assert comparison(other) == comparison(plain)
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(SchemeArgumentError, match="seed"):
            change(plain, data_seed=wrong)


def test_equal_specifications_have_one_name() -> None:
    """1 and 1.0 are equal, but JSON writes them differently."""
    plain, long = small_spec(), small_spec("rope_longrope").scheme
    whole_list, real_list = (long.replace(long_factor=(one, 2, 3, 4)) for one in (1, 1.0))
    cases: list[tuple[str, Any, Any]] = [
        ("weight_decay", 1, 1.0),
        ("scheme", RopeLinearConfig(dim=8, factor=2), RopeLinearConfig(dim=8, factor=2.0)),
        ("scheme", whole_list, real_list),
    ]
    for field, whole, real in cases:
        first, second = change(plain, **{field: whole}), change(plain, **{field: real})
        assert (first, first.run_id) == (second, second.run_id)


def test_unknown_record_is_refused() -> None:
    record = small_spec().record
    scheme, model = record["scheme"], record["model"]
    for damage in (
        {"colour": "red"},
        {"scheme": "rope"},
        {"versions": 3},
        {"model": None},
        {"corpus": 5},
        {"corpus_name": 5},
        {"scheme": scheme | {"colour": 1}},
        {"model": {name: model[name] for name in model if name != "layers"} | {"depth": 1}},
        {"protocol": Language.protocol + 1},
        {"scheme": scheme | {"kind": "abacus"}},
        {"steps": 0},
        {"start": 2},
    ):
        with pytest.raises(RunError):
            Specification.from_record(record | damage)
    for field in ("scheme", "protocol"):
        with pytest.raises(RunError):
            Specification.from_record({name: record[name] for name in record if name != field})


def test_runs_of_older_protocols_are_of_another_version() -> None:
    record = small_spec(task="recall").record
    assert record["protocol"] == 3  # 2 kept the pairs of recall at the first positions
    with pytest.raises(RunOfAnotherVersion, match="protocol 2, this is 3"):
        Specification.from_record(record | {"protocol": 2})
    # T5's queries were drawn larger before.
    record = json.loads(json.dumps(small_spec("t5").record))
    assert Specification.from_record(record) == small_spec("t5")
    record.pop("start")
    with pytest.raises(RunOfAnotherVersion, match="drawn smaller now"):
        Specification.from_record(record)


def test_impossible_values_are_refused_by_name() -> None:
    wide = Sizes(dim=80, heads=2)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"device": "abacus"}, "device"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"task": "poetry"}, "task"),
        ({"corpus": ""}, "corpus"),
        ({"task": "copy"}, "corpus"),
        (
            {"task": "indexing", "corpus": "", "train_length": 33},
            "at most 32 for the task indexing",
        ),
        ({"task": "parity_hints", "corpus": "", "train_length": 65}, "at most 64 .*, got 65"),
        ({"corpus": "zz"}, "corpus must be 64"),
        ({"corpus_name": "two\nlines"}, "corpus_name must be printable"),
        ({"scheme": Sizes(dim=80, heads=10).config("alibi")}, "heads must be 2 .*, got 10"),
        ({"scheme": small_spec("learned", train_length=17).scheme}, "max_len must be 16 .* got 17"),
        ({"scheme": wide.config("rope")}, "scheme.dim must be 8 .*, got 40"),
        ({"scheme": wide.config("sinusoidal")}, "dim must be 16 for .*16 with 2 heads"),
    ]
    for others, message in cases:
        with pytest.raises(ConfigError, match=message):
            change(small_spec(), **others)


sweep_module = sys.modules["posenc.lab.sweep"]
COPY: dict[str, Any] = {"task": "copy", "widths": [16]} | SIZES


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    (tmp_path / CORPUS.name).write_bytes(sentences())
    names = {"store": "runs", "text": CORPUS.name}
    return {name: str(tmp_path / place) for name, place in names.items()}


def jobs_of(specs: Sequence[Specification], places: dict[str, Any]) -> list[SweepTask]:
    return [SweepTask(one.record, **places) for one in specs]


def assert_all_made_once(specs: list[Specification], outcomes: list[Outcome], store: Store) -> None:
    names = sorted(one.run_id for one in specs)
    assert sorted(outcome.specification.run_id for outcome in outcomes) == names
    assert [(outcome.error, outcome.stopped) for outcome in outcomes] == [(None, None)] * len(names)
    assert store.ids() == names
    assert all(len(run.losses) == run.specification.steps for run in store)
    assert store.broken == []


def test_specifications_are_every_combination_once() -> None:
    found = specifications(
        ["rope", "alibi", "none", "sinusoidal", "rope"], bases=[10_000.0, 500.0], seeds=3,
        **SIZES | {"widths": [16, 32], "corpus": CORPUS},
    )  # fmt: skip
    seen = [(s.scheme.kind, getattr(s.scheme, "base", None), s.model.width, s.seed) for s in found]
    expected = {
        (kind, base, width, seed)
        for kind in ("rope", "alibi", "none", "sinusoidal")
        for base in ([10_000.0, 500.0] if kind in ("rope", "sinusoidal") else [None])
        for width in (16, 32)
        for seed in range(3)
    }
    assert len(seen) == len({s.run_id for s in found}) == 36
    assert set(seen) == expected
    for task in (SIZES | {"widths": [32], "corpus": CORPUS, "layers": 2}, COPY | {"layers": 2}):
        assert [one.scheme.kind for one in specifications(list(SCHEMES), **task)] == [*SCHEMES]
    with pytest.raises(ConfigError, match="task must be one of"):
        specifications(["rope"], task="poetry")
    with pytest.raises(PosencError, match="seeds must be a whole number from 1 to 1,000, got -1"):
        specifications(["rope"], seeds=-1)
    with pytest.raises(PosencError, match="train_length must be a whole number from 16 to 8,192"):
        specifications(["rope"], train_length=9_000)


@pytest.mark.parametrize("kind", sorted({*TASKS} - {Language.kind}))
def test_sizes_that_a_task_brings_make_a_run(kind: str) -> None:
    sizes: dict[str, Any] = {"train_length": 64, "steps": (1_200,)} | dict(TASKS[kind].sizes)
    for number in sizes.pop("steps"):
        (specification,) = specifications(["rope"], task=kind, steps=number, **sizes)
        task = specification.make_task(None)
        assert task.batch(2, torch.Generator())[0].shape[1] == task.positions(task.train_length)


class LosingExecutor(Executor):
    """Loses the first and every second job after it, and runs the others."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.count += 1
        if self.count % 2:
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
        return future


def test_failing_jobs_do_not_stop_the_others(places: dict[str, Any]) -> None:
    specs = [small_spec(kind) for kind in ("alibi", "rope", "none", "learned")]
    jobs = jobs_of(specs, places)
    jobs[1] = SweepTask(specs[1].record, places["store"], "no such text")
    errors = {o.specification.scheme.kind: o.error for o in sweep(jobs, LosingExecutor())}
    assert errors == {
        "alibi": "ConnectionError: the worker is gone",
        "rope": "The text cannot be read. The file cannot be opened: no such file or directory.",
        "none": "ConnectionError: the worker is gone",
        "learned": None,
    }
    assert Store(places["store"]).ids() == [specs[3].run_id]
    with ThreadPoolExecutor(1) as pool:
        outcomes = list(sweep(jobs_of(specs, places), pool))
        assert_all_made_once(specs, outcomes, Store(places["store"]))


@pytest.mark.long
def test_local_sweep_survives_the_kill_of_a_worker(places: dict[str, Any], tmp_path: Path) -> None:
    specs = specifications(["none"], seeds=2, **COPY)
    specs += specifications(["rope"], **COPY | {"steps": 400})
    marker = str(tmp_path / "killed")
    killer = KillingJob(specs[-1].record, marker=marker, parent=os.getpid(), **places)
    jobs = jobs_of(specs, places)
    outcomes = list(local_sweep([killer, *jobs[:-1], jobs[0]], 1))  # one of them twice
    assert (tmp_path / "killed").exists()
    assert_all_made_once(specs, outcomes, Store(places["store"]))


class BreakingPool(ThreadPoolExecutor):
    """Stands in for a pool of processes, which the job of one scheme kills."""

    def __init__(self, workers: int, **_: object) -> None:
        super().__init__(workers)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> object:
            if args[0].record["scheme"]["kind"] == "rope":
                raise BrokenProcessPool
            return fn(*args, **kwargs)

        return super().submit(work)


def test_job_that_kills_every_pool_fails_alone(
    places: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [small_spec(kind) for kind in ("none", "rope", "alibi")]
    monkeypatch.setattr(sweep_module, "ProcessPoolExecutor", BreakingPool)
    errors = {o.specification.scheme.kind: o.error for o in local_sweep(jobs_of(specs, places), 1)}
    lost = "its process was killed, also alone"
    assert errors == {"none": None, "rope": lost, "alibi": None}


def test_process_of_a_pool_ends_when_interrupted_or_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In this process, which is spared."""
    ended, leave = Queue[int](), threading.Event()
    parent = threading.Thread(target=leave.wait, daemon=True)
    monkeypatch.setattr(sweep_module.os, "_exit", ended.put)
    monkeypatch.setattr(sweep_module, "run_task", Mock(side_effect=KeyboardInterrupt))
    sweep_module._run_and_leave(SweepTask(small_spec().record, None))
    assert ended.get_nowait() == 130
    monkeypatch.setattr(sweep_module.multiprocessing, "parent_process", lambda: parent)
    parent.start()
    sweep_module._leave_with_parent()
    with pytest.raises(Empty):
        ended.get(timeout=0.1)
    leave.set()
    assert ended.get(timeout=60) == 3


@dataclass(frozen=True, kw_only=True)
class _OwnHeadsConfig(SchemeConfig):
    """A scheme whose heads are a number of its own."""

    kind: str = "own_heads"
    heads: int = 3
    label = "Own heads"
    summary = "Does nothing."

    def build(self, device: Any = None, seed: int = 0) -> Scheme:
        return Scheme(self)


@pytest.mark.usefixtures("own_registry")
def test_field_that_a_scheme_keeps_for_itself_need_not_be_the_models() -> None:
    register(_OwnHeadsConfig)
    specification = small_spec("own_heads", task="copy")
    assert specification.model.heads == 2
    assert specification.scheme == _OwnHeadsConfig(heads=3)
    assert read_back(specification) == specification


def test_versions_are_known_in_a_checkout_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dict(current_versions()) == {"posenc": project["version"], "torch": torch.__version__}
