import pytest

from app.core.layouts import CLOSING, OPENING, laid_out
from app.core.registry import Element

STATIC = Element("intro", "Static.", "static")
ENVIRONMENT = Element("env_info", "Folder.", "cached")
SERVERS = Element("mcp_instructions", "Servers.", "uncached", "they come and go")
ABSENT = Element("language", None, "cached")
MECHANICS = Element("memory_mechanics", "Mechanics.", "static")
APPEND = Element("append", "Appended.", "static")
ALL = (STATIC, ENVIRONMENT, ABSENT, SERVERS, MECHANICS, APPEND)


def test_in_the_classic_layout_everything_is_in_front():
    laid = laid_out(ALL, "classic")
    assert (laid.front, laid.back) == (ALL, ())
    assert laid.message(of_system=True) is None


def test_in_the_late_layout_the_front_is_what_all_share():
    laid = laid_out(ALL, "late")
    assert laid.front == (STATIC,)
    assert laid.back == ALL[1:]


def test_the_back_is_one_text_in_the_same_order():
    block = laid_out(ALL, "late").message(of_system=True)
    assert block.text == f"{OPENING}\n\nFolder.\n\nServers.\n\nMechanics.\n\nAppended."
    assert sum(length for _, length in block.parts) == len(block.text)
    assert block.scope is None


def test_for_models_without_messages_of_the_system_it_is_a_reminder():
    block = laid_out(ALL, "late").message(of_system=False)
    assert block.text.startswith(f"<system-reminder>\n{OPENING}\n\nFolder.")
    assert block.text.endswith(f"Appended.\n\n{CLOSING}")
    assert sum(length for _, length in block.parts) == len(block.text)


@pytest.mark.parametrize("of_system", [True, False])
@pytest.mark.parametrize("elements", [(STATIC,), (STATIC, ABSENT)])
def test_nothing_to_say_is_no_message(elements, of_system):
    assert laid_out(elements, "late").message(of_system=of_system) is None


def test_in_the_late_layout_what_followed_a_header_leaves_the_front_too():
    header, rest = Element("attribution_header", "h", "static"), Element("attribution_rest", "More.", "static")
    laid = laid_out((header, STATIC, rest, ENVIRONMENT), "late")
    assert (laid.front, laid.back) == ((header, STATIC), (rest, ENVIRONMENT))
