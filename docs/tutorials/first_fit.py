"""A first fit."""
# %% [markdown]
# You have N measurements `y` of D unknowns `z`, more unknowns than measurements, through a known
# linear map Φ:
#
# $$y = Φz + \text{noise},$$
#
# and most entries of z are zero.
#
# Here Φ takes random samples of a signal whose cosine transform is sparse. You give `phi` and
# `y`, and you get the posterior of `z`: a mean and a standard deviation for every entry.

# %%
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import plot
from cofem.operators import DCT

rng = np.random.default_rng(0)
D, N = 3000, 1000
z = np.zeros(D)
z[rng.choice(D, size=200, replace=False)] = rng.normal(scale=2.0, size=200)
phi = DCT(D, rows=np.sort(rng.choice(D, size=N, replace=False)))
y = phi.forward(z) + 0.01 * rng.standard_normal(N)

post = cofem.fit(phi, y)
print(post)

# %% [markdown]
# Nothing had to be tuned: how many coefficients are zero, how large the others are, and how large
# the noise is were all learned from the data. `noise_precision` is β = 1/σ²; here σ = 0.01, so
# the truth is 10,000.

# %%
error = np.linalg.norm(post.mean - z) / np.linalg.norm(z)
print(f"relative error {100 * error:.1f} %")
print(f"noise: estimated {post.noise_precision**-0.5:.4f}, true 0.0100")
assert error < 0.05

# %% [markdown]
# ## Error bars
#
# `post.std` has the shape of z. `post.interval(0.95)` gives the ends of the 95 % interval of each
# coefficient, `post.probability` the probability that it is not zero, and `post.support()` names
# as many coefficients as it can while at most 5 % of them are expected to be false.

# %%
low, high = post.interval(0.95)
found = post.support()
print(f"{found[z != 0].sum()} of {np.count_nonzero(z)} non-zeros are in the support")
print(f"{found[z == 0].sum()} of {np.count_nonzero(z == 0)} zeros are in it too")
print(f"{np.sum(post.probability > 0.5)} coefficients are more likely real than not")
plot.posterior(post, z)

# %% [markdown]
# ## Keep it
#
# A posterior is one file of plain arrays, without pickle. The operator is not in it; give it to
# `load` if you want to draw samples or predict later.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "posterior.npz")
    post.save(path)
    again = cofem.load(path, phi)
print(np.array_equal(again.mean, post.mean), again.sample(3, seed=0).shape)

# %% [markdown]
# From files and without Python: `cofem solve phi.npy y.npy -o posterior.npz`. Then `cofem report
# posterior.npz` makes a page of it ([the command line](../command_line.md)).
#
# Next: [your own operator](your_operator.md), or [what the error bars do not
# promise](uncertainty.md).

# %%
plt.show()
