"""A pricing rule: one column per round and kind, the best of all channels."""

from structboost.learners import CandidateRule, Column, Term


class BestOfAll(CandidateRule):
    def columns(self, family, duals, per_channel, min_edge):
        best = family.price(duals, 1)[0]
        column = Column((Term(best.learner, best.channel, 1.0),), best.edge)
        return [column] if best.edge > min_edge else [], best.edge
