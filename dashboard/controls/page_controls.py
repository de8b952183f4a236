"""Which shared controls a page uses: what neither it nor a chosen scheme uses is not drawn.

The one place where pages say so. A control that is not drawn keeps its value, which stays in the link.
"""

from dataclasses import dataclass

import streamlit as st

from posenc import fields
from posenc.claims import CLAIMS
from posenc.settings import Setting, own_rules

# What a scheme takes from a Setting, and the controls that make it; any other is a control itself.
_MADE_OF = {"learned_rows": ("train_length",), "rope_width": ("dim", "equal_width")}
_MADE_OF |= {"head_dim": ("dim", "heads"), "scaled_from": ("train_length",)}


@dataclass(frozen=True)
class Used:
    """What a page reads of a setting.

    itself: the controls that it reads whatever schemes are chosen. schemes: whether it reads what the
    chosen schemes are made of, too. never: what it does not read even where a scheme could.
    drawn: the controls that it draws itself, so that the sidebar has them under Exact values alone.
    """

    itself: tuple[str, ...] = ()
    schemes: bool = True
    never: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


_SHOWN = ("schemes", "length", "train_length", "device")
_TABLE = ("model", "dim", "base", "length", "heads", "equal_width", "seed")

# By the path of a page, every page.
PAGES: dict[str, Used] = {
    "": Used(("schemes", "length", "device"), drawn=("base", "dim", "equal_width")),
    "learn": Used(schemes=False),
    "why_position": Used(("schemes", "dim", "heads", "seed"), never=("alibi_head", "precision")),
    "encoding": Used((*_SHOWN, "base", "seed")),
    "claims": Used(
        tuple(sorted({name for claim in CLAIMS.values() for name in claim.uses})), schemes=False
    ),
    "overview": Used(_SHOWN),
    "similarity": Used(_SHOWN),
    "pca": Used(_SHOWN),
    "relative_offsets": Used(_SHOWN),
    "extrapolation": Used(("schemes", "train_length", "device"), never=("length", "precision")),
    "extrapolation, measured": Used(("schemes",), schemes=False),  # runs have their own numbers
    "train": Used(("schemes", "base"), schemes=False),
    "context_planner": Used(("model",), schemes=False, drawn=("model",)),
    "check_my_encoding": Used((*_TABLE, "precision"), schemes=False, drawn=("model",)),
    "check_my_encoding, learned": Used(
        (*_TABLE, "precision", "train_length", "learned_source"), schemes=False, drawn=("model",)
    ),
    "check_my_encoding, upload": Used(("model", "seed"), schemes=False, drawn=("model",)),
    "check_my_encoding, layouts": Used(_TABLE, schemes=False, drawn=("model",)),
}


def controls(path: str, setting: Setting) -> frozenset[str]:
    """Return the names of the controls, own fields of schemes too, that change what a page shows.

    Raises LookupError for a page that does not say what it uses.
    """
    if path not in PAGES:
        raise LookupError(
            f"page_controls.PAGES must say what every page uses, and has no {path!r}."
        )
    every, page = frozenset(fields.rules(Setting) | own_rules()), PAGES[path]
    names = {*page.itself}
    if page.schemes:
        names.add("model")
        for kind in setting.schemes:
            names |= of_scheme(setting, kind)
    return every & (names - {*page.never})


def of_scheme(setting: Setting, kind: str) -> set[str]:
    """Return the names of the controls that change what one scheme does."""
    config = setting.config(kind)
    if setting.of_model(kind) is not None:
        fixed = {"heads": ("alibi_head",), "source": ("learned_source", "seed")}
        names_used = {name for field in config.shared for name in fixed.get(field, ())}
        if (
            "source" in config.own_rules()
        ):  # a start by seed, or a run's numbers instead of the model's
            names_used |= {"seed", f"{kind}.source"}
        return names_used | {"precision"}
    names = {name for used in config.uses for name in _MADE_OF.get(used, (used,))}
    if "rope_width" in config.uses and not setting.equal_width:
        names.add("heads")
    if "heads" in config.shared:
        names.add("alibi_head")
    if "source" in config.shared:
        names.add("learned_source")
    if config.uses:
        names.add("precision")
    return names | {f"{kind}.{name}" for name in config.own_rules()}


def here(setting: Setting) -> frozenset[str]:
    """Return the names of the controls that change what the page of this run shows."""
    return controls(_view(), setting)


def any_here() -> bool:
    """Return whether the page of this run has shared controls at all."""
    page = PAGES[_view()]
    return page.schemes or bool({*page.itself} - {*page.drawn})


def drawn_here() -> frozenset[str]:
    """Return the names of the controls that the page of this run draws itself."""
    return frozenset(PAGES[_view()].drawn)


def _view() -> str:
    """Return which entry of PAGES the page of this run is: some have several views."""
    page: str = st.session_state["page"]

    def option(name: str, default: str) -> str:
        value: str = st.session_state.get(name, st.query_params.get(name, default))
        return value

    if page == "check_my_encoding":
        if option("part", "") == "RoPE layouts":
            return "check_my_encoding, layouts"
        table = option("table", "")
        if table == "learned":
            return "check_my_encoding, learned"
        return "check_my_encoding, upload" if table.startswith("array-") else page
    measured = (page, option("half", "measured")) == ("extrapolation", "measured")
    return "extrapolation, measured" if measured else page
