"""MRI: images from part of k-space."""
# %% [markdown]
# Three contrasts of one head, a third of k-space. The head is drawn by the code, so this page
# needs no data.

# %%
import matplotlib.pyplot as plt
import numpy as np

from cofem import mri

truth = mri.phantom((64, 64))
mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
rng = np.random.default_rng(0)
noise_std = 0.005
noise = rng.standard_normal(truth.shape) + 1j * rng.standard_normal(truth.shape)
kspace = (mri.to_kspace(truth) + noise_std / np.sqrt(2) * noise) * mask
print(truth.shape, f"{100 * mask.mean():.0f} % of k-space")

# %%
found = mri.reconstruct(kspace, mask, real=True)
zero_filled = np.real(mri.to_image(kspace))
print(f"zero-filled: error {100 * mri.nrmse(zero_filled, truth):.1f} %")
print(f"reconstruct: error {100 * mri.nrmse(found.image, truth):.1f} %")
assert mri.nrmse(found.image, truth) < 0.6 * mri.nrmse(zero_filled, truth)

# %% [markdown]
# Every pixel has a standard deviation. It is largest at the edges, because the sampled part of
# k-space determines the edges least.

# %%
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
shown = (truth[1], zero_filled[1], found.image[1], found.std[1])
for ax, picture, name in zip(axes, shown, ("truth", "zero-filled", "mean", "std"), strict=True):
    drawn = ax.imshow(np.abs(picture), cmap="magma" if name == "std" else "gray")
    ax.set(title=name, xticks=[], yticks=[])
    figure.colorbar(drawn, ax=ax, shrink=0.7, label="intensity (units of the image)")

# %% [markdown]
# Is the standard deviation right? Compare it with the error: about one pixel in twenty
# should be more than 1.96 standard deviations off, and the large errors should be where it is
# large.

# %%
ratio = np.abs(found.image - truth) / found.std
print(f"{100 * np.mean(ratio < 1.96):.0f} % of the pixels are within 1.96 standard deviations")
rank = np.corrcoef(np.argsort(np.argsort(found.std.ravel())),
                   np.argsort(np.argsort(np.abs(found.image - truth).ravel())))[0, 1]  # fmt: skip
print(f"rank correlation of std and error: {rank:.2f}")

# %% [markdown]
# - k-space is centred, as in SigPy, BART and fastMRI; `centered=False` for `numpy.fft`'s order.
# - Coils: `kspace` (L, coils, H, W) and `sensitivities`. Without `real=True` images are complex.
# - If k-space is a torch tensor on a GPU, the computation runs there.
# - `model="gradient"` is the model of the paper, for comparison.
#
# These images have not been validated for diagnosis.

# %%
plt.show()
