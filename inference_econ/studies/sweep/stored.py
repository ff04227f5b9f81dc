"""A sweep that has been answered: rows in files or in memory, asked with SQL."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference_econ import _work
from inference_econ._shown import Shown
from inference_econ.errors import InputError
from inference_econ.inputs import Cheapest, Scenario, SweepAsk
from inference_econ.serving import services
from inference_econ.studies.sweep.combinations import Combinations
from inference_econ.studies.sweep.rows import FAILED, axis_columns, schema
from inference_econ.studies.swept import Best, Reason, Swept

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

#: Rows that a query may give: more are not read by anybody, and would not stay small in memory [1].
MOST_ROWS = 1_000_000
#: What a query may take in memory, and as time unless more is allowed: nobody can say before whether it ends [s].
_MEMORY, _SECONDS = "500MB", 60.0
#: Nothing but the rows can be read, and nothing written: no files, no extensions, no variables of Python.
_APART: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": _MEMORY,
    "temp_directory": "",  # nothing is written to make up for memory
}
_VIEWS = (
    "CREATE VIEW points AS SELECT * EXCLUDE (failure, reason) FROM every_row WHERE failure IS NULL",
    "CREATE VIEW failures AS SELECT {asked}, failure, reason FROM every_row WHERE failure IS NOT NULL",
    "CREATE VIEW combinations AS SELECT {asked}, count(point) AS points, any_value(failure) AS failure "
    "FROM every_row GROUP BY ALL",
)
#: Settings that whoever serves chooses, so that the cheapest of all is meant; others are what is asked of them.
_CHOICES = {
    "model", "hardware", "engine", "weights", "activations", "kv", "tp", "dp", "pp", "ep", "batch", "slots",
    "instance_gpus", "max_instance_gpus", "pipeline", "draft", "mtp", "eagle", "ngram", "draft_weights", "max_draft",
    "draft_length",
}  # fmt: skip
_DOLLARS, _SPEED = "dollars_per_million_output_tokens", "tokens_per_second_per_user"
#: What is a power of speed between two points of a service, and what two batches of a layout have in common.
_MOVED, _SAME = (_DOLLARS, _SPEED, "ttft_seconds"), ("layout", "engines", "accelerators")
#: Instances that read prompts and decode. Pools change their numbers of instances, and have to be cheaper by a part.
_TOGETHER = "ttft_seconds IS NOT NULL AND accelerators = tp * dp * pp"
#: What is kept of the cheapest point.
_SHOWN = (
    "dollars_per_million_output_tokens",
    "dollars_per_million_output_tokens_low",
    "dollars_per_million_output_tokens_high",
    "tokens_per_second_per_user",
    "ttft_seconds",
    "accelerators",
    "layout",
    "engines",
    "model",
    "hardware",
    "weights",
    "kv",
    "dollars_per_accelerator_hour",
)


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
    """A sweep that has been answered, or as much of it as there is (``inference_econ.load_sweep``).

    Attributes
    ----------
    scenario : Scenario
        What was asked.
    rows : object
        Where its rows are: an Arrow dataset or table.
    missing : int
        Combinations that have not been asked yet [1].
    """

    scenario: Scenario
    rows: Any
    missing: int = 0

    @property
    def displayed(self) -> Swept:
        """The sweep in short."""
        return self.summary()

    @property
    def combinations(self) -> Combinations:
        """Combinations of the sweep."""
        assert isinstance(self.scenario.ask, SweepAsk)
        return Combinations(self.scenario.ask)

    def query(self, sql: str) -> pd.DataFrame:
        """Rows of a SELECT, which can read nothing but the sweep.

        Parameters
        ----------
        sql : str
            One SELECT of DuckDB's SQL over the views ``points``, ``failures`` and ``combinations``.

        Raises
        ------
        InputError
            If it is something else, has a mistake, takes longer than a minute (:func:`inference_econ.allow` allows
            more) or more memory than a query may, or gives more than a million rows.
        """
        import duckdb

        frame: pd.DataFrame
        with self._connected() as connection:
            try:
                _check_reads(connection, sql)
                with _interrupted_after(connection, _work.at_most(_SECONDS)) as ended:
                    frame = connection.sql(sql).limit(MOST_ROWS + 1).df()
            except duckdb.InterruptException as error:
                if not ended.is_set():
                    raise
                raise InputError(
                    f"the query takes longer than {_work.in_words(_work.at_most(_SECONDS))}; ask for less at a time"
                ) from error
            except duckdb.OutOfMemoryException as error:
                raise InputError(f"the query takes more than {_MEMORY} of memory; ask for less at a time") from error
            except duckdb.Error as error:
                raise InputError(f"SQL: {_told(str(error))}") from error
        if len(frame) > MOST_ROWS:
            raise InputError(f"the query gives more than {MOST_ROWS:,} rows; add LIMIT, or aggregate them")
        return frame

    def to_frame(self) -> pd.DataFrame:
        """All points of all frontiers, one row each, as ``SELECT * FROM points`` gives them."""
        return self.query("SELECT * FROM points ORDER BY combination, point")

    def failures(self) -> pd.DataFrame:
        """Every combination without a frontier, with the reason."""
        return self.query("SELECT * FROM failures ORDER BY combination")

    def summary(self, shown: Cheapest | None = None) -> Swept:
        """The sweep in short.

        Parameters
        ----------
        shown : Cheapest, optional
            What is shown of it; by default what the scenario says.

        Raises
        ------
        InputError
            If a column is named that there is not.
        """
        assert isinstance(self.scenario.ask, SweepAsk)
        chosen = shown or self.scenario.ask.cheapest
        rows, among = self._shown_columns(chosen)
        where = {**self._usual(rows, among), **chosen.where}
        with self._connected() as connection:
            ((combinations, frontiers, points),) = connection.sql(
                "SELECT count(*), count(*) FILTER (failure IS NULL), coalesce(sum(points), 0) FROM combinations"
            ).fetchall()
            best = tuple(_best(connection, rows, among, chosen.speeds, where))
            return Swept(
                self.scenario.name,
                combinations,
                frontiers,
                int(points),
                self.missing,
                tuple(_reasons(connection)),
                rows,
                among,
                self._names(rows, best),
                chosen.speeds,
                {name: str(value) for name, value in where.items()},
                best,
                str(self.combinations.price or "") if self.combinations.several_chips else None,
            )

    def _shown_columns(self, chosen: Cheapest) -> tuple[str, str]:
        """The columns of rows, and of what is the cheapest."""
        columns = [column.name for column in axis_columns(self.combinations).values()]
        rows = chosen.rows or ("model" if "model" in columns else columns[0])
        others = [name for name in columns if name != rows]
        among = chosen.among or ("hardware" if rows != "hardware" else (*others, "weights")[0])
        for name in (rows, among, *chosen.where):
            if name not in self._columns:
                raise InputError(f"cheapest: {name!r} is no column of the sweep; columns: {', '.join(self._columns)}")
        return rows, among

    def _usual(self, rows: str, among: str) -> dict[str, str | float]:
        """The first point of each axis that is no choice of whoever serves: one traffic, one price, one what-if."""
        columns, axes = axis_columns(self.combinations), self.combinations.axes
        varied = (name for name, points in axes.items() if any(set(point) - _CHOICES for point in points.values()))
        firsts = {columns[name].name: columns[name].value(next(iter(axes[name]))) for name in varied}
        return {name: value for name, value in firsts.items() if name not in (rows, among)}

    @property
    def _columns(self) -> list[str]:
        return [str(name) for name in schema(self.combinations).names if name not in FAILED]

    def _names(self, rows: str, best: Sequence[Best]) -> tuple[str, ...]:
        """The rows in the order of their axis; those that are none in order of their names."""
        of_axis = {column.name: axis for axis, column in axis_columns(self.combinations).items()}
        if rows not in of_axis:
            return tuple(sorted({cheapest.row for cheapest in best}))
        column = axis_columns(self.combinations)[of_axis[rows]]
        return tuple(_text(column.value(label)) for label in self.combinations.axes[of_axis[rows]])

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A database in memory that has the views and nothing else, and can have nothing else."""
        import duckdb

        columns = ", ".join(_quoted(str(name)) for name in self._asked())
        with duckdb.connect(":memory:", config=_APART) as connection:
            connection.register("every_row", self.rows)
            for view in _VIEWS:
                connection.execute(view.format(asked=columns))
            connection.execute("SET lock_configuration = true")
            yield connection

    def _asked(self) -> list[str]:
        """Columns that are the same in all rows of a combination."""
        return self._columns[: self._columns.index("point")]


@contextmanager
def _interrupted_after(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[threading.Event]:
    """Interrupt what a connection does in a block that takes too long; the event says that it did."""
    ended = threading.Event()

    def end() -> None:
        ended.set()
        connection.interrupt()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield ended
    finally:
        timer.cancel()


def _check_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse what is no single SELECT."""
    statements = connection.extract_statements(sql)
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        read = "nothing" if not kinds else " and ".join(kinds)
        raise InputError(
            f"SQL: give one SELECT, got {read}; for example SELECT hardware, min(dollars_per_million_output_tokens) "
            "FROM points GROUP BY ALL (tables: points, failures, combinations; DESCRIBE points lists columns)"
        )


def _told(message: str) -> str:
    """Message of DuckDB on a mistake, in one line: what is wrong, and what was perhaps meant."""
    lines = [line.strip() for line in message.split("LINE 1:")[0].splitlines()]
    return " ".join(filter(None, lines))


def _reasons(connection: duckdb.DuckDBPyConnection) -> Iterator[Reason]:
    """Why combinations have no frontier: by the reason, or all that do not fit together."""
    rows = connection.sql(
        "SELECT failure, arg_min(reason, combination), count(*) AS times FROM failures "
        "GROUP BY failure, CASE WHEN failure = 'nothing_fits' THEN '' ELSE reason END "
        "ORDER BY times DESC, min(combination)"
    )
    for kind, text, times in rows.fetchall():
        yield Reason(kind, text, times)


def _best(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    among: str,
    speeds: Sequence[float],
    where: Mapping[str, object],
) -> Iterator[Best]:
    """The cheapest by row and speed, of equals the first combination.

    Between two batches of a layout times and costs are powers of speed, as ``ServiceFrontier.cheapest`` has them; where
    a batch between two that are kept is on no frontier, and of pools, the next point that is as fast counts.
    """
    row, other = _quoted(rows), _quoted(among)
    least = ", ".join(f"({float(speed)!r})" for speed in speeds)
    only = " AND ".join([*(f"{_quoted(name)} = ?" for name in where), "TRUE"])
    before = ", ".join(
        f"lag({_quoted(name)}) OVER along AS {_quoted(f'before {name}')}" for name in (*_MOVED, *_SAME, "batch")
    )
    alike = " AND ".join(f"{name} IS NOT DISTINCT FROM {_quoted(f'before {name}')}" for name in _SAME)
    between = (
        f"CASE WHEN {_quoted(f'before {_SPEED}')} < least AND {_TOGETHER} AND {alike} "
        f"AND abs(ln(batch / {_quoted('before batch')})) < {math.log(services.RATIO) * (1.0 + 1e-9)!r} "
        f"THEN ln({_SPEED} / least) / ln({_SPEED} / {_quoted(f'before {_SPEED}')}) ELSE 0 END"
    )
    moved = {name: f"{_quoted(name)} * coalesce(pow({_quoted(f'before {name}')} / {name}, back), 1)" for name in _MOVED}
    moved |= {f"{_DOLLARS}_{end}": f"{_DOLLARS}_{end} * ({moved[_DOLLARS]}) / {_DOLLARS}" for end in ("low", "high")}
    kept = ", ".join(f"{_quoted(name)} := {moved.get(name, _quoted(name))}" for name in _SHOWN)
    # Along a frontier cost and speed ascend together: the cheapest of each combination first, then that of each row.
    cheapest = (
        f"WITH steps AS (SELECT *, {before} FROM points WHERE {only} "
        "WINDOW along AS (PARTITION BY combination ORDER BY point)), "
        f"reached AS (SELECT *, {between} AS back FROM steps JOIN (VALUES {least}) AS speeds(least) "
        f"ON {_SPEED} >= least) "
        f"SELECT {row} AS row, {other} AS among, least, combination, min({moved[_DOLLARS]}) AS dollars, "
        f"arg_min(struct_pack({kept}), {moved[_DOLLARS]}) AS kept FROM reached GROUP BY ALL"
    )
    answered = connection.execute(
        f"SELECT row, among, least, kept FROM ({cheapest}) "
        "QUALIFY row_number() OVER (PARTITION BY row, least ORDER BY dollars, combination) = 1 ORDER BY least",
        list(where.values()),
    )
    for name, winner, reached, columns in answered.fetchall():
        yield Best(_text(name), _text(winner), float(reached), dict(columns))


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def in_memory(scenario: Scenario, contents: Sequence[bytes], missing: int = 0) -> Sweep:
    """A sweep whose parts are held.

    Parameters
    ----------
    scenario : Scenario
        What was asked.
    contents : sequence of bytes
        Parts as Parquet files, in order.
    missing : int
        Combinations of parts that were not answered [1].
    """
    import io

    import pyarrow as pa
    from pyarrow import parquet

    tables = [parquet.read_table(io.BytesIO(content)).replace_schema_metadata(None) for content in contents]
    return Sweep(scenario, pa.concat_tables(tables), missing)
