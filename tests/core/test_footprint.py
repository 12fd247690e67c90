from itertools import product

from app.core.footprint import FileMark, FolderMark, Footprint, Stamp, joined

OLD, NEW = Stamp(1, 2, 3, 4, 5), Stamp(1, 2, 3, 6, 6)
FILE = FileMark("/p/CLAUDE.md", OLD, settled=True, sha256="00")
FOLDER = FolderMark("/p", OLD, settled=True, entries=(("CLAUDE.md", "file"),))


def test_it_is_settled_when_all_of_it_is():
    for file, folder in product((True, False), repeat=2):
        one = Footprint(
            (FileMark("/p/a", OLD, settled=file, sha256=None),), (FolderMark("/p", OLD, settled=folder, entries=()),)
        )
        assert one.settled == (file and folder)
    assert Footprint().settled


def test_what_both_have_counts_once_and_stands_in_the_order_of_paths():
    other = FileMark("/a", OLD, settled=True, sha256="11")
    both = joined(Footprint((FILE,), (FOLDER,)), Footprint((other, FILE), (FOLDER,)))
    assert both == Footprint((other, FILE), (FOLDER,))
    assert joined(Footprint(), both) == joined(both, Footprint()) == both


def test_a_folder_in_which_both_looked_has_what_each_found():
    second = FolderMark("/p", OLD, settled=True, entries=((".claude", "absent"),), names=("CLAUDE.md",))
    (folder,) = joined(Footprint((), (FOLDER,)), Footprint((), (second,))).folders
    assert folder == FolderMark("/p", OLD, True, ((".claude", "absent"), ("CLAUDE.md", "file")), ("CLAUDE.md",))
    (turned,) = joined(Footprint((), (second,)), Footprint((), (FOLDER,))).folders
    assert turned == folder


def test_where_they_differ_the_first_counts_and_its_stamp_proves_nothing():
    second = FolderMark("/p", NEW, settled=True, entries=(("CLAUDE.md", "absent"),))
    changed = FileMark("/p/CLAUDE.md", NEW, settled=True, sha256="22")
    both = joined(Footprint((FILE,), (FOLDER,)), Footprint((changed,), (second,)))
    assert both == Footprint((FILE,), (FolderMark("/p", OLD, settled=False, entries=(("CLAUDE.md", "file"),)),))


def test_a_file_that_one_read_and_one_only_looked_at_counts_as_read_while_its_size_is_the_same():
    seen = FileMark("/p/CLAUDE.md", NEW, settled=True, sha256=None)
    for one, other in ((seen, FILE), (FILE, seen)):
        assert joined(Footprint((one,)), Footprint((other,))) == Footprint((FILE,))
    grown = FileMark("/p/CLAUDE.md", Stamp(1, 2, 9, 6, 6), settled=True, sha256=None)
    assert joined(Footprint((grown,)), Footprint((FILE,))) == Footprint((grown,))
