"""Your own operator."""
# %% [markdown]
# Φ may be a NumPy array, a torch tensor, a SciPy sparse array, a SciPy or PyLops linear operator,
# one of `cofem.operators`, or two functions of yours. cofem only multiplies with Φ and with its
# adjoint Φᴴ (the transpose, for real numbers).

# %%
import importlib.util

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import cofem
from cofem import operators, plot

rng = np.random.default_rng(1)
D, N = 400, 200
z = np.zeros(D)
z[[20, 111, 250, 333]] = [3.0, -2.0, 1.5, 2.5]

# %% [markdown]
# ## A sparse matrix

# %%
A = scipy.sparse.random_array((N, D), density=0.05, rng=rng, data_sampler=rng.standard_normal)
y = A @ z + 0.01 * rng.standard_normal(N)
post = cofem.fit(A, y)
print(np.flatnonzero(post.support()))

# %% [markdown]
# ## Two functions
#
# Vectors are rows: `forward` gets an array (…, D) and returns (…, N), and `adjoint` the other way
# round. So one call handles a whole batch of vectors, which is faster. Functions that take one
# vector at a time are fine with `batched=False`.
#
# Here: blur, then keep every second sample.

# %%
spectrum = np.exp(-0.5 * (np.fft.rfftfreq(D) / 0.12) ** 2)


def blur(x):
    """Multiply the spectrum; a symmetric kernel is its own adjoint."""
    return np.fft.irfft(np.fft.rfft(x) * spectrum, n=D)


def forward(z):
    """Blur and sample: (…, D) to (…, N)."""
    return blur(z)[..., ::2]


def adjoint(y):
    """Put the samples back and blur: (…, N) to (…, D)."""
    x = np.zeros((*y.shape[:-1], D))
    x[..., ::2] = y
    return blur(x)


phi = operators.from_functions(forward, adjoint, shape=(N, D), dtype=float)
y = forward(z) + 0.01 * rng.standard_normal(N)
post = cofem.fit(phi, y)
print(np.flatnonzero(post.support()), post.method)
plot.posterior(post, z, window=(220, 340))

# %% [markdown]
# The most common mistake is an `adjoint` that does not belong to `forward`. The results then look
# plausible and are wrong. So the pair is tested before the fit begins:

# %%
wrong = operators.from_functions(forward, lambda y: 2 * adjoint(y), shape=(N, D), dtype=float)
try:
    cofem.fit(wrong, y, noise_precision=1e4)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Put operators together
#
# `a @ b`, `a + b`, `2 * a`, `a.H` and `operators.stack` make new operators. The same blur and
# sampling, from parts:

# %%
sampling = operators.from_functions(
    lambda x: x[..., ::2],
    lambda y: np.stack([y, np.zeros_like(y)], axis=-1).reshape(*y.shape[:-1], D),
    shape=(N, D),
    dtype=float,
)
composed = sampling @ operators.Smoothing((D,), sigma=1.5)
operators.check_adjoint(composed)  # raises if it is not the adjoint
print(composed)

# %% [markdown]
# ## PyLops
#
# PyLops operators can be passed directly.

# %%
if importlib.util.find_spec("pylops"):
    import pylops

    lops = pylops.FirstDerivative(D, dtype="float64") + pylops.Identity(D, dtype="float64")
    y = lops @ z + 0.01 * rng.standard_normal(D)
    post = cofem.fit(lops, y)
    print(np.flatnonzero(post.support()))
else:
    print("PyLops is not installed here")

# %%
plt.show()
