"""The comparison of schemes: what each acts on, needs and is used by, a column per scheme."""

from collections.abc import Mapping

import pandas as pd

from dashboard import run_accuracies, run_losses, runs
from dashboard.pages.at_a_glance.properties import OFFSET_ONLY
from dashboard.scheme_facts import (
    BIAS,
    EMBEDDING,
    ROTATION,
    WEIGHTS,
    compact_formula,
    models_with,
    place,
)
from dashboard.text import number
from posenc import Request
from posenc.analysis import Properties
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RotaryScheme

MOST_MODELS = 4  # named in a cell
KIND_OF = {
    EMBEDDING: "absolute",
    ROTATION: "relative, by absolute rotations",
    BIAS: "relative",
    WEIGHTS: "relative, by the order of keys",
    "": "neither",
}
_PENG = "Peng et al. 2023", "2309.00071"
# First author and arXiv number, as in the scheme's own module.
PAPERS = {
    "learned": ("Gehring et al. 2017", "1705.03122"),
    "sinusoidal": ("Vaswani et al. 2017", "1706.03762"),
    "rope": ("Su et al. 2021", "2104.09864"),
    "alibi": ("Press et al. 2022", "2108.12409"),
    "none": ("Kazemnejad et al. 2023", "2305.19466"),
    "rope_linear": ("Chen et al. 2023", "2306.15595"),
    "rope_ntk": _PENG,
    "rope_dynamic": _PENG,
    "rope_yarn": _PENG,
    "rope_yarn_paper": _PENG,
    "rope_longrope": ("Ding et al. 2024", "2402.13753"),
    "rope_llama3": ("Grattafiori et al. 2024", "2407.21783"),
    "rope_proportional": ("Barbero et al. 2024", "2410.06205"),
    "rope_sections": ("Wang et al. 2024", "2409.12191"),
    "shaw": ("Shaw et al. 2018", "1803.02155"),
    "transformer_xl": ("Dai et al. 2019", "1901.02860"),
    "t5": ("Raffel et al. 2020", "1910.10683"),
    "kerple_log": ("Chi et al. 2022", "2205.09921"),
    "kerple_power": ("Chi et al. 2022", "2205.09921"),
    "fire": ("Li et al. 2023", "2310.04418"),
    "sandwich": ("Chi et al. 2022", "2212.10356"),
    "xpos": ("Sun et al. 2022", "2212.10554"),
    "cope": ("Golovneva et al. 2024", "2405.18719"),
    "ssmax": ("Nakanishi 2025", "2501.19399"),
    "ssmax_rope": ("Nakanishi 2025", "2501.19399"),
    "rnope": ("Yang et al. 2025", "2501.18795"),
    "pope": ("Gopalakrishnan et al. 2025", "2509.10534"),
    "fox": ("Lin et al. 2025", "2503.02130"),
    "stick_breaking": ("Tan et al. 2024", "2410.17980"),
}


def table(requests: Mapping[str, Request], measured: Mapping[str, Properties]) -> pd.DataFrame:
    """Return the comparison, a row per scheme; texts are Markdown."""
    curves = {
        curve.specification.scheme.kind: curve for curve in runs.shipped_loss(tuple(requests))
    }
    recalls = {
        curve.specification.scheme.kind: curve for curve in runs.shipped_recall(tuple(requests))
    }
    rows = []
    for kind, request in requests.items():
        scheme = request.build("cpu")
        where, end = place(scheme), scheme.max_length
        turns = where != ROTATION or isinstance(scheme, RotaryScheme)
        parameters = sum(parameter.numel() for parameter in scheme.parameters())
        error = measured[kind].translation_invariance_error
        loss, recall = curves.get(kind), recalls.get(kind)
        if error is None:
            offset_only = "cannot be measured"
        else:
            added = "table: yes; with content: no" if where == EMBEDDING else "yes"
            offset_only = added if error < OFFSET_ONLY else f"no (error {number(error, 2)})"
        paper, arxiv = PAPERS.get(kind, ("", ""))
        rows.append(
            {
                "scheme": SCHEMES[kind].label,
                "acts on": where or "nothing",
                "parameters": f"{parameters:,}" if parameters else "none",
                "absolute or relative": KIND_OF[where if turns else ""],
                "depends on offset only": offset_only,
                "defined past the table": "yes, computed for any position"
                if end is None
                else f"no, ends at {end:,}",
                "loss past training": run_losses.past_training(loss).text
                if loss
                else "not measured",
                "recall past training": run_accuracies.recall_past_training(recall)
                if recall
                else "not measured",
                "used by": _used_by(kind),
                "paper": f"[{paper}](https://arxiv.org/abs/{arxiv})" if paper else "none named",
                "formula": f"${compact_formula(request.config)}$",
            }
        )
    return pd.DataFrame(rows)


def _used_by(kind: str) -> str:
    """Return the preset models that use a scheme, the first few by name."""
    models = models_with(kind)
    names = ", ".join(models[:MOST_MODELS]) or "none of the preset models"
    more = len(models) - MOST_MODELS
    return f"{names} and {more} more" if more > 0 else names
