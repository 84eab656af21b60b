"""The picture of the page on MRI: samples, images, errors and calibration of the phantom.

    python docs/pictures/mri_phantom.py            # draws docs/images/mri_phantom.png

The phantom of 200 × 200 from a quarter of its lines, with complex noise of standard deviation 0.01.
"""

from pathlib import Path

import numpy as np

from cofem import mri
from cofem.mri.figures import reconstruction_figure

OUT = Path(__file__).parents[1] / "images" / "mri_phantom.png"
NOISE = 0.01


def main():
    """Reconstruct and draw."""
    truth = mri.phantom((200, 200))
    mask = mri.power_rule_mask(truth.shape, factor=4, power=4, seed=0)
    rng = np.random.default_rng(0)
    noise = NOISE * np.sqrt(0.5) * rng.normal(size=(2, *truth.shape))
    kspace = (mri.to_kspace(truth) + noise[0] + 1j * noise[1]) * mask
    found = mri.reconstruct(kspace, mask, real=True)
    print(f"error {100 * mri.nrmse(found.image, truth):.1f} %")
    figure = reconstruction_figure(found, mask, truth, names=["PD", "T2", "T1"])
    figure.savefig(OUT, dpi=90)


if __name__ == "__main__":
    main()
