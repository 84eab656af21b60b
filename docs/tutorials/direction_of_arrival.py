"""Joint and complex: directions of arrival."""
# %% [markdown]
# A line of M antennas half a wavelength apart receives signals of a few distant sources. The
# snapshot at time ℓ is y_ℓ = Φz_ℓ + noise: column j of Φ is how the array answers a wave from angle
# θ_j, a complex exponential, and z_ℓ holds the amplitudes of the sources at that moment. The
# amplitudes change from snapshot to snapshot; the directions do not. So the snapshots are **joint
# tasks**: one prior precision α_j per direction, shared by all of them.

# %%
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import cofem

rng = np.random.default_rng(0)
n_antennas, n_snapshots = 16, 20
angles = np.arange(-90, 90, 1.0)
antenna = np.arange(n_antennas)


def steering(degrees):
    """Return the answer of the array to waves from these angles, (M, number of angles)."""
    delay = np.sin(np.deg2rad(np.atleast_1d(degrees)))
    return np.exp(1j * np.pi * antenna[:, None] * delay[None, :]) / np.sqrt(n_antennas)


def complex_normal(*shape):
    """Return circular complex numbers with E|x|² = 1."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


sources = np.array([-30.0, 11.0, 17.0])  # the last two are closer than the beam is wide
amplitudes = complex_normal(n_snapshots, 3) * np.array([1.0, 2.0, 1.5])
sigma = 0.1
y = amplitudes @ steering(sources).T + sigma * complex_normal(n_snapshots, n_antennas)
print(y.shape, y.dtype)

# %% [markdown]
# One `phi` and `y` of shape (L, N): L joint tasks. Complex data need nothing special; E|noise|² is
# 1/β.

# %%
phi = steering(angles)
post = cofem.fit(phi, y, noise_precision=1 / sigma**2, max_iter=500, tol=1e-3)
print(post.mean.shape, post.precision.shape)
power = np.sqrt(np.mean(np.abs(post.mean) ** 2, axis=0))
peaks = [j for j in range(1, len(angles) - 1) if power[j] > max(power[j - 1], power[j + 1], 0.1)]
print("directions found:", angles[peaks])

# %% [markdown]
# A conventional beamformer sees one broad hump where there are two sources: their distance, 6°, is
# less than the width of the beam, 2/M radians or 7°.

# %%
beam = np.sqrt(np.mean(np.abs(y @ phi.conj()) ** 2, axis=0))
figure, ax = plt.subplots(figsize=(8, 3))
ax.plot(angles, beam, color="0.6", label="beamformer")
ax.plot(angles, power, label="sparse Bayesian learning")
for source in sources:
    ax.axvline(source, color="k", linewidth=0.6, linestyle=":")
ax.set(xlabel="angle (degrees)", ylabel="root mean square amplitude")
ax.legend()
assert set(sources) <= set(angles[peaks])

# %% [markdown]
# ## Why jointly?
#
# One snapshot alone has 16 complex numbers for 180 directions. Taken one by one, some snapshots
# give the right directions and others do not:

# %%
alone = [cofem.fit(phi, row, noise_precision=1 / sigma**2, max_iter=500, tol=1e-3) for row in y[:5]]
for single in alone:
    print(angles[np.abs(single.mean) > 0.3])

# %% [markdown]
# ## How sure?
#
# A complex coordinate has no interval; `post.std` is √E|z − μ|², the typical distance of z from its
# mean. `post.support()` gives the coordinates that are not zero.

# %%
inside = post.support(0.999)
print("snapshots in which each found direction is present:", inside[:, peaks].sum(axis=0))
amplitude_error = np.abs(post.mean[:, peaks[0]] - amplitudes[:, 0])
print(f"first source: error {np.median(amplitude_error):.3f}, std {post.std[0, peaks[0]]:.3f}")

# %% [markdown]
# ## Beside MUSIC
#
# The standard methods of this field use the covariance of the snapshots: MUSIC (Schmidt 1986),
# which has to be told the number of sources, and Capon's beamformer (1969). They are much faster,
# and as good where snapshots are many and sources independent. Few snapshots make a poor
# covariance, and an echo is a copy of its source, so that the covariance of both has one dimension
# less. Here the noise is unknown to all.


# %%
def peaks_of(spectrum):
    """Return the angles of the three highest peaks."""
    padded = np.pad(spectrum, 1, constant_values=-np.inf)
    tops = np.flatnonzero((spectrum >= padded[:-2]) & (spectrum > padded[2:]))
    return np.sort(angles[tops[np.argsort(-spectrum[tops])[:3]]])


def by_cofem(y):
    """Return the power of every direction."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        return np.mean(np.abs(cofem.fit(phi, y).mean) ** 2, axis=0)


def by_music(y):
    """Return the spectrum of MUSIC for three sources."""
    noise_space = np.linalg.eigh(y.T @ y.conj())[1][:, : n_antennas - 3]
    return 1 / np.sum(np.abs(noise_space.conj().T @ phi) ** 2, axis=0)


def by_capon(y):
    """Return Capon's spectrum, with a little loading."""
    covariance = y.T @ y.conj()
    covariance += 1e-3 * np.trace(covariance).real / n_antennas * np.eye(n_antennas)
    return 1 / np.sum(phi.conj() * np.linalg.solve(covariance, phi), axis=0).real


echo = amplitudes.copy()
echo[:, 2] = echo[:, 1] * np.exp(0.7j)
noise = sigma * complex_normal(n_snapshots, n_antennas)
data = {
    "20 snapshots": y,
    "3 snapshots": y[:3],
    "20, two are echoes": echo @ steering(sources).T + noise,
}
print(f"{'':20} {'':8} directions (the truth is {sources})   seconds")
for kind, snapshots in data.items():
    for name, method in (("cofem", by_cofem), ("MUSIC", by_music), ("Capon", by_capon)):
        began = time.perf_counter()
        spectrum = method(snapshots)
        took = time.perf_counter() - began
        print(f"{kind:20} {name:8} {peaks_of(spectrum)!s:40} {took:8.3f}")

# %% [markdown]
# `benchmarks/fields_doa.py` has twenty draws of each, and a noisier one.
#
# The grid matters: sources were on it here. A source between two grid points is shared by its
# neighbours. Use a grid several times finer than the beam, and read neighbours together.

# %%
plt.show()
