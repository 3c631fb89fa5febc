"""Tables of other libraries in, tables for them out. Each library is tried where it is installed."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

import humpyard as hy

POISSON = "gen:poisson:packets=5000,flows=20"
COLUMNS = {"time": [0, 100, 250, 400], "flow": [1, 2, 1, 3], "length": [64, 1500, 64, 700]}


def needs(*libraries: str) -> bool:
    """Whether a library is missing."""
    return any(importlib.util.find_spec(library) is None for library in libraries)


class Sweeps(unittest.TestCase):
    """The queries of docs/how-to/sweep.md, on a dataset of a sweep."""

    directory: tempfile.TemporaryDirectory[str]
    runs: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        plan = {
            "options": {"input": "gen:poisson:packets=300", "cores": 2},
            "axes": {"policy": ["drr", "hrw"], "load": [0.5, 0.9]},
            "repeat": {"times": 3},
        }
        hy.sweep(plan, out=cls.directory.name)
        cls.runs = Path(cls.directory.name, "runs.parquet")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    @unittest.skipIf(needs("duckdb"), "duckdb is not installed")
    def test_duckdb(self) -> None:
        import duckdb

        query = f"select policy, load, median(delay_p99_ns) from '{self.runs}' group by all order by all"
        found = duckdb.sql(query)
        assert found is not None
        rows = found.fetchall()
        self.assertEqual([row[:2] for row in rows], [("drr", 0.5), ("drr", 0.9), ("hrw", 0.5), ("hrw", 0.9)])
        self.assertTrue(all(row[2] > 0 for row in rows))

    @unittest.skipIf(needs("polars"), "polars is not installed")
    def test_polars(self) -> None:
        import polars as pl

        medians = pl.scan_parquet(self.runs).group_by("policy", "load").agg(pl.col("delay_p99_ns").median()).collect()
        self.assertEqual(medians.height, 4)
        # Delay grows with the load, under each policy.
        for (policy,), group in medians.sort("load").group_by("policy", maintain_order=True):
            self.assertTrue(group["delay_p99_ns"].is_sorted(), policy)


class Libraries(unittest.TestCase):
    @unittest.skipIf(needs("polars"), "polars is not installed")
    def test_polars(self) -> None:
        import polars as pl

        expected = hy.simulate(COLUMNS, policy="drr").document
        found = hy.simulate(pl.DataFrame(COLUMNS), policy="drr").document
        self.assertEqual(found["delay_ns"], expected["delay_ns"])
        frame = pl.DataFrame(hy.simulate(POISSON, policy="hrw", load=0.9, record=True).packets)
        self.assertEqual(frame.height, 5000)
        self.assertEqual(frame["fate"].unique().to_list(), ["served"])
        delays = frame.select((pl.col("left") - pl.col("arrival")).max()).item()
        result = hy.simulate(POISSON, policy="hrw", load=0.9)
        self.assertEqual(delays, result.delay_ns.max)
        # What one run recorded is the traffic of the next.
        again = frame.select(pl.col("arrival").alias("time"), "flow", "length")
        self.assertEqual(hy.simulate(again, policy="fcfs").flows, result.flows)

    @unittest.skipIf(needs("pandas", "pyarrow"), "pandas with pyarrow is not installed")
    def test_pandas(self) -> None:
        import pandas as pd

        packets = pd.DataFrame({**COLUMNS, "time": pd.to_datetime(COLUMNS["time"], unit="ns")})
        self.assertEqual(hy.simulate(packets, policy="drr")["packets"]["in"], 4)

    @unittest.skipIf(needs("pyarrow"), "pyarrow is not installed")
    def test_pyarrow_and_parquet_in_a_stream(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        result = hy.simulate("gen:poisson:packets=200000", policy="drr", load=0.9, record=True)
        reader = pa.RecordBatchReader.from_stream(result.packets)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "packets.parquet")
            with pq.ParquetWriter(path, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
            read = pq.read_table(path)
        self.assertEqual(read.num_rows, 200000)
        self.assertEqual(pa.table(result.timeline).num_rows, result["packets"]["processed"])
        chunked = pa.concat_tables([pa.table(COLUMNS), pa.table({**COLUMNS, "time": [500, 500, 500, 900]})])
        self.assertEqual(hy.simulate(chunked, policy="drr")["packets"]["in"], 8)
        named = pa.table({**COLUMNS, "flow": pa.array(["a", "b", "a", "c"]).dictionary_encode()})
        self.assertEqual(hy.simulate(named, policy="drr").flows, 3)
        part = pa.table(COLUMNS).slice(1, 2)
        self.assertEqual(hy.simulate(part, policy="drr").flows, 2)

    @unittest.skipIf(needs("duckdb", "pyarrow"), "duckdb with pyarrow is not installed")
    def test_duckdb(self) -> None:
        import duckdb

        packets = hy.simulate(POISSON, policy="drr", load=0.9, record=True).packets
        fates = duckdb.sql("select fate, count(*) from packets group by fate")
        query = duckdb.sql("select arrival as time, flow, length from packets order by time")
        assert fates is not None and query is not None
        self.assertEqual(fates.fetchall(), [("served", 5000)])
        self.assertEqual(hy.simulate(query, policy="fcfs")["packets"]["in"], 5000)
        self.assertIsInstance(packets, hy.Frame)


if __name__ == "__main__":
    unittest.main()
