"""Runs of exported models."""

import numpy as np
import onnxruntime

from structboost import to_onnx


def session_of(model, *arguments, **options):
    """Session of a model that is exported."""
    exported = to_onnx(model, *arguments, **options).SerializeToString()
    return onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])


def outputs(session, inputs):
    """Outputs of a session by name, for the input X or a dict of inputs."""
    if not isinstance(inputs, dict):
        dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
        inputs = {"X": np.asarray(inputs, dtype)}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def run(model, inputs, *arguments, **options):
    """Outputs of a model that is exported, by name."""
    return outputs(session_of(model, *arguments, **options), inputs)


METHODS = {
    "label": "predict",
    "labels": "predict",
    "scores": "decision_function",
    "probabilities": "predict_proba",
    "marginals": "predict_marginals",
}


def check_same(found, model, X, tolerance):
    """Check that outputs are those of the methods of a model."""
    for name, values in found.items():
        expected = getattr(model, METHODS[name])(X)
        if name == "labels" and isinstance(expected, list):
            expected = [[int(label in labels) for label in model.classes_] for labels in expected]
        expected = np.asarray(expected)
        assert values.shape == expected.shape
        if expected.dtype.kind == "f":
            size = max(1.0, np.abs(expected).max(initial=0.0))
            np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance * size)
        elif name == "label":
            assert not is_clear(found, tolerance)[values != expected].any()
        else:
            assert values.tolist() == expected.tolist()


def is_clear(found, tolerance):
    """Whether the two best scores of each row differ by more than rounding."""
    scores = found.get("scores", found.get("probabilities"))
    scores = np.column_stack((np.zeros(len(scores)), scores)) if scores.ndim == 1 else scores
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2] > 2 * tolerance * max(1.0, np.abs(scores).max(initial=0))
