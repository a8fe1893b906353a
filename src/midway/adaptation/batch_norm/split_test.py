"""The split test: do the spectra of a cluster have two parts that content alone does not explain?"""

from __future__ import annotations

import torch
from torch import Tensor

FEWEST = 12
"""The number of images from which on a cluster may have two parts."""

LEAST_VARIANCE = 0.1
"""Added to the variances: small differences of log power mean nothing, however small the other ones are."""

LEANING = 30.0
"""The number of images that the covariance of all clusters counts as in that of one cluster."""

DIRECTIONS, EM_STEPS = 3, 8
"""The number of main directions along which EM starts, and of its steps."""


def shrunk(scatter: Tensor, n: float | Tensor) -> Tensor:
    """Return the covariance of n deviations from their scatter, shrunk to its diagonal by d / (d + n).

    In the variances, a prior of 1 counts as two images.

    Example:
        >>> shrunk(2 * torch.eye(2), 2)
        tensor([[1.1000, 0.0000],
                [0.0000, 1.1000]])
    """
    d = scatter.shape[-1]
    variances = (scatter.diagonal() + 2) / (n + 2) + LEAST_VARIANCE
    off_diagonal = 1 - torch.eye(d, dtype=scatter.dtype, device=scatter.device)
    return scatter / (d + n) * off_diagonal + variances.diag()


def threshold(n: float | Tensor) -> float | Tensor:
    """Return what D^2 p (1 - p) of two parts of a cluster with n images has to exceed.

    Example:
        >>> threshold(200)
        5.0
    """
    return 4 + 200 / n


def two_parts(x: Tensor, covariance: Tensor, total: int) -> tuple[float, Tensor]:
    """Divide the spectra of a cluster into two Gaussians with one covariance, by EM started along the main directions.

    The covariance is the cluster's own: clusters vary differently, and that of all would divide the wider ones. Return
    the excess of D^2 p (1 - p) over its threshold, and the share of the smaller part in each image, of the best start.

    Args:
        x: The spectra of the cluster.
        covariance: The covariance within all clusters, which counts as some images in that of this one.
        total: The number of images of all clusters.

    Example:
        >>> spectra = torch.randn(300, 30, generator=torch.Generator().manual_seed(0))
        >>> two_parts(spectra, torch.eye(30), total=1000)[0] < 0
        True
        >>> spectra[280:] += 3
        >>> excess, part = two_parts(spectra, torch.eye(30), total=1000)
        >>> excess > 0, part.round().sum()
        (True, tensor(20.))
    """
    n = len(x)
    z = x - x.mean(dim=0)
    own = (z.T @ z + LEANING * covariance) / (n + LEANING)
    z = torch.linalg.solve_triangular(torch.linalg.cholesky(own), z.T, upper=False).T
    projected = z @ torch.linalg.eigh(z.T @ z).eigenvectors[:, -DIRECTIONS:]
    ordered = projected.sort(dim=0).values
    low, high = ordered[n // 4], ordered[3 * n // 4]
    for _ in range(6):  # 2-means in one dimension
        upper = (projected > (low + high) / 2).to(z)
        high = (upper * projected).sum(dim=0) / upper.sum(dim=0).clamp(min=1)
        low = ((1 - upper) * projected).sum(dim=0) / (n - upper.sum(dim=0)).clamp(min=1)
    part = (projected > (low + high) / 2).to(z).T
    # A split removes p (1 - p) d d^T from the covariance of the n images, and n / total of that from the other one. The
    # sum is the identity in these coordinates; its inverse after the split follows from Sherman and Morrison.
    removable = (n + LEANING * n / total) / (n + LEANING)
    for _ in range(EM_STEPS):
        p = part.mean(dim=1).clamp(1e-4, 1 - 1e-4)
        one = part @ z / (n * p)[:, None]
        difference = one / (1 - p)[:, None]  # the centre of all is 0
        removed = removable * p * (1 - p) * difference.square().sum(dim=1)
        normal = difference / (1 - removed).clamp(min=0.02)[:, None]
        bias = ((2 * one - difference) / 2 * normal).sum(dim=1) - (p / (1 - p)).log()
        part = (normal @ z.T - bias[:, None]).clamp(-50, 50).sigmoid()
    distinct = (difference * normal).sum(dim=1) * p * (1 - p)
    excess = torch.where(torch.minimum(p, 1 - p) * n >= 1.5, distinct - threshold(n), -1.0)
    best = int(excess.argmax())
    return float(excess[best]), part[best] if p[best] <= 0.5 else 1 - part[best]
