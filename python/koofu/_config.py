"""Settings of the whole process."""

from __future__ import annotations

import os
from typing import Optional, Union

from koofu import _koofu, _progress
from koofu._progress import Report
from koofu._types import one_of

_ISAS = {None: 0, "plain": 1, "avx2": 2, "avx512": 3, "amx": 4}


def configure(
    *,
    threads: Optional[int] = None,
    instructions: Optional[str] = None,
    any_encoder: bool = False,
    device: Optional[str] = None,
    device_plugin: Optional[Union[str, os.PathLike[str]]] = None,
    progress: Union[bool, Report, None] = None,
) -> None:
    """Settings for all later calls in this process. They never change a bit of a result.

    :param threads: per call; None: one per processor that this process may use.
    :param instructions: ``"plain"``, ``"avx2"``, ``"avx512"`` or ``"amx"``; None: the best one.
    :param any_encoder: embeddings of different encoders may be mixed, in what is opened or loaded
        from now on.
    :param device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or several, ``"cuda:0,cuda:1"``; OSError if
        one is missing. None: the first GPU, where there is one and it is faster.
    :param device_plugin: the file of the plug-in for GPUs; None: searched for.
    :param progress: True: calls that take longer than a second show a progress bar on stderr, in
        notebooks as well; False: none does; None: only where stderr is a terminal. Or a function,
        called with the stage, and how many units of it are done of how many (0: not known), while
        a call works; an exception that it raises ends the call.

    >>> import koofu
    >>> koofu.configure(threads=1)
    >>> koofu.threads()
    1
    >>> koofu.configure()
    """
    if threads is not None and not 1 <= threads <= 1024:
        raise ValueError(f"threads is {threads}; it must be 1 to 1024")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress is {progress!r}; it must be True, False, None or a function")
    _koofu.configure(
        threads or 0,
        one_of(instructions, _ISAS, "instructions"),
        int(any_encoder),
        None if device is None else device.encode(),
        None if device_plugin is None else os.fsencode(device_plugin),
    )
    _progress.configure(progress)


def threads() -> int:
    """The number of threads that a call uses."""
    return int(_koofu.threads()[0])
