"""The time that trainings take on this machine, estimated before they start."""

from collections.abc import Sequence

from dashboard.cache import cached_for
from posenc.lab.run_once import Speed, calibrate
from posenc.lab.specification import Specification

# Processor time in which a new process loads torch and the text, measured on a machine with 2 cores.
LOADING_SECONDS = 3.3
SPEED_SECONDS = 600.0  # until this machine's speed is measured again


@cached_for(SPEED_SECONDS, most=1)
def speed() -> Speed:
    """Return how fast this machine trains, measured once in a while for all visitors."""
    return calibrate()


def seconds_of_steps(runs: Sequence[Specification]) -> float:
    """Return the seconds that the steps of runs take."""
    return sum(speed().step(stage) * stage.steps for run in runs for stage in run.stages)


def seconds_of_evaluations(runs: Sequence[Specification]) -> float:
    """Return the seconds that the evaluations of runs take."""
    return sum(map(speed().seconds, runs)) - seconds_of_steps(runs)
