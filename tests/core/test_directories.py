from dataclasses import replace

from app.core.directories import MOST_DIRECTORIES, directory_notices
from tests.core.tree import FOLDER, project


def told(plan, tree):
    return [(one.code, one.where) for one in tree.drive(directory_notices(plan))]


def test_directories_that_are_no_folders_are_told():
    tree = project({"/a": FOLDER, "/b": "B"}, additional=("/a", "/b", "/c"))
    assert told(tree.plan(), tree) == [("additional_directory_missing", path) for path in ("/b", "/c")]


def test_more_directories_than_settings_files_may_name_are_told_once():
    tree = project({})
    named = tuple(f"/{number}" for number in range(MOST_DIRECTORIES + 2))
    for count, expected in ((MOST_DIRECTORIES, []), (len(named), [("settings_ignored", f"/{MOST_DIRECTORIES}")])):
        plan = tree.plan()
        configuration = replace(plan.configuration, additional_directories=named[:count])
        assert told(replace(plan, configuration=configuration), tree) == expected
