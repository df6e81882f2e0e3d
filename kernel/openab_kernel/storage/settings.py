"""The section [store] of the configuration."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

SQLITE = "sqlite:///"


class StoreSettings(BaseModel):
    """Where the state is kept.

    `url` is `sqlite:///` and a path: absolute, relative to the configuration file's folder, or in the user's home
    folder when it begins with `$HOME/` or `~/`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = f"{SQLITE}$HOME/.openab-kernel/state.db"

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        scheme, separator, _ = url.partition("://")
        if not separator or not scheme:
            raise ValueError("no URL of a store; use sqlite:///PATH")
        if scheme != "sqlite":
            return url  # the scheme of a plugin, or of none: that is seen when the store is made
        if not url.startswith(SQLITE):
            raise ValueError("a host is no file; use sqlite:///PATH")
        if url == SQLITE or url.endswith(("/", ":memory:")):
            raise ValueError("the path of a file is missing; use sqlite:///PATH")
        return url

    def path(self, base: Path) -> Path:
        """The file. `base` is the folder of the configuration file; the home folder is asked for only now."""
        name = self.url.removeprefix(SQLITE)
        for home in ("$HOME/", "~/"):
            if name.startswith(home):
                return Path.home() / name.removeprefix(home)
        return base / name
