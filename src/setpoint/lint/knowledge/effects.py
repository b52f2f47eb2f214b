"""Mails, messages and calls that change something elsewhere."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.elsewhere import is_verb
from setpoint.lint.knowledge.statements import run_sql
from setpoint.lint.texts import shown
from setpoint.lint.values import NO_TAINTS, Taint, Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_HTTP = re.compile(r"^(?:requests|httpx|aiohttp|urllib3)\b")
# What is put or deleted a second time is as it was after the first.
_CHANGES = vocabulary("post patch")
_REPEATABLE = vocabulary("put delete")
_FETCHES = vocabulary(
    "get head options request urlopen",
)
_MAIL = vocabulary(
    "send_email sendmail send_mail send_message_email send_raw_email send_templated_email",
    "chat_postMessage chat_post_message postMessage send_slack_notification",
    "send_slack_message notify_slack send_teams_message send_notification",
    "publish_notification",
)
_NOTIFIES = re.compile(
    r"^(?:notify|send_(?:slack|teams|mail|email|sms|notification|alert|webhook)|post_to_slack"
    r"|slack_notify|publish_alert|email_)(?:_\w+)?$"
)
_QUERY = re.compile(
    r"token|oauth|auth|login|graphql|search|query|signin|session|/jobs/runs|statement|refresh|scim"
    r"|validate|healthcheck|predict|embedding|completions|sql",
    re.IGNORECASE,
)
_CHAT = re.compile(
    r"slack|webhook|hooks?[./]|teams|discord|telegram|notif|alert|pagerduty|chat|mail|sns",
    re.IGNORECASE,
)
_CONTENT = ("json", "text", "content", "iter_lines")
_DEDUP = re.compile(r"idempoten|dedup|request.?id|unique.?key|external.?id", re.IGNORECASE)


def model(machine: Machine, call: Call) -> Value | None:
    ref, method = call.ref, call.method
    receiver = call.receiver.ref if call.receiver is not None else ""
    http = bool(_HTTP.search(ref) or _HTTP.search(receiver))
    if http and method in _FETCHES:
        return Value(taints=_asked(call), ref="http()")
    if http and method in _REPEATABLE:
        return Value(taints=_asked(call), ref="http()")
    if http and method in _CHANGES:
        if not _statement(machine, call):
            _request(machine, call)
        return Value(taints=_asked(call), ref="http()")
    name = call.name
    if _NOTIFIES.search(name) and call.ref and (call.args or call.kwargs):
        _send(machine, call, notification=True)
        return Value(ref="sent()")
    if (name in _MAIL or (name == "sendmail")) and (call.args or call.kwargs):
        _send(machine, call, notification=True)
        return Value(ref="sent()")
    if name == "send_message" and (
        call.args or "QueueUrl" in call.kwargs or "MessageBody" in call.kwargs
    ):
        queue = "QueueUrl" in call.kwargs or "MessageBody" in call.kwargs
        _send(machine, call, notification=not queue)
        return Value(ref="sent()")
    if name == "publish" and ("TopicArn" in call.kwargs or "Message" in call.kwargs):
        _send(machine, call, notification=True)
        return Value(ref="sent()")
    if (
        name == "send"
        and call.receiver is not None
        and re.search(r"Webhook|slack|telegram", receiver + call.receiver.label, re.IGNORECASE)
    ):
        _send(machine, call, notification=True)
        return Value(ref="sent()")
    if name == "create" and re.search(
        r"stripe\.\w+\.create|(?:twilio|client)\S*messages\.create$", ref
    ):
        _send(machine, call, notification="messages" in ref)
        return Value(ref="sent()")
    return None


def _statement(machine: Machine, call: Call) -> bool:
    """Is SQL sent to a database that listens to HTTP?"""
    sent = [call.argument(1, "data"), *(call.kwargs.get(key) for key in ("params", "content"))]
    for value in sent:
        for text in (value, (value.fields or {}).get("query")) if value is not None else ():
            if text is not None and text.parts is not None and is_verb(text):
                run_sql(machine, text, call.place, None, own=True, api=call.name)
                return True
    return False


def _asked(call: Call) -> frozenset[Taint]:
    """What an answer depends on: the clock, if it was part of the question."""
    asked = [value for value in (*call.args[:1], *call.args[1:2]) if value is not None]
    asked += [
        call.kwargs[name] for name in ("url", "params", "json", "data") if name in call.kwargs
    ]
    taints = frozenset().union(*(value.everything() for value in asked))
    return frozenset(taint for taint in as_read(taints) if taint.via == "read")


def _request(machine: Machine, call: Call) -> None:
    """A POST that only asks is no effect: its answer is used, or its address says so."""
    url = call.argument(0, "url")
    words = (
        shown(url.parts)
        if url is not None and url.parts is not None
        else url.label
        if url is not None
        else ""
    )
    words += " " + (call.receiver.label if call.receiver is not None else "")
    if _CHAT.search(words):
        _send(machine, call, notification=True)
    elif not _QUERY.search(words) and not _answer_used(machine, call):
        _send(machine, call, notification=False)


def _answer_used(machine: Machine, call: Call) -> bool:
    """Is the content of the answer taken?"""
    function = machine.current_function()
    parent = function if function is not None else machine.tree
    if parent is None:
        return False
    for node in ast.walk(parent):
        if isinstance(node, ast.Attribute) and node.attr in _CONTENT:
            return True
        if isinstance(node, ast.Return) and node.value is call.node:
            return True
    return False


def _send(machine: Machine, call: Call, *, notification: bool) -> None:
    given = " ".join([*call.kwargs, *_keys(call)])
    content: frozenset[Taint] = NO_TAINTS
    for value in (*call.args, *call.kwargs.values()):
        content = content | value.everything()
    machine.sent(
        call.place,
        call.name,
        notification=notification,
        guarded=bool(_DEDUP.search(given)) or bool(machine.here.guards),
        content=content,
    )


def _keys(call: Call) -> list[str]:
    found = []
    for value in (*call.args, *call.kwargs.values()):
        found += list(value.fields or {})
        for inner in (value.fields or {}).values():
            found += list(inner.fields or {})
    return found
