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
n, sigma = 120, 0.15
levels = np.repeat(rng.normal(size=(8, 4)), n // 4, axis=1)  # eight signals, steps in common
y = levels + sigma * rng.standard_normal(levels.shape)
phi, R = Identity(n), FiniteDifference((n,), axis=0)
options = {"noise_precision": 1 / sigma**2, "sparsifier": R, "max_iter": 1000}

post = cofem.fit(phi, y[0], **options)
print(f"error {np.sqrt(np.mean((post.mean - levels[0]) ** 2)):.3f}, noise {sigma}")

# %%
low, high = post.interval(0.95)
figure, ax = plt.subplots(figsize=(8, 3))
ax.plot(y[0], ".", color="0.6", label="data")
ax.fill_between(np.arange(n), low, high, alpha=0.3, label="95 %")
ax.plot(post.mean, label="posterior mean")
ax.plot(levels[0], "k:", linewidth=1, label="truth")
ax.legend(ncols=4, fontsize=8)

# %% [markdown]
# Is there a step at a given place? Ask for the variance of the difference, which is not the
# difference of the variances:

# %%
score = np.abs(R.forward(post.mean)) / np.sqrt(post.variance_of(R))
print("the clearest steps:", np.sort(np.argsort(score)[-4:]))
print("true:", {at: round(float(R.forward(levels[0])[at]), 2) for at in (0, 30, 60, 90)})

# %% [markdown]
# `FiniteDifference` is circular: the jump from the last sample back to the first is the step at
# 0. The small steps of this signal are not found, and some noise is taken for steps: one precision
# α for every difference are too many free numbers for one noisy signal. If several signals have
# steps at the same places, fit them jointly; α is then shared, and its smallest entries are the
# steps.

# %%
joint = cofem.fit(phi, y, **options)
print(f"error {np.sqrt(np.mean((joint.mean - levels) ** 2)):.3f}")
print("steps:", np.sort(np.argsort(joint.precision)[:4]))
assert set(np.argsort(joint.precision)[:4].tolist()) == {0, 30, 60, 90}

# %% [markdown]
# ## More rows than unknowns
#
# R may have more rows than columns: both gradients of an image, or the signal *and* its
# differences. The M-step then counts directions, not rows (`leverage`), so that more rows do not
# mean more sparsity.

# %%
both = stack([R, 0.3 * Identity(n)])
post = cofem.fit(phi, y, **(options | {"sparsifier": both, "tol": 1e-3}))
print(post.precision.shape, f"error {np.sqrt(np.mean((post.mean - levels) ** 2)):.3f}")

# %% [markdown]
# ## Groups and neighbours
#
# There are two other ways to couple coordinates: `groups` gives coordinates with equal labels one
# common precision, and `coupling` averages second moments over a neighbourhood before each M-step.

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

# %%
plt.show()
