"""Claims that only trained models decide: read from the runs that ship, never from a formula.

Press et al. 2022, arXiv 2108.12409, section 2.2: the same targets at every context length.
"""

import functools
import math
from typing import TYPE_CHECKING

from posenc.checkpoints.sources import RESULTS
from posenc.claims.claim import Number, State, Verdict, figure
from posenc.errors import RunError
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import counted

if TYPE_CHECKING:
    from posenc.lab.runs import Heading
    from posenc.lab.summary import Curve

NAMES = {"learned": "a learned table", "sinusoidal": "sinusoids", "rope": "RoPE", "alibi": "ALiBi"}
TABLE_3 = (
    "Vaswani et al. 2017, table 3, found nearly the same results with both in translation models of "
    "100,000 steps, which these small models do not refute"
)
NO_LAB = "Measured runs need more packages: pip install 'posenc[lab]'."
STORE = str(RESULTS)  # the runs that ship


def alike(setting: Setting) -> Verdict:
    """Compare the loss at the training length of models with a learned and with a sinusoidal table."""
    found = measured(setting, ("learned", "sinusoidal"))
    if isinstance(found, Verdict):
        return found
    length = setting.train_length
    learned, sinusoidal = (_point(found[kind], length) for kind in ("learned", "sinusoidal"))
    from posenc.lab.summary import NOTICED

    gap = learned[0] - sinusoidal[0]
    apart = learned[1] > sinusoidal[2] or sinusoidal[1] > learned[2]
    seeds = min(one.seeds for one in found.values())
    state = State.HOLDS if abs(gap) <= NOTICED else State.NOT_HERE if apart else State.PARTLY
    overlap = "their seeds overlap" if seeds > 1 else "one seed says nothing of chance"
    bands = "no seed of one reaches the other" if apart else overlap
    return Verdict(
        state,
        (
            Number("learned minus sinusoidal, loss", gap, "nats"),
            Number("loss, learned", learned[0], "nats"),
            Number("loss, sinusoidal", sinusoidal[0], "nats"),
            Number("smallest difference that counts", NOTICED, "nats"),
        ),
        f"Models ({_models(found['learned'])}) reach {learned[0]:.3f} nats with a learned table and "
        f"{sinusoidal[0]:.3f} with sinusoids at {length:,} tokens, {_means(seeds)}: "
        f"{100 * math.expm1(abs(gap)):.3g}% apart in perplexity, where less than "
        f"{100 * math.expm1(NOTICED):.3g}% counts as alike, and {bands}."
        + (f" {TABLE_3}." if state is State.NOT_HERE else ""),
    )


def sinusoids_extrapolate(setting: Setting) -> Verdict:
    """Read what context past the training length did to models with sinusoids."""
    return extrapolates(setting, "sinusoidal")


def rope_extrapolates(setting: Setting) -> Verdict:
    """Read what context past the training length did to models with RoPE."""
    return extrapolates(setting, "rope")


def alibi_extrapolates(setting: Setting) -> Verdict:
    """Read what context past the training length did to models with ALiBi."""
    return extrapolates(setting, "alibi")


def extrapolates(setting: Setting, kind: str) -> Verdict:
    """Compare perplexity past the training length with that at it.

    HOLDS, PARTLY and NOT_HERE are the classes of `posenc.lab.summary.Effect`: holds, degrades, breaks.
    """
    found = measured(setting, (kind,))
    if isinstance(found, Verdict):
        return found
    from posenc.lab.summary import Effect, effect, elbow

    curve = found[kind]
    at_length = _point(curve, setting.train_length)[0]
    last, first_past = curve.points[-1], elbow(curve, at_length)
    said = effect(curve, at_length)
    if said is None:
        return Verdict(State.NOT_MEASURED, (), "These runs were read no further than trained.")
    times = math.exp(min(last.mean - at_length, 700.0))
    states = {
        Effect.HOLDS: State.HOLDS,
        Effect.DEGRADES: State.PARTLY,
        Effect.BREAKS: State.NOT_HERE,
    }
    where = (
        "never passes 1.1 times" if first_past is None else f"passes 1.1 times at {first_past:,}"
    )
    return Verdict(
        states[said],
        (
            Number(
                f"perplexity at {last.x:,} over that at {setting.train_length:,}", times, "times"
            ),
            Number(
                "first context past 1.1 times", first_past, "" if first_past is None else "tokens"
            ),
            Number(f"loss at {setting.train_length:,}", at_length, "nats"),
            Number(f"loss at {last.x:,}", last.mean, "nats"),
        ),
        f"Models with {NAMES[kind]} ({_models(curve)}) have a loss of {at_length:.3f} nats at "
        f"{counted(setting.train_length, 'token')} and {last.mean:.3f} at {last.x:,}, "
        f"{_means(curve.seeds)}; perplexity {where} and ends at {figure(times)} times: "
        f"the model {said} ({said.rule}).",
    )


def measured(setting: Setting, kinds: tuple[str, ...]) -> "dict[str, Curve] | Verdict":
    """Return the curve of each kind in one comparison of language runs, or why nothing is measured.

    The runs have the setting's training length, base and own fields; their width and heads are theirs.
    """
    try:
        from posenc.lab.evaluate import TRAINED
        from posenc.lab.runs import Store
        from posenc.lab.summary import comparison, curves
    except ImportError:
        return Verdict(State.NOT_MEASURED, (), NO_LAB)
    groups: dict[str, dict[str, list[str]]] = {}
    for one in _headings(STORE):
        spec = one.specification
        if spec.task != "language" or spec.train_length != setting.train_length or one.stopped:
            continue
        if spec.scheme.kind in kinds and _same_scheme(setting, one):
            group = groups.setdefault(comparison(spec), {})
            group.setdefault(spec.scheme.kind, []).append(one.run_id)
    for name in sorted(groups):
        if set(groups[name]) != set(kinds):
            continue
        runs = [Store(STORE).read(run) for kind in kinds for run in groups[name][kind]]
        found = {
            curve.specification.scheme.kind: curve
            for curve in curves(runs, "context")
            if curve.variant == TRAINED and curve.at(setting.train_length) is not None
        }
        if set(found) == set(kinds):
            return found
    named = " and ".join(NAMES[kind] for kind in kinds)
    based = any("base" in SCHEMES[kind].shared for kind in kinds)
    base = f" at base {figure(setting.base)}" if based else ""
    lengths = sorted(set.intersection(*(_lengths(setting, kind) for kind in kinds)))
    there = ", ".join(f"{length:,}" for length in lengths)
    said = (
        f"No small model of {named}{base} that comes with this page has the training length "
        f"{setting.train_length:,}"
    )
    return Verdict(
        State.NOT_MEASURED, (), f"{said}; there are some for {there}." if lengths else f"{said}."
    )


@functools.lru_cache(maxsize=4)
def _headings(url: str) -> "tuple[Heading, ...]":
    """Return what the runs of a store are, those that can be read."""
    from posenc.lab.runs import Store

    store, found = Store(url), []
    for name in store.ids():
        try:
            found.append(store.heading(name))
        except RunError:
            continue
    return tuple(found)


def _lengths(setting: Setting, kind: str) -> set[int]:
    return {
        one.specification.train_length
        for one in _headings(STORE)
        if one.specification.task == "language"
        and one.specification.scheme.kind == kind
        and _same_scheme(setting, one)
    }


def _same_scheme(setting: Setting, one: "Heading") -> bool:
    """Whether a run's scheme is the setting's but for its sizes and the order of its features."""
    run, asked = one.specification.scheme, setting.config(one.specification.scheme.kind)
    names = {*asked.own_rules()} - {"layout"} | ({"base"} & {*asked.shared})
    return all(getattr(run, name) == getattr(asked, name) for name in names)


def _point(curve: "Curve", x: int) -> tuple[float, float, float]:
    """Return mean, lowest and highest seed at x."""
    point = next(one for one in curve.points if one.x == x)
    return point.mean, point.low, point.high


def _models(curve: "Curve") -> str:
    model = curve.specification.model
    return (
        f"{counted(model.layers, 'layer')}, width {model.width}, "
        f"{counted(curve.specification.steps, 'training step')}"
    )


def _means(seeds: int) -> str:
    return "of one seed" if seeds == 1 else f"means of {seeds} seeds"
