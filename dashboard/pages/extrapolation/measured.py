"""The measured half of Extrapolation: trained models read past their training length."""

from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import Pair
from dashboard.compute import run_names, run_words, runs
from dashboard.controls import page_options, sidebar
from dashboard.frame import page, predictions, quiz
from dashboard.pages.extrapolation import charts, run_frames, script, shares
from dashboard.pages.extrapolation.shares import SHARES
from dashboard.text import listed, plain
from posenc.lab import summary
from posenc.lab.evaluate import contexts
from posenc.lab.runs import RunInfo
from posenc.lab.tasks import Language
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of

STEPS = (
    "Every model of a comparison has the same size, weights at the start, data, order and steps; only "
    "the scheme differs. The same target tokens are scored at every context length, so a curve that "
    "rises is not due to other targets. A band runs from the lowest seed to the highest. Loss comes "
    "first: a scheme that is flat but worse at the training length is not better. A learned table has "
    "no row past the training length; its line stops there, and repeating its last row is a line of "
    "its own. RoPE may be read by another frequency ladder without more training. A model can keep its "
    "loss by ignoring what is far: copying and recall show whether it still finds it."
)


Numbers = dict[str, pd.DataFrame]
UNITS = {
    "loss": ("Loss", "loss, nats per byte"),
    "perplexity": ("Perplexity", "perplexity per byte"),
}


def draw(settings: Pair[Setting], header: DeltaGenerator) -> None:
    """Draw the runs of one comparison, their headline in `header`.

    A run has numbers of its own, so of a setting only the schemes count: those of the pinned one are
    drawn beside those of the setting at hand, and each has a headline of its own.
    """
    setting, shown = settings.now, page.kinds(settings)
    asked = st.session_state.get("comparison") or st.query_params.get("comparison", "")
    every = runs.comparisons(runs.listed(run_names.hidden_runs(), asked))
    chosen = sidebar.choices(page_options.MeasuredChoice, words=list(every))
    name = chosen.comparison
    unread = runs.unreadable()
    if unread:
        st.caption(plain(unread))
    found = _asked(shown, every.get(name, []))
    if not found:
        with header:
            page.head("Extrapolation, measured", _nothing(shown, every.get(name, [])))
        st.page_link(
            "pages/train/page.py", label="Train your own", icon=":material/model_training:"
        )
        return
    one = found[0].specification
    st.caption(plain(f"{run_words.whole(one)}."))
    kinds = tuple(kind for kind in shown if any(run_frames.is_of(run, kind) for run in found))
    missing = tuple(kind for kind in shown if kind not in kinds)
    if missing:
        st.caption(f"None was trained with {page.names(missing)}.")
    alone = tuple(kind for kind in kinds if kind not in setting.schemes)
    if alone:
        st.caption(f"Of the pinned setting, A, alone: {page.names(alone)}.")
    _stopped(found)
    lost = [run.run_id for run in found if runs.run(run.run_id) is None]
    if lost:
        st.warning(
            f"{count_of(len(lost), 'trained model')} cannot be read now, {listed(lost)}: what follows "
            "is of the others.",
            icon=":material/warning:",
        )
    looks = _asked_first(shown, name, found)
    numbers: Numbers = {}
    if not looks:
        with header:
            page.head(_title(one.task), quiz.WITHHELD)
    elif one.task == Language.kind:
        with header:
            page.head(_title(one.task), settings.map(lambda of: _headline(of, found)))
        numbers |= _losses(found, kinds, chosen.unit)
        for task in SHARES:
            beside = next((key for key in every if key.startswith(f"{task}-")), None)
            if beside:
                numbers |= shares.draw(shown, _asked(shown, every[beside]))
    else:
        with header:
            page.head(_title(one.task), settings.map(lambda of: _headline(of, found)))
        numbers |= shares.draw(shown, found, say=settings.compared)
    st.caption(
        "Dimension, base and the other numbers of the sidebar change nothing here: a trained model has its "
        "own."
        + (" Of the pinned setting, A, the schemes count alone." if settings.compared else "")
    )
    for kind in kinds:
        if SCHEMES[kind].in_training:
            st.caption(f"{SCHEMES[kind].label}: {SCHEMES[kind].in_training}")
    st.page_link("pages/train/page.py", label="Train your own", icon=":material/model_training:")
    page.how_to_read(STEPS)
    page.definition(
        r"\ell(n) = -\frac{1}{|S|} \sum_{t \in S} \log p(x_t \mid x_{e-n}, \dots, x_{t-1})",
        "Loss of the targets S, the last quarter of a training length L before each end e, read in a "
        "window of n tokens: n - L/4 + 1 to n tokens stand before a target, and n alone changes. After "
        "Press et al. 2022, arXiv 2108.12409, section 2.2.",
        contexts,
        summary.first_degraded_length,
        summary.effect,
    )
    with st.expander("How these models were trained", icon=":material/assignment:"):
        alike = {key: value for key, value in one.record.items() if key not in ("scheme", "seed")}
        st.json({"alike": alike, "schemes": _schemes(found)}, expanded=1)
        if looks:
            page.table(run_frames.table(found))
    for title, frame in numbers.items():
        page.numbers(frame, title)
    measure = "context" if one.task == Language.kind else one.task
    ships = found[0].run_id in runs.shipped()
    if looks:
        page.script(script.measured(setting, name, measure, ships=ships))


def _title(task: str) -> str:
    return f"{SHARES[task].title}, measured" if task in SHARES else "Extrapolation, measured"


def _headline(setting: Setting, every: list[RunInfo]) -> str:
    """Say what the runs of one setting's schemes measured."""
    found = _asked(setting.schemes, every)
    if not found:
        return f"No model of {page.names(setting.schemes)} is in this comparison."
    one = found[0].specification
    if one.task != Language.kind:
        return shares.share_sentence(found)
    curves = run_frames.curves(found, "context")
    if not curves:
        return "Every training of this comparison stopped early."
    return run_frames.headline(curves, one.train_length)


def _asked_first(schemes: tuple[str, ...], name: str, found: list[RunInfo]) -> bool:
    """Draw the exercise where it is wanted; return whether the page may show what was measured."""
    task = found[0].specification.task
    if task in SHARES:
        curves = run_frames.curves(found, task)
        questions = predictions.of_shares(curves, SHARES[task].unit)
    else:
        curves = run_frames.curves(found, "context")
        questions = predictions.of_losses(curves)
    return quiz.ask("measured", (schemes, name), questions, curves)


def _losses(runs_drawn: list[RunInfo], kinds: tuple[str, ...], unit: str) -> Numbers:
    """Draw loss by context and by position, with the table of classes; return their numbers."""
    found = run_frames.curves(runs_drawn, "context")
    if not found:
        return {}
    length = found[0].specification.train_length
    what, y_title = UNITS[unit]
    st.subheader(f"{what} of the same tokens by context length", anchor=False)
    context = run_frames.frame(found)
    page.picture(
        _in_unit(context, unit).assign(boundary=float(length)),
        charts.measured(kinds, run_frames.reads(context), "tokens of context", y_title),
        key="measured_context",
    )
    st.caption(charts.strokes(run_frames.reads(context)))
    table = run_frames.elbows(found)
    page.table(table)
    st.caption(
        f"Loss, perplexity and bits per byte at {length:,} tokens; then the longest context read, "
        f"the loss there and perplexity as a multiple. {run_frames.classes_defined()}"
    )
    st.subheader(f"{what} by position in one long text", anchor=False)
    positions = run_frames.frame(run_frames.curves(runs_drawn, "position"))
    page.picture(
        _in_unit(positions, unit).assign(boundary=float(length)),
        # The strokes of the first chart, said above.
        charts.measured(kinds, run_frames.reads(context), "position, middle of a bucket", y_title),
        key="measured_position",
    )
    return {
        "measured loss by context": context.rename(columns={"x": "context", "y": "loss"}),
        "measured loss by position": positions.rename(columns={"x": "position", "y": "loss"}),
        "measured elbows": table,
    }


def _stopped(found: list[RunInfo]) -> None:
    """Name the runs that ended early; they have no scores."""
    for run in found:
        if run.stopped:
            one = run.specification
            st.info(f"{one.scheme.label}, seed {one.seed}: {run.stopped}", icon=":material/block:")


def _asked(schemes: tuple[str, ...], found: list[RunInfo]) -> list[RunInfo]:
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


def _in_unit(frame: pd.DataFrame, unit: str) -> pd.DataFrame:
    """The same curves in the unit that was asked for."""
    if unit == "loss":
        return frame
    return frame.assign(
        **{name: frame[name].map(summary.perplexity) for name in ("y", "low", "high")}
    )
