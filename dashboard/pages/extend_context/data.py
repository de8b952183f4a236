"""What Extend a model's context shows of a model, a target and methods: frames, sentences, blocks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.compute.schemes import CACHE
from dashboard.controls.model_picker import about
from dashboard.pages.extend_context.options import PlanChoice
from posenc import rope_frequencies
from posenc.analysis import base_bound_curve, known_base
from posenc.models.model_config import full_cache_note
from posenc.planner import (
    COLUMNS,
    RANKING,
    ContextPlan,
    LayerNote,
    PlanWarning,
    layer_notes,
    loss_by_position_script,
    paste,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.methods import LARGER_BASE, UNSCALED, Readiness
from posenc.planner.plan import MethodPlan
from posenc.planner.report import ranked
from posenc.planner.scaling_effects import compare_pairs, distinct_positions, kernel_at
from posenc.planner.warnings import bound_sentence, precision_sentence
from posenc.schemes.rope import RopeConfig
from posenc.settings import ChosenModel, Setting, chosen_model
from posenc.text import as_factor, count_of

DEFAULT = "llama-3-8b"  # where no model is chosen
SEARCHED = 16_384  # up to here a page searches and scans every distance before it is asked
SCANNED = 65_536  # distances whose B(k) a page looks at before it is asked for all
SCANNED_AT_ONCE = 131_072  # every distance is looked at up to here where no base must be searched
STEPS = 240  # points of a curve that runs to the target

AS_TRAINED, DEMANDED = "As trained", "Demanded base"


@dataclass(frozen=True)
class Pasted:
    """What one method is written as: titles and texts to copy, where they go, why there are no others."""

    texts: Mapping[str, str]
    why: tuple[str, ...]
    script: str
    where: str


@dataclass(frozen=True)
class Advice:
    """What to do with one amount of training. method: its label, "" where nothing is known of one.

    short: the expected change on short context. sentence: what is known. source: of the sentence.
    """

    title: str
    method: str
    short: str
    sentence: str
    source: str


@dataclass(frozen=True)
class PlannerRead:
    """Everything on the page. Frames are empty where the model has no RoPE.

    methods: one row each, ranked. ranked: the same as cells of two tables, by their titles. pairs:
    method, pair, wavelength, inv_freq, ratio, turns. kernel: method, x, y.
    bound: ladder, x, y (the lowest B(k) of each step). resolution: positions, numbers. cache: GiB.
    """

    headline: str
    summary: str
    advice: tuple[Advice, ...]
    about: str
    methods: pd.DataFrame
    ranked: Mapping[str, pd.DataFrame]
    pairs: pd.DataFrame
    kernel: pd.DataFrame
    bound: pd.DataFrame
    resolution: pd.DataFrame
    cache: pd.DataFrame
    evidence: tuple[tuple[str, str, str], ...]
    cautions: tuple[PlanWarning, ...]
    layers: tuple[LayerNote, ...]
    left_out: tuple[str, ...]
    pasted: Mapping[str, Pasted]
    ranking: str
    trained_length: int | None
    reach: int
    scanned: int
    rope: bool
    apart: str
    base_bound: str
    partial: str
    assumed: str
    windows: str


def read(setting: Setting, chosen: PlanChoice, every: bool = False) -> PlannerRead:
    """Return what the page shows; of the shared setting the model is all that counts.

    every: whether all is computed even where that takes long, which a link alone never asks for.
    """
    word = planned(setting)
    return _read(word, chosen, every or not takes_long(word, chosen))


def takes_long(word: str, chosen: PlanChoice) -> bool:
    """Whether the search of a base and the scan of every distance wait until they are asked for."""
    if chosen.context <= SEARCHED:
        return False
    kind = chosen_model(word).layer_kind
    reach = min(chosen.context, kind.window or chosen.context)
    if isinstance(kind.scheme, RopeConfig):
        trained = kind.scheme.as_trained()
        answered = reach <= SEARCHED or type(trained) is not RopeConfig
        if not answered and known_base(trained.rotary_dim, reach) is None:
            return True
    return chosen.context > SCANNED_AT_ONCE


def entered_length(chosen: PlanChoice) -> int | None:
    """Return the trained length that a visitor entered, None for what is known of the model."""
    return max(chosen.trained, 2) if chosen.trained else None


def planned(setting: Setting) -> str:
    """Return the word of the model that is planned for."""
    return setting.model or DEFAULT


def context_plan(setting: Setting, chosen: PlanChoice, every: bool = False) -> ContextPlan:
    """Return the plan itself."""
    word = planned(setting)
    return _plan(word, chosen, every or not takes_long(word, chosen))


def _plan(word: str, chosen: PlanChoice, every: bool) -> ContextPlan:
    model = chosen_model(word)
    return plan(
        model.config,
        chosen.context,
        name=model.preset.label,
        trained_length=entered_length(chosen) or model.preset.trained_length,
        methods=chosen.methods,
        search_base=every,
        scan=None if every else SCANNED,
    )


@st.cache_data(**CACHE)
def _read(word: str, chosen: PlanChoice, every: bool) -> PlannerRead:
    found = _plan(word, chosen, every)
    notes = tuple(layer_notes(found.model, found.target, found.trained_length))
    return PlannerRead(
        headline=_verdict(found),
        summary=recommendation(found),
        advice=_advice(found) if found.longer and found.methods else (),
        about=about(chosen_model(word)),
        methods=methods_frame(found),
        ranked={part: pd.DataFrame(rows) for part, rows in ranked(found).items()},
        pairs=pairs_frame(found),
        kernel=kernel_frame(found),
        bound=bound_frame(found),
        resolution=resolution_frame(found.target),
        cache=pd.DataFrame({"number type": [*found.cache], "GiB": [*found.cache.values()]}),
        evidence=tuple(
            (one.method.label, said, source)
            for one in found.methods
            for said, source in one.statements
        ),
        cautions=tuple(warnings_of(found)),
        layers=notes,
        windows=full_cache_note(found.model, found.target),
        left_out=found.left_out,
        pasted=_pasted(found),
        ranking=RANKING,
        trained_length=found.trained_length,
        reach=found.reach,
        scanned=found.scanned,
        rope=found.trained is not None,
        apart=precision_sentence(found),
        base_bound=bound_sentence(found),
        assumed=" ".join(
            filter(None, (_assumed(found, chosen_model(word), chosen), *found.model.assumed))
        ),
        partial="" if every or found.trained is None else _partial(found),
    )


def _verdict(found: ContextPlan) -> str:
    """Return how much longer the target is, what happens unscaled, and what to plan, in one sentence."""
    trained, length = found.trained, found.trained_length
    if trained is None or length is None or not found.longer or not found.methods:
        return recommendation(found)
    stretch = found.reach / length
    sizes = {"trained_length": length, "text": found.target, "reach": found.reach}
    unscaled = compare_pairs(trained, trained, factor=stretch, **sizes)
    verb = "reaches" if unscaled.unseen_count == 1 else "reach"
    pairs = f"{unscaled.unseen_count} of {count_of(len(unscaled.before), 'pair')} {verb}"
    is_tuned = any(one.readiness is Readiness.TRAINED for one in found.methods)
    otherwise = "plan to fine-tune" if is_tuned else "plan to train and to measure"
    todo = _TO_DO.get(found.methods[0].readiness, otherwise)
    longer = as_factor(stretch).removeprefix("x")
    return f"{longer}x longer. Unscaled, {pairs} angles unseen in training: {todo}."


# By the readiness of the method that is ranked first.
_TO_DO = {
    Readiness.OWN_SCALING: "the model's own scaling is made for it",
    Readiness.RECOMMENDED: "use the scaling that its makers recommend",
    Readiness.UNTRAINED: "measure without training first",
}
# Methods whose sources trained on billions of tokens; the others took some hundred steps of fine-tuning.
_CONTINUED = ("llama3", LARGER_BASE.name)


def _advice(found: ContextPlan) -> tuple[Advice, ...]:
    """Return the highest-ranked method for each amount of training that a source supports."""
    tuned = [one for one in found.methods if one.readiness is Readiness.TRAINED]
    choices = {
        "No training": [one for one in found.methods if one.readiness in _TO_DO],
        "Light fine-tuning": [one for one in tuned if one.method.name not in _CONTINUED],
        "Continued training": [one for one in tuned if one.method.name in _CONTINUED],
    }
    return tuple(_advice_of(title, methods) for title, methods in choices.items())


def _advice_of(title: str, methods: Sequence[MethodPlan]) -> Advice:
    if not methods:
        unknown = "No source reports a compared method at this factor."
        return Advice(title, "", "", unknown, "")
    first = methods[0]
    sentence, source = first.statements[0] if first.advice is None else first.statements[-1]
    if unseen := first.pairs.unseen_count:
        verb = "reaches" if unseen == 1 else "reach"
        sentence = f"{count_of(unseen, 'pair')} {verb} angles unseen in training. {sentence}"
    short = f"mean {first.short.mean:.3f}, largest {first.short.worst:.3f}"
    return Advice(title, first.method.label, short, sentence, source)


def _assumed(found: ContextPlan, model: ChosenModel, chosen: PlanChoice) -> str:
    """Say what a trained length of 0 stands for, "" where one is entered or none matters."""
    if found.trained is None or entered_length(chosen) is not None:
        return ""
    if model.preset.trained_length is not None:
        return ""  # which `about` tells
    if found.assumed:
        return f"{' '.join(found.assumed)} Enter the trained length if you know it."
    if found.model.trained_length is not None:
        what = "that its scaling starts from" if found.own_length else "a trained length of"
        return f"Its config says {what} {found.trained_length:,} tokens."
    return ""


def _partial(found: ContextPlan) -> str:
    """Say what was left for later, in a sentence."""
    skipped = "the base that satisfies B(k) is not searched"
    if found.scanned < found.reach:
        skipped = f"B(k) is computed up to {found.scanned:,} only, and {skipped}"
    return f"To open at once, {skipped}."


def length_hint(setting: Setting) -> str:
    """Return the trained length that an empty field stands for, with its source."""
    model = chosen_model(planned(setting))
    if model.preset.trained_length is not None:
        return f"{model.preset.trained_length:,} from makers"
    length = _plan(planned(setting), PlanChoice(context=2, methods=("none",)), False).trained_length
    return f"{length:,} from config" if length else "not known"


def methods_frame(found: ContextPlan) -> pd.DataFrame:
    """One row per method, ranked, with the numbers of the plan."""
    if not found.methods:
        return pd.DataFrame()
    rows = [{column.title: column.value(one) for column in COLUMNS} for one in found.methods]
    # A count that may be missing stays a whole number.
    counts = {column.title: "Int64" for column in COLUMNS if column.form == ","}
    return pd.DataFrame(rows).astype(counts)


def pairs_frame(found: ContextPlan) -> pd.DataFrame:
    """One row per method and pair: wavelength and inverse frequency before and after, ratio, turns."""
    parts = [
        pd.DataFrame(
            {
                "method": one.method.label,
                "pair": np.arange(len(one.pairs.before)),
                "before": one.pairs.wavelengths[0],
                "wavelength": one.pairs.wavelengths[1],
                "trained_inv_freq": one.pairs.before,
                "inv_freq": one.pairs.after,
                "ratio": one.pairs.ratio,
                "state": one.pairs.states,
                "turns": one.pairs.turns,
                "boundary": found.trained_length,
            }
        )
        for one in found.methods
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def kernel_frame(found: ContextPlan) -> pd.DataFrame:
    """The expected logit of unit content by distance, out to the target, for each method."""
    at = steps(found.reach)
    parts = [
        pd.DataFrame(
            {
                "method": one.method.label,
                "x": at,
                "y": kernel_at(one.config, at, found.target),
                "boundary": found.trained_length,
            }
        )
        for one in found.methods
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def bound_frame(found: ContextPlan) -> pd.DataFrame:
    """B(k) of the ladder as trained and of the demanded base: the lowest value of every step."""
    if found.trained is None:
        return pd.DataFrame()
    ladders: dict[str, RopeConfig] = {AS_TRAINED: found.trained}
    if found.base_window is not None and found.first_negative is not None:
        ladders[DEMANDED] = found.trained.replace(base=found.base_window.rounded)
    edges = steps(found.scanned)
    parts = []
    for name, config in ladders.items():
        values = base_bound_curve(rope_frequencies(config)[0], found.scanned).numpy()
        lowest = np.minimum.reduceat(values, edges)
        parts.append(pd.DataFrame({"ladder": name, "x": edges, "y": lowest}))
    return pd.concat(parts, ignore_index=True)


def resolution_frame(target: int) -> pd.DataFrame:
    """How many different bfloat16 numbers positions below each power of two become."""
    lengths = [2**power for power in range(target.bit_length()) if 2**power < target] + [target]
    return pd.DataFrame(
        {"positions": lengths, "numbers": [distinct_positions(length) for length in lengths]}
    )


def steps(reach: int) -> np.ndarray:
    """Return distances from 1 to the last in about equal ratios; a reach of 1 has distance 0 alone."""
    if reach <= STEPS:
        return np.arange(min(1, reach - 1), reach)
    return np.unique(np.geomspace(1, reach - 1, STEPS).round().astype(np.int64))


def _pasted(found: ContextPlan) -> dict[str, Pasted]:
    pasted = {}
    for one in found.methods if found.longer else ():
        if one.method.name == UNSCALED.name:
            continue
        emitted = paste(found, one)
        texts = {
            "config.json, transformers 5": _json(emitted.rope_parameters),
            "config.json, transformers 4": _json(emitted.rope_scaling),
            "vLLM": emitted.vllm,
            "llama.cpp": emitted.llama_cpp,
        }
        pasted[one.method.label] = Pasted(
            {title: text for title, text in texts.items() if text},
            emitted.why,
            loss_by_position_script(found, one),
            emitted.where,
        )
    return pasted


def _json(block: dict[str, object]) -> str:
    return json.dumps(block, indent=2) if block else ""
