"""What a page says when it cannot go on: the library's sentence, literally, whatever a visitor named."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import as_read


@pytest.mark.parametrize("name", ["![x](http://e/p.png)", ":red[x]", "**x** `y` $z$", "<b>x</b>"])
def test_names_of_visitors_in_an_error_are_read_as_text(name: str) -> None:
    def page(name: str) -> None:
        from dashboard.faults import kind_errors
        from posenc.errors import CheckpointError

        with kind_errors():
            raise CheckpointError(f"The file holds no tensor named {name}.")

    at = AppTest.from_function(page, kwargs={"name": name}, default_timeout=30).run()
    assert not at.exception
    (box,) = at.error
    assert as_read(box.value) == f"The file holds no tensor named {name}."
    for sign in "![]():*`$<>":
        bare = box.value.replace(f"\\{sign}", "")
        assert sign not in bare, (sign, box.value)
