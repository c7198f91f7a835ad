"""Every noun comes back from JSON as it was."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcd.core.job import Job, Topology
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.serial import from_data, from_json, to_data, to_json
from mlcd.store import documents

MODULES = (
    "goal",
    "job",
    "live",
    "machines",
    "plan",
    "progress",
    "records",
    "run",
    "study",
    "task",
    "trial",
    "view",
)
NOUNS = [
    noun
    for module in map(import_module, (f"mlcd.core.{name}" for name in MODULES))
    for noun in vars(module).values()
    if is_dataclass(noun) and noun.__module__ == module.__name__
]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def values(kind: Any, floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Anything of an annotated type, every field of a noun included."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*(values(one, floats) for one in inside))
    if origin is Literal:
        return st.sampled_from(inside)
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(st.deferred(lambda: values(inside[0], floats)), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(one, floats) for one in inside))
    if origin is not None:  # dict and Mapping
        return st.dictionaries(values(inside[0], floats), values(inside[1], floats), max_size=2)
    return _plain(kind, floats)


def _plain(kind: Any, floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: values(hints[field.name], floats) for field in fields(kind)})
    known = {
        Any: JSON,
        NoneType: st.none(),
        float: floats,
        int: st.integers(-(2**31), 2**31),
        str: st.text(max_size=8),
        Path: st.text("ab/.", min_size=1, max_size=8).map(Path),
    }
    return known[kind] if kind in known else st.from_type(kind)


quick = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
@quick
@given(data=st.data())
def test_a_noun_comes_back_as_it_was(noun: type, data: st.DataObject) -> None:
    value = data.draw(values(noun, FINITE))
    assert from_json(noun, to_json(value)) == value
    assert from_data(noun, json.loads(json.dumps(to_data(value)))) == value


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
@quick
@given(data=st.data())
def test_a_stored_noun_may_be_endless(noun: type, data: st.DataObject) -> None:
    value = data.draw(values(noun, st.floats(allow_nan=False)))
    assert documents.read(noun, documents.write(value)) == value


def test_all_nouns_are_tried() -> None:
    names = {noun.__name__ for noun in NOUNS}
    assert {
        "Job",
        "Deployment",
        "Trial",
        "Study",
        "Plan",
        "Attempt",
        "JobRecord",
        "TaskStatus",
        "JobView",
    } <= names


def test_what_was_stored_before_servers_had_a_type_of_their_own_is_read() -> None:
    where = Deployment(Offer("local", InstanceType("a", vcpus=2), 0.1, 4), 3, servers=1)
    stored = to_data(where)
    del stored["server_offer"]
    for name in ("mixes", "shared_vcpus", "pool"):
        del stored["offer"][name]
    assert from_data(Deployment, stored) == where
    job = to_data(Job("j", "train", topology=Topology.PS))
    del job["servers"]
    assert from_data(Job, job) == Job("j", "train", topology=Topology.PS)
