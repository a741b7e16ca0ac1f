#!/usr/bin/env python3
"""Reports in a real browser: no errors or requests, fits the window, readable colours and tooltips.

usage: report_browser.py path/to/unit_report; skipped (77) without Chromium.
"""

import os
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

sys.dont_write_bytecode = True
import browser

PAGES = ("small.html", "hostile.html", "large.html", "empty.html", "answers.html")
WINDOWS = ((1280, "light", ""), (1680, "light", ""), (1280, "dark", ""), (390, "light", ""), (390, "dark", ""), (320, "light", ""), (794, "light", "print"))
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED {what}")


class Balance(HTMLParser):
    """Every element that is opened is closed, in order; except for void and self-closed ones."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"{tag} at {self.getpos()}")


def check_markup(path):
    with open(path, encoding="utf-8") as file:
        parser = Balance()
        parser.feed(file.read())
        parser.close()
    check(not parser.wrong and not parser.open, f"{path}: {parser.wrong or parser.open}")


# The lowest contrast between text and the page among all texts that are shown, and that text.
CONTRAST = """(() => {
  const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
      .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const page = light(getComputedStyle(document.body).backgroundColor);
  let worst = [99, ''];
  for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,dt,dd,li,figcaption,summary,footer,svg text')) {
    if (e.matches('.count')) continue;  // stands on a cell of its own colour
    const s = getComputedStyle(e), c = light(e.tagName === 'text' ? s.fill : s.color);
    const ratio = (Math.max(c, page) + 0.05) / (Math.min(c, page) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.textContent.slice(0, 40)];
  }
  return worst; })()"""

# Elements that reach over the right edge of the window and do not lie in a box that scrolls.
OVERFLOW = """[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > WIDTH + 1 &&
  !e.closest('.scroll') && getComputedStyle(e).visibility !== 'hidden').slice(0, 3).map(e => e.outerHTML.slice(0, 90))"""

# Boxes that hide a part of what they hold, without a shade at that edge.
HIDING = """[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1 &&
  !getComputedStyle(e).backgroundImage.includes('gradient')).map(e => e.getAttribute('aria-label'))"""

READING = """(() => { const g = document.querySelector('#lambda .read:nth-of-type(3)'), r = g.querySelector('rect');
  r.scrollIntoView({block: 'center'}); const b = r.getBoundingClientRect();
  return [b.x + b.width / 2, b.y + b.height / 2]; })()"""


def check_window(tab, path, width, scheme, media):
    where = f"{os.path.basename(path)} at {width}, {scheme}{', ' + media if media else ''}"
    tab.show(path, width, 900, scheme, media)
    check(not tab.complaints(), f"{where}: {tab.complaints()}")
    found = tab.evaluate("document.documentElement.scrollWidth")
    check(found <= width, f"{where}: the page is {found} wide")
    wide = tab.evaluate(OVERFLOW.replace("WIDTH", str(width)))
    check(not wide, f"{where}: reaches over the edge: {wide}")
    for script, words in ((HIDING, "hides what nothing tells of"), (browser.COLLIDING, "collides")):
        found = tab.evaluate(script)
        check(not found, f"{where}: {words}: {found}")
    ratio, text = tab.evaluate(CONTRAST)
    check(ratio >= 4.5, f"{where}: contrast {ratio:.2f} of '{text}'")


def check_reading(tab, path):
    """The numbers of a curve appear under the pointer, and only there."""
    tab.show(path, 1280)
    shown = "getComputedStyle(document.querySelector('#lambda .read:nth-of-type(3)>g')).visibility"
    check(tab.evaluate(shown) == "hidden", "a reading is there without the pointer")
    tab.hover(*tab.evaluate(READING))
    check(tab.evaluate(shown) == "visible", "no reading under the pointer")


def main():
    program = browser.find()
    with tempfile.TemporaryDirectory(prefix="koofu-pages-") as folder:
        for suite, case in (("report", "pages_for_a_browser"), ("search_page", "page_for_a_browser")):
            subprocess.run([sys.argv[1], suite, case], env=os.environ | {"KOOFU_TEST_PAGES": folder}, check=True)
        pages = [os.path.join(folder, name) for name in PAGES]
        for path in pages:
            check_markup(path)
        if not program:
            print("skipped: no Chromium here (Debian: apt install chromium)")
            return 1 if failures else 77
        tab = browser.Browser(program)
        try:
            for path in pages:
                for width, scheme, media in WINDOWS:
                    check_window(tab, path, width, scheme, media)
            check_reading(tab, pages[0])
            tab.show(pages[-1], 1280)
            shown = tab.evaluate("[...document.images].map(i => i.naturalWidth > 0)")
            check(shown and all(shown), f"pictures of answers.html: {shown}")
        finally:
            tab.close()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main())
