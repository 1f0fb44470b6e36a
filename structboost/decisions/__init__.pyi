"""Public names, and where each is defined, for type checkers."""

from .choices import Assignment as Assignment
from .choices import Choose as Choose
from .choices import Knapsack as Knapsack
from .choices import MatroidBasis as MatroidBasis
from .choices import Tour as Tour
from .instances import Decision as Decision
from .instances import DecisionInput as DecisionInput
from .paths import AcyclicPath as AcyclicPath
from .paths import GridPath as GridPath
from .paths import ShortestPath as ShortestPath
from .problem import DecisionProblem as DecisionProblem
from .problem import SolvedBy as SolvedBy
from .programs import LinearProgram as LinearProgram
from .task import PredictThenOptimizeTask as PredictThenOptimizeTask
