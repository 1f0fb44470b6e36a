"""Public names, and where each is defined, for type checkers."""

from .choices import Assignment as Assignment
from .choices import Choose as Choose
from .choices import Knapsack as Knapsack
from .choices import Tour as Tour
from .inputs import Decision as Decision
from .inputs import DecisionInput as DecisionInput
from .paths import AcyclicPath as AcyclicPath
from .paths import GridPath as GridPath
from .paths import ShortestPath as ShortestPath
from .problem import DecisionProblem as DecisionProblem
from .problem import LinearProgram as LinearProgram
from .problem import SolvedBy as SolvedBy
from .task import PredictThenOptimizeTask as PredictThenOptimizeTask
