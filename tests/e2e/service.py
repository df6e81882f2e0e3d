"""The service as a process of its own, with its log read as an operator would."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

WAIT_SECONDS = 15


class Service:
    """`openab-kernel serve` on a configuration file. Use as a context manager; at the end it is killed if it lives."""

    def __init__(self, config: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.lines: list[dict[str, Any]] = []
        self.text = ""
        self._arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        command = [sys.executable, "-m", "openab_kernel", "serve", "-c", str(config), *arguments]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})}
        )
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next log line of this event."""
        while True:
            line = self._arrived.get(timeout=WAIT_SECONDS)
            if line["event"] == event:
                return line

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """Ask it to stop."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended and its log is read."""
        status = self._process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        return status

    def kill(self) -> int:
        """Pull the plug."""
        if self._process.poll() is None:
            self._process.kill()
        return self.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for text in stderr:
                self.text += text
                if text.startswith("{"):
                    line = json.loads(text)
                    self.lines.append(line)
                    self._arrived.put(line)
