"""Fingerprints: what they must tell apart, and that files of earlier versions are known."""

import hashlib

import numpy as np
import pytest

from cofem.files import fingerprint


def test_the_digest_is_that_of_repr_and_bytes():
    # Checkpoints and stores hold these digests: they must not change between versions.
    expected = hashlib.sha256(b"('DCT', (2, 3))" + np.arange(3.0).tobytes()).hexdigest()
    assert fingerprint([("DCT", (2, 3)), np.arange(3.0)]) == expected
    short = hashlib.blake2b(b"'a'", digest_size=16).hexdigest()
    assert fingerprint(["a"], "blake2b") == short


def test_the_order_in_memory_does_not_matter():
    x = np.arange(6.0).reshape(2, 3)
    assert fingerprint([np.asfortranarray(x)]) == fingerprint([x])


@pytest.mark.parametrize("other", [[1, 2], ["1"], [1.0], []])
def test_other_pieces_have_other_digests(other):
    assert fingerprint([1]) != fingerprint(other)
