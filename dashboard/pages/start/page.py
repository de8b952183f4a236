"""Start: what each scheme does, what happens past the training length, and where to go on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard import notes, results, run_accuracies, run_descriptions, run_losses, runs
from dashboard.blocks import (
    Block,
    Cards,
    Chart,
    Columns,
    Controls,
    Drawing,
    Formula,
    Link,
    Page,
    Row,
    Text,
    Uses,
    line_chart,
)  # fmt: skip
from dashboard.cache import cached
from dashboard.charts import frames, lines, loss, theme
from dashboard.charts.theme import Spec
from dashboard.pages.start.diagram import attention_block
from dashboard.results import Similarity
from dashboard.scheme_facts import compact_formula, place
from dashboard.settings import Setting
from posenc.analysis import similarity
from posenc.lab.summary import Curve, Effect
from posenc.lab.tasks import Recall
from posenc.schemes import SchemeConfig

USES = Uses(("schemes", "length", "device"), drawn=("base", "dim", "equal_width"))
TITLE = "How Transformers know where words are"
HEIGHT = 228
STAGE = 430  # fills the first screen of a projector, 1,280 by 720
LABEL_GAP = 0.17  # of the plot of such a chart, half of whose height are its legend and axis
DIAGRAM = 200  # CSS pixels: as wide as a card on a small laptop
BADGES = {
    Effect.USES: "green", Effect.HOLDS: "green", Effect.DEGRADES: "orange", Effect.BREAKS: "red",
    None: "gray",
}  # fmt: skip
NATS = (
    "Loss in nats per byte: minus the natural logarithm of the probability that the model gives the next "
    "byte, on average. 1 nat is 1.44 bits; lower is better.\n\nA low loss is not everything: a model that "
    "ignores far tokens can have it. Recall asks for a value that stands far away and is the share of "
    "correct answers."
)
GUIDE = (
    "Each line of the left picture shows how position similarity changes when query and key "
    f"move apart. Content is fixed; only position varies. {notes.HEIGHTS} A line "
    "that falls and stays low favours near tokens. Where a line rises again, some far "
    "positions look like near ones. RoPE acts on the width of one head, sinusoidal on the "
    "whole model: at equal width their lines coincide. The right picture shows small trained "
    "models."
)
LINKS = ("at_a_glance", "extrapolation", "extend_context", "check_my_encoding")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Start asks nothing beside the shared numbers."""


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    similarities, reasons = results.per_scheme(results.cosine, requests)
    if not similarities:
        return Page(title=TITLE, headline=notes.NO_SCHEME, reasons=reasons)
    places, _ = results.per_scheme(lambda request: place(request.build("cpu")), requests)
    measured = runs.shipped_loss(setting.schemes)
    curves = {curve.specification.scheme.kind: curve for curve in measured}
    recalls = runs.shipped_recall(setting.schemes)
    recalled = {curve.specification.scheme.kind: curve for curve in recalls}
    cards = {
        kind: _card(setting.config(kind), where, curves.get(kind), recalled.get(kind))
        for kind, where in places.items()
    }
    if "learned" in cards:
        cards["learned"] += _ends(similarities, curves, recalled)
    badges = [Text(_badges(measured, recalls), "caption", help=NATS)] if measured else []
    learn = (Link("lessons"), Link("lessons", "Present in class", {"presenting": True}))
    return Page(
        title=TITLE,
        headline=f"Compare {notes.names(setting.schemes)}: what they do, and what happens past the "
        "training length.",
        reasons=reasons,
        blocks=(
            *notes.warnings(similarities),
            *badges,
            Cards("cards", cards),
            Columns((_similarity(setting, similarities), _loss(measured)), stage=True),
            Row((*learn, *map(Link, LINKS)), border=True, spread=True),
        ),
        guide=GUIDE,
        definition=notes.similarity_definition(similarity.similarity_by_offset),
    )


def _badges(measured: Sequence[Curve], recalls: Sequence[Curve]) -> str:
    """Say which models the badges are of, and at which lengths."""
    trained_with = (
        f"{run_descriptions.seeds([*measured, *recalls])}{run_descriptions.at_base(measured)}"
    )
    parts = [
        f"Badges, whatever the sliders say: {trained_with}.",
        f"Loss: {run_losses.lengths(measured)}.",
    ]
    if recalls:
        end = max(point.x for curve in recalls for point in curve.points)
        by_position = Recall.by_position(recalls[0].specification.train_length, end)
        parts.append(
            f"Recall: {run_accuracies.recall_distances(recalls)}; position alone: {by_position:.0%}."
        )
    return " ".join(parts)


def _card(
    config: SchemeConfig, where: str, curve: Curve | None, recall: Curve | None
) -> list[Block]:
    """Return where a scheme acts, its formula, and how it does past the training length."""
    top, badges = [Text(f"**{config.label}**")], []
    if curve is not None:
        past = run_losses.past_training(curve)
        badges.append(f":{BADGES[past.effect]}-badge[{past.text}]")
    if recall is not None:
        badges.append(f":gray-badge[recall {run_accuracies.recall_past_training(recall)}]")
    if badges:
        top.append(Text("  \n".join(badges)))
    return [
        Row(top, spread=True),
        Drawing(
            attention_block(where, theme.COLOURS[config.kind]),
            alt=f"An attention block: {config.label} acts on {where or 'nothing'}.",
            width=DIAGRAM,
        ),
        Formula(compact_formula(config)),
        Text(config.summary, "caption"),
    ]


def _similarity(setting: Setting, similarities: Mapping[str, Similarity]) -> list[Block]:
    """Return similarity by distance, with the controls that move it under it."""
    title = "Position similarity by distance"
    provenances = {kind: result.kernel.provenance for kind, result in similarities.items()}
    help = (notes.panel_notes(setting, provenances), notes.last_row(setting))
    return [
        Text(title, "heading", help="\n\n".join(filter(None, help))),
        *line_chart(
            key="start",
            title=title,
            frame=frames.by_offset(similarities),
            names=tuple(similarities),
            draw=by_distance_spec,
            labels=LABEL_GAP,
            sizes=notes.sizes(setting),
            columns={"x": "distance", "y": "mean"},
            stage=STAGE,
        ),
        Controls(("base", "dim", "equal_width")),
    ]


def _ends(
    similarities: Mapping[str, Similarity],
    losses: Mapping[str, Curve],
    recalls: Mapping[str, Curve],
) -> list[Text]:
    """Say where each learned table on the page ends: they are tables of several models."""
    shown, loss = similarities.get("learned"), losses.get("learned")
    recall = recalls.get("learned")
    if shown is None or loss is None or recall is None:
        return []
    ends = shown.offsets[-1], loss.points[-1].x, recall.points[-1].x
    below, in_loss, in_recall = (f"{end:,}" for end in ends)
    sentence = (
        f"Its three tables end at distance {below} below, {in_loss} in loss, {in_recall} in recall."
    )
    return [Text(sentence, "caption")]


def by_distance_spec(kinds: tuple[str, ...]) -> Spec:
    """Return position similarity by distance, without a band, lines named at their ends."""
    return lines.by_offset(
        kinds, "query-key distance (tokens)", "position similarity", band=False, labels=True,
        height=HEIGHT,
    )  # fmt: skip


def _loss(measured: Sequence[Curve]) -> list[Block]:
    """Return the loss of the shipped models by context length."""
    if not measured:
        return []
    specification = measured[0].specification
    at_base = run_descriptions.at_base(measured)
    title = f"Measured loss, trained on {specification.train_length:,} tokens{at_base}"
    frame = loss.frame(measured, gap=LABEL_GAP)

    def by_length(kinds: tuple[str, ...]) -> Spec:
        return loss.by_length(frame, kinds, "context", bands=False, height=HEIGHT)

    return [
        Text(
            title,
            "heading",
            help="The models were trained beforehand; they do not follow the sliders. "
            f"Small models of width {specification.model.width:,}, {specification.steps:,} steps, "
            f"mean of {run_descriptions.seeds(measured)}. The dashed line is their training length.",
        ),
        Chart(
            key="loss",
            title=title,
            frame=frame,
            names=tuple(dict.fromkeys(curve.specification.scheme.kind for curve in measured)),
            draw=by_length,
            x="",
            columns=loss.COLUMNS,
            sizes=run_descriptions.sizes(measured),
            stage=STAGE,
        ),
        Text(
            f"Thin lines: text cut to the training length. {run_losses.rules()}",
            "caption",
            help=run_losses.rules_in_percent(),
        ),
    ]
