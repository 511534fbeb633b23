"""Protection of a stream: readings come in as they are metered, protected values go out.

Modules: `windows` sorts readings into fixed windows of time; `stream` has the public terms and puts
windows together to a release; `publication` adds the noise and makes the messages; `state` keeps
everything on the disk before it is published; `payloads` and `sources` bring readings in; `sinks`
and `home_assistant` take values out; `service` runs the whole; `watch` shows the household what is
published and what it reveals; `replay` plays a file back.

What a stream publishes besides the protected values (times, topics, the number of messages, flags
and log lines) depends on when readings arrive and never on their values. docs/live.md has the
rules and the proof.
"""
