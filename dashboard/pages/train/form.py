"""The runs that the controls of Train mean: presets, the text, what is trained already, and a start."""

import contextlib
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import run_descriptions, run_results, runs
from dashboard.charts import loss
from dashboard.controls import uploads
from dashboard.controls.widgets import button
from dashboard.frame import page
from dashboard.limits import MAX_RUN_STEPS
from dashboard.pages.train import board
from dashboard.pages.train.options import TrainingChoice
from dashboard.server import identity, jobs, settings
from dashboard.server.incidents import show_callback_errors
from dashboard.server.training_process import LOADING_SECONDS, server_process
from dashboard.settings import Setting
from dashboard.settings.field_text import clamp
from dashboard.text import duration, plain
from posenc import fields
from posenc.errors import PosencError, QueueUnwritable
from posenc.lab import summary
from posenc.lab.run_once import Speed, calibrate
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.sweep import specifications
from posenc.lab.tasks import Corpus, Language, from_text, standard_library
from posenc.text import count_of, printable_name

NAME_LETTERS = 60
SPEED_SECONDS = 600.0  # until this machine's speed is measured again
MIN_STEPS = 20
# The values of each preset, and the seconds that it should take on this machine.
PRESETS: dict[str, tuple[dict[str, int], float | None]] = {
    "10 seconds": ({"run_length": 16, "width": 32, "layers": 1, "run_heads": 2, "seeds": 1}, 10.0),
    "2 minutes": ({"run_length": 32, "width": 64, "layers": 2, "run_heads": 4, "seeds": 1}, 120.0),
    # Those of 128 tokens have another batch size.
    "as shipped (64 tokens)": (
        {"run_length": 64, "width": 128, "layers": 3, "run_heads": 4, "seeds": 3, "steps": 1_200},
        None,
    ),
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


@st.cache_resource(max_entries=1, ttl=SPEED_SECONDS, show_spinner="Timing a small model")
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
        corpus=corpus,
        train_length=chosen.run_length,
        task=chosen.task,
        steps=chosen.steps,
    )


def draw_presets(setting: Setting) -> None:
    """Draw a button per preset, the one whose values stand in the controls marked."""
    row = st.container(horizontal=True)
    held = fields.defaults(TrainingChoice) | dict(st.session_state.items())
    for name, (values, _) in PRESETS.items():
        row.button(
            name.capitalize(),
            key=f"preset_{name}",
            icon=":material/check:" if values.items() <= held.items() else None,
            on_click=_apply_preset,
            args=(name, setting),
        )


@show_callback_errors
def _apply_preset(name: str, setting: Setting) -> None:
    values, seconds = PRESETS[name]
    steps = {} if seconds is None else {"steps": _steps_within(seconds, setting, values)}
    st.session_state.update({"task": Language.kind} | values | steps)


def _steps_within(seconds: float, setting: Setting, values: dict[str, Any]) -> int:
    """Return how many training steps of every run fit a time, loading and evaluation included."""
    planned = plan(setting, TrainingChoice(**values, steps=1), standard_library())
    step = sum(map(speed().step, planned))
    evaluation = sum(map(speed().seconds, planned)) - step
    steps = round((seconds - LOADING_SECONDS - evaluation) / step)
    return min(max(MIN_STEPS, steps - steps % 10), MAX_RUN_STEPS)


def with_fitting_width(chosen: TrainingChoice) -> TrainingChoice:
    """Return the choice with the nearest width that gives every head an even one."""
    rule = fields.rules(chosen)["width"]
    assert isinstance(rule, fields.IntRange)
    width = clamp(replace(rule, multiple_of=2 * chosen.run_heads), chosen.width)
    return replace(chosen, width=width)


def _upload() -> tuple[bytes | None, str]:
    """Draw the choice of a text and return its bytes and name, None and "" for the default text."""
    with st.expander("Text to learn: the source of Python's standard library, or your own"):
        file = uploads.uploader(
            st,
            "Your own text",
            key="text_upload",
            most_mb=settings.current().text_mb,
            help="UTF-8. The server deletes it when its runs are done. Every visitor sees its name.",
        )
    if file is None:
        return None, ""
    # In quotes: a file may be called what the default text is called.
    return file.getvalue(), f'"{printable_name(file.name, NAME_LETTERS)}"'


@st.cache_resource(max_entries=4, show_spinner=False)
def corpus_of(text: bytes | None, name: str) -> Corpus:
    """Return the corpus of a text, by default of Python's sources. Raises CorpusError for no text."""
    return standard_library() if text is None else from_text(name, text)


def draw(setting: Setting, chosen: TrainingChoice, place: DeltaGenerator) -> str | None:
    """Draw what a start would train and take, and the button that starts it.

    place: of the results of runs that are finished already. Returns the comparison of these runs.
    """
    if not settings.current().training:
        st.info("Training is switched off on this server.", icon=":material/info:")
        return None
    text, text_name = _upload() if chosen.task == Language.kind else (None, "")
    asked_width, chosen = chosen.width, with_fitting_width(chosen)
    if chosen.width != asked_width:
        st.caption(
            f"Width {chosen.width} replaces {asked_width}: the width must be a multiple of twice the "
            f"heads ({2 * chosen.run_heads})."
        )
    try:
        corpus = corpus_of(text, text_name) if chosen.task == Language.kind else None
        planned = plan(setting, chosen, corpus)
        planned[0].make_task(corpus)
    except PosencError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None
    if corpus is not None and corpus.replaced:
        st.info(
            f"{corpus.replaced:,} bytes were not UTF-8 and became U+FFFD.", icon=":material/info:"
        )
    stored = {info.run_id for info in runs.read_infos(runs.all_ids())}
    finished = [run for run in planned if run.run_id in stored]
    new = [run for run in planned if run.run_id not in stored | _ids_in_training()]
    if finished:
        with place:
            _draw_result(finished, len(planned), corpus)
    in_training = len(planned) - len(finished) - len(new)
    if in_training:
        st.caption(f"{in_training} of these {count_of(len(planned), 'run')} are in training.")
    if new:
        _offer(new, text, text_name)
    return summary.comparison(finished[0]) if finished else None


def _ids_in_training() -> set[str]:
    """Return the ids of the runs of all jobs that have not failed."""
    known = jobs.jobs(server_process().place)
    return {run.run_id for job in known if not job.error for run in job.specifications}


def _offer(new: list[Specification], text: bytes | None, text_name: str) -> None:
    """Draw how long these runs take, and the button that starts them."""
    seconds = LOADING_SECONDS + sum(map(speed().seconds, new))
    allowed = settings.current().run_seconds
    st.markdown(
        f"{count_of(len(new), 'run')} of {count_of(new[0].steps, 'step')}: "
        f"**about {duration(seconds)}** on this machine."
    )
    if seconds > allowed:
        st.warning(
            f"A job may take at most {duration(allowed)}. Choose fewer steps, seeds or "
            "schemes, or a smaller model.",
            icon=":material/block:",
        )
    try:
        if button(
            st,
            "Start",
            key="start_training",
            icon=":material/play_arrow:",
            disabled=seconds > allowed,
        ):
            _start(new, text, text_name)
    except PosencError as error:
        st.error(plain(str(error)), icon=":material/block:")


def _start(new: list[Specification], text: bytes | None, text_name: str) -> None:
    """Add a job for these runs. Raises PosencError where that cannot be done."""
    process = server_process()
    seconds = sum(map(speed().seconds, new))
    jobs.add(
        process.place,
        new,
        waiting=settings.current().waiting,
        text=text,
        text_name=text_name,
        estimate=seconds,
        evaluation_seconds=seconds - sum(speed().step(run) * run.steps for run in new),
        owner=identity.name(),
    )
    with contextlib.suppress(QueueUnwritable):  # the board says so
        process.start_if_needed()
    st.rerun()


def _draw_result(finished: list[Specification], planned: int, corpus: Corpus | None) -> None:
    """Draw what the finished runs of a plan measured, and the link to all of it.

    planned: number of runs. corpus: what they learned, None for a task without a text.
    """
    some = "" if len(finished) == planned else f": {len(finished)} of {count_of(planned, 'run')}"
    st.caption(f"Trained{some}.")
    infos = runs.read_infos(run.run_id for run in finished)
    curves = runs.curves(infos, run_results.measure(finished[0]))
    st.markdown(f"**{headline(curves, corpus)}**")
    _draw_chart(curves)
    board.draw_link(finished, label="Open in Extrapolation")


def headline(curves: list[Curve], corpus: Corpus | None) -> str:
    """Return how the schemes do past the training length, or that these models cannot tell it yet."""
    losses = [
        loss
        for curve in runs.as_trained(curves)
        if (loss := curve.at(curve.specification.train_length)) is not None
    ]
    if corpus is None or not losses or min(losses) < corpus.pair_loss:
        return run_results.headline(curves)
    return (
        f"These models have hardly learned: their loss is {min(losses):.2f} nats or more, and the "
        f"frequencies of byte pairs, which know no position, reach {corpus.pair_loss:.2f}. What happens "
        "past the training length says nothing yet: train longer."
    )


def draw_example(setting: Setting) -> None:
    """Draw what shipped models measured, until there is a result of the visitor's own."""
    if curves := runs.shipped_loss(setting.schemes):
        title = run_descriptions.title(curves[0].specification)
        st.caption(f"Example, models that come with posenc: {title}.")
        _draw_chart(curves)


def _draw_chart(curves: list[Curve]) -> None:
    if curves:
        kinds = tuple(dict.fromkeys(curve.specification.scheme.kind for curve in curves))
        frame = loss.frame(curves)
        spec = loss.by_length(frame, kinds, curves[0].measure)
        title = f"Models trained on: {run_descriptions.title(curves[0].specification)}"
        page.picture(frame, spec, key="trained", title=title)


def script(setting: Setting, chosen: TrainingChoice) -> str:
    """Return a script that makes the runs a start would make, on the default text."""
    corpus = "standard_library()" if chosen.task == Language.kind else None
    values = vars(with_fitting_width(chosen)) | {
        "schemes": setting.schemes, "base": setting.base, "corpus": corpus,
    }  # fmt: skip
    return _SCRIPT.lstrip().format(**values)
