"""Settings of the whole process."""

from __future__ import annotations

import os
from typing import Optional, Union

from koofu import _koofu
from koofu._types import one_of

_ISAS = {None: 0, "plain": 1, "avx2": 2, "avx512": 3, "amx": 4}


def configure(
    *,
    threads: Optional[int] = None,
    instructions: Optional[str] = None,
    any_encoder: bool = False,
    device: Optional[str] = None,
    device_plugin: Optional[Union[str, os.PathLike[str]]] = None,
) -> None:
    """Sets what all later calls in this process use. None of it changes a bit of any result.

    :param threads: for each call; None: one for each processor that the process may use.
    :param instructions: ``"plain"``, ``"avx2"``, ``"avx512"`` or ``"amx"``; None: the best there is.
    :param any_encoder: what is opened or loaded from now on goes together with embeddings of any
        encoder.
    :param device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or several, ``"cuda:0,cuda:1"``; an OSError says what
        is missing. None: the first GPU, where that is faster and there is one.
    :param device_plugin: the file of the plug-in for GPUs; None: it is looked for.

    >>> import koofu
    >>> koofu.configure(threads=1)
    >>> koofu.threads()
    1
    >>> koofu.configure()
    """
    if threads is not None and not 1 <= threads <= 1024:
        raise ValueError(f"threads is {threads}; it must be 1 to 1024")
    _koofu.configure(
        threads or 0,
        one_of(instructions, _ISAS, "instructions"),
        int(any_encoder),
        None if device is None else device.encode(),
        None if device_plugin is None else os.fsencode(device_plugin),
    )


def threads() -> int:
    """How many threads a call uses."""
    return int(_koofu.threads()[0])
