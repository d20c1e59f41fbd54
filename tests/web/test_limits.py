"""Safe to leave running: limits of size and time, headers, and a heavy question that does not stall the others."""

from __future__ import annotations

import json
import re

import pytest

from groupdp.web.app import LARGEST_BODY, LARGEST_COUNTS
from web.questions import PAPER, question, without_group


def test_every_answer_has_the_strict_headers(client):
    for path in ("/", "/static/main.js", "/api/form", "/api/nothing", "/static/nothing.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_the_page_names_no_other_host(client):
    page = client.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"(src|href)=\"//", page)
    assert "style=" not in page
    assert "<script>" not in page


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/api/epsilon", 405), ("/static/%2e%2e/app.py", 404)])
def test_what_is_not_there(client, path, status):
    response = client.get(path)
    assert response.status_code == status
    assert "/work" not in response.text
    assert ".py" not in response.text


def test_another_name_of_the_machine_is_refused(client):
    assert client.get("/", headers={"host": "attacker.example"}).status_code == 400


def test_a_form_of_another_site_is_refused(client):
    response = client.post("/api/epsilon", content=json.dumps(question()), headers={"content-type": "text/plain"})
    assert response.status_code == 415


def test_large_bodies_are_refused(client):
    headers = {"content-type": "application/json"}
    assert client.post("/api/epsilon", content=b" " * (LARGEST_BODY + 1), headers=headers).status_code == 413
    assert client.post("/api/people", content=b" " * (LARGEST_COUNTS + 1), headers=headers).status_code == 413

    def parts():
        for _ in range(LARGEST_BODY // 1000 + 2):
            yield b" " * 1000

    assert client.post("/api/epsilon", content=parts(), headers=headers).status_code == 413  # no length declared


def test_a_large_file_of_counts_is_answered(client):
    csv = "n\n" + "".join(f"{1 + i % 9}\n" for i in range(200_000))
    found = client.post("/api/people", json={**without_group({**PAPER, "noise_multiplier": 4}), "csv": csv}).json()
    assert found["people"] == 200_000


def test_the_workers_survive_all_of_it(client):
    for size in range(1, 20):
        assert client.post("/api/epsilon", json=question(group_size=size)).status_code == 200


@pytest.mark.parametrize("twice", ['"delta": 1e-5, "delta": 1e-6', '"delta": 1e-6, "group_size": 1, "group_size": 9'])
def test_of_duplicate_names_none_is_lost(client, twice):
    """The last of two values won, and the other one was not mentioned."""
    body = json.dumps({"phases": [PAPER]})[:-1] + f', "adjacency": "remove", {twice}}}'
    response = client.post("/api/epsilon", content=body, headers={"content-type": "application/json"})
    error = response.json()["error"]
    assert (response.status_code, error["kind"]) == (400, "invalid-argument")
    assert error["field"] in ("delta", "group_size")
    assert "once" in error["sentence"]
