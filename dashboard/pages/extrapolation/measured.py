"""The view "measured" of Extrapolation: trained models evaluated past their training length."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import AB
from dashboard.charts import loss
from dashboard.compute import run_descriptions, run_results, runs
from dashboard.compute.run_results import UNITS
from dashboard.controls import sidebar
from dashboard.frame import page, quiz
from dashboard.pages.extrapolation import comparison, questions, script
from dashboard.pages.extrapolation.options import LossChoice, MeasuredChoice, VariantChoice
from dashboard.text import listed, plain
from posenc import fields
from posenc.lab import summary
from posenc.lab.evaluate import contexts
from posenc.lab.runs import RunInfo
from posenc.lab.tasks import Language
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of

UNDRAWN = [
    "bits per byte",
    "evaluated to",
    "seeds",
]  # of the table: the same for most, or in its data
STEPS = (
    "The models of a comparison share size, initial weights, data, order and steps; only the scheme "
    "differs. The same target tokens are scored at every context length, so a rising curve is not due to "
    "other targets. A band runs from the lowest seed to the highest. Compare losses at the training length "
    "first: a flat curve with a higher loss is not better. A learned table ends at the training length; "
    "repeating its last row is a variant. RoPE can be evaluated with other frequencies without "
    "more training. A model can keep its loss by ignoring distant tokens; copy and recall show whether it "
    "still uses them."
)


def draw(settings: AB[Setting], header: DeltaGenerator, row: DeltaGenerator) -> None:
    """Draw the runs of one comparison: the headline in `header`, the controls in `row`.

    A run has numbers of its own, so of a setting only the schemes count: those of the pinned one are
    drawn beside those of the current one, and each has a headline of its own.
    """
    shown = page.kinds(settings)
    default = runs.shipped_comparison(shown) or fields.defaults(MeasuredChoice)["comparison"]
    every = runs.comparisons(runs.listed(comparison.asked(default)))
    name = comparison.choose(row, every, default)
    if unread := runs.unreadable():
        st.caption(plain(unread))
    whole = every.get(name, [])
    found = runs.of_kinds(whole, shown)
    if found:
        _draw(settings, name, found, whole, header, row)
    else:
        where = "in this comparison" if whole else "on this server"
        with header:
            page.head("Extrapolation", f"No model of {page.names(shown)} is {where}.")
    page.link(st, "train")
    page.how_to_read(STEPS)
    page.definition(
        r"\ell(n) = -\frac{1}{|S|} \sum_{t \in S} \log p(x_t \mid x_{e-n}, \dots, x_{t-1})",
        "The targets S are the last L/4 tokens before each end e, where L is the training length. "
        "A window of n tokens leaves n - L/4 + 1 to n tokens before a target; only n changes. "
        "After Press et al. 2022, arXiv 2108.12409, section 2.2.",
        contexts,
        summary.first_degraded_length,
        summary.effect,
    )


def _draw(
    settings: AB[Setting],
    name: str,
    found: list[RunInfo],
    whole: list[RunInfo],
    header: DeltaGenerator,
    row: DeltaGenerator,
) -> None:
    """Draw the runs of the schemes shown, `found`, and the table of all of a comparison, `whole`."""
    specification, shown = found[0].specification, page.kinds(settings)
    measure, language = run_results.measure(specification), specification.task == Language.kind
    curves = runs.curves(found, measure)
    kinds = tuple(kind for kind in shown if runs.of_kinds(found, (kind,)))
    question, picture = st.container(), st.container()
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    chosen = sidebar.choices(LossChoice, controls) if language else LossChoice()
    several = runs.as_trained(curves) != curves
    variants = several and sidebar.choices(VariantChoice, controls).variants
    with question:
        asked = partial(questions.of_runs, curves)
        shows = quiz.ask("measured", (shown, name), asked, row)

    def headline(setting: Setting) -> str:
        own = runs.of_kinds(found, setting.schemes)
        if not own:
            return f"No model of {page.names(setting.schemes)} is in this comparison."
        return run_results.headline(runs.curves(own, measure))

    with header:
        page.head("Extrapolation", settings.map(headline) if shows else quiz.WITHHELD)
    if shows and curves:
        with picture:
            _picture(found, kinds, chosen, variants=variants)
        st.caption(plain(run_results.about(curves)))
        st.subheader("All measured schemes", anchor=False)
        table = run_results.table(runs.curves(whole, measure))
        page.table(table.drop(columns=UNDRAWN, errors="ignore"))
        for by in ("context", "position") if language else (measure,):
            columns = {"x": by, "y": "loss"} if language else {"x": UNITS[by], "y": "accuracy"}
            title = f"measured loss by {by}" if language else f"measured {by}"
            page.numbers(loss.points(runs.curves(found, by)), title, columns)
        page.numbers(table, "measured classes")
        ships = found[0].run_id in runs.shipped()
        page.script(script.measured(settings.now, name, measure, ships=ships))
    _notes(settings, found, shown, kinds)


def _picture(
    found: list[RunInfo], kinds: tuple[str, ...], chosen: LossChoice, *, variants: bool
) -> None:
    """Draw loss, perplexity or accuracy of these runs, one line per scheme, and of its variants."""
    measure = run_results.measure(found[0].specification)
    if measure == "context" and chosen.axis == "position":
        measure = "position"
    curves = runs.curves(found, measure)
    if not variants:
        curves = runs.as_trained(curves)
    if not curves:
        st.caption("These models were not evaluated along one long text.")
        return
    perplexity = chosen.unit == "perplexity"
    drawn = loss.frame(curves, perplexity=perplexity)
    spec = loss.by_length(drawn, kinds, measure, perplexity=perplexity, labels=not page.on_phone())
    page.picture(drawn, spec, key=f"measured_{measure}")


def _notes(
    settings: AB[Setting], found: list[RunInfo], shown: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    """Say which runs these are, which schemes have none, and which cannot be shown."""
    st.caption(plain(f"{run_descriptions.full_description(found[0].specification)}."))
    if missing := tuple(kind for kind in shown if kind not in kinds):
        st.caption(f"Not trained in this comparison: {page.names(missing)}.")
    if pinned := tuple(kind for kind in kinds if kind not in settings.now.schemes):
        st.caption(f"Only in the pinned setting, A: {page.names(pinned)}.")
    for run in found:
        if run.stopped:
            one = run.specification
            st.info(
                plain(f"{one.scheme.label}, seed {one.seed}: {run.stopped}"),
                icon=":material/block:",
            )
    lost = [run.run_id for run in found if runs.run(run.run_id) is None]
    if lost:
        st.warning(
            f"{count_of(len(lost), 'trained model')} cannot be read now, {listed(lost)}. The others "
            "are shown.",
            icon=":material/warning:",
        )
    for kind in kinds:
        if SCHEMES[kind].in_training:
            st.caption(f"{SCHEMES[kind].label}: {SCHEMES[kind].in_training}")
