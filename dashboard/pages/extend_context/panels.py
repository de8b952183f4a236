"""The parts of Extend a model's context: advice, what to paste, KV cache, pictures, sources, warnings."""

import functools
import json
import math
from collections import Counter

import pandas as pd

from dashboard.blocks import (
    Block,
    Button,
    Cards,
    Chart,
    Code,
    Columns,
    Data,
    Download,
    Drawer,
    Findings,
    Tabs,
    Text,
)
from dashboard.pages.extend_context import charts, data, memory
from dashboard.pages.extend_context.data import PlannerRead
from dashboard.pages.extend_context.options import (
    BOUND,
    LLAMA_CPP,
    PICTURES,
    SGLANG,
    TABLES,
    TRANSFORMERS_4,
    TRANSFORMERS_5,
    VLLM,
    Options,
)
from dashboard.text import plain
from posenc.models.model_config import full_cache_note
from posenc.planner import (
    RANKING,
    at_inference,
    layer_notes,
    left_out_sentences,
    length_rows,
    loss_by_position_script,
    order_sentences,
    paste,
    study_tables,
    warnings_of,
)
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import FineTunedRatio
from posenc.planner.methods import CONFIGURED
from posenc.planner.paste import SERVER_SOURCES
from posenc.planner.recommendation import bound_sentence
from posenc.planner.tables import COLUMNS, TRADE_OFFS
from posenc.text import as_factor, count_of, joined

ABOUT = "Lengths and layers of this model"
HERE = "measured here"
HERE_HELP = (
    "The perplexity of small models after light fine-tuning with the method, at the factor named, over "
    "that before at the training length: mean, lowest and highest of the seeds."
)
# Columns whose numbers matter where a warning says so.
_WARNED = (
    "softmax_scale", "stale_from", "float32_cosine_error", "float32_cosine_error_transformers",
)  # fmt: skip


def advice(read: PlannerRead) -> list[Block]:
    """Return a recommendation for each amount of training."""
    defaults = len(read.plan.model.assumed)
    hint = f"The config leaves out {count_of(defaults, 'value')}: see {ABOUT}." if defaults else ""
    why = " ".join(filter(None, (read.why, read.rests, read.assumed, hint)))
    above: list[Block] = [Text(plain(why), "caption")] if why else []
    methods = {method.method.label: method for method in read.plan.methods}
    cells: dict[str, list[Block]] = {}
    for choice in read.advice:
        cell: list[Block] = [Text(choice.title, "caption")]
        method = methods.get(choice.method)
        if method is None:
            cell += [Text("**None reported**"), Text(plain(choice.sentence), "caption")]
            cells[choice.title] = cell
            continue
        known = "" if choice.reports else plain(choice.sentence)  # reports stand below
        cell.append(Text(f"**{plain(choice.method)}**", help=known))
        if choice.equal:
            others = plain(joined(choice.equal, "and"))
            cell.append(Text(f"Of the same rank: {others}. No source puts them in order."))
        if choice.effective:
            lengths_of_others = "; ".join(sentence for sentence, _ in choice.effective)
            help = "\n\n".join(plain(source) for _, source in choice.effective)
            cell.append(Text(f"By RULER: {plain(lengths_of_others)}.", "caption", help=help))
        short, pairs = method.short, method.pairs
        cell.append(
            Text(
                f"Cost on short texts: attention logits change by {short.mean:.3f} on average, by "
                f"{short.worst:.3f} at most: the weight of a token can change by a factor of up to "
                f"{math.exp(short.worst):.2f} against a token whose logit stays.",
                "caption",
                help=f"For comparison: the logit of a token with itself is {short.at_zero:.3g}.",
            )
        )
        if pairs.unseen_count:
            unseen = f"{pairs.unseen_count} of {count_of(len(pairs.before), 'pair')}"
            verb = "reaches" if pairs.unseen_count == 1 else "reach"
            risk = f"**Risk**: {unseen} still {verb} angles that training never showed."
            cell.append(Text(risk, "caption"))
        reported = [f"Reported {plain(report)}" for report in choice.reports]
        cell.append(Text("  \n".join(reported) or f"Source: {plain(choice.source)}", "caption"))
        cells[choice.title] = cell
    if not cells:
        return above
    return [*above, Cards("advice", cells, across=len(cells)), Text(plain(read.changes), "caption")]


# What to paste, and what it costs -------------------------------------------------------------


def paste_and_cache(read: PlannerRead, options: Options) -> list[Block]:
    """Return what to paste beside the KV cache, and the lengths of the model and its layers."""
    scaled = read.scaled
    fits = memory.drawer(read.plan, options)
    costs = [*cache(read), fits, about_model(read)]
    if not scaled:
        return costs
    return [Columns((_paste(read.plan, scaled, options), costs), (2, 1))]


def cache(read: PlannerRead) -> list[Block]:
    """Return the KV cache by number type, in all and of each kind of layer where there are several."""
    plan, numbers = read.plan, Counter[str]()
    for kind in plan.model.layer_kinds:
        numbers[kind.name.replace("_", " ")] += kind.cache_numbers(plan.target)
    types: dict[float, list[str]] = {}
    for name, size in plan.cache.items():
        types.setdefault(size, []).append(name)
    frame = pd.DataFrame({"number type": [*map(", ".join, types.values())], "all layers": [*types]})
    if len(numbers) > 1:
        for name, count in numbers.items():
            frame[name] = frame["all layers"] * (count / max(numbers.total(), 1))
    note = full_cache_note(plan.model, plan.target)
    return [
        Text("KV cache per sequence, GiB", "heading"),
        Findings("cache", frame),
        *([Text(plain(note), "caption")] if note else []),
    ]


def about_model(read: PlannerRead) -> Drawer:
    """Return the drawer with the lengths of the model and its layers."""
    return Drawer(
        "plan_lengths",
        ABOUT,
        lambda: [*lengths(read), *layers(read), *left_out(read)],
        icon="straighten",
    )


def lengths(read: PlannerRead) -> list[Block]:
    """Return what the model was trained to, what is claimed of it and what benchmarks measured."""
    known = [
        Text(f"**{plain(row['length'])}**: {row['tokens']} tokens ({plain(row['source'])})")
        for row in length_rows(read.plan)
        if row["tokens"]
    ]
    help = (
        "RULER (Hsieh et al. 2024, arXiv 2404.06654) and NoLiMa (Modarressi et al. 2025, arXiv "
        "2502.05167) say to which length quality holds. One that did not measure this model is left out."
    )
    return [Text("Lengths", "heading", help=help), *known] if known else []


def layers(read: PlannerRead) -> list[Block]:
    """Return what the target means for each kind of layer."""
    texts: list[Block] = [Text("Layers", "heading")]
    for note in layer_notes(read.plan.model, read.plan.target, read.plan.trained_length):
        sentence = "see above." if note.sentence in read.said else note.sentence
        name = plain(note.layers.replace("_", " "))
        texts.append(Text(f"**{name}**: {plain(sentence)} Source: {plain(note.source)}."))
    return texts


def left_out(read: PlannerRead) -> list[Block]:
    """Return what is taken for the values that the config leaves out."""
    sentences = [Text(f"- {plain(sentence)}") for sentence in read.plan.model.assumed]
    return [Text("Values that the config leaves out", "heading"), *sentences] if sentences else []


def _paste(plan: ContextPlan, methods: dict[str, MethodPlan], options: Options) -> list[Block]:
    """Return what to paste, a tab for each method; of the one that is open its texts."""
    where = next((where for method in methods.values() if (where := paste(plan, method).where)), "")
    help = f"Keys of config.json: {plain(where)}\n\nReplace MODEL. {SERVER_SOURCES}"
    opened = options.paste if options.paste in methods else next(iter(methods))
    return [
        Text("What to paste", "heading", help=help),
        Tabs("paste", (*methods,), opened, _paste_of(plan, methods[opened], options)),
    ]


def _paste_of(plan: ContextPlan, method: MethodPlan, options: Options) -> list[Block]:
    """Return the texts of one method, a tab for each that there is, and a script that measures it."""
    written = paste(plan, method)
    texts = {
        TRANSFORMERS_5: json.dumps(written.rope_parameters, indent=2),
        TRANSFORMERS_4: json.dumps(written.rope_scaling, indent=2),
        VLLM: written.vllm,
        SGLANG: written.sglang,
        LLAMA_CPP: written.llama_cpp,
    }
    texts = {form: text for form, text in texts.items() if text not in ("", "{}")}
    tabs: list[Block] = []
    if texts:
        opened = options.form if options.form in texts else next(iter(texts))
        tabs = [Tabs("form", (*texts,), opened, [Code(texts[opened])])]
    help = "Measures loss by position on your own checkpoint, as it is"
    return [
        Text(plain(f"{method.config.words or method.method.label}: {method.readiness_text}."), "caption"),
        *tabs,
        *(Text(plain(reason), "caption") for reason in written.why),
        Download(
            key="loss_script",
            label="Download loss_by_position.py",
            file_name="loss_by_position.py",
            make=lambda: loss_by_position_script(plan, method).encode(),
            help=help + (" and as planned." if method.method.name != CONFIGURED else "."),
        ),
    ]  # fmt: skip


# Pictures and numbers -------------------------------------------------------------------------


def pictures(read: PlannerRead, options: Options, token: str) -> list[Block]:
    """Return the compared methods, a tab for each picture; of the one that is open its blocks.

    token: of the model, whose base is searched once somebody asks for it.
    """
    if not len(read.methods):
        return []
    title = options.picture
    blocks = _table(read, title) if title in TABLES else _picture(read, title)
    if title == BOUND and read.partial:
        asked = {"searched": data.search_of(token, options.context)}
        blocks += [
            Text(read.partial, "caption"),
            Button(
                "plan_search",
                "Search the base and scan every distance",
                asked,
                icon="search",
                help="Takes seconds to about a minute, the longer the target is.",
            ),
        ]
    return [Tabs("picture", PICTURES, title, blocks)]


def _table(read: PlannerRead, title: str) -> list[Block]:
    """Return one of the two tables of methods, without what warnings say; the data has all."""
    help = {
        column.title: column.help
        for column in COLUMNS
        if column.part in ("", title) and column.key not in _WARNED
    }
    frame = read.methods[[*help]]
    here = [_tuned_here(method.fine_tuned) for method in read.plan.methods]
    about = RANKING
    if title == TRADE_OFFS and any(here):
        frame, help = frame.assign(**{HERE: here}), help | {HERE: HERE_HELP}
        about = f"{RANKING} What was measured here, on small models, decides no rank."
    return [Findings("methods", frame, help), Text(about, "caption")]


def _tuned_here(ratio: FineTunedRatio | None) -> str:
    """Return the perplexity of small models that were fine-tuned with a method, "" for none."""
    if ratio is None:
        return ""
    return f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) at {as_factor(ratio.factor)}"


def _picture(read: PlannerRead, title: str) -> list[Block]:
    """Return one of the charts, and what it shows."""
    picture = charts.PICTURES[title]
    frame = picture.frame(read)
    bound = f" {plain(bound_sentence(read.plan))}" if title == BOUND else ""
    return [
        Chart(
            key=picture.key,
            title=title,
            frame=frame,
            names=tuple(dict.fromkeys(frame[picture.names])),
            draw=functools.partial(charts.lines, title),
            x="",
            sizes=_lengths(read.plan),
        ),
        Text(picture.caption + bound, "caption"),
    ]


def _lengths(plan: ContextPlan) -> str:
    """Return the model and its lengths, as a saved picture names them."""
    trained = "" if plan.trained_length is None else f"trained to {plan.trained_length:,} tokens, "
    return f"{plan.name}, {trained}target {plan.target:,}"


def numbers(read: PlannerRead, options: Options) -> list[Block]:
    """Return the numbers of the methods, and of the pictures that are not open, under their titles."""
    frames = {"Methods": read.methods}
    drawn = charts.PICTURES.get(options.picture)
    for title, picture in charts.PICTURES.items():
        frame = picture.frame(read)
        is_drawn = drawn is not None and frame is drawn.frame(read)
        if not (is_drawn or any(frame is other for other in frames.values())):
            frames[title] = frame
    return [Data(title=title, frame=frame) for title, frame in frames.items() if len(frame)]


# Sources and warnings -------------------------------------------------------------------------


def order(read: PlannerRead) -> list[Block]:
    """Return what puts the methods in order, and where measures disagree."""
    sentences = order_sentences(read.plan, numbers=False)
    if not sentences:
        return []

    def make() -> list[Block]:
        blocks: list[Block] = [Text("\n".join(f"- {plain(sentence)}" for sentence in sentences))]
        for table in study_tables(read.plan):
            lines = [[*table.rows[0]], ["---", *["---:"] * (len(table.rows[0]) - 1)]]
            lines += [[*row.values()] for row in table.rows]
            rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
            blocks += [Text(plain(table.sentence), "caption"), Text(rows)]
        return blocks

    return [Drawer("plan_order", "What puts the methods in order", make, icon="swap_vert")]


def warnings(read: PlannerRead) -> list[Block]:
    """Return the warnings that the page does not state elsewhere, and the methods that are left out."""
    listed = [each for each in warnings_of(read.plan) if each.sentence not in read.said]
    if not (listed or read.plan.left_out):
        return []

    def make() -> list[Block]:
        return [
            *(
                Text(
                    f"{plain(one.sentence)}  \n*{plain(one.rule)} Source: {plain(one.source)}.*"
                )
                for one in listed
            ),
            *(Text(plain(reason), "caption") for reason in left_out_sentences(read.plan)),
        ]  # fmt: skip

    return [Drawer("plan_warnings", count_of(len(listed), "warning"), make, icon="warning")]


def beside_scalings(read: PlannerRead) -> list[Block]:
    """Return the methods at inference that are no scalings, and what offers them."""
    methods = at_inference(read.plan)
    if not methods:
        return []

    def make() -> list[Block]:
        return [
            Text(
                f"**{method.label}**: {plain(method.statement)} *{plain(method.source)}*  \n"
                f"Available in {plain(method.support)}."
            )
            for method in methods
        ]

    return [Drawer("plan_inference", "Other methods at inference", make, icon="bolt")]


def sources(read: PlannerRead) -> list[Block]:
    """Return what is known of each method, and where it comes from."""
    if not read.plan.methods:
        return []

    def make() -> list[Block]:
        return [
            Text(f"**{plain(method.method.label)}**: {plain(sentence)} *{plain(source)}*")
            for method in read.plan.methods
            for sentence, source in method.statements
        ]

    return [Drawer("plan_sources", "Published and measured results", make, icon="menu_book")]
