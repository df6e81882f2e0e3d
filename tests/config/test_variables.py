import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.config.variables import Expander

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
HALF = "${ without a variable's name and }"
PLAIN = st.text(alphabet=st.characters(exclude_characters="${}"), max_size=12)


def expand(text, environ=None):
    expander = Expander(environ or {})
    return expander.expand(text, ("agent", "command")), [fault.found for fault in expander.faults]


def test_reference_is_replaced_wherever_a_string_stands():
    expander = Expander({"A": "1", "B": "2"})
    document = {"x": "${A}-${B}", "y": ["${A}", {"z": "${B}"}], "n": 3, "b": True, "f": 1.5}
    expected = {"x": "1-2", "y": ["1", {"z": "2"}], "n": 3, "b": True, "f": 1.5}
    assert expander.expand(document, ("s",)) == expected
    assert expander.faults == []


def test_default_is_for_a_variable_that_is_not_set():
    assert expand("${A:-x y}${A:-}") == ("x y", [])
    assert expand("${A:-x}", {"A": ""}) == ("", [])


def test_variable_that_is_not_set_is_named_with_its_place():
    expander = Expander({})
    expander.expand(["ok", "${A} ${B_2}"], ("agent", "args"))
    assert [(fault.loc, fault.found) for fault in expander.faults] == [
        (("agent", "args", 1), "${A} is not set"),
        (("agent", "args", 1), "${B_2} is not set"),
    ]
    assert expander.faults[0].expected == "set A, or write ${A:-default}"


def test_reference_to_a_provider_of_secrets_is_refused():
    assert expand("${secrets.discord}", {"secrets": "x"}) == ("${secrets.discord}", ["${secrets.discord}"])


TEXTS_OF_A_SHELL = ("${x%.*}", "${}", "${1}", "$${", "${a b}", "${MY-TOKEN}", "${")


@pytest.mark.parametrize("text", ["$HOME", "}", "$", "$}{", *TEXTS_OF_A_SHELL])
def test_text_of_a_shell_is_left_alone_in_an_argument(text):
    expander = Expander({"HOME": "no", "x": "no"})
    assert expander.expand({"args": [text]}, ("agent",)) == {"args": [text]}
    assert expander.faults == []


@pytest.mark.parametrize("text", TEXTS_OF_A_SHELL)
def test_half_a_reference_is_refused_elsewhere(text):
    assert expand(f"a {text} b") == (f"a {text} b", [HALF])


def test_dollar_and_brace_can_be_written():
    assert expand("${DOLLAR:-$}{MY-TOKEN} $ $${A}{", {"A": "1"}) == ("${MY-TOKEN} $ $1{", [])


def test_value_of_a_variable_whose_name_looks_secret_is_kept_to_be_masked():
    expander = Expander({"GATEWAY_TOKEN": "hunter22", "TOKENS": "many", "HOST": "h"})
    expander.expand("wss://${HOST}?${TOKENS}&token=${GATEWAY_TOKEN}", ("gateway", "url"))
    assert expander.secrets == {"hunter22"}
    assert expander.hidden == {("gateway", "url")}


@given(st.lists(st.tuples(PLAIN, NAMES, st.text(max_size=12)), max_size=5))
def test_every_reference_becomes_its_value_and_the_rest_stays(parts):
    environ = {name: value for _, name, value in parts}
    text = "".join(f"{plain}${{{name}}}" for plain, name, _ in parts)
    expected = "".join(plain + environ[name] for plain, name, _ in parts)
    assert expand(text, environ) == (expected, [])


@given(st.text(alphabet="${}ab:-. secrets", max_size=30))
def test_any_text_is_expanded_or_left_or_told(text):
    expanded, faults = expand(text, {"a": "1", "b": "2"})
    assert expanded == text or "${" in text
    assert all(fault == HALF or fault.removesuffix(" is not set") in text for fault in faults)
