"""Plants faults in the code, one at a time, and reports which of them no test notices.

python -m tests.mutants                    run all
python -m tests.mutants WORD ...           run those whose name contains one of these words
python -m tests.mutants --touched COMMIT   run those whose file or tests changed since a commit
python -m tests.mutants --list             print their names
python -m tests.mutants --changed COMMIT   exchange operators in lines that differ from a commit

Exit status: 1 if a mutant survives or its tests do not end, 2 if one cannot be run.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import torch

from tests.mutants.hostile import MUTANTS_OF_HOSTILE
from tests.mutants.lab import MUTANTS_OF_LAB
from tests.mutants.load import MUTANTS_OF_LOAD
from tests.mutants.models import MUTANTS_OF_MODELS
from tests.mutants.operators import changed_files, operator_mutants
from tests.mutants.other import OTHER_MUTANTS
from tests.mutants.pages import MUTANTS_OF_PAGES
from tests.mutants.runs import Mutant, MutantError, files_of, run
from tests.mutants.schemes import MUTANTS_OF_SCHEMES

MUTANTS = (
    # Frequencies, their angles and tables.
    Mutant("angles in float32", "frequencies.py",
           "torch.cos(angle).mul_(sign), torch.sin(angle).mul_(sign)",
           "torch.cos(angle.float()) * sign, torch.sin(angle.float()) * sign"),
    Mutant("a lost carry between words", "frequencies.py", ".add_(low_sum >> 32)", ".add_(0)"),
    Mutant("cached blocks counted from the first position", "tables.py",
           "_cached(block * _BLOCK, _BLOCK", "_cached(low, _BLOCK"),
    Mutant("sine of a sum with the wrong sign", "tables.py",
           "coarse = torch.complex(sin, cos)", "coarse = torch.complex(sin, -cos)"),
    # Rows for the hooks.
    Mutant("curve with a plus in cos(a + b)", "tables.py",
           "rows = torch.cat((coarse[0], -coarse[1]), dim=-1)",
           "rows = torch.cat(coarse, dim=-1)"),
    # Rotation.
    Mutant("keys of a decoding step taken for queries", "rotation.py",
           "both[:, q.shape[1] :]", "both[:, : k.shape[1]]", ("rotation",)),
    Mutant("untouched features lost", "rotation.py",
           "torch.cat((rotated, x[..., 2 * pairs :]), -1)",
           "torch.cat((rotated, 0 * x[..., 2 * pairs :]), -1)"),
    Mutant("keys not rotated", "schemes/rope.py",
           "apply_rope_to_both(q, k, cos, sin, layout=self.rotary_layout)",
           "apply_rope(q, cos, sin, layout=self.rotary_layout), k"),
    # ALiBi.
    Mutant("even slopes of the power above", "schemes/alibi.py",
           "range(1, 2 * (heads - power), 2)", "range(2, 2 * (heads - power) + 1, 2)"),
    # Learned.
    Mutant("positions past the table wrap around", "schemes/learned.py",
           "self._check_range(int(positions.min()), int(positions.max()))",
           "rows = rows % self.config.max_len", ("hooks",)),
    # Scores and attention.
    Mutant("no 1/sqrt(d)", "schemes/base.py", "return head_dim**-0.5", "return 1.0"),
    Mutant("key heads in the wrong groups", "hook_arguments.py",
           "x.repeat_interleave(shared, dim=1)", "x.repeat(1, shared, 1, 1)"),
    Mutant("a trained curve's gradient one offset off", "toeplitz.py",
           "first = queries - stop", "first = queries - stop + 1", ("attention",)),
    Mutant("window moved the wrong way", "sdpa.py",
           "shift = first_query - first_key", "shift = first_key - first_query"),
    Mutant("a plugin that registers nothing", "plugins.py",
           "if before == SCHEMES:", "if False:", ("plugins",)),
    Mutant("a kind that is taken", "plugins.py",
           "if (present.__module__, present.__qualname__) != (config.__module__, config.__qualname__):",
           "if False:", ("plugins",)),
    Mutant("a query without keys sees all", "sdpa.py",
           "torch.where(sees_any, _sdpa(q, k, v, mask, scale), 0.0)",
           "_sdpa(q, k, v, mask, scale)"),
    Mutant("a curve read one offset late", "toeplitz.py", "queries - stop :", "queries - stop + 1 :"),
    # Modules and setting.
    Mutant("RoPE on the model's width", "schemes/sizes.py",
           "return self.dim if self.equal_width else self.head_dim", "return self.dim",
           ("sizes",)),
    # Closed forms of M_k.
    Mutant("M_k turns backwards", "rotation.py",
           'above = sin if first == "sin" else -sin', 'above = -sin if first == "sin" else sin'),
    # Analyses.
    Mutant("cosine over one norm", "analysis/similarity.py",
           "torch.outer(norms, norms)", "torch.outer(norms, torch.ones_like(norms))",
           ("similarity",)),
    Mutant("wavelength 2 pi theta", "analysis/spectrum.py",
           "wavelengths=2 * math.pi / inv_freq", "wavelengths=2 * math.pi * inv_freq",
           ("extrapolation",)),
    Mutant("nearest seen includes the unseen", "analysis/extrapolation.py",
           "squares[train_length:, :train_length]", "squares[train_length:, : train_length + 1]",
           ("extrapolation",)),
    Mutant("explained variance over n", "analysis/pca.py",
           "torch.from_numpy(pca.explained_variance_)",
           "torch.from_numpy(pca.explained_variance_ * (count - 1) / count)", ("projection",)),
    Mutant("a fit scored on its own half", "analysis/linear_map.py",
           "shuffled[:half], shuffled[half:], later", "shuffled[:half], shuffled[:half], later",
           ("linearity",)),
    Mutant("R^2 against the wrong offsets", "analysis/kernel_claims.py",
           "slope = (steps @ centred) / (steps @ steps)",
           "slope = (steps @ centred) / (steps @ steps) * 1.001", ("properties",)),
    Mutant("tau without its ties", "analysis/properties.py",
           "-np.arange(len(values)))", '-np.arange(len(values)), variant="c")', ("properties",)),
    # What a page asks of one scheme, and what stands behind the newer pages.
    Mutant("outputs of the other order not sorted back", "analysis/word_order.py",
           "outputs[1][places]", "outputs[1]", ("order",)),
    Mutant("Xavier without the vocabulary", "analysis/embedding_sum.py",
           "(2 / (VOCABULARY + dim)) ** 0.5", "(1 / dim) ** 0.5", ("encoding",)),
    Mutant("a bias drawn upside down", "scheme_numbers.py",
           'Encoding(bias, "logit", ())', 'Encoding(-bias, "logit", ())',
           ("encoding",)),
    Mutant("formulas of another base", "latex.py",
           "return number(getattr(self.config, field)) if self.numbers else _SYMBOLS[field]",
           "return number(2 * getattr(self.config, field)) if self.numbers else _SYMBOLS[field]",
           ("encoding",)),
    Mutant("a claim of similarity never false", "claims/distances.py",
           "Status.FALSE if neighbours <= further else status", "status",
           ("claims_of_waves",)),
    *MUTANTS_OF_LAB,
    *MUTANTS_OF_MODELS,
    *MUTANTS_OF_SCHEMES,
    *MUTANTS_OF_HOSTILE,
    *MUTANTS_OF_LOAD,
    *MUTANTS_OF_PAGES,
    *OTHER_MUTANTS,
)  # fmt: skip


def main() -> int:
    """Run the mutants asked for and return the exit status."""
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=lines[0])
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    parser.add_argument("--touched", metavar="COMMIT", help="only mutants of what changed since")
    parser.add_argument("--changed", metavar="COMMIT", help="operators in lines changed since then")
    parser.add_argument("--count", type=int, default=12, help="how many of these (12)")
    parser.add_argument("--seed", default="0", help="which of these (0)")
    options = parser.parse_args()
    mutants: Sequence[Mutant] = MUTANTS
    if options.changed:
        mutants = operator_mutants(options.changed, options.count, options.seed)
    if options.touched:
        changed = changed_files(options.touched)
        mutants = [one for one in mutants if changed & {str(one.file), *files_of(one.tests)}]
    if options.words:
        mutants = [one for one in mutants if any(word in one.name for word in options.words)]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file!s:<44}{mutant.name}")
        return 0
    torch.set_num_threads(1)
    survivors = []
    try:
        for result in run(mutants, options.jobs):
            verdict = {True: "killed", False: "SURVIVED", None: "UNENDED"}[result.killed]
            name = result.mutant.name
            print(f"{verdict:<9}{result.seconds:5.1f} s  {name}  {result.by}", flush=True)
            if not result.killed:
                survivors.append(f"{verdict.lower()}: {name}")
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} killed")
    print(*survivors, sep="\n")
    # Faults made by rule may change nothing that matters: they are reported, no more.
    return 1 if survivors and not options.changed else 0


if __name__ == "__main__":
    sys.exit(main())
