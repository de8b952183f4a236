"""A learned position table beside the sinusoidal table of its width: norms, similarity, components.

Wang and Chen 2020, arXiv 2010.04903, compare position embeddings by the similarity of their rows.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import as_float64
from posenc.analysis.pca import project
from posenc.analysis.similarity import cosine_matrix, similarity_by_offset
from posenc.errors import SchemeArgumentError
from posenc.limits import check_base
from posenc.notebook import Shown, View
from posenc.tables import sinusoidal_table

COMPONENTS = 3


@dataclass(frozen=True, eq=False)
class TableShape(Shown):
    """Norms, similarity and principal components of the rows of a position table.

    norms (n,): of each row. similarity (n,): mean cosine of rows by distance. scores (n, 3): of each row on
    the first components. explained (r,): share of the variance of each component.
    """

    norms: Float[Tensor, " n"]
    similarity: Float[Tensor, " n"]
    scores: Float[Tensor, "n k"]
    explained: Float[Tensor, " r"]

    def view(self) -> View:
        return View(
            title="Norm and similarity of the rows of a position table",
            numbers={
                "rows": len(self.norms),
                "mean norm": float(self.norms.mean()),
                "share of three components": float(self.explained[:COMPONENTS].sum()),
            },
            columns={
                "position": range(len(self.norms)),
                "norm": self.norms,
                "similarity at this distance": self.similarity,
            },
            x="position",
            lines=("similarity at this distance",),
        )


@dataclass(frozen=True, eq=False)
class TableComparison:
    """A position table, and the sinusoidal table of its rows and width."""

    table: TableShape
    sinusoidal: TableShape


def compare_with_sinusoidal(table: Float[Tensor, "n d"], base: float = 10_000.0) -> TableComparison:
    """Return norms, similarity and components of a table and of the sinusoidal table of its width.

    Sinusoidal rows all have the norm sqrt(d / 2). Raises SchemeArgumentError for a table of fewer than two
    rows, of an odd width, or with numbers that are not finite.
    """
    table = as_float64("table", table, "(n, d)")
    check_base(base)
    if len(table) < 2 or table.shape[1] % 2 or not table.isfinite().all():
        raise SchemeArgumentError(
            "table must have two rows or more, an even width and finite numbers, got shape "
            f"{tuple(table.shape)}."
        )
    waves = sinusoidal_table(len(table), table.shape[1], base, dtype=torch.float64)
    return TableComparison(_shape(table), _shape(waves))


def _shape(table: Tensor) -> TableShape:
    projection = project(table, COMPONENTS)
    return TableShape(
        norms=torch.linalg.vector_norm(table, dim=1),
        similarity=similarity_by_offset(cosine_matrix(table @ table.T)).mean,
        scores=projection.scores,
        explained=projection.all_variance_ratios,
    )
