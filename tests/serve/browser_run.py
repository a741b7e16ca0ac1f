#!/usr/bin/env python3
"""The page of koofu serve in a real browser: every gesture, on a desktop and on a phone.

usage: browser_run.py path/to/koofu [part of a test's name ...]

Skipped (77) without Chromium or without koofu serve. KOOFU_AXE: a folder that contains axe.min.js,
to run its checks too. KOOFU_SHOTS: a folder for screenshots.
"""

import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import browser_ask as ask
import browser_map as maps
import browser_rest as rest
from browser_page import DESKTOP, PHONE, Page, check, failures, find_axe, open_tab
from browser_servers import Server, demo, named_world, picture_world, plain_world

ON_DEMO = (ask.start_and_ask, ask.settings, ask.cards_by_keyboard, ask.make_class, maps.map_by_pointer, maps.map_by_keyboard,
           maps.map_makes_class, maps.map_moves, maps.map_shows_all, rest.looks, rest.classes_list, rest.busy_and_wrong)


def run(koofu, names):
    tab = open_tab()
    if not tab:
        print("skipped: no Chromium here (Debian: apt install chromium)")
        return 77
    axe = find_axe()
    print("with axe-core" if axe else "without axe-core (KOOFU_AXE names no folder that has it)")

    def each(server, tests, *more):
        wanted = [test for test in tests if not names or any(name in test.__name__ for name in names)]
        if not wanted:
            return
        server.start()
        try:
            for test in wanted:
                for size in (DESKTOP, PHONE):
                    began = time.time()
                    try:
                        test(Page(tab, server.url, axe), size, *more)
                    except OSError as error:
                        check(False, f"{test.__name__} at {size[0]}: {error}")
                    print(f"{test.__name__} at {size[0]}: {time.time() - began:.1f} s", flush=True)
        finally:
            server.stop()

    with tempfile.TemporaryDirectory(prefix="koofu-page-") as folder:
        try:
            each(Server(koofu, demo(), folder), ON_DEMO)
            lost = Server(koofu, demo(), folder)
            each(lost, (rest.lost_and_back,), lost)
            pictures = Server(koofu, picture_world(koofu, folder), folder)
            each(pictures, (ask.pictures, ask.words))
            each(pictures, (ask.commands,), pictures)
            each(Server(koofu, named_world(koofu, folder), folder), (rest.hard_names,))
            model, file = plain_world(koofu, folder)
            each(Server(koofu, [model], folder), (rest.bare,))
            each(Server(koofu, [model, "--token-file", file], folder), (rest.token,))
        finally:
            tab.close()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if subprocess.run([sys.argv[1], "help", "serve"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        print("skipped: this koofu has no serve (Debian: apt install libmicrohttpd-dev)")
        sys.exit(77)
    sys.exit(run(os.path.abspath(sys.argv[1]), sys.argv[2:]))
