"""Pages as files: texts are escaped, data are those of the page, and nothing points to a network."""

import html
import importlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard import all_pages
from dashboard.blocks import Chart, Page, Table, Tabs, Text
from dashboard.gallery.markdown import inline, paragraphs
from dashboard.gallery.page_html import Writer
from dashboard.gallery.write import assets, document, write, zipped
from dashboard.menu import TITLES
from dashboard.pages.encoding import page as encoding
from dashboard.pages.encoding.options import WORKED
from dashboard.pages.encoding.options import Options as EncodingOptions
from dashboard.pages.extend_context.options import PICTURES
from dashboard.pages.lessons import page as lessons
from dashboard.settings import Setting
from dashboard.state import State
from dashboard.text import JOINER, plain
from dashboard.write_gallery import write_gallery
from posenc import __main__ as command
from posenc import fields

SIZE = 8 * 2**20  # bytes of a whole gallery
BAD = "<img src=x onerror=alert(1)>"


class Document(HTMLParser):
    """What stands in an HTML text: tags with their attributes, text, and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def made(folder: str, setting: Setting) -> Page:
    """Return a page that is a function, at its own defaults."""
    module = importlib.import_module(f"dashboard.pages.{folder}.page")
    page: Page = module.page(setting, module.Options())
    return page


@given(st.text(st.characters(blacklist_categories=("C", "Z")), max_size=60))
@example("``")
def test_a_name_that_was_made_plain_is_read_as_it_is(name: str) -> None:
    written = Document(inline(plain(name)))
    assert written.tags == []
    assert written.text.replace(JOINER, "") == name.replace(JOINER, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**B:** `a*b` and *c*", "<strong>B:</strong> <code>a*b</code> and <em>c</em>"),
        ("a_b_c and 2*3*4", "a_b_c and 2*3*4"),
        ("[paper](https://arxiv.org/abs/1)", '<a href="https://arxiv.org/abs/1">paper</a>'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        (":material/check: yes", "yes"),
        ("a < b & c", "a &lt; b &amp; c"),
        (BAD, html.escape(BAD, quote=False)),
        (r"\$5 and \*", "$5 and *"),
    ],
)
def test_markdown_becomes_the_few_tags_that_pages_use(text: str, expected: str) -> None:
    assert inline(text) == expected


def test_paragraphs_and_lists_are_told_apart() -> None:
    assert paragraphs("a\n\n- b\n- c") == "<p>a</p><ul><li>b</li><li>c</li></ul>"


@pytest.mark.parametrize("folder", TITLES)
def test_a_page_of_the_gallery_says_what_the_page_says(folder: str) -> None:
    page = made(folder, Setting(base=500.0, length=48))
    written = Document(document("x", page, {"x": "X"}, "about"))
    words = re.sub(r"\W+", "", Document(inline(page.headline)).text)
    assert words in re.sub(r"\W+", "", written.text)
    outside = [value for name, value in written.attributes if name in ("src", "href")]
    links = [one for one in outside if one.startswith("http")]
    assert all(one.startswith("https://") for one in links)
    assert {one for one in outside if not one.startswith(("https://", "data:"))} <= {
        "x.html", "assets/gallery.css",
        *(f"assets/{name}.js" for name in ("vega", "gallery", "matrix", "clock")),
    }  # fmt: skip
    assert not [name for name, _ in written.attributes if name.startswith("on")]


@pytest.mark.parametrize("folder", TITLES)
def test_rows_of_charts_are_those_of_the_page_with_six_digits(folder: str) -> None:
    page = made(folder, Setting())
    charts = [block for block in page.all_blocks if isinstance(block, Chart)]
    writer = Writer(page.title, {})
    for chart in charts:
        text = re.findall(r'json">(.*)</script>', writer.chart(chart))[0]
        rows = pd.DataFrame(json.loads(text)["data"]["values"])
        for name, column in chart.drawn.items():
            if column.notna().any() and pd.api.types.is_float_dtype(column):
                finite = np.isfinite(column)
                np.testing.assert_allclose(
                    rows[name][finite.values], column[finite], rtol=1e-5, atol=1e-30
                )


@pytest.mark.long
def test_a_folder_has_every_page_and_what_they_share_under_eight_megabytes(tmp_path: Path) -> None:
    texts = all_pages.files(State())
    write(tmp_path, texts)
    found = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert {str(one.relative_to(tmp_path)) for one in found} == {*texts}
    assert {f"{folder}.html" for folder in TITLES if folder != "train"} < {*texts}
    assert sum(one.stat().st_size for one in found) < SIZE
    assert zipped(texts) == zipped(texts)
    assert "url=start.html" in (tmp_path / "index.html").read_text()
    assert "Learn in five steps</a>" in texts["start.html"]
    assert "Present in class" not in texts["start.html"]
    assert all("Controls, uploads and Train need the dashboard" in texts[f"{folder}.html"]
               for folder in TITLES if folder != "train")  # fmt: skip


def test_files_of_two_settings_have_the_sentences_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_pages, "TITLES", {"similarity": "Similarity"})
    schemes = ("rope",)
    b, a = (Setting(base=base, schemes=schemes) for base in (500.0, 90.0))
    pinned = State(b, a)
    text = html.unescape(all_pages.files(pinned)["similarity.html"])
    of_both = all_pages.page_at(pinned, "similarity")
    assert of_both.beside.startswith("A\\: base 90. ")
    assert of_both.headline.startswith("B\\: base 500. ")
    places = [text.index(f"<strong>{inline(each)}") for each in (of_both.beside, of_both.headline)]
    assert places == sorted(places)
    made = (
        "A with schemes RoPE and base 90, all else at its default; B with schemes RoPE and base 500"
    )
    assert made in text


def test_every_step_and_every_tab_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"lessons": "Learn", "encoding": "Encoding", "extend_context": "Extend"}
    monkeypatch.setattr(all_pages, "TITLES", shown)
    texts = all_pages.files(State())
    names = ["lessons", *(f"lessons-{n}" for n in range(2, 6))]
    for step, name in enumerate(names, 1):
        text = texts[f"{name}.html"]
        guess = "shown" if step == 5 else "not yet"
        lesson = lessons.page(Setting(), lessons.Options(step=str(step), guess=guess))
        assert f"<h1>{html.escape(lesson.title)}</h1>" in text
        assert inline(lesson.headline) in text
        assert re.findall(
            r'href="(lessons[\w-]*)\.html"( aria-current=page)?>Step (\d)<', text
        ) == [
            (other, " aria-current=page" if other == name else "", str(n))
            for n, other in enumerate(names, 1)
        ]
        assert f'href="{names[0]}.html" aria-current=page>Learn<' in text  # in the menu of pages
    tab = fields.rules(EncodingOptions)["tab"]
    assert isinstance(tab, fields.Choice)
    for name, labels in (("encoding", tab.options), ("extend_context", PICTURES)):
        headings = re.findall(r"<h2>(.*?)</h2>", texts[f"{name}.html"])
        assert [title for title in headings if title in labels] == [*labels]
    worked = encoding.page(Setting(), EncodingOptions(tab=WORKED))
    (tabs,) = [block for block in worked.all_blocks if isinstance(block, Tabs)]
    assert Writer("", {}).blocks(tabs.blocks) in texts["encoding.html"]


def test_no_text_of_a_page_becomes_a_tag_or_ends_its_data() -> None:
    frame = pd.DataFrame({"name": [BAD, "</script>"], "value": [1.0, 2.0]})
    chart = Chart(
        key="k",
        title="</script>" + BAD,
        frame=frame,
        names=(BAD,),
        draw=lambda _: {"mark": BAD, "height": 9},
        x="",
    )
    blocks = (Text(plain(BAD)), Table(frame), chart)
    page = Page(title=BAD, headline=plain(BAD), blocks=blocks, reasons={"x": plain(BAD)})
    written = Document(document("x", page, {"x": BAD}, BAD))
    assert "img" not in written.tags
    assert written.tags.count("script") == 1 + 4


def test_command_writes_the_pages_of_a_link_and_names_what_it_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_pages, "TITLES", {"start": "Start", "similarity": "Similarity"})
    link = "https://demo.example.org/similarity?base=500&length=32&reference=3&quiz=true"
    result = CliRunner().invoke(write_gallery, [str(tmp_path / "out"), "--link", link])
    assert (result.exit_code, result.stderr) == (0, "Ignored in this link: 'quiz'.\n")
    page = (tmp_path / "out" / "similarity.html").read_text()
    assert "with base 500 and positions shown 32, all else at its default" in page
    assert "similarity of query 3 and each key" in page
    assert "Similarity</a>" in (tmp_path / "out" / "start.html").read_text()


@pytest.mark.parametrize(
    ("link", "ignored"),
    [
        ("/nope?base=500", "Ignored in this link: 'nope'.\n"),
        ("nope", "Ignored in this link: 'nope'.\n"),
        ("https://example.org/tools/posenc/?base=500", ""),
        ("?base=500", ""),
        ("/overview/?base=500", ""),
    ],
)
def test_command_names_a_page_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, ignored: str
) -> None:
    monkeypatch.setattr(all_pages, "files", lambda now: {"index.html": f"{now.setting.base:g}"})
    result = CliRunner().invoke(write_gallery, [str(tmp_path / "out"), "--link", link])
    assert (result.exit_code, result.stderr) == (0, ignored)
    base = "500" if "500" in link else "10000"
    assert (tmp_path / "out" / "index.html").read_text() == base


@pytest.mark.parametrize(
    ("words", "fact"), [([""], "FOLDER"), (["out", "--link", "http://[x"], "address of a page")]
)
def test_command_refuses_no_folder_and_no_address_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command.main, ["gallery", *words])
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert line.startswith("Error: ")
    assert fact in line
    assert [*tmp_path.iterdir()] == []


def test_the_code_of_components_is_a_script_that_a_file_may_load() -> None:
    for name in ("matrix.js", "clock.js"):
        assert not re.search(r"^\s*(export|import)\b", assets()[name], re.MULTILINE)
