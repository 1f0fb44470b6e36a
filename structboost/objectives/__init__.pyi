"""Public names, and where each is defined, for type checkers."""

from .abilities import LearnsFromHeldOut as LearnsFromHeldOut
from .abilities import RecallsResponses as RecallsResponses
from .abilities import Resumable as Resumable
from .abilities import Spreadable as Spreadable
from .abilities import TakesSparseResponses as TakesSparseResponses
from .base import Boosting as Boosting
from .base import Formulation as Formulation
from .base import Problem as Problem
from .conditional_likelihood import ConditionalLikelihood as ConditionalLikelihood
from .cut_oracle import Cut as Cut
from .cut_oracle import CutOracle as CutOracle
from .exponential import Exponential as Exponential
from .logistic import Logistic as Logistic
from .m_slack import HingeBySize as HingeBySize
from .m_slack import MSlack as MSlack
from .master import Booster as Booster
from .master import RestrictedMaster as RestrictedMaster
from .master import WeightedColumns as WeightedColumns
from .norm_bounded import NormBounded as NormBounded
from .norm_bounded_hinge import NormBoundedHinge as NormBoundedHinge
from .one_slack import OneSlack as OneSlack
from .softmax_link import SoftmaxLink as SoftmaxLink
from .stage_wise import StageWise as StageWise
from .stage_wise_likelihood import StageWiseLikelihood as StageWiseLikelihood
from .stage_wise_random_field import StageWiseRandomField as StageWiseRandomField
from .stage_wise_ranking import StageWiseRanking as StageWiseRanking
