"""Joint and complex: directions of arrival."""
# %% [markdown]
# A line of M antennas half a wavelength apart hears a few distant sources. The snapshot at time ℓ
# is y_ℓ = Φz_ℓ + noise: column j of Φ is how the array answers a wave from angle θ_j, a complex
# exponential, and z_ℓ holds the amplitudes of the sources at that moment. The amplitudes change
# from snapshot to snapshot; the directions do not. So the snapshots are **joint tasks**: one
# prior precision α_j per direction, shared by all of them.

# %%
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
# One `phi` and `y` of shape (L, N): L joint tasks. Complex data need nothing special; E|noise|²
# is 1/β.

# %%
phi = steering(angles)
post = cofem.fit(phi, y, noise_precision=1 / sigma**2, max_iter=500, tol=1e-3)
print(post.mean.shape, post.precision.shape)
power = np.sqrt(np.mean(np.abs(post.mean) ** 2, axis=0))
peaks = [j for j in range(1, len(angles) - 1) if power[j] > max(power[j - 1], power[j + 1], 0.1)]
print("directions found:", angles[peaks])

# %% [markdown]
# A conventional beamformer sees one broad hump where there are two sources: their distance, 6°,
# is less than the width of the beam, 2/M radians or 7°.

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
# One snapshot alone has 16 numbers for 180 directions. Every snapshot by itself would put the
# sources somewhere else:

# %%
alone = [
    cofem.fit(phi, row, noise_precision=1 / sigma**2, max_iter=500, tol=1e-3) for row in y[:5]
]
for single in alone:
    print(angles[np.abs(single.mean) > 0.3])

# %% [markdown]
# ## How sure?
#
# A complex coordinate has no interval; `post.std` is √E|z − μ|², the radius of its cloud. Ask for
# the support: coordinates whose cloud excludes zero.

# %%
inside = post.support(0.999)
print("snapshots in which each found direction is present:", inside[:, peaks].sum(axis=0))
amplitude_error = np.abs(post.mean[:, peaks[0]] - amplitudes[:, 0])
print(f"first source: error {np.median(amplitude_error):.3f}, std {post.std[0, peaks[0]]:.3f}")

# %% [markdown]
# The grid matters: sources were on it here. A source between two grid points is shared by its
# neighbours. Use a grid several times finer than the beam, and read neighbours together.
