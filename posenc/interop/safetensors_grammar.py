"""The pieces of a .safetensors header as patterns, each of which matches in linear time.

A header is a part of JSON (RFC 8259): one object of objects with three known fields, and metadata of
texts. Numbers are whole, have at most 19 digits and no sign; fields and dtypes are written plainly.
"""

import re

from posenc import limits

_WS = rb"[ \t\n\r]*+"
# JSON strings, without the lone surrogates that Python's own reader lets through.
_PIECE = (
    rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_COUNT = rb"(?:0|[1-9][0-9]{0,18})"
BEGIN = re.compile(rb"\{")
OPEN = re.compile(_WS + rb"\{")
CLOSE = re.compile(_WS + rb"\}")
END = re.compile(_WS + rb"\Z")
NEXT = re.compile(_WS + rb"([,}])")
# A name of 256 characters has at most 513 pieces: plain runs, and escapes between them.
KEY = re.compile(_WS + rb'"(%b{0,%d}+)"' % (_PIECE, 2 * limits.MAX_TENSOR_NAME + 1) + _WS + rb":")
TEXT = re.compile(_WS + rb'"(%b*+)"' % _PIECE)
OFFSETS_FIELD = re.compile(rb'"data_offsets"')
FIELD = re.compile(_WS + rb'"(dtype|shape|data_offsets)"' + _WS + rb":" + _WS)
VALUES = {
    b"dtype": (re.compile(rb'"([0-9A-Za-z_]{1,32})"'), "a name such as F32"),
    b"shape": (
        re.compile(
            rb"\[" + _WS + rb"((?:%b(?:%b,%b%b){0,%d})?)" % (_COUNT, _WS, _WS, _COUNT, limits.MAX_AXES - 1)
            + _WS + rb"\]"
        ),
        f"a list of at most {limits.MAX_AXES} whole numbers from 0",
    ),
    b"data_offsets": (
        re.compile(rb"\[%b(%b%b,%b%b)%b\]" % (_WS, _COUNT, _WS, _WS, _COUNT, _WS)),
        "two whole numbers from 0",
    ),
}  # fmt: skip

# A whole tensor in one step, its three fields in any order: three matches that fill three groups are
# one of each. Names with escapes, metadata and faults are left to the smaller pieces above.
_ANY_FIELD = b"|".join(
    rb'"%b"%b:%b%b' % (field, _WS, _WS, value.pattern) for field, (value, _) in VALUES.items()
)
TENSOR = re.compile(
    _WS + rb'"(?!__metadata__")([^"\\\x00-\x1f]{0,%d}+)"' % (4 * limits.MAX_TENSOR_NAME)
    + _WS + rb":" + _WS + rb"\{"
    + rb'(?:%b(?:%b)%b(?:,(?=%b")|(?=\}))){3}\}' % (_WS, _ANY_FIELD, _WS, _WS)
    + NEXT.pattern
)  # fmt: skip
