"""Public names, and where each is defined, for type checkers."""

from .base import Booster as Booster
from .base import Boosting as Boosting
from .base import Cut as Cut
from .base import CutOracle as CutOracle
from .base import Formulation as Formulation
from .base import LearnsFromHeldOut as LearnsFromHeldOut
from .base import Problem as Problem
from .base import RecallsResponses as RecallsResponses
from .base import RestrictedMaster as RestrictedMaster
from .base import Resumable as Resumable
from .base import Spreadable as Spreadable
from .base import TakesSparseResponses as TakesSparseResponses
from .base import WeightedColumns as WeightedColumns
from .conditional_likelihood import ConditionalLikelihood as ConditionalLikelihood
from .exponential import Exponential as Exponential
from .logistic import Logistic as Logistic
from .m_slack import MSlack as MSlack
from .norm_bounded import NormBounded as NormBounded
from .norm_bounded_hinge import NormBoundedHinge as NormBoundedHinge
from .one_slack import OneSlack as OneSlack
from .softmax_link import SoftmaxLink as SoftmaxLink
from .stage_wise import StageWise as StageWise
from .stage_wise_likelihood import StageWiseLikelihood as StageWiseLikelihood
from .stage_wise_random_field import StageWiseRandomField as StageWiseRandomField
from .stage_wise_ranking import StageWiseRanking as StageWiseRanking
