"""The cached result of PCA: every scheme's positions on their principal components."""

import functools
import importlib
from dataclasses import dataclass

import streamlit as st

from dashboard.compute.schemes import CACHE, Array, check_table, provenance
from posenc.analysis import scheme_projection
from posenc.settings import Query


@functools.cache
def one_thread_for_numpy() -> None:
    """Bound the threads of scikit-learn's linear algebra like torch's; it has to be loaded first."""
    from threadpoolctl import threadpool_limits

    importlib.import_module("sklearn.decomposition")
    threadpool_limits(limits=1)


@dataclass(frozen=True)
class Projected:
    """Positions on their principal components, in units of the vectors' root mean square norm."""

    scores: Array  # (n, 3)
    explained: Array  # (k,) share of variance per component
    missing: int
    fitted: int  # positions inside the fitted range that are finite
    past: int  # positions past that range
    note: str
    rounded: bool = False  # whether the precision asked for had a part in it


@st.cache_data(**CACHE)
def projected(query: Query, fitted: int, components: int) -> Projected:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    check_table(query)
    one_thread_for_numpy()
    read = scheme_projection(query, fitted, components)
    found = read.projection
    return Projected(
        scores=read.scores[:, :3].numpy(),
        explained=found.explained_variance_ratio.numpy(),
        missing=int(found.missing.sum()),
        fitted=int(found.fitted.sum()),
        past=read.past,
        note=provenance(query),
        rounded=read.rounded,
    )
