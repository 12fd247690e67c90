from app.core.levels import LEVELS, levels_at


def test_levels_stand_lowest_priority_first():
    assert [level.type for level in LEVELS] == ["Managed", "User", "Project", "Local", "AutoMem", "TeamMem"]


def test_only_user_project_and_local_files_have_a_source_and_can_be_excluded():
    named = {level.type: level.source for level in LEVELS if level.source}
    assert named == {"User": "user", "Project": "project", "Local": "local"}
    assert {level.type for level in LEVELS if level.excludable} == named.keys()


def test_every_base_has_its_levels_in_order():
    assert [level.type for level in levels_at("directory")] == ["Project", "Local"]
    bases = dict.fromkeys(level.base for level in LEVELS)
    assert [level for base in bases for level in levels_at(base)] == list(LEVELS)
