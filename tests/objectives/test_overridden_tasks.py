"""Subclasses of the library's tasks are probed where they override a method."""

from __future__ import annotations

import pytest

from structboost import MulticlassTask, Task
from structboost.contract.separation import Separation
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(8)
PROVED = [name for name, problem in PROBLEMS.items() if problem.task.separates_in_batches]


class FindsTheTruth:
    """Mixin whose loss-augmented argmax is the truth, in both batch forms."""

    def argmax_batch(self, X, scores, Y=None):
        return super().argmax_batch(X, scores) if Y is None else list(Y)

    def separate(self, X, Y, scores):
        return Separation.from_outputs(self, X, Y, list(Y), scores.offsets)


class SeparatesTheTruth:
    def separate(self, X, Y, scores):
        return Separation.from_outputs(self, X, Y, list(Y), scores.offsets)


class ArgmaxIsTheTruth:
    """Mixin of the forms of one example, from which the default batch forms follow."""

    def augmented_argmax(self, x, scores, y):
        return y

    def argmax_batch(self, X, scores, Y=None):
        return Task.argmax_batch(self, X, scores, Y)

    def separate(self, X, Y, scores):
        return Task.separate(self, X, Y, scores)


MIXINS = [FindsTheTruth, SeparatesTheTruth, ArgmaxIsTheTruth]


def subclass_of(kind, mixin, *, in_bases):
    """Subclass of a task that inherits the methods of a mixin, or one that defines them itself."""
    mixed = type("Mixed", (mixin, kind), {})
    if in_bases:
        return mixed
    own = {name: vars(mixin)[name] for name in vars(mixin) if not name.startswith("__")}
    return type("Own", (kind,), {name: forwarded(method, mixed) for name, method in own.items()})


def forwarded(method, mixed):
    """Method that a class defines itself, whose ``super()`` is that of the mixin."""

    def call(self, *arguments, **keywords):
        twin = object.__new__(mixed)
        twin.__dict__.update(vars(self))
        return method(twin, *arguments, **keywords)

    return call


@pytest.mark.parametrize("in_bases", [True, False])
@pytest.mark.parametrize("mixin", MIXINS)
@pytest.mark.parametrize("name", PROVED)
def test_a_search_of_the_truth_below_a_proved_class_is_not_proved(name, mixin, in_bases):
    task = PROBLEMS[name].task
    lying = object.__new__(subclass_of(type(task), mixin, in_bases=in_bases))
    lying.__dict__.update(vars(task))
    assert not lying.separates_in_batches


def test_a_subclass_without_methods_is_as_proved_as_its_base():
    class Named(MulticlassTask):
        """Another name."""

    class Declared(MulticlassTask):
        separates_in_batches = True

        def is_valid(self, x, y):
            return True

    class BelowOverridden(type("Overridden", (MulticlassTask,), {"loss": MulticlassTask.loss})):
        pass

    assert Named.separates_in_batches
    assert Declared.separates_in_batches
    assert not BelowOverridden.separates_in_batches
