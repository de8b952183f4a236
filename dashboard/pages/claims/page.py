"""Claims: a line for each repeated claim, with the number that decides it at these settings."""

import inspect
import itertools
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.compute.schemes import Array
from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.frame import page
from dashboard.pages.claims import data
from dashboard.pages.claims.options import ClaimsChoice
from dashboard.text import plain
from posenc.claims import CLAIMS, Claim, Number, Verdict, training

WEIGHTS = Scale(0.0, 1.0, "sequential", "attention weight")


used_controls = UsedControls(
    tuple(sorted({name for claim in CLAIMS.values() for name in claim.uses})), schemes=False
)


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(ClaimsChoice)
    both = settings.map(lambda setting: data.read(setting, chosen))
    read = both.current

    with header:
        page.head("Claims", both.map(lambda result: data.headline(result.verdicts)))
        st.caption("Open a line for evidence, source and code.")
    if not read.shown:
        st.info("No claim has this verdict and this theme here.", icon=":material/filter_alt_off:")
    _draw_claims(both)

    page.how_to_read(
        "A verdict holds at these settings. *True* and *false*: the number decides. *Proven*: true at "
        "every setting by proof; its control is the same check on something that must fail. *Partly "
        "true*: one reading of the claim is true and another is not. *False in small models*: the small "
        "models trained here contradict the claim; larger models may not. *Not measured*: no trained "
        "model has this training length and base. *Undecided*: the setting is too small for the test."
    )
    page.definition(
        r"\theta_m = b^{-2m/d}, \quad \lambda_m = \frac{2\pi}{\theta_m}, \quad "
        r"\lVert PE(p) \rVert = \sqrt{d/2}",
        "The frequencies, wavelengths and norm behind most of the numbers (Vaswani et al. 2017, arXiv "
        "1706.03762, section 3.5). Two models are alike where their perplexities differ by less than 1%. "
        "A model extrapolates where its loss rises by at most 0.049 nats past the training length (5% of "
        "perplexity), and partly so up to 0.095 nats (10%).",
        Claim,
        Verdict,
        training.extrapolates,
    )
    page.numbers(both.map(lambda result: result.numbers), "claims")
    page.script(data.script(settings.current))


def _draw_claims(both: AB[data.ClaimsRead]) -> None:
    """Draw a line per claim that the filters leave, grouped by verdict."""
    read = both.current
    for group, names in itertools.groupby(
        read.shown, lambda name: data.OUTCOMES[read.verdicts[name].status].heading
    ):
        own = [*names]
        st.subheader(f"{group} ({len(own)})", anchor=False)
        with st.container(gap="xsmall"):
            for name in own:
                pinned_verdict = None if both.pinned is None else both.pinned.verdicts[name]
                _draw_claim(CLAIMS[name], read, pinned_verdict)


def _draw_claim(claim: Claim, read: data.ClaimsRead, pinned_verdict: Verdict | None) -> None:
    """Draw one line; evidence, control, source and code are sent once it is opened.

    pinned_verdict: the verdict of the pinned setting.
    """
    verdict = read.verdicts[claim.id]
    drawer = st.expander(
        line(claim, verdict, pinned_verdict),
        key=f"claim_code_{claim.id}",
        on_change="rerun",
        type="compact",
    )
    if not drawer.open:
        return
    with drawer:
        st.markdown(plain(verdict.sentence))
        st.markdown(f"Source: [{plain(claim.source)}]({claim.link}).")  # a caption dims links
        if pinned_verdict is not None:
            st.caption(pinned(verdict, pinned_verdict))
        if claim.id == data.DRAWN and read.weights is not None:
            picture(*read.weights)
        if verdict.numbers:
            st.table(numbers(verdict.numbers, verdict.control))
        st.caption(f"How it is tested. The verdict depends on {plain(data.reads(claim))}.")
        place = st.expander("Code", type="compact") if page.on_phone() else st.container()
        for function in (claim.test, *claim.steps):
            code = inspect.getsource(function)
            place.code(code[code.index("def ") :], language="python")  # without its decorator


def line(claim: Claim, verdict: Verdict, pinned_verdict: Verdict | None) -> str:
    """Return verdict, claim and deciding number in a line of Markdown."""
    # A coloured badge in a closed line has too little contrast.
    outcome = data.OUTCOMES[verdict.status]
    text = f":material/{outcome.icon}: **{outcome.word}.** {plain(claim.sentence)}"
    if (number := verdict.decides) is not None:
        name = number.name[0].upper() + number.name[1:]
        text += f" {plain(name)}: **{plain(number.text)}**"
    if pinned_verdict is not None and pinned_verdict.status != verdict.status:
        text += f" (A: {data.OUTCOMES[pinned_verdict.status].word})"
    return text


def pinned(current: Verdict, pinned_verdict: Verdict) -> str:
    """Say what the verdict of the pinned setting is, and how far the number moved."""
    said = f"A: {data.OUTCOMES[pinned_verdict.status].word}"
    ours, theirs = current.decides, pinned_verdict.decides
    if theirs is not None:
        said += f", {plain(theirs.text)}"
    if ours is None or theirs is None or ours.value is None or theirs.value is None:
        return said + "."
    if ours.name == theirs.name:
        said += f"; B minus A: {plain(f'{ours.value - theirs.value:.4g}')}"
    return said + "."


def numbers(figures: Sequence[Number], control: Number | None) -> pd.DataFrame:
    """All numbers of a verdict as text, the control last."""
    rows = {plain(number.name): plain(number.text) for number in figures}
    if control is not None:
        rows[f"control: {plain(control.name)}"] = plain(control.text)
    return pd.DataFrame({"found": rows})


def picture(weights: Array, random: Array, whole: int) -> None:
    """Draw the attention weights of the drawn claim beside those of its control."""
    most = data.DRAWN_POSITIONS
    page.matrices(
        [
            Panel(
                title="Sinusoidal rows",
                values=Full(weights),
                subtitle=f"{whole:,} positions" + (f", the first {most}" if whole > most else ""),
            ),
            Panel(
                title="Random rows",
                values=Full(random),
                subtitle="control: the same key map",
            ),
        ],
        key="two_right",
        scale=WEIGHTS,
        height=280,
        text_alternative=(
            "Attention weights by query and key, from 0 to 1: with sinusoidal rows every query looks "
            "two positions to its right, with random rows it does not."
        ),
    )
