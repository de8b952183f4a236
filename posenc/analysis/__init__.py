"""Analyses of positional encodings: tensors in, a frozen result out, nothing drawn.

Axes: n positions, d width, pairs = d / 2. A kernel is (n, n), row = query, column = key; an offset
curve is (2n-1,) over the offsets -(n-1) .. n-1, offset = key minus query; position vectors are
(n, d); inverse frequencies are (pairs,), pair 0 the fastest. Everything is computed in float64 on
the device of what is given (MPS has no float64 and goes to the CPU); what draws at random takes a
seed or a torch.Generator. scikit-learn and SciPy are imported by the functions that use them.
"""

from posenc.analysis.embedding_sum import (
    STARTS,
    EmbeddingSum,
    RowNorms,
    draw_tokens,
    position_beside_content,
    row_norms,
    token_deviation,
)
from posenc.analysis.extrapolation import (
    KernelPast,
    NearestSeen,
    PhaseCoverage,
    base_bound_curve,
    critical_dimension,
    first_negative_offset,
    kernel_past,
    long_term_decay_bound,
    nearest_seen_distance,
    phase_coverage,
)
from posenc.analysis.linear_map import (
    LinearMapFit,
    Verdict,
    block_rotation,
    composition_error,
    fit_dense,
    fit_kernel,
    fit_pairs,
    verdict,
    verify_map,
)
from posenc.analysis.of_scheme import (
    SchemeProjection,
    SchemeSimilarity,
    scheme_projection,
    scheme_properties,
    scheme_similarity,
)
from posenc.analysis.offset_checks import (
    LinearInOffset,
    OffsetOnly,
    diagonal_spread,
    linear_in_offset,
    offset_only,
)
from posenc.analysis.pca import Projection, project, project_gram, project_waves
from posenc.analysis.properties import Properties, first_rise, kendall_tau, measure
from posenc.analysis.similarity import (
    CosineMatrix,
    OffsetProfile,
    SimilarityRow,
    cosine_curve,
    cosine_matrix,
    expand_curve,
    reversed_rows_view,
    similarity_by_offset,
    similarity_row,
)
from posenc.analysis.spectrum import Spectrum, spectrum
from posenc.analysis.word_order import OrderReading, RandomLayer, read_orders
from posenc.schemes.alibi import expanding_shift

__all__ = [
    "STARTS",
    "CosineMatrix",
    "EmbeddingSum",
    "KernelPast",
    "LinearInOffset",
    "LinearMapFit",
    "NearestSeen",
    "OffsetOnly",
    "OffsetProfile",
    "OrderReading",
    "PhaseCoverage",
    "Projection",
    "Properties",
    "RandomLayer",
    "RowNorms",
    "SchemeProjection",
    "SchemeSimilarity",
    "SimilarityRow",
    "Spectrum",
    "Verdict",
    "base_bound_curve",
    "block_rotation",
    "composition_error",
    "cosine_curve",
    "cosine_matrix",
    "critical_dimension",
    "diagonal_spread",
    "draw_tokens",
    "expand_curve",
    "expanding_shift",
    "first_negative_offset",
    "first_rise",
    "fit_dense",
    "fit_kernel",
    "fit_pairs",
    "kendall_tau",
    "kernel_past",
    "linear_in_offset",
    "long_term_decay_bound",
    "measure",
    "nearest_seen_distance",
    "offset_only",
    "phase_coverage",
    "position_beside_content",
    "project",
    "project_gram",
    "project_waves",
    "read_orders",
    "reversed_rows_view",
    "row_norms",
    "scheme_projection",
    "scheme_properties",
    "scheme_similarity",
    "similarity_by_offset",
    "similarity_row",
    "spectrum",
    "token_deviation",
    "verdict",
    "verify_map",
]
