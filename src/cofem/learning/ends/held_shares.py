"""The share of non-zeros held at other values: the answer is averaged over what may be true of it.

The weights of the slabs are learned, and used as if they were known. Where the data say little
about them (few data, much noise, non-zeros that cannot be told apart) this is too sure of itself:
the evidence is nearly as large at half and at twice the share of non-zeros, and the answers there
are others. So expectation propagation is run again with the share held at such values, and what it
finds is averaged, each by its evidence, under a prior that is uniform in the logarithm of the
share. (Integrals over hyperparameters by a few points: Rue, Martino & Chopin, J. R. Stat. Soc. B
2009.) How the slabs divide the share among them, and the noise, are learned at every point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cofem.learning.learned import Settings
from cofem.learning.loop import iterate
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import STARTS, End, EStepMaker, ended, noise_units
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The factor between neighbouring shares.
STEP = 2.0


@dataclass
class HeldShares:
    """What the ends at other shares are made with."""

    model: Model
    make: EStepMaker
    given: bool
    settings: Settings
    stopped: bool = False  # by the user

    def around(self, best: End) -> tuple[list[float], list[float]]:
        """Return the shares above and below that of an end, from there.

        They are between one coordinate of D and the most that the data can tell apart.
        """
        least, most = 1 / self.model.n_unknowns, best.rule.prior.most
        share = float(best.rule.prior.slabs)
        up, down = [STEP * max(share, least)], [share / STEP]
        while up[-1] < most:
            up.append(STEP * up[-1])
        while down[-1] >= least:
            down.append(down[-1] / STEP)
        return up[:-1], down[:-1]

    def end(self, share: float) -> tuple[End | None, int]:
        """Return the end at this share of non-zeros and the products; None if it is hopeless."""
        model, settings = noise_units(self.model, self.given), self.settings
        esteps = self.make(model)
        rule = Propagation(model, STARTS[0], self.given, settings.tol)
        rule.prior, rule.impatient = replace(rule.prior, held=share), True
        found = iterate(
            model, esteps, rule, max_iter=settings.max_iter, tol=settings.tol,
            callback=settings.callback,
        )  # fmt: skip
        self.stopped = found.verdict is Verdict.STOPPED
        end = None
        if not self.stopped and found.verdict is not Verdict.HOPELESS:
            end = replace(ended(rule, found, esteps), share=share)
        return end, int(found.history["products"][-1])
