"""The columns of the ranked table: what each is called, its number, and how a cell writes it.

The one source of the page, the command line, the record as JSON and the scripts that the page emits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.pairs import BLENDED, DIVIDED, KEPT

Value = str | int | float | None

# Two tables that fit a page each; every one of them begins with the method.
COSTS, SEES = "What it costs", "What it sees"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column. title: for people. key: in a record. part: the table that has it.

    of: the number, or words, of one method. form: how a number is written, as in a format string.
    never: what is written where there is no such number. help: what it is, where the title is too short.
    """

    title: str
    key: str
    part: str
    of: Callable[[MethodPlan], Value]
    form: str = ""
    never: str = "never"
    help: str = ""

    def cell(self, one: MethodPlan, plan: ContextPlan) -> str:
        """Return what a cell says."""
        value = self.of(one)
        if value is not None:
            return self.written(value)
        if self.key == "first_negative" and plan.scanned < plan.reach:
            return f"not below {plan.scanned:,}"
        return self.never

    def written(self, value: Value) -> str:
        """Return a number as a cell has it."""
        return value if isinstance(value, str) else format(value, self.form)

    def change(self, now: Value, then: Value) -> str:
        """Return what changed from `then` to `now`, "" where either is no number."""
        if isinstance(now, str | None) or isinstance(then, str | None):
            return ""
        return format(now - then, f"+{self.form}") if now != then else "0"


def _count(state: str) -> Callable[[MethodPlan], int]:
    return lambda one: one.pairs.count(state)


def _kernel(share: float) -> Callable[[MethodPlan], float]:
    """Return the kernel at a quarter, half or the end; a target of few tokens has fewer distances."""

    def read(one: MethodPlan) -> float:
        values = [*one.kernel.values()]
        return values[round(share * (len(values) - 1))]

    return read


_ROUNDED = (
    "Largest error of a cosine below the target, angles made in float32 of the exact frequencies, each "
    "rounded to float32 once."
)
_COMPUTED = (
    "The same error of the frequencies that transformers computes, in float32 from the start."
)

COLUMNS = (
    Column(title="method", key="label", part="", of=lambda one: one.method.label),
    Column(title="training", key="training", part=COSTS, of=lambda one: one.usable),
    Column(
        title="short texts, mean", key="short_mean", part=COSTS, form=".3f",
        of=lambda one: one.short.mean,
    ),
    Column(
        title="short texts, worst", key="short_worst", part=COSTS, form=".3f",
        of=lambda one: one.short.worst,
    ),
    Column(
        title="attention factor", key="attention_factor", part=COSTS, form=".4f",
        of=lambda one: one.attention_factor,
    ),
    Column(
        title="stale keys from", key="stale_from", part=COSTS, form=",",
        of=lambda one: one.stale_from,
    ),
    Column(
        title="float32 cosine error", key="float32_cosine_error", part=COSTS, form=".1e",
        of=lambda one: one.cosine_error, help=_ROUNDED,
    ),
    Column(
        title="in transformers", key="float32_cosine_error_transformers", part=COSTS,
        form=".1e", of=lambda one: one.code_cosine_error, never="none there",
        help=_COMPUTED,
    ),
    Column(
        title="unseen pairs", key="unseen_pairs", part=SEES, form=",",
        of=lambda one: int(one.pairs.unseen.sum()),
    ),
    Column(title="kept", key="kept", part=SEES, form=",", of=_count(KEPT)),
    Column(title="blended", key="blended", part=SEES, form=",", of=_count(BLENDED)),
    Column(title="divided", key="divided", part=SEES, form=",", of=_count(DIVIDED)),
    Column(
        title="B(k) < 0 at", key="first_negative", part=SEES, form=",",
        of=lambda one: one.first_negative,
    ),
    Column(title="K at 1/4", key="kernel_quarter", part=SEES, form=".3f", of=_kernel(0)),
    Column(title="K at 1/2", key="kernel_half", part=SEES, form=".3f", of=_kernel(0.5)),
    Column(title="K at the end", key="kernel_end", part=SEES, form=".3f", of=_kernel(1)),
)  # fmt: skip

EXPLAINED = (
    "Short texts: change of the expected logit of unit content within the trained length, against the "
    "model as it is read now. Stale keys: "
    "the length from which keys that were rotated and cached no longer fit. Unseen pairs: they made less "
    "than a turn in training and turn farther at the target. Float32 cosine error: of angles made in "
    "float32 of exact frequencies rounded once; in transformers: of those that it computes in float32. "
    "Kept: frequency as trained; divided: by the whole factor; blended: between. K: that "
    "logit at a quarter, half and the end of what a query sees."
)


def columns_of(part: str) -> tuple[Column, ...]:
    """Return the columns of one of the two tables, the method first."""
    return tuple(column for column in COLUMNS if column.part in ("", part))
