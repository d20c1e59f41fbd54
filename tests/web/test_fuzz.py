"""Whatever is asked, the answer is one that the API's description promises: a number, or one sentence."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from groupdp.web.answers import QUESTIONS
from groupdp.web.openapi import description
from strategies import examples
from web.schemas import nearly_valid

DESCRIPTION = description()


def schema_of(name, status):
    content = DESCRIPTION["paths"][f"/api/{name}"]["post"]["responses"][str(status)]["content"]
    return {**content["application/json"]["schema"], "components": DESCRIPTION["components"]}


def request_schema(name):
    return DESCRIPTION["paths"][f"/api/{name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]


def test_every_question_is_described():
    assert {path for path in DESCRIPTION["paths"] if "post" in DESCRIPTION["paths"][path]} == {
        f"/api/{name}" for name in QUESTIONS
    }


@pytest.mark.parametrize("name", sorted(QUESTIONS))
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_asked_the_answer_is_as_described(client, name, data):
    document = data.draw(nearly_valid(request_schema(name), DESCRIPTION))
    body = json.dumps(document).encode()
    response = client.post(f"/api/{name}", content=body, headers={"content-type": "application/json"})
    assert str(response.status_code) in DESCRIPTION["paths"][f"/api/{name}"]["post"]["responses"], response.text
    jsonschema.validate(response.json(), schema_of(name, response.status_code))
    if response.status_code != 200:
        sentence = response.json()["error"]["sentence"]
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert "Traceback" not in sentence
        assert "site-packages" not in response.text


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200))
def test_bytes_are_refused_or_answered(client, body):
    response = client.post("/api/curve", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
