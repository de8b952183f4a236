"""What the code never does, read from the code: run what a file holds, or format what a visitor wrote.

`tests/test_architecture.py` has the same for names as they are usually written; here aliases are followed
(`from torch import load as read`), and Markdown that is made of visitors' text is found. What it cannot
see: a function reached through getattr, a dict or a container of functions; text that was taken into
another name before it is drawn, or that a helper outside of the dashboard put together. For those,
tests/test_hostile_names.py looks at what is really sent to the browser.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "posenc").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")])
DASHBOARD = sorted((ROOT / "dashboard").rglob("*.py"))

# Dotted names of what runs code from data, reads objects, or draws raw HTML.
FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "runpy.run_path",
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn",
    "torch.load", "torch.serialization.load", "torch.jit.load", "torch.hub.load",
    "torch.package.PackageImporter",
    "torch.export.load", "pandas.read_pickle", "pandas.read_hdf", "joblib.load", "numpy.load",
    "numpy.lib.npyio.load", "numpy.fromregex", "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "xml.etree.ElementTree.parse", "streamlit.html", "streamlit.iframe", "streamlit.components.v1.html",
    "streamlit.components.v1.iframe",
}  # fmt: skip
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "jsonpickle", "yaml", "code",
    "xmlrpc", "multiprocessing.managers",
}  # fmt: skip
FORBIDDEN_KEYWORDS = {"unsafe_allow_html", "unsafe_allow_javascript"}
FORBIDDEN_VALUES = {("allow_pickle", True), ("weights_only", False), ("shell", True)}
FORBIDDEN_METHODS = {"html", "iframe", "read_pickle", "to_pickle"}  # of anything: st.sidebar.html

# Functions that read Markdown in their first argument (or in these keywords).
MARKDOWN = {
    "markdown", "write", "caption", "info", "warning", "error", "success", "toast", "title", "header",
    "subheader", "badge", "latex", "expander", "popover", "button", "toggle", "checkbox", "page_link",
    "download_button", "metric", "spinner", "progress", "radio", "selectbox",
}  # fmt: skip
# Names under which visitors' words and names out of files travel through the dashboard.
VISITORS = {
    "error", "reason", "reasons", "file_name", "printable_name", "provenance", "provenances", "note",
    "notes", "query_params", "corpus_name", "alike", "whole", "about", "assumed", "ignored",
    "unsupported", "too_large", "others", "source", "text_name", "panel_note", "missing", "gone",
    "told", "pasted_text", "evidence", "asked",
}  # fmt: skip
# What makes Markdown of them safe: an escape, or how many they are.
SAFE_CALLS = {"plain", "len"}
# Where such a name is a word of our own: the expression as it stands in the code, and why it is ours.
OURS = {
    ("dashboard/claim_cards.py", "source"): "a claim's source stands in the code of the claim",
    ("dashboard/encoding_panels.py", "told"): "a sentence of numbers and names of schemes",
    ("dashboard/measured.py", "missing"): "kinds of schemes, written by page.names",
    ("dashboard/views/similarity.py", "missing"): "kinds of schemes, written by page.names",
}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def aliases(module: ast.Module) -> dict[str, str]:
    """What each imported name of a file stands for, dotted and whole."""
    found = {"np": "numpy", "pd": "pandas", "st": "streamlit"}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def whole(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of a function, its first part as it was imported."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([known.get(node.id, node.id), *reversed(parts)])


def dangers(module: ast.Module) -> list[str]:
    """Every use of what must not be used, by line."""
    known, found = aliases(module), []
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                base = node.module or ""
                names = [base, *(f"{base}.{name}" for name in names)]
            found += [
                f"line {node.lineno}: import of {name}"
                for name in names
                if name in FORBIDDEN_MODULES or name.split(".")[0] in FORBIDDEN_MODULES
            ]
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = whole(node, known)
            if name in FORBIDDEN:  # handed on counts as called
                found.append(f"line {node.lineno}: {name}")
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_METHODS:
                found.append(f"line {node.lineno}: .{node.func.attr}()")
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if keyword.arg in FORBIDDEN_KEYWORDS or (keyword.arg, value) in FORBIDDEN_VALUES:
                    found.append(f"line {node.lineno}: {keyword.arg}")
    return found


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_file_runs_code_from_data_reads_objects_or_draws_html(path: Path) -> None:
    assert dangers(tree(path)) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads as read",
        "import torch as t\nt.load('x')",
        "from torch import load as read\nread('x')",
        "from torch.serialization import load\nload('x')",
        "import torch\nread = torch.load",
        "map(eval, texts)",
        "exec(text)",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "f(x, allow_pickle=True)",
        "f(x, weights_only=False)",
        "import pandas as p\np.read_pickle('x')",
        "frame.to_pickle('x')",
        "st.html('<b>')",
        "place.sidebar.html(text)",
        "st.markdown(text, unsafe_allow_html=True)",
        "st.markdown(text, unsafe_allow_html=asked)",
        "import streamlit.components.v1 as c\nc.html('<b>')",
        "from os import system\nsystem('ls')",
        "subprocess.run('ls', shell=True)",
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    assert dangers(ast.parse(code))


def test_the_search_leaves_alone_what_is_harmless() -> None:
    code = (
        "import torch, re\nre.compile('a')\nmodel.eval()\nst.markdown('a')\nf(allow_pickle=False)"
    )
    assert [one for one in dangers(ast.parse(code)) if "re.compile" not in one] == []


# Markdown -------------------------------------------------------------------------------------------


def loose(node: ast.AST) -> Iterator[str]:
    """Names of visitors' text in an expression, outside of what makes it safe."""
    if isinstance(node, ast.Call) and whole(node.func, {}).split(".")[-1] in SAFE_CALLS:
        return
    if isinstance(node, ast.Name) and node.id in VISITORS:
        yield node.id
    if isinstance(node, ast.Attribute) and node.attr in VISITORS:
        yield node.attr
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):  # what it runs over is seen where it is written
            continue
        yield from loose(child)


def formatted(module: ast.Module) -> list[str]:
    """Every piece of Markdown that is made of visitors' text as it is, by line."""
    found = []
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in MARKDOWN:
            continue
        root = node.func.value
        if isinstance(root, ast.Name) and root.id in ("log", "logging", "page", "run_words"):
            continue  # no Streamlit
        asked = node.args[:1] + [
            one.value for one in node.keywords if one.arg in ("label", "help", "body")
        ]
        for part in asked:
            found += [f"line {node.lineno}: {name} in {node.func.attr}()" for name in loose(part)]
    return found


@pytest.mark.parametrize("path", DASHBOARD, ids=named)
def test_no_text_of_a_visitor_is_markdown_unless_it_is_escaped(path: Path) -> None:
    ours = {name for file, name in OURS if file == named(path)}
    found = formatted(tree(path))
    assert [one for one in found if one.split(": ")[1].split(" in ")[0] not in ours] == []
    assert ours <= {one.split(": ")[1].split(" in ")[0] for one in found}  # no stale exception


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("st.error(f'{name}: {error}')", 1),
        ("st.error(str(error))", 1),
        ("st.caption(found.provenance)", 1),
        ("left.markdown(f'**{printable_name(name)}**')", 1),
        ("st.button('x', help=reason)", 1),
        ("st.button(label=st.query_params['a'])", 1),
        ("st.error(plain(f'{name}: {error}'))", 0),
        ("st.info(f'A: {plain(reason)}')", 0),
        ("st.caption(f'{len(notes)} notes')", 0),
        ("st.code(error.conversion)", 0),
        ("log.error('%s', error)", 0),
    ],
)
def test_the_search_for_markdown_tells_escaped_text_from_other(code: str, count: int) -> None:
    assert len(formatted(ast.parse(code))) == count


# Where a file is removed, and whose: nothing that a visitor does removes a run that is finished.
REMOVED = {
    "dashboard/counters.py": 2,  # sockets of servers that ended
    "posenc/lab/holder.py": 1,  # who does an entry
    "posenc/lab/making.py": 1,  # the checkpoint of a run that is in the store
    "posenc/lab/queue.py": 3,  # an entry that ended, what is beside it, and its text
    "posenc/lab/upkeep.py": 1,  # checkpoints and leftovers of long ago
    "posenc/run_files.py": 1,  # the temporary file of a write that failed
}
REMOVING = {"unlink", "rmdir", "rmtree", "rm", "rm_file", "removedirs", "delete", "_rm"}


def test_nothing_removes_a_run_that_is_finished() -> None:
    found: dict[str, int] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="os"), attr="remove" | "unlink"):
                    removes = True
                case ast.Attribute(attr=name):
                    removes = name in REMOVING
                case _:
                    removes = False
            if removes:
                name = path.relative_to(ROOT).as_posix()
                found[name] = found.get(name, 0) + 1
    assert found == REMOVED
