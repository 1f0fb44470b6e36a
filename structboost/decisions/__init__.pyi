"""Public names, and where each is defined: read by type checkers and by ``__init__.py``."""

from .choices import Assignment as Assignment
from .choices import Choose as Choose
from .choices import MatroidBasis as MatroidBasis
from .knapsack import Knapsack as Knapsack
from .paths import AcyclicPath as AcyclicPath
from .paths import GridPath as GridPath
from .problem import DecisionProblem as DecisionProblem
from .problem import SolvedBy as SolvedBy
from .programs import LinearProgram as LinearProgram
from .programs import ShortestPath as ShortestPath
from .tours import Tour as Tour
