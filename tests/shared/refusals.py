"""What a refusal is about: its parts, not its words, which tests/test_errors.py has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groupdp import InvalidArgument


@contextmanager
def refused(argument: str, *, value: object = ...) -> Iterator[pytest.ExceptionInfo[Any]]:
    """The block raises an InvalidArgument about `argument`, and about `value` where one is given."""
    with pytest.raises(InvalidArgument) as caught:
        yield caught
    assert caught.value.argument == argument
    if value is not ...:
        assert caught.value.value == value
