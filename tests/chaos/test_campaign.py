"""The quick parts of the campaign of `make chaos`: a few kills, full disks, damaged files and read-only folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.damage import WAYS

CAMPAIGN = Path(__file__).with_name("campaign.py")


@pytest.mark.skipif(sys.platform != "linux", reason="the campaign forks processes and mounts small disks")
def test_the_short_campaign_holds() -> None:
    command = [sys.executable, str(CAMPAIGN), "--short", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    rows = json.loads(done.stdout)
    assert [fault for row in rows for fault in row["faults"]] == []
    assert done.returncode == 0, done.stderr
    kills = [row["tried"] for row in rows if "killed" in row["what"]]
    assert sum(kills) >= 5
    assert all(row["tried"] >= 4 for row in rows if row["what"].startswith("damaged"))


def test_there_are_twenty_ways_to_damage_a_file() -> None:
    import random

    whole = bytes(range(256)) * 4
    damaged = {way: damage(whole, random.Random(0)) for way, damage in WAYS.items()}
    assert len(damaged) == 20
    assert all(content != whole for content in damaged.values())
