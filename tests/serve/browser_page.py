"""The page of koofu serve in a headless Chromium: a user's actions, and checks of what is seen."""

import glob
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import browser

DESKTOP, PHONE = (1280, 860), (360, 740)
ALSO = {DESKTOP: (1680, 1000), PHONE: (390, 844)}  # in tests of looks
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED {what}", flush=True)


# The lowest contrast of all texts that are shown with what lies under them, and that text.
CONTRAST = """(() => {
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (css) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = css; pen.fillRect(0, 0, 1, 1);
    const d = pen.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (e) => { const chain = []; for (; e; e = e.parentElement) chain.push(rgba(getComputedStyle(e).backgroundColor));
    return chain.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
  const light = (c) => { const v = c.slice(0, 3).map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  let worst = [99, ''];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest('.unseen, noscript, [aria-busy]')) continue;
    const under = ground(e), c = light(over(rgba(getComputedStyle(e).color), under)), g = light(under);
    const ratio = (Math.max(c, g) + 0.05) / (Math.min(c, g) + 0.05);
    if (ratio < worst[0]) worst = [ratio, walk.currentNode.data.trim().slice(0, 40)];
  }
  return worst; })()"""

# What reaches over an edge of the window and does not lie in a box that scrolls or cuts.
OVERFLOW = """[...document.querySelectorAll('body *')].filter((e) => { const b = e.getBoundingClientRect();
  if (!e.checkVisibility() || !b.width || (b.right <= WIDTH + 1 && b.left >= -1)) return false;
  for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== 'visible') return false;
  return !e.closest('.unseen, .skip'); }).slice(0, 3).map((e) => e.outerHTML.slice(0, 120))"""

# Text that is cut off although nothing says so: no ellipsis, no scrolling.
CUT = """[...document.querySelectorAll('button, .button, h1, h2, label, th, td, .switch span, nav a')].filter((e) => e.checkVisibility() &&
  !e.closest('.unseen') && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'visible' && getComputedStyle(e).display !== 'inline')
  .slice(0, 3).map((e) => e.outerHTML.slice(0, 120))"""

# Text that leaves a box around it that neither scrolls nor cuts.
SPILLING = """(() => { const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) { const n = walk.currentNode; let e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility() || e.closest('.unseen, .skip, option, noscript') || getComputedStyle(e).whiteSpace === 'pre-wrap') continue;
    const r = document.createRange(); r.selectNodeContents(n);
    const right = Math.max(...[...r.getClientRects()].map((b) => b.right));
    for (; e !== document.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX !== 'visible') break;
      if (getComputedStyle(e).display !== 'inline' && right > e.getBoundingClientRect().right + 1) { found.push(`${n.data.slice(0, 60)} leaves ${e.cloneNode().outerHTML}`); break; }
    } }
  return found.slice(0, 3); })()"""

# Characters that change what is seen without being seen, in texts and in what screen readers say.
HIDDEN = """([document.body.textContent, ...[...document.querySelectorAll('[title], [aria-label], [alt]')].flatMap((e) => [e.title, e.ariaLabel, e.alt])].join(' ').match(/[\\x00-\\x08\\x0e-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f]/g) ?? []).map((c) => c.codePointAt().toString(16))"""

# Names of classes and files that are broken inside a word that would fit.
BROKEN = """[...document.querySelectorAll('.name, .verdict b, .label b, .face span, figcaption, .head, .tip')].filter((e) => e.checkVisibility()).flatMap((e) => {
  const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), found = [];
  while (walk.nextNode()) for (const m of walk.currentNode.data.matchAll(/[^\\s_/.-]+/g)) {
    if (m[0].length > 30) continue;
    const r = document.createRange(); r.setStart(walk.currentNode, m.index); r.setEnd(walk.currentNode, m.index + m[0].length);
    if (new Set([...r.getClientRects()].map((b) => Math.round(b.top))).size > 1) found.push(m[0]); }
  return found; }).slice(0, 3)"""

# Controls under a message.
COVERED = """(() => { scrollTo(0, 0); return [...document.querySelectorAll('button, a, input, select')].filter((e) => !e.closest('.toasts')).filter((e) => {
  const b = e.getBoundingClientRect(); return b.width && document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2)?.closest('.toasts'); })
  .map((e) => e.outerHTML.slice(0, 80)); })()"""

# Whether the element that has the focus shows it.
FOCUS_SHOWN = """(() => { const e = document.activeElement;
  const lined = (x) => x && parseFloat(getComputedStyle(x).outlineWidth) > 0 && getComputedStyle(x).outlineStyle !== 'none';
  const b = e.getBoundingClientRect();
  return {name: e.id || e.textContent.trim().slice(0, 20) || e.className, body: e === document.body,
    shown: lined(e) || lined(e.nextElementSibling) || lined(e.closest('label')),
    inside: b.bottom > 0 && b.top < innerHeight}; })()"""

NAMED = {"button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "spinbutton", "application", "main",
         "navigation", "complementary", "region", "img", "image", "listbox", "dialog", "table"}


class Page:
    """One tab with the page of the server at an address."""

    def __init__(self, tab, url, axe=None):
        self.tab, self.url, self.axe = tab, url, axe
        self.host = url.split("//")[1].rstrip("/")
        self.where = ""
        # What the console may say: Chromium's advice, since the tests read pixels; tests add the
        # errors they cause.
        self.expected = ["willReadFrequently"]

    def open(self, place, width, height, scheme="light", still=False):
        self.where = f"{place or '#ask'} at {width}, {scheme}"
        self.width = width
        self.tab.window(width, height, scheme, still=still)
        self.tab.go(f"{self.url}/{place}")

    def reload(self):
        """And waits for the new document: the old one may look like it."""
        self.value("window.isOld = true, location.reload()")
        self.wait("!window.isOld && document.readyState === 'complete'")

    def wait(self, expression, seconds=60):
        """Until the expression is true or an element is there. OSError if that never happens: the test ends there."""
        self.tab.wait(f"(() => {{ const v = {expression}; return typeof v === 'object' ? v !== null : v; }})()", seconds)

    def value(self, expression):
        return self.tab.evaluate(expression)

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def count(self, selector):
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.checkVisibility()).length")

    def box(self, selector):
        """Left, top, width and height of an element, which is brought into view."""
        return self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
                          " e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def click(self, selector):
        """With the mouse, or with a finger where the window is a phone's."""
        box = self.box(selector)
        if box is None:
            raise OSError(f"there is no {selector}")
        at = (box[0] + box[2] / 2, box[1] + box[3] / 2)
        over = self.value(f"(() => {{ const e = document.elementFromPoint({at[0]}, {at[1]}), w = document.querySelector({json.dumps(selector)});"
                          " return Boolean(e && (w.contains(e) || e.contains(w) || e.closest('label')?.contains(w))); })()")
        check(over, f"{self.where}: {selector} lies under something")
        if self.value("innerWidth") < 600:
            self.tab.touch([[at]])
        else:
            self.tab.drag([at])

    def fill(self, selector, text):
        self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select(); }})()")
        self.tab.type(text)

    def settled(self):
        """No request is pending, and requested pictures have arrived."""
        self.wait("!document.querySelector('[aria-busy]') && ![...document.images].some((i) => i.checkVisibility() && !i.complete)")

    # ---- what can be perceived ----

    def quiet(self):
        found = [words for words in self.tab.complaints(self.host) if not any(part in words for part in self.expected)]
        check(not found, f"{self.where}: {found}")
        self.tab.events = []

    def sound(self, what):
        """Nothing wider than the window, nothing cut, legible, named; no violation that axe knows of."""
        where = f"{self.where}, {what}"
        self.settled()
        wide = self.value(f"Math.max(document.documentElement.scrollWidth, innerWidth) - {self.width}")  # phones widen the window
        check(wide <= 0, f"{where}: {wide} pixels wider than the window")
        for script, words in ((OVERFLOW, "reaches over the edge"), (CUT, "is cut off"), (browser.COLLIDING, "collides"), (BROKEN, "is broken inside a word"),
                              (SPILLING, "text outside its box"), (HIDDEN, "hidden characters"), (COVERED, "lies under a message")):
            found = self.value(script.replace("WIDTH", str(self.width)))
            check(not found, f"{where}: {words}: {found}")
        ratio, text = self.value(CONTRAST)
        check(ratio >= 4.5, f"{where}: contrast {ratio:.2f} of '{text}'")
        self.check_names(where)
        self.check_axe(where)
        self.quiet()

    def check_names(self, where):
        nodes = self.tab.call("Accessibility.getFullAXTree")["nodes"]
        roles = set()
        for node in nodes:
            role = node.get("role", {}).get("value")
            if node.get("ignored"):
                continue
            roles.add(role)
            if role in NAMED and not node.get("name", {}).get("value") and role not in ("main", "table"):
                check(role == "image" and not node.get("childIds"), f"{where}: a {role} has no name: {node.get('properties')}")
        missing = {"dialog"} if "dialog" in roles else {"banner", "navigation", "main"}  # a dialog makes the rest inert
        missing -= roles
        check(not missing, f"{where}: no {missing}")

    def check_axe(self, where):
        if not self.axe:
            return
        if not self.value("typeof axe !== 'undefined'"):
            self.tab.evaluate(self.axe)
        answer = self.tab.call("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression=(
            "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
            ".then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 110)).join(' | ')))"))
        found = answer["result"].get("value")
        check(found == [], f"{where}: axe: {found if found is not None else answer}")

    def check_tabs(self, least):
        """Tab goes through the page, shows where it is and never gets stuck."""
        self.value("document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex')")
        seen = []
        for _ in range(80):
            self.tab.key("Tab")
            focus = self.value(FOCUS_SHOWN)
            if focus["body"] or (seen and focus["name"] == seen[0]):
                break
            check(focus["shown"] and focus["inside"], f"{self.where}: the focus on {focus['name']} is not seen: {focus}")
            seen.append(focus["name"])
        check(len(seen) >= least and len(seen) < 80, f"{self.where}: the keyboard reaches {seen}")
        return seen


def open_tab():
    """A tab of a new browser, or None where there is no Chromium."""
    program = browser.find()
    return browser.Browser(program) if program else None


def find_axe():
    """The text of axe-core, where tools/test_browser.sh has installed it."""
    for path in glob.glob(os.path.join(os.environ.get("KOOFU_AXE", "/nowhere"), "**", "axe.min.js"), recursive=True):
        with open(path, encoding="utf-8") as file:
            return file.read()
    return None


def wait_for(condition, seconds=60):
    """For what happens outside the browser."""
    for _ in range(20 * seconds):
        if condition():
            return True
        time.sleep(0.05)
    return False


def shoot(page, what, place, size, scheme):
    shots = os.environ.get("KOOFU_SHOTS")
    if shots:
        page.tab.screenshot(os.path.join(shots, f"{what}-{place.strip('#').replace('/', '-')}-{size[0]}-{scheme}.png"))


def check_export(page, rows):
    with tempfile.TemporaryDirectory(prefix="koofu-export-") as folder:
        page.tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
        page.click("#export")
        path = os.path.join(folder, "rows.tsv")
        if not wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 0):
            check(False, f"{page.where}: nothing exported")
            return
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        check(lines[0] == "row\tid\tlabel" and len(lines) == rows + 1 and all(len(line.split("\t")) == 3 for line in lines),
              f"{page.where}: exported {lines[:3]}")
