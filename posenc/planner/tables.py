"""Tables of a plan's methods and of a model's layers; sentences.toml has the words of the columns."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from posenc.models.model_config import ModelConfig
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.facts import TEMPLATES, Fact, say
from posenc.planner.scaling_effects import BLENDED, DIVIDED, UNCHANGED

Value = str | int | float | None

TRADE_OFFS: str = TEMPLATES["tables"]["trade_offs"]  # titles of the two tables
COVERAGE: str = TEMPLATES["tables"]["coverage"]


@dataclass(frozen=True)
class Column:
    """One column of a table of methods.

    key: name in a record, and of its words. part: title of the table it is in, "" for both. form: format
    of a number. value: of one method.
    """

    key: str
    part: str
    form: str
    value: Callable[[MethodPlan], Value]

    @property
    def title(self) -> str:
        """The heading."""
        title: str = TEMPLATES["columns"][self.key]["title"]
        return title

    @property
    def help(self) -> str:
        """The content of the column, in a sentence; "" where the heading says it."""
        text: str = TEMPLATES["columns"][self.key].get("help", "")
        return text

    def cell(self, method: MethodPlan, plan: ContextPlan) -> str:
        """Return the text of a cell."""
        value = self.value(method)
        if value is not None:
            return format(value, self.form)
        if self.key == "first_negative" and plan.scanned < plan.reach:
            return say("cells", Fact("not_below", {"scanned": plan.scanned}))
        never: str = TEMPLATES["cells"]["never"]
        missing: str = TEMPLATES["columns"][self.key].get("missing", never)
        return missing


COLUMNS = (
    Column("label", "", "", lambda x: x.method.label),
    Column("rank", "", ",", lambda x: x.rank),
    Column("training", TRADE_OFFS, "", lambda x: x.readiness_text),
    Column("short_mean", TRADE_OFFS, ".3f", lambda x: x.short.mean),
    Column("short_worst", TRADE_OFFS, ".3f", lambda x: x.short.worst),
    Column("attention_factor", TRADE_OFFS, ".4f", lambda x: x.attention_factor),
    Column("softmax_scale", TRADE_OFFS, ".3f", lambda x: x.softmax_scale),
    Column("stale_from", TRADE_OFFS, ",", lambda x: x.stale_from),
    Column("float32_cosine_error", TRADE_OFFS, ".1e", lambda x: x.cosine_error),
    Column("float32_cosine_error_transformers", TRADE_OFFS, ".1e", lambda x: x.code_cosine_error),
    Column("unseen_pairs", COVERAGE, ",", lambda x: x.pairs.unseen_count),
    Column("kept", COVERAGE, ",", lambda x: x.pairs.count(UNCHANGED)),
    Column("blended", COVERAGE, ",", lambda x: x.pairs.count(BLENDED)),
    Column("divided", COVERAGE, ",", lambda x: x.pairs.count(DIVIDED)),
    Column("first_negative", COVERAGE, ",", lambda x: x.first_negative),
    Column("kernel_quarter", COVERAGE, ".3f", lambda x: next(iter(x.kernel.values()))),
    Column(
        "kernel_half", COVERAGE, ".3f", lambda x: [*x.kernel.values()][(len(x.kernel) - 1) // 2]
    ),
    Column("kernel_end", COVERAGE, ".3f", lambda x: [*x.kernel.values()][-1]),
)

EXPLAINED = " ".join(
    f"{column.title[0].upper()}{column.title[1:]}: {column.help[0].lower()}{column.help[1:]}"
    for column in COLUMNS
    if column.help
)


def ranked(plan: ContextPlan) -> dict[str, list[dict[str, str]]]:
    """Return the two tables of ranked methods by title; a row is the cells by column title."""
    return {
        part: [
            {column.title: column.cell(x, plan) for column in COLUMNS if column.part in ("", part)}
            for x in plan.methods
        ]
        for part in (TRADE_OFFS, COVERAGE)
    }


def layer_rows(model: ModelConfig) -> list[dict[str, str]]:
    """Return a table of the kinds of layers of a model."""
    rows = []
    for kind in model.layer_kinds:
        scheme = kind.scheme
        base = getattr(scheme, "base", None)
        window = "all" if kind.window is None else f"{kind.window:,}"
        rows.append(
            {
                "layers": f"{len(kind.layers)} {kind.name}",
                "scheme": scheme.label if scheme else kind.unsupported,
                "heads": f"{kind.heads}/{kind.kv_heads}" if kind.heads else "-",
                "head width": str(kind.head_dim) if kind.heads else "-",
                "rotated": "-" if kind.rotary_dim is None else str(kind.rotary_dim),
                "base": "-" if base is None else f"{base:,.10g}",
                "window": window if kind.heads else "-",
                "cached a token": f"{kind.cache_width:,}",
                "scale": _scale(kind.softmax_scale) if kind.heads else "-",
            }
        )
    return rows


def _scale(value: float) -> str:
    """Return a softmax scale as one over a root where the number below it is whole."""
    square = 1 / value / value if value else math.inf
    whole = math.isfinite(square) and math.isclose(square, round(square), rel_tol=1e-12)
    return f"1/sqrt({square:.10g})" if whole else f"{value:.6g}"
