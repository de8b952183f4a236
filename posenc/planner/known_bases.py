"""Smallest bases that were searched before, for the widths of known models and lengths that are asked for.

The search takes seconds to a minute; its answer does not change. Each row is what
`posenc.analysis.base_search.smallest_base(width, length)` returns, number for number;
tests/models/test_known_bases.py searches every row anew (long), and always shows by plain sums that
the base passes, that the window ends where it says, and that the bases around it fail.
"""

from posenc.analysis.base_search import BaseWindow

# width, length: base, where its window ends, how far was looked.
_FOUND: dict[tuple[int, int], tuple[float, float | None, float]] = {
    (24, 32_768): (341692551.4765216, 341816291.62500304, 341821262.2483551),
    (24, 65_536): (1922526447.6789021, 1922640191.055963, 1922735499.1732802),
    (24, 131_072): (10712113461.817678, 10712416572.101376, 10712785483.114645),
    (32, 32_768): (154229230.45310208, 154229409.30577904, 154253700.32003394),
    (32, 65_536): (200449414.13602456, 200529775.51637363, 200530245.08856282),
    (32, 131_072): (3667167448.9486437, 3668952513.585673, 3669118279.9322),
    (64, 32_768): (3788343.254982911, 3788998.675311723, 3789296.8349133777),
    (64, 65_536): (4867184.379777253, 4874558.697306813, 4874656.039527709),
    (64, 131_072): (73779829.7810605, 73815353.88517106, 73816166.36396179),
    (96, 32_768): (726714.2463688327, 728708.5690425513, 728765.8538843658),
    (96, 65_536): (4773656.265259424, 4774217.124930457, 4774265.770033941),
    (96, 131_072): (16748917.590366228, 16753895.964743517, 16754122.413235234),
    (128, 32_768): (629978.2634850197, 630983.5780953403, 631026.8647094254),
    (128, 65_536): (2090179.6761443485, 2091381.9307560958, 2091447.23111008),
    (128, 131_072): (4869104.374736991, 4872527.177430089, 4872528.897582123),
    (256, 32_768): (223815.30582029943, 223975.83364541313, 223998.48563089065),
    (256, 65_536): (665843.1296791715, 665879.2979548343, 665880.2032982849),
    (256, 131_072): (1697702.3731213626, 1697755.7826733126, 1697803.3912098897),
}


def known_base(dim: int, length: int) -> BaseWindow | None:
    """Return the smallest base of a rotary width and a length, None where it has to be searched."""
    found = _FOUND.get((dim, length))
    return None if found is None else BaseWindow(dim, length, *found)
