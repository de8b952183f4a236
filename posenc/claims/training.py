"""Claims that only trained models decide: read from the runs that ship, never from a formula.

Press et al. 2022, arXiv 2108.12409, section 2.2: the same targets at every context length.
"""

import contextlib
import functools
import math
from typing import TYPE_CHECKING

from posenc.checkpoints.sources import RESULTS
from posenc.claims.claim import VASWANI, Number, Status, Verdict, claim, figure
from posenc.errors import RunError
from posenc.schemes import SCHEMES
from posenc.schemes.sizes import Sizes
from posenc.text import count_of, install_command

if TYPE_CHECKING:
    from posenc.lab.runs import RunInfo
    from posenc.lab.summary import Curve

NAMES = {"learned": "a learned table", "sinusoidal": "sinusoids", "rope": "RoPE", "alibi": "ALiBi"}
STORE = str(RESULTS)  # the runs that ship


@claim(
    "Up to the training length, learned and sinusoidal work alike.",
    theme="models",
    source=f"{VASWANI}, table 3, row E; measured here on small models",
    uses=("base", "train_length"),
)
def alike(sizes: Sizes) -> Verdict:
    """Return whether the loss of learned minus sinusoidal is 0 but for HELD, by its interval."""
    curves = measured(sizes, ("learned", "sinusoidal"))
    if isinstance(curves, Verdict):
        return curves
    from posenc.lab.best_rates import rate_text
    from posenc.lab.summary import HELD, difference

    both = curves["learned"], curves["sinusoidal"]
    length = both[0].specification.train_length
    learned, sinusoidal = (
        next(point.mean for point in curve.points if point.x == length) for curve in both
    )
    gap = difference(*both, length)
    assert gap is not None  # trials of the protocol are those of all its schemes
    seeds = min(curve.seeds for curve in curves.values())
    numbers = (
        Number(
            f"loss at {length:,} tokens, learned minus sinusoidal", learned - sinusoidal, "nats"
        ),
        Number("loss, learned", learned, "nats"),
        Number("loss, sinusoidal", sinusoidal, "nats"),
    )
    reached = (
        f"{_other_length(sizes, length)}Models ({_model(curves['learned'])}) reach {learned:.3f} nats "
        f"with a learned table and {sinusoidal:.3f} with sinusoids at {length:,} tokens, {_seeds(seeds)}. "
    )
    rates = [
        rate_text(curve.specification.learning_rate, curve.specification.scheme_rate)
        for curve in both
    ]
    if gap.low >= -HELD and gap.high <= HELD:
        status, says = Status.HOLDS_HERE, f"less than {HELD:.3f} either way"
        if gap.low > 0 or gap.high < 0:
            better = "sinusoids are" if gap.low > 0 else "a learned table is"
            says += f", yet {better} a little better at these rates"
    elif gap.low > HELD or gap.high < -HELD:
        status, says = Status.NOT_HERE, f"more than {HELD:.3f}"
    else:
        status, says = Status.UNDECIDED, f"so few runs do not tell whether less than {HELD:.3f}"
    several = len(gap.by_trial) > 1
    interval = f" (95% interval {gap.low:+.4f} to {gap.high:+.4f})" if several else ""
    return Verdict(
        status,
        numbers,
        f"{reached}Each has the learning rate that was best for it in a sweep with fewer steps: {rates[0]} "
        f"and {rates[1]}. "
        f"Learned minus sinusoidal is {gap.mean:+.4f} nats{interval}: {says}. Vaswani et al. 2017, "
        "table 3, found nearly the same results with both in translation models.",
    )


def extrapolates(sizes: Sizes, kind: str) -> Verdict:
    """Compare perplexity past the training length with that at it, by the interval over the trials."""
    curves = measured(sizes, (kind,))
    if isinstance(curves, Verdict):
        return curves
    from posenc.lab.summary import Effect, first_degraded_length, judgement

    curve = curves[kind]
    length = curve.specification.train_length
    loss, last = curve.at(length), curve.points[-1]
    assert loss is not None
    judged, degraded = judgement(curve), first_degraded_length(curve, loss)
    if judged is None:
        return Verdict(
            Status.NOT_MEASURED, (), "These models were not evaluated past their training length."
        )
    times = math.exp(min(last.mean - loss, 700.0))
    statuses = {
        Effect.USES: Status.HOLDS_HERE,
        Effect.HOLDS: Status.HOLDS_HERE,
        Effect.DEGRADES: Status.PARTLY,
        Effect.BREAKS: Status.NOT_HERE,
    }
    base = f"base {figure(sizes.base)}" if "base" in SCHEMES[kind].sizes_used else "no base"
    passes = f"passes 1.1 times at {degraded:,}" if degraded else "never passes 1.1 times"
    change, decided = judged.change, len(judged.effects) == 1
    several = curve.seeds > 1
    interval = f" (95% interval {change.low:+.4f} to {change.high:+.4f})" if several else ""
    says = (
        f"the model {judged.effects[0]} ({judged.effects[0].rule})"
        if decided
        else "so few runs decide nothing" if several else "one seed decides nothing"
    )  # fmt: skip
    return Verdict(
        statuses[judged.effects[0]] if decided else Status.UNDECIDED,
        (
            Number(f"perplexity at {last.x:,} tokens over that at {length:,}", times, "times"),
            Number("first context past 1.1 times", degraded, "tokens" if degraded else ""),
            Number(f"loss at {length:,}", loss, "nats"),
            Number(f"loss at {last.x:,}", last.mean, "nats"),
            Number(f"change at {judged.x:,}, lowest", change.low if several else None, "nats"),
            Number(f"change at {judged.x:,}, highest", change.high if several else None, "nats"),
        ),
        f"{_other_length(sizes, length)}Models with {NAMES[kind]} ({base}, {_model(curve)}) have a loss of "
        f"{loss:.4f} nats at {count_of(length, 'token')} and {last.mean:.4f} at {last.x:,}, "
        f"{_seeds(curve.seeds)}. The loss changes by {change.mean:+.4f} nats at {judged.x:,} "
        f"tokens{interval}: {says}. Perplexity {passes} and ends at {figure(times)} times. The loss on "
        "text says nothing of copying and recall at longer lengths, which other models here measure.",
    )


@claim(
    "Sinusoids extrapolate past the training length.",
    theme="models",
    source=f"{VASWANI}, section 3.5, hoped so; measured here on small models",
    steps=(extrapolates,),
    uses=("base", "train_length"),
)
def sinusoids_extrapolate(sizes: Sizes) -> Verdict:
    """Compare models with sinusoids at longer contexts with their training length."""
    return extrapolates(sizes, "sinusoidal")


@claim(
    "RoPE extrapolates past the training length.",
    theme="models",
    source="Posts; Su et al. 2021, arXiv 2104.09864, sections 1 and 4.5, name sequence length "
    "flexibility and test no length past training; measured here on small models",
    steps=(extrapolates,),
    uses=("dim", "heads", "equal_width", "base", "rope.partial_rotary_factor", "train_length"),
)
def rope_extrapolates(sizes: Sizes) -> Verdict:
    """Compare models with RoPE at longer contexts with their training length."""
    return extrapolates(sizes, "rope")


@claim(
    "ALiBi extrapolates past the training length.",
    theme="models",
    source="Press et al. 2022, arXiv 2108.12409; measured here on small models",
    steps=(extrapolates,),
    uses=("train_length",),
)
def alibi_extrapolates(sizes: Sizes) -> Verdict:
    """Compare models with ALiBi at longer contexts with their training length."""
    return extrapolates(sizes, "alibi")


def measured(sizes: Sizes, kinds: tuple[str, ...]) -> "dict[str, Curve] | Verdict":
    """Return the curve of each kind in one comparison of language runs, or why nothing is measured.

    The runs are of the protocol, each scheme at its own learning rate, with the base and own fields asked
    for; their width and heads are theirs. They have the training length asked for where there are several
    such trials, else another. Of several comparisons it is the one with the most runs.
    """
    try:
        from posenc.lab.best_rates import compared_runs
        from posenc.lab.evaluate import TRAINED
        from posenc.lab.runs import Store
        from posenc.lab.summary import comparison, curves
    except ImportError:
        sentence = f"Measured runs need more packages: {install_command('lab')}."
        return Verdict(Status.NOT_MEASURED, (), sentence)
    comparisons: dict[str, dict[str, list[RunInfo]]] = {}
    for info in _runs_of_protocol(STORE):
        spec = info.specification
        if spec.scheme.kind in kinds and _same_scheme(sizes, info) and not info.stopped:
            by_kind = comparisons.setdefault(comparison(spec), {})
            by_kind.setdefault(spec.scheme.kind, []).append(info)

    def order(by_kind: "dict[str, list[RunInfo]]") -> tuple[bool, bool, int]:
        every = [info for infos in by_kind.values() for info in infos]
        alone = len(every) == len(by_kind)  # one trial decides nothing
        return alone, every[0].specification.train_length != sizes.train_length, -len(every)

    for by_kind in sorted(comparisons.values(), key=order):
        if set(by_kind) == set(kinds):
            runs = [Store(STORE).read(one.run_id) for kind in kinds for one in by_kind[kind]]
            trained = {
                curve.specification.scheme.kind: curve
                for curve in curves(compared_runs(runs), "context")
                if curve.variant == TRAINED
                and curve.at(curve.specification.train_length) is not None
            }
            if set(trained) == set(kinds):
                return trained
    names = " and ".join(NAMES[kind] for kind in kinds)
    has_base = any("base" in SCHEMES[kind].sizes_used for kind in kinds)
    base = f" at base {figure(sizes.base)}" if has_base else ""
    return Verdict(Status.NOT_MEASURED, (), f"No small model of {names}{base} ships.")


@functools.lru_cache(maxsize=4)
def _runs_of_protocol(url: str) -> "tuple[RunInfo, ...]":
    """Return the infos of a store's readable language runs that are rows of the protocol's tables.

    Models that were fine-tuned are left out.
    """
    from posenc.lab.parts import is_of_table
    from posenc.lab.protocol import read_protocol
    from posenc.lab.runs import Store

    store, infos, parts = Store(url), [], read_protocol().parts.values()
    for run_id in store.ids():
        with contextlib.suppress(RunError):
            infos.append(store.info(run_id))
    return tuple(
        info
        for info in infos
        if info.specification.task == "language"
        and info.specification.fine_tuning is None
        and any(is_of_table(part, info.specification) for part in parts)
    )


def _same_scheme(sizes: Sizes, info: "RunInfo") -> bool:
    """Whether a run's scheme is the one asked for, except for its sizes and the order of its features."""
    run = info.specification.scheme
    asked = sizes.config(run.kind)
    names = {*asked.own_rules()} - {"layout"} | ({"base"} & {*asked.sizes_used})
    return all(getattr(run, name) == getattr(asked, name) for name in names)


def _other_length(sizes: Sizes, length: int) -> str:
    """Say that models of another training length than that asked for decide, "" where it is the same."""
    if length == sizes.train_length:
        return ""
    asked = count_of(sizes.train_length, "token")
    return f"Too few models here were trained on {asked}; these were trained on {length:,}. "


def _model(curve: "Curve") -> str:
    model, steps = curve.specification.model, curve.specification.steps
    return f"{count_of(model.layers, 'layer')}, width {model.width}, {count_of(steps, 'training step')}"


def _seeds(seeds: int) -> str:
    return "of one seed" if seeds == 1 else f"means of {seeds} seeds"
