"""Equations from data: which terms, and how sure."""
# %% [markdown]
# A trajectory is measured with noise, and its equations of motion are wanted: dx/dt = Θ(x) ξ,
# where the columns of Θ are candidate terms (1, x, y, z, x², xy, …) and few of them act. This is
# *sparse identification of nonlinear dynamics* (Brunton, Proctor, Kutz 2016). Its well-known test
# is the Lorenz system, with seven terms.

# %%
import itertools
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.integrate
import scipy.signal

import cofem
from cofem.fields import SparseBayesOptimizer

step, window, degree = 0.002, 31, 4
terms = [c for n in range(4) for c in itertools.combinations_with_replacement("xyz", n)]
names = ["1" if not term else "".join(term) for term in terms]
truth = np.zeros((len(terms), 3))
for name, equation, value in [("x", 0, -10), ("y", 0, 10), ("x", 1, 28), ("y", 1, -1),
                              ("xz", 1, -1), ("z", 2, -8 / 3), ("xy", 2, 1)]:  # fmt: skip
    truth[names.index(name), equation] = value


def library(points):
    """Return every candidate term at every point, (T, 20)."""
    named = dict(zip("xyz", points.T, strict=True))
    return np.stack([np.prod([named[v] for v in t] + [np.ones(len(points))], axis=0)
                     for t in terms], axis=1)  # fmt: skip


def lorenz(_, point):
    """Return the velocity at a point."""
    return library(point[None])[0] @ truth


times = np.arange(0, 6, step)
clean = scipy.integrate.solve_ivp(lorenz, (0, 6), [-8, 7, 27], t_eval=times, rtol=1e-8).y.T
rng = np.random.default_rng(0)
noisy = clean + 0.001 * clean.std(axis=0) * rng.standard_normal(clean.shape)

# %% [markdown]
# Velocities have to be made from noisy positions. A polynomial of degree four is fitted to every
# 31 samples (Savitzky and Golay); its value and its slope are used.

# %%
smooth, velocity = (
    scipy.signal.savgol_filter(noisy, window, degree, deriv=k, delta=step, axis=0)[window:-window]
    for k in (0, 1)
)
theta = library(smooth)
print("candidates:", theta.shape, " sizes of the columns: 1 …", f"{np.abs(theta).max():.0f}")

# %% [markdown]
# ## One fit for every equation
#
# The columns have sizes from 1 to 10⁵, and nothing was scaled. Neither a threshold nor the noise
# is given.

# %%
began = time.perf_counter()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cofem.ConvergenceWarning)
    posts = [cofem.fit(theta, v) for v in velocity.T]
seconds = time.perf_counter() - began
for equation, post in enumerate(posts):
    low, high = post.interval(0.95)
    print(f"d{'xyz'[equation]}/dt")
    for j in np.flatnonzero(post.support()):
        interval = f"[{low[j]:9.4f}, {high[j]:9.4f}]"
        print(f"   {names[j]:4} {post.mean[j]:9.4f}   {interval}   true {truth[j, equation]:g}")

# %% [markdown]
# ## Smoothed rows are not independent
#
# The fit finds too many terms: small ones, whose intervals exclude zero. It assumes that the 3,000
# rows are independent, and they are not: every 31 samples were replaced by a polynomial with 5
# coefficients, so a row contains as much information as 5/31 of a sample, and neighbouring rows
# have nearly the same error. `SparseBayesOptimizer` takes this share as `independent=5 / 31`. It
# fits each equation as one regression of scikit-learn's kind, in which every row counts 5/31.

# %%
began = time.perf_counter()
optimizer = SparseBayesOptimizer(independent=(degree + 1) / window).fit(theta, velocity)
optimizer_seconds = time.perf_counter() - began
for equation in range(3):
    print(f"d{'xyz'[equation]}/dt")
    for j in np.flatnonzero(optimizer.ind_[equation]):
        low, high = optimizer.coef_low_[equation, j], optimizer.coef_high_[equation, j]
        interval = f"[{low:9.4f}, {high:9.4f}]"
        print(f"   {names[j]:4} {optimizer.coef_[equation, j]:9.4f}   {interval}   "
              f"true {truth[j, equation]:g}")  # fmt: skip

# %% [markdown]
# ## Beside PySINDy
#
# Its default, STLSQ, drops coefficients below a threshold and fits the rest again. The threshold
# is the user's: it has to lie below the smallest true coefficient, here 1.


# %%
def judge(found):
    """Return the error in per cent, false terms and missed terms."""
    error = 100 * np.linalg.norm(found - truth) / np.linalg.norm(truth)
    return error, np.sum((found != 0) & (truth == 0)), np.sum((found == 0) & (truth != 0))


def show(name, found, seconds):
    """Print a line of the table."""
    error, false, missed = judge(found)
    print(f"{name:28} {error:9.3f} {false:12d} {missed:8d} {seconds:9.2f}")


print(f"{'':28} error (%)  false terms   missed   seconds")
mean = np.stack([np.where(post.support(), post.mean, 0) for post in posts], axis=1)
show("cofem, rows as independent", mean, seconds)
show("cofem, a row counts 5/31", optimizer.coef_.T, optimizer_seconds)
show("least squares", np.linalg.lstsq(theta, velocity, rcond=None)[0], 0.0)
try:
    import pysindy

    for threshold in (0.02, 0.5, 2.0):
        began = time.perf_counter()
        rival = pysindy.STLSQ(threshold=threshold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a threshold that is too large says so
            rival.fit(theta, velocity)
        took = time.perf_counter() - began
        show(f"PySINDy, threshold {threshold:g}", np.asarray(rival.coef_).T, took)
except ModuleNotFoundError:
    print("PySINDy is not installed")

# %%
figure, ax = plt.subplots(figsize=(8, 3))
for equation in range(3):
    at = np.arange(len(names)) + 0.2 * (equation - 1)
    mean = optimizer.models_[equation].coef_
    low, high = optimizer.coef_low_[equation], optimizer.coef_high_[equation]
    bars = np.maximum([mean - low, high - mean], 0)  # a mean may lie beside the atom at zero
    ax.errorbar(at, mean, bars, fmt="o", markersize=3, label=f"d{'xyz'[equation]}/dt")
ax.set_xticks(range(len(names)), names, fontsize=7)
ax.set(yscale="symlog", ylabel="coefficient, 95 %")
ax.legend()

# %% [markdown]
# With a good threshold STLSQ is as accurate, faster, and has no error bars; with a bad one it loses
# terms. `benchmarks/fields_sindy.py` counts false and missed terms and how often the intervals
# cover the truth, at three levels of noise and ten trajectories each.
#
# ## Inside PySINDy
#
# `SparseBayesOptimizer` takes the place of any of PySINDy's optimizers; coefficients outside the
# support are exactly zero, and the intervals are attributes afterwards.
#
# ```
# optimizer = SparseBayesOptimizer(independent=5 / 31)
# model = pysindy.SINDy(
#     optimizer=optimizer,
#     feature_library=pysindy.PolynomialLibrary(degree=3),
#     differentiation_method=pysindy.SmoothedFiniteDifference(
#         smoother_kws={"window_length": 31, "polyorder": 4}),
# )
# model.fit(noisy, t=step)
# model.print()
# optimizer.coef_low_, optimizer.coef_high_, optimizer.coef_probability_
# ```

# %%
plt.show()
