"""Tests of trainspan_dask without Dask."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "dask"))


class Parts(unittest.TestCase):
    def test_one_part(self):
        """A single path is one part. Read as a list of characters, its first part would be /."""
        dask = mock.MagicMock()
        with mock.patch.dict(sys.modules, {"dask": dask, "dask.bag": dask.bag}):
            import trainspan_dask
        for parts, want in (("/a/b", [["/a/b"]]), (Path("/a"), [[Path("/a")]]), (["/a", ["/b", "/c"]], [["/a"], ["/b", "/c"]])):
            trainspan_dask.bag(parts)
            self.assertEqual(dask.bag.from_sequence.call_args[0][0], want)


if __name__ == "__main__":
    unittest.main()
