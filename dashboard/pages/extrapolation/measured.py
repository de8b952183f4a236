"""The view "measured" of Extrapolation: trained models evaluated past their training length."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import run_descriptions, run_results, runs
from dashboard.ab import AB
from dashboard.charts import loss
from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.extrapolation import comparison
from dashboard.pages.extrapolation.options import (
    LossChoice,
    MeasuredChoice,
    OwnRunsChoice,
    VariantChoice,
)
from dashboard.run_results import UNITS
from dashboard.script import whole_script
from dashboard.settings import Setting
from dashboard.text import listed, plain
from posenc import fields
from posenc.lab import summary
from posenc.lab.evaluate import contexts
from posenc.lab.runs import RunInfo
from posenc.lab.tasks import Language
from posenc.schemes import SCHEMES
from posenc.text import count_of

HIDDEN_COLUMNS = ["bits per byte", "evaluated to", "seeds"]  # of the table; its data has them
STEPS = (
    "The models of a comparison share size, initial weights, data, order and steps; only the scheme "
    "differs. The same target tokens are scored at every context length, so a rising curve is not due to "
    "other targets. A band runs from the lowest seed to the highest. Compare losses at the training length "
    "first: a flat curve with a higher loss is not better. A learned table ends at the training length; "
    "repeating its last row is a variant. RoPE can be evaluated with other frequencies without "
    "more training. A model can keep its loss by ignoring distant tokens; copy and recall show whether it "
    "still uses them."
)
IMPORTS = """
from posenc.checkpoints.sources import RESULTS
from posenc.lab import Store, summary
"""
SCRIPT = """
stores = [{stores}]
runs = [run for store in stores for run in store]
runs = [run for run in runs if run.specification.scheme.kind in kinds]
runs = [run for run in runs if summary.comparison(run.specification) == "{comparison}"]
curves = summary.curves(runs, "{measure}")
print("scheme,read,x,mean,low,high,seeds")
for curve in curves:
    for point in curve.points:
        label = curve.specification.scheme.label
        values = point.x, point.mean, point.low, point.high, curve.seeds
        print(label, curve.variant, *values, sep=",")
"""


def draw(settings: AB[Setting], header: DeltaGenerator, row: DeltaGenerator) -> None:
    """Draw the runs of one comparison: the headline in `header`, the controls in `row`.

    A run has numbers of its own, so of a setting only the schemes count, which A and B share.
    """
    kinds = settings.current.schemes
    default = runs.shipped_comparison(kinds) or fields.defaults(MeasuredChoice)["comparison"]
    comparisons = runs.comparisons(runs.all_ids())
    name = comparison.choose(row, comparisons, default)
    if unreadable := runs.unreadable():
        st.caption(plain(unreadable))
    compared = comparisons.get(name, [])
    ids = {*runs.shipped()}
    shipped = [info for info in compared if info.run_id in ids]
    # What somebody trains changes no sentence of what ships, unless a visitor asks for it.
    if 0 < len(shipped) < len(compared) and not sidebar.choices(OwnRunsChoice, row).own_runs:
        compared = shipped
    if runs.of_kinds(compared, kinds):
        _draw_comparison(settings.current, name, compared, header)
    else:
        where = "in this comparison" if compared else "on this server"
        with header:
            page.head("Extrapolation", f"No model of {page.names(kinds)} is {where}.")
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


def _draw_comparison(
    setting: Setting, name: str, compared: list[RunInfo], header: DeltaGenerator
) -> None:
    """Draw the runs of the schemes shown, and the table of all runs of a comparison."""
    kinds, specification = setting.schemes, compared[0].specification
    shown = runs.of_kinds(compared, kinds)
    trained = tuple(kind for kind in kinds if runs.of_kinds(shown, (kind,)))
    measure, language = run_results.measure(specification), specification.task == Language.kind
    curves = runs.curves(shown, measure)
    picture = st.container()
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    chosen = sidebar.choices(LossChoice, controls) if language else LossChoice()
    has_variants = runs.as_trained(curves) != curves
    variants = has_variants and sidebar.choices(VariantChoice, controls).variants
    with header:
        page.head("Extrapolation", run_results.headline(curves))
    if curves:
        with picture:
            by = "position" if chosen.axis == "position" else measure
            _draw_picture(shown, trained, by, chosen.unit, variants=variants)
        st.caption(
            plain(run_results.about(curves)),
            help=run_results.rules_in_percent() if language else None,
        )
        st.subheader("All measured schemes", anchor=False)
        table = run_results.table(runs.curves(compared, measure))
        page.table(table.drop(columns=HIDDEN_COLUMNS, errors="ignore"))
        for by in ("context", "position") if language else (measure,):
            columns = {"x": by, "y": "loss"} if language else {"x": UNITS[by], "y": "accuracy"}
            title = f"measured loss by {by}" if language else f"measured {by}"
            page.numbers(loss.points(runs.curves(shown, by)), title, columns)
        page.numbers(table, "measured classes")
        places = {info.run_id in runs.shipped() for info in shown}
        stores = ", ".join(
            "Store(str(RESULTS))" if ships else "Store()" for ships in sorted(places)
        )
        body = SCRIPT.format(stores=stores, comparison=name, measure=measure)
        page.script(whole_script(IMPORTS, f"kinds = {kinds!r}", body))
    _draw_notes(kinds, shown, trained)


def _draw_picture(
    shown: list[RunInfo], trained: tuple[str, ...], measure: str, unit: str, *, variants: bool
) -> None:
    """Draw loss, perplexity or accuracy of these runs, one line per scheme, and of its variants."""
    curves = runs.curves(shown, measure)
    if not variants:
        curves = runs.as_trained(curves)
    if not curves:
        st.caption("These models were not evaluated along one long text.")
        return
    perplexity = unit == "perplexity"
    frame = loss.frame(curves, perplexity=perplexity)
    spec = loss.by_length(frame, trained, measure, perplexity=perplexity)
    title = f"Models trained on: {run_descriptions.title(shown[0].specification)}"
    page.picture(frame, spec, key=f"measured_{measure}", title=title)


def _draw_notes(kinds: tuple[str, ...], shown: list[RunInfo], trained: tuple[str, ...]) -> None:
    """Say which runs these are, which schemes have none, and which cannot be shown."""
    description = run_descriptions.full_description(shown[0].specification)
    st.caption(plain(f"{description}."))
    if missing := tuple(kind for kind in kinds if kind not in trained):
        st.caption(f"Not trained in this comparison: {page.names(missing)}.")
    for info in shown:
        if info.stopped:
            specification = info.specification
            text = f"{specification.scheme.label}, seed {specification.seed}: {info.stopped}"
            st.info(plain(text), icon=":material/block:")
    lost = [info.run_id for info in shown if runs.run(info.run_id) is None]
    if lost:
        st.warning(
            f"{count_of(len(lost), 'trained model')} cannot be read now, {listed(lost)}. The others "
            "are shown.",
            icon=":material/warning:",
        )
    for kind in trained:
        if SCHEMES[kind].in_training:
            st.caption(f"{SCHEMES[kind].label}: {SCHEMES[kind].in_training}")
