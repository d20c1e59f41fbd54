"""One running application for all tests of the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from groupdp.web.app import build_app
from groupdp.web.pool import Limits


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    limits = Limits(quick=1, middling=1, slow=1, old=1, young_seconds=1.0, seconds=600.0)
    with TestClient(build_app(limits), base_url="http://127.0.0.1", raise_server_exceptions=False) as running:
        yield running
