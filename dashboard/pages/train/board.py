"""Jobs that are queued or running on this server, and links to what was trained."""

import streamlit as st

from dashboard import runs
from dashboard.frame import page
from dashboard.live import training
from dashboard.run_descriptions import description, title
from dashboard.server import jobs
from dashboard.server.training_process import server_process
from dashboard.text import plain
from posenc.lab import summary
from posenc.lab.specification import Specification
from posenc.schemes import SCHEMES

MAX_LINKS = 20  # to comparisons trained here


def draw_jobs() -> bool:
    """Draw every job, the same for every visitor; return whether there is one."""
    training.board(st, lambda changes: None)
    return bool(jobs.jobs(server_process().place))


def draw_link(specifications: list[Specification], label: str = "") -> None:
    """Draw the link to the comparison of these runs. label: its text, else the task and the schemes."""
    trained = {specification.scheme.kind for specification in specifications}
    kinds = tuple(kind for kind in SCHEMES if kind in trained)
    page.link(
        st,
        "extrapolation",
        label or f"{title(specifications[0])}: {page.names(kinds)}",
        half="measured",
        comparison=summary.comparison(specifications[0]),
        own_runs="true",
        schemes=[page.label(kind) for kind in kinds],
    )
    st.caption(plain(description(specifications[0])))


def draw_finished(linked: str | None) -> None:
    """Draw a link to every comparison trained on this server, without the one linked to above."""
    shipped = set(runs.shipped())
    own = [
        [info.specification for info in infos]
        for name, infos in runs.comparisons(runs.all_ids()).items()
        if name != linked and any(info.run_id not in shipped for info in infos)
    ]
    if not own:
        return
    st.subheader("Finished on this server", anchor=False)
    for specifications in own[:MAX_LINKS]:
        draw_link(specifications)
    if len(own) > MAX_LINKS:
        st.caption(f"And {len(own) - MAX_LINKS:,} more, on Extrapolation.")
