"""Two settings on one page: the blocks of B, the current one, joined with those of A, the pinned one.

A page never knows that it is compared. The blocks of B decide the layout; a block of A belongs to that of
the same kind and key, wherever it stands. Lines are overlaid; matrices of A, of B and their difference
stand beside each other; of other texts and of controls those of B are shown. What A alone has comes last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from dashboard.blocks import (
    Block,
    Cards,
    Chart,
    Clocks,
    Columns,
    Data,
    Drawer,
    Findings,
    Lines,
    Matrices,
    Names,
    Page,
    Row,
    Table,
    Tabs,
    Text,
    has_values,
    inside,
    walk,
)  # fmt: skip
from dashboard.charts import overlay
from dashboard.components.matrix import Full, MatrixValues, Panel, Scale, minus
from dashboard.text import listed, plain

Identity = tuple[type[Block], str]


def pages(
    b: Page, a: Page, names: Names, changed: Sequence[str], *, explained: bool = False
) -> Page:
    """Return one page of both settings.

    names: what A and B are called, by what differs. changed: the labels of the controls that differ.
    explained: whether the page says already why some schemes are equal in A and B.
    """
    name_a, name_b = plain(names["A"]), plain(names["B"])
    if a.headline == b.headline:
        headline, beside = f"{name_a}; {name_b}. {b.headline}", ""
    else:
        headline, beside = f"{name_b}. {b.headline}", f"{name_a}. {a.headline}"
    alone = {kind: reason for kind, reason in a.reasons.items() if b.reasons.get(kind) != reason}
    return replace(
        b,
        headline=headline,
        beside=beside,
        reasons={
            **b.reasons,
            **{f"{kind}, A": f"Pinned setting, A: {reason}" for kind, reason in alone.items()},
        },
        blocks=_Both(names, changed, explained).merged(b.blocks, a.blocks),
    )


def identity(block: Block) -> Identity | None:
    """Return what tells a block from others of its kind, None where it is not compared."""
    match block:
        case Chart(key=name) | Matrices(key=name) | Clocks(key=name) | Drawer(key=name):
            return type(block), name
        case Table(key=name) if name:
            return type(block), name
        case Findings(key=name):
            return type(block), name
        case Data(title=name) | Tabs(option=name) | Cards(key=name, each=True):
            return type(block), name
        case Text(both=name) if name:
            return type(block), name
    return None


@dataclass(frozen=True)
class _Both:
    """Joins blocks. Fields as the arguments of `pages`; of_a: blocks not joined yet."""

    names: Names
    changed: Sequence[str]
    explained: bool
    of_a: dict[Identity, Block] = field(default_factory=dict)

    def merged(self, b: Sequence[Block], a: Sequence[Block]) -> list[Block]:
        """Return the blocks of both."""
        of_a = {name: block for block in _apart(a) if (name := identity(block))}
        both = replace(self, of_a=of_a)
        blocks = both.joined(b)
        return [*blocks, *(new for block in of_a.values() for new in both.alone(block))]

    def joined(self, blocks: Sequence[Block]) -> list[Block]:
        """Return blocks of B, each joined with its own of A."""
        joined: list[Block] = []
        for block in blocks:
            name = identity(block)
            joined += self.block(block, None if name is None else self.of_a.pop(name, None))
        return joined

    def block(self, b: Block, a: Block | None) -> list[Block]:
        """Return what is drawn of a block of B and of its own of A, where A has it."""
        match b, a:
            case Chart(), Chart() if b.names == a.names and b.frame.equals(a.frame):
                return [b, Text("The same in A and B.", "caption")]
            case Chart(), Chart() | None:
                return [self.chart(b, a)]
            case Matrices(), Matrices() | None:
                return self.matrices(b, a)
            case Data(), Data() | None:
                return [replace(b, frame=overlay.both(b.frame, _frame(a)))]
            case Findings(), Findings() | None if a is None or not b.frame.equals(a.frame):
                return [replace(b, frame=overlay.compared(b.frame, _frame(a)))]
            case Clocks(), Clocks():
                return [self.clocks(b, a)]
            case Text(), Text() if a.text != b.text:
                named = ((self.names["A"], a), (self.names["B"], b))
                return [replace(one, text=f"{plain(name)}. {one.text}") for name, one in named]
            case Table(), Table():
                titles = (Text(plain(self.names[setting]), "caption") for setting in ("A", "B"))
                return [next(titles), a, next(titles), b]
            case Columns(), _:
                parts = [self.joined(part) for part in b.parts]
                if any(isinstance(block, Columns) for part in parts for block in part):
                    return [block for part in parts for block in part]  # too narrow beside others
                return [replace(b, parts=parts)]
            case Row(), _:
                return [replace(b, blocks=self.joined(b.blocks))]
            case Lines(), _:
                drawers = self.joined(b.drawers)
                return [replace(b, drawers=[one for one in drawers if isinstance(one, Drawer)])]
            case Tabs(), Tabs() | None:
                return [self.tabs(b, a)]
            case Drawer(), Drawer():
                return [self.drawer(b, a)]
            case Cards(each=True), Cards() | None:
                return [self.cells(b, a)]
            case Cards(), _:
                return [
                    replace(b, cells={name: self.joined(part) for name, part in b.cells.items()})
                ]
        return [b]

    def alone(self, a: Block) -> list[Block]:
        """Return what is drawn of a block that A alone has."""
        match a:
            case Chart():
                frame = overlay.both(pd.DataFrame(), a.frame)
                return [replace(a, frame=frame, pinned=self.names)]
            case Matrices():
                return [_heading(self.names["A"]), replace(a, name=self.names["A"])]
            case Data():
                return [replace(a, frame=overlay.both(pd.DataFrame(), a.frame))]
            case Findings():
                return [replace(a, frame=overlay.compared(pd.DataFrame(), a.frame))]
            case Text():
                return [replace(a, text=f"{plain(self.names['A'])}. {a.text}")]
            case Tabs():
                return []  # what they hold stands for itself
            case Drawer():
                return [replace(a, title=f"{a.title} ({plain(self.names['A'])})")]
            case Cards(each=True):
                return [
                    replace(a, cells={name: self.cell(part, "A") for name, part in a.cells.items()})
                ]
            case Table():
                return [Text(plain(self.names["A"]), "caption"), a]
        return [a]

    def chart(self, b: Chart, a: Chart | None) -> Chart:
        """Return the chart of both frames."""
        names = dict.fromkeys((*b.names, *(a.names if a else ())))
        frame = overlay.both(b.frame, _frame(a))
        return replace(b, frame=frame, names=(*names,), pinned=self.names)

    def clocks(self, b: Clocks, a: Clocks) -> Clocks:
        """Return the clocks of both, those of one scheme beside each other."""
        faces = [
            replace(face, subtitle=f"{self.names[setting]}; {face.subtitle}")
            for title in dict.fromkeys(face.title for face in (*b.faces, *a.faces))
            for setting, clocks in (("A", a), ("B", b))
            for face in clocks.faces
            if face.title == title
        ]
        last, text = max(b.last, a.last), f"{b.text} {self.names['A']}. {a.text}"
        return replace(b, faces=faces, last=last, text=text, two=True)

    def tabs(self, b: Tabs, a: Tabs | None) -> Tabs:
        """Return the tabs of B; what A alone has in its open tab comes last in that of B."""
        joined = self.joined(b.blocks)
        names = map(identity, walk(a.blocks if a else ()))
        alone = [self.of_a.pop(name) for name in names if name in self.of_a]
        return replace(b, blocks=[*joined, *(new for block in alone for new in self.alone(block))])

    def cells(self, b: Cards, a: Cards | None) -> Cards:
        """Return the cells of both, each of A before that of B; one that A or B lacks stays empty."""
        both = {"A": a.cells if a else {}, "B": b.cells}
        names = dict.fromkeys((*b.cells, *both["A"]))
        cells = {
            f"{name}, {setting}": self.cell(both[setting].get(name, ()), setting)
            for name in names
            for setting in ("A", "B")
        }
        return replace(b, cells=cells)

    def cell(self, blocks: Sequence[Block], setting: str) -> list[Block]:
        """Return a cell whose headings and pictures say whose they are."""
        name = self.names[setting]
        named: list[Block] = []
        for block in blocks:
            match block:
                case Text(look="heading"):
                    named.append(replace(block, text=f"{block.text}, {plain(name)}"))
                case Chart():
                    key = f"{block.key}_pinned" if setting == "A" else block.key
                    named.append(replace(block, key=key, title=f"{block.title}, {name}"))
                case _:
                    named.append(block)
        return named

    def drawer(self, b: Drawer, a: Drawer) -> Drawer:
        """Return the drawer of both, made when it is opened; its title says what A has for a mark."""
        other = f" (A: {a.mark})" if a.mark != b.mark else ""
        return replace(b, title=b.title + other, make=lambda: self.merged(b.make(), a.make()))

    def matrices(self, b: Matrices, a: Matrices | None) -> list[Block]:
        """Return the matrices of A, those of B and their difference beside each other.

        Panels belong together by their title; those that are equal in both are named and left out.
        """
        pinned = {panel.title: panel for panel in (() if a is None else a.panels)}
        changes = [
            replace(
                panel,
                values=_difference(panel, pinned[panel.title]),
                subtitle="B minus A",
                boundary=None,
            )
            for panel in b.panels
            if panel.title in pinned
        ]
        equal = [panel.title for panel in changes if not has_values(panel)]
        of_a, of_b, changes = (
            [panel for panel in row if panel.title not in equal]
            for row in (pinned.values(), b.panels, changes)
        )
        left_out = bool(of_a or of_b)
        note = [Text(self.unchanged(equal, left_out), "caption")] if equal else []
        if not left_out:  # nothing differs
            return [*note, b]
        both = [*b.panels, *pinned.values()]
        scale = b.scale if isinstance(b.scale, Scale) else b.scale(both)
        rows = [
            (self.names["A"], f"{b.key}_pinned", of_a, scale, self.names["A"]),
            (self.names["B"], b.key, of_b, scale, self.names["B"]),
        ]
        if changes:
            colours = Scale.around_zero(
                [panel.values for panel in changes], f"difference of {b.unit}"
            )
            difference = f"{self.names['B']} minus {self.names['A']}"
            heading = "Difference: B minus A"
            rows.append((heading, f"{b.key}_change", changes, colours, difference))
        drawn = [row for row in rows if row[2]]
        keys = sorted((key for _, key, *_ in drawn), key=lambda key: key != b.key)
        columns: list[list[Block]] = []
        for heading, key, panels, colours, name in drawn:
            text, together = f"{heading}. {b.text}", 1 if panels is changes else b.together
            row = replace(
                b, key=key, panels=panels, scale=colours, name=name, text=text, together=together,
                beside=(*keys,) if len(keys) > 1 else (),
            )  # fmt: skip
            columns.append([_heading(heading), row])
        return [*note, Columns(columns)]

    def unchanged(self, titles: Sequence[str], left_out: bool) -> str:
        """Say which controls, changed from A to B, leave the matrices of these titles as they are.

        left_out: whether these matrices are not drawn, beside others that differ.
        """
        names = listed([*dict.fromkeys(title.partition(", ")[0] for title in titles)])
        if not self.changed:
            return f"A and B are equal for {names}."
        if self.explained:
            return (
                f"Equal in A and B, so not drawn: {names}." if left_out else "The same in A and B."
            )
        controls = listed([f"the {label}" for label in self.changed])
        verb = "do" if len(self.changed) > 1 else "does"
        sentence = f"T{controls[1:]} {verb} not affect {names}"
        equal = "no matrices are drawn of what is equal in A and B" if left_out else "drawn once"
        return f"{sentence}: {equal}."


def _apart(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks and those inside them, but for cells that stay in cells of their own."""
    for block in blocks:
        yield block
        if not (isinstance(block, Cards) and block.each):
            yield from _apart(inside(block))


def _heading(name: str) -> Text:
    return Text(f"**{plain(name)}**")


def _frame(block: Chart | Findings | Data | None) -> pd.DataFrame:
    return pd.DataFrame() if block is None else block.frame


def _difference(b: Panel, a: Panel) -> MatrixValues:
    """Return what B draws minus what A draws, where both draw."""
    rows, columns = map(min, zip(b.values.shape, a.values.shape, strict=True))
    return minus(*(Full(panel.values.dense()[:rows, :columns]) for panel in (b, a)))
