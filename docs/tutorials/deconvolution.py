"""Non-negative deconvolution."""
# %% [markdown]
# The data are spikes, seen through a response that decays; spikes cannot be negative. The response
# $c_t = \gamma c_{t-1} + z_t$ is `operators.Autoregressive`. For it the exact posterior takes
# time in proportion to the number of samples (`method="banded"`, chosen automatically).

# %%
import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import calcium, plot
from cofem.operators import Autoregressive, Convolution

rng = np.random.default_rng(0)
n, sigma = 1000, 0.2
phi = Autoregressive((0.95,), n)
z = np.zeros(n)
z[rng.choice(n, size=30, replace=False)] = rng.uniform(0.5, 2.0, size=30)
y = phi.forward(z) + sigma * rng.standard_normal(n)

post = cofem.fit(phi, y, noise_precision=1 / sigma**2, nonnegative=True, prior="ard", max_iter=1000)
print(post)
plot.traces(post)

# %% [markdown]
# With `nonnegative=True` and `prior="ard"` the posterior of every coordinate is a rectified normal
# distribution: that of max(0, x) with x normal.
#
# - `post.mean`, `post.std` and `post.interval` are those of the rectified distribution;
# - `post.probability_of_zero` is the probability that there is no spike;
# - `post.mode` is the positive part of the Gaussian mean;
# - `post.filtered_mode(q)` is the most probable z with spikes only where the probability of zero
#   is below q.

# %%
spikes = post.filtered_mode(q=0.01)
found = np.flatnonzero(spikes)
true = np.flatnonzero(z)
near = [np.min(np.abs(true - t)) <= 1 for t in found]
print(f"{len(found)} spikes, {sum(near)} of them within one sample of a true one (of {len(true)})")
assert sum(near) >= 0.7 * len(found)

# %% [markdown]
# ## A kernel of your own
#
# Any causal kernel works, by FFT. Here with a rise.

# %%
t = np.arange(80)
kernel = np.exp(-t / 20) - np.exp(-t / 3)
measured = Convolution(kernel / kernel.max(), n)
y = measured.forward(z) + sigma * rng.standard_normal(n)
post = cofem.fit(measured, y, noise_precision=1 / sigma**2, nonnegative=True, tol=1e-2)
print(post.method, np.corrcoef(phi.forward(post.mean), phi.forward(z))[0, 1] > 0.95)

# %% [markdown]
# For fluorescence traces use [`cofem.calcium.deconvolve`](../reference/calcium.md): it also finds
# the baseline, the noise and the decay time of every cell.

# %%
dff, spikes = calcium.simulate(n_cells=2, n_frames=1500, framerate=30.0, seed=0)
result = calcium.deconvolve(dff, framerate=30.0, n_jobs=1)
print(result.spikes.shape, result.tau_d.round(2), len(result.events()), "events")

# %% [markdown]
# ## What to keep in mind
#
# The reported evidence is that of the normal posterior, without z ≥ 0. Coordinates are rectified
# one by one, so `sample` draws them independently, and `variance_of` and `predict`, which would
# need to know how they vary together, raise an error.

# %%
plt.show()
