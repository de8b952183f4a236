"""Similarity, and the curves of Start, as Python."""

from dashboard.frame.script import script as whole
from dashboard.pages.similarity.options import SimilarityChoice
from posenc.settings import Setting

IMPORTS = """
import posenc
from posenc.analysis import scheme_similarity
from posenc.settings import Query, Setting
"""
CURVES = """
print("scheme,distance,mean,low,high,spread")
for kind in setting.schemes:
    found = scheme_similarity(Query.of(setting, kind))
    rows = zip(found.distances, found.mean, found.low, found.high, found.deviation)
    for row in rows:
        print(posenc.SCHEMES[kind].label, *(value.item() for value in row), sep=",")
"""


def script(setting: Setting, chosen: SimilarityChoice | None = None) -> str:
    """Return a script that prints the numbers called "similarity by distance"."""
    return whole(IMPORTS, setting, CURVES)
