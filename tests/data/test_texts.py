from importlib.resources import files

import pytest

from app.data.texts import load_prose


def test_every_text_of_the_package_is_loaded_by_its_name():
    on_disk = {entry.name for entry in files("app.core.prose").iterdir() if entry.name.endswith(".md")}
    assert {f"{name}.md" for name in load_prose()} == on_disk
    assert "doing_tasks" in load_prose()


def test_texts_are_trimmed_and_not_blank():
    for text in load_prose().values():
        assert text
        assert text == text.strip()


def test_texts_hold_no_carriage_returns_and_no_placeholder_of_another_kind():
    assert {
        placeholder for text in load_prose().values() for placeholder in text.replace("}", "{").split("{")[1::2]
    } == {"folder", "language", "count"}
    assert not any("\r" in text for text in load_prose().values())


def test_the_mapping_cannot_be_changed():
    prose = load_prose()
    with pytest.raises(TypeError):
        prose["intro_identity"] = "x"
