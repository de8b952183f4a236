"""A paragraph on how the runs of a protocol were made, ready to paste under a table of them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from posenc.errors import RunError
from posenc.lab.protocol import Part, Protocol
from posenc.lab.protocol_record import loss_in_training
from posenc.lab.runs import Run, Store
from posenc.lab.specification import FineTuning, Specification
from posenc.lab.statistics import GridDeviation, grid_deviation
from posenc.lab.tasks import Language
from posenc.lab.train import BETAS, CLIP, LAST_RATE, WARM_UP
from posenc.text import count_of, joined


def methods(protocol: Protocol, name: str, store: Store) -> str:
    """Return the paragraph on the stored runs of a part. Raises RunError where there are none."""
    part = protocol.part(name)
    found = (store.find(spec.run_id) for spec in protocol.runs(name, store))
    runs = [run for run in found if run is not None]
    if not runs:
        raise RunError(f"The store {store.url} has no run of the part {name}.")
    first = runs[0].specification
    model = first.model
    sentences = [
        f"Models are causal Transformers of {count_of(model.layers, 'layer')}, width {model.width} "
        f"and {count_of(model.heads, 'head')}, pre-norm, with tied embeddings; schemes differ in "
        "position alone.",
        _data(runs),
        f"Each is trained with {first.batch} sequences of "
        f"{count_of(first.train_length, 'token')} a step by AdamW (betas "
        f"{BETAS[0]:g} and {BETAS[1]:g}, decay {first.weight_decay:g} of matrices), with "
        f"{WARM_UP:.0%} of warm-up, a cosine to {LAST_RATE:.0%} of the rate and gradients clipped to norm "
        f"{CLIP:g}, for {_steps(runs)}.",
        _tuning(runs),
        _rates(protocol.part(part.like), runs),
        "Trials are pairs of seeds of the weights and of the order of the data: "
        f"{', '.join(f'{trial.seed}/{trial.data_seed}' for trial in part.trials)}; all schemes of a "
        "trial share both.",
        f"{_number_made(len(runs), len(protocol.planned(name)))}{_stopped(runs)}, with "
        f"{' and '.join(sorted({_versions(run) for run in runs}))} in "
        f"{count_of(first.threads, 'thread')} of {'a CPU' if first.device == 'cpu' else first.device}.",
        _spread(grid_deviations(protocol, name, store)),
        f"The protocol of this part, {name} {part.digest}, was written before the runs; its file says what "
        "changed later.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def grid_deviations(protocol: Protocol, name: str, store: Store) -> dict[str, GridDeviation]:
    """Return the spread of the loss that chooses rates by label of a scheme.

    Empty of schemes whose stored runs, with those of the part that this is like, are no whole grid of seeds
    of the weights and of the order of the data.
    """
    part, found = protocol.part(name), dict[str, GridDeviation]()
    seeds = {trial.seed for trial in part.trials}, {trial.data_seed for trial in part.trials}
    if len(part.varied) > 1 or min(map(len, seeds)) < 2:
        return found
    grid = set(itertools.product(*seeds))
    for kind in part.schemes:
        own, others = (protocol.runs(each, store, kind) for each in (name, part.like))
        alike = {_without_trial(spec) for spec in own}
        losses = dict[tuple[int, int], float]()
        for spec in (*own, *(spec for spec in others if _without_trial(spec) in alike)):
            run, pair = store.find(spec.run_id), (spec.trial.seed, spec.trial.data_seed)
            if run is not None and run.stopped is None and pair in grid:
                losses[pair] = loss_in_training(run)
        if len(losses) == len(grid):
            found[own[0].scheme.label] = grid_deviation(losses)
    return found


def _without_trial(specification: Specification) -> Specification:
    return replace(specification, seed=0, data_seed=None)


def _data(runs: Sequence[Run]) -> str:
    spec = runs[0].specification
    if spec.task != Language.kind:
        return f"The task is {spec.task}, drawn anew at every step."
    return (
        f"Tokens are bytes of the text {spec.corpus_name} (SHA-256 {spec.corpus[:12]}); the last "
        "quarter of a training length is scored after every context, in "
        f"{count_of(spec.segments, 'segment')} of the validation text."
    )


def _steps(runs: Sequence[Run]) -> str:
    steps = sorted({run.specification.steps for run in runs})
    several = ", ".join(f"{number:,}" for number in steps[:-1])
    return f"{several} or {steps[-1]:,} steps" if several else count_of(steps[-1], "step")


def _tuning(runs: Sequence[Run]) -> str:
    tunings: list[FineTuning] = [
        t for run in runs if (t := run.specification.fine_tuning) is not None
    ]
    if not tunings:
        return ""
    lengths = " or ".join(f"{length:,}" for length in sorted({each.length for each in tunings}))
    steps = " or ".join(f"{number:,}" for number in sorted({each.steps for each in tunings}))
    return (
        f"That is {tunings[0].before.label}; then the scheme of the table is fine-tuned for {steps} "
        f"steps of {lengths} tokens, as many tokens a step as before, at a tenth of the rate."
    )


def _rates(source: Part, runs: Sequence[Run]) -> str:
    sweep = source.sweep
    assert sweep is not None
    learning = ", ".join(f"{rate:g}" for rate in sweep.learning_rates)
    factors = ", ".join(f"{factor:g}" for factor in sweep.scheme_rates)
    own = f", and among {factors} times that for its own parameters" * (len(sweep.scheme_rates) > 1)
    chosen: dict[str, str] = {}
    labels: dict[str, str] = {}
    for run in runs:
        spec = run.specification
        scheme = spec.scheme if spec.fine_tuning is None else spec.fine_tuning.before
        factor = "" if spec.scheme_rate == 1 else f" (own parameters x{spec.scheme_rate:g})"
        chosen[scheme.label] = f"{spec.learning_rate:g}{factor}"
        labels[scheme.kind] = scheme.label
    by = (
        "loss at the training length" if source.text else "mean loss of the last tenth of the steps"
    )
    further = [
        f"{rate:g} for {labels[kind]}"
        for kind, rates in sweep.further.items()
        for rate in rates
        if kind in labels
    ]
    more = f" (and {joined(further, 'and')})" if further else ""
    return (
        f"Each scheme has the rate of the lowest {by} among {learning}{more}{own}, "
        f"by {count_of(len(sweep.trials), 'trial')} at {sweep.share:.0%} of "
        "the steps: " + ", ".join(f"{name} {rate}" for name, rate in chosen.items()) + "."
    )


def _number_made(made: int, planned: int) -> str:
    """Return how many of the planned runs are made."""
    if made < planned:
        return f"{made} of {planned} planned runs are made"
    return "The planned run is made" if planned == 1 else f"All {planned} planned runs are made"


def _stopped(runs: Sequence[Run]) -> str:
    stopped = sum(run.stopped is not None for run in runs)
    return f", {stopped} of which stopped early," if stopped else ""


def _spread(deviations: Mapping[str, GridDeviation]) -> str:
    """Return what the seeds of the weights and of the data add to the loss, "" where it is not known."""
    if not deviations:
        return ""
    each = "; ".join(
        f"{label} {found.weights:.3f}, {found.data:.3f} and {found.together:.3f}"
        for label, found in deviations.items()
    )
    return (
        "Over the grid of seeds, the loss by which rates are chosen has these standard deviations, by the "
        f"weights, by the order of the data, and by the two together: {each}."
    )


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {number}" for name, number in run.specification.versions)
