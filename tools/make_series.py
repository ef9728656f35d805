"""Makes src/lower/series.inc: Chebyshev coefficients of special functions, from mpmath's values.

    ./dev python tools/make_series.py

A table holds c[0] / 2, c[1], c[2], ...: its function is the sum of c[k] T_k(2 s - 1) for s in
[0, 1], to about 1e-16 of its greatest value. src/lower/bessel.cc and normal.cc say what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

OUT = Path(__file__).resolve().parents[1] / "src" / "lower" / "series.inc"
NODES = 96
mp.mp.dps = 40

Function = Callable[[Any], Any]


def coefficients(function: Function) -> list[Any]:
    """Of a function on [0, 1], as few as are needed."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [function((mp.cos(a) + 1) / 2) for a in angles]
    found = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / NODES
        for j in range(NODES)
    ]
    found[0] /= 2
    least = max(map(abs, values)) * mp.mpf(10) ** -17
    while abs(found[-1]) < least:
        found.pop()
    assert len(found) < NODES - 8, "not smooth enough"
    return found


def from_square(end: float, function: Function) -> Function:
    """In s = (x / end)**2."""
    return lambda s: function(end * mp.sqrt(s))


def from_inverse(start: float, function: Function) -> Function:
    """In s = start / x."""
    return lambda s: function(start / s)


def from_inverse_square(start: float, function: Function) -> Function:
    """In s = (start / x)**2."""
    return lambda s: function(start / mp.sqrt(s))


def between(start: float, end: float, function: Function) -> Function:
    return lambda s: function(start + (end - start) * s)


def wave(order: int, part: int) -> Function:
    """J and Y as an amplitude: sqrt(2 / (pi x)) (P cos - Q sin) and (P sin + Q cos) of
    x - (order / 2 + 1 / 4) pi. Part 0 is P, part 1 is Q x."""

    def value(x: Any) -> Any:
        angle = x - (mp.mpf(order) / 2 + mp.mpf(1) / 4) * mp.pi
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        cosine, sine = mp.cos(angle), mp.sin(angle)
        scale = mp.sqrt(mp.pi * x / 2)
        if part == 0:
            return scale * (j * cosine + y * sine)
        return scale * x * (y * cosine - j * sine)

    return value


def airy_wave(part: int) -> Function:
    """Likewise Ai(-x) = (P sin + Q cos) / (sqrt(pi) x**(1/4)) of z + pi / 4, by
    s = (z0 / z)**2, where z = 2/3 x**(3/2); part 1 is Q z."""

    def value(z: Any) -> Any:
        x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
        angle = z + mp.pi / 4
        scale = mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4)
        a, b = mp.airyai(-x), mp.airybi(-x)
        cosine, sine = mp.cos(angle), mp.sin(angle)
        if part == 0:
            return scale * (a * sine + b * cosine)
        return scale * z * (a * cosine - b * sine)

    return value


def airy_decay(z: Any) -> Any:
    """Ai(x) x**(1/4) exp(z)."""
    x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * x ** (mp.mpf(1) / 4) * mp.exp(z)


def quantile(p: Any) -> Any:
    """x with Phi(x) = p, for p up to a half."""
    if p == mp.mpf(1) / 2:
        return mp.mpf(0)
    z = mp.sqrt(-2 * mp.log(p))
    guess = z - mp.log(z * mp.sqrt(2 * mp.pi)) / z if z > 2 else mp.mpf(1)
    log_p = mp.log(p)
    return -mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) - log_p, guess)


def central(v: Any) -> Any:
    """Of p = 1/2 - v: x / v."""
    return -quantile(mp.mpf(1) / 2 - v) / v if v else mp.sqrt(2 * mp.pi)


def tail(z: Any) -> Any:
    """Of p = exp(-z**2 / 2): z + x."""
    return z + quantile(mp.exp(-z * z / 2))


def erfcx(x: Any) -> Any:
    if x > 1e8:
        return 1 / (mp.sqrt(mp.pi) * x)
    return mp.exp(x * x) * mp.erfc(x)


def mirrored(s: Any) -> Any:
    """(1 + 2 x) erfcx(x) by s = x / (x + 3.75)."""
    x = mp.mpf("3.75") * s / (1 - s)
    return (1 + 2 * x) * erfcx(x)


AIRY_START = mp.mpf(2) / 3 * mp.mpf(4) ** (mp.mpf(3) / 2)

TABLES: dict[str, Function] = {
    "kI0Near": between(0, 8, lambda x: mp.exp(-x) * mp.besseli(0, x)),
    "kI0Far": from_inverse(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(0, x)),
    "kI1Near": between(0, 8, lambda x: mp.exp(-x) * mp.besseli(1, x) / x),
    "kI1Far": from_inverse(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(1, x)),
    "kK0Near": from_square(2, lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)),
    "kK0Far": from_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(0, x)),
    "kK1Near": from_square(2, lambda x: x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))),
    "kK1Far": from_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(1, x)),
    "kJ0Near": from_square(8, lambda x: mp.besselj(0, x)),
    "kY0Near": from_square(
        8, lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)
    ),
    "kJ1Near": from_square(8, lambda x: mp.besselj(1, x) / x),
    "kY1Near": from_square(
        8,
        lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x,
    ),
    "kWave0P": from_inverse_square(8, wave(0, 0)),
    "kWave0Q": from_inverse_square(8, wave(0, 1)),
    "kWave1P": from_inverse_square(8, wave(1, 0)),
    "kWave1Q": from_inverse_square(8, wave(1, 1)),
    "kAiryNear": between(-4, 4, mp.airyai),
    "kAiryDecay": from_inverse(AIRY_START, airy_decay),
    "kAiryWaveP": from_inverse_square(AIRY_START, airy_wave(0)),
    "kAiryWaveQ": from_inverse_square(AIRY_START, airy_wave(1)),
    "kErfcx": mirrored,
    "kQuantileCentral": from_square(0.375, central),
    "kQuantileTail": between(2, 8, tail),
    "kQuantileFarTail": between(8, 40, tail),
}


def table(name: str, function: Function) -> str:
    numbers = [mp.nstr(c, 18, min_fixed=0, max_fixed=0) for c in coefficients(function)]
    lines, line = [], "   "
    for number in numbers:
        if len(line) + len(number) + 2 > 99:
            lines.append(line)
            line = "   "
        line += f" {number},"
    lines.append(line)
    return "\n".join([f"constexpr double {name}[] = {{", *lines, "};"])


def main() -> None:
    head = "// Made by tools/make_series.py, which says what the tables are."
    OUT.write_text("\n".join([head, *(table(n, f) for n, f in TABLES.items())]) + "\n")


if __name__ == "__main__":
    main()
