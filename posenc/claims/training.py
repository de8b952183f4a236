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
    """Return the loss of learned minus sinusoidal; one learning rate for both decides nothing."""
    curves = measured(sizes, ("learned", "sinusoidal"))
    if isinstance(curves, Verdict):
        return curves
    length = sizes.train_length
    learned, sinusoidal = (
        next(point.mean for point in curves[kind].points if point.x == length)
        for kind in ("learned", "sinusoidal")
    )
    seeds = min(curve.seeds for curve in curves.values())
    rate = curves["learned"].specification.learning_rate
    numbers = (
        Number("learned minus sinusoidal, loss", learned - sinusoidal, "nats"),
        Number("loss, learned", learned, "nats"),
        Number("loss, sinusoidal", sinusoidal, "nats"),
    )
    reached = (
        f"Models ({_model(curves['learned'])}) reach {learned:.3f} nats with a learned table and "
        f"{sinusoidal:.3f} with sinusoids at {length:,} tokens, {_seeds(seeds)}. "
    )
    if judged := _alike_at_best_rates(curves, length):
        status, sentence = judged
        return Verdict(status, numbers, reached + sentence)
    return Verdict(
        Status.UNDECIDED,
        numbers,
        f"{reached}The models "
        f"were trained with one learning rate ({rate:g}) and one number of steps. The difference depends "
        "on both: with seed 0 and 64 tokens it is 0.174 nats at the rate 0.0006 and 0.039 at 0.005. So "
        "these models decide nothing. Vaswani et al. 2017, table 3, found nearly the same results with "
        "both in translation models of 100,000 steps.",
    )


def _alike_at_best_rates(curves: "dict[str, Curve]", length: int) -> tuple[Status, str] | None:
    """Return whether both losses are equal but for HELD, by their interval; None for other models.

    It is asked of the tables of the protocol, whose learning rates a sweep has chosen for each scheme.
    """
    from posenc.lab.best_rates import rate_text
    from posenc.lab.parts import is_of_table
    from posenc.lab.protocol import read_protocol
    from posenc.lab.summary import HELD, difference

    learned, sinusoidal = curves["learned"], curves["sinusoidal"]
    parts = read_protocol().parts.values()
    specs = [curve.specification for curve in (learned, sinusoidal)]
    gap = difference(learned, sinusoidal, length)
    if gap is None or not all(any(is_of_table(part, one) for part in parts) for one in specs):
        return None
    rates = [rate_text(one.learning_rate, one.scheme_rate) for one in specs]
    if gap.low >= -HELD and gap.high <= HELD:
        status, says = Status.HOLDS_HERE, f"less than {HELD:.3f} either way"
    elif gap.low > HELD or gap.high < -HELD:
        status, says = Status.NOT_HERE, f"more than {HELD:.3f}"
    else:
        status, says = Status.UNDECIDED, f"so few runs do not tell whether less than {HELD:.3f}"
    several = len(gap.by_trial) > 1
    interval = f" (95% interval {gap.low:+.4f} to {gap.high:+.4f})" if several else ""
    return status, (
        f"Each has the learning rate that was best for it in a sweep: {rates[0]} and {rates[1]}. Learned "
        f"minus sinusoidal is {gap.mean:+.4f} nats{interval}: {says}. Vaswani et al. 2017, table 3, found "
        "nearly the same results with both in translation models."
    )


def extrapolates(sizes: Sizes, kind: str) -> Verdict:
    """Compare perplexity past the training length with that at it, by the interval over the trials."""
    curves = measured(sizes, (kind,))
    if isinstance(curves, Verdict):
        return curves
    from posenc.lab.summary import Effect, first_degraded_length, judgement

    curve, length = curves[kind], sizes.train_length
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
        f"Models with {NAMES[kind]} ({base}, {_model(curve)}) have a loss of {loss:.4f} nats at "
        f"{count_of(length, 'token')} and {last.mean:.4f} at {last.x:,}, {_seeds(curve.seeds)}. The loss "
        f"changes by {change.mean:+.4f} nats at {judged.x:,} tokens{interval}: {says}. "
        f"Perplexity {passes} and ends at {figure(times)} times. The loss on text "
        "says nothing of copying and recall at longer lengths, which other models here measure.",
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

    The runs have the training length, base and own fields asked for; their width and heads are theirs. Of
    several comparisons it is the one with the most runs.
    """
    try:
        from posenc.lab.best_rates import compared_runs
        from posenc.lab.evaluate import TRAINED
        from posenc.lab.runs import Store
        from posenc.lab.summary import comparison, curves
    except ImportError:
        sentence = f"Measured runs need more packages: {install_command('lab')}."
        return Verdict(Status.NOT_MEASURED, (), sentence)
    comparisons: dict[str, dict[str, list[str]]] = {}
    lengths: dict[str, set[int]] = {kind: set() for kind in kinds}
    for info in _language_runs(STORE):
        spec = info.specification
        kind = spec.scheme.kind
        if kind not in kinds or spec.fine_tuning is not None or not _same_scheme(sizes, info):
            continue
        lengths[kind].add(spec.train_length)
        if spec.train_length == sizes.train_length and not info.stopped:
            by_kind = comparisons.setdefault(comparison(spec), {})
            by_kind.setdefault(kind, []).append(info.run_id)

    def order(name: str) -> tuple[int, str]:
        return -sum(map(len, comparisons[name].values())), name

    for by_kind in (comparisons[name] for name in sorted(comparisons, key=order)):
        if set(by_kind) == set(kinds):
            runs = [Store(STORE).read(run) for kind in kinds for run in by_kind[kind]]
            trained = {
                curve.specification.scheme.kind: curve
                for curve in curves(compared_runs(runs), "context")
                if curve.variant == TRAINED and curve.at(sizes.train_length) is not None
            }
            if set(trained) == set(kinds):
                return trained
    names = " and ".join(NAMES[kind] for kind in kinds)
    has_base = any("base" in SCHEMES[kind].sizes_used for kind in kinds)
    base = f" at base {figure(sizes.base)}" if has_base else ""
    others = ", ".join(f"{length:,}" for length in sorted(set.intersection(*lengths.values())))
    sentence = (
        f"No small model of {names}{base} that ships has the training length "
        f"{sizes.train_length:,}{f'; there are some for {others}' if others else ''}."
    )
    return Verdict(Status.NOT_MEASURED, (), sentence)


@functools.lru_cache(maxsize=4)
def _language_runs(url: str) -> "tuple[RunInfo, ...]":
    """Return the infos of a store's readable language runs."""
    from posenc.lab.runs import Store

    store, infos = Store(url), []
    for run_id in store.ids():
        with contextlib.suppress(RunError):
            infos.append(store.info(run_id))
    return tuple(x for x in infos if x.specification.task == "language")


def _same_scheme(sizes: Sizes, info: "RunInfo") -> bool:
    """Whether a run's scheme is the one asked for, except for its sizes and the order of its features."""
    run = info.specification.scheme
    asked = sizes.config(run.kind)
    names = {*asked.own_rules()} - {"layout"} | ({"base"} & {*asked.sizes_used})
    return all(getattr(run, name) == getattr(asked, name) for name in names)


def _model(curve: "Curve") -> str:
    model, steps = curve.specification.model, curve.specification.steps
    return f"{count_of(model.layers, 'layer')}, width {model.width}, {count_of(steps, 'training step')}"


def _seeds(seeds: int) -> str:
    return "of one seed" if seeds == 1 else f"means of {seeds} seeds"
