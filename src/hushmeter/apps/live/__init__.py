"""Protection of a stream: readings come in as they are metered, protected values go out.

A stream differs from a release in how cells arrive, how its state is kept after a crash, and how a
ledger is charged.

Modules: `windows` sorts readings into fixed windows of time; `stream` has the public terms, adds
the noise, makes the messages, and shows the household what they reveal; `state` keeps everything on
the disk before it is published; `payloads`, `addresses` and `mqtt` bring readings in and take
values out; `service` runs the whole.

What a stream publishes besides the protected values (times, topics, the number of messages, flags
and log lines) depends on when readings arrive and never on their values. docs/live.md has the
rules and the proof.
"""
