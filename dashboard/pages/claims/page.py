"""Claims, tested: sentences that are often repeated, each with the number that decides it here."""

import streamlit as st

from dashboard.controls import page_options, sidebar
from dashboard.frame import page
from dashboard.pages.claims import cards, data, script
from posenc.claims import Claim, Verdict, training


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(page_options.ClaimsChoice)
    both = settings.map(lambda setting: data.read(setting, chosen))
    found = both.now

    with header:
        page.head("Claims, tested", both.map(lambda one: data.headline(one.verdicts)))
        st.caption(
            "Every verdict is computed at the settings beside it and changes with them; schemes shown and "
            "device change nothing here."
        )
    if not found.shown:
        st.info(
            "No sentence has this verdict and this theme here.", icon=":material/filter_alt_off:"
        )
    cards.draw(both)

    page.how_to_read(
        "A verdict is about these settings, not about the world. *Holds* and *false* are what the number "
        "says here; *theorem holds* is true at every setting by proof, so what counts is its control: the "
        "same check on something that must fail. *Partly* says that one reading of the sentence holds and "
        "another does not. *Not in these models* means that the small models trained here contradict the "
        "sentence; larger models, or more training, may not. *Not measured here* needs trained models of "
        "this training length and base, and none ships. *Nothing to decide* is a setting too small for "
        "the question."
    )
    page.definition(
        r"\theta_m = b^{-2m/d}, \quad \lambda_m = \frac{2\pi}{\theta_m}, \quad "
        r"\lVert PE(p) \rVert = \sqrt{d/2}",
        "The frequencies, wavelengths and norm behind most of the numbers (Vaswani et al. 2017, arXiv "
        "1706.03762, section 3.5). Models are alike where perplexity differs by less than one part in a "
        "hundred, and extrapolate where it stays under 1.1 times that at the training length. Each card "
        "holds the code of its own test.",
        Claim,
        Verdict,
        training.extrapolates,
    )
    page.numbers(both.map(lambda one: one.numbers), "claims")
    page.script(script.script(settings.now, chosen))
