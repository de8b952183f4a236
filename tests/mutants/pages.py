"""Deliberate faults in what pages show: their frames, sentences, links and pinned settings."""

from tests.mutants.runs import Mutant

MUTANTS_OF_PAGES = (
    Mutant("the pinned setting and the current one exchanged", "dashboard/charts/overlay.py",
           '(("B", b), ("A", a))', '(("A", b), ("B", a))', ("compare",)),
    Mutant("the difference of matrices the other way round", "dashboard/compare.py",
           "for panel in (b, a)))", "for panel in (a, b)))", ("compare",)),
    Mutant("a pinned setting without its own fields of schemes", "dashboard/state.py",
           "pairs = {VERSIONED: VERSION} | to_text(setting)",
           'pairs = {VERSIONED: VERSION} | {n: t for n, t in to_text(setting).items() if "." not in n}',
           ("state",)),
    Mutant("an error of a map beside itself for a control", "dashboard/pages/relative_offsets/data.py",
           '"control": found.control.numpy()', '"control": found.error.numpy()', ("page_numbers",)),
    Mutant("pairs with a full turn counted as dimensions", "dashboard/pages/extrapolation/formula.py",
           'f"{covered.full_turn_pairs} of', 'f"{covered.critical_dimension} of', ("page_numbers",)),
    Mutant("one component said to be two", "dashboard/pages/pca/data.py",
           "own[:2].sum()", "own[:1].sum()", ("page_numbers",)),
    Mutant("options of other pages outlive what they belong to", "dashboard/state.py",
           "if isinstance(one, Following) else", "if isinstance(one, Following) and name == page else",
           ("state",)),
    Mutant("a value stays in the address after its control is reset", "dashboard/session.py",
           "if texts != query and not came:", "if texts and texts != query and not came:",
           ("session",)),
    Mutant("the address counts in every run", "dashboard/session.py",
           "if before is None or back or (query and came):", "if before is None or back or query:",
           ("session",)),
    Mutant("a picture that changed said to be the one that is there", "dashboard/previews.py",
           "and sent == sent_bytes(drawn)", "", ("previews",)),
    Mutant("pictures beside a slider that the server drew elsewhere", "dashboard/previews.py",
           'query | {name: [str(drawn).replace(",", "")]}', "query", ("previews",)),
)  # fmt: skip
