"""The Markdown of the pages as HTML: emphasis, code, lists, links, formulas and icons, nothing else.

The texts are those of `dashboard.blocks`; names that visitors chose are escaped in them by
`dashboard.text.plain`. No text becomes a tag: all of it is escaped first.
"""

import html
import re

from dashboard.mathml import mathml

_ICON = re.compile(r":material/\w+: ?")
_STASH = "\ue000{}\ue001"  # in place of what must not be read again
_STASHED = re.compile("\ue000(\\d+)\ue001")
_SIGNS = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|$:<>~&@/])")
_CODE = re.compile(r"(\\.)|`([^`]+)`")  # a backtick behind a backslash begins none
_FORMULA = re.compile(r"(?<!\\)\$([^$]+?)(?<!\\)\$")
_LINK = re.compile(r"\[([^\]]+)\]\((https://[^)\s]+)\)")
_SMALL = re.compile(r":small\[([^\]]*)\]")
_BADGE = re.compile(r":(\w+)-badge\[([^\]]*)\]")
_STRONG = re.compile(r"\*\*(.+?)\*\*")
_EMPHASIS = re.compile(r"(?<!\w)[*_](\S(?:.*?\S)?)[*_](?!\w)")


def inline(text: str) -> str:
    """Return a line of Markdown as HTML."""
    stashed: list[str] = []

    def keep(content: str) -> str:
        stashed.append(content)
        return _STASH.format(len(stashed) - 1)

    text = text.replace("\ue000", "").replace("\ue001", "")
    text = _CODE.sub(lambda one: one[1] or keep(f"<code>{html.escape(one[2])}</code>"), text)
    text = _FORMULA.sub(lambda one: keep(mathml(one[1], block=False)), text)
    text = _SIGNS.sub(lambda one: keep(html.escape(one[1])), text)
    text = _LINK.sub(
        lambda one: keep(f'<a href="{html.escape(one[2])}">{inline(one[1])}</a>'), text
    )
    text = html.escape(_ICON.sub("", text), quote=False)
    text = _SMALL.sub(r"<small>\1</small>", text)
    text = _BADGE.sub(r'<span class="badge \1">\2</span>', text)
    text = _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<strong>\1</strong>", text))
    while _STASHED.search(text):
        text = _STASHED.sub(lambda one: stashed[int(one[1])], text)
    return text


def paragraphs(text: str) -> str:
    """Return Markdown of several paragraphs and lists as HTML."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if all(line.lstrip().startswith(("- ", "* ")) for line in lines):
            items = "".join(f"<li>{inline(line.lstrip()[2:])}</li>" for line in lines)
            parts.append(f"<ul>{items}</ul>")
        else:
            parts.append(f"<p>{'<br>'.join(map(inline, lines))}</p>")
    return "".join(parts)
