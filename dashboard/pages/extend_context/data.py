"""What Extend a model's context shows of a model, a target and methods: a plan, advice, frames."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dashboard.cache import cached
from dashboard.pages.extend_context import model as planned_model
from dashboard.pages.extend_context.options import Options
from dashboard.settings import Setting, chosen_model
from posenc import rope_frequencies
from posenc.analysis import base_bound_curve, known_base
from posenc.planner import (
    COLUMNS,
    Advice,
    ContextPlan,
    advice_of,
    assumed_sentences,
    how_far,
    nearest_factor,
    plan,
    recommendation,
    to_do,
)
from posenc.planner.context_plan import MethodPlan
from posenc.planner.methods import UNSCALED
from posenc.planner.order import single_study
from posenc.planner.ranking import Readiness
from posenc.planner.recommendation import suggested
from posenc.planner.scaling_effects import compare_pairs, kernel_at
from posenc.schemes.rope import RopeConfig
from posenc.text import as_factor, count_of

SEARCHED = 16_384  # up to here a page searches and scans every distance before it is asked
SCANNED = 65_536  # distances whose B(k) a page looks at before it is asked for all
SCANNED_AT_ONCE = 131_072  # every distance is looked at up to here where no base must be searched
STEPS = 240  # points of a curve that runs to the target

AS_TRAINED, DEMANDED = "As trained", "Larger base"

_SCRIPT = """\
import csv
import sys

from posenc.planner import COLUMNS, plan, recommendation
from dashboard.settings import chosen_model

model = chosen_model({model!r})
planned = plan(
    model.config, {context}, name=model.preset.label, trained_length={trained}, methods={methods!r},
    search_base={search}, scan={scan},
)
{assumption}print(recommendation(planned), file=sys.stderr)
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow([column.title for column in COLUMNS])
for method in planned.methods:
    rows.writerow([column.value(method) for column in COLUMNS])
"""

_ASSUMPTION = "print(model.config.assumption, file=sys.stderr)\n"


@dataclass(frozen=True)
class PlannerRead:
    """A plan, and what the page makes of it; frames are empty where the model has no RoPE.

    headline: what to do. why: what happens without scaling. rests: the one study that puts the first method
    before others, if it is one. assumed: what the trained length rests on. changes: what would change the
    advice. partial: what is computed on request alone.
    methods: one row each, ranked. pairs: method, pair, wavelength, inv_freq, ratio, turns. kernel: method,
    x, y. bound: frequencies, x, y (the lowest B(k) of each step).
    """

    plan: ContextPlan
    headline: str
    why: str
    rests: str
    advice: tuple[Advice, ...]
    assumed: str
    changes: str
    partial: str
    methods: pd.DataFrame
    pairs: pd.DataFrame
    kernel: pd.DataFrame
    bound: pd.DataFrame

    @property
    def said(self) -> str:
        """The sentences that stand over the advice."""
        return " ".join(filter(None, (self.headline, self.why, self.rests, self.assumed)))

    @property
    def scaled(self) -> dict[str, MethodPlan]:
        """The methods that change the frequencies for a longer target, by their labels.

        What the recommendation begins with stands first, before the methods by rank: a model's own scaling,
        past which it is measured, then this scaling at a larger factor.
        """
        methods = self.plan.methods if self.plan.longer else ()
        begins = suggested(self.plan)
        ordered = sorted(
            (method for method in methods if method.method.name != UNSCALED.name),
            key=lambda method: (method.readiness is not Readiness.PAST, method is not begins),
        )
        return {method.method.label: method for method in ordered}


def read(setting: Setting, options: Options) -> PlannerRead:
    """Return what the page shows; of the shared setting the model is all that counts."""
    token = planned_model.token(setting)
    every = is_computed(token, options)
    return _read(token, options.context, entered_length(options), options.methods, every)


def search_of(token: str, context: int) -> str:
    """Return the option by which a visitor asks for the long search of a model and a target."""
    return f"{context} {token}"


def is_computed(token: str, options: Options) -> bool:
    """Whether all is computed: at once, or because somebody asked for this model and this target."""
    asked = options.searched == search_of(token, options.context)
    return asked or not takes_long(token, options.context)


def takes_long(token: str, context: int) -> bool:
    """Whether the search of a base and the scan of every distance wait until they are asked for."""
    if context <= SEARCHED:
        return False
    kind = chosen_model(token).layer_kind
    reach = min(context, kind.window or context)
    if isinstance(kind.scheme, RopeConfig) and reach > SEARCHED:
        trained = kind.scheme.as_trained()
        if type(trained) is RopeConfig and known_base(trained.rotary_dim, reach) is None:
            return True
    return context > SCANNED_AT_ONCE


def entered_length(options: Options) -> int | None:
    """Return the trained length that a visitor entered, None for what is known of the model."""
    return max(options.trained, 2) if options.trained else None


@cached
def _read(
    token: str, context: int, entered: int | None, methods: tuple[str, ...], every: bool
) -> PlannerRead:
    model = chosen_model(token)
    planned = plan(
        model.config,
        context,
        name=model.preset.label,
        trained_length=entered or model.preset.trained_length,
        methods=methods,
        search_base=every,
        scan=None if every else SCANNED,
    )
    assumed = assumed_sentences(planned) if planned.trained is not None else []
    at = _steps(planned.reach)  # distances of expected logits
    if assumed:
        assumed.append("Enter the trained length if you know it.")
    return PlannerRead(
        plan=planned,
        headline=_headline(planned),
        why=_why(planned),
        rests=single_study(planned, begins.method.kind) if (begins := suggested(planned)) else "",
        advice=advice_of(planned),
        assumed=" ".join(assumed),
        changes=_changes(planned),
        partial="" if every or planned.trained is None else _partial(planned),
        methods=_methods(planned),
        pairs=_of_each(planned, _pair_columns),
        kernel=_of_each(
            planned, lambda method: {"x": at, "y": kernel_at(method.config, at, planned.target)}
        ),
        bound=_bound(planned),
    )


def _headline(planned: ContextPlan) -> str:
    """Return how much longer the target is, what to do first, and to what length that is known to work."""
    length = planned.trained_length
    if _is_within_windows(planned):
        return (
            f"{planned.name} to {planned.target:,} tokens: no distance is new, but measure first."
        )
    if length is None or not planned.longer or not planned.methods:
        return recommendation(planned)
    todo, own = to_do(planned), planned.own_length
    if own is None:
        stretch = f"{as_factor(planned.reach / length)} its trained length"
    elif planned.reach > own:
        stretch = (
            f"{as_factor(planned.reach / own)} the {own:,} that it reads with its own scaling, "
            f"{as_factor(planned.reach / length)} the {length:,} before it"
        )
    else:
        stretch = f"within the {own:,} that it reads with its own scaling"
    said = f"{planned.name} to {planned.target:,} tokens: {stretch}. {todo[0].upper()}{todo[1:]}."
    return " ".join(filter(None, (said, how_far(planned))))


def _is_within_windows(planned: ContextPlan) -> bool:
    """Whether a text is longer than those of training, and no layer sees farther than in those."""
    if planned.trained is None or planned.trained_length is None or planned.longer:
        return False
    return planned.target > planned.trained_length


def _why(planned: ContextPlan) -> str:
    """Return what happens to a longer text without scaling; "" where the headline says it."""
    if _is_within_windows(planned):
        return recommendation(planned)
    trained, length = planned.trained, planned.trained_length
    if trained is None or length is None or not planned.longer:
        return ""
    unscaled = compare_pairs(
        trained,
        trained,
        factor=planned.reach / length,
        trained_length=length,
        text=planned.target,
        reach=planned.reach,
    )
    verb = "turns" if unscaled.unseen_count == 1 else "turn"
    return (
        f"Without scaling, {unscaled.unseen_count} of {count_of(len(unscaled.before), 'pair')} of features "
        f"{verb} to angles that training never showed."
    )


def _changes(planned: ContextPlan) -> str:
    """Return what would change the advice, "" where there is none."""
    if not (planned.longer and planned.methods):
        return ""
    reasons = ["a measurement of your model (the script is below)"]
    shorter = nearest_factor(planned, "none")
    if shorter and not planned.first_after("none"):
        tokens = int(shorter * (planned.trained_length or 0))
        reasons.append(
            f"a target of up to {tokens:,} tokens, where sources report methods without training"
        )
    if planned.assumed:
        reasons.append(f"a trained length other than {planned.trained_length:,} tokens")
    return f"What would change this: {'; '.join(reasons)}."


def _partial(planned: ContextPlan) -> str:
    skipped = "the base at which B(k) stays at or above 0"
    if planned.scanned < planned.reach:
        skipped = f"B(k) past {planned.scanned:,}, and {skipped}"
    return f"Not computed yet: {skipped}."


def _methods(planned: ContextPlan) -> pd.DataFrame:
    """Return one row per method, ranked, with the numbers of the plan."""
    if not planned.methods:
        return pd.DataFrame()
    rows = [
        {column.title: column.value(method) for column in COLUMNS} for method in planned.methods
    ]
    # A count that may be missing stays a whole number.
    counts = {column.title: "Int64" for column in COLUMNS if column.form == ","}
    return pd.DataFrame(rows).astype(counts)


def _of_each(planned: ContextPlan, columns: Callable[[MethodPlan], dict[str, Any]]) -> pd.DataFrame:
    """Return the columns of every method under each other, its name and the trained length beside them."""
    parts = [
        pd.DataFrame(
            {"method": method.method.label, **columns(method), "boundary": planned.trained_length}
        )
        for method in planned.methods
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _pair_columns(method: MethodPlan) -> dict[str, Any]:
    """Return a row per pair: wavelength and frequency before and after, ratio, turns."""
    pairs = method.pairs
    return {
        "pair": np.arange(len(pairs.before)),
        "before": pairs.wavelengths[0],
        "wavelength": pairs.wavelengths[1],
        "trained_inv_freq": pairs.before,
        "inv_freq": pairs.after,
        "ratio": pairs.ratio,
        "state": pairs.states,
        "turns": pairs.turns,
    }


def _bound(planned: ContextPlan) -> pd.DataFrame:
    """Return B(k) as trained and of the demanded base: the lowest value of every step."""
    if planned.trained is None:
        return pd.DataFrame()
    configs: dict[str, RopeConfig] = {AS_TRAINED: planned.trained}
    if planned.base_window is not None and planned.first_negative is not None:
        configs[DEMANDED] = planned.trained.replace(base=planned.base_window.rounded)
    edges = _steps(planned.scanned)
    parts = []
    for name, config in configs.items():
        values = base_bound_curve(rope_frequencies(config)[0], planned.scanned).numpy()
        lowest = np.minimum.reduceat(values, edges)
        parts.append(pd.DataFrame({"frequencies": name, "x": edges, "y": lowest}))
    return pd.concat(parts, ignore_index=True)


def _steps(reach: int) -> np.ndarray:
    """Return distances from 1 to the last in about equal ratios; a reach of 1 has distance 0 alone."""
    if reach <= STEPS:
        return np.arange(min(1, reach - 1), reach)
    return np.unique(np.geomspace(1, reach - 1, STEPS).round().astype(np.int64))


def script(setting: Setting, options: Options) -> str:
    """Return a script that prints the ranked table of the setting's model."""
    model = planned_model.token(setting)
    length = entered_length(options)
    every = is_computed(model, options)
    return _SCRIPT.format(
        model=model,
        context=options.context,
        trained="model.preset.trained_length" if length is None else length,
        methods=list(options.methods),
        search=every,
        scan=None if every else SCANNED,
        assumption=_ASSUMPTION if chosen_model(model).config.assumption else "",
    )
