"""Which models an agent offers, in words (agent.md 10)."""

import pytest

from openab_kernel.agent.models import ModelChoice, models_in_options, models_in_session, models_text


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({}, None),
        ({"configOptions": 5, "models": []}, None),
        ({"configOptions": [{"id": "mode"}, 5]}, None),
        (
            {"configOptions": [{"id": "m", "category": "model", "options": [{"value": "a"}, {"value": 5}]}]},
            ModelChoice(("a",), None),
        ),
        (
            {"configOptions": [{"id": "model", "currentValue": "b", "options": [
                {"group": "g", "options": [{"value": "a"}]}, {"group": "h", "options": [{"value": "b"}, 5]}]}]},
            ModelChoice(("a", "b"), "b"),
        ),
        (
            {"models": {"availableModels": [{"modelId": "a"}, {"modelId": "b"}], "currentModelId": "a"}},
            ModelChoice(("a", "b"), "a"),
        ),
        ({"models": {}}, ModelChoice((), None)),
        ({"configOptions": [{"id": "model"}], "models": {"currentModelId": "x"}}, ModelChoice((), None)),
    ],
)  # fmt: skip
def test_models_are_found(answer, found):
    assert models_in_session(answer) == found


def test_models_are_found_in_a_tuple_of_options():
    assert models_in_options(({"id": "model", "currentValue": "a"},)) == ModelChoice((), "a")


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (None, "This agent does not say which models it offers."),
        (ModelChoice((), None), "This agent does not say which models it offers."),
        (ModelChoice((), "a"), "This agent does not say which models it offers. It uses a."),
        (ModelChoice(("a", "b"), None), "Models:\na\nb"),
        (ModelChoice(("a", "b"), "b"), "Models:\na\nb (in use)"),
        (ModelChoice(("a",), "c"), "Models:\nc (in use)\na"),
        (ModelChoice(("a\nb" + "x" * 200,), None), "Models:\na b" + "x" * 97),
    ],
)
def test_models_are_told(choice, text):
    assert models_text(choice) == text


def test_long_list_is_cut_and_the_one_in_use_stands_first():
    names = tuple(f"m{number}" for number in range(60))
    lines = models_text(ModelChoice(names, "m59")).splitlines()
    assert lines[:3] == ["Models:", "m59 (in use)", "m0"]
    assert lines[-1] == "and 10 more"
    assert len(lines) == 53
