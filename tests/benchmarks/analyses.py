"""The analyses beside the general methods that they replace, and scikit-learn's, on one thread.

python -m tests.benchmarks.analyses [--rounds 7]

Prints how many times faster, by the median of paired samples of one run. Targets: the offset curve alone
300x the full Gram matrix at 4,096 positions of width 512; principal components 3x scikit-learn's "auto"
at 32,768 positions of width 512. tests/library has the errors.
"""

import torch
from sklearn.decomposition import PCA, KernelPCA
from threadpoolctl import threadpool_limits

from posenc import offset_curve, position_kernel, position_vectors
from posenc.analysis import expand_curve, project, project_gram
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from tests.benchmarks.timing import Contenders, options, paired_seconds, ratio, table


def compare(title: str, contenders: Contenders, to: str, rounds: int) -> None:
    """Print how much faster than `to` each contender is."""
    samples = paired_seconds(contenders, rounds=rounds)
    rows = {name: {"faster": ratio(samples, to, name)} for name in contenders}
    print(table(title, rows), end="\n\n")


def similarity(rounds: int) -> None:
    """One curve by offset, and the matrix written out from it, against all inner products."""
    scheme = SinusoidalConfig(dim=512).build()
    rows = position_vectors(scheme, 4_096).float()
    curve = offset_curve(scheme, 4_096)
    contenders = {
        "Gram, float32": lambda: rows @ rows.T,
        "one row: offset curve": lambda: offset_curve(scheme, 4_096),
        "all: from the curve at hand": lambda: expand_curve(curve),
        "all: position_kernel": lambda: position_kernel(scheme, 4_096),
    }
    compare("kernel, T=4096, d=512", contenders, "Gram, float32", rounds)


def principal_components(rounds: int) -> None:
    """Scores of a sinusoidal table on three components."""
    scheme = SinusoidalConfig(dim=512).build()
    rows = position_vectors(scheme, 32_768)
    contenders = {
        "scikit-learn auto": lambda: PCA(n_components=3).fit_transform(rows.numpy()),
        "project": lambda: project(rows).scores,
    }
    compare("PCA, 32768x512, k=3", contenders, "scikit-learn auto", rounds)


def kernel_components(rounds: int) -> None:
    """Scores from ALiBi's kernel on three components, without its vectors."""
    kernel = position_kernel(AlibiConfig(heads=8).build(), 2_048)
    peer = KernelPCA(n_components=3, kernel="precomputed", eigen_solver="dense")
    contenders = {
        "scikit-learn KernelPCA": lambda: peer.fit_transform(kernel.numpy()),
        "project_gram": lambda: project_gram(kernel).scores,
    }
    rounds = max(3, rounds // 2)
    compare("PCA of ALiBi's kernel, T=2048, k=3", contenders, "scikit-learn KernelPCA", rounds)


def main() -> None:
    rounds = options(__doc__, rounds=7).rounds
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        similarity(rounds)
        principal_components(rounds)
        kernel_components(rounds)


if __name__ == "__main__":
    main()
