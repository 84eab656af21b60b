"""What is known of every coordinate, as named columns: the body of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cofem import backend

if TYPE_CHECKING:
    from cofem.result.posterior import Posterior


def columns_of(
    post: Posterior, level: float = 0.95, split_complex: bool = True
) -> dict[str, np.ndarray]:
    """Return mean, std, interval, probability and support, each in the shape of z.

    A complex mean has no interval; it is two columns, mean_real and mean_imag, unless
    ``split_complex`` is False.

    Examples
    --------
    >>> import cofem
    >>> post = cofem.posterior(np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=3.0)
    >>> list(columns_of(post))
    ['mean', 'std', 'low', 'high', 'support']
    """
    mean = backend.to_numpy(post.mean)
    is_complex = np.iscomplexobj(mean)
    support = backend.to_numpy(post.support(level))  # first: it refuses a wrong level
    columns = {"mean": mean}
    if is_complex and split_complex:
        columns = {"mean_real": mean.real, "mean_imag": mean.imag}
    columns["std"] = backend.to_numpy(post.std)
    if not is_complex:
        low, high = post.interval(level)
        columns |= {"low": backend.to_numpy(low), "high": backend.to_numpy(high)}
    if post.probability is not None:
        columns["probability"] = backend.to_numpy(post.probability)
    columns["support"] = support
    return columns
