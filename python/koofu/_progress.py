"""Progress of long calls: a bar on stderr, or a function of the user."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Optional, Union

#: A function that is told the stage, and how many units of it are done, of how many (0: not known).
Report = Callable[[str, int, int], object]

_DELAY, _PAUSE = 1.0, 0.1  # seconds before the first bar, and between bars
_WIDTH = 24

_wanted: Union[bool, Report, None] = None


class _Line:
    """The line with the bar. Of several calls at a time, one has it."""

    def __init__(self) -> None:
        self.owner: Optional[int] = None  # a thread
        self.stage = ""
        self.began = self.stage_began = self.drawn_at = 0.0
        self.first = 0  # units done when the stage began
        self.width = 0  # of what is on the screen

    def draw(self, text: str) -> None:
        """Replaces the line; without escape codes, which notebooks do not know."""
        try:
            sys.stderr.write("\r" + text.ljust(self.width) + ("" if text else "\r"))
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # closed, or there is none
            pass
        self.width = len(text)

    def text(self, done: int, total: int, now: float) -> str:
        elapsed = now - self.stage_began
        if total <= 0:
            return f"{self.stage}: {done:,}, {_clock(elapsed)}"
        share = min(done / total, 1.0)
        bar = ("#" * round(_WIDTH * share)).ljust(_WIDTH, ".")
        left = ""
        if done > self.first and elapsed > 0.5:
            left = f", {_clock(elapsed * (total - done) / (done - self.first))} left"
        return f"{self.stage}: {100 * share:3.0f} % [{bar}] {done:,} of {total:,}{left}"

    def report(self, stage: Optional[str], done: int, total: int) -> None:
        me, now = threading.get_ident(), time.monotonic()
        if stage is None:
            if self.owner == me:
                if self.width:
                    self.draw("")
                self.owner = None
            return
        if self.owner is None:
            self.owner, self.began, self.stage = me, now, ""
        if self.owner != me:
            return
        if stage != self.stage:
            self.stage, self.stage_began, self.first = stage, now, done
        if now - self.began >= _DELAY and now - self.drawn_at >= _PAUSE:
            self.drawn_at = now
            self.draw(self.text(done, total, now))


_line = _Line()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _on_terminal() -> bool:
    """Whether stderr is a terminal that other threads and processes do not write bars to."""
    try:
        processes = sys.modules.get("multiprocessing")  # absent: there are no others
        return (sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
                and (processes is None or processes.current_process().name == "MainProcess"))
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


def configure(wanted: Union[bool, Report, None]) -> None:
    """What :func:`koofu.configure` was told."""
    global _wanted
    _wanted = wanted


def report(stage: Optional[str], done: int, total: int) -> None:
    """Called by the extension every 50 ms during a call; stage None: the call has ended."""
    wanted = _wanted
    if callable(wanted):
        if stage is not None:
            wanted(stage, done, total)
    elif wanted or (wanted is None and _on_terminal()):
        _line.report(stage, done, total)
