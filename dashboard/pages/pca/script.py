"""PCA as Python."""

from dashboard.frame.script import script as whole
from dashboard.pages.pca.options import PcaChoice
from posenc.settings import Setting

IMPORTS = """
from posenc.analysis import scheme_projection
from posenc.settings import Query, Setting
"""
BODY = """
fitted = {fitted}
print("kind,position,PC1,PC2,PC3")
for kind in setting.schemes:
    found = scheme_projection(Query.of(setting, kind), fitted, components={components})
    for position, scores in enumerate(found.scores[:, :3].tolist()):
        print(kind, position, *scores, sep=",")
"""


def script(setting: Setting, chosen: PcaChoice, components: int) -> str:
    """Return a script that prints the numbers called "scores"."""
    seen = "min(setting.train_length, setting.length)"
    fitted = "setting.length" if chosen.fit == "all" else seen
    return whole(IMPORTS, setting, BODY.format(fitted=fitted, components=components))
