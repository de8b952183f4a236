"""The app as an operator starts it, with small bounds on what uploads hold.

`python -m tests.dashboard.small_uploads ALL FILE ...`: bytes of all files together, of one, and then the
arguments of `python -m dashboard`.
"""

import sys

from dashboard import limits
from dashboard.__main__ import main

if __name__ == "__main__":
    limits.MAX_HELD_UPLOADS, limits.MAX_UPLOAD_BYTES = map(int, sys.argv[1:3])
    sys.exit(main(sys.argv[3:]))
