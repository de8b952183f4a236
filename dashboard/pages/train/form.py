"""What one more start of training would make and take, and the button that starts it."""

import contextlib
import hashlib
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts import loss
from dashboard.compute import run_descriptions, run_labels, run_results, runs
from dashboard.controls import uploads
from dashboard.controls.widgets import pressed
from dashboard.frame import page
from dashboard.limits import MAX_RUN_STEPS
from dashboard.pages.train import board
from dashboard.pages.train.options import TrainingChoice
from dashboard.server import counters, identity, settings
from dashboard.server.incidents import answered
from dashboard.server.logs import event
from dashboard.server.workers import server_workers
from dashboard.text import duration, plain
from posenc import fields
from posenc.errors import PosencError, QueueUnwritable, RunError
from posenc.lab import summary
from posenc.lab.jobs import JobState
from posenc.lab.labels import MAX_NAME, check_name
from posenc.lab.run_once import Speed, calibrate
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.sweep import specifications
from posenc.lab.tasks import Corpus, Language, from_text, standard_library
from posenc.settings import Setting
from posenc.text import count_of, printable_name

NAME_SHOWN = 60
SPEED_FOR = 600.0  # seconds that a measurement of this machine is believed
FEWEST_STEPS = 20
SMALL = {"run_length": 16, "width": 32, "layers": 1, "run_heads": 2, "seeds": 1}
MEDIUM = {"run_length": 32, "width": 64, "layers": 2, "run_heads": 4, "seeds": 1}
# Of the runs that ship, the text models trained on 64 tokens: those of 128 have another batch size.
SHIPPED = {"run_length": 64, "width": 128, "layers": 3, "run_heads": 4, "seeds": 3, "steps": 1_200}
# The values of each preset, and the seconds that its steps should take on this machine.
PRESETS: dict[str, tuple[dict[str, int], float | None]] = {
    "10 seconds": (SMALL, 10.0),
    "2 minutes": (MEDIUM, 120.0),
    "as shipped": (SHIPPED, None),
}
_SCRIPT = """
from posenc.lab import Store, run_once, standard_library
from posenc.lab.sweep import specifications

corpus = {corpus}
plan = specifications(
    {schemes!r}, seeds={seeds}, bases=({base!r},), widths=({width},), layers={layers}, heads={run_heads},
    corpus=corpus, train_length={run_length}, task={task!r}, steps={steps},
)
store = Store()  # your own, a folder of your user data
print("run,scheme,seed,last loss")
for specification in plan:
    run = run_once(specification, corpus, store)
    print(run.run_id, specification.scheme.label, specification.seed, run.losses[-1], sep=",")
"""


@st.cache_resource(max_entries=1, ttl=SPEED_FOR, show_spinner="Timing a small model")
def speed() -> Speed:
    """Return how fast this machine trains, measured once in a while for all visitors."""
    return calibrate()


def plan(setting: Setting, chosen: TrainingChoice, corpus: Corpus | None) -> list[Specification]:
    """Return the runs that the controls mean. Raises ConfigError for sizes that do not fit."""
    return specifications(
        setting.schemes,
        seeds=chosen.seeds,
        bases=(setting.base,),
        widths=(chosen.width,),
        layers=chosen.layers,
        heads=chosen.run_heads,
        corpus=corpus if chosen.task == Language.kind else None,
        train_length=chosen.run_length,
        task=chosen.task,
        steps=chosen.steps,
    )


def draw_presets(setting: Setting) -> None:
    """Draw a button per preset."""
    row = st.container(horizontal=True)
    for name in PRESETS:
        row.button(name.capitalize(), key=f"preset_{name}", on_click=_apply, args=(name, setting))


@answered
def _apply(name: str, setting: Setting) -> None:
    values, seconds = PRESETS[name]
    steps = {} if seconds is None else {"steps": steps_within(seconds, setting, values)}
    st.session_state.update({"task": Language.kind} | values | steps)


def steps_within(seconds: float, setting: Setting, values: dict[str, Any]) -> int:
    """Return how many training steps of every run fit a time, evaluation included."""
    planned = plan(setting, TrainingChoice(**values, steps=1), standard_library())
    timed = speed()
    step = sum(timed.step(run) for run in planned)
    evaluation = sum(timed.seconds(run) for run in planned) - step
    steps = round((seconds - evaluation) / step)
    return min(max(FEWEST_STEPS, steps - steps % 10), MAX_RUN_STEPS)


def fitted(chosen: TrainingChoice) -> TrainingChoice:
    """Return the choice with the nearest width that gives every head an even one."""
    rule = fields.rules(chosen)["width"]
    assert isinstance(rule, fields.IntRange)
    width = replace(rule, multiple_of=2 * chosen.run_heads).clamp(chosen.width)
    return replace(chosen, width=width)


def upload() -> tuple[bytes, str] | None:
    """Draw the choice of a text and return its bytes and name, None for the default one."""
    with st.expander("Text to learn: the source of Python's standard library, or your own"):
        file = uploads.uploader(
            st,
            "Your own text",
            key="text_upload",
            most_mb=settings.current().text_mb,
            help="UTF-8. The server deletes it when its runs are done. Every visitor sees its name.",
        )
    if file is None:
        return None
    # In quotes: a file may be called what the default text is called.
    return file.getvalue(), f'"{printable_name(file.name, NAME_SHOWN)}"'


def corpus_of(uploaded: tuple[bytes, str] | None) -> Corpus:
    """Return the corpus that was chosen. Raises CorpusError for what is no text."""
    if uploaded is None:
        return standard_library()
    content, name = uploaded
    return _text(name, hashlib.sha256(content).hexdigest(), content)


@st.cache_resource(max_entries=4, show_spinner=False)
def _text(name: str, digest: str, _content: bytes) -> Corpus:
    return from_text(name, _content)


def offer(setting: Setting, chosen: TrainingChoice, place: DeltaGenerator) -> str | None:
    """Draw what a start would train and take, and the button that starts it.

    place: of the result, where some of its runs are there already. Returns the comparison of these.
    """
    allowed = settings.current()
    if not allowed.training:
        st.info("Training is switched off on this server.", icon=":material/info:")
        return None
    uploaded = upload() if chosen.task == Language.kind else None
    asked_for, chosen = chosen.width, fitted(chosen)
    if chosen.width != asked_for:
        st.caption(
            f"Width {chosen.width} replaces {asked_for}: the width must be a multiple of twice the "
            f"heads ({2 * chosen.run_heads})."
        )
    try:
        corpus = corpus_of(uploaded) if chosen.task == Language.kind else None
        asked = plan(setting, chosen, corpus)
        for one in asked[:1]:
            one.make_task(corpus)
    except PosencError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None
    if corpus is not None and corpus.replaced:
        st.info(
            f"{corpus.replaced:,} bytes were not UTF-8 and became U+FFFD.", icon=":material/info:"
        )
    names = {one.run_id for one in runs.read_infos(runs.all_ids())}
    made = [one for one in asked if one.run_id in names]
    linked = None
    if made:
        linked = summary.comparison(made[0])
        with place:
            _result(linked, made, len(asked))
    underway = {
        one.run_id
        for entry in server_workers().queue.jobs()
        if entry.state is not JobState.FAILED
        and not server_workers().queue.is_cancelled(entry.name)
        for one in entry.specifications
    } - names
    left = [one for one in asked if one.run_id not in names | underway]
    if len(made) + len(left) < len(asked):
        training = len(asked) - len(made) - len(left)
        st.caption(f"{training} of these {count_of(len(asked), 'run')} are in training.")
    if not left:
        return linked
    timed = speed()
    seconds = sum(timed.seconds(one) for one in left)
    st.markdown(
        f"{count_of(len(left), 'run')} of {count_of(left[0].steps, 'step')}: "
        f"**about {duration(seconds)}** on this machine."
    )
    too_long = seconds > allowed.run_seconds
    if too_long:
        st.warning(
            f"A job may take at most {duration(allowed.run_seconds)}. Choose fewer steps, seeds or "
            "schemes, or a smaller model.",
            icon=":material/block:",
        )
    called = _name_field()
    if called is None:
        return linked
    if pressed(st, "Start", key="start_training", icon=":material/play_arrow:", disabled=too_long):
        crew = server_workers()
        content, name = uploaded or (None, "")
        try:
            before = {one.name for one in crew.queue.jobs()}
            entry = crew.queue.add(
                left,
                store=Store().url,
                text=content,
                text_name=name,
                estimate=seconds,
                evaluation_seconds=seconds - sum(timed.step(one) * one.steps for one in left),
                owner=identity.name(),
                owner_limit=allowed.each,
                owner_jobs=_started(),
            )
        except PosencError as error:
            st.error(plain(str(error)), icon=":material/block:")
            return linked
        if entry not in before:  # else it is the same start of somebody who was faster
            _started().append(entry)
        counters.here.count("starts")
        event("start_added", job=entry, runs=[one.run_id for one in left])
        try:
            run_labels.label_started(left, called)
        except RunError:  # a name is no reason to stop
            st.toast("The job is queued, but its name cannot be saved now.", icon=":material/info:")
        with contextlib.suppress(QueueUnwritable):  # the board says so
            crew.start_if_needed()
        st.rerun()
    return linked


def _name_field() -> str | None:
    """Draw the field for the name of a start; None where what it holds can be no name."""
    said: str = st.text_input(
        "Name (optional)",
        key="run_name",
        max_chars=MAX_NAME,
        help="Every visitor sees it. `posenc label` changes it.",
        width=400,
    )
    try:
        return check_name(said.strip()) if said.strip() else ""
    except RunError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None


def _result(comparison: str, made: list[Specification], asked: int) -> None:
    """Draw what the finished runs of a plan measured, and the link to all of it."""
    every = len(made) == asked
    st.caption(
        "Already trained."
        if every
        else f"Already trained: {len(made)} of {count_of(asked, 'run')}."
    )
    curves = runs.curves(
        runs.read_infos(tuple(one.run_id for one in made)), run_results.measure(made[0])
    )
    st.markdown(f"**{run_results.headline(curves)}**")
    _chart(curves)
    board.finished(comparison, made, label="Open in Extrapolation")


def example(setting: Setting) -> None:
    """Draw what shipped models measured, until there is a result of the visitor's own."""
    if curves := runs.shipped_loss(setting.schemes):
        title = run_descriptions.title(curves[0].specification)
        st.caption(f"Example, models that come with the workbench: {title}.")
        _chart(curves)


def _chart(curves: list[Curve]) -> None:
    if curves:
        kinds = tuple(dict.fromkeys(one.specification.scheme.kind for one in curves))
        drawn = loss.frame(curves)
        spec = loss.by_length(drawn, kinds, curves[0].measure, labels=not page.on_phone())
        page.picture(drawn, spec, key="trained")


def _started() -> list[str]:
    """Return the jobs that this session put in the queue, for a visitor without a name."""
    started: list[str] = st.session_state.setdefault("entries_started", [])
    return started


def script(setting: Setting, chosen: TrainingChoice) -> str:
    """Return a script that makes the runs a start would make, on the default text."""
    corpus = "standard_library()" if chosen.task == Language.kind else None
    values = vars(chosen) | {"schemes": setting.schemes, "base": setting.base, "corpus": corpus}
    return _SCRIPT.lstrip().format(**values)
