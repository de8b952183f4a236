"""Encoding: the numbers of each scheme, as formulas, clocks, waves and matrices."""

from dashboard import notes
from dashboard.blocks import (
    SHOWN,
    Block,
    Cards,
    Clocks,
    Controls,
    Data,
    Definition,
    Drawer,
    Formula,
    Page,
    Row,
    Tabs,
    Text,
    Uses,
)
from dashboard.cache import cached
from dashboard.charts import theme
from dashboard.components.clock import Face
from dashboard.pages.encoding import data, sentences, tabs
from dashboard.pages.encoding.data import Encodings
from dashboard.pages.encoding.options import MATRIX, SUMS, WAVELENGTHS, WORKED, Options
from dashboard.scheme_facts import compact_formula, symbol_words
from dashboard.settings import Setting
from posenc.analysis import embedding_sum, spectrum
from posenc.scheme_numbers import encoding
from posenc.schemes import SCHEMES

USES = Uses((*SHOWN, "base", "seed"))
TITLE = "Encoding"
FIRST = 10  # position of the clocks at first, where hands of different speeds stand apart
GUIDE = (
    "A pair is the sine and the cosine of one angle: position times frequency, clockwise from "
    "the top of a clock. The thick arc shows the angles that occur in training. Rows of a "
    "matrix are positions, columns are dimensions. Learned and Sinusoidal add their rows to the "
    "tokens. RoPE's table holds the cosines and sines that rotate queries and keys. ALiBi adds "
    "its bias to the logits, query by key; the half that a causal model reads is drawn. "
    "Matrices with one unit share their colours."
)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    read = data.read(setting, options.places, options.pair)
    if not read.schemes:
        return Page(title=TITLE, headline=notes.NO_SCHEME, reasons=read.reasons)
    formulas = {
        kind: compact_formula(
            scheme.config, options.notation, numbers=options.substituted, head=scheme.head
        )
        for kind, scheme in read.schemes.items()
    }
    cards: dict[str, list[Block]] = {
        kind: [
            Text(
                f"**{SCHEMES[kind].label}**",
                help=f"{SCHEMES[kind].summary}\n\n{symbol_words(scheme.config, options.notation)}",
            ),
            Formula(formulas[kind]),
        ]
        for kind, scheme in read.schemes.items()
    }
    menu = Drawer(
        "formulas",
        "Formulas",
        lambda: [Controls(("notation",)), Controls(("substituted",))],
        icon="function",
        menu=True,
    )
    schemes = read.schemes.values()
    numbers = [
        Data(title="First entries", frame=data.joined(scheme.corner for scheme in schemes)),
        Data(title="Waves", frame=data.joined(scheme.waves for scheme in schemes)),
    ]
    if options.tab != WAVELENGTHS:  # whose chart holds them
        numbers.append(
            Data(
                title="Pairs",
                frame=data.joined(scheme.frequencies for scheme in schemes),
                columns=tabs.UNSAID,
            )
        )
    lines = "\n\\\\[6pt] ".join(formulas.values())
    headline, facts = sentences.headline(read), sentences.numbers(read)
    return Page(
        title=TITLE,
        headline=headline,
        reasons=read.reasons,
        blocks=(
            *([Text(facts, both="numbers")] if facts != headline else []),
            Cards("formula_cards", cards, border=False),
            *_clocks(read),
            Row((Controls(("places",)), Controls(("pair",)), menu), align="bottom"),
            Tabs("tab", (MATRIX, WAVELENGTHS, SUMS, WORKED), options.tab, _opened(read, options)),
            *numbers,
        ),
        guide=GUIDE,
        definition=Definition(
            rf"\begin{{gathered}} {lines} \end{{gathered}}",
            "One line per scheme. In the sum, squared norms add, because content has mean 0 and is "
            "independent of position. A token whose entries have standard deviation s has the norm $s "
            "\\sqrt d$, and $s\\,d$ after multiplication by $\\sqrt d$.",
            (encoding, spectrum, embedding_sum.content_and_position),
        ),
        script=lambda: data.script(setting),
    )


def _opened(read: Encodings, options: Options) -> list[Block]:
    """Return the blocks of the open tab."""
    if options.tab == WAVELENGTHS:
        return tabs.wavelengths(read)
    if options.tab == SUMS:
        return tabs.sums(read.setting, options.start, scaled=options.scaled)
    if options.tab == WORKED:
        return tabs.worked(read.setting.base, options.notation, numbers=options.substituted)
    return tabs.matrices(read)


def _clocks(read: Encodings) -> list[Block]:
    """Return the chosen pairs as hands that turn and as waves."""
    setting = read.setting
    faces = [
        Face(
            title=SCHEMES[kind].label,
            subtitle=f"{notes.panel_note(setting, kind, rounded=False)}; training length "
            f"{setting.train_length:,}",
            color=theme.COLOURS[kind],
            pairs=scheme.pairs,
            inv_freq=scheme.frequencies["inv_freq"].to_numpy()[[*scheme.pairs]],
            trained=setting.train_length,
            # Of each pair its sines, then its cosines.
            waves=scheme.waves["y"].to_numpy().reshape(len(scheme.pairs), 2, -1),
        )
        for kind, scheme in read.with_pairs.items()
    ]
    if not faces:
        return []
    last = max(setting.length - 1, setting.train_length)
    clocks = Clocks(
        key="clocks",
        faces=faces,
        first=min(FIRST, last),
        last=last,
        trained=setting.train_length,
        text=sentences.clocks(read),
    )
    ratios = sentences.ratios(read)
    blocks: list[Block] = [clocks, Text(sentences.legend(read), "caption")]
    return [*blocks, Text(ratios, "caption", both="ratios")] if ratios else blocks
