"""Sources of MEG and EEG from MNE's objects, and back into one."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.fitting import fit
from cofem.result.posterior import Posterior


def mne_sources(
    evoked: Any, forward: Any, noise_cov: Any = None, *, return_posterior: bool = False,
    **fit_options: Any,
) -> Any:  # fmt: skip
    """Find the few places whose currents explain a recording; the noise level is learned.

    All samples share their places, and the three orientations of a place are active together or
    not at all. It can replace ``mne.inverse_sparse.gamma_map``, and needs neither its
    ``alpha`` nor a depth weighting: the answer does not depend on the length of a column.

    Parameters
    ----------
    evoked : mne.Evoked
        The recording. Channels that are bad, or unknown to the others, are left out.
    forward : mne.Forward
        The forward solution, of fixed or free orientation.
    noise_cov : mne.Covariance, optional
        What the data are whitened with. Only its form matters, as its size is learned. Needed
        where channels of several kinds, with units of their own, are in the recording.
    return_posterior : bool
        Also return the posterior, with ``std``, ``probability`` and ``support`` of every current;
        its shape is (samples, columns of the gain).
    **fit_options
        Those of :func:`cofem.fit`; ``noise_precision`` is that of the whitened data.

    Returns
    -------
    stc : mne.SourceEstimate, or the kind that the source space has
        The posterior mean at every place; of free orientations its length.
    posterior : Posterior, if asked for

    Examples
    --------
    Ten places in a sphere, of which one is active, and 24 electrodes:

    >>> import mne
    >>> rng = np.random.default_rng(0)
    >>> at = rng.normal(size=(24, 3))
    >>> at *= 0.095 / np.linalg.norm(at, axis=1, keepdims=True)
    >>> info = mne.create_info(24, 100.0, "eeg", verbose="error")
    >>> electrodes = dict(zip(info.ch_names, at))
    >>> _ = info.set_montage(mne.channels.make_dig_montage(electrodes, coord_frame="head"))
    >>> head = mne.make_sphere_model((0, 0, 0), 0.095, info, verbose="error")
    >>> space = mne.setup_volume_source_space(
    ...     pos={"rr": 0.6 * at[:10], "nn": at[:10]}, verbose="error")
    >>> forward = mne.make_forward_solution(info, None, space, head, meg=False, verbose="error")
    >>> z = np.zeros((10, 3, 8))
    >>> z[4] = 1e-8 * rng.normal(size=(3, 8))
    >>> data = forward["sol"]["data"] @ z.reshape(30, 8)
    >>> data += 0.01 * data.std() * rng.normal(size=data.shape)
    >>> stc = mne_sources(mne.EvokedArray(data, info, verbose="error"), forward)
    >>> stc.data.shape, int(np.argmax(np.mean(stc.data**2, axis=1)))
    ((10, 8), 4)
    """
    mne = _mne()
    data, gain = _whitened(mne, evoked, forward, noise_cov)
    orientations = gain.shape[1] // forward["nsource"]
    if orientations > 1:
        groups = np.repeat(np.arange(forward["nsource"]), orientations)
        fit_options = {"groups": groups, **fit_options}
    post = fit(gain, data.T, **fit_options)
    stc = _estimate(mne, post, evoked, forward, orientations)
    return (stc, post) if return_posterior else stc


def _whitened(mne: Any, evoked: Any, forward: Any, noise_cov: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return data (N, samples) and gain (N, D) with noise that is white but for its size."""
    known = set(forward["sol"]["row_names"])
    if noise_cov is not None:
        known &= set(noise_cov.ch_names)
    names = [n for n in evoked.ch_names if n in known and n not in evoked.info["bads"]]
    if not names:
        raise ValueError("evoked, forward and noise_cov have no good channel in common")
    picked = evoked.copy().pick(names, verbose="error")
    solution = mne.pick_channels_forward(forward, names, ordered=True, verbose="error")
    gain = solution["sol"]["data"]
    if noise_cov is None:
        kinds = picked.info.get_channel_types(unique=True)
        if len(kinds) > 1:
            raise ValueError(
                f"noise_cov must be given for channels of several kinds, got {', '.join(kinds)}: "
                "it brings them to one unit (mne.make_ad_hoc_cov makes a simple one)"
            )
        return picked.data, gain
    whitener, _ = mne.cov.compute_whitener(noise_cov, picked.info, pca=True, verbose="error")
    return whitener @ picked.data, whitener @ gain


def _estimate(mne: Any, post: Posterior, evoked: Any, forward: Any, orientations: int) -> Any:
    """Return the mean as MNE's object."""
    currents = np.asarray(post.mean).T
    if orientations > 1:
        by_place = currents.reshape(forward["nsource"], orientations, -1)
        currents = np.linalg.norm(by_place, axis=1)
    space = forward["src"]
    vertices = [part["vertno"] for part in space]
    kinds = {"surface": mne.SourceEstimate, "mixed": mne.MixedSourceEstimate}
    kind = kinds.get(space.kind, mne.VolSourceEstimate)
    return kind(
        currents, vertices=vertices, tmin=float(evoked.times[0]),
        tstep=1 / float(evoked.info["sfreq"]), subject=space[0].get("subject_his_id"),
    )  # fmt: skip


def _mne() -> Any:
    try:
        import mne
    except ImportError:
        raise ImportError(
            "mne_sources needs MNE, which is not installed: pip install mne"
        ) from None
    return mne
