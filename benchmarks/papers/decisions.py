"""Costs predicted for decisions: regret of ours, of two-stage prediction and of PyEPO's losses."""

import importlib.util
from functools import lru_cache

import numpy as np

from benchmarks.ours import decisions as ours
from benchmarks.ours.decisions import EXPECTED, STARTED
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import Method, grid
from benchmarks.runner.records import median
from structboost.decisions import DecisionProblem

PACKAGES = ("pyepo", "torch")
BATCH = 32
SPO_PLUS, FENCHEL_YOUNG = "pyepo_spo_plus", "pyepo_fenchel_young"


def is_installed():
    """Whether PyEPO and torch are: they are too large for the benchmarks' own group."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


class LinearLayer(Method):
    """A linear layer from the features of an instance, or of each item, to costs.

    Features and costs are divided by their standard deviations, as ours are.
    """

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


ROUTES = {f"degree_{degree}": degree for degree in (1, 2, 4, 6, 8)}
OWN = ("thresholds", "rosters", "offers")
# The seeds of knapsack.npz, the trials of dboost; elsewhere draws of the instance.
REPEATS = {"knapsack": 5, "network": 10, **dict.fromkeys(OWN, 3)}
CANDIDATES = 4
FILES = {"notebook": (ours.NOTEBOOK,), "knapsack": (ours.KNAPSACK,)}
FILES |= dict.fromkeys((*ROUTES, "network", *OWN), ())


@lru_cache(maxsize=1)
def instance(source, repeat):
    if source.name in ROUTES:
        return ours.routes(ROUTES[source.name], 135 + repeat)
    make = getattr(ours, source.name)
    return make(source.arrays(), repeat) if source.files else make(repeat)


def learners(source):
    """Learners by name; PyEPO's only where it is installed.

    A start from boosted trees costs most of all, and is for costs that are no linear form.
    """
    peers = METHODS if is_installed() else ()
    own = {method.name: method for method in (*ours.TWO_STAGE, *ours.OURS, *peers)}
    if source.name not in OWN:
        del own[STARTED]
    return own if source.name == "knapsack" else {**own, EXPECTED: None}


def cases(source, learner):
    n = {} if learner == EXPECTED else {"candidates": CANDIDATES}
    return [{"repeat": k, **n} for k in range(REPEATS.get(source.name, 1))]


def regret(source, learner, *, repeat, candidates=0):
    return ours.tuned(learner, instance(source, repeat), candidates)


EXPERIMENTS = [
    Experiment(
        *(FILES, learners, regret, cases),
        metrics={"regret": "value"},
        more=lambda rows: {"median": median(row["value"] for row in rows)},
    )
]
