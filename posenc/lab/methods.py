"""A paragraph on how the runs of a protocol were made, ready to paste under a table of them."""

from collections.abc import Sequence

from posenc.errors import RunError
from posenc.lab.protocol import Part, Protocol
from posenc.lab.runs import Run, Store
from posenc.lab.specification import FineTuning
from posenc.lab.tasks import Language
from posenc.lab.train import BETAS, CLIP, LAST_RATE, WARM_UP
from posenc.text import count_of


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
        f"{len(runs)} of {count_of(len(protocol.planned(name)), 'run')} are made"
        f"{_stopped(runs)}, with {' and '.join(sorted({_versions(run) for run in runs}))} in "
        f"{count_of(first.threads, 'thread')} of {'a CPU' if first.device == 'cpu' else first.device}.",
        f"The protocol of this part, {name} {part.digest}, was written before the runs.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


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
    chosen: dict[str, str] = {}
    for run in runs:
        spec = run.specification
        scheme = spec.scheme if spec.fine_tuning is None else spec.fine_tuning.before
        factor = "" if spec.scheme_rate == 1 else f" (own parameters x{spec.scheme_rate:g})"
        chosen[scheme.label] = f"{spec.learning_rate:g}{factor}"
    by = (
        "loss at the training length" if source.text else "mean loss of the last tenth of the steps"
    )
    return (
        f"Each scheme has the rate of the lowest {by} among {learning}, and among {factors} times that for "
        f"its own parameters, by {count_of(len(sweep.trials), 'trial')} at {sweep.share:.0%} of the steps: "
        + ", ".join(f"{name} {rate}" for name, rate in chosen.items())
        + "."
    )


def _stopped(runs: Sequence[Run]) -> str:
    stopped = sum(run.stopped is not None for run in runs)
    return f", {stopped} of which stopped early," if stopped else ""


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {number}" for name, number in run.specification.versions)
