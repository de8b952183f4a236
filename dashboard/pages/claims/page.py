"""Claims: a line for each repeated claim, with the number that decides it at these settings."""

import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dashboard.blocks import (
    Block,
    Code,
    Controls,
    Data,
    Definition,
    Drawer,
    Formula,
    Lines,
    Link,
    Matrices,
    Page,
    Row,
    Table,
    Text,
    Uses,
)
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.pages.claims import data
from dashboard.script import to_python, whole_script
from dashboard.settings import Setting
from dashboard.settings.labelled import LabelledChoice
from dashboard.text import plain, unbroken
from posenc import fields
from posenc.claims import CLAIMS, THEMES, Claim, Status, Verdict, training
from posenc.schemes.sizes import Sizes

USES = Uses(
    tuple(sorted({name for claim in CLAIMS.values() for name in claim.uses})), schemes=False
)
# Pages that show the same as a claim, for every chosen scheme.
SEEN_ON = {
    "linear_map": "relative_offsets",
    "offset_only": "relative_offsets",
    "permutation": "why_order_matters",
    "blind": "why_order_matters",
}
PROVEN = (
    "True at every setting: a line opens to its proof. Its number is what was measured at this one."
)
SCALE = Scale(0.0, 1.0, "sequential", "attention weight")
GUIDE = (
    "A verdict holds at these settings.\n"
    "- *True* and *false*: the number decides.\n"
    "- *Proven*: true at every setting; the line opens to the proof. The control is the same test on "
    "something that must fail it.\n"
    "- *Partly true*: one reading of the claim is true, another is false.\n"
    "- *True in small models* and *false in small models*: small models were trained to test the claim. "
    "Larger models may differ.\n"
    "- *Not measured*: no trained model has this base.\n"
    "- *Undecided*: the setting is too small for the test, or the trained models are too few for a verdict."
)
DEFINITION = Definition(
    r"\theta_m = b^{-2m/d}, \quad \lambda_m = \frac{2\pi}{\theta_m}, \quad "
    r"\lVert PE(p) \rVert = \sqrt{d/2}",
    "The frequencies, wavelengths and norm behind most of the numbers (Vaswani et al. 2017, arXiv "
    "1706.03762, section 3.5). A model extrapolates where its loss rises by at most 0.049 nats past "
    "the training length (5% of perplexity), and partly so up to 0.095 nats (10%).",
    (Claim, Verdict, training.extrapolates),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which claims the page shows, and which of them a link opens."""

    verdict: str = LabelledChoice(
        options=("all", *(outcome.option for outcome in data.OUTCOMES.values())),
        labels={each.option: each.word.lower() for each in data.OUTCOMES.values()},
        label="Verdict",
    ).field("all")
    theme: str = fields.Choice(
        options=("all", *THEMES), label="Theme", help="What a claim is about."
    ).field("all")
    claim: str = fields.Choice(options=("none", *CLAIMS), label="Open claim").field("none")


def page(setting: Setting, options: Options) -> Page:
    """Return the page.

    It is not cached: a claim that a missing table leaves undecided is judged once that is uploaded.
    """
    verdicts = {name: data.judge(claim, setting) for name, claim in CLAIMS.items()}
    return Page(
        title="Claims",
        headline=data.headline(verdicts),
        blocks=(
            Text("Open a line for its evidence, proof, source and code.", "caption"),
            Controls(("verdict", "theme")),
            *_groups(setting, verdicts, options),
            Data(title="Claims", frame=data.frame(verdicts)),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: whole_script(
            data.IMPORTS, f"sizes = {to_python(setting.sizes)}", data.SCRIPT
        ),
    )


def _groups(setting: Setting, verdicts: Mapping[str, Verdict], options: Options) -> list[Block]:
    """Return the claims that the filters leave under their headings, and the others, not shown."""
    drawers = {
        name: _line(CLAIMS[name], verdicts[name], setting, options)
        for name in data.in_order(verdicts)
    }
    shown = [name for name, drawer in drawers.items() if drawer.shown]
    blocks: list[Block] = []
    if not shown:
        nothing = "No claim has this verdict and this theme here."
        blocks.append(Text(nothing, "info", icon="filter_alt_off"))
    for status, group in itertools.groupby(shown, lambda name: verdicts[name].status):
        lines = Lines([drawers[name] for name in group])
        heading = f"{data.OUTCOMES[status].word} ({len(lines.drawers)})"
        help = PROVEN if status is Status.THEOREM else ""
        blocks += [Text(heading, "heading", help=help), lines]
    return [*blocks, *(drawer for drawer in drawers.values() if not drawer.shown)]


def _line(claim: Claim, verdict: Verdict, setting: Setting, options: Options) -> Drawer:
    """Return a claim in a line: verdict, claim and deciding number; it opens to its evidence."""
    outcome, number = data.OUTCOMES[verdict.status], verdict.decides
    title = f":material/{outcome.icon}: **{outcome.word}:** \u201c{plain(claim.sentence)}\u201d"
    if number is not None:
        name = number.name[0].upper() + number.name[1:]
        title += f" {plain(name)}: **{unbroken(plain(number.text))}**"
    return Drawer(
        f"claim_code_{claim.id}",
        title,
        lambda: _evidence(claim, verdict, claim.relevant(setting.sizes)),
        mark=outcome.word,
        changes=({"claim": claim.id}, {"claim": "none"}) if options.claim == claim.id else None,
        opened=options.claim == claim.id,
        shown=options.verdict in ("all", outcome.option) and options.theme in ("all", claim.theme),
    )


def _evidence(claim: Claim, verdict: Verdict, sizes: Sizes) -> list[Block]:
    """Return what was computed, the source, the numbers and the code of a claim."""
    blocks: list[Block] = [
        Text(unbroken(plain(verdict.sentence)), both="evidence"),
        Text(f"Source: [{plain(claim.source)}]({claim.link})."),  # a caption dims links
    ]
    if claim.proof is not None and verdict.status is Status.THEOREM:
        blocks += [Formula(claim.proof.latex), Text(f"**Proof.** {plain(claim.proof.words)}")]
    if claim.id in SEEN_ON:
        blocks.append(Row([Link(SEEN_ON[claim.id])]))
    if claim.id == data.DRAWN and verdict.numbers:
        blocks.append(_picture(sizes))
    if verdict.numbers:
        blocks.append(Table(_numbers(verdict), "numbers"))
    tested = f"How it is tested. The verdict depends on {plain(data.reads(claim))}."
    blocks.append(Text(tested, "caption"))
    blocks.append(Drawer(f"claim_test_{claim.id}", "Code of the test", lambda: _code(claim)))
    return blocks


def _code(claim: Claim) -> list[Block]:
    """Return the functions that judge a claim, without their decorators."""
    sources = map(inspect.getsource, (claim.test, *claim.steps))
    return [Code(source[source.index("def ") :], "python") for source in sources]


def _numbers(verdict: Verdict) -> pd.DataFrame:
    """Return all numbers of a verdict as text in one row, the control last."""
    row = {plain(number.name): plain(number.text) for number in verdict.numbers}
    if verdict.control is not None:
        row[f"control: {plain(verdict.control.name)}"] = plain(verdict.control.text)
    return pd.DataFrame([{"": "found", **row}])


def _picture(sizes: Sizes) -> Matrices:
    """Return the attention weights of the drawn claim beside those of its control."""
    weights, control, positions = data.weights(sizes)
    most = data.DRAWN_POSITIONS
    count = f"{positions:,} positions" + (f", the first {most}" if positions > most else "")
    return Matrices(
        key="two_right",
        panels=[
            Panel(title="Sinusoidal rows", values=Full(weights), subtitle=count),
            Panel(title="Random rows", values=Full(control), subtitle="control: the same key map"),
        ],
        scale=SCALE,
        unit="weights",
        height=280,
        text="Attention weights by query and key, from 0 to 1: with sinusoidal rows every query looks "
        "two positions to its right, with random rows it does not.",
    )
