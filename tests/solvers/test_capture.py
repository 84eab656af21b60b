"""What may become part of a CUDA graph, as far as a CPU can tell: who looks at numbers."""

import pytest

torch = pytest.importorskip("torch")
capture = pytest.importorskip("cofem.solvers.steps.cuda.capture")

LOOKING = {
    "a number": lambda x: x * float(x.sum()),
    "a condition": lambda x: x if bool((x > 0).all()) else -x,
    "a choice of entries": lambda x: x[x > 0],
    "places": lambda x: torch.nonzero(x),
    "another device": lambda x: x.to("meta"),
}
STAYING = {
    "a transform": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
    "a product": lambda x: x @ torch.ones(4, 4),
    "a number of the program": lambda x: 2.5 * x + torch.tensor(1.0),
}


@pytest.mark.parametrize("name", LOOKING)
def test_who_looks_is_seen(name):
    with pytest.raises(capture._LeavesTheDevice), capture._OnTheDevice():
        LOOKING[name](torch.ones(2, 4))


@pytest.mark.parametrize("name", STAYING)
def test_who_stays_is_left_alone(name):
    x = torch.ones(2, 4)
    with capture._OnTheDevice():
        found = STAYING[name](x)
    assert torch.equal(found, STAYING[name](x))
