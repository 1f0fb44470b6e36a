"""Behaviours with equal, odd and spoilt values in the place of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from structboost.conformance.behaviours import Faults, behaviour, faults_of
from structboost.conformance.checked_face import Face
from structboost.conformance.examples import BAD


def _of_values(kind: str, name: str, values: str, argument: str, method: str) -> None:
    """Add the behaviour that a method takes or refuses each value of a kind of face.

    ``values`` is a method of :class:`structboost.conformance.examples.Kind` that iterates over the
    values, which replace the ``argument``, X or y.  Spoilt ones are refused with the index of the
    example.  Others have the results of the examples, or are refused by the name of the argument.
    """

    @behaviour(kind, name)
    def faults(face: Face) -> Faults:
        is_score = method == "score"
        names = [face.output_name] if argument == "y" else [face.input_name]
        names += face.input_names if method == "predict" else ()
        names += face.kind.words_of_outputs if is_score else ()
        model: Any = None if method == "fit" else face.model()

        def results(value: Any) -> Mapping[str, Any]:
            examples = replace(face.examples, **{argument: value})
            if is_score:
                return {"score": model.score(examples.X, examples.y, **examples.more)}
            fitted = model or face.fit(face.fresh(), examples)
            # A model of values that are not refused predicts the good examples.
            is_fit = method == "fit" and values != "twins_of_inputs"
            return face.responses(fitted, face.examples.X if is_fit else examples.X)

        def fault(value: Any) -> str | None:
            if values.startswith("spoilt"):
                call = partial(results, value)
                return face.refusal(names, call) or face.refusal([str(BAD)], call)
            return face.equal_or_refused(names, partial(results, value), expected)

        examples = getattr(face.examples, argument)
        expected = results(examples) if is_score else None
        yield from faults_of(getattr(face.kind, values)(examples), fault)


for _arguments in (
    ("types", "twins of inputs in predict", "twins_of_inputs", "X", "predict"),
    ("types", "twins of inputs in fit", "twins_of_inputs", "X", "fit"),
    ("types", "twins of outputs", "twins_of_outputs", "y", "fit"),
    ("containers", "odd inputs in predict", "odd_inputs", "X", "predict"),
    ("containers", "odd inputs in fit", "odd_inputs", "X", "fit"),
    ("containers", "odd outputs in fit", "odd_outputs", "y", "fit"),
    ("errors", "bad input in fit", "spoilt_inputs", "X", "fit"),
    ("errors", "bad input in predict", "spoilt_inputs", "X", "predict"),
    ("errors", "bad output in fit", "spoilt_outputs", "y", "fit"),
    ("errors", "bad output in score", "odd_outputs", "y", "score"),
):
    _of_values(*_arguments)
