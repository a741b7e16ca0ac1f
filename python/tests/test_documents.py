"""Every public name has a docstring."""

import pytest

import koofu


@pytest.mark.parametrize("name", [name for name in koofu.__all__ if name not in ("KooFu",
                                                                                 "__version__")])
def test_everything_is_documented(name):
    thing = getattr(koofu, name)
    assert thing.__doc__
    members = vars(thing).items() if isinstance(thing, type) else ()
    for member, value in members:
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert value.__doc__, f"{name}.{member} has no docstring"
