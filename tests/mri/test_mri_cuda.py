"""reconstruct on an NVIDIA GPU: as good an image as on a host."""

import numpy as np
import pytest

from cofem import mri

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("real", [True, False])
def test_the_image_is_as_good_and_the_noise_the_same(real):
    truth = mri.phantom((64, 64))
    mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
    kspace = mri.to_kspace(truth)
    noise = np.random.default_rng(0).normal(size=(2, *kspace.shape))
    kspace = (kspace + 0.01 * (noise[0] + 1j * noise[1])) * mask
    here = mri.reconstruct(kspace, mask, real=real)
    # Twice: the second time what the first has recorded is replayed.
    for _ in range(2):
        there = mri.reconstruct(
            torch.asarray(kspace, device="cuda"), torch.asarray(mask, device="cuda"), real=real
        )
        assert there.image.device.type == "cuda"
        image = there.image.cpu().numpy()
        # Draws of a device are its own, so that the fits differ as those of two seeds do.
        assert mri.nrmse(image, truth) < 1.1 * mri.nrmse(here.image, truth) + 0.002
        np.testing.assert_allclose(there.noise_std, here.noise_std, rtol=0.1)
