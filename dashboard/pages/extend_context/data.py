"""What Extend a model's context shows of a model, a target and methods: a plan, advice, frames."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dashboard.cache import cached
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.settings import Setting, chosen_model
from posenc import rope_frequencies
from posenc.analysis import base_bound_curve, known_base
from posenc.planner import COLUMNS, ContextPlan, assumed_sentences, plan, recommendation
from posenc.planner.advice import TO_DO, Advice, advice_of
from posenc.planner.context_plan import MethodPlan
from posenc.planner.ranking import Readiness
from posenc.planner.scaling_effects import compare_pairs, kernel_at
from posenc.schemes.rope import RopeConfig
from posenc.text import as_factor, count_of

DEFAULT = "llama-3-8b"  # where no model is chosen
SEARCHED = 16_384  # up to here a page searches and scans every distance before it is asked
SCANNED = 65_536  # distances whose B(k) a page looks at before it is asked for all
SCANNED_AT_ONCE = 131_072  # every distance is looked at up to here where no base must be searched
STEPS = 240  # points of a curve that runs to the target

AS_TRAINED, DEMANDED = "As trained", "Demanded base"

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

    assumed: what the trained length rests on. partial: what is computed on request alone.
    methods: one row each, ranked. pairs: method, pair, wavelength, inv_freq, ratio, turns. kernel: method,
    x, y. bound: frequencies, x, y (the lowest B(k) of each step).
    """

    plan: ContextPlan
    headline: str
    advice: tuple[Advice, ...]
    assumed: str
    partial: str
    methods: pd.DataFrame
    pairs: pd.DataFrame
    kernel: pd.DataFrame
    bound: pd.DataFrame


def read(setting: Setting, chosen: PlanChoice, every: bool = False) -> PlannerRead:
    """Return what the page shows; of the shared setting the model is all that counts.

    every: whether all is computed even where that takes long, which a link alone never asks for.
    """
    token = model_token(setting)
    return _read(token, chosen, every or not takes_long(token, chosen))


def takes_long(token: str, chosen: PlanChoice) -> bool:
    """Whether the search of a base and the scan of every distance wait until they are asked for."""
    if chosen.context <= SEARCHED:
        return False
    kind = chosen_model(token).layer_kind
    reach = min(chosen.context, kind.window or chosen.context)
    if isinstance(kind.scheme, RopeConfig) and reach > SEARCHED:
        trained = kind.scheme.as_trained()
        if type(trained) is RopeConfig and known_base(trained.rotary_dim, reach) is None:
            return True
    return chosen.context > SCANNED_AT_ONCE


def entered_length(chosen: PlanChoice) -> int | None:
    """Return the trained length that a visitor entered, None for what is known of the model."""
    return max(chosen.trained, 2) if chosen.trained else None


def model_token(setting: Setting) -> str:
    """Return the name or the token of the model that is planned for."""
    return setting.model or DEFAULT


def known_length(setting: Setting) -> tuple[int | None, str]:
    """Return the trained length that an empty field stands for, None where not known, and its source."""
    model = chosen_model(model_token(setting))
    if model.preset.trained_length is not None:
        return model.preset.trained_length, "makers"
    return plan(model.config, 2, methods=(), search_base=False).trained_length, "config"


def can_scale(setting: Setting, entered: bool) -> bool:
    """Return whether a model has RoPE, and a trained length that is known or entered."""
    kind = chosen_model(model_token(setting)).layer_kind
    knows_length = entered or known_length(setting)[0] is not None
    return knows_length and isinstance(kind.scheme, RopeConfig)


@cached
def _read(token: str, chosen: PlanChoice, every: bool) -> PlannerRead:
    model, entered = chosen_model(token), entered_length(chosen)
    planned = plan(
        model.config,
        chosen.context,
        name=model.preset.label,
        trained_length=entered or model.preset.trained_length,
        methods=chosen.methods,
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
        advice=advice_of(planned),
        assumed=" ".join((*assumed, *planned.model.assumed)),
        partial="" if every or planned.trained is None else _partial(planned),
        methods=_methods(planned),
        pairs=_of_each(planned, _pair_columns),
        kernel=_of_each(
            planned, lambda method: {"x": at, "y": kernel_at(method.config, at, planned.target)}
        ),
        bound=_bound(planned),
    )


def _headline(planned: ContextPlan) -> str:
    """Return how much longer the target is, what happens unscaled, and what to plan, in one sentence."""
    trained, length = planned.trained, planned.trained_length
    if trained is None or length is None or not planned.longer or not planned.methods:
        return recommendation(planned)
    stretch = planned.reach / length
    unscaled = compare_pairs(
        trained,
        trained,
        factor=stretch,
        trained_length=length,
        text=planned.target,
        reach=planned.reach,
    )
    verb = "reaches" if unscaled.unseen_count == 1 else "reach"
    pairs = f"{unscaled.unseen_count} of {count_of(len(unscaled.before), 'pair')} {verb}"
    is_tuned = any(method.readiness is Readiness.TRAINED for method in planned.methods)
    otherwise = "plan to fine-tune" if is_tuned else "plan to train and to measure"
    todo = TO_DO.get(planned.methods[0].readiness, otherwise)
    return (
        f"{planned.name} to {planned.target:,} tokens: {as_factor(stretch)} its trained length. "
        f"Unscaled, {pairs} angles unseen in training: {todo}."
    )


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


def script(setting: Setting, chosen: PlanChoice, every: bool = False) -> str:
    """Return a script that prints the ranked table of the setting's model."""
    model = model_token(setting)
    length = entered_length(chosen)
    every = every or not takes_long(model, chosen)
    return _SCRIPT.format(
        model=model,
        context=chosen.context,
        trained="model.preset.trained_length" if length is None else length,
        methods=list(chosen.methods),
        search=every,
        scan=None if every else SCANNED,
        assumption=_ASSUMPTION if chosen_model(model).config.assumption else "",
    )
