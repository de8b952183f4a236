"""The pages that a state means: one, or all as files, of both settings where one is pinned."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType

from dashboard import compare, controls, state
from dashboard.blocks import Changes, Page, Text, Uses
from dashboard.gallery import write
from dashboard.menu import TITLES
from dashboard.script import uploaded
from dashboard.settings import Setting
from dashboard.state import State
from dashboard.text import listed, plain
from posenc import __version__, fields
from posenc.schemes import SCHEMES

ON_A_SERVER = ("train",)  # pages that show what a server does
LEFT_OUT = (
    "Controls, uploads and Train need the dashboard itself; all else is here, each part of a page in "
    "a file of its own and all tabs under each other."
)


def module_of(folder: str) -> ModuleType:
    """Return the module of a page."""
    return importlib.import_module(f"dashboard.pages.{folder}.page")


def kind_of(folder: str) -> type:
    """Return the class of a page's options."""
    kind: type = module_of(folder).Options
    return kind


def uses_of(now: State, folder: str) -> Uses:
    """Return what a page reads of a setting, which may depend on its options."""
    module = module_of(folder)
    uses: Uses = (
        module.USES(now.of(folder, module.Options)) if callable(module.USES) else module.USES
    )
    return uses


def page_at(now: State, folder: str) -> Page:
    """Return the page that a state means, of both settings where one is pinned."""
    module, uses = module_of(folder), uses_of(now, folder)
    options = now.of(folder, module.Options)
    b, a = now.setting, now.a
    if a is not None:
        read = controls.used(uses, b) | controls.used(uses, a)
        changed = read.intersection(state.differing(b, a))
        # A and B share the schemes. Settings that are equal are compared where the page reads anything.
        if not changed and (state.differing(b, a) or read <= {"schemes"}):
            a = None
    page: Page = module.page(b, options)
    without = _without_base(b, a) if a is not None and uses.schemes else ""
    if a is not None:
        labels = [label for label, *_ in state.differences(b, a)]
        of_a = module.page(a, options)
        page = compare.pages(page, of_a, state.names(b, a), labels, explained=bool(without))
    lead, above = _assumption(b, uses), []
    if a is None and now.a is not None and (differences := state.differences(b, now.a)):
        controls_of_both = listed([f"the {label}" for label, *_ in differences])
        sentence = (
            f"A and B have one result here: nothing on this page depends on {controls_of_both}."
        )
        above.append(Text(sentence, "caption"))
    if without:
        above.append(Text(without, "caption"))
    if lead:
        above.append(Text(plain(lead), "warning"))
    if a is not None and (other := _assumption(a, uses)) and other != lead:
        above.append(Text(f"Pinned setting, A: {plain(other)}", "warning"))
    script = page.script and partial(_whole_script, b, lead, page.script)
    return replace(page, above=(*above, *page.above), script=script)


def _without_base(b: Setting, a: Setting) -> str:
    """Return why schemes are the same in A and B where the base alone differs, "" elsewhere."""
    kinds = [kind for kind in b.schemes if "base" not in fields.rules(SCHEMES[kind])]
    if not kinds or b == a or b.replace(base=a.base) != a:
        return ""
    names = listed([SCHEMES[kind].label for kind in kinds])
    verb, them = ("have", "them") if len(kinds) > 1 else ("has", "it")
    return (
        "The base sets the frequencies of sines and cosines. "
        f"{names} {verb} none, so A and B are the same for {them}."
    )


def _whole_script(setting: Setting, lead: str, script: Callable[[], str]) -> str:
    """Return the script of a page under what it rests on and what it needs."""
    comment = f"# {lead}\n" if lead else ""
    return comment + uploaded(setting) + script()


def _assumption(setting: Setting, uses: Uses) -> str:
    """Return the sentence on what a setting's model rests on, "" where this page uses no such model."""
    if "model" not in controls.used(uses, setting) or setting.real_model is None:
        return ""
    return setting.real_model.config.assumption


def files(now: State) -> dict[str, str]:
    """Return every page at a state as files, but for those that only a server has."""
    titles = {folder: title for folder, title in TITLES.items() if folder not in ON_A_SERVER}
    shown = {folder: _parts(now, folder) for folder in titles}
    states = {name: state for parts in shown.values() for name, (_, state) in parts.items()}
    folders = {name: folder for folder, parts in shown.items() for name in parts}

    def opened(name: str, tabs: Mapping[str, str]) -> Page:
        folder = folders[name]
        return page_at(states[name].changed(folder, kind_of(folder), tabs), folder)

    return write.files(
        {name: opened(name, {}) for name in folders},
        titles,
        f"{about(now)} {LEFT_OUT}",
        {
            folder: {name: title for name, (title, _) in parts.items()}
            for folder, parts in shown.items()
            if len(parts) > 1
        },
        opened,
    )


def _parts(now: State, folder: str) -> dict[str, tuple[str, State]]:
    """Return the title and the state of each part of a page by the name of its file."""
    kind = kind_of(folder)
    parts: Mapping[str, Changes] = vars(kind).get("PARTS", {TITLES[folder]: {}})
    names = [folder, *(f"{folder}-{n}" for n in range(2, len(parts) + 1))]
    return {
        name: (title, now.changed(folder, kind, changes))
        for name, (title, changes) in zip(names, parts.items(), strict=True)
    }


def about(now: State) -> str:
    """Return what the numbers were made with: what differs from the defaults, in A too if it is pinned."""
    if now.a is None:
        return f"Made by posenc {__version__} {_chosen(now.setting)}."
    return f"Made by posenc {__version__}: A {_chosen(now.a)}; B {_chosen(now.setting)}."


def _chosen(setting: Setting) -> str:
    parts = [f"{label} {text}" for label, text, _ in state.differences(setting, Setting())]
    return f"with {listed(parts)}, all else at its default" if parts else "at its defaults"
