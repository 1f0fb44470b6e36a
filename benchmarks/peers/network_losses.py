"""PyEPO's SPO+ and perturbed Fenchel-Young loss: a linear layer, trained by Adam."""

from __future__ import annotations

import importlib.util

import numpy as np

from benchmarks.runner.protocol import Method, grid
from structboost.decisions import DecisionProblem

PACKAGES = ("pyepo", "torch")
REMEDY = "PyEPO is left out: `pip install pyepo torch` (a build of torch for CPUs will do)."
BATCH = 32
SPO_PLUS, FENCHEL_YOUNG = "pyepo_spo_plus", "pyepo_fenchel_young"


def is_installed():
    """Whether PyEPO and torch are: they are too large for the benchmarks' own group."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


class LinearLayer(Method):
    """A linear layer from the features of an instance, or of each item, to costs.

    Features and costs are divided by their standard deviations, as ours are.
    """

    packages = PACKAGES
    candidates = [*grid(rate=(0.01,), epochs=(10, 20)), *grid(rate=(0.003, 0.03), epochs=(20,))]
    problem: DecisionProblem  # of the instance

    def __init__(self, name):
        self.name = name

    def fit(self, train, params):
        import pyepo
        import torch
        from pyepo.data.dataset import optDataset
        from torch.utils.data import DataLoader

        torch.set_num_threads(1)
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 -- PyEPO draws from it
        rows = train.X.reshape(-1, train.X.shape[-1])
        std = rows.std(axis=0)
        moments = rows.mean(axis=0), np.where(std > 0, std, 1.0), float(train.y.std())
        model = _opt_model(self.problem, train.y.shape[1])
        data = optDataset(model, (train.X - moments[0]) / moments[1], train.y / moments[2])
        loader = DataLoader(data, batch_size=BATCH, shuffle=True)
        n_outputs = 1 if train.X.ndim == 3 else train.y.shape[1]
        layer = torch.nn.Linear(train.X.shape[-1], n_outputs)
        if self.name == SPO_PLUS:
            loss = pyepo.func.SPOPlus(model, processes=1)
        else:
            loss = pyepo.func.perturbedFenchelYoung(model, n_samples=3, sigma=1.0, processes=1)
        optimizer = torch.optim.Adam(layer.parameters(), lr=params["rate"])
        for _ in range(params["epochs"]):
            for x, costs, decisions, values in loader:
                predicted = layer(x.float()).reshape(costs.shape)
                of_truth = (costs, decisions, values) if self.name == SPO_PLUS else (decisions,)
                optimizer.zero_grad()
                loss(predicted, *of_truth).backward()
                optimizer.step()
        return layer, moments

    def output(self, model, X):
        import torch

        layer, moments = model
        with torch.no_grad():
            scaled = torch.tensor((X - moments[0]) / moments[1]).float()
            return moments[2] * layer(scaled).numpy().astype(float).reshape(len(X), -1)


METHODS = (LinearLayer(SPO_PLUS), LinearLayer(FENCHEL_YOUNG))


def _opt_model(problem, n_items):
    """Our solver as PyEPO asks for it."""
    from pyepo import EPO
    from pyepo.model.opt import optModel

    class Model(optModel):
        def __init__(self):
            self.modelSense = EPO.MAXIMIZE if problem.maximize else EPO.MINIMIZE
            super().__init__()

        def _getModel(self):
            return None, list(range(n_items))

        def setObj(self, c):
            self.costs = np.asarray(c, float)

        @property
        def num_cost(self):
            return n_items

        def solve(self):
            decision = problem.solve(self.costs)
            return decision.astype(np.float32), float(decision @ self.costs)

    return Model()
