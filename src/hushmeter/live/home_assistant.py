"""Discovery messages of Home Assistant: the protected sensors appear there by themselves.

Home Assistant reads a retained message PREFIX/sensor/NODE/OBJECT/config and makes an entity of it
[1]_. The power of a window is a measurement in W. The energy of a day or a month is a total in kWh
that begins at zero at its start (`last_reset`). Noise can make it negative, so it is not declared
as ever increasing.

References
----------
.. [1] Home Assistant, "MQTT sensor" and "MQTT discovery", home-assistant.io/integrations/mqtt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hushmeter import __version__

if TYPE_CHECKING:
    from hushmeter.live.stream import Terms

ONLINE, OFFLINE = "online", "offline"
"""Content of the topic of availability."""

EXPIRES_AFTER = 3
"""Number of windows without a message after which Home Assistant shows "unavailable"."""


def discovery_messages(
    terms: Terms, base: str, prefix: str = "homeassistant"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the topics and the configurations of the sensors of a stream."""
    node = f"hushmeter_{terms.name}"
    shared = {
        "availability_topic": f"{base}/availability",
        "payload_available": ONLINE,
        "payload_not_available": OFFLINE,
        "force_update": True,
        "device": {
            "identifiers": [node],
            "name": f"hushmeter {terms.name}",
            "manufacturer": "hushmeter",
            "model": "simulation" if terms.simulation else "protected readings",
            "sw_version": __version__,
        },
        "origin": {"name": "hushmeter", "sw_version": __version__},
    }
    yield (
        f"{prefix}/sensor/{node}/power/config",
        {
            "name": "Protected power",
            "unique_id": f"{node}_power",
            "device_class": "power",
            "state_class": "measurement",
            "unit_of_measurement": "W",
            "state_topic": f"{base}/window",
            "value_template": "{{ value_json.watts }}",
            "json_attributes_topic": f"{base}/window",
            "expire_after": round(EXPIRES_AFTER * terms.window_s + terms.grace_s),
            **shared,
        },
    )
    for kind in ("day", "month"):
        yield (
            f"{prefix}/sensor/{node}/{kind}/config",
            {
                "name": f"Protected energy of the last {kind}",
                "unique_id": f"{node}_{kind}",
                "device_class": "energy",
                "state_class": "total",
                "unit_of_measurement": "kWh",
                "state_topic": f"{base}/{kind}",
                "value_template": "{{ value_json.kwh }}",
                "last_reset_value_template": "{{ value_json.start }}",
                "json_attributes_topic": f"{base}/{kind}",
                **shared,
            },
        )
