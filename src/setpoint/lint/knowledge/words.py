"""What names say: of tables, paths, columns and variables.

Names are evidence, not proof. They decide between error and info, and they clear what is
temporary or a log; they never make a finding alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from setpoint.lint.vocabulary import vocabulary

_SPLIT = re.compile(r"[^0-9A-Za-z]+|(?<=[a-z0-9])(?=[A-Z])")

_LOG = vocabulary(
    "log logs logging audit audits auditing journal lineage",
)
_RUN = vocabulary(
    "etl elt load loads loading job jobs run runs pipeline pipelines process processing",
    "task tasks dag dags import imports ingestion ingest batch execution executions scd",
    "dq quality validation metadata migration migrations sync refresh control monitoring",
    "workflow step steps transform extraction update updates maintenance scheduler",
    "airflow",
)
_TRACK = vocabulary(
    "history metadata metrics monitor monitoring status statuses tracking tracker stats",
    "runs statistics report_log summary_log executions",
)
_RUN_COLUMNS = vocabulary(
    "pipeline pipeline_name job job_name job_id dag_id task_id task_name status state",
    "rows_loaded row_count rows_processed records_processed records_loaded rows_inserted",
    "record_count duration duration_seconds error error_message message started_at",
    "finished_at start_time end_time ended_at run_id run_date execution_date",
    "load_timestamp log_level level step process_name table_name target_table",
    "source_table batch_id event_type success",
)
_TEMPORARY = vocabulary(
    "tmp temp temporary scratch cache sandbox spill",
)
_PASSING = re.compile(r"tmp|temp(?:\d|s?$|tables?$|views?$|files?$|dirs?$|orar|db|schema|df)")
_STATE = vocabulary(
    "watermark watermarks checkpoint checkpoints hwm highwater bookmark bookmarks offsets",
    "highwatermark",
)
_LAST = frozenset(["last", "latest", "previous"])
_PROGRESS = vocabulary(
    "run processed loaded load sync synced import imported ingested ingestion fetched",
    "fetch offset execution updated modified timestamp extracted extraction",
)
_WORKERS = vocabulary(
    "worker workers pipeline etl load run sync import ingest ingestion job cursor",
)
_SUFFIXES = vocabulary("json txt yaml yml pkl csv parquet db ini toml")
_DONE = re.compile(
    r"(?i)_(?:loaded|processed|imported|ingested)$|(?:loaded|processed|imported|ingested)_(?:files|"
    r"sources|batches|keys|ids)|(?:^|\.|(?:file|load|etl|elt|import|ingest|ingestion|job|run|batch"
    r"|process|sync|pipeline|extract|offset|watermark|cdc)s?_)(?:tracking|tracker)$"
)
_QUARANTINE = vocabulary(
    "quarantine quarantined reject rejects rejected dead deadletter dlq bad invalid error",
    "errors failed failures malformed corrupt discarded",
)
_AUDIT_VERBS = vocabulary(
    "load loaded loading insert inserted insertion ingest ingested ingestion etl elt "
    "create created",
    "creation update updated upd modified modify process processed processing extract extracted",
    "extraction import imported sync synced audit dw dwh scrape scraped fetch fetched "
    "crawl crawled",
    "refresh refreshed written generated published recorded collected stored pulled saved uploaded",
    "archived migrated transformed computed calculated cdc retrieved received exported downloaded",
    "landed touched appended added carga ingestao atualizacao criacao normalized aud processamento",
)
# What the pipeline does beside loading: its moment is an audit value, its date may be data.
_ACTIONS = vocabulary(
    "execution executed run evaluation evaluated collection scan scanned detection detected check",
    "checked scoring scored inference publication publish capture captured deleted changed upload",
    "job task batch validation validated export meta metadata bronze silver gold raw layer",
    "stage staging add del delete ins",
)
_MOMENTS = vocabulary("timestamp ts time datetime dttm at utc tms")
_AUDIT = re.compile(
    r"(?i)creat(?:ed|ion)|updat(?:ed|e_)|insert(?:ed|_|dt|ts)|load(?:ed|ts|time|date|_d)|ingest"
    r"|_at$|modif|process(?:ed|ing)|extract(?:ed|ion)|(?:^|_)etl|refresh|import(?:ed|_)|^sysdate"
    r"|(?:add|delet|chang|alter|alt)(?:ed)?_?(?:ts|utc|on|date|time)"
)
_IDENTITY = re.compile(
    r"(?:^|_)(?:run|batch|load|etl|import|snapshot|execution|ingestion|ingest|extract|process"
    r"|export|upload|file|version|job_run|pipeline_run)_?(?:id|key|uuid|number|no|nr)$"
    r"|^(?:batch|runid|batchid|loadid|run_key|batch_key)$",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?:^|_)(?:id|key|sk|pk|uuid|guid|skey|rowid|seq|number|no|index|idx)$|(?:Id|Key|ID|SK)$"
)
_DATE = re.compile(
    r"date|(?:^|_)(?:ds|dt|day|days|month|year|hour|week|start|end|from|to|since|until|window"
    r"|period|ts|time|timestamp|partition|interval|quarter)(?:$|_|\d)|datum|fecha|(?:^|_)dia(?:$|_)",
    re.IGNORECASE,
)
_CHANGING = re.compile(
    r"updated|modified|status$|balance|amount|price|quantity|qty|is_active|^last_|popularity|^level$"
    r"|followers|rating|stock$|^(?:avg|sum|total)_|_(?:count|total|avg)$",
    re.IGNORECASE,
)


@lru_cache(maxsize=8192)
def tokens(name: str) -> frozenset[str]:
    """The words of a name: snake, kebab, dots and camel case."""
    return frozenset(part.lower() for part in _SPLIT.split(name) if part)


@lru_cache(maxsize=8192)
def is_log(name: str, columns: tuple[str, ...] = ()) -> bool:
    """A table of runs: each run adds its row, and that is right."""
    words = tokens(name)
    last = tokens(name.rsplit(".", 1)[-1])
    if last & {"runs", "executions"} and last <= _RUN | {"sub", "runs", "executions"}:
        return True
    about_runs = len(_RUN_COLUMNS.intersection(columns))
    if words & _LOG:
        return (
            ("." in name and bool(last & _LOG and tokens(name.rsplit(".", 1)[0]) & _LOG))
            or bool(words & _RUN)
            or about_runs >= 2
            or bool(words & {"audit", "audits"})
            or len(words) <= 2
        )
    return (
        bool(words & _RUN and words & _TRACK and len(words & (_RUN | _TRACK)) >= 2)
        or about_runs >= 4
    )


@lru_cache(maxsize=8192)
def is_temporary(name: str) -> bool:
    """A place for the time of a run only."""
    lowered = name.lower()
    words = tokens(name)
    return (
        bool(words & _TEMPORARY)
        or lowered.startswith(("/tmp", "#", "dbfs:/tmp"))
        or any(map(_PASSING.match, words))
        or "tempfile" in lowered
    )


def is_state(name: str) -> bool:
    """A place that remembers how far the pipeline has come."""
    if "/" in name.rstrip("/") and is_state(name.rstrip("/").rsplit("/", 1)[1]):
        return True
    if _DONE.search(name):
        return True
    words = tokens(name) - _SUFFIXES
    if words & _LOG:
        return False
    return (
        bool(words & _STATE)
        or bool(words & _LAST and words & _PROGRESS)
        or {"high", "water"} <= words
        or bool(words & {"state", "states"} and (words & _WORKERS or len(words) == 1))
        or bool(
            words & {"metadata", "progress", "control"}
            and words
            & {
                "import",
                "imports",
                "ingest",
                "ingestion",
                "sync",
                "load",
                "etl",
                "incremental",
                "cursor",
            }
        )
    )


def is_done_list(name: str) -> bool:
    """A place that lists what was worked off, and grows by it."""
    return bool(_DONE.search(name))


def is_mark(column: str) -> bool:
    """A column that says how far the pipeline has come, not when a row was touched."""
    words = tokens(column)
    moved = words & _PROGRESS - {"updated", "modified", "timestamp"}
    return bool(words & _STATE) or bool(words & _LAST and moved)


def is_quarantine(name: str) -> bool:
    return bool(tokens(name) & _QUARANTINE)


def is_audit_column(name: str) -> bool:
    """A column that says when the pipeline touched a row, not what the row says."""
    words = tokens(name)
    if words <= {"date", "day", "month", "at"}:
        return False
    if "date" in words and words & {"start", "end"} and not words & (_RUN - {"etl", "elt"}):
        return False  # from when to when a row holds
    if words & _AUDIT_VERBS or _AUDIT.search(name):
        return True
    return bool(words & _ACTIONS and words & _MOMENTS)


def is_identity(name: str) -> bool:
    """A variable or column that identifies a run or a batch."""
    return bool(_IDENTITY.search(name))


def is_key(name: str) -> bool:
    return bool(_KEY.search(name))


def is_dated(name: str) -> bool:
    """A name that speaks of time."""
    return bool(_DATE.search(name))


def is_changing(names: Iterable[str]) -> bool:
    """Columns whose value may change while the key stays."""
    return any(_CHANGING.search(name) for name in names)
