"""Sources in the brain: groups of three, noise unknown."""
# %% [markdown]
# Magnetometers around the head measure the field of a few small currents inside. Column j of Φ, the
# *leadfield*, is what a unit current at place j does to the sensors. There are more places than
# sensors, neighbouring columns are nearly alike, and a current has a direction: each place has
# three columns, which are active together or not at all. This is what `groups` is for. All samples
# of a recording have the same sources: they are joint tasks.
#
# The head here is a conducting sphere, whose leadfield has a formula (Sarvas 1987): B_r ∝ (p ×
# q)·r /
# |r − p|³ for a radial sensor at r and a current q at p.

# %%
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import cofem


def directions(n):
    """Return n directions spread evenly over the upper half of a sphere, (n, 3)."""
    k = np.arange(n) + 0.5
    z, angle = 1 - k / n, np.pi * (1 + 5**0.5) * k
    return np.stack([np.sqrt(1 - z**2) * f for f in (np.cos(angle), np.sin(angle))] + [z], axis=1)


rng = np.random.default_rng(0)
n_sensors, n_places, n_samples = 64, 100, 20
sensors = 0.12 * directions(n_sensors)
places = rng.uniform(0.04, 0.08, (n_places, 1)) * directions(n_places)
distance = np.linalg.norm(sensors[:, None] - places, axis=2)
leadfield = np.stack(
    [sensors @ np.cross(places, axis).T / distance**3 for axis in np.eye(3)], axis=2
).reshape(n_sensors, 3 * n_places)
leadfield /= np.abs(leadfield).max()
print("the leadfield:", leadfield.shape)

# %% [markdown]
# Three sources with their own directions and rhythms, at 20 dB.

# %%
active = np.array([12, 47, 80])
t = np.linspace(0, 1, n_samples)
z = np.zeros((n_samples, n_places, 3))
for place, frequency in zip(active, (1.0, 1.5, 2.0), strict=True):
    direction = np.cross(places[place], rng.standard_normal(3))  # radial currents are not heard
    seen = np.linalg.norm(leadfield.reshape(n_sensors, n_places, 3)[:, place])
    z[:, place] = np.sin(2 * np.pi * frequency * t)[:, None] * direction
    z[:, place] /= np.linalg.norm(direction) * seen
signal = z.reshape(n_samples, -1) @ leadfield.T
sigma = 0.1 * np.sqrt(np.mean(signal**2))
y = signal + sigma * rng.standard_normal(signal.shape)

# %% [markdown]
# ## One call
#
# One `phi`, `y` of shape (samples, sensors), and a label for every column. The noise is not given.

# %%
groups = np.repeat(np.arange(n_places), 3)


def power(z):
    """Return the mean square of every place."""
    return np.mean(np.reshape(z, (n_samples, n_places, 3)) ** 2, axis=(0, 2))


def by_cofem(**options):
    """Fit all samples together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        return power(cofem.fit(leadfield, y, groups=groups, **options).mean)


# %% [markdown]
# ## Beside the field's own tools
#
# MNE's `gamma_map` is sparse Bayesian learning too, and Champagne is the same model with other
# updates; MNE runs both on plain arrays. eLORETA (Pascual-Marqui 2007) is linear. All three are
# given the noise level.


# %%
def by_mne(mode):
    """Run MNE's solver with MacKay's updates (1) or Champagne's (2)."""
    from mne.inverse_sparse._gamma_map import _gamma_map_opt  # what gamma_map runs

    found, used = _gamma_map_opt(
        y.T.copy(),
        leadfield.copy(),
        alpha=sigma**2,
        maxit=2000,
        update_mode=mode,
        group_size=3,
        verbose=False,
    )
    z = np.zeros((3 * n_places, n_samples))
    z[used] = found
    return power(z.T)


def by_eloreta():
    """Weigh until single sources would be localised exactly."""
    blocks = leadfield.reshape(n_sensors, n_places, 3)
    weights = np.tile(np.eye(3), (n_places, 1, 1))
    for _ in range(20):
        gram = np.einsum("nik,ikl,mil->nm", blocks, weights, blocks, optimize=True)
        inverse = np.linalg.inv(gram + 0.01 * np.trace(gram) / n_sensors * np.eye(n_sensors))
        inner = np.einsum("nik,nm,mil->ikl", blocks, inverse, blocks, optimize=True)
        values, vectors = np.linalg.eigh(inner)
        roots = 1 / np.sqrt(np.maximum(values, 1e-12 * values.max()))
        weights = np.einsum("ikl,il,iml->ikm", vectors, roots, vectors)
    return power(np.einsum("ikl,nil,nm,tm->tik", weights, blocks, inverse, y, optimize=True))


methods = {
    "cofem, noise unknown": by_cofem,
    "cofem, noise known": lambda: by_cofem(noise_precision=[1 / sigma**2] * n_samples),
    "MNE gamma_map, noise known": lambda: by_mne(1),
    "Champagne (MNE), noise known": lambda: by_mne(2),
    "eLORETA, noise known": by_eloreta,
}
found = {}
print(f"{'':30} strongest places   places above 1 %   seconds")
for name, method in methods.items():
    began = time.perf_counter()
    try:
        found[name] = method()
    except ModuleNotFoundError:
        print(f"{name:30} MNE is not installed")
        continue
    strongest = np.sort(np.argsort(-found[name])[:3])
    several = np.sum(found[name] > 0.01 * found[name].max())
    print(f"{name:30} {strongest!s:18} {several:16d} {time.perf_counter() - began:9.2f}")
print(f"{'the truth':30} {active}")

# %%
figure, ax = plt.subplots(figsize=(8, 3))
for name in ("eLORETA, noise known", "cofem, noise unknown"):
    ax.plot(found[name] / found[name].max(), label=name)
for place in active:
    ax.axvline(place, color="k", linewidth=0.6, linestyle=":")
ax.set(xlabel="place", ylabel="power, relative")
ax.legend()
plt.show()

# %% [markdown]
# `benchmarks/fields_meg.py` does this for ten recordings, also with more sources and more noise,
# and for a real leadfield of 204 sensors and 4,686 places where one is given:
# [the tables](../../benchmarks/results/fields_meg.md).
#
# ## With MNE's objects
#
# `cofem.fields.mne_sources` takes an `Evoked`, a `Forward` of fixed or free orientation and, for
# whitening, a noise covariance, whose size it does not need. It gives back a `SourceEstimate`, or
# the kind that the source space has; with `return_posterior=True` also the posterior, whose
# `probability`, `std` and `support` belong to the columns of the gain.
#
# ```
# stc = cofem.fields.mne_sources(evoked, forward, noise_cov)
# stc, post = cofem.fields.mne_sources(evoked, forward, noise_cov, return_posterior=True)
# ```
