from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from openab_kernel.storage import StoreSettings

BASE = Path("/etc/openab")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///state.db", "/etc/openab/state.db"),
        ("sqlite:///var/state.db", "/etc/openab/var/state.db"),
        ("sqlite:///../state.db", "/etc/openab/../state.db"),
        ("sqlite:////var/lib/state.db", "/var/lib/state.db"),
        ("sqlite:///$HOME/x/state.db", "/home/ada/x/state.db"),
        ("sqlite:///~/state.db", "/home/ada/state.db"),
        ("sqlite:///$HOMER/state.db", "/etc/openab/$HOMER/state.db"),
    ],
)
def test_url_names_a_file(monkeypatch: pytest.MonkeyPatch, url: str, path: str) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert StoreSettings(url=url).path(BASE) == Path(path)


def test_home_folder_is_asked_for_when_the_path_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    settings = StoreSettings()
    monkeypatch.setenv("HOME", "/home/grace")
    assert settings.path(BASE) == Path("/home/grace/.openab-kernel/state.db")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("state.db", "no URL of a store; use sqlite:///PATH"),
        ("", "no URL of a store; use sqlite:///PATH"),
        ("://state.db", "no URL of a store; use sqlite:///PATH"),
        ("sqlite://state.db", "a host is no file; use sqlite:///PATH"),
        ("sqlite:///", "the path of a file is missing"),
        ("sqlite:///var/", "the path of a file is missing"),
        ("sqlite:///:memory:", "the path of a file is missing"),
    ],
)
def test_url_that_names_no_file_is_refused_with_the_way_out(url: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        StoreSettings(url=url)


def test_scheme_of_a_plugin_is_left_to_the_plugin() -> None:
    assert StoreSettings(url="mysql://db/openab").url == "mysql://db/openab"


def test_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        StoreSettings.model_validate({"path": "state.db"})
