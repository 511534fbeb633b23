"""Discovery messages against the documentation of Home Assistant's MQTT sensor.

The names and rules below were written down from the pages "MQTT sensor", "MQTT discovery" and
"Sensor" (device classes, state classes, units) of home-assistant.io.
"""

import json
import re

import pytest

from hushmeter.apps.live.mqtt import discovery_messages
from tests.apps.live.streams import make_terms

KEYS = {
    "availability", "availability_mode", "availability_template", "availability_topic",
    "default_entity_id", "device", "device_class", "enabled_by_default", "encoding",
    "entity_category", "entity_picture", "expire_after", "force_update", "group", "icon",
    "json_attributes_template", "json_attributes_topic", "last_reset_value_template", "name",
    "object_id", "options", "origin", "payload_available", "payload_not_available", "platform",
    "qos", "state_class", "state_topic", "suggested_display_precision", "unique_id",
    "unit_of_measurement", "value_template",
}  # fmt: skip
DEVICE_KEYS = {
    "configuration_url", "connections", "hw_version", "identifiers", "manufacturer", "model",
    "model_id", "name", "serial_number", "suggested_area", "sw_version", "via_device",
}  # fmt: skip
ORIGIN_KEYS = {"name", "sw_version", "support_url"}
UNITS = {
    "power": {"mW", "W", "kW", "MW", "GW", "TW"},
    "energy": {"J", "kJ", "MJ", "GJ", "mWh", "Wh", "kWh", "MWh", "GWh", "TWh", "cal", "kcal"},
}
STATE_CLASSES = {"power": {"measurement"}, "energy": {"total", "total_increasing"}}


def faults(topic, config):
    """What Home Assistant would not accept."""
    found = []
    if not re.fullmatch(r"[^/]+/sensor/[A-Za-z0-9_-]+/[A-Za-z0-9_-]+/config", topic):
        found.append("topic")
    found += sorted(set(config) - KEYS)
    found += sorted(set(config.get("device", {})) - DEVICE_KEYS)
    found += sorted(set(config.get("origin", {})) - ORIGIN_KEYS)
    if not config.get("state_topic") or re.search("[+#]", config["state_topic"]):
        found.append("state_topic")
    if "device" in config:
        if "unique_id" not in config:
            found.append("a device needs a unique_id")
        if not (config["device"].get("identifiers") or config["device"].get("connections")):
            found.append("a device needs identifiers or connections")
    if "availability" in config and "availability_topic" in config:
        found.append("availability and availability_topic exclude each other")
    if "last_reset_value_template" in config and config.get("state_class") != "total":
        found.append("last_reset needs the state class total")
    kind = config.get("device_class")
    if kind is not None and config.get("unit_of_measurement") not in UNITS[kind]:
        found.append("unit")
    if config.get("state_class") not in STATE_CLASSES.get(kind, {None}):
        found.append("state_class")
    if "name" not in config.get("origin", {}):
        found.append("origin")
    if not isinstance(config.get("expire_after", 1), int):
        found.append("expire_after")
    return found


def test_the_discovery_follows_the_documentation():
    messages = list(discovery_messages(make_terms(), "hushmeter/home"))
    assert len(messages) == 3
    assert [faults(topic, config) for topic, config in messages] == [[], [], []]
    assert len({config["unique_id"] for _, config in messages}) == 3
    assert len({json.dumps(config["device"]) for _, config in messages}) == 1
    assert [topic.split("/")[3] for topic, _ in messages] == ["power", "day", "month"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"unit_of_measurement": "kWh"}, "unit"),
        ({"state_class": "total_increasing"}, "state_class"),
        ({"unit": "W"}, "unit"),
        ({"state_topic": "hushmeter/#"}, "state_topic"),
        ({"last_reset_value_template": "x"}, "last_reset needs the state class total"),
        ({"expire_after": 1.5}, "expire_after"),
    ],
)
def test_a_wrong_message_would_be_noticed(change, fault):
    topic, config = next(discovery_messages(make_terms(), "hushmeter/home"))
    assert fault in faults(topic, {**config, **change})
