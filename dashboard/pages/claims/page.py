"""Claims, tested: claims that are often repeated, each with the number that decides it here."""

import streamlit as st

from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.claims import cards, data, script
from dashboard.pages.claims.options import ClaimsChoice
from posenc.claims import Claim, Verdict, training


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(ClaimsChoice)
    both = settings.map(lambda setting: data.read(setting, chosen))
    found = both.now

    with header:
        page.head("Claims, tested", both.map(lambda one: data.headline(one.verdicts)))
        st.caption("Computed at the current settings. Open a line for evidence, source and code.")
    if not found.shown:
        st.info("No claim has this verdict and this theme here.", icon=":material/filter_alt_off:")
    cards.draw(both)

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
        "1706.03762, section 3.5). Models are alike where perplexity differs by less than one part in a "
        "hundred, and extrapolate where it stays under 1.1 times that at the training length. Each line "
        "opens to the code of its test.",
        Claim,
        Verdict,
        training.extrapolates,
    )
    page.numbers(both.map(lambda one: one.numbers), "claims")
    page.script(script.script(settings.now, chosen))
