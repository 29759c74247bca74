"""Paragraphs that the docstrings of the one-call functions share, each written once."""

QUESTION = {
    "data": """\
data : array, mapping of columns, data frame, path of a CSV or Parquet file, or Dask frame
""",
    "by": """\
by : column name or array, optional
    The groups. Each row is in one of them; rows whose group is not in ``groups`` are in none.
""",
    "groups": """\
groups : sequence of names, optional
    The groups to report. Without it they are found privately, and small ones are not named.
""",
    "person": """\
person : column name or array, optional
    The unit of privacy is a person with any number of rows, not a row. A person counts once: the estimate is of the mean of the
    persons' own averages. With groups, the averages are within each group, and a person's weight is split over the groups in
    proportion to the person's rows in them.
""",
    "weight": """\
weight : {"persons", "rows"}
    With "rows", a person's weight is the number of the person's rows instead, up to a cap that is found privately.
""",
    "rest": """\
{missing}
{relation}
{budget}
""",
    "missing": """\
missing : {"error", "zero", "drop"}
    How a cell that is not a finite number is handled. "error": the table is refused. "zero": the cell counts as 0. "drop": its
    row is left out, and how many rows are left out is private.
""",
    "relation": """\
relation : {"replace-one", "add-remove"}
    With "add-remove" the number of rows (of persons) is private, too.
""",
    "budget": """\
epsilon, delta : float
    Privacy budget of all groups together. ``delta`` is spent only where groups are found: a group with a single unit is
    named with probability at most ``delta``.
confidence : float
    Level of the intervals, each by itself.
random_state : int, optional
    Reproducible noise, which is not private.
ledger : account, optional
    Charged before anything is sampled.
""",
    "source": """\
**source
    ``delimiter`` and ``quoted_newlines`` of a text file.
""",
}
