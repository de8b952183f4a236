"""A protocol: rates by a sweep at the training length, parts in trials, slices that go on."""

import itertools
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from posenc.__main__ import main
from posenc.errors import ConfigError, RunError
from posenc.lab import Store, specifications
from posenc.lab.context_gain import context_losses
from posenc.lab.corpus import from_text
from posenc.lab.methods import grid_deviations, methods
from posenc.lab.parts import is_of_sweep
from posenc.lab.protocol import SHIPPED, Protocol, read_protocol
from posenc.lab.protocol_record import RECORD, Rates, Recorded, rates_of, record_csv, ship
from posenc.lab.run_once import run_once
from posenc.lab.specification import Specification, Trial
from posenc.lab.statistics import grid_deviation
from posenc.schemes.t5 import T5Config
from tests.lab.small_runs import sentences

SMALL = """
[parts.text]
title = "Loss by context"
text = "text.txt"
train_length = 16
batch = 4
steps = 8
layers = 1
widths = [16]
heads = 2
longest = 4
segments = 8
schemes = ["rope", "learned"]
trials = [[0, 0], [1, 1]]

[parts.text.sweep]
learning_rates = [2e-3, 1e-2]
scheme_rates = [1.0, 10.0]
share = 0.5
trials = [[0, 0], [1, 2]]

[parts.tuned]
title = "Fine-tuned"
like = "text"
before = "rope"
schemes = ["rope_ntk"]
trials = [[0, 0]]
vary.tuning_length = [32, 64]
vary.tuning_steps = [2]

[parts.steps]
title = "Other lengths of training"
like = "text"
schemes = ["learned"]
trials = [[3, 4]]
vary.steps = [6, 12]

[parts.copy]
title = "Copy"
task = "copy"
train_length = 16
batch = 2
steps = 10
layers = 1
widths = [16]
heads = 2
longest = 2
schemes = ["rope"]
trials = [[0, 0]]

[parts.copy.sweep]
learning_rates = [1e-3]
scheme_rates = [1.0]
share = 1
trials = [[0, 0]]
"""


@pytest.fixture(autouse=True)
def working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the test's own folder, which holds a text and a protocol."""
    (folder / "text.txt").write_bytes(sentences())
    (folder / "protocol.toml").write_text(SMALL)
    monkeypatch.chdir(folder)


@pytest.fixture
def protocol() -> Protocol:
    return read_protocol("protocol.toml")


def make(specification: Specification, store: Store) -> None:
    corpus = from_text("text.txt", sentences()) if specification.corpus else None
    run_once(specification, corpus, store)


def sweep_of_rope(protocol: Protocol) -> list[Specification]:
    return [run for run in protocol.sweep_runs("text") if run.scheme.kind == "rope"]


def test_a_sweep_has_every_rate_in_every_trial_at_a_share_of_the_steps(protocol: Protocol) -> None:
    runs = protocol.sweep_runs("text")
    assert {(run.steps, run.longest) for run in runs} == {(4, 1)}
    trials = [Trial(0, 0), Trial(1, 2)]
    found = [(r.scheme.kind, r.learning_rate, r.scheme_rate, r.trial) for r in runs]
    # RoPE has no parameters of its own, whose rate could be another.
    expected = {("rope", rate, 1.0, trial) for rate in (2e-3, 1e-2) for trial in trials}
    for rate, factor, trial in itertools.product((2e-3, 1e-2), (1.0, 10.0), trials):
        expected.add(("learned", rate, factor, trial))
    assert set(found) == expected
    assert len(found) == len(expected)
    assert protocol.sweep_runs("tuned") == []


def test_each_scheme_has_the_rates_of_the_lowest_mean_loss_at_the_training_length(
    protocol: Protocol,
) -> None:
    store = Store()
    assert protocol.runs("text", store) == []
    losses: dict[tuple[str, float, float], list[float]] = {}
    for specification in protocol.sweep_runs("text"):
        make(specification, store)
        (loss,) = (
            score.value
            for score in store.read(specification.run_id).scores
            if score.measure == "context" and score.x == 16
        )
        key = (specification.scheme.kind, specification.learning_rate, specification.scheme_rate)
        losses.setdefault(key, []).append(loss)
    for kind in ("rope", "learned"):
        _, rate, factor = min((k for k in losses if k[0] == kind), key=lambda k: sum(losses[k]))
        assert protocol.rates("text", kind, store) == Rates(learning_rate=rate, scheme_rate=factor)
    rates = protocol.rates("text", "learned", store)
    assert rates is not None
    steps = protocol.runs("steps", store)
    assert [(r.steps, r.trial, r.learning_rate, r.scheme_rate) for r in steps] == [
        (6, Trial(3, 4), rates.learning_rate, rates.scheme_rate),
        (12, Trial(3, 4), rates.learning_rate, rates.scheme_rate),
    ]
    rope = protocol.rates("text", "rope", store)
    assert rope is not None
    tuned = protocol.runs("tuned", store)
    assert [run.fine_tuning.length for run in tuned if run.fine_tuning] == [32, 64]
    assert [run.scheme.record()["factor"] for run in tuned] == [2, 4]
    assert {run.learning_rate for run in tuned} == {rope.learning_rate}
    assert {run.fine_tuning.learning_rate for run in tuned if run.fine_tuning} == {
        rope.learning_rate / 10
    }
    plain = specifications(
        ["rope"], corpus=from_text("text.txt", sentences()), train_length=16, batch=4, steps=8, layers=1,
        widths=[16], heads=2, longest=4, segments=8, learning_rate=rope.learning_rate,
    )  # fmt: skip
    assert protocol.runs("text", store)[0] == plain[0]


def test_the_paragraph_on_methods_names_what_decided_the_runs(protocol: Protocol) -> None:
    store = Store()
    with pytest.raises(RunError, match="has no run of the part tuned"):
        methods(protocol, "tuned", store)
    for specification in protocol.sweep_runs("text"):
        make(specification, store)
    for specification in protocol.runs("tuned", store):
        make(specification, store)
    text = methods(protocol, "tuned", store)
    rates = protocol.rates("text", "rope", store)
    assert rates is not None
    for part in (
        "1 layer, width 16 and 2 heads", "4 sequences of 16 tokens a step", "for 8 steps",
        "fine-tuned for 2 steps of 32 or 64 tokens", "among 0.002, 0.01,",
        "by 2 trials at 50% of the steps",
        f": RoPE {rates.learning_rate:g}.", "order of the data: 0/0;", "All 2 planned runs are made",
        f"The protocol of this part, tuned {protocol.part('tuned').digest},",
        from_text("text.txt", sentences()).sha256[:12],
    ):  # fmt: skip
        assert part in text


def test_a_sweep_can_try_one_learning_rate_more_for_a_single_scheme() -> None:
    Path("further.toml").write_text(
        SMALL.replace("[2e-3, 1e-2]", "[2e-3, 1e-2]\nfurther = { rope = [2e-2] }")
    )
    protocol, store = read_protocol("further.toml"), Store()
    tried: dict[str, set[float]] = {}
    for specification in protocol.sweep_runs("text"):
        tried.setdefault(specification.scheme.kind, set()).add(specification.learning_rate)
        assert is_of_sweep(protocol.part("text"), specification)
        make(specification, store)
    assert tried == {"rope": {2e-3, 1e-2, 2e-2}, "learned": {2e-3, 1e-2}}
    plain = read_protocol("protocol.toml")
    refused = [
        each for each in protocol.sweep_runs("text") if not is_of_sweep(plain.part("text"), each)
    ]
    assert {(each.scheme.kind, each.learning_rate) for each in refused} == {("rope", 2e-2)}
    for specification in protocol.runs("text", store):
        make(specification, store)
    assert "among 0.002, 0.01 (and 0.02 for RoPE), and among 1, 10 times" in methods(
        protocol, "text", store
    )


def test_the_paragraph_says_what_weights_and_data_each_add_once_the_grid_of_seeds_is_whole() -> (
    None
):
    Path("grid.toml").write_text(
        SMALL
        + """
[parts.grid]
title = "Weights and order of data apart"
like = "text"
schemes = ["rope"]
trials = [[0, 1], [1, 0]]
"""
    )
    protocol, store = read_protocol("grid.toml"), Store()
    for specification in sweep_of_rope(protocol):
        make(specification, store)
    *first, last = protocol.runs("grid", store) + protocol.runs("text", store, "rope")
    for specification in first:
        make(specification, store)
    assert grid_deviations(protocol, "grid", store) == {}
    assert "standard deviations" not in methods(protocol, "grid", store)
    make(last, store)
    losses = {
        (run.specification.trial.seed, run.specification.trial.data_seed): next(
            score.value for score in run.scores if (score.measure, score.x) == ("context", 16)
        )
        for run in map(store.read, [spec.run_id for spec in (*first, last)])
    }
    expected = grid_deviation({pair: losses[pair] for pair in itertools.product((0, 1), (0, 1))})
    assert grid_deviations(protocol, "grid", store) == {"RoPE": expected}
    assert grid_deviations(protocol, "text", store) == {}
    said = f"RoPE {expected.weights:.3f}, {expected.data:.3f} and {expected.together:.3f}."
    assert said in methods(protocol, "grid", store)


def test_the_command_makes_the_runs_in_slices_and_lists_what_is_left() -> None:
    def run(*words: str) -> list[str]:
        result = CliRunner().invoke(main, ["protocol", "protocol.toml", *words])
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    listed = run()
    (digest,) = {
        part.digest for part in read_protocol("protocol.toml").parts.values() if part.name == "copy"
    }
    assert listed[3].startswith(f"copy {digest}: Copy. 0 of 2 runs, ")
    assert run("--run", "copy", "--minutes", "0") == []
    first = run("--run", "copy", "--share", "0", "2")
    second = run("--run", "copy", "--share", "1", "2")
    # A share may be empty until the sweep of the other is made.
    made = [*first, *second, *run("--run", "copy")]
    assert len(made) == 2
    assert all(line.endswith("done") for line in made)
    assert run("--run", "copy") == []
    assert run()[3] == f"copy {digest}: Copy. 2 of 2 runs, 0 minutes left"


def test_the_digest_of_a_part_holds_what_decides_its_runs_and_no_more(protocol: Protocol) -> None:
    def digests(old: str, new: str) -> set[str]:
        """Return the parts whose digest a change of the file changes."""
        assert SMALL.count(old) == 1
        Path("other.toml").write_text(SMALL.replace(old, new))
        other = read_protocol("other.toml").parts
        return {name for name, part in protocol.parts.items() if part.digest != other[name].digest}

    assert digests('title = "Copy"', 'title = "A copy"') == set()
    assert digests("vary.tuning_steps = [2]", "vary.tuning_steps = [3]") == {"tuned"}
    assert digests("train_length = 16\nbatch = 4", "train_length = 8\nbatch = 4") == {
        "text", "tuned", "steps",
    }  # fmt: skip
    assert digests("[2e-3, 1e-2]", "[2e-3, 2e-2]") == {"text", "tuned", "steps"}
    assert digests("learning_rates = [1e-3]", "learning_rates = [3e-3]") == {"copy"}


def test_a_shipped_folder_goes_on_without_the_runs_of_its_sweeps(protocol: Protocol) -> None:
    store, shipped = Store(), Store("results")
    sweep = sweep_of_rope(protocol)
    for specification in sweep:
        make(specification, store)
    for specification in protocol.runs("text", store):
        make(specification, store)
    made = CliRunner().invoke(main, ["protocol", "protocol.toml", "--ship", "results"])
    assert made.exit_code == 0, made.output
    table = protocol.runs("text", store)
    assert shipped.ids() == sorted(run.run_id for run in table)
    assert all(
        shipped.read(run.run_id) == replace(store.read(run.run_id), losses=()) for run in table
    )
    assert protocol.rates("text", "rope", shipped) == protocol.rates("text", "rope", store)
    # What somebody reads with pandas alone.
    rows = pandas.read_csv("results/protocol.csv")
    assert list(rows.run_id) == [run.run_id for run in (*sweep, *table)]
    assert list(rows.stage) == ["sweep"] * len(sweep) + ["table"] * len(table)
    assert set(rows.part) == {"text"}
    best = rows[rows.stage == "sweep"].groupby("learning_rate").loss.mean().idxmin()
    assert {run.learning_rate for run in table} == {best}
    for run, loss in zip((*sweep, *table), rows.loss, strict=True):
        (stored,) = (
            score.value
            for score in store.read(run.run_id).scores
            if score.measure == "context" and score.x == 16
        )
        assert loss == stored
    # Shipped again from there, and from a folder with more runs, it keeps the sweep.
    assert protocol.record(shipped) == protocol.record(store)
    missing = CliRunner().invoke(
        main, ["protocol", "protocol.toml", "--run", "text", "--minutes", "0", "--store", "results"]
    )
    assert missing.output == ""


def test_parameters_of_schemes_ship_with_runs_on_text_of_parts_that_choose_rates(
    protocol: Protocol,
) -> None:
    store, shipped = Store(), Store("results")
    of_text = next(run for run in protocol.planned("text") if run.scheme.kind == "learned")
    (of_copy,) = specifications(
        ["learned"], task="copy", train_length=16, batch=2, steps=2, layers=1, widths=[16], heads=2,
        longest=1,
    )  # fmt: skip
    for specification in (of_text, of_copy):
        make(specification, store)
    runs = [store.read(one.run_id) for one in (of_text, of_copy)]
    swept = [Recorded.of("text", sweep=True, run=run) for run in runs]
    table = [Recorded.of("text", sweep=False, run=run) for run in runs]
    ship([*swept, *table], store, shipped)
    # The rate of a task is chosen by the last losses of its steps, that of text by the validation text.
    assert [*map(shipped.read, (of_text.run_id, of_copy.run_id))] == [
        replace(runs[0], losses=()), runs[1],
    ]  # fmt: skip
    assert runs[0].losses
    assert [bool(store.tables(run.run_id)) for run in runs] == [True, True]
    assert [bool(shipped.tables(run.run_id)) for run in runs] == [True, False]
    without = Store("without")
    ship(table, store, without)
    assert not without.tables(of_text.run_id)


def test_learned_tables_ship_with_every_trial_and_other_parameters_with_the_first(
    protocol: Protocol,
) -> None:
    store, shipped = Store(), Store("results")
    of_learned = [run for run in protocol.planned("text") if run.scheme.kind == "learned"]
    of_t5 = [replace(run, scheme=T5Config(heads=2)) for run in of_learned]
    for specification in (*of_t5, *of_learned):
        make(specification, store)
    runs = [store.read(one.run_id) for one in (*of_t5, *of_learned)]
    assert all(store.tables(run.run_id) for run in runs)
    rows = [Recorded.of("text", sweep=sweep, run=run) for sweep in (True, False) for run in runs]
    ship(rows, store, shipped)
    assert [bool(shipped.tables(run.run_id)) for run in runs] == [True, False, True, True]


@pytest.mark.parametrize(
    ("losses", "rate"),
    [
        ((1.0, 3.0, 1.75, 1.75), 1e-2),  # the first trial alone would say 2e-3
        ((1.0, 2.0, 2.0, 1.0), 2e-3),  # equal means: the lower rate
        ((1.0, math.inf, 9.0, 9.0), 1e-2),  # a trial that stopped early
    ],
)
def test_the_mean_over_trials_decides(
    protocol: Protocol, losses: tuple[float, ...], rate: float
) -> None:
    store = Store()
    rows = [
        Recorded(
            part="text", sweep=True, run_id=run.run_id, scheme="rope", rates=rates_of(run),
            trial=run.trial, loss=loss,
        )
        for run, loss in zip(sweep_of_rope(protocol), losses, strict=True)
    ]  # fmt: skip
    store.put(RECORD, record_csv(rows))
    assert protocol.rates("text", "rope", store) == Rates(learning_rate=rate)
    assert protocol.record(store) == rows


@pytest.mark.parametrize("content", ["part,stage\ntext,sweep", "\xff", 'a,b\n"'])
def test_a_damaged_record_is_refused(protocol: Protocol, content: str) -> None:
    store = Store()
    store.put(RECORD, content.encode("latin-1"))
    with pytest.raises(RunError, match=r"protocol\.csv of the store cannot be read"):
        protocol.rates("text", "rope", store)


def test_texts_are_listed_with_what_their_context_gives() -> None:
    result = CliRunner().invoke(main, ["protocol", "protocol.toml", "--texts"])
    assert result.exit_code == 0, result.output
    corpus = from_text("text.txt", sentences())
    (line,) = result.output.splitlines()
    assert line.startswith(f"text.txt: text.txt, {len(corpus.train):,} bytes and ")
    numbers = [float(word) for word in line.rpartition(": ")[2].split(", ")]
    assert numbers == pytest.approx(context_losses(corpus), abs=5e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[parts", "is no TOML"),
        ("parts = 3", "cannot be followed"),
        ("[parts.a]\nschemes = []", "'title'"),
        ('[parts.a]\ntitle = "A"\nschemes = ["rope"]\ntrials = [[0, 0]]\nlike = "b"', "'b'"),
        ('[parts.a]\ntitle = "A"\nschemes = ["rope"]\ntrials = [[0]]', "Trial"),
    ],
)
def test_a_file_that_is_no_protocol_is_refused(text: str, message: str) -> None:
    Path("other.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_protocol("other.toml")


def test_a_part_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(main, ["protocol", "protocol.toml", "--run", "prose"])
    assert result.exit_code == 2
    assert "has the parts text, tuned, steps, copy, got 'prose'" in result.output


def test_the_plan_that_ships_can_be_followed() -> None:
    protocol = read_protocol()
    named = tomllib.loads(SHIPPED.read_text())["parts"]
    for name, part in named.items():
        varied = part.get("vary", {})
        combinations = 1
        for values in varied.values():
            combinations *= len(values)
        planned = protocol.planned(name)
        count = len(part["schemes"]) * len(part["trials"]) * combinations
        assert len({run.run_id for run in planned}) == count
    main_table = [run.run_id for run in protocol.planned("code")]
    assert not {run.run_id for run in protocol.planned("seeds")} & {*main_table}
