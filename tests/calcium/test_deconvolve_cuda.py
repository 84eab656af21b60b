"""deconvolve on an NVIDIA GPU gives what it gives on a host."""

import numpy as np
import pytest

from cofem.calcium import deconvolve, simulate

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tensor_on_a_gpu_gives_the_hosts_answer(dtype):
    dff, _ = simulate(12, 3000, framerate=30.0, seed=3)
    dff = dff.astype(dtype)
    dff[3] = 1.0
    dff[5, 100:160] = np.nan
    done = []
    with pytest.warns(UserWarning, match="constant"):
        here = deconvolve(dff, 30.0)
    with pytest.warns(UserWarning, match="constant"):
        there = deconvolve(torch.asarray(dff, device="cuda"), 30.0, callback=done.append)
    assert done[-1] == 12
    for name in ("spikes", "prob_active", "denoised", "spike_counts", "std", "baseline"):
        a, b = getattr(here, name), getattr(there, name)
        assert b.dtype == dtype
        np.testing.assert_allclose(b, a, atol=3e-6 if dtype == "float32" else 1e-8, err_msg=name)
    for name in ("tau_d", "tau_r", "noise_std", "spike_size"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-8)
    assert here.messages == there.messages


def test_a_single_trace_keeps_its_shape():
    dff, _ = simulate(1, 600, framerate=30.0, seed=0)
    found = deconvolve(torch.asarray(dff[0], device="cuda"), 30.0)
    assert found.spikes.shape == (600,)
    assert isinstance(found.tau_d, float)
