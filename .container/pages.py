#!/usr/bin/env python3
"""Whether every page of the installed dashboard is drawn: run by the interpreter it is installed for."""

import sys
from pathlib import Path

from streamlit.testing.v1 import AppTest

import dashboard

APP = Path(dashboard.__file__).parent / "app.py"
failed = 0
for path in [
    "",
    *sorted(f"pages/{one.parent.name}/page.py" for one in (APP.parent / "pages").glob("*/page.py")),
]:
    at = AppTest.from_file(APP, default_timeout=120)
    at.run()  # after which the addresses of the pages are known
    if path:
        at.switch_page(path).run()
    wrong = [*(one.message for one in at.exception), *(one.value for one in at.error)]
    failed += bool(wrong or not at.title)
    print(f"{path or 'start'}: {wrong[0] if wrong else 'drawn' if at.title else 'empty'}")
sys.exit(1 if failed else 0)
