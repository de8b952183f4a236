"""Names that a visitor may give, and the formatting in them that no page may show."""

# Each holds several kinds of formatting; together they fit the length of a tensor's name.
NAMES = {
    "HTML": "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
    "![](http://evil.example/p.png)[a](javascript:window.pwned=1):red[x] :material/lock: :small[y]",
    "text": "http://evil.example www.evil.example a@evil.example $\\href{http://evil.example}{x}$ $$y$$ "
    "**b** *i* `c` ~~s~~ # h\n- a\n1. c\n> d\u202egnp.x\u202c\u200ba\0b\r\x1b[31m../../etc/passwd",
    "formula": "=cmd|' /C calc'!A0 a.b[0]:Q " + "n" * 100,
}
FORMATTING = (
    "<img", "<script", "![](", "](javascript", "http://", "www.evil", "a@evil", ":red[",
    ":material/lock", ":small[y", "$\\href", "$$y", "**b**", "`c`", "~~s~~", "\u202e",
)  # fmt: skip
