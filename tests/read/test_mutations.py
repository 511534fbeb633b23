"""Damaged tables: each is read rightly or refused, and never wrong without an error.

Columns are dropped, decimal marks swapped, rows shuffled, preambles added, and encodings,
delimiters and the language of headers changed. The seeds are made-up tables of many sources and,
where the folder of real meter files is at hand, those files with their truth.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.read.test_columns import TABLES, UNITS

from hushmeter.errors import HushmeterError
from hushmeter.read import ReadOptions, read_home_recording, read_recording
from hushmeter.read.source import find_encoding
from hushmeter.read.text_table import find_delimiter

QUICK, FULL = 200, 5_000
CORPUS = Path(
    os.environ.get("HUSHMETER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
) / "meterfiles"  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-le", "latin-1", "cp1252", "utf-8-sig", "cp850", "utf-16-be")
PREAMBLES = (
    "Report;2024", "Customer,Jane Doe", "Account number: 12345", "Generated 2024-05-05 10:00",
    "Total consumption: 1234 kWh", "Period,2024-01-01,2024-12-31", "", '"Meter 4711, street 5"',
    "=====", "My energy portal;;;", "Downloaded on;05/06/2024;by;user", "Type,Electricity",
)  # fmt: skip
WORDS = (
    "Import Bezug Importation Importación Importação Importazione Tuonti Afname",
    "Imported Bezogen Importée Importada Importata Importeret Tuotu Geïmporteerd",
    "Export Einspeisung Injection Exportación Exportação Immissione Vienti Teruglevering",
    "Exported Eingespeist Injectée Exportada Immessa Eksporteret Viety Teruggeleverd",
    "Produced Erzeugt Produite Producida Produzida Prodotta Produceret Tuotettu Geproduceerd",
    "Production Erzeugung Producción Produção Produzione Produktion Tuotanto Opwek",
    "Consumed Verbraucht Consommée Consumida Consumata Forbrugt Kulutettu Verbruikt",
    "Consumption Verbrauch Consommation Consumo Consumi Forbrug Kulutus Verbruik Usage",
    "Energy Energie Énergie Energía Energia Energi", "Date Datum Fecha Data Dato Päivä",
    "Time Zeit Heure Hora Ora Tid Aika Tijd", "Start Beginn Début Inicio Início Inizio Alku",
    "End Ende Fin Fim Fine Slut Loppu Einde", "Unit Einheit Unité Unidad Enhed Yksikkö Eenheid",
    "Returned Eingespeist Teruggeleverd Injectée", "Cost Kosten Coût Coste Pris",
    "Gas Gaz Gás", "Timestamp Zeitstempel Horodatage Tidspunkt", "Grid Netz",
)  # fmt: skip
TRANSLATIONS = {
    word.lower(): [other for other in group.split() if other != word]
    for group in WORDS
    for word in group.split()
}


@dataclass(frozen=True)
class Seed:
    """A table with its truth: energies that are right, the interval and the options it needs."""

    name: str
    data: bytes
    energies: tuple[float, ...]
    interval_s: float
    slack: float
    options: dict[str, str]


def made_up() -> list[Seed]:
    seeds = []
    for name, (text, energies, tz) in TABLES.items():
        given = {"tz": tz, "unit": UNITS.get(name)}
        options = {key: value for key, value in given.items() if value is not None}
        interval = 3600.0 if energies.size in (480, 240) else 900.0
        right = [float(energies.sum())]
        if "half" in name or "London" in name or "fuels" in name or "ends in" in name:
            interval = 1800.0
        if "solar" in name:
            right.append(1.5 * right[0])
        seeds.append(Seed(name, text.encode(), tuple(right), interval, 0.005, options))
    return seeds


def real() -> list[Seed]:
    """Real meter files that are tables and are to be read."""
    if not (CORPUS / "truth.json").is_file():
        return []
    seeds = []
    for entry in json.loads((CORPUS / "truth.json").read_text(encoding="utf-8")):
        table = entry["file"].endswith((".csv", ".txt")) and not entry["file"].startswith("nem1")
        if entry["expected"] == "refuse" or not table:
            continue
        flags = dict(zip(entry["flags"][::2], entry["flags"][1::2], strict=True))
        energies = [entry["energy_kwh"], *(a["energy_kwh"] for a in entry.get("also_right", []))]
        seeds.append(
            Seed(
                entry["file"],
                (CORPUS / entry["file"]).read_bytes(),
                tuple(energies),
                entry["interval_s"],
                entry["tolerance_kwh"],
                {flag[2:].replace("-", "_"): value for flag, value in flags.items()},
            )
        )
    return seeds


def decode(data):
    return data.decode(find_encoding(data[:20_000]), "replace").lstrip("\ufeff")


def split(text):
    lines = text.splitlines()
    delimiter = find_delimiter(lines[:300])
    return [next(csv.reader([line], delimiter=delimiter), []) for line in lines], delimiter


def join(rows, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def header_row(rows):
    for i, row in enumerate(rows[:60]):
        words = sum(bool(re.search("[A-Za-z]", cell)) for cell in row)
        followed = i + 1 < len(rows) and any(re.search(r"\d", cell) for cell in rows[i + 1])
        if len(row) > 1 and words >= 0.5 * len(row) and followed:
            return i
    return 0


def drop_column(text, rng):
    rows, delimiter = split(text)
    header = rows[header_row(rows)]
    # Without the only column of the meter, another reading of the file may be right.
    spared = {i for i, name in enumerate(header) if re.search(r"(?i)mains|\(L\d\)", name)}
    choices = [i for i in range(max(len(row) for row in rows)) if i not in spared]
    place = rng.choice(choices)
    return join([row[:place] + row[place + 1 :] for row in rows], delimiter)


def swap_marks(text, rng):
    rows, delimiter = split(text)
    first, swap = header_row(rows) + 1, rng.choice((",.", ".,", "both"))
    table = str.maketrans(".,", ",.") if swap == "both" else str.maketrans(swap[0], swap[1])
    changed = [
        [
            cell.translate(table) if re.fullmatch(r"\s*[-+]?[\d.,]+\s*", cell) else cell
            for cell in row
        ]
        for row in rows[first:]
    ]
    if rng.random() < 0.5:
        return "\n".join(delimiter.join(row) for row in [*rows[:first], *changed])
    return join([*rows[:first], *changed], delimiter)


def shuffle_rows(text, rng):
    lines = text.splitlines()
    first = header_row(split(text)[0]) + 1
    body = lines[first:]
    rng.shuffle(body)
    return "\n".join([*lines[:first], *body])


def add_preamble(text, rng):
    return "\n".join([*rng.choices(PREAMBLES, k=rng.randint(1, 5)), text])


def add_footer(text, rng):
    footers = ("Total", "", "Summe;;;", "Generated by portal, version 2", "Total,,,9999")
    return text.rstrip("\n") + "\n" + rng.choice(footers) + "\n"


def change_delimiter(text, rng):
    rows, _ = split(text)
    return join(rows, rng.choice(",;\t|"))


def translate_header(text, rng):
    rows, delimiter = split(text)
    place = header_row(rows)

    def other(match):
        return rng.choice(TRANSLATIONS.get(match[0].lower(), [match[0]]))

    rows[place] = [re.sub(r"[^\W\d_]+", other, cell) for cell in rows[place]]
    return join(rows, delimiter)


MUTATIONS = (drop_column, drop_column, swap_marks, shuffle_rows, add_preamble, add_footer,
             change_delimiter, translate_header, translate_header)  # fmt: skip


def wrongly_read(seed, text, rng, path):
    """A sentence if the file is read with wrong numbers, else None."""
    data = text.encode(rng.choice(ENCODINGS) if rng.random() < 0.15 else "utf-8", "replace")
    path.write_bytes(data)
    options = seed.options if rng.random() < 0.7 else {}
    try:
        found = read_home_recording(path, ReadOptions(**options), need_circuits=False)
    except HushmeterError:
        return None
    energy, interval = found.trace.energy_kwh, found.trace.interval_s
    near = any(abs(energy - right) <= max(0.005 * right, seed.slack) for right in seed.energies)
    if near and abs(interval - seed.interval_s) <= 0.01 * seed.interval_s:
        return None
    return f"{energy:.6g} kWh of {interval:g} s, not {seed.energies} of {seed.interval_s:g} s"


def mutate(seeds, path, count, start=0):
    read = 0
    for number in range(start, start + count):
        rng = random.Random(number)
        seed = seeds[number % len(seeds)]
        steps = rng.sample(MUTATIONS, rng.choice((1, 1, 2)))
        # A number that was split at its mark and lost its second half cannot be noticed.
        steps.sort(key=lambda step: step is not drop_column)
        text = decode(seed.data)
        for step in steps:
            text = step(text, rng)
        problem = wrongly_read(seed, text, rng, path)
        labels = ", ".join(step.__name__ for step in steps)
        assert problem is None, f"mutation {number} of {seed.name} ({labels}): {problem}"
        read += 1
    return read


def test_mutated_tables_are_never_wrong(tmp_path):
    assert mutate(made_up(), tmp_path / "table.csv", QUICK) == QUICK


@pytest.mark.slow
def test_thousands_of_mutated_tables_are_never_wrong(tmp_path):
    assert mutate([*made_up(), *real()], tmp_path / "table.csv", FULL) == FULL


def test_a_numbered_column_beside_its_namesake(tmp_path):
    path = tmp_path / "house1_power_blk1.csv"
    path.write_bytes(b"unix_ts,mains,sub1,sub2,2\n1,50,1,1,1\n2,60,1,1,1\n")
    assert read_home_recording(path).trace.names == ("sub1", "sub2", "2")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00entity_id,state,last_changed\nsensor.power,5,2024-01-01T00:00:00Z\n",
        b"0000-01-01\t",
        b"0000-01-01\t\n0000-01-02\t5\n",
        b"time,kWh\n" + b"9" * 400 + b",5\n",
        b"\xff\xfe",
        b"a;b\n;\n",
    ],
)
def test_files_that_once_ended_in_a_traceback(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(HushmeterError, match=r"^[^\n]+$"):
        read_recording(path)
