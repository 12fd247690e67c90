import pytest

from app.core.facts import Content, GitRoots, Kind, Node, Skill, Skills
from app.core.flow import Look, Names, Read
from app.core.skill_files import MOST_ENTRIES, find_skills
from app.workspaces.inline import Link
from tests.core.tree import FOLDER, PROJECT, Tree, project

HERE = f"{PROJECT}/.claude/skills"
USERS = "/home/dev/.claude/skills"
MANAGERS = "/etc/claude-code/.claude/skills"


def found(tree):
    return tree.drive(find_skills(tree.plan()))


def listed(tree):
    return [(skill.name, skill.description) for skill in found(tree)[0].listed]


def names(tree):
    return [name for name, _ in listed(tree)]


def notices(tree):
    return [(notice.code, notice.where) for notice in found(tree)[1]]


def skipped(*paths):
    return [("skill_skipped", path) for path in paths]


def at(folder, **texts):
    return {f"{folder}/{name}/SKILL.md": text for name, text in texts.items()}


# --- where -----------------------------------------------------------------------------------------------------------


def test_a_skill_is_a_folder_with_a_skill_file():
    tree = project({**at(HERE, deploy="Ships."), f"{HERE}/deploy/scripts/run.sh": "x", f"{HERE}/README.md": "x"})
    skills, told = found(tree)
    assert (skills.listed, skills.more, told) == ((Skill("deploy", "Ships."),), 0, ())


@pytest.mark.parametrize("tree", [project({}), project({}, config_dir=None, managed_dir=None), project({HERE: FOLDER})])
def test_without_skills_nothing_is_said(tree):
    assert found(tree) == (Skills(), ())


def test_managed_comes_before_user_before_the_repository_before_the_working_directory():
    folders = {
        "managed": MANAGERS,
        "user": USERS,
        "top": "/home/dev/r/.claude/skills",
        "cwd": "/home/dev/r/s/.claude/skills",
    }
    left = list(folders)
    while left:
        files = {path: text for one in left for path, text in at(folders[one], a=one).items()}
        tree = Tree(files, cwd="/home/dev/r/s", roots=GitRoots("/home/dev/r"))
        assert listed(tree) == [("a", left[0])]
        assert notices(tree) == skipped(*(f"{folders[one]}/a/SKILL.md" for one in left[1:]))
        left = left[1:]


def test_which_one_came_first_is_told():
    tree = project({**at(USERS, a="user"), **at(HERE, a="project")})
    (notice,) = found(tree)[1]
    assert f"{USERS}/a/SKILL.md" in notice.message
    assert "rename" in notice.message


def test_the_same_skill_twice_needs_no_word():
    assert notices(project({**at(USERS, a="Same."), **at(HERE, a="Same.")})) == []


def test_a_hidden_skill_hides_the_later_ones_of_its_name():
    off = "---\ndisable-model-invocation: true\n---\nSame."
    tree = project({**at(MANAGERS, a=off), **at(HERE, a="Same.", b="B")})
    assert listed(tree) == [("b", "B")]
    assert notices(tree) == skipped(f"{HERE}/a/SKILL.md")


@pytest.mark.parametrize(
    ("sources", "expected"),
    [((), ["m"]), (("user",), ["m", "u"]), (("project",), ["m", "p"]), (("local",), ["m"])],
)
def test_sources_hold_and_managed_is_always_on(sources, expected):
    assert names(project({**at(MANAGERS, m="m"), **at(USERS, u="u"), **at(HERE, p="p")}, sources=sources)) == expected


def test_folders_between_the_repository_and_the_working_directory_hold_none():
    files = {**at("/home/dev/r/.claude/skills", r="r"), **at("/home/dev/r/s/.claude/skills", s="s")}
    assert names(Tree(files, cwd="/home/dev/r/s/t", roots=GitRoots("/home/dev/r"))) == ["r"]
    assert names(Tree(files, cwd="/home/dev/r/s/t")) == []


def test_additional_directories_count_when_asked_for():
    tree = project(at("/more/.claude/skills", m="m"), additional=("/more",))
    assert names(tree) == []
    assert names(tree.asked(from_additional_directories=True)) == ["m"]


@pytest.mark.parametrize("cwd", ["/home/dev", "/home/dev/.claude"])
def test_the_homes_own_folder_holds_no_project_skills(cwd):
    files = {**at(USERS, u="u"), **at("/home/dev/.claude/.claude/skills", v="v")}
    assert names(Tree(files, cwd=cwd, sources=("project",))) == []
    assert names(Tree(files, cwd=cwd)) == ["u"]


@pytest.mark.parametrize("link", [f"{PROJECT}/.claude", HERE])
def test_a_link_to_the_homes_own_folder_makes_no_project_skills(link):
    target = "/home/dev/.claude" + link.removeprefix(f"{PROJECT}/.claude")
    tree = project({**at(USERS, u="u"), link: Link(target)}, sources=("project",))
    assert found(tree)[0].listed == ()


def test_links_are_followed_and_one_folder_is_looked_at_once():
    files = {**at("/lib", a="A"), f"{HERE}/linked": Link("/lib/a"), USERS: Link(HERE)}
    tree = project(files)
    assert (listed(tree), notices(tree)) == ([("linked", "A")], [])


def test_a_linked_file_is_read():
    assert listed(project({"/lib/x.md": "X", f"{HERE}/a/SKILL.md": Link("/lib/x.md")})) == [("a", "X")]


def test_windows_paths_work():
    files = {"C:\\w\\.claude\\skills\\a\\SKILL.md": "A"}
    assert listed(Tree(files, cwd="C:\\w", home=None, config_dir=None, managed_dir=None)) == [("a", "A")]


# --- order and bounds ------------------------------------------------------------------------------------------------


def test_skills_stand_in_the_order_of_their_names_wherever_they_lie():
    files = {**at(USERS, b="1", Z="2"), **at(HERE, a="3", é="4", _x="---\nname: c\n---\n5")}
    assert names(project(files)) == ["Z", "a", "b", "c", "é"]
    assert found(project(files)) == found(project(dict(reversed(files.items()))))


def test_the_hundred_and_first_skill_is_counted_and_told():
    tree = project({**at(HERE, **{f"s{at:03}": "x" for at in range(100)}), **at(USERS, z1="x", z2="y")})
    skills, (notice,) = found(tree)
    assert [skill.name for skill in skills.listed] == [f"s{at:03}" for at in range(100)]
    assert (skills.more, notice.code, notice.where) == (2, "skills_cut", USERS)
    assert notice.message.startswith("2 skills are not listed")


def test_long_lists_are_cut_too():
    skills, (notice,) = found(project(at(HERE, **{f"s{at:02}": "x" * 250 for at in range(32)})))
    assert (len(skills.listed), skills.more, notice.where) == (31, 1, HERE)
    assert notice.message.startswith("1 skill is not listed")


def test_no_more_than_five_hundred_entries_are_looked_at_in_all():
    files = {f"{HERE}/n{at:03}": FOLDER for at in range(MOST_ENTRIES)}
    tree = project({**at(USERS, u="u"), **files, **at(HERE, zz="late")})
    skills, told = found(tree)
    assert (skills.listed, skills.more) == ((Skill("u", "u"),), 2)
    assert [(one.code, one.where) for one in told] == [("skills_cut", HERE)]
    assert told[0].message.startswith("2 of its 501 entries were not looked at")


def test_the_bytes_of_a_request_are_bounded():
    big = "A\n" + "x" * (1024 * 1024 - 2)
    tree = project(at(HERE, **{f"s{at:02}": big for at in range(17)}, t="---\ndescription: T\n---"))
    assert tree.plan().limits.memory_bytes == 16 * len(big)
    assert names(tree) == [f"s{at:02}" for at in range(16)]
    assert notices(tree) == skipped(f"{HERE}/s16/SKILL.md", f"{HERE}/t/SKILL.md")


# --- what is wrong ---------------------------------------------------------------------------------------------------


def test_one_bad_skill_costs_no_other():
    tree = project(at(HERE, a="", b="B"))
    assert (names(tree), notices(tree)) == (["b"], skipped(f"{HERE}/a/SKILL.md"))


def test_a_fault_that_costs_only_a_value_is_told_too():
    tree = project(at(HERE, a="---\nname: [x]\n---\nA"))
    assert (names(tree), notices(tree)) == (["a"], skipped(f"{HERE}/a/SKILL.md"))


def test_a_file_over_the_limit_is_told():
    tree = project(at(HERE, a="x" * 11), largest=10)
    (notice,) = found(tree)[1]
    assert notice.where == f"{HERE}/a/SKILL.md"
    assert "STRATA_MAX_FILE_BYTES" in notice.message


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD"])
def test_a_file_that_is_nearly_named_right_is_told(name):
    tree = project({f"{HERE}/a/{name}": "A", f"{HERE}/b/README.md": "B"})
    (notice,) = found(tree)[1]
    assert (notice.code, notice.message, notice.where) == ("skill_skipped", "Name it SKILL.md.", f"{HERE}/a/{name}")


def test_beside_the_right_name_others_are_no_fault():
    assert notices(project({f"{HERE}/a/skill.md": "old", **at(HERE, a="A")})) == []


def test_a_skill_file_without_a_folder_is_told():
    assert notices(project({f"{HERE}/SKILL.md": "A"})) == skipped(f"{HERE}/SKILL.md")


@pytest.mark.parametrize(
    "files",
    [
        {HERE: "a file"},
        {HERE: Link("nowhere")},
        {f"{HERE}/a": Link("nowhere")},
        {f"{HERE}/a/SKILL.md": Link("nowhere")},
        {f"{HERE}/a/SKILL.md": FOLDER},
    ],
)
def test_what_stands_in_the_way_is_told(files):
    assert notices(project(files)) == skipped(*files)


def answered(tree, answers):
    """The flow over a tree, with other answers to some questions."""
    flow, asked = find_skills(tree.plan()), tree.answers()
    try:
        question = next(flow)
        while True:
            question = flow.send(answers[question] if question in answers else asked.answer(question))
    except StopIteration as ended:
        return [(notice.code, notice.where) for notice in ended.value[1]]


UNREADABLE = Content(None, "unreadable")


@pytest.mark.parametrize(
    ("answers", "where"),
    [
        ({Names(HERE): (), Read(HERE): UNREADABLE}, HERE),
        ({Look(HERE): Node(Kind.UNREADABLE, HERE)}, HERE),
        ({Look(HERE): Node(Kind.OUTSIDE, HERE)}, HERE),
        ({Look(f"{HERE}/a"): Node(Kind.OUTSIDE, f"{HERE}/a")}, f"{HERE}/a"),
        ({Look(f"{HERE}/a"): Node(Kind.SPECIAL, f"{HERE}/a")}, f"{HERE}/a"),
        ({Look(f"{HERE}/a/SKILL.md"): Node(Kind.SPECIAL, f"{HERE}/a/SKILL.md")}, f"{HERE}/a/SKILL.md"),
        ({Read(f"{HERE}/a/SKILL.md"): UNREADABLE}, f"{HERE}/a/SKILL.md"),
        ({Names(HERE): ("\ufffd",)}, f"{HERE}/\ufffd"),
    ],
)
def test_what_may_not_be_read_is_told(answers, where):
    assert answered(project(at(HERE, a="A")), answers) == skipped(where)


def test_what_vanished_meanwhile_is_no_fault():
    assert answered(project(at(HERE, a="A")), {Names(HERE): ("a", "gone")}) == []


def test_folders_beyond_what_the_service_may_read_are_no_fault():
    beyond = {Look(path): Node(Kind.OUTSIDE, path) for path in (USERS, "/home/dev/.claude")}
    assert answered(project(at(HERE, a="A")), beyond) == []
