"""Claims: a line for each repeated claim, with the number that decides it at these settings."""

import inspect
import itertools
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.frame import page
from dashboard.pages.claims import data
from dashboard.pages.claims.options import ClaimsChoice
from dashboard.results import Array
from dashboard.script import to_python, whole_script
from dashboard.text import number, plain
from posenc.claims import CLAIMS, Claim, Number, Verdict, training

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
    for heading, names in itertools.groupby(
        read.shown, lambda name: data.OUTCOMES[read.verdicts[name].status].heading
    ):
        claims = [CLAIMS[name] for name in names]
        st.subheader(f"{heading} ({len(claims)})", anchor=False)
        with st.container(gap="xsmall"):
            for claim in claims:
                _draw_claim(claim, both)

    page.how_to_read(
        "A verdict holds at these settings. *True* and *false*: the number decides. *Proven*: true at "
        "every setting by proof; its control is the same check on something that must fail. *Partly "
        "true*: one reading of the claim is true and another is not. *True* and *false in small "
        "models*: the small models trained here bear the claim out or contradict it; larger models may "
        "differ. *Not measured*: no trained model has this training length and base. *Undecided*: the "
        "setting is too small for the test, or models were trained with one learning rate only."
    )
    page.definition(
        r"\theta_m = b^{-2m/d}, \quad \lambda_m = \frac{2\pi}{\theta_m}, \quad "
        r"\lVert PE(p) \rVert = \sqrt{d/2}",
        "The frequencies, wavelengths and norm behind most of the numbers (Vaswani et al. 2017, arXiv "
        "1706.03762, section 3.5). A model extrapolates where its loss rises by at most 0.049 nats past "
        "the training length (5% of perplexity), and partly so up to 0.095 nats (10%).",
        Claim,
        Verdict,
        training.extrapolates,
    )
    page.numbers(both.map(lambda result: result.numbers), "claims")
    page.script(
        whole_script(data.IMPORTS, f"sizes = {to_python(settings.current.sizes)}", data.SCRIPT)
    )


def _draw_claim(claim: Claim, both: AB[data.ClaimsRead]) -> None:
    """Draw one line; evidence, control, source and code are sent once it is opened."""
    verdicts = both.map(lambda result: result.verdicts[claim.id])
    verdict, weights = verdicts.current, both.current.weights
    drawer = st.expander(
        line(claim, verdicts), key=f"claim_code_{claim.id}", on_change="rerun", type="compact"
    )
    if not drawer.open:
        return
    with drawer:
        st.markdown(plain(verdict.sentence))
        st.markdown(f"Source: [{plain(claim.source)}]({claim.link}).")  # a caption dims links
        if verdicts.pinned is not None:
            st.caption(pinned(verdict, verdicts.pinned))
        if claim.id == data.DRAWN and weights is not None:
            picture(*weights)
        if verdict.numbers:
            st.table(numbers(verdict.numbers, verdict.control))
        st.caption(f"How it is tested. The verdict depends on {plain(data.reads(claim))}.")
        for function in (claim.test, *claim.steps):
            code = inspect.getsource(function)
            st.code(code[code.index("def ") :], language="python")  # without its decorator


def line(claim: Claim, verdicts: AB[Verdict]) -> str:
    """Return verdict, claim and deciding number in a line of Markdown."""
    # A coloured badge in a closed line has too little contrast.
    outcome, number = data.OUTCOMES[verdicts.current.status], verdicts.current.decides
    text = f":material/{outcome.icon}: **{outcome.word}.** {plain(claim.sentence)}"
    if number is not None:
        name = number.name[0].upper() + number.name[1:]
        text += f" {plain(name)}: **{plain(number.text)}**"
    if verdicts.pinned is not None and verdicts.pinned.status != verdicts.current.status:
        text += f" (A: {data.OUTCOMES[verdicts.pinned.status].word})"
    return text


def pinned(of_b: Verdict, of_a: Verdict) -> str:
    """Say what the verdict of the pinned setting is, and how far the number moved."""
    text = f"A: {data.OUTCOMES[of_a.status].word}"
    b, a = of_b.decides, of_a.decides
    if a is not None:
        text += f", {plain(a.text)}"
        if b is not None and b.name == a.name and b.value is not None and a.value is not None:
            text += f"; B minus A: {plain(number(b.value - a.value, 4))}"
    return f"{text}."


def numbers(figures: Sequence[Number], control: Number | None) -> pd.DataFrame:
    """All numbers of a verdict as text, the control last."""
    rows = {plain(number.name): plain(number.text) for number in figures}
    if control is not None:
        rows[f"control: {plain(control.name)}"] = plain(control.text)
    return pd.DataFrame({"found": rows})


def picture(weights: Array, control: Array, positions: int) -> None:
    """Draw the attention weights of the drawn claim beside those of its control."""
    most = data.DRAWN_POSITIONS
    count = f"{positions:,} positions" + (f", the first {most}" if positions > most else "")
    page.matrices(
        [
            Panel(title="Sinusoidal rows", values=Full(weights), subtitle=count),
            Panel(title="Random rows", values=Full(control), subtitle="control: the same key map"),
        ],
        key="two_right",
        scale=Scale(0.0, 1.0, "sequential", "attention weight"),
        height=280,
        text_alternative=(
            "Attention weights by query and key, from 0 to 1: with sinusoidal rows every query looks "
            "two positions to its right, with random rows it does not."
        ),
    )
