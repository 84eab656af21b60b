"""The gain in log evidence as a function of one coordinate's prior variance.

As a function of one γ_j = 1/α_j, over the families f of L_f tasks, the log evidence is a
constant plus

    cℓ(γ) = c Σ_f [−L_f log(1 + γs_f) + γ q_f²/(1 + γs_f)],      c = ½, or 1 if complex,

where s_f and q_f² = Σ|q|² over the tasks leave the coordinate out (Tipping & Faul 2003; for
several tasks Ji, Dunson & Carin 2009, who approximate where we do not). With one
family its maximum is at γ = (q²/L − s)/s², or at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofem import backend
from cofem.backend import Array


class EvidenceGain:
    """cℓ(γ) of many coordinates at once, and its maximum.

    Parameters
    ----------
    tasks : list of int
        L_f of every family.
    weight : float
        c.

    Examples
    --------
    >>> import numpy as np
    >>> gain = EvidenceGain([1], 0.5)
    >>> s, power = [np.array([2.0])], [np.array([10.0])]
    >>> gain.maximum(s, power)
    array([2.])
    >>> gain(np.array([2.0]), s, power).round(3)
    array([1.195])
    """

    def __init__(self, tasks: Sequence[int], weight: float) -> None:
        self.tasks, self.weight = tuple(tasks), weight

    def __call__(self, gamma: Array, s: Sequence[Array], power: Sequence[Array]) -> Array:
        """Return cℓ(γ), (n,), for γ (n,) and, of every family, s and q² (n,)."""
        xp = backend.namespace(gamma)
        total = xp.zeros_like(gamma)
        for tasks, s_f, power_f in zip(self.tasks, s, power, strict=True):
            shrunk = gamma / (1 + gamma * s_f)
            total = total + power_f * shrunk - tasks * xp.log1p(gamma * s_f)
        return self.weight * total

    def maximum(self, s: Sequence[Array], power: Sequence[Array], steps: int = 5) -> Array:
        """Return where cℓ is largest, (n,): in closed form, or by ``steps`` that each raise it."""
        xp = backend.namespace(s[0])
        gamma = xp.zeros_like(s[0])
        for tasks, s_f, power_f in zip(self.tasks, s, power, strict=True):
            safe = xp.where(s_f > 0, s_f, xp.ones_like(s_f))
            alone = xp.clip((power_f / tasks - s_f) / safe**2, min=0.0)
            share = tasks / sum(self.tasks)
            gamma = gamma + share * xp.where(s_f > 0, alone, xp.zeros_like(s_f))
        if len(self.tasks) > 1:
            for _ in range(steps):
                gamma = self._raised(gamma, s, power)
        return gamma

    def _raised(self, gamma: Array, s: Sequence[Array], power: Sequence[Array]) -> Array:
        # log(1 + γs) lies below its tangent, and −γq²/(1 + γs) below a/γ + const, which touches it.
        # So the maximum of this lower bound of ℓ raises ℓ (iterative reweighting, Wipf & Nagarajan
        # 2010).
        xp = backend.namespace(gamma)
        pull = xp.zeros_like(gamma)
        push = xp.zeros_like(gamma)
        for tasks, s_f, power_f in zip(self.tasks, s, power, strict=True):
            pull = pull + power_f / (1 + gamma * s_f) ** 2
            push = push + tasks * s_f / (1 + gamma * s_f)
        return gamma * xp.sqrt(pull / xp.where(push > 0, push, xp.ones_like(push)))

    def best_addition(self, s: Sequence[Array], power: Sequence[Array]) -> tuple[float, int]:
        """Return the largest gain over γ = 0, and the coordinate that has it.

        Examples
        --------
        >>> import numpy as np
        >>> gain = EvidenceGain([1], 0.5)
        >>> best, i = gain.best_addition([np.array([2.0, 2.0])], [np.array([1.0, 10.0])])
        >>> round(best, 3), i
        (1.195, 1)
        """
        xp = backend.namespace(s[0])
        if len(self.tasks) == 1:
            # r − 1 − log r rises with r = q²/(Ls) above one: the largest r is enough.
            ratio = power[0] / s[0]
            i = int(xp.argmax(ratio))
            largest = float(ratio[i]) / self.tasks[0]
            if largest <= 1:
                return 0.0, i
            return self.weight * self.tasks[0] * (largest - 1 - math.log(largest)), i
        gains = self(self.maximum(s, power), s, power)
        i = int(xp.argmax(gains))
        return float(gains[i]), i

    def best_change(
        self, old: float, s: Sequence[Array], power: Sequence[Array]
    ) -> tuple[float, float]:
        """Return the best γ of one coordinate, and what it gains over ``old``.

        ``s`` and ``power`` are arrays of one entry.

        Examples
        --------
        >>> import numpy as np
        >>> new, more = EvidenceGain([1], 0.5).best_change(
        ...     1.0, [np.array([2.0])], [np.array([1.0])])
        >>> new, round(more, 3)
        (0.0, 0.383)
        """
        xp = backend.namespace(s[0])
        now = float(self(xp.full_like(s[0], old), s, power)[0])
        new = self.maximum(s, power, steps=100)
        best = float(self(new, s, power)[0])
        return (float(new[0]), best - now) if best > 0 else (0.0, -now)
