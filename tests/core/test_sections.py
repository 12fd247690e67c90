from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.dynamic_sections import NEWEST_MODELS
from app.core.facts import (
    Client,
    GitFacts,
    GitRoots,
    McpServer,
    OutputStyle,
    PromptOptions,
    SessionSettings,
    Skill,
    Skills,
)
from app.core.models import Model
from app.core.registry import (
    BOUNDARY,
    Element,
    PromptFacts,
    ReasonMissingError,
    Section,
    cached_section,
    dangerous_uncached_section,
)
from app.core.sections import SECTIONS, prompt_elements, to_remember, uses_default_prompt
from app.data.tables import load_models
from app.data.texts import load_prose

PROSE = load_prose()
STATIC = ("intro", "system", "doing_tasks", "actions", "using_tools", "tone_and_style", "output_efficiency")
DYNAMIC = (
    "session_guidance",
    "memory",
    "model_override",
    "env_info",
    "language",
    "output_style",
    "mcp_instructions",
    "scratchpad",
    "function_result_clearing",
    "summarize_tool_results",
)
ALL_TOOLS = frozenset(
    {"Bash", "Read", "Edit", "Write", "Glob", "Grep", "TodoWrite", "Agent", "Skill", "AskUserQuestion", "WebFetch"}
)
CLIENT = Client("/home/dev/project", "linux", None, None, None, "zsh", "Linux 6.8")
SONNET = Model(
    id="claude-sonnet-4-5",
    name="Sonnet 4.5",
    api_window=200_000,
    client_window=200_000,
    max_output=64_000,
    cutoff="January 2025",
    min_cache=1024,
    tokenizer=1,
    family="sonnet",
)
STRANGER = replace(SONNET, id="llama-7", name=None, cutoff=None, family=None, known=False)


def facts(**changes):
    base = PromptFacts(
        client=CLIENT,
        git=None,
        model=SONNET,
        wire_model="claude-sonnet-4-5",
        tools=ALL_TOOLS,
        servers=(),
        settings=SessionSettings(),
        prompt=PromptOptions(),
        date="2026-11-30",
        memory_dir=None,
        global_scope=False,
        prose=PROSE,
    )
    return replace(base, **changes)


def texts(of, remembered=None):
    return {element.name: element.text for element in prompt_elements(of, remembered or {})}


def names(of):
    return tuple(element.name for element in prompt_elements(of, {}))


def settings(**changes):
    return facts(settings=SessionSettings(**changes))


# --- order -----------------------------------------------------------------------------------------------------------


def test_the_default_prompt_lists_every_section_in_the_written_order():
    assert names(facts()) == (*STATIC, *DYNAMIC, "system_context")
    assert tuple(section.name for section in SECTIONS) == (*STATIC, *DYNAMIC)


def test_the_boundary_stands_between_static_and_dynamic_only_with_global_scope():
    elements = prompt_elements(facts(global_scope=True), {})
    assert tuple(element.name for element in elements) == (*STATIC, "boundary", *DYNAMIC, "system_context")
    assert elements[len(STATIC)].text == BOUNDARY == "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"


def test_the_callers_texts_stand_at_their_places():
    prompt = PromptOptions(append="APP", memory_mechanics="MEM", attribution_header="x-a", prefix="You are P.")
    order = names(facts(prompt=prompt, git=GitFacts(branch="x")))
    assert order[:3] == ("attribution_header", "prefix", "intro")
    assert order[-3:] == ("memory_mechanics", "append", "system_context")
    assert texts(facts(prompt=prompt))["append"] == "APP"


def test_blank_texts_of_the_caller_are_no_elements():
    prompt = PromptOptions(append=" ", memory_mechanics="", attribution_header="", prefix="\n")
    assert names(facts(prompt=prompt)) == names(facts())


def test_a_custom_prompt_replaces_the_list_and_the_system_context_but_not_what_follows():
    prompt = PromptOptions(custom="Mine.", append="APP", memory_mechanics="MEM", prefix="P", simple=True)
    everything = facts(prompt=prompt, git=GitFacts(branch="x"), global_scope=True)
    assert names(everything) == ("prefix", "custom", "memory_mechanics", "append")


def test_an_empty_custom_prompt_leaves_nothing():
    assert prompt_elements(facts(prompt=PromptOptions(custom="")), {}) == ()


def test_simple_mode_is_one_section():
    simple = facts(prompt=PromptOptions(simple=True), git=GitFacts(branch="x"), global_scope=True)
    assert texts(simple) == {
        "simple": "You are Claude, a software engineering agent. You work in the user's own workspace, through the "
        "tools you are given.\n\nCWD: /home/dev/project\nDate: 2026-11-30"
    }


def test_only_a_custom_prompt_and_simple_mode_are_not_the_default_one():
    assert uses_default_prompt(PromptOptions(append="x", prefix="y"))
    assert not uses_default_prompt(PromptOptions(custom=""))
    assert not uses_default_prompt(PromptOptions(simple=True))


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_exactly_one_section_is_uncached_and_says_why():
    uncached = [(section.name, section.reason) for section in SECTIONS if section.kind == "uncached"]
    assert uncached == [("mcp_instructions", "servers connect and disconnect within a session")]
    element = next(element for element in prompt_elements(facts(), {}) if element.name == "mcp_instructions")
    assert (element.kind, element.reason) == ("uncached", "servers connect and disconnect within a session")


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_uncached_section_without_a_reason_is_refused(reason):
    with pytest.raises(ReasonMissingError, match="volatile"):
        dangerous_uncached_section("volatile", lambda _: "x", reason)


def test_there_is_no_way_around_the_reason():
    with pytest.raises(ReasonMissingError):
        Section("volatile", lambda _: "x", "uncached")


def test_a_cached_section_keeps_what_the_session_remembers():
    first = prompt_elements(settings(language="French"), {})
    later = prompt_elements(settings(language="German", scratchpad_dir="/scratch/s"), to_remember(first))
    by_name = {element.name: element for element in later}
    assert by_name["language"].text == texts(settings(language="French"))["language"]
    assert by_name["language"].origin == "remembered"
    assert by_name["scratchpad"] == Element("scratchpad", None, "cached", origin="remembered")


def test_absence_is_remembered_too():
    assert to_remember(prompt_elements(facts(), {}))["language"] is None


def test_the_git_status_is_a_snapshot_of_the_session():
    remembered = to_remember(prompt_elements(facts(git=GitFacts(branch="a")), {}))
    assert "Current branch: a" in texts(facts(git=GitFacts(branch="b")), remembered)["system_context"]
    assert texts(facts(git=GitFacts(branch="b")), to_remember(prompt_elements(facts(), {})))["system_context"] is None


def test_the_date_of_simple_mode_is_the_sessions():
    day = facts(prompt=PromptOptions(simple=True))
    remembered = to_remember(prompt_elements(day, {}))
    assert texts(replace(day, date="2026-12-01"), remembered)["simple"].endswith("Date: 2026-11-30")


def test_servers_are_asked_again_on_every_turn():
    server = McpServer("docs", instructions="Use find.")
    remembered = to_remember(prompt_elements(facts(servers=(server,)), {}))
    assert "mcp_instructions" not in remembered
    assert texts(facts(), remembered)["mcp_instructions"] is None


def test_static_and_given_texts_are_not_remembered():
    given_texts = facts(prompt=PromptOptions(append="x", prefix="y"))
    assert set(to_remember(prompt_elements(given_texts, {}))) == {*DYNAMIC, "system_context"} - {"mcp_instructions"}


def test_a_computed_blank_is_absence():
    section = cached_section("blank", lambda _: " \n")
    assert section.resolve(facts(), {}).text is None


# --- static sections -------------------------------------------------------------------------------------------------

WORDS = st.text(alphabet="abc /:é😀", min_size=1, max_size=12)
CLIENTS = st.builds(
    Client,
    cwd=WORDS,
    platform=st.sampled_from(["linux", "macos", "windows"]),
    home=st.none() | WORDS,
    shell=st.none() | WORDS,
    os_version=st.none() | WORDS,
    additional_directories=st.lists(WORDS, max_size=2).map(tuple),
)
PERSONAL = st.fixed_dictionaries(
    {
        "client": CLIENTS,
        "git": st.none() | st.builds(GitFacts, branch=st.none() | WORDS, status=st.none() | WORDS),
        "model": st.sampled_from([SONNET, STRANGER]),
        "wire_model": WORDS,
        "servers": st.lists(st.builds(McpServer, name=WORDS, instructions=WORDS), max_size=2).map(tuple),
        "date": st.dates().map(str),
        "memory_dir": st.none() | WORDS,
        "global_scope": st.booleans(),
    }
)
STYLES = st.none() | st.builds(OutputStyle, name=WORDS, text=WORDS, keep_coding_instructions=st.booleans())
TOOL_SETS = st.frozensets(st.sampled_from([*sorted(ALL_TOOLS), "mcp__a__b", "TaskCreate", "Task"]))


def static_part(of):
    return [element for element in prompt_elements(of, {}) if element.kind == "static" and element.name != "boundary"]


def restyled(style, text):
    return None if style is None else replace(style, name=text, text=f"x{text}")


@given(PERSONAL, PERSONAL, STYLES, TOOL_SETS, WORDS)
def test_the_static_part_depends_on_nothing_but_tools_and_whether_a_style_is_set(one, other, style, tools, word):
    style = restyled(style, "a")
    here = facts(**one, tools=tools, settings=SessionSettings(output_style=style, language=word))
    there = facts(**other, tools=tools, settings=SessionSettings(output_style=restyled(style, word), interactive=True))
    assert static_part(here) == static_part(there)


def test_the_static_part_is_short():
    whole = "\n\n".join(element.text for element in static_part(facts()))
    assert 1_800 <= len(whole) / 4 <= 2_600


def test_a_style_directs_the_answers_and_may_replace_the_coding_instructions():
    plain = texts(facts())
    keeping = texts(settings(output_style=OutputStyle("S", "Rhyme.", keep_coding_instructions=True)))
    replacing = texts(settings(output_style=OutputStyle("S", "Rhyme.")))
    assert "output style" not in plain["intro"]
    assert "output style" in keeping["intro"]
    assert keeping["intro"] == replacing["intro"]
    assert keeping["doing_tasks"] == plain["doing_tasks"] == PROSE["doing_tasks"]
    assert replacing["doing_tasks"] is None


def test_a_style_without_text_directs_nothing():
    assert texts(settings(output_style=OutputStyle("S", " "))) == texts(facts())


def test_using_tools_speaks_of_enabled_tools_only():
    assert texts(facts(tools=frozenset({"Bash", "Read", "TodoWrite"})))["using_tools"] == (
        "# Using tools\n"
        "\n"
        "- Use a dedicated tool where there is one: the user can follow it and permit it more easily than a command "
        "line. Keep Bash for what only a shell can do, such as builds, tests and version control.\n"
        "- Read files with Read, not with `cat`, `head`, `tail` or `sed`.\n"
        "- Plan work of several steps with TodoWrite, and mark each step done when it is done, not at the end.\n"
        "- Send calls that do not need each other's results together, in one turn. A call that needs the result of "
        "another waits for it: never guess an argument."
    )


def test_without_a_shell_nothing_is_said_against_it():
    using = texts(facts(tools=frozenset({"Read", "Grep"})))["using_tools"]
    assert using.count("\n- ") == 1
    assert "`cat`" not in using


def test_a_shell_alone_is_not_told_to_prefer_other_tools():
    assert "dedicated" not in texts(facts(tools=frozenset({"Bash"})))["using_tools"]


def test_without_tools_there_is_nothing_to_say_of_them():
    assert texts(facts(tools=frozenset()))["using_tools"] is None


@given(TOOL_SETS)
def test_no_tool_is_named_that_is_not_enabled(tools):
    said = " ".join(
        text or "" for name, text in texts(facts(tools=tools)).items() if name in ("using_tools", "session_guidance")
    )
    spoken_of = set(said.replace(",", " ").replace(".", " ").replace(";", " ").replace(":", " ").split())
    known = {"Bash", "Glob", "Grep", "TodoWrite", "TaskCreate", "AskUserQuestion", "WebFetch", "Agent"}
    assert spoken_of & known <= tools


# --- dynamic sections ------------------------------------------------------------------------------------------------


def test_the_environment_is_the_clients():
    client = replace(CLIENT, additional_directories=("/a", "/b"))
    git = GitFacts(roots=GitRoots("/home/dev/project", main_toplevel="/w/main"))
    assert texts(facts(client=client, git=git))["env_info"] == (
        "# Environment\n"
        "You have been invoked in the following environment: \n"
        " - Primary working directory: /home/dev/project\n"
        " - This is a git worktree, a checkout of its own beside the repository's main one. Work here, and do not "
        "change into the main checkout.\n"
        " - Is a git repository: true\n"
        " - Additional working directories:\n"
        "   - /a\n"
        "   - /b\n"
        " - Platform: linux\n"
        " - Shell: zsh\n"
        " - OS Version: Linux 6.8\n"
        " - You are powered by the model named Sonnet 4.5. The exact model ID is claude-sonnet-4-5.\n"
        " - Assistant knowledge cutoff is January 2025.\n"
        f" - {NEWEST_MODELS}"
    )


def test_what_is_not_known_of_the_machine_or_the_model_is_left_out():
    assert texts(facts(client=Client(cwd="C:\\w", platform="windows"), model=STRANGER, wire_model="llama-7"))[
        "env_info"
    ] == (
        "# Environment\n"
        "You have been invoked in the following environment: \n"
        " - Primary working directory: C:\\w\n"
        " - Is a git repository: false\n"
        " - Platform: windows\n"
        " - You are powered by the model llama-7.\n"
        f" - {NEWEST_MODELS}"
    )


def test_a_known_model_without_a_cutoff_has_no_such_sentence():
    assert "cutoff" not in texts(facts(model=replace(SONNET, cutoff=None)))["env_info"]


def test_a_model_without_a_name_is_named_by_its_id_and_its_cutoff_is_told_where_it_is_known():
    info = texts(facts(model=replace(SONNET, name=None), wire_model="sonnet-x"))["env_info"]
    assert info.endswith(
        f" - You are powered by the model sonnet-x.\n - Assistant knowledge cutoff is January 2025.\n - {NEWEST_MODELS}"
    )


@pytest.mark.parametrize("model", [SONNET, replace(SONNET, cutoff=None), STRANGER])
def test_one_bullet_tells_of_the_model_family_whatever_the_model(model):
    assert texts(facts(model=model))["env_info"].count(f"\n - {NEWEST_MODELS}") == 1


def test_the_exact_id_is_the_one_that_is_sent():
    info = texts(facts(wire_model="us.anthropic.claude-sonnet-4-5-20250929-v1:0"))["env_info"]
    assert "named Sonnet 4.5. The exact model ID is us.anthropic.claude-sonnet-4-5-20250929-v1:0.\n" in info


@pytest.mark.parametrize(
    "git", [GitFacts(), GitFacts(roots=GitRoots("/w")), GitFacts(roots=GitRoots("/w", main_toplevel="/w"))]
)
def test_a_main_checkout_is_no_worktree(git):
    info = texts(facts(git=git))["env_info"]
    assert "Is a git repository: true" in info
    assert "worktree" not in info


def test_a_worktree_of_a_bare_repository_is_one():
    git = GitFacts(roots=GitRoots("/r/w", main_toplevel="/r", bare=True))
    assert " - This is a git worktree" in texts(facts(git=git))["env_info"]


def test_the_newest_models_are_the_tables():
    table = load_models()
    assert set(table.aliases.values()) == {word for word in NEWEST_MODELS.split("`") if word.startswith("claude-")}
    for id_ in table.aliases.values():
        assert f"{table.find(id_).name} (`{id_}`)" in NEWEST_MODELS


def test_session_guidance_is_about_enabled_tools_and_people_at_the_keyboard():
    assert texts(facts(tools=frozenset()))["session_guidance"] is None
    alone = facts(tools=frozenset({"Skill"}), settings=SessionSettings(interactive=True))
    assert texts(alone)["session_guidance"] == (
        "# Session guidance\n"
        "\n"
        "- `/NAME` in a message by the user calls the skill of that name. Run it with Skill, and only if it is among "
        "the skills listed for you.\n"
        "- If a command needs the user in person, such as a login in a browser or a password, ask the user to run it "
        "and say which command it is."
    )


SKILLS = Skills((Skill("commit", "Writes a commit."), Skill("ship")))


def test_session_guidance_lists_the_skills_below_its_points():
    guidance = texts(facts(tools=frozenset({"Skill"}), settings=SessionSettings(skills=SKILLS)))["session_guidance"]
    assert guidance == (
        "# Session guidance\n"
        "\n"
        "- `/NAME` in a message by the user calls the skill of that name. Run it with Skill, and only if it is among "
        "the skills listed for you.\n"
        "\n"
        "You can run these skills with Skill when they fit the task:\n"
        "- commit: Writes a commit.\n"
        "- ship"
    )


def test_skills_that_no_tool_can_run_are_not_listed():
    without = facts(tools=ALL_TOOLS - {"Skill"})
    assert texts(replace(without, settings=SessionSettings(skills=SKILLS))) == texts(without)


def test_a_skill_that_appears_later_waits_for_the_next_session():
    remembered = to_remember(prompt_elements(facts(), {}))
    assert texts(settings(skills=SKILLS), remembered) == texts(facts())


def test_memory_names_its_folder_when_auto_memory_is_on():
    assert texts(facts())["memory"] is None
    memory = texts(facts(memory_dir="/home/dev/.claude/projects/-p/memory"))["memory"]
    assert memory.startswith("# Memory\n\n")
    assert "`/home/dev/.claude/projects/-p/memory`" in memory
    assert "{" not in memory


def test_the_model_override_is_given_as_it_is():
    assert texts(settings(model_override="Think twice."))["model_override"] == "Think twice."
    assert texts(settings(model_override=" "))["model_override"] is None


def test_the_language_is_named_and_identifiers_stay():
    assert texts(settings(language=" Français "))["language"] == (
        "# Language\n"
        "\n"
        "Always answer in Français: explanations, questions and comments in code too. Identifiers, commands and "
        "technical terms stay as they are."
    )
    assert texts(settings(language=" "))["language"] is None


def test_an_output_style_has_its_name_in_the_heading():
    style = OutputStyle("Pirate", "\nArr.\n")
    assert texts(settings(output_style=style))["output_style"] == "# Output Style: Pirate\nArr."


def test_the_scratchpad_names_its_folder():
    assert "`/scratch/s`" in texts(settings(scratchpad_dir="/scratch/s"))["scratchpad"]
    assert texts(settings(scratchpad_dir=""))["scratchpad"] is None


def test_clearing_says_how_many_results_are_kept():
    assert texts(settings(function_result_clearing=3))["function_result_clearing"] == (
        "# Clearing of tool results\n"
        "\n"
        "Older tool results are removed from this conversation to save room. How many of the most recent ones are "
        "kept: 3."
    )


def test_noting_what_will_be_needed_is_asked_for_when_on():
    on = texts(settings(summarize_tool_results=True))["summarize_tool_results"]
    assert on == PROSE["summarize_tool_results"]


# --- MCP instructions ------------------------------------------------------------------------------------------------


def test_connected_servers_speak_in_the_order_of_their_names():
    servers = (
        McpServer("web", instructions="Be kind.\n"),
        McpServer("pending", status="pending", instructions="no"),
        McpServer("failed", status="failed", instructions="no"),
        McpServer("off", status="disabled", instructions="no"),
        McpServer("empty", instructions=""),
        McpServer("blank", instructions=" \n"),
        McpServer("docs", instructions="Use find."),
    )
    assert texts(facts(servers=servers))["mcp_instructions"] == (
        "# MCP Server Instructions\n"
        "\n"
        "These MCP servers say how their tools and resources are to be used:\n"
        "\n"
        "## docs\n"
        "Use find.\n"
        "\n"
        "## web\n"
        "Be kind."
    )


def test_without_a_speaking_server_there_is_no_heading():
    assert texts(facts(servers=(McpServer("a"), McpServer("b", "failed", "x"))))["mcp_instructions"] is None


def test_each_servers_text_is_cut_by_itself_with_a_mark():
    servers = tuple(McpServer(name, instructions=name * size) for name, size in (("a", 1900), ("b", 3000), ("c", 500)))
    said = texts(facts(servers=servers))["mcp_instructions"]
    assert said.endswith(
        "## a\n"
        + "a" * 1900
        + "\n\n## b\n"
        + "b" * 2048
        + "\n[cut here: 2048 of 3000 characters]\n\n## c\n"
        + "c" * 500
    )


def test_a_text_is_never_cut_within_a_character():
    changed = facts(servers=(McpServer("a", instructions="😀😀"),), settings=SessionSettings(mcp_instruction_limit=3))
    assert texts(changed)["mcp_instructions"].endswith("## a\n😀\n[cut here: 3 of 4 characters]")
