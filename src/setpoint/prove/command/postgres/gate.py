"""A gate before a PostgreSQL table, made of two locks in turn.

The first lock is held: a writer that comes has to wait. Then the second one is asked for, and
queues behind that writer; the first is released. The writer does its transaction, and the moment
it commits the second lock is granted, before the same writer can begin again. So a process can be
killed between two of its transactions however close they are. Neither lock is ever waited for
while the other is held. A command with two connections may still wait for itself behind a lock
that queues: whoever watches opens the gate then.

The locks hold writers of this very table. They do not hold readers, nor writers of another table
that refers to this one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from setpoint.prove.command.places import Waiting, name_of_commands
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    import psycopg

_WAITERS = """
SELECT DISTINCT a.pid, a.application_name FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE NOT l.granted AND l.locktype = 'relation' AND l.relation = to_regclass($1)::oid
  AND coalesce(a.backend_type, 'client backend') = 'client backend' AND l.pid <> ALL ($2::int4[])
"""
_SESSIONS = "SELECT pid FROM pg_catalog.pg_stat_activity"
# A lock must not outlive us. Older servers find out only when they want to say something.
_CHECKED = """
SELECT pg_catalog.set_config(name, '1s', false) FROM pg_catalog.pg_settings
WHERE name = 'client_connection_check_interval'
"""
_ANSWER = 0.001
_QUEUED = "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE pid = $1 AND NOT granted)"


class _Lock:
    """A lock on the table that is asked for without waiting for the answer."""

    def __init__(self, connection: psycopg.Connection[Any], table: TableName) -> None:
        self._connection = connection
        self._sql = f"LOCK TABLE {table.sql} IN SHARE ROW EXCLUSIVE MODE".encode()
        self._asked = False
        self.held = False
        self.failed = False

    @property
    def pid(self) -> int:
        return self._connection.info.backend_pid

    def ask(self) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        self._connection.pgconn.send_query(self._sql)
        self._asked = True

    def look(self) -> bool:
        """Whether the lock is held by now."""
        wire = self._connection.pgconn
        if self._asked and not self.held and not self.failed:
            wire.consume_input()
            if not wire.is_busy():
                self.held = self._drained()
                self.failed = not self.held
        return self.held

    def release(self) -> None:
        if not self._asked:
            return
        if not self.look() and not self.failed:
            self._connection.cancel_safe()
            self._drained()
        self._connection.execute("ROLLBACK")
        self._asked = self.held = self.failed = False

    def _drained(self) -> bool:
        from psycopg import pq

        good = True
        while (result := self._connection.pgconn.get_result()) is not None:
            good = good and result.status == pq.ExecStatus.COMMAND_OK
        return good


class PostgresGate:
    """The gate of one table; closed when it is opened for use, gone when the block ends."""

    def __init__(
        self, looking: psycopg.Connection[Any], first: _Lock, second: _Lock, table: TableName
    ) -> None:
        self._looking = looking
        self._front, self._back = first, second
        self._table = table
        self._name = name_of_commands()
        # Who was there before the command cannot be the command, unless it says so.
        self._before = {row[0] for row in looking.execute(_SESSIONS).fetchall()}

    @classmethod
    @contextmanager
    def opened(
        cls, server: Server, table: TableName, looking: psycopg.Connection[Any]
    ) -> Iterator[PostgresGate]:
        """A closed gate; the table must exist."""
        doing = f"holding writers of {table}"
        with ExitStack() as stack:
            one, two = (stack.enter_context(server.open(doing)) for _ in range(2))
            for connection in (one, two):
                connection.execute(_CHECKED)
            gate = cls(looking, _Lock(one, table), _Lock(two, table), table)
            gate._front.ask()
            try:
                yield gate
            finally:
                gate._back.release()
                gate._front.release()

    def is_closed(self) -> bool:
        return self._front.look() or self._front.failed

    def is_committed(self) -> bool:
        if not self.is_closed() and self._is_queued(self._front):
            return False
        while not self.is_closed():
            time.sleep(_ANSWER)  # it was granted, and the answer is on its way
        return True

    def waiting(self) -> Waiting:
        found = self._waiters()
        others = sum(1 for pid, name in found if name != self._name and pid in self._before)
        return Waiting(len(found) - others, others)

    def let_one_pass(self) -> None:
        self._back.ask()
        while not (self._back.look() or self._back.failed or self._is_queued(self._back)):
            pass  # it takes the server a moment to queue what it was sent
        self._front.release()
        self._front, self._back = self._back, self._front

    def leave_open(self) -> None:
        self._front.release()

    def turn_away(self) -> None:
        for pid, name in self._waiters():
            if name == self._name:
                self._looking.execute("SELECT pg_catalog.pg_terminate_backend($1)", [pid])

    def _waiters(self) -> list[tuple[int, str]]:
        own = [self._front.pid, self._back.pid, self._looking.info.backend_pid]
        return self._looking.execute(_WAITERS, [self._table.sql, own]).fetchall()

    def _is_queued(self, lock: _Lock) -> bool:
        found = self._looking.execute(_QUEUED, [lock.pid]).fetchone()
        return bool(found and found[0])
