"""Analyses of positional encodings: tensors, or a Request of a scheme, in; a frozen result out.

One convention for all:

- An analysis takes tensors and returns a frozen dataclass of numbers and tensors. Where it takes a
  position kernel (n, n), it takes the offset curve (2n-1,) of a stationary one as `curve=` instead.
- Its variant for a scheme is named `scheme_...` and takes a `posenc.Request`: the config
  of a scheme with a length, a head, a dtype and a seed.
- What asks about a formula, not about a scheme's numbers, takes the quantities in that formula:
  `smallest_base` and `critical_dimension` a width, `inspect_layouts` positions and a width,
  `content_and_position` a norm. `read_orders` runs an attention layer, so it takes a built scheme.

Axes: n positions, d width, pairs = d / 2. A kernel has a row per query and a column per key. An
offset is key minus query, -(n-1) .. n-1 along a curve; a distance is query minus key, 0 or more.
Position vectors are (n, d); inverse frequencies are (pairs,), pair 0 the fastest. Everything is
float64 on the device of the input (MPS has no float64 and goes to the CPU); what draws at random
takes a seed or a torch.Generator. scikit-learn and SciPy are imported by the functions that use them.
"""

# ruff: noqa: F401 - every name imported here is public

from posenc.analysis.attention_use import (
    AttentionUse,
    PairUse,
    attention_use,
    pair_use,
)
from posenc.analysis.base_search import BaseWindow, known_base, smallest_base
from posenc.analysis.captured import CapturedUse, by_head, captured_use
from posenc.analysis.embedding_sum import (
    STARTS,
    EmbeddingSum,
    content_and_position,
    draw_tokens,
    row_norm,
    token_deviation,
)
from posenc.analysis.extrapolation import (
    KernelPast,
    NearestTrained,
    SchemeKernelPast,
    kernel_past,
    nearest_trained_distance,
    scheme_kernel_past,
)
from posenc.analysis.kernel_claims import (
    LinearInOffset,
    OffsetOnly,
    diagonal_spread,
    linear_in_offset,
    offset_only,
)
from posenc.analysis.layout_mixups import LayoutInspection, LayoutUse, inspect_layouts
from posenc.analysis.linear_map import (
    LinearMapFit,
    composition_error,
    fit_dense,
    fit_kernel,
    fit_pairs,
    verify_map,
)
from posenc.analysis.offset_checks import (
    DenseFit,
    MapErrors,
    OffsetClaims,
    OffsetMap,
    scheme_dense_fit,
    scheme_map_errors,
    scheme_offset_claims,
    scheme_offset_map,
)
from posenc.analysis.pair_norms import (
    CUTS,
    PairCut,
    PairNorms,
    cut_pairs,
    pair_norms,
    pair_rows,
    slow_pairs,
)
from posenc.analysis.pca import (
    Projection,
    SchemeProjection,
    components_explaining,
    project,
    project_gram,
    scheme_projection,
)
from posenc.analysis.probes import Probes, ProbeScore, probe, probe_each
from posenc.analysis.properties import (
    Properties,
    first_rise,
    kendall_tau,
    measure,
    scheme_properties,
)
from posenc.analysis.similarity import (
    OffsetProfile,
    SchemeSimilarity,
    cosine_curve,
    cosine_matrix,
    expand_curve,
    kernel_values,
    scheme_similarity,
    similarity_by_offset,
    similarity_row,
)
from posenc.analysis.spectrum import (
    SchemeCoverage,
    Spectrum,
    base_bound_curve,
    critical_dimension,
    first_negative_offset,
    scheme_coverage,
    spectrum,
)
from posenc.analysis.table_shape import TableComparison, TableShape, compare_with_sinusoidal
from posenc.analysis.word_order import OrderReading, RandomLayer, read_orders
from posenc.schemes.alibi import expanding_shift
from posenc.sdpa import attention_weights
