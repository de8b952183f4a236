"""Inside a model: which rotary pairs a trained model uses, and where its heads look."""

from collections.abc import Callable
from functools import partial

from dashboard import run_descriptions
from dashboard.blocks import (
    Block,
    Button,
    Chart,
    Columns,
    Controls,
    Definition,
    Findings,
    Link,
    Live,
    Page,
    Tabs,
    Text,
    Uses,
)
from dashboard.cache import cached
from dashboard.pages.inside_model import captured, charts, checkpoint, data, learned_table
from dashboard.pages.inside_model.data import Heads, Pairs
from dashboard.pages.inside_model.options import (
    BY_HEAD,
    BY_LENGTH,
    CAPTURED,
    CHECKPOINT,
    CUTS,
    LENGTHS,
    MODELS,
    SHIPPED,
    TABLE,
)
from dashboard.pages.inside_model.options import Options as Options
from dashboard.script import whole_script
from dashboard.settings import Setting
from dashboard.text import number, plain
from posenc.analysis import attention_use, pair_norms, pair_use, slow_pairs
from posenc.errors import PosencError
from posenc.lab.shipped_models import shipped_model

TITLE = "Inside a model"
GUIDE = (
    "Left: the most that each rotary pair of a head can add to a logit, from the weights alone; the layer "
    "normalises its inputs, so that their norm is known. Right: the mean size of what it did add on a "
    "text that the model was not trained on. Pairs right of the dashed line never complete a turn within "
    "the training length, so that longer texts show them angles that training never did.\n\n"
    "Below: how attention falls with distance, over the last tokens of the text. A head far under the "
    "line of equal weights at long distances looks at near tokens. Entropy says over how many tokens a "
    "head spreads: e to the power of the entropy is that number. A large share on the first token means "
    "that a head parks its attention there (an attention sink: Xiao et al. 2023, arXiv 2309.17453).\n\n"
    "These are models of 3 layers and 0.6 million parameters. Barbero et al. 2024, arXiv 2410.06205, "
    "figures 2 to 4, show the same norms of Gemma 7B: most lie in the slowest pairs."
)
ADDED = (
    "Can add: the most that a pair can add to a logit, by the weights alone. Did add, on another scale: "
    "the mean size on a text that the model was not trained on. Longer texts show pairs right of the "
    "dashed line new angles."
)
DEFINITION = Definition(
    r"\ell_m = s\,a^2\, x^\top A_m^\top R_m B_m\, y \;\le\; s\,a^2\, \|A_m\|_2\, \|B_m\|_2\, "
    r"\|x\|\,\|y\|",
    "$x$ and $y$ are the layer's inputs of query and key, $A_m$ and $B_m$ the two rows of pair $m$ in the "
    "query and the key projection of a head, $R_m$ is its rotation, $s$ the softmax scale and $a$ the "
    "attention factor. The norms of the rows are spectral. Some angle of $R_m$ reaches the bound.",
    (pair_norms, pair_use, attention_use),
)
IMPORTS = """
import posenc
from posenc.analysis import attention_use, attention_weights, pair_norms
from posenc.lab.evaluate import variants
from posenc.lab.shipped_models import layer_inputs, layer_projections, shipped_model
"""
SCRIPT = """
spec = trained.specification
length = times * spec.train_length
ways = {way.name: way for way in variants(trained.model, length, spec.train_length, spec.scalings)}
way = ways.get(reading, next(iter(ways.values())))
inputs = [*layer_inputs(trained.model, trained.window(length), way)][layer - 1]
weights = attention_weights(inputs.queries, inputs.keys, inputs.scheme)
use = attention_use(weights, spec.train_length // 4)
print("head,entropy,first_token,distance")
for head, row in enumerate(zip(use.entropy, use.first_token, use.distance), 1):
    print(head, *(value.item() for value in row), sep=",")
if isinstance(spec.scheme, posenc.RopeConfig):
    queries, keys = layer_projections(trained.model, layer - 1)
    # Of a checkpoint: posenc.models.read_projections(checkpoint, model, layer - 1).
    width = spec.model.width**0.5  # the norm of normalised inputs
    bounds = pair_norms(queries, keys, spec.scheme).at_most(width, width)
    print("head,pair,bound")
    for head, row in enumerate(bounds.tolist(), 1):
        for pair, bound in enumerate(row):
            print(head, pair, bound, sep=",")
"""


UPLOADED = {CHECKPOINT: checkpoint, CAPTURED: captured}
PURPOSES = {
    SHIPPED: "What small trained models do with position: how much each rotary pair adds to attention, and "
    "how far back each head looks.",
    CHECKPOINT: checkpoint.PURPOSE,
    CAPTURED: captured.PURPOSE,
    TABLE: learned_table.PURPOSE,
}


def uses(options: Options) -> Uses:
    """Return what the part reads of a setting."""
    names = {CHECKPOINT: ("model",), CAPTURED: ("model",), TABLE: ("learned_source",)}
    itself = names.get(options.part, ())
    return Uses(itself, schemes=False, drawn=itself)


USES = uses


def page(setting: Setting, options: Options) -> Page:
    """Return the page; an upload may be gone, so the page itself is not cached."""
    if options.part == SHIPPED:
        return _shipped(options)
    chosen: list[Block] = [Controls(("part",)), Text(PURPOSES[options.part], "caption")]
    chosen.append(Controls(("learned_source",)) if options.part == TABLE else _uploaders(options))
    if options.refused_file:
        headline = f"{plain(options.refused_file)} cannot be read."
        return Page(title=TITLE, headline=headline, above=chosen)
    if options.part == TABLE:
        headline, blocks = learned_table.blocks(setting)
        definition, guide = learned_table.DEFINITION, learned_table.GUIDE
    else:
        headline, blocks = _of_upload(setting, options)
        definition, guide = DEFINITION, UPLOADED[options.part].GUIDE
    return Page(
        title=TITLE,
        headline=headline,
        above=chosen,
        blocks=blocks,
        guide=guide,
        definition=definition,
        script=partial(_script_of, setting, options),
    )


def _uploaders(options: Options) -> Block:
    """Return what takes the files of a part, beside the choice of the model and the layer."""
    part = UPLOADED[options.part]
    values = {"mark": options.mark, "refused": bool(options.refused_file)}
    chosen: list[Block] = [Controls(("model",)), Controls(("of_layer",))]
    return Columns(([Live(part.UPLOADER, values | part.uploaded(options))], chosen), (3, 2))


def _of_upload(setting: Setting, options: Options) -> tuple[str, list[Block]]:
    """Return what uploaded files say of the chosen model, or what is missing."""
    part, model = UPLOADED[options.part], setting.real_model
    label, forgotten = part.CLOSE
    is_taken = any(getattr(options, name) for name in forgotten)
    back: list[Block] = [Button("inside_forget", label, forgotten)] if is_taken else []
    if missing := part.asked(options):
        return missing, back
    if model is None:
        return f"Choose the model: its config says {part.CONFIG_SAYS}.", back
    try:
        headline, blocks = part.blocks(model, options)
    except PosencError as error:
        return part.CANNOT, [Text(plain(str(error)), "error", both="refusal"), *back]
    return headline, [*blocks, *back]


def _script_of(setting: Setting, options: Options) -> str:
    """Return the script of a part that reads the setting."""
    if options.part == TABLE:
        return learned_table.script(setting)
    return UPLOADED[options.part].script(setting, options)


@cached
def _shipped(options: Options) -> Page:
    """Return the page of a model that ships; its numbers depend on the options alone."""
    specification = shipped_model(options.trained).specification
    place = options.trained, options.layer - 1, int(options.times), options.reading
    found, pairs = data.heads(*place), data.pairs(*place)
    scaled = (
        ("reading",) if pairs and options.times != LENGTHS[0] else ()
    )  # acts on longer texts alone
    return Page(
        title=TITLE,
        headline=headline(pairs, specification.train_length) if pairs else looks(found),
        above=[
            Text(PURPOSES[SHIPPED], "caption"),
            Controls(("part", "trained", "layer", "times", *scaled)),
        ],
        blocks=(
            *(_pairs(pairs, options, specification.train_length) if pairs else ()),
            *_table(options),
            *_heads(found, options, specification.train_length, said=pairs is None),
            _tables(found, pairs, options, specification.train_length),
            Text(f"{plain(run_descriptions.description(specification))}.", "caption"),
            Link("extrapolation"),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=partial(script, options),
    )


def looks(found: Heads) -> str:
    """Say how far the heads of the layer look, and how much of their attention is on the first token."""
    sink = 100 * float(found.use.first_token.max())
    near, far = float(found.use.distance.min()), float(found.use.distance.max())
    even_look, even_sink = found.use.even_distance, 100 * found.use.even_first_token
    return (
        f"The heads of this layer look {number(near)} to {number(far)} tokens back on average (equal "
        f"weights: {number(even_look)}); up to {number(sink)}% of a head's attention is on the first token "
        f"(equal weights: {number(even_sink)}%)."
    )


def headline(pairs: Pairs, train_length: int) -> str:
    """Say how much of what pairs can add and did add is of those that never complete a turn in training."""
    slow = slow_pairs(pairs.norms, train_length)
    count, every = int((~slow.kept[0]).sum()), len(pairs.norms.inv_freq)
    if count == 0:
        return "Every rotary pair completes a turn within the training length."
    return (
        f"{count} of {every} pairs ({number(100 * count / every)}%) never complete a turn in training. "
        f"Of all that pairs can add to logits, they have {number(100 * slow.share)}%, of what pairs did "
        f"add here {number(100 * pairs.use.share(~slow.kept[0]))}%."
    )


def _pairs(found: Pairs, options: Options, train_length: int) -> list[Block]:
    """Return what pairs can add and did add."""
    slow = data.first_slow(found.norms, train_length)
    names = data.head_names(len(found.norms.queries))
    pictures: list[list[Block]] = [
        [
            Text(title, "heading"),
            Chart(
                key=key,
                title=f"{title}, layer {options.layer}",
                frame=data.pair_frame(values, slow),
                names=names,
                draw=partial(charts.by_pair, y_title=y_title),
                columns={"name": "head", "x": "pair", "y": y_title},
                sizes=MODELS[options.trained],
            ),
        ]
        for key, title, values, y_title in (
            ("bounds", "What pairs can add", found.bounds, "most added to a logit"),
            ("contributions", "What pairs did add", found.use.contributions, "mean size added"),
        )
    ]
    return [Columns(pictures), Text(ADDED, "caption")]


def _table(options: Options) -> list[Block]:
    """Return norms and similarity of a model's learned table beside those of the sinusoidal table."""
    comparison = learned_table.of_model(options.trained)
    if comparison is None:
        return []
    return learned_table.pictures(comparison, MODELS[options.trained])


def _heads(found: Heads, options: Options, train_length: int, *, said: bool) -> list[Block]:
    """Return attention by distance, after how far heads look unless the headline has said it."""
    frame = data.distance_frame(found.use, train_length)
    names = (*data.head_names(len(found.use.entropy)), data.EQUAL_WEIGHTS)
    return [
        Text("Where heads look", "heading"),
        *([] if said else [Text(looks(found), both="looks")]),
        Chart(
            key="by_distance",
            title=f"Attention by distance, layer {options.layer}",
            frame=frame,
            names=names,
            draw=charts.by_distance,
            columns={"name": "head", "x": "distance", "y": "weight"},
            sizes=MODELS[options.trained],
        ),
        Text(
            plain(
                f"Mean of the last {found.use.queries} tokens of 8 texts of {found.length:,} tokens "
                "each, which the model was not trained on."
            ),
            "caption",
        ),
    ]


def _tables(found: Heads, pairs: Pairs | None, options: Options, train_length: int) -> Tabs:
    """Return the numbers of heads, of lengths and of pairs, a tab for each."""
    tables: dict[str, Callable[[], list[Block]]] = {
        BY_HEAD: lambda: [Findings("heads", data.heads_table(found.use))],
        BY_LENGTH: lambda: [
            Findings("readings", data.readings_table(options.trained, options.layer - 1))
        ],
    }
    if pairs is not None:
        tables[CUTS] = lambda: checkpoint.cuts(pairs.norms, train_length)
    return checkpoint.tables(tables, options)


def script(options: Options) -> str:
    """Return the script that prints the numbers of the heads and of the pairs."""
    values = (
        f"trained = shipped_model({options.trained!r})\n"
        f"layer, times, reading = {options.layer}, {options.times}, {options.reading!r}"
    )
    return whole_script(IMPORTS, values, SCRIPT)
