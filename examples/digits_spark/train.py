"""Trains a logistic regression on scikit-learn's handwritten digits with Spark MLlib.

Runs as it is (`python train.py` or `spark-submit train.py`, on this computer alone) and under mlcd, which starts a cluster on all
nodes. mlcd counts the passes that L-BFGS makes over the data.

    COPIES      so many noisy copies of each image, by default 20
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pyspark.ml.classification import LogisticRegression, LogisticRegressionModel
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_digits

import mlcd

COPIES = int(os.environ.get("COPIES", "20"))
SAMPLES = COPIES * 1437
PASSES = max(1, round(float(os.environ.get("MLCD_WORK_SAMPLES") or 40 * SAMPLES) / SAMPLES))
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))

Row = tuple[int, int, list[float]]


def main() -> None:
    spark = SparkSession.builder.appName("digits").getOrCreate()
    rows, images, labels = load_data()
    data = distributed(spark, rows).cache()
    # A tolerance of 0: all iterations that were asked for.
    model = LogisticRegression(maxIter=PASSES, regParam=0.001, tol=0.0).fit(data)
    accuracy = float((predictions(model, images) == labels).mean())
    mlcd.report(loss=model.summary.objectiveHistory[-1], test_accuracy=accuracy)
    hand_back(model, accuracy)
    spark.stop()


def load_data() -> tuple[list[Row], np.ndarray, np.ndarray]:
    """Four fifths to train on, as rows of number, label and image; one to test with."""
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = (digits.data / 16.0)[order], digits.target[order]
    rows = [(number, int(labels[number]), images[number].tolist()) for number in range(1437)]
    return rows, images[1437:], labels[1437:]


def distributed(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """The copies, made where they are trained on: one part for each core of the cluster."""
    parts = spark.sparkContext.parallelize(rows, spark.sparkContext.defaultParallelism)
    return parts.flatMap(noisy_copies).toDF(["label", "features"])


def noisy_copies(row: Row) -> Iterator[tuple[float, object]]:
    number, label, image = row
    noise = np.random.default_rng(number).normal(scale=0.05, size=(COPIES, len(image)))
    return ((float(label), Vectors.dense(copy)) for copy in noise + image)


def predictions(model: LogisticRegressionModel, images: np.ndarray) -> np.ndarray:
    return (images @ model.coefficientMatrix.toArray().T + model.interceptVector.toArray()).argmax(axis=1)


def hand_back(model: LogisticRegressionModel, accuracy: float) -> None:
    """Write by the driver: what `model.save` writes lies on the disks of the executors."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    coefficients, intercepts = model.coefficientMatrix.toArray(), model.interceptVector.toArray()
    np.savez(OUTPUT / "model.npz", coefficients=coefficients, intercepts=intercepts)
    (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": accuracy}))
    shutil.copy(Path(__file__).with_name("predict.py"), OUTPUT)
    print(f"test_accuracy={accuracy:.4f}")


if __name__ == "__main__":
    main()
