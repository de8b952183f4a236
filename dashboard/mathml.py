r"""Formulas of the pages as MathML, which browsers draw without a script.

Reads the LaTeX that `posenc.latex` and the pages write and no more: names, numbers, scripts, fractions,
roots, brackets, fonts, and environments of rows. Anything else is an error: no formula is shown wrong.
"""

import html
import re

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:[.,][0-9]+)*|\s+|.", re.DOTALL)
_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "varphi": "φ", "phi": "ϕ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "ell": "ℓ", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Sigma": "Σ", "Phi": "Φ",
    "Omega": "Ω",
}  # fmt: skip
_SIGNS = {
    "cdot": "⋅", "times": "×", "in": "∈", "le": "≤", "ge": "≥", "approx": "≈", "sum": "∑", "to": "→",
    "prod": "∏",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "langle": "⟨", "rangle": "⟩", "top": "⊤",
    "ldots": "…", "dots": "…", "cdots": "⋯", "infty": "∞", "mid": "|", "lVert": "‖", "rVert": "‖",
    "forall": "∀", "lvert": "|", "rvert": "|", "{": "{", "}": "}", "|": "‖", "_": "_", "%": "%",
    "Rightarrow": "⇒",
}  # fmt: skip
_SPACES = {",": 0.17, ":": 0.22, ";": 0.28, " ": 0.33, "quad": 1, "qquad": 2, "!": 0}  # em
_NAMES = ("sin", "cos", "tanh", "ln", "log", "exp", "max", "min")
_SIZES = (
    "scriptsize",
    "displaystyle",
    "textstyle",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
)  # left to the page
_WORDS = ("mathrm", "operatorname", "text", "mathit")
# Lines at the sides of an environment: a sign as tall as its rows needs a font that not everybody has.
_BRACKETS = {
    "pmatrix": "border-left:1px solid; border-right:1px solid; border-radius:0.5em/50%",
    "smallmatrix": "font-size:0.8em",
    "bmatrix": "border-left:1px solid; border-right:1px solid",
    "cases": "border-left:1px solid; border-radius:0.5em/50%",
    "aligned": "",
    "gathered": "",
}
_SIDES = {
    "aligned": ("right", "left"),
    "cases": ("left",),
}  # of the columns in turn, else the middle


class UnknownLatex(ValueError):
    """A formula holds LaTeX that is not read here."""


def mathml(latex: str, *, block: bool = True) -> str:
    """Return a formula in LaTeX as MathML. block: whether it stands on a line of its own.

    Raises UnknownLatex for what this module does not read.
    """
    reader = _Reader(_TOKEN.findall(latex))
    content = reader.row()
    if reader.tokens:
        raise UnknownLatex(f"{reader.tokens[0]!r} has no beginning in {latex!r}")
    display = ' display="block"' if block else ""
    return f"<math{display}>{content}</math>"


def _element(name: str, text: str, **attributes: str) -> str:
    written = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{written}>{html.escape(text, quote=False)}</{name}>"


def _fence(sign: str) -> str:
    sign = _SIGNS[sign[1:]] if sign.startswith("\\") else sign
    return "" if sign == "." else _element("mo", sign, stretchy="true")


class _Reader:
    """The tokens of a formula that are not read yet."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def next(self) -> str:
        """Return the next token that is not blank, "" at the end."""
        while self.tokens and self.tokens[0].isspace():
            self.tokens.pop(0)
        return self.tokens[0] if self.tokens else ""

    def take(self) -> str:
        """Take the next token that is not blank."""
        if not self.next():
            raise UnknownLatex("the formula ends too early")
        return self.tokens.pop(0)

    def words(self) -> str:
        """Take a group in braces as text."""
        if self.take() != "{":
            raise UnknownLatex("a group in braces was expected")
        end = self.tokens.index("}")
        text = "".join(self.tokens[:end])
        del self.tokens[: end + 1]
        return text

    def row(self, *ends: str) -> str:
        """Take everything before one of the ends, which stays, as one row."""
        parts = []
        while self.next() not in ("", "}", *ends):
            parts.append(self.scripted())
        return f"<mrow>{''.join(parts)}</mrow>"

    def scripted(self) -> str:
        """Take an atom with what stands at its foot and its head."""
        base, below, above = self.atom(), "", ""
        while self.next() in ("_", "^", "'"):
            sign = self.take()
            if sign == "'":
                above += _element("mo", "′")
            elif sign == "_":
                below = self.atom()
            else:
                above += self.atom()
        above = f"<mrow>{above}</mrow>" if above else ""
        under = base in (_element("mo", "∑"), _element("mo", "∏"))
        names = ("munder", "mover", "munderover") if under else ("msub", "msup", "msubsup")
        name = names[2 if below and above else 1 if above else 0]
        return f"<{name}>{base}{below}{above}</{name}>" if below or above else base

    def atom(self) -> str:
        """Take one name, number, sign, group, fraction, root or environment."""
        sign = self.take()
        if sign == "{":
            content = self.row()
            self.take()
            return content
        if not sign.startswith("\\"):
            return self.character(sign)
        command = sign[1:]
        if command in _WORDS:
            text = (
                self.words().replace(r"\,", " ").replace(" ", "\u00a0")
            )  # blanks at the ends, too
            return _element("mtext" if command == "text" else "mi", text, mathvariant="normal")
        if command == "mathbb":
            return _element("mi", {"R": "ℝ"}[self.words()])
        if command == "mathbf":
            return f'<mrow style="font-weight:bold">{self.atom()}</mrow>'
        if command in ("frac", "tfrac"):
            return f"<mfrac>{self.atom()}{self.atom()}</mfrac>"
        if command in ("bar", "hat"):
            accent = _element("mo", "¯" if command == "bar" else "^")
            return f'<mover accent="true">{self.atom()}{accent}</mover>'
        if command == "sqrt":
            return f"<msqrt>{self.atom()}</msqrt>"
        if command == "left":
            opened, content = self.take(), self.row(r"\right")
            self.take()
            return f"<mrow>{_fence(opened)}{content}{_fence(self.take())}</mrow>"
        if command == "begin":
            return self.environment(self.words())
        if command in _SIZES:
            return ""
        if command in _SPACES:
            return f'<mspace width="{_SPACES[command]}em"/>'
        if command in _NAMES:
            return _element("mi", command) + _element("mo", "\u2061")  # applied to what follows
        if command in _LETTERS:
            return _element("mi", _LETTERS[command])
        if command in _SIGNS:
            return _element("mo", _SIGNS[command])
        raise UnknownLatex(f"{sign} is not read")

    @staticmethod
    def character(sign: str) -> str:
        """Return a number, a letter or a sign."""
        if sign[0].isdigit():
            return _element("mn", sign)
        if sign.isalpha():
            return _element("mi", sign)
        if sign in "()[]|":
            return _element("mo", sign, stretchy="false")
        if sign in "+-=<>,/:*.!;":
            return _element("mo", "−" if sign == "-" else sign)
        raise UnknownLatex(f"{sign!r} is not read")

    def environment(self, name: str) -> str:
        """Take the rows and cells of an environment up to its end."""
        if name not in _BRACKETS:
            raise UnknownLatex(f"the environment {name} is not read")
        rows: list[list[str]] = [[]]
        sides = _SIDES.get(name, ("center",))
        while True:
            cell = self.row("&", r"\\", r"\end")
            side = sides[len(rows[-1]) % len(sides)]
            rows[-1].append(f'<mtd style="text-align:{side}">{cell}</mtd>')
            separator = self.take()
            if separator == r"\end":
                break
            if separator == r"\\":
                rows.append([])
        if self.words() != name:
            raise UnknownLatex(f"the environment {name} does not end")
        table = "".join(f"<mtr>{''.join(row)}</mtr>" for row in rows)
        return f'<mtable displaystyle="true" style="{_BRACKETS[name]}">{table}</mtable>'
