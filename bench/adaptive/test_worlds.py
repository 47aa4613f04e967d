"""Checks of drawn worlds: `PYTHONPATH=bench python3 -m unittest discover bench/adaptive`."""

from __future__ import annotations

import random
import tempfile
import tomllib
import unittest
from pathlib import Path

import spots
from worldruns import stuck_s, weighted
from worlds import SPLITS, drawn


class Drawn(unittest.TestCase):
    def test_a_world_is_the_same_every_time_and_another_in_each_split(self) -> None:
        for number in range(5):
            texts = [drawn(split, number).text() for split in SPLITS]
            self.assertEqual(texts, [drawn(split, number).text() for split in SPLITS])
            self.assertEqual(len(set(texts)), len(SPLITS))

    def test_the_file_of_a_world_is_its_scenario(self) -> None:
        for number in range(20):
            world = drawn("train", number)
            read = tomllib.loads(world.text())
            for key in ("topology", "traffic", "mac"):
                self.assertEqual(read[key], world.scenario[key])

    def test_traffic_begins_before_the_end_and_at_nodes_that_exist(self) -> None:
        for number in range(100):
            world = drawn("train", number)
            nodes = len(world.scenario["topology"]["nodes"])
            for entry in world.scenario["traffic"]:
                self.assertLess(entry.get("start_s", 0), world.scenario["duration_s"])
                for end in (entry["from"], entry["to"]):
                    self.assertTrue(end in {"internet", "server", "gateway"} or 0 <= end < nodes, end)

    def test_most_classes_occur_in_a_hundred_worlds(self) -> None:
        labels = {label for number in range(100) for label in drawn("train", number).labels}
        for needed in ("receiver linux", "radio sinr", "shape mesh", "moving node", "failing node", "changing rate"):
            self.assertIn(needed, labels)


class Spots(unittest.TestCase):
    def test_hops_are_those_of_a_string(self) -> None:
        places = spots.in_range(spots.string(4, 200), 250)
        self.assertEqual(places.hops(), {0: 0, 1: 1, 2: 2, 3: 3, 4: 4})
        self.assertEqual(places.path(3), [0, 1, 2, 3])
        self.assertEqual(len(places.hops(without=2)), 2)

    def test_a_mesh_keeps_its_distances(self) -> None:
        places = spots.in_range(spots.mesh(30, 200, random.Random(1)), 250)
        self.assertEqual(len(places.hops()), 30)

    def test_the_margin_of_a_link_falls_with_distance(self) -> None:
        log = spots.Log(3.0, 40.0, 0.0, 16.0)
        places = spots.in_shadow(spots.string(2, 10), log, -79.0, random.Random(1))
        self.assertAlmostEqual(places.margin[0, 1], 16 - 40 - 30 + 79)
        self.assertGreater(places.margin[0, 1], places.margin[0, 2])
        self.assertAlmostEqual(log.distance(16 - 70), 10.0)


class Judging(unittest.TestCase):
    def test_waiting_under_an_unused_budget_counts_from_its_beginning_to_its_end(self) -> None:
        rows = [(1, 0, "the budget is not used"), (2, 3, "the budget is not used"), (9, 1, "the budget is not used")]
        rows += [(10, 4, "calls have room"), (11, 4, "the budget is not used")]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "control.csv"
            lines = ["t_s,pacer_packets,reason", *(f"{at},{packets},{reason}" for at, packets, reason in rows)]
            trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.assertEqual(stuck_s(trace), 7.0)

    def test_a_mean_is_weighted(self) -> None:
        self.assertEqual(weighted([(1, 2.0), (3, 6.0)]), 5.0)


if __name__ == "__main__":
    unittest.main()
