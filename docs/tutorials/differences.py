"""Sparsity of differences."""
# %% [markdown]
# Often z itself is not sparse, but Rz is: a piecewise constant signal has sparse differences.
# Give R as `sparsifier`. The posterior is that of the signal; `precision` has one entry for every
# row of R.

# %%
import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem.operators import FiniteDifference, Identity, stack

rng = np.random.default_rng(0)
n, sigma = 240, 0.05
levels = np.repeat([0.0, 1.0, 1.0, -0.5, 0.3, 0.3], n // 6)
y = levels + sigma * rng.standard_normal(n)
seen = rng.random(n) < 0.7  # and three in ten samples are missing
phi = np.eye(n)[seen]

post = cofem.fit(
    phi, y[seen], noise_precision=1 / sigma**2, sparsifier=FiniteDifference((n,), axis=0),
    max_iter=1000, tol=1e-3,
)  # fmt: skip
error = np.sqrt(np.mean((post.mean - levels) ** 2))
print(f"error {error:.3f}, noise {sigma}")
assert error < 0.8 * sigma

# %%
low, high = post.interval(0.95)
figure, ax = plt.subplots(figsize=(8, 3))
ax.plot(np.flatnonzero(seen), y[seen], ".", color="0.6", label="data")
ax.fill_between(np.arange(n), low, high, alpha=0.3, label="95 %")
ax.plot(post.mean, label="posterior mean")
ax.plot(levels, "k:", linewidth=1, label="truth")
ax.legend(ncols=4, fontsize=8)

# %% [markdown]
# A few small steps remain that are noise: one α for every difference is much freedom. Between them the
# mean is the average of many samples, and the interval is far narrower than the noise.
#
# Where are the steps? Ask for the variance of the differences, not the difference of the variances.

# %%
R = FiniteDifference((n,), axis=0)
step = R.forward(post.mean)
z_score = np.abs(step) / np.sqrt(post.variance_of(R))
print("steps at", np.flatnonzero(z_score > 4), "true", np.flatnonzero(R.forward(levels)))

# %% [markdown]
# `FiniteDifference` is circular, so the jump from the last sample back to the first counts too.
#
# ## More rows than unknowns
#
# R may have more rows than columns: both gradients of an image, or the signal *and* its differences.
# The M-step then counts directions, not rows (`leverage`), so that more rows do not mean more
# sparsity.

# %%
both = stack([FiniteDifference((n,), axis=0), 0.3 * Identity(n)])
post = cofem.fit(
    phi, y[seen], noise_precision=1 / sigma**2, sparsifier=both, max_iter=500, tol=1e-2
)
print(post.precision.shape, f"error {np.sqrt(np.mean((post.mean - levels) ** 2)):.3f}")

# %% [markdown]
# ## Groups and neighbours
#
# Two other ties between coordinates: `groups` gives coordinates with equal labels one common
# precision, and `coupling` averages second moments over a neighbourhood before each M-step.

# %%
D = 300
z = np.zeros(D)
z[60:70], z[200:210] = rng.normal(size=10), rng.normal(size=10)
A = rng.normal(size=(100, D)) / 10
b = A @ z + 0.05 * rng.standard_normal(100)
plain = cofem.fit(A, b, noise_precision=400, max_iter=1000, tol=1e-3)
grouped = cofem.fit(A, b, noise_precision=400, groups=np.arange(D) // 10, max_iter=1000, tol=1e-3)
for name, found in (("plain", plain), ("groups of ten", grouped)):
    print(f"{name}: error {100 * np.linalg.norm(found.mean - z) / np.linalg.norm(z):.0f} %")
