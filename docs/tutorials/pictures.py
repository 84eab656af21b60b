"""Pictures, and a page to keep."""
# %% [markdown]
# `print(post)` gives a summary in one line. In a notebook you see a picture and a table instead.

# %%
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import plot, simulate
from cofem.operators import Autoregressive
from cofem.result import page

problem = simulate.dct(D=1200, seed=0)
post = cofem.fit(problem.phi, problem.y, noise_precision=problem.noise_precision)
print(post)

# %% [markdown]
# The functions of `cofem.plot` draw on the axes that you give them, or on new ones, and return
# them; the rest is matplotlib. `plot.posterior` shows a stretch of coordinates with their
# intervals, around the largest ones; the truth can be given where it is known.

# %%
figure, (top, bottom) = plt.subplots(2, figsize=(9, 6), layout="constrained")
plot.posterior(post, problem.z, ax=top)
plot.errors(post, problem.z, ax=bottom)

# %% [markdown]
# All coordinates at once: `plot.support` has the mean on one axis and the standard deviation on
# the other. Grey are the coordinates that are not in the support.

# %%
plot.support(post)

# %% [markdown]
# `plot.history` shows how the fit converged, iteration by iteration:

# %%
plot.history(post)

# %% [markdown]
# If the unknowns are an image, `plot.variance_map` draws the standard deviations as one; here of
# 1,200 coefficients in 30 rows.

# %%
plot.variance_map(post, (30, 40))

# %% [markdown]
# For signals, `plot.traces` draws the data and the fit. Joint tasks are shown
# one at a time.

# %%
rng = np.random.default_rng(0)
kernel = Autoregressive((0.95,), 400)
events = np.where(rng.random(400) < 0.03, 1.0, 0.0) * rng.uniform(0.5, 1.5, size=(3, 400))
data = kernel.forward(events) + 0.1 * rng.normal(size=(3, 400))
joint = cofem.fit(kernel, data, noise_precision=100.0, nonnegative=True, tol=1e-2)
plot.traces(joint, task=1)

# %% [markdown]
# `cofem report out.npz -o report.html`, or `page.report` in Python, puts figures, settings,
# convergence and versions into one page, which opens without a network.

# %%
with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder, "report.html")
    out.write_text(page.report(post, "1,200 DCT coefficients"), encoding="utf-8")
    print(f"{out.stat().st_size / 1e3:.0f} kB")

# %%
plt.show()
