"""Conjugates and negatives that torch marks and doesn't compute."""

from __future__ import annotations

import torch
from torch.testing import assert_close

import torch_pjrt  # noqa: F401  (registers the device)


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(*shape, dtype=torch.complex64)
    return x, x.to("pjrt")


def test_they_are_read_as_what_they_stand_for() -> None:
    x, d = pair(3, 2)
    for read in (
        lambda t: t.conj(),
        lambda t: t.conj().t() * 1,
        lambda t: t.mH @ t,
        lambda t: t.conj().imag,
        lambda t: t.imag._neg_view(),
        lambda t: t.conj().conj() + 1,
        lambda t: torch.stack([t.conj(), t]),
        lambda t: torch.fft.ifft(t.real),
        lambda t: torch.fft.ihfft(t.real),
        lambda t: t.conj().to(torch.complex128),
    ):
        assert_close(read(d).cpu(), read(x))
    assert d[0, 0].conj().item() == x[0, 0].conj().item()
    assert x.conj().to("pjrt").cpu().tolist() == x.conj().tolist()


def test_they_are_written_through() -> None:
    x, d = pair(3, 2)
    other, moved = pair(3, 2)
    for t, source in ((x, other), (d, moved)):
        t.conj()[0] = source[0]
        t[1].conj().copy_(source[1].conj())
        t.imag._neg_view()[2] = source.real[2]
    assert_close(d.cpu(), x)
    d.conj().copy_(other)
    assert_close(d.cpu(), other.conj().resolve_conj())
