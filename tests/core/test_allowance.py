from app.core.allowance import Allowance, Limits


def test_an_allowance_gives_out_what_its_limits_hold():
    left = Allowance.of(Limits(rules=2, includes=1, memory_bytes=10))
    assert [left.take_rule() for _ in range(3)] == [True, True, False]
    assert [left.take_include() for _ in range(2)] == [True, False]


def test_a_file_that_is_too_large_leaves_room_for_a_smaller_one():
    left = Allowance.of(Limits(memory_bytes=10))
    assert [left.take_bytes(size) for size in (6, 5, 4, 1)] == [True, False, True, False]
