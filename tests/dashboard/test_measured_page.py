"""The measured view of Extrapolation: what it says of the runs in its store, by hand."""

import json
import math
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dashboard import pictures, run_losses, runs
from dashboard.blocks import Chart, Controls, Findings, Page, Text
from dashboard.charts import loss
from dashboard.charts.lines import LABEL_GAP
from dashboard.charts.palette import COLOURS, STROKES
from dashboard.pages.extrapolation.measured import OF_SHIPPED
from dashboard.pages.extrapolation.page import Options, page
from dashboard.pages.start.page import Options as StartOptions
from dashboard.pages.start.page import page as start_page
from dashboard.settings import Setting
from posenc.checkpoints import sources
from posenc.errors import StoreUnavailable
from posenc.lab import Run, Score, Specification, Store, curves
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.protocol import read_protocol
from posenc.lab.protocol_record import shipped_record
from posenc.lab.specification import name_of
from posenc.lab.summary import comparison
from tests.dashboard import pages
from tests.dashboard.called_pages import block_of, data, python_of, read_texts, texts
from tests.dashboard.page_queue import empty_page_caches
from tests.dashboard.pages import KINDS, LABELS, drawn, headline, visit
from tests.dashboard.shipped_runs import CODE, runs_of, shipped_runs
from tests.lab.small_runs import small_spec

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROPE = small_spec("rope", train_length=64)
OF_ROPE = comparison(replace(ROPE, seed=1))  # the seed is none of its name
CLASSES = "Measured classes"
# Loss by context, per scheme and seed: RoPE is best at 64 and breaks, ALiBi gains from context.
LOSSES: dict[tuple[str, str], tuple[dict[int, float], ...]] = {
    ("rope", TRAINED): (
        {32: 1.4, 64: 1.2, 128: 2.5, 256: 3.5}, {32: 1.6, 64: 1.4, 128: 2.7, 256: 3.9},
    ),
    ("rope", "NTK-aware"): ({128: 1.2, 256: 1.31}, {128: 1.4, 256: 1.51}),
    ("alibi", TRAINED): (
        {32: 1.6, 64: 1.5, 128: 1.45, 256: 1.399}, {32: 1.6, 64: 1.5, 128: 1.45, 256: 1.401},
    ),
    ("learned", TRAINED): ({32: 1.7, 64: 1.61}, {32: 1.7, 64: 1.79}),
    ("learned", CLAMPED): ({128: 3.0, 256: 3.0}, {128: 3.2, 256: 3.4}),
}  # fmt: skip


def measured(
    schemes: tuple[str, ...] = ("learned", "rope", "alibi"),
    comparison: str = OF_ROPE,
    **options: Any,
) -> Page:
    return page(Setting(schemes=schemes), Options(comparison=comparison, **options))


def picture(shown: Page) -> Chart:
    """The picture of losses by length, not of learning rates or steps, where several were tried."""
    (chart,) = [
        block
        for block in shown.all_blocks
        if isinstance(block, Chart) and block.key.startswith("measured_")
    ]
    return chart


def asked(shown: Page) -> list[str]:
    return [
        name for block in shown.all_blocks if isinstance(block, Controls) for name in block.names
    ]


def add_run(store: Store, specification: Specification, *scores: Score) -> None:
    store.add(Run(specification, None, 1.5, scores, (5.0, 2.0)), {})


def fill(store: Store) -> None:
    for kind in ("rope", "alibi", "learned"):
        for seed in (0, 1):
            scores = [
                Score("context", variant, x, loss, 128)
                for (scheme, variant), seeds in LOSSES.items()
                if scheme == kind
                for x, loss in seeds[seed].items()
            ]
            scores.append(Score("position", TRAINED, 8, 1.25 + seed, 64, until=16))
            add_run(store, replace(small_spec(kind, train_length=64), seed=seed), *scores)


def test_page_without_runs_says_so(store: Store) -> None:
    shown = measured()
    assert shown.headline == "No model of Learned, RoPE and ALiBi is on this server."
    assert read_texts(shown)[0] == (
        f"Comparison {OF_ROPE} is not on this server; {OF_SHIPPED} is shown instead."
    )
    assert asked(shown) == ["half", "comparison"]


def test_page_says_who_is_best_and_shows_means_of_the_seeds_with_their_band(store: Store) -> None:
    fill(store)
    shown = measured()
    # RoPE's seeds are 0.3 and 0.1 below ALiBi's, which two seeds do not tell from chance; both are
    # 0.4 below the learned table's.
    for fact in (
        "Trained on 64 tokens, evaluated at 256",
        "ALiBi (-0.100 nats) uses more context; RoPE (+2.40 nats) breaks",
        "Learned ends at 64",
    ):
        assert fact in shown.headline
    (details,) = [text for text in read_texts(shown) if text.startswith("Lowest loss")]
    for fact in (
        "Lowest loss at 64 tokens: RoPE, 1.30, not clearly different from ALiBi.",
        "mean of 2 seeds; dots: single seeds; bands: lowest to highest seed",
        "Holds: at most 0.049 nats higher. Degrades: at most 0.095 nats higher. Breaks: more than "
        "0.095 nats higher.",
    ):
        assert fact in details
    records = data(shown, "Measured loss by context").to_dict("records")
    rows = {(row["scheme"], row["read"], row["context"]): row for row in records}
    for (kind, variant), (first, second) in LOSSES.items():
        for x, pair in ((x, (first[x], second[x])) for x in first):
            row = rows[LABELS[kind], variant, x]
            assert row["loss"] == pytest.approx(sum(pair) / 2)
            assert (row["low"], row["high"], row["seeds"]) == (min(pair), max(pair), 2)
    classes: Any = data(shown, CLASSES).set_index("scheme")
    assert classes.loc["RoPE", "perplexity"] == pytest.approx(math.exp(1.3))
    assert classes.loc["RoPE", "bits per byte"] == pytest.approx(1.3 / math.log(2))
    # Not evaluated at the training length; 1.41 is 0.11 above the loss of the scheme as trained.
    assert np.isnan(classes.loc["RoPE, NTK-aware", ["loss", "perplexity"]].astype(float)).all()
    assert classes.loc["RoPE, NTK-aware", "change at the end"] == pytest.approx(0.11)
    assert classes.loc["RoPE", "change at the end"] == pytest.approx(3.7 - 1.3)
    assert classes["past training"].to_dict() == {
        "RoPE": "breaks", "RoPE, NTK-aware": "breaks", "ALiBi": "uses more context", "Learned": "ends",
        f"Learned, {CLAMPED}": "breaks",
    }  # fmt: skip
    assert classes["breaks at"].dropna().to_dict() == {
        "RoPE": 128, "RoPE, NTK-aware": 256, f"Learned, {CLAMPED}": 128,
    }  # fmt: skip
    assert block_of(shown, Findings, "measured").frame["loss"].equals(data(shown, CLASSES)["loss"])


def shipped_64(*kinds: str) -> list[Run]:
    """Return the runs that ship, of these schemes on text of 64 tokens."""
    return [run for run in runs_of(CODE) if run.specification.scheme.kind in kinds]


def test_thin_lines_are_the_losses_of_a_text_cut_to_the_training_length() -> None:
    """By a plain loop over the shipped runs; a variant is cut to what its model has as trained."""
    own = shipped_64("rope", "alibi")
    losses: dict[str, list[float]] = {}
    for run in own:
        for score in run.scores:
            if (score.measure, score.variant, score.x) == ("context", TRAINED, 64):
                losses.setdefault(run.specification.scheme.label, []).append(score.value)
    by_hand = {scheme: sum(values) / 5 for scheme, values in losses.items()}
    compared = curves(own, "context")
    for perplexity, unit in ((False, float), (True, math.exp)):
        drawn = loss.frame(compared, perplexity=perplexity)
        past = drawn[drawn["x"] >= 64]
        assert past["cut"].to_list() == pytest.approx(
            [unit(by_hand[scheme]) for scheme in past["scheme"]]
        )
        assert drawn[drawn["x"] < 64]["cut"].isna().all()
    assert {*past["read"]} > {TRAINED}
    assert loss.frame(curves(own, "position"))["cut"].isna().all()


def test_page_says_that_a_text_that_is_cut_is_better_where_every_seed_says_so() -> None:
    def sentence(*kinds: str) -> str:
        return run_losses.lowest_cut(curves(shipped_64(*kinds), "context"))

    assert sentence("rope", "alibi") == (
        "**RoPE that sees only the last 64 tokens has a loss of 1.25**, less than any of these models "
        "that sees 1,024: the lowest is ALiBi, 1.39."
    )
    assert sentence("rope") == (
        "**RoPE that sees only the last 64 tokens has a loss of 1.25**, less than any of these models "
        "that sees 1,024: the lowest is RoPE, position interpolation, 3.33."
    )
    # 1.254 against 1.257: seeds differ as much.
    alike = shipped_64("transformer_xl", "rope")
    assert run_losses.lowest_cut(curves(alike, "context")) == ""
    one_seed = [run for run in shipped_64("rope") if run.specification.seed == 0]
    assert run_losses.lowest_cut(curves(one_seed, "context")) == ""


def test_picture_draws_variants_perplexity_and_positions_where_they_are_chosen(
    store: Store,
) -> None:
    fill(store)
    assert {*picture(measured()).drawn["name"]} == {"RoPE", "ALiBi", "Learned"}
    context = picture(measured(variants=True)).frame
    rope = context[(context["scheme"] == "RoPE") & (context["read"] == TRAINED)]
    assert rope["x"].tolist() == [32, 64, 128, 256]
    assert rope["y"].tolist() == pytest.approx([1.5, 1.3, 2.6, 3.7])
    assert set(context["boundary"]) == {64.0}
    ends = context.dropna(subset="label").set_index("name")
    assert ends["x"].to_dict() == {
        "RoPE": 256, "RoPE, NTK-aware": 256, "ALiBi": 256, "Learned": 64, f"Learned, {CLAMPED}": 256,
    }  # fmt: skip
    assert ends["label"].to_dict() == {name: name for name in ends.index}
    assert ends["early"].to_dict() == {name: name == "Learned" for name in ends.index}
    as_perplexity = picture(measured(variants=True, unit="perplexity")).numbers()
    for column, name in (("y", "perplexity"), ("high", "high")):
        expected = context[column].map(math.exp).tolist()
        assert as_perplexity[name].tolist() == pytest.approx(expected)
    position = picture(measured(axis="position"))
    assert set(position.frame["x"]) == {11.5}  # the middle of positions 8 to 15


def test_measured_lines_have_the_dash_and_the_marker_of_their_scheme(store: Store) -> None:
    """As Vega draws them: the line, its legend, and points whose shape no other scheme has."""
    fill(store)
    chart = picture(measured())
    svg = pictures.svg(pictures.chart(chart.spec, chart.drawn))
    shapes = []
    for kind in ("rope", "alibi", "learned"):
        dash = ",".join(map(str, STROKES[kind]))
        dashed = f'stroke="{COLOURS[kind]}" stroke-width="[0-9.]+" stroke-dasharray="{dash}"'
        assert len(re.findall(f'"line mark" d="[^"]+" {dashed}', svg)) == 1, kind
        in_legend = f'd="M-5,0L25,0" fill="{COLOURS[kind]}" {dashed}'
        assert len(re.findall(in_legend, svg)) == 1, kind
        points = re.findall(f'd="([^"]+)" fill="{COLOURS[kind]}" stroke-width="2"', svg)
        shapes.append(points[0])
        assert points.count(points[0]) == (2 if kind == "learned" else 4), kind
    assert len({*shapes}) == 3


@pytest.mark.parametrize(
    ("own", "other", "above"),
    [
        ((1.0, 0.5), (0.0, 0.0), False),  # above its end passes the line itself
        ((0.5, 0.5), (0.5, 0.45), True),  # below passes the other
        ((1.0, 1.0), (0.95, 0.9), False),  # above is outside of the chart
    ],
)
def test_name_of_a_line_that_ends_inside_stands_at_its_end_on_the_side_with_more_room(
    own: tuple[float, float], other: tuple[float, float], above: bool, store: Store
) -> None:
    """Copied strings of up to 20 letters of a learned table, of up to 40 of ALiBi."""
    for kind, (before, last) in {"learned": own, "alibi": other}.items():
        shares = {1: 1.0, 15: before, 20: last} | ({40: 0.0} if kind == "alibi" else {})
        scores = (Score("copy", TRAINED, x, share, 200) for x, share in shares.items())
        add_run(store, small_spec(kind, task="copy", train_length=20), *scores)
    shown = measured(comparison=comparison(small_spec("alibi", task="copy", train_length=20)))
    (end,) = picture(shown).frame.query("early").to_dict("records")
    assert (end["label"], end["x"]) == ("Learned", 20)
    assert end["label_y"] - own[1] == pytest.approx(0.088 if above else -0.088)


def test_names_of_lines_that_all_end_at_zero_do_not_cover_each_other(store: Store) -> None:
    """Recall after few steps: no scheme recalls anything anywhere."""
    for kind in KINDS:
        specification = small_spec(kind, task="recall", train_length=32)
        add_run(store, specification, *(Score("recall", TRAINED, x, 0.0, 200) for x in (1, 29, 60)))
    shown = measured(KINDS, comparison=comparison(specification))
    frame = picture(shown).frame
    heights = sorted(frame["label_y"].dropna())
    assert len(heights) == frame["name"].nunique() > 3
    assert min(np.diff(heights)) >= LABEL_GAP - 1e-12
    assert (heights[0], heights[-1] < 1) == (0.0, True)


def test_every_measured_context_has_a_tick(store: Store) -> None:
    fill(store)
    spec = picture(measured()).spec
    axes = [x["axis"] for layer in spec["layer"] if "axis" in (x := layer["encoding"].get("x", {}))]
    assert len(axes) >= 2
    assert all(axis["values"] == [32, 64, 128, 256] for axis in axes)


def test_other_lengths_and_schemes_without_runs_are_named(store: Store) -> None:
    fill(store)
    shown = read_texts(measured(("sinusoidal", "rope")))
    assert any(text.startswith("Lowest loss at 64 tokens: RoPE, 1.30.") for text in shown)
    assert "Not trained in this comparison: Sinusoidal." in shown
    other = small_spec("rope", train_length=128)
    add_run(store, other, Score("context", TRAINED, 128, 1.0, 1))
    shown = read_texts(measured(comparison=comparison(other)))
    assert any(text.startswith("Lowest loss at 128 tokens: RoPE, 1.00.") for text in shown)


def test_comparison_is_chosen_by_its_title_and_stands_in_the_link_by_its_name(store: Store) -> None:
    fill(store)
    add_run(store, small_spec("rope", train_length=128), Score("context", TRAINED, 128, 1.0, 1))
    link = {"schemes": "rope", "comparison": OF_ROPE}
    at = drawn(visit("extrapolation", link | {"half": "measured"}))
    box = at.segmented_control(key="comparison")
    assert [*box.options] == [OF_SHIPPED, "Text, 64 tokens", "Text, 128 tokens"]
    assert "Trained on 64 tokens" in headline(at)
    (other,) = [name for name in runs.comparisons(runs.all_ids()) if name != OF_ROPE]
    drawn(box.set_value(other).run())
    assert "Trained on 128 tokens" in headline(at)
    assert at.query_params["comparison"] == other
    default = drawn(visit("extrapolation", {"schemes": "rope", "half": "measured"}))
    assert headline(default) == "No model of RoPE is on this server."
    assert "comparison" not in default.query_params


def test_run_of_a_visitor_is_drawn_beside_what_ships_only_where_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third seed of RoPE in a comparison that ships, and a comparison of its own."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path))
    empty_page_caches()
    schemes = ("rope", "alibi")
    before = measured(schemes, "")
    (rope, *_) = [run.specification for run in shipped_64("rope")]
    name, store = comparison(rope), Store(tmp_path)
    own = replace(rope, seed=7)
    assert comparison(own) == name
    add_run(
        store, own, Score("context", TRAINED, 64, 9.0, 1), Score("context", TRAINED, 128, 9.0, 1)
    )
    empty_page_caches()
    beside = measured(schemes, "")
    assert "own_runs" not in asked(before)
    assert "own_runs" in asked(beside)
    assert beside.headline == before.headline
    assert data(beside, CLASSES).equals(data(before, CLASSES))
    assert picture(beside).frame.equals(picture(before).frame)
    chosen = measured(schemes, "", own_runs=True)
    assert chosen.headline != before.headline
    classes = data(chosen, CLASSES).set_index("scheme")
    assert (classes.loc["RoPE", "seeds"], classes.loc["ALiBi", "seeds"]) == (6, 5)
    alone = replace(small_spec("rope", train_length=64), seed=7)  # nothing of it ships
    add_run(
        store, alone, Score("context", TRAINED, 64, 2.0, 1), Score("context", TRAINED, 128, 2.0, 1)
    )
    empty_page_caches()
    shown = measured(schemes, comparison(alone))
    assert "RoPE (+0.000 nats) holds" in shown.headline
    assert "own_runs" not in asked(shown)
    empty_page_caches()


# Stores that fail ---------------------------------------------------------------------------------


def refuse_io(*_: object, **__: object) -> None:
    raise OSError(5, "Input/output error")


def test_broken_file_is_named(store: Store) -> None:
    fill(store)
    path = Path(store.path(f"{5:020x}.parquet"))
    path.write_bytes(b"PAR1 no more")
    assert f"run {path.stem} cannot be read." in read_texts(measured())
    assert "RoPE (+2.40 nats) breaks" in measured().headline


def test_run_of_a_scheme_that_is_not_registered_is_named_with_its_scheme(store: Store) -> None:
    fill(store)
    run = Path(store.path(f"{store.ids()[0]}.parquet"))
    table = pq.read_table(run)
    note = json.loads(table.schema.metadata[b"posenc"])
    record = note["specification"] | {"scheme": {"kind": "square_root"}}
    text = json.dumps(note | {"specification": record}).encode()
    name = name_of(record)
    pq.write_table(table.replace_schema_metadata({b"posenc": text}), run.with_stem(name))
    told = f"run {name} is of a scheme that is not registered here: 'square_root'."
    assert told in read_texts(measured())
    assert "RoPE (+2.40 nats) breaks" in measured().headline


def test_folder_that_cannot_be_listed_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(store.root).mkdir(parents=True, exist_ok=True)
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda at: refuse_io() if at == store.root else real(at))
    shown = read_texts(measured())
    assert any("trained on this server cannot be read now" in text for text in shown)


@pytest.mark.parametrize("whole_store", [True, False])
def test_run_that_could_not_be_read_once_is_shown_when_it_can(
    whole_store: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    lost = next(run.run_id for run in store if run.specification.scheme.kind == "rope")
    read = Store.read

    def fail(self: Store, run_id: str) -> Run:
        if run_id == lost:
            raise StoreUnavailable("The store of runs cannot be read: Input/output error.")
        return read(self, run_id)

    with monkeypatch.context() as broken:
        if whole_store:
            broken.setattr(type(store.files), "cat_file", refuse_io)
        else:
            broken.setattr(Store, "read", fail)
        shown = measured()
        warning = f"1 trained model cannot be read now, {lost}"
        boxes = [b.text for b in shown.all_blocks if isinstance(b, Text) and b.look == "warning"]
        assert [warning in text for text in boxes].count(True) == (not whole_store)
        first = ", ".join(f"run {run_id}" for run_id in store.ids()[:3])
        assert (f"{first} and 3 more cannot be read." in read_texts(shown)) == whole_store
        assert "RoPE, 1.30" not in " ".join(read_texts(shown))
    assert len(store.ids()) == 6
    empty_page_caches()  # what could not be read is tried again after a minute
    assert "RoPE, 1.30" in " ".join(read_texts(measured()))


# Copying and recalling ----------------------------------------------------------------------------


def test_copying_is_shown_where_there_are_such_runs(store: Store) -> None:
    fill(store)
    for kind, shares in (("alibi", {20: 0.75, 30: 0.25}), ("learned", {20: 0.125})):
        scores = (Score("copy", TRAINED, x, share, 200) for x, share in shares.items())
        add_run(store, small_spec(kind, task="copy", train_length=20), *scores)
    name = comparison(small_spec("alibi", task="copy", train_length=20))
    shown = measured(comparison=name, axis="position", unit="perplexity")  # asked of texts alone
    expected = "Correct at 20 letters: Learned 12% and ALiBi 75%. "
    expected += "At least half correct up to: Learned nowhere and ALiBi 20."
    assert shown.headline == expected
    rows = data(shown, "Measured copy")[["scheme", "letters", "accuracy"]].to_numpy().tolist()
    assert rows == [["Learned", 20, 0.125], ["ALiBi", 20, 0.75], ["ALiBi", 30, 0.25]]
    drawn = picture(shown).numbers()[["scheme", "letters", "accuracy"]]
    assert drawn.to_numpy().tolist() == rows
    assert asked(shown) == ["half", "comparison"]


def test_recall_is_shown_with_chance_for_schemes_that_learned_it(store: Store) -> None:
    """Trained on 16 tokens: distances 1 to 13 are within the training range."""
    shares = {
        "rope": {1: 1.0, 13: 0.98, 15: 0.75, 255: 0.1},
        "alibi": {1: 0.9, 13: 0.5, 15: 0.9, 255: 0.9},
    }
    for kind, by_distance in shares.items():
        scores = [Score("recall", TRAINED, x, value, 400) for x, value in by_distance.items()]
        if kind == "rope":
            scores.append(Score("recall", "NTK-aware", 255, 0.6, 400))
        add_run(store, small_spec(kind, task="recall"), *scores)
    name = comparison(small_spec("rope", task="recall"))
    shown = measured(comparison=name)
    for fact in ("RoPE 99% and ALiBi 70%", "not judged past it: ALiBi", "up to: RoPE 15."):
        assert fact in shown.headline
    frame = picture(shown).frame
    assert set(frame["chance"]) == {0.25}
    assert set(frame["boundary"]) == {13.0}
    accuracies = data(shown, CLASSES).set_index("scheme")["accuracy in training"]
    assert accuracies.dropna().to_dict() == {
        "RoPE": pytest.approx(0.99),
        "ALiBi": pytest.approx(0.7),
    }
    table = block_of(shown, Findings, "measured").frame.set_index("scheme")
    assert table.loc["RoPE, NTK-aware", "accuracy at the end (%)"] == pytest.approx(60)
    assert table.loc["RoPE", "accuracy in training (%)"] == pytest.approx(99)
    chart = picture(shown)
    svg = pictures.svg(pictures.chart(chart.spec, chart.drawn))
    assert {"0%", "50%", "100%"} <= {*re.findall(r">([0-9.]+%?)</text>", svg)}
    reached = data(shown, CLASSES).set_index("scheme")["half correct up to"]
    assert reached.dropna().to_dict() == {"RoPE": 15, "RoPE, NTK-aware": 255}
    (about,) = [text for text in read_texts(shown) if "guessing among" in text]
    assert (
        "a rule that knows the distance and compares no keys: past 13 tokens it is right in 43.8%"
        in about
    )
    rule = frame.set_index("x")["by_position"]
    assert rule[rule.index <= 13].isna().all()
    assert rule[rule.index > 13].round(3).to_list() == [0.438] * (rule.index > 13).sum()


def test_half_correct_of_a_variant_is_that_of_a_loop_over_the_shipped_runs() -> None:
    shown = measured(Setting().schemes, "recall-32-d89b5de4")
    values: dict[str, dict[int, list[float]]] = {}
    for run in shipped_runs():
        for score in run.scores:
            if score.measure != "recall":
                continue
            way = "" if score.variant == TRAINED else f", {score.variant}"
            label = f"{run.specification.scheme.label}{way}"
            values.setdefault(label, {}).setdefault(score.x, []).append(score.value)
    reached = data(shown, CLASSES).set_index("scheme")["half correct up to"]
    for label in ("RoPE", "RoPE, NTK-aware", "RoPE, position interpolation", "ALiBi", "NoPE",
                  "Learned", f"Learned, {CLAMPED}"):  # fmt: skip
        expected = None
        for x in sorted(values[label]):
            if sum(values[label][x]) / len(values[label][x]) < 0.5:
                break
            expected = x
        assert reached[label] == expected, label
    assert set(reached.index[reached.isna()]) == {"Sinusoidal", "PoPE", "FoX"}  # did not learn it


def test_page_says_what_schemes_that_hold_their_loss_recall() -> None:
    """Of ALiBi alone, which holds; the mean of its seeds at the largest distance."""
    recalled = [
        (score.x, score.value)
        for run in shipped_runs()
        if (run.specification.task, run.specification.scheme.kind) == ("recall", "alibi")
        for score in run.scores
        if (score.measure, score.variant) == ("recall", TRAINED)
    ]
    farthest = max(x for x, _ in recalled)
    values = [value for x, value in recalled if x == farthest]
    (said_of_loss,) = [
        text for text in read_texts(measured(comparison="")) if "not everything" in text
    ]
    assert said_of_loss.endswith(
        f"Recall at distance {farthest}, trained up to 29: ALiBi {100 * sum(values) / 3:.0f}%; "
        "a rule that knows the distance and compares no keys: 42%."
    )
    for name in runs.comparisons(runs.shipped()):
        on_page = any("not everything" in text for text in read_texts(measured(comparison=name)))
        assert on_page == name.startswith("language")


def test_page_without_recall_says_that_loss_leaves_use_of_distance_open(store: Store) -> None:
    fill(store)
    (said_of_loss,) = [text for text in read_texts(measured()) if "not everything" in text]
    assert said_of_loss.endswith("Recall and Copy show whether it still uses them.")


def test_the_run_outside_the_protocol_has_the_table_that_pages_call_trained() -> None:
    of_protocol = {row.run_id for row in shipped_record()}
    (run,) = [run for run in shipped_runs() if run.run_id not in of_protocol]
    spec = run.specification
    assert (spec.task, spec.train_length, spec.scheme.kind) == ("language", 128, "learned")
    assert run.run_id == sources.TRAINED_TABLE
    assert run.stopped is None
    assert run.scores


def test_shipped_tables_of_the_protocol_have_every_trial_of_their_schemes() -> None:
    plan, stored = read_protocol(), {run.run_id for run in shipped_runs()}
    rows = [row for row in shipped_record() if not row.sweep]
    assert {row.run_id for row in rows} <= stored
    counts = Counter((row.part, row.scheme) for row in rows)
    assert counts
    for (part, _), count in counts.items():
        assert count == len(plan.part(part).trials) * len(plan.part(part).varied)


@pytest.mark.parametrize("schemes", [("rope", "t5"), ("rope", "cope")])
def test_page_opens_on_the_models_that_the_other_pages_show(schemes: tuple[str, ...]) -> None:
    shown = measured(schemes, "")
    names = {comparison(run.specification) for run in shipped_runs()}
    assert [each for each in names if each in python_of(shown)] == [CODE]
    assert shown.headline.startswith("Trained on 64 tokens")
    start = start_page(Setting(schemes=schemes), StartOptions())
    assert any("Loss: trained on 64 tokens" in text for text in texts(start))
    assert any(  # recall's models have 3
        text.startswith("Badges, whatever the sliders say: 3 to 5 seeds") for text in texts(start)
    )
    assert OF_SHIPPED == CODE


@pytest.mark.parametrize(
    ("link", "view"),
    [
        ({}, "measured"),
        ({"reach": "8"}, "measured"),  # of a version before there were two views
        ({"reach": "8", "half": "formula"}, "formula"),
    ],
)
def test_link_opens_on_what_is_measured_unless_it_asks_for_the_formula(
    link: dict[str, str], view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(pages.VIEWS, "extrapolation")
    at = drawn(visit("extrapolation", link))
    assert headline(at).startswith("Trained on" if view == "measured" else "Past the training")


def test_fine_tuned_models_of_a_scheme_are_drawn_as_variants_alone() -> None:
    """Fine-tuned models of a scheme that has no others need no toggle Variants."""
    plain, all_of_them = measured(("rope",), CODE), measured(("rope",), CODE, variants=True)
    tuned = "fine-tuned at 256 tokens"
    assert {*picture(plain).frame["read"]} == {TRAINED}
    assert tuned in {*picture(all_of_them).frame["read"]}
    assert "fine-tuned" not in plain.headline
    assert tuned in {*picture(measured(("rope_yarn",), CODE)).frame["read"]}
