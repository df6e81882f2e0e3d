import pytest
from pydantic import ValidationError

from openab_kernel.observability.settings import HttpSettings, LogSettings


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8710", ("127.0.0.1", 8710)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
    ],
)
def test_address_is_taken_apart(listen, address):
    assert HttpSettings(listen=listen).address == address


@pytest.mark.parametrize("listen", ["", "8710", ":8710", "host", "host:", "host:65536", "::1:80", "a b:80", "h:80:81"])
def test_address_that_cannot_be_listened_on_is_refused(listen):
    with pytest.raises(ValidationError, match="host:port"):
        HttpSettings(listen=listen)


def test_case_of_level_and_format_does_not_matter():
    written = {"level": "DEBUG", "format": "Json"}
    assert LogSettings.model_validate(written) == LogSettings(level="debug", format="json")


@pytest.mark.parametrize("keys", [{"level": "loud"}, {"level": 5}, {"format": "xml"}])
def test_unknown_level_or_format_is_refused(keys):
    with pytest.raises(ValidationError):
        LogSettings.model_validate(keys)
