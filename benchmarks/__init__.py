"""Benchmarks: ours beside the papers' figures and the peers, on real data.

``python -m benchmarks list`` names them, ``python -m benchmarks run NAME --data DIR --json FILE`` runs one.
As in benchopt, what is measured (`auc`, `multiclass`, `speed`), on what (`datasets`, `splits`) and who is
measured (`methods`) lie apart.
"""
