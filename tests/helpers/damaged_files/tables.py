"""Tables on disk."""

from __future__ import annotations

from structboost import BinnedTable, MulticlassTask, StructBoost
from tests.helpers.damaged_files.data import X, Y
from tests.helpers.damaged_files.kind import Kind


def use_table(folder):
    trainer = StructBoost(MulticlassTask(3), C=50, max_rounds=2).fit(
        BinnedTable.open(folder / "table"), Y
    )
    return [trainer.objective_, trainer.model_.scores(X).tolist()]


def table(file):
    return Kind(
        lambda folder: BinnedTable.from_array(folder / "table", X), f"table/{file}", use_table
    )


KINDS = {
    "table": table("bins.npz"),
    "codes of a table": table("codes.npy"),
}
