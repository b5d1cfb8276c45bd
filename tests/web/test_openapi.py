"""The OpenAPI document is served, and hangs together."""

from __future__ import annotations

import json
import re

from jsonschema import Draft202012Validator

from streamer.web.api import DOWNLOADS, OPERATIONS
from streamer.web.app import STREAMS, openapi
from streamer.web.connections import EVENTS_PATH
from tests.web.serving import Serving

DOCUMENT = openapi()


async def test_the_document_is_served_and_hangs_together(serving: Serving) -> None:
    assert serving.get("/api/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    references = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(DOCUMENT))
    assert set(references) <= set(DOCUMENT["components"]["schemas"])
    paths = {operation.path for operation in OPERATIONS} | set(STREAMS) | set(DOWNLOADS) | {EVENTS_PATH}
    assert set(DOCUMENT["paths"]) == paths
    ids = [done["operationId"] for path in DOCUMENT["paths"].values() for done in path.values()]
    assert len(set(ids)) == len(ids)
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
