"""Read the next batches while the present one is in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midway.data.image_set import ImageArray


def prefetched(images: ImageArray, batches: Iterable[ArrayLike], depth: int = 2) -> Iterator[NDArray[np.uint8]]:
    """Yield ``images[indices]`` for every batch of indices, in order, read ahead by worker threads.

    At most ``depth`` batches besides the present one are in memory. Leaving the loop early stops the reading.

    Args:
        images: An array, a memory map or a lazy reader.
        batches: Integer arrays of places, one a batch.
        depth: How many batches to read ahead; 0 reads each one when it is asked for.

    Raises:
        ValueError: ``depth`` is negative, or a file of a batch is damaged (raised when its batch is due).

    Example:
        >>> import numpy as np
        >>> from midway.data import prefetched
        >>> images = np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1)
        >>> [batch.ravel().tolist() for batch in prefetched(images, [[0, 1], [5, 2]])]
        [[0, 1], [5, 2]]
    """
    if depth < 0:
        raise ValueError(f"depth is {depth}, expected 0 or more batches.")
    return _prefetched(images, batches, depth)


def _prefetched(images: ImageArray, batches: Iterable[ArrayLike], depth: int) -> Iterator[NDArray[np.uint8]]:
    def read(indices: ArrayLike) -> NDArray[np.uint8]:
        return np.asarray(images[np.asarray(indices, dtype=np.int64)])

    if depth == 0:
        yield from map(read, batches)
        return
    waiting: deque[Future[NDArray[np.uint8]]] = deque()
    pool = ThreadPoolExecutor(depth, thread_name_prefix="midway-prefetch")
    try:
        for indices in batches:
            waiting.append(pool.submit(read, indices))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
