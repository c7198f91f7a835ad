"""The metadata service answers as EC2's does."""

from __future__ import annotations

from werkzeug.test import Client

from mlcd_emulate.metadata import MetadataService, look_up, notice_tree

TREE = {"meta-data/instance-id": "i-1", "meta-data/placement/region": "us-east-1", "user-data": "#!/bin/sh"}


def client(token_required: bool = False) -> Client:
    return Client(MetadataService(lambda: TREE, lambda: token_required))


def token(service: Client, seconds: str = "60") -> str:
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": seconds}
    return service.put("/latest/api/token", headers=headers).text


def test_a_folder_lists_what_is_in_it() -> None:
    assert look_up(TREE, "/latest/meta-data/") == "instance-id\nplacement/"
    assert look_up(TREE, "/latest/") == "meta-data/\nuser-data"
    assert look_up(TREE, "/latest/meta-data/placement") == "region"
    assert look_up(TREE, "/latest/meta-data/spot/instance-action") is None


def test_a_token_opens_the_service() -> None:
    service = client(token_required=True)
    assert service.get("/latest/meta-data/instance-id").status_code == 401
    headers = {"X-aws-ec2-metadata-token": token(service)}
    assert service.get("/latest/meta-data/instance-id", headers=headers).text == "i-1"
    assert service.get("/latest/meta-data/nothing", headers=headers).status_code == 404


def test_a_wrong_token_opens_nothing_even_where_none_is_needed() -> None:
    service = client()
    assert service.get("/latest/meta-data/instance-id").text == "i-1"
    wrong = {"X-aws-ec2-metadata-token": "guess"}
    assert service.get("/latest/meta-data/instance-id", headers=wrong).status_code == 401


def test_a_token_lasts_six_hours_at_most() -> None:
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "21601"}
    assert client().put("/latest/api/token", headers=headers).status_code == 400
    assert client().put("/latest/api/token").status_code == 400


def test_a_notice_is_told_both_ways() -> None:
    told = notice_tree("2026-01-01T00:02:00Z")
    assert told["meta-data/spot/termination-time"] == "2026-01-01T00:02:00Z"
    assert '"action": "terminate"' in told["meta-data/spot/instance-action"]
