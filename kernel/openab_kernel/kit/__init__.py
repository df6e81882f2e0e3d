"""The offline kit: a gateway, an agent and the real kernel between them, without a key, an account or a network."""

from __future__ import annotations

from collections.abc import Sequence

from openab_kernel.errors import KernelError


class KitFailed(KernelError):
    """A scenario cannot be played to its end. `log_lines` are the last that the kernel wrote, without line ends."""

    def __init__(self, message: str, log_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log_lines = tuple(log_lines)
