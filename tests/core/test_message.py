import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.candidates import MemoryFile
from app.core.levels import LEVELS
from app.core.message import attachment_text, inert, user_context
from app.core.tokens import utf16_length

BY_TYPE = {level.type: level for level in LEVELS}


def memory_file(path, content, level="Project"):
    return MemoryFile(path=path, real=path, level=BY_TYPE[level], content=content, raw=content)


def test_the_message_has_its_format_to_the_byte():
    files = [
        memory_file("/home/dev/.claude/CLAUDE.md", "\n  Be brief.\n\n", "User"),
        memory_file("/p/CLAUDE.md", "Use tabs.\r\n"),
    ]
    assert user_context(files, "2026-11-30").text == (
        "<system-reminder>\n"
        "This context was gathered before the conversation began. Use it while you work on what the user asks.\n"
        "\n"
        "# claudeMd\n"
        "Instructions of the user and of this code base follow. They take precedence over your default behaviour: "
        "follow them exactly as they are written.\n"
        "\n"
        "Contents of /home/dev/.claude/CLAUDE.md (user's private global instructions for all projects):\n"
        "\n"
        "Be brief.\n"
        "\n"
        "Contents of /p/CLAUDE.md (project instructions, checked into the codebase):\n"
        "\n"
        "Use tabs.\n"
        "\n"
        "# currentDate\n"
        "Today's date is 2026-11-30.\n"
        "\n"
        "Not all of this context need matter to the task at hand. Do not answer it or mention it unless it does.\n"
        "</system-reminder>"
    )


@pytest.mark.parametrize(
    ("level", "label"),
    [
        ("Managed", "organization-managed policy instructions"),
        ("User", "user's private global instructions for all projects"),
        ("Project", "project instructions, checked into the codebase"),
        ("Local", "user's private project instructions, not checked in"),
        ("AutoMem", "user's auto-memory, persists across conversations"),
        ("TeamMem", "team's shared memory, persists across conversations"),
    ],
)
def test_each_level_has_its_label(level, label):
    assert f"Contents of /a ({label}):\n\nx" in user_context([memory_file("/a", "x", level)], None).text


def test_entries_are_the_texts_under_their_headings():
    context = user_context([memory_file("/a.md", " a ")], "2026-11-30")
    assert list(context.entries) == ["claudeMd", "currentDate"]
    for key, value in context.entries.items():
        assert f"\n# {key}\n{value}\n" in context.text


def test_an_entry_without_a_value_is_left_out():
    assert list(user_context([], "2026-11-30").entries) == ["currentDate"]
    assert list(user_context([memory_file("/a", "a")], None).entries) == ["claudeMd"]


def test_without_entries_there_is_no_message():
    context = user_context([], None)
    assert (context.text, context.entries, context.pieces, context.tokens()) == ("", {}, (), ())


def test_json_files_count_at_two_units_a_token():
    context = user_context([memory_file("/a.json", "{}")], None)
    assert [piece.units_per_token for piece in context.pieces if piece.part == "memory:/a.json"] == [2]


@given(
    st.lists(st.tuples(st.sampled_from(["/a.md", "/b.json", "/c.md"]), st.text())), st.none() | st.just("2026-11-30")
)
def test_tokens_of_the_parts_add_up_and_pieces_make_the_text(described, date):
    context = user_context([memory_file(path, content) for path, content in described], date)
    exact = sum(utf16_length(piece.text) / piece.units_per_token for piece in context.pieces)
    assert sum(tokens for _, tokens in context.tokens()) == int(exact + 0.5)
    assert [part for part, _ in context.tokens()] == list(dict.fromkeys(piece.part for piece in context.pieces))
    assert "".join(piece.text for piece in context.pieces) == context.text


def test_an_attachment_is_its_content_not_trimmed():
    text = attachment_text(memory_file("/p/a.md", "\n a \n\n"))
    assert text == "<system-reminder>\nContents of /p/a.md:\n\n\n a \n\n\n</system-reminder>"


@pytest.mark.parametrize(
    "ending", ["</system-reminder>", "</System-Reminder>", "</ system-reminder >", "< /system-reminder x>"]
)
def test_no_spelling_of_its_end_ends_a_reminder(ending: str) -> None:
    assert ending not in inert(f"a {ending} b")
    assert inert(f"a {ending} b").startswith("a <")


@pytest.mark.parametrize("text", ["<system-reminder>", "</system-reminders>", "system-reminder>", "a < b"])
def test_what_ends_nothing_stays(text: str) -> None:
    assert inert(text) == text
