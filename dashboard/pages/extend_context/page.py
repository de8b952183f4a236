"""Extend a model's context: what it takes to read longer texts with a real model."""

from dashboard import models
from dashboard.blocks import Block, Controls, Definition, Drawer, Page, Text, Uses
from dashboard.cache import cached
from dashboard.pages.extend_context import against, data, engines, memory, model, panels
from dashboard.pages.extend_context.options import Options as Options
from dashboard.settings import Setting, chosen_model
from dashboard.text import plain
from posenc.analysis import smallest_base
from posenc.models.presets import MODELS
from posenc.planner import RANKING_RULES, plan, recommendation
from posenc.planner.scaling_effects import compare_pairs
from posenc.planner.tables import EXPLAINED

USES = Uses(("model",), schemes=False, drawn=("model",))
TITLE = "Extend a model's context"
PURPOSE = (
    "Choose a model and how many tokens it should read. You get the method to use, what to paste into its "
    "config, and what it costs."
)
DEFINITION = Definition(
    r"B(k) = \sum_m \cos(k\,b^{-2m/d}) \ge 0 \;\; \forall k < L, \qquad "
    r"K(k) = \tfrac{1}{d}\left(2 a^2 \sum_m \cos(k\,\theta'_m) + d - r\right)",
    "B(k) is the bound of Men et al. 2024, arXiv 2405.14591. The search excludes every base below "
    "the smallest at which it holds. K is the expected logit of unit isotropic content at distance "
    "k, with frequencies and attention factor a of the method (Su et al. 2021, arXiv 2104.09864).",
    (plan, compare_pairs, smallest_base),
)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    read, token = data.read(setting, options), model.token(setting)
    length, source = model.known_length(setting)
    empty = {
        "model": f"Example: {MODELS[model.DEFAULT].label}",
        "trained": _known(length, "before scaling" if read.plan.own_length else f"from {source}"),
    }
    methods = [Controls(("methods",))] if model.can_scale(setting, bool(options.trained)) else []
    return Page(
        title=TITLE,
        headline=plain(read.headline),
        above=(Text(PURPOSE, "caption"), Controls(("model", "context", "trained"), empty=empty)),
        blocks=(
            *panels.advice(read),
            *panels.paste_and_cache(read, options),
            *methods,
            *panels.pictures(read, options, token),
            *panels.order(read),
            *panels.warnings(read),
            *panels.beside_scalings(read),
            *panels.sources(read),
            *engines.drawer(token, options.context),
            *against.drawer(token, options),
            *about(setting),
            *panels.numbers(read, options),
        ),
        guide=guide(read) if read.plan.trained is not None else "",
        definition=DEFINITION if read.plan.trained is not None else None,
        script=lambda: "".join(
            (
                data.script(setting, options),
                memory.script(options),
                against.script(token, options),
            )
        ),
    )


def _known(length: int | None, words: str) -> str:
    return "not known" if length is None else f"{length:,} {words}"


def about(setting: Setting) -> list[Block]:
    """Return where the numbers of the model come from, and what else its config says."""
    planned = chosen_model(model.token(setting))
    text: list[Block] = [Text(plain(models.about(planned)), "caption")]
    others = models.other_facts(planned) if setting.model else []
    if not others:
        return text

    def make() -> list[Block]:
        return [Text(f"- {plain(sentence)}") for sentence in others]

    return [*text, Drawer("other_facts", "Other facts in the config", make, icon="help_center")]


def guide(read: data.PlannerRead) -> str:
    """Return how to read the plan."""
    return (
        f"{plain(recommendation(read.plan))}\n\n"
        "The ranking follows makers, papers, and small models measured here. Only a measurement shows "
        f"whether a method works on *your* model: download the script.\n\n"
        "**How this is ranked**\n\n- " + "\n- ".join(RANKING_RULES) + f"\n\n{EXPLAINED}"
    )
