"""The measured view of Extrapolation: trained models evaluated past their training length."""

from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import Pair
from dashboard.compute import run_names, run_words, runs
from dashboard.controls import sidebar
from dashboard.frame import page, quiz
from dashboard.pages.extrapolation import (
    accuracy,
    charts,
    comparison,
    questions,
    run_frames,
    script,
)
from dashboard.pages.extrapolation.options import LossChoice
from dashboard.text import listed, plain
from posenc.lab import summary
from posenc.lab.evaluate import contexts
from posenc.lab.runs import RunInfo
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language, Recall
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of

STEPS = (
    "The models of a comparison share size, initial weights, data, order and steps; only the scheme "
    "differs. The same target tokens are scored at every context length, so a rising curve is not due to "
    "other targets. A band runs from the lowest seed to the highest. Compare losses at the training length "
    "first: a flat curve with a higher loss is not better. A learned table ends at the training length; "
    "repeating its last row is a line of its own. RoPE can be evaluated with other frequencies without "
    "more training. A model can keep its loss by ignoring distant tokens; copy and recall show whether it "
    "still uses them."
)
UNITS = {"loss": "loss, nats per byte", "perplexity": "perplexity per byte"}


def draw(settings: Pair[Setting], header: DeltaGenerator, row: DeltaGenerator) -> None:
    """Draw the runs of one comparison: the headline in `header`, the controls in `row`.

    A run has numbers of its own, so of a setting only the schemes count: those of the pinned one are
    drawn beside those of the current one, and each has a headline of its own.
    """
    shown = page.kinds(settings)
    every = runs.comparisons(runs.listed(run_names.hidden_runs(), comparison.asked()))
    name = comparison.choose(row, every)
    if unread := runs.unreadable():
        st.caption(plain(unread))
    whole = every.get(name, [])
    found = _of(shown, whole)
    if not found:
        with header:
            page.head("Extrapolation", _nothing(shown, whole))
        _train()
        return
    one = found[0].specification
    language = one.task == Language.kind
    picture = st.container()
    below = st.container(horizontal=True, vertical_alignment="top")
    chosen = sidebar.choices(LossChoice, below) if language else LossChoice()
    curves = run_frames.curves(found, "context" if language else one.task)
    asked = questions.of_losses(curves) if language else _reach_questions(curves)
    shows = quiz.ask("measured", (shown, name), asked, curves)
    with header:
        said = settings.map(lambda of: _headline(of.schemes, found)) if shows else quiz.WITHHELD
        page.head("Extrapolation", said)
    if shows and curves:
        with picture:
            _picture(found, shown, chosen)
        about = run_frames.details(curves, one.train_length) if language else accuracy.about(one)
        st.caption(plain(about))
        st.subheader("All measured schemes", anchor=False)
        _table(whole)
    _notes(settings, found, shown)
    _train()
    page.how_to_read(STEPS)
    page.definition(
        r"\ell(n) = -\frac{1}{|S|} \sum_{t \in S} \log p(x_t \mid x_{e-n}, \dots, x_{t-1})",
        "Loss of the targets S, the last quarter of a training length L before each end e, in a "
        "window of n tokens: n - L/4 + 1 to n tokens stand before a target, and only n changes. After "
        "Press et al. 2022, arXiv 2108.12409, section 2.2.",
        contexts,
        summary.first_degraded_length,
        summary.effect,
    )
    _how_trained(found, shows=shows)
    if shows:
        _numbers(found, whole)
        ships = found[0].run_id in runs.shipped()
        measure = "context" if language else one.task
        page.script(script.measured(settings.now, name, measure, ships=ships))


def _picture(found: list[RunInfo], shown: tuple[str, ...], chosen: LossChoice) -> None:
    """Draw loss, perplexity or accuracy of these runs, one line per scheme and variant."""
    one = found[0].specification
    if one.task == Language.kind:
        measure = "context" if chosen.axis == "context length" else "position"
        x_title = "tokens of context" if measure == "context" else "position in one long text"
        y_title, log, boundary, chance = UNITS[chosen.unit], True, one.train_length, None
    else:
        task = accuracy.TASKS[one.task]
        measure, x_title, y_title, chance = one.task, task.unit, task.y_title, task.chance
        log, boundary = one.task == Recall.kind, accuracy.farthest(one)
    points = run_frames.frame(run_frames.curves(found, measure))
    if one.task == Language.kind and chosen.unit == "perplexity":
        points = points.assign(
            **{name: points[name].map(summary.perplexity) for name in ("y", "low", "high")}
        )
    frame = run_frames.drawn(points).assign(boundary=float(boundary))
    if chance is not None:
        frame = frame.assign(chance=chance)
    kinds = tuple(kind for kind in shown if any(run_frames.is_of(run, kind) for run in found))
    reads = run_frames.reads(points)
    page.picture(
        frame,
        charts.measured(
            kinds,
            reads,
            tuple(frame["name"].unique()),
            x_title,
            y_title,
            log=log,
            chance=chance is not None,
            labels=not page.on_phone(),
        ),
        key=f"measured_{measure}",
    )
    if len(reads) > 1:
        st.caption(charts.strokes(reads))


def _table(whole: list[RunInfo]) -> None:
    """Draw a sortable table of every scheme and variant of a comparison."""
    if whole[0].specification.task == Language.kind:
        page.table(run_frames.classes(run_frames.curves(whole, "context")))
    else:
        page.table(accuracy.table(run_frames.curves(whole, whole[0].specification.task)))


def draw_result(found: list[RunInfo]) -> None:
    """Draw the headline and the picture of finished runs, for a page that has just trained them."""
    kinds = tuple(kind for kind in SCHEMES if any(run_frames.is_of(run, kind) for run in found))
    if found:
        st.markdown(f"**{_headline(kinds, found)}**")
    if any(run.stopped is None for run in found):
        _picture(found, kinds, LossChoice())


def _headline(schemes: tuple[str, ...], every: list[RunInfo]) -> str:
    """Return what the runs of these schemes measured."""
    found = _of(schemes, every)
    if not found:
        return f"No model of {page.names(schemes)} is in this comparison."
    one = found[0].specification
    language = one.task == Language.kind
    curves = run_frames.curves(found, "context" if language else one.task)
    if not curves:
        return "Every training of this comparison stopped early."
    if language:
        return run_frames.headline(curves, one.train_length)
    return accuracy.headline(curves)


def _reach_questions(curves: list[Curve]) -> list[quiz.Question[questions.Curves]]:
    return questions.of_shares(curves, accuracy.TASKS[curves[0].measure].unit) if curves else []


def _notes(settings: Pair[Setting], found: list[RunInfo], shown: tuple[str, ...]) -> None:
    """Say which runs these are, which schemes have none, and which cannot be shown."""
    st.caption(plain(f"{run_words.whole(found[0].specification)}."))
    kinds = tuple(kind for kind in shown if any(run_frames.is_of(run, kind) for run in found))
    if missing := tuple(kind for kind in shown if kind not in kinds):
        st.caption(f"Not trained in this comparison: {page.names(missing)}.")
    if pinned := tuple(kind for kind in kinds if kind not in settings.now.schemes):
        st.caption(f"Only in the pinned setting, A: {page.names(pinned)}.")
    for run in found:
        if run.stopped:
            one = run.specification
            st.info(
                plain(f"{one.scheme.label}, seed {one.seed}: {run.stopped}"),
                icon=":material/block:",
            )
    lost = [run.run_id for run in found if runs.run(run.run_id) is None]
    if lost:
        st.warning(
            f"{count_of(len(lost), 'trained model')} cannot be read now, {listed(lost)}. The others "
            "are shown.",
            icon=":material/warning:",
        )
    for kind in kinds:
        if SCHEMES[kind].in_training:
            st.caption(f"{SCHEMES[kind].label}: {SCHEMES[kind].in_training}")


def _train() -> None:
    st.page_link("pages/train/page.py", label="Train your own", icon=":material/model_training:")


def _how_trained(found: list[RunInfo], *, shows: bool) -> None:
    """Draw how the models were trained, once somebody opens it."""
    drawer = st.expander(
        "How these models were trained",
        key="how_trained",
        on_change="rerun",
        icon=":material/assignment:",
    )
    if not drawer.open:
        return
    record = found[0].specification.record
    shared = {key: value for key, value in record.items() if key not in ("scheme", "seed")}
    with drawer:
        st.json({"shared": shared, "schemes": _schemes(found)}, expanded=1)
        if shows:
            page.table(run_frames.table(found))


def _numbers(found: list[RunInfo], whole: list[RunInfo]) -> None:
    """Offer the numbers of every picture of this comparison, and the table."""
    task = found[0].specification.task
    if task == Language.kind:
        for measure in ("context", "position"):
            frame = run_frames.frame(run_frames.curves(found, measure))
            page.numbers(
                frame.rename(columns={"x": measure, "y": "loss"}), f"measured loss by {measure}"
            )
        page.numbers(run_frames.classes(run_frames.curves(whole, "context")), "measured classes")
        return
    curves = run_frames.curves(found, task)
    about, frame = accuracy.TASKS[task], run_frames.frame(curves)
    if about.chance is not None:
        inside = pd.Series(accuracy.in_range(curves), index=frame.index, dtype=float)
        frame["in range"], frame["chance"] = inside, about.chance
    page.numbers(frame.rename(columns={"x": about.unit, "y": "accuracy"}), f"measured {task}")


def _of(schemes: tuple[str, ...], found: list[RunInfo]) -> list[RunInfo]:
    return [run for run in found if run.specification.scheme.kind in schemes]


def _nothing(schemes: tuple[str, ...], others: list[RunInfo]) -> str:
    missing = page.names(schemes)
    if not others:
        return f"No model of this comparison is on this server, none of {missing} either."
    asked = " ".join(f"--scheme {kind}" for kind in schemes)
    return (
        f"No model of {missing} is in this comparison; "
        f"`python -m posenc train {asked} {arguments(others)}` makes some."
    )


def arguments(found: list[RunInfo]) -> str:
    """Return the arguments of the command line that make runs like these, but for their schemes."""
    one = found[0].specification
    words: dict[str, object] = {}
    if one.corpus_name and "standard library" not in one.corpus_name:
        words["--text"] = "FILE"
    words |= {
        "--task": one.task, "--train-length": one.train_length, "--steps": one.steps,
        "--batch": one.batch, "--learning-rate": repr(one.learning_rate),
        "--width": one.model.width, "--layers": one.model.layers, "--heads": one.model.heads,
        "--longest": one.longest, "--segments": one.segments, "--device": one.device,
        "--threads": one.threads,
    }  # fmt: skip
    bases = {base for run in found if (base := getattr(run.specification.scheme, "base", None))}
    said = [f"{name} {value}" for name, value in words.items()]
    said += [f"--base {base!r}" for base in sorted(bases - {Setting().base})]
    return " ".join([*said, *(["--compile"] if one.compiled else [])])


def _schemes(found: list[RunInfo]) -> dict[str, Any]:
    """The config of every scheme, once for each that differs."""
    records: dict[str, list[Any]] = {}
    for one in found:
        record = one.specification.record["scheme"]
        same = records.setdefault(one.specification.scheme.label, [])
        if record not in same:
            same.append(record)
    return {label: same[0] if len(same) == 1 else same for label, same in records.items()}
