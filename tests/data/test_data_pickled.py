from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway.data.loaders.pickled_data import UnsafePickleError, read_pickled_data

# what Python 2 wrote: protocol 0 text, and protocol 2 with byte strings and the old name of numpy's module
BATCHES_META = b"(dp1\nS'num_cases_per_batch'\np2\nI10000\nsS'label_names'\np3\n(lp4\nS'airplane'\np5\naS'cat'\np6\nas."
PYTHON2_BATCH = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85q\x05U\x01bq\x06"
    b"\x87q\x07Rq\x08(K\x01K\x02K\x03\x86q\tcnumpy\ndtype\nq\nU\x02u1q\x0bK\x00K\x01\x87q\x0cRq\r(K\x03U\x01|q\x0eNNNJ"
    b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0fb\x89T\x06\x00\x00\x00\x00\x01\x02\xfd\xfe\xffq\x10tq\x11bU\x06labelsq"
    b"\x12]q\x13(K\x06K\teu."
)


class Hostile:
    """Unpickled by ``pickle.load``, this runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_hostile_pickle_does_not_run(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({"data": [1], "labels": Hostile(f"touch {trace}")}, protocol=protocol))
    with pytest.raises(UnsafePickleError, match=r"test_batch is refused: it asks to call (posix|nt)\.system"):
        read_pickled_data(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())  # noqa: S301, the payload is real: run by pickle, it does leave a trace
    assert trace.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"cbuiltins\neval\n(S'1'\ntR.", r"builtins\.eval"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93.", r"builtins\.exec"),
        (b"(S'touch x'\nios\nsystem\n.", "INST"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"Pid\n.", "PERSID"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"\x80\x02]K\x01b.", "state of something"),
        (b"\x80\x02](K\x01tR.", "not a name"),
        (b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.", "numpy.dtype"),
    ],
)
def test_anything_but_data_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(UnsafePickleError, match=reason):
        read_pickled_data(path)


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(np.array([None, 1], dtype=object), protocol=2))
    with pytest.raises(UnsafePickleError, match="has object, not numbers"):
        read_pickled_data(path)


def test_python2_pickles(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(BATCHES_META)
    assert read_pickled_data(path) == {"num_cases_per_batch": 10000, "label_names": ["airplane", "cat"]}
    path.write_bytes(PYTHON2_BATCH)
    content = read_pickled_data(path)
    assert content["labels"] == [6, 9]
    np.testing.assert_array_equal(content["data"], np.array([[0, 1, 2], [253, 254, 255]], np.uint8))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["uint8", ">i4", "float32"])
def test_arrays_of_every_protocol(tmp_path: Path, protocol: int, order: Any, dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({b"data": array}, protocol=protocol))
    read = read_pickled_data(path)[b"data"]
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(value=plain, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back(tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int) -> None:
    path = tmp_path_factory.getbasetemp() / "plain"
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    assert read_pickled_data(path) == value


@pytest.mark.parametrize("keep", [0, 1, 20, -1])
def test_truncated_pickle_names_the_file(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(PYTHON2_BATCH[:keep])
    with pytest.raises(ValueError, match=r"data_batch_1 is damaged: \d+ bytes"):
        read_pickled_data(path)


def test_shared_parts_do_not_explode(tmp_path: Path) -> None:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]  # 2^60 leaves if every path were followed
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(value, protocol=2))
    assert len(read_pickled_data(path)) == 2


def test_a_number_in_place_of_bytes_is_refused(tmp_path: Path) -> None:
    """``bytes(1_228_800_000)`` would be 400,000 images of zeros from a file of 272 bytes."""
    path = tmp_path / "batch"
    content = PYTHON2_BATCH.replace(b"T\x06\x00\x00\x00\x00\x01\x02\xfd\xfe\xff", b"J\x06\x00\x00\x00")
    path.write_bytes(content)
    with pytest.raises(UnsafePickleError, match="an array in it has int for its bytes"):
        read_pickled_data(path)


def test_a_string_that_is_named_many_times_is_refused(tmp_path: Path) -> None:
    call = b"c_codecs\nencode\nq\x01(h\x00X\x06\x00\x00\x00latin1tR"
    text = b"X" + (10_000).to_bytes(4, "little") + b"a" * 10_000 + b"q\x00"
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02](" + text + 3 * call + b"e.")
    with pytest.raises(ValueError, match="its arrays have more bytes than the file"):
        read_pickled_data(path)


def test_a_huge_number_of_a_value_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02]r\xff\xff\xff\x7f.")  # pickle would allocate 32 GB for its table
    with pytest.raises(UnsafePickleError, match="it numbers a value 2,147,483,647"):
        read_pickled_data(path)
