"""Predictions of models that trainings handed back; each model runs in a process of its own, with limits."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.serving.kinds import Kind, find_servable
from mlcd.web.api.common import VisibleJob, gives
from mlcd.web.auth import SiteOf
from mlcd.web.clouds import refuse_model
from mlcd.web.serialize import answer
from mlcd.web.submission import Body

router = APIRouter(tags=["models"])


class Question(Body):
    """What a model is asked."""

    inputs: Any = Field(description="Most models take a list with an item for each prediction.")
    dtype: Literal["float32", "float64", "int32", "int64", "bool"] = Field(
        "float32", description="The data type of the inputs, unless the model is a predict.py."
    )


class Prediction(BaseModel):
    """What a model answered."""

    outputs: Any


class Served(BaseModel):
    """How to ask a model."""

    job_id: str
    kind: Kind
    file: str


@router.get("/models/{job_id}/predict", name="predict_about", responses=gives(Served))
def about(job_id: VisibleJob, site: SiteOf) -> Response:
    """How to ask the job's model; 404 if it cannot be asked."""
    folder = site.client.model_folder(job_id)
    refuse_model(site, site.client.find(job_id).owner)
    found = find_servable(folder, job_id)
    return answer({"job_id": job_id, "kind": found.kind.value, "file": str(found.path.relative_to(folder))})


@router.post("/models/{job_id}/predict", name="predict_model", responses=gives(Prediction))
def predict(job_id: VisibleJob, site: SiteOf, sent: Question) -> Response:
    """The outputs of the job's model for these inputs."""
    refuse_model(site, site.client.find(job_id).owner)
    return answer({"outputs": site.client.predict(job_id, sent.inputs, dtype=sent.dtype)})
