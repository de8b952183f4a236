"""Buttons that fill in the form of Train: a size of model, and steps that fit a time."""

from typing import Any

import streamlit as st

from dashboard.limits import MAX_RUN_STEPS
from dashboard.pages.train import form
from dashboard.pages.train.options import TrainingChoice
from dashboard.server.incidents import answered
from posenc.lab.tasks import Language, standard_library
from posenc.settings import Setting

FEWEST_STEPS = 20
SMALL = {"run_length": 16, "width": 32, "layers": 1, "run_heads": 2, "seeds": 1}
MEDIUM = {"run_length": 32, "width": 64, "layers": 2, "run_heads": 4, "seeds": 1}
# Of the runs that ship, the text models trained on 64 tokens.
SHIPPED = {"run_length": 64, "width": 128, "layers": 3, "run_heads": 4, "seeds": 3, "steps": 1_200}
# The values of each preset, and the seconds that its steps should take on this machine.
PRESETS: dict[str, tuple[dict[str, int], float | None]] = {
    "10 seconds": (SMALL, 10.0),
    "2 minutes": (MEDIUM, 120.0),
    "as shipped": (SHIPPED, None),
}


def draw(setting: Setting) -> None:
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
    runs = form.plan(setting, TrainingChoice(**values, steps=1), standard_library())
    speed = form.speed()
    step = sum(speed.step(run) for run in runs)
    evaluation = sum(speed.seconds(run) for run in runs) - step
    steps = round((seconds - evaluation) / step)
    return min(max(FEWEST_STEPS, steps - steps % 10), MAX_RUN_STEPS)
