from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.tenants import APART, name_in, name_shown, tenant_in

SPACES = st.text(st.sampled_from("ab.-_/"), max_size=4)
NAMES = st.text(st.sampled_from(["a", "b", APART, "/"]), max_size=5)


@given(SPACES, NAMES)
def test_a_caller_sees_the_name_that_it_gave(space: str, name: str) -> None:
    assert name_shown(name_in(space, name)) == name


@given(SPACES, NAMES, SPACES, NAMES)
def test_no_two_sessions_share_a_name(space: str, name: str, other_space: str, other: str) -> None:
    assert (name_in(space, name) == name_in(other_space, other)) == ((space, name) == (other_space, other))


def test_without_tenants_a_name_is_itself() -> None:
    assert name_in("", "s1") == "s1"


@given(st.text(st.sampled_from("ab.-_"), max_size=4), NAMES, st.sampled_from(["", "/1f", "/2e"]))
def test_a_tenant_is_the_same_with_all_its_keys_whatever_its_sessions_are_called(
    space: str, name: str, roots: str
) -> None:
    assert tenant_in(name_in(space + roots, name)) == space
