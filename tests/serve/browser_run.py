#!/usr/bin/env python3
"""The page of koofu serve in a real browser: every gesture, on a desktop and on a phone.

usage: browser_run.py path/to/koofu [part of a name ...]; skipped (77) without Chromium. KOOFU_AXE: a folder that holds
axe.min.js somewhere, for its checks as well. KOOFU_SHOTS: a folder for screenshots.
"""

import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from browser_page import Page, browser, check, failures, find_axe, wait_for
from browser_servers import PICTURES, Server, TOKEN, demo, picture_world, plain_world

DESKTOP, PHONE = (1280, 800), (360, 740)


# ---- ask ----

def start_and_ask(page, size):
    """Samples at the start; a row by its number, at random, by a card, and back."""
    page.open("", *size)
    page.wait("document.querySelectorAll('.card').length >= 6")
    page.sound("start")
    page.fill("#row", "17")
    page.tab.key("Enter")
    page.wait("location.hash === '#ask/row/17' && document.querySelector('.bars tbody tr')")
    check(page.count(".bars tbody tr") == 5, f"{page.where}: {page.count('.bars tbody tr')} classes")
    check("Margin" in page.text("#answer"), f"{page.where}: no margin in {page.text('#answer')}")
    check(page.count(".card") == 24, f"{page.where}: {page.count('.card')} neighbours")
    check("Row 17" in page.text("#shown"), f"{page.where}: {page.text('#shown')}")
    page.sound("asked")
    row = page.value("document.querySelector('.card:nth-child(2)').dataset.row")
    page.click(".card:nth-child(2) .open")
    page.wait(f"location.hash === '#ask/row/{row}' && document.querySelector('#shown').innerText.includes('Row {row}')")
    page.value("history.back()")
    page.wait("location.hash === '#ask/row/17' && document.querySelector('#shown').innerText.includes('Row 17')")
    page.click("#random")
    page.wait("location.hash !== '#ask/row/17' && !document.querySelector('[aria-busy]')")
    page.quiet()


def settings(page, size):
    """Raw or Koo-Fu, how many neighbours, the command line and its copy."""
    page.open("#ask/row/17", *size)
    page.wait("document.querySelectorAll('.card').length === 24")
    first = page.text("#cards")
    page.click("#space label:first-of-type")
    page.wait(f"!document.querySelector('[aria-busy]') && document.querySelector('#cards').innerText !== {first!r}")
    check(page.value("document.querySelector('input[name=space]:checked').value") == "raw", f"{page.where}: not raw")
    page.value("(() => { const s = document.querySelector('#count'); s.value = '12'; s.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.wait("document.querySelectorAll('.card').length === 12")
    page.tab.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    for place in ("#ask/row/17", "#map", "#classes"):
        page.value(f"location.hash = '{place}'")
        view = place.split("/")[0][1:]
        page.wait(f"document.querySelector('#{view}-commands code')")
        line = page.text(f"#{view}-commands code")
        check(line.startswith("koofu "), f"{page.where}: {view} has the command {line!r}")
        page.click(f"#{view}-commands button")
        page.wait(f"document.querySelector('#{view}-commands button').textContent === 'Copied'")
        copied = page.tab.call("Runtime.evaluate", expression="navigator.clipboard.readText()", awaitPromise=True, returnByValue=True)
        check(copied["result"].get("value") == line, f"{page.where}: copied {copied}")
    page.quiet()


def cards_by_keyboard(page, size):
    page.open("#ask/row/17", *size)
    page.wait("document.querySelectorAll('.card').length === 24")
    page.settled()
    at = "[...document.querySelectorAll('.card')].indexOf(document.activeElement.closest('.card'))"
    page.value("document.querySelector('.card .open').focus()")
    columns = page.value("getComputedStyle(document.querySelector('#cards')).gridTemplateColumns.split(' ').length")
    for key, want in (("ArrowRight", 1), ("ArrowDown", 1 + columns), ("ArrowLeft", columns), ("ArrowUp", 0), ("End", 23), ("Home", 0)):
        page.tab.key(key)
        check(page.value(at) == want, f"{page.where}: {key} leads to card {page.value(at)}, not {want}")
    check(page.value("[...document.querySelectorAll('.card a, .card input')].filter((e) => e.tabIndex === 0).length") == 2,
          f"{page.where}: more than one card in the tab order")
    page.tab.key("x")
    check(page.value("document.querySelector('.card input').checked"), f"{page.where}: X does not select")
    page.tab.key("Tab")
    check(page.value("document.activeElement.matches('.card input')"), f"{page.where}: Tab does not reach the tick")
    page.tab.key(" ")
    check(page.count("#tray") == 0, f"{page.where}: Space does not take it back")
    page.tab.key("ArrowRight")
    page.value("document.querySelector('.card:nth-child(2) .open').focus()")
    row = page.value("document.activeElement.closest('.card').dataset.row")
    page.tab.key("Enter")
    page.wait(f"location.hash === '#ask/row/{row}'")
    page.settled()
    page.check_tabs(12)
    page.quiet()


def make_class(page, size):
    """Some rows become a class, which is at work at once; undone, made again, deleted in two ways, refused twice."""
    name = f"all mine & <b>bold</b> {size[0]}"
    page.open("#ask/row/17", *size)
    page.wait("document.querySelectorAll('.card').length === 24")
    for i in (1, 2, 3):
        page.click(f".card:nth-child({i}) .tick")
    page.wait("document.querySelector('#tray-open').textContent.startsWith('3 rows')")
    page.sound("three selected")
    page.click("#tray-open")
    check(page.count("#tray-list li") == 3, f"{page.where}: the tray lists {page.count('#tray-list li')}")
    page.click("#tray-list li button")
    page.wait("document.querySelector('#tray-open').textContent.startsWith('2 rows')")
    page.sound("tray open")
    check_export(page, 2)
    page.fill("#class-name", name)
    page.tab.key("Enter")
    page.wait(f"[...document.querySelectorAll('.bars tr.new .name')].some((e) => e.textContent === {name!r})")
    check(page.count(".bars .badge") == 1, f"{page.where}: the new class is not marked")
    check(page.count("#tray") == 0, f"{page.where}: the selection stays")
    page.sound("class made")
    page.click(".toast.good button")
    page.wait("!document.querySelector('.bars .badge') && !document.querySelector('[aria-busy]')")
    check(page.value("!document.querySelector('.bars b')"), f"{page.where}: markup in a name was taken as markup")

    for i in (1, 2):
        page.click(f".card:nth-child({i}) .tick")
    page.fill("#class-name", name)
    page.click("#class-form button")
    page.wait("document.querySelector('.bars .badge')")
    page.click(".bars tr.new button")
    page.wait("!document.querySelector('.bars .badge') && !document.querySelector('[aria-busy]')")

    known = page.text(".bars .name")
    page.click(".card:nth-child(1) .tick")
    page.fill("#class-name", known)
    page.tab.key("Enter")
    page.wait("document.querySelector('.toast.bad')")
    check("already" in page.text(".toast.bad"), f"{page.where}: refused with {page.text('.toast.bad')!r}")
    page.tab.events = []  # the browser logs the 409
    page.fill("#class-name", "to be deleted")
    page.tab.key("Enter")
    page.wait("document.querySelector('.bars .badge, .toast.good')")
    page.value("location.hash = '#classes'")
    page.wait("document.querySelector('#classes-list .badge')")
    page.sound("added class in the list")
    page.click("#classes-list td button")
    page.wait("!document.querySelector('#classes-list .badge')")
    page.quiet()


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


# ---- map ----

# A fingerprint of the map's pixels.
PIXELS = """(() => { const c = document.querySelector('#plot'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  let h = 0; for (let i = 0; i < d.length; i += 4) h = (h * 31 + d[i] + 3 * d[i + 1] + 7 * d[i + 2] + d[i + 3]) | 0; return h; })()"""
# How many colours it has, coarsely.
COLOURS = """(() => { const c = document.querySelector('#plot'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) s.add((d[i] >> 5) * 64 + (d[i + 1] >> 5) * 8 + (d[i + 2] >> 5)); return s.size; })()"""
# The place of a dot, in pixels of the window: the first that lies well inside the map.
DOT = """(() => { const c = document.querySelector('#plot'), b = c.getBoundingClientRect(), r = c.width / c.clientWidth;
  const w = c.width, h = c.height, d = c.getContext('2d').getImageData(0, 0, w, h).data;
  for (let y = h * 0.3 | 0; y < h * 0.8; y++) for (let x = w * 0.15 | 0; x < w * 0.85; x++) { const i = 4 * (y * w + x);
    if (d[i + 3] > 150 && Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 50) return [b.x + x / r + 1, b.y + y / r + 2]; }
  return null; })()"""
FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


def frame(page):
    page.tab.call("Runtime.evaluate", expression=FRAME, awaitPromise=True)


def changed(page, what, action):
    before = page.value(PIXELS)
    action()
    check(wait_for(lambda: page.value(PIXELS) != before, 20), f"{page.where}: {what} does not change the map")
    frame(page)


def open_map(page, size, **more):
    page.open("#map", *size, **more)
    page.wait("document.querySelector('#legend li') && document.querySelector('#figure').textContent")
    frame(page)


def centre(page):
    x, y, w, h = page.box("#plot")
    return x + w / 2, y + h / 2


def selected(page):
    words = page.text("#tray-open")
    return int(words.split()[0].replace(",", "")) if page.count("#tray") else 0


def map_by_pointer(page, size):
    """Points, pointing, clicking, moving, zooming, the legend and the lasso."""
    open_map(page, size)
    check(page.value(COLOURS) >= 12, f"{page.where}: the map has {page.value(COLOURS)} colours")
    page.sound("map")
    page.box("#plot")
    dot = page.value(DOT)
    if size == DESKTOP:
        page.tab.hover(*dot)
        page.wait("document.querySelector('#tip').checkVisibility() && document.querySelector('#tip b').textContent")
        page.sound("pointing")
        page.tab.drag([dot])
    else:
        page.tab.touch([[dot]])
    page.wait("document.querySelector('#point .near li')")
    check(page.count("#point .near li") >= 3, f"{page.where}: no nearest points in words")
    page.click("#point button")
    check(selected(page) == 1, f"{page.where}: the point is not selected")
    page.click("#clear")
    x, y = centre(page)
    if size == DESKTOP:
        changed(page, "the wheel", lambda: page.tab.wheel(x, y, -400))
        changed(page, "dragging", lambda: page.tab.drag([(x, y), (x + 30, y + 10), (x + 90, y + 40)]))
    else:
        changed(page, "pinching", lambda: page.tab.touch([[(x - 20, y), (x + 20, y)], [(x - 50, y), (x + 50, y)], [(x - 90, y), (x + 90, y)]]))
        changed(page, "dragging", lambda: page.tab.touch([[(x, y)], [(x + 30, y)], [(x + 60, y + 20)]]))
    changed(page, "All", lambda: page.click("#zoom-all"))
    for _ in range(5):
        changed(page, "zooming in", lambda: page.click("#zoom-in"))
    page.settled()
    page.sound("from near")
    page.click("#take-view")
    near = selected(page)
    changed(page, "All", lambda: page.click("#zoom-all"))
    page.click("#take-view")
    check(0 < near < selected(page), f"{page.where}: {near} near, {selected(page)} in all")
    page.click("#clear")
    changed(page, "the legend", lambda: page.click("#legend li:nth-child(2) button"))
    check(page.value("document.querySelector('#legend li:nth-child(2) button').ariaPressed") == "true", f"{page.where}: not pressed")
    changed(page, "the legend", lambda: page.click("#legend li:nth-child(2) button"))
    lasso(page, size)
    page.quiet()


def lasso(page, size):
    page.box("#plot")
    x, y = centre(page)
    w, h = page.box("#plot")[2:]
    loop = [(x - w * 0.4, y - h * 0.45), (x, y - h * 0.45), (x, y + h * 0.45), (x - w * 0.4, y + h * 0.45)]
    path = [(a + (c - a) * i / 4, b + (d - b) * i / 4) for (a, b), (c, d) in zip(loop, loop[1:] + loop[:1]) for i in range(4)]
    page.click("#tool label:nth-of-type(2)")
    page.box("#plot")
    if size == DESKTOP:
        page.tab.drag(path)
    else:
        page.tab.touch([[p] for p in path])
    page.wait("document.querySelector('#tray').checkVisibility()")
    some = selected(page)
    page.sound("lassoed")
    check_export(page, some)
    page.click("#tray-open")
    check(page.count("#tray-list li") >= min(some, 200), f"{page.where}: the lasso's list has {page.count('#tray-list li')}")
    page.click("#tray-open")
    if size == DESKTOP:  # Shift adds the other half to it
        page.tab.drag([(2 * x - a, b) for a, b in path], modifiers=8)
        page.wait(f"!document.querySelector('#tray-open').textContent.startsWith('{some:,} ')")
        check(selected(page) > some, f"{page.where}: Shift does not add: {some}, then {selected(page)}")
    page.click("#clear")
    page.click("#tool label:nth-of-type(1)")


def map_makes_class(page, size):
    """A class of one point: seen on the map, coloured by answers, until it is undone."""
    name = f"from the map at {size[0]}"
    there = f"[...document.querySelectorAll('#legend .name')].some((e) => e.textContent === '{name}')"
    open_map(page, size)
    page.value("document.querySelector('#plot').focus()")
    page.tab.key("ArrowRight")
    page.tab.key("x")
    page.fill("#class-name", name)
    page.click("#class-form button")
    page.wait("document.querySelector('.toast.good')")
    page.value("(() => { const s = document.querySelector('#paint'); s.value = 'answer'; s.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.wait(there)
    page.sound("coloured by answer")
    page.click(".toast.good button")
    page.wait("!" + there)
    page.quiet()


def map_by_keyboard(page, size):
    open_map(page, size)
    page.value("document.querySelector('#plot').focus()")
    page.tab.key("ArrowRight")
    page.wait("document.querySelector('#point .near li')")
    first = page.text("#point .head")
    page.wait(f"document.querySelector('#live').textContent")
    page.tab.key("ArrowRight")
    page.tab.key("ArrowDown")
    check(page.text("#point .head") != first, f"{page.where}: arrows stay at {first!r}")
    changed(page, "+", lambda: page.tab.key("+"))
    changed(page, "-", lambda: page.tab.key("-"))
    changed(page, "Shift and an arrow", lambda: page.tab.key("ArrowLeft", 8))
    changed(page, "0", lambda: page.tab.key("0"))
    page.tab.key("x")
    check(selected(page) == 1, f"{page.where}: X selects {selected(page)}")
    page.tab.key("Escape")
    check(selected(page) == 0, f"{page.where}: Escape leaves {selected(page)}")
    page.check_tabs(15)
    page.value("document.querySelector('#plot').focus()")
    page.tab.key("ArrowLeft")
    page.tab.key("Enter")
    page.wait("location.hash.startsWith('#ask/row/') && document.querySelector('.bars')")
    page.quiet()


def map_moves(page, size):
    """Raw to Koo-Fu: points travel; at once if the user prefers reduced motion."""
    open_map(page, size)
    start = page.value(PIXELS)
    page.click("#map-space label:nth-of-type(1)")
    seen = {page.value(PIXELS)}
    deadline = time.time() + 60
    while time.time() < deadline and len(seen - {start}) < 3:
        frame(page)
        seen.add(page.value(PIXELS))
    check(len(seen - {start}) >= 3, f"{page.where}: points do not travel")
    page.click("#map-space label:nth-of-type(2)")
    check(wait_for(lambda: page.value(PIXELS) == start), f"{page.where}: points do not come back")
    open_map(page, size, still=True)
    page.click("#map-space label:nth-of-type(1)")
    frame(page)
    still = page.value(PIXELS)
    frame(page)
    check(page.value(PIXELS) == still, f"{page.where}: points travel although motion is unwanted")
    share = page.value("document.querySelector('#figure').textContent")
    check("raw" in share and "Koo-Fu" in share, f"{page.where}: the figure says {share!r}")
    page.quiet()


# ---- looks, classes, errors ----

def looks(page, size):
    """Both themes, by the system and by the switch; the smallest phone; all views."""
    for scheme in ("light", "dark"):
        for place, there in (("#ask/row/17", ".bars"), ("#map", "#legend li"), ("#classes", "#classes-list tbody tr")):
            page.open(place, *size, scheme=scheme)
            page.wait(f"document.querySelector('{there}')")
            page.sound("look")
            shots = os.environ.get("KOOFU_SHOTS")
            if shots:
                page.tab.screenshot(os.path.join(shots, f"{place[1:4]}-{size[0]}-{scheme}.png"))
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.value(paper)
    page.click("#theme")
    check(page.value(paper) != dark and "light" in page.value("document.querySelector('#theme').ariaLabel"), f"{page.where}: no light theme")
    page.value("location.reload()")
    page.wait("document.documentElement.dataset.theme === 'light' && document.querySelector('#classes-list tbody tr')")
    page.click("#theme")
    check(page.value(paper) == dark, f"{page.where}: no dark theme")
    page.click("#theme")
    page.quiet()


def classes_list(page, size):
    page.open("#classes", *size)
    page.wait("document.querySelectorAll('#classes-list tbody tr').length > 5")
    name = page.text("#classes-list tbody tr:nth-child(4) .name")
    page.fill("#classes-find", name)
    page.wait("document.querySelectorAll('#classes-list tbody tr').length < 5")
    check(name in page.text("#classes-list"), f"{page.where}: {name} is not found")
    page.sound("found")


def busy_and_wrong(page, size):
    """429 is tried again, an error is told in words, a row that is not there as well."""
    page.open("#ask/row/17", *size)
    page.wait("document.querySelector('.bars')")
    page.value("""(() => { const real = fetch; let n = 0; window.fetch = (...a) => n++ < 3 ? Promise.resolve(new Response(
      '{"error":{"message":"full","type":"overloaded","code":429}}', {status: 429, headers: {'Retry-After': '1'}})) : real(...a); })()""")
    page.value("location.hash = '#ask/row/18'")
    page.wait("document.querySelector('.toast')?.textContent.includes('busy')")
    page.wait("document.querySelector('#shown').innerText.includes('Row 18') && !document.querySelector('[aria-busy]')")
    page.quiet()
    page.value("location.hash = '#ask/row/99999999'")
    page.wait("document.querySelector('#answer .failure')")
    check(len(page.text("#answer .failure")) > 10, f"{page.where}: {page.text('#answer .failure')!r}")
    page.tab.events = []  # the browser logs the refused requests
    page.sound("refused")


def lost_and_back(page, size, server):
    page.open("#ask/row/17", *size)
    page.wait("document.querySelector('.bars')")
    page.quiet()
    server.stop()
    page.value("location.hash = '#ask/row/18'")
    page.wait("document.querySelector('#lost').checkVisibility()")
    page.tab.events = []
    page.sound("lost")
    server.start()
    page.wait("!document.querySelector('#lost').checkVisibility()")
    page.settled()
    page.tab.events = []  # the browser logs the failed requests
    page.value("location.hash = '#ask/row/19'")
    page.wait("document.querySelector('#shown').innerText.includes('Row 19')")
    page.quiet()


# ---- with an encoder ----

def pictures(page, size):
    """Dropped, pasted, chosen; several at once become a class; what is no picture is told."""
    page.open("", *size)
    page.wait("document.querySelector('.card')")
    check("Drop" in page.text("#drop-words"), f"{page.where}: {page.text('#drop-words')!r}")
    page.sound("start with an encoder")
    node = page.tab.call("DOM.getDocument")["root"]["nodeId"]
    file = page.tab.call("DOM.querySelector", nodeId=node, selector="#file")["nodeId"]
    page.tab.call("DOM.setFileInputFiles", nodeId=file, files=[PICTURES[0]])
    page.wait("location.hash === '#ask/picture/0' && document.querySelector('.bars')")
    check(page.value("document.querySelector('#shown img').naturalWidth") > 0, f"{page.where}: the picture is not shown")
    page.sound("a chosen picture")
    give = """((kind, names, type) => { const d = new DataTransfer();
      for (const name of names) d.items.add(new File([Uint8Array.from(atob(window.bytes), (c) => c.charCodeAt(0))], name, {type}));
      if (kind === 'paste') window.dispatchEvent(new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true}));
      else { for (const step of ['dragenter', 'dragover', 'drop']) { document.querySelector('#drop').dispatchEvent(new DragEvent(step, {dataTransfer: d, bubbles: true, cancelable: true}));
        if (step === 'dragover') window.veiled = document.querySelector('#veil').checkVisibility(); } } })"""
    page.value(f"window.bytes = {browser.base64.b64encode(open(PICTURES[0], 'rb').read()).decode()!r}")
    page.value(f"{give}('drop', ['dropped.png'], 'image/png')")
    page.wait("location.hash === '#ask/picture/1' && document.querySelector('#shown').innerText.includes('dropped.png') && !document.querySelector('[aria-busy]')")
    check(page.value("window.veiled") and page.count("#veil") == 0, f"{page.where}: the page does not say that it can be dropped")
    page.value(f"{give}('paste', ['pasted.png'], 'image/png')")
    page.wait("location.hash === '#ask/picture/2' && document.querySelector('#shown').innerText.includes('pasted.png') && !document.querySelector('[aria-busy]')")
    page.quiet()
    page.value(f"{give}('drop', ['story.txt'], 'text/plain')")
    page.wait("document.querySelector('.toast.bad')?.textContent.includes('not a picture')")
    page.value(f"{give}('drop', ['moving.gif'], 'image/gif')")
    page.wait("[...document.querySelectorAll('.toast.bad')].some((t) => t.textContent.includes('JPEG, PNG and WebP'))")
    page.value(f"{give}('drop', ['one.png', 'two.png', 'three.png'], 'image/png')")
    page.wait("document.querySelectorAll('#strip a').length === 3")
    page.sound("three pictures")
    page.click("#strip li:nth-child(2) a")
    page.wait("document.querySelector('#shown').innerText.includes('two.png') && !document.querySelector('[aria-busy]')")
    page.fill("#strip input", "of three pictures")
    page.tab.key("Enter")
    page.wait("document.querySelector('.bars .badge')")
    page.click(".bars .badge + button")
    page.wait("!document.querySelector('.bars .badge')")
    page.value("history.back()")
    page.wait("location.hash === '#ask/picture/3'")
    page.quiet()


def words(page, size):
    """Words are asked; a class is made of its name."""
    page.open("", *size)
    page.wait("document.querySelector('.card')")
    page.fill("#words", "a cat / 100 %")
    page.tab.key("Enter")
    page.wait("location.hash.startsWith('#ask/words/') && document.querySelector('.bars')")
    check("a cat / 100 %" in page.text("#shown"), f"{page.where}: {page.text('#shown')!r}")
    page.sound("words")
    page.value("location.hash = '#classes'")
    page.wait("document.querySelector('#named-form').checkVisibility() && document.querySelector('#classes-list tbody tr')")
    page.fill("#named", "dog")
    page.tab.key("Enter")
    page.wait("document.querySelector('#classes-list .badge')")
    page.click("#classes-list td button")
    page.wait("!document.querySelector('#classes-list .badge')")
    page.quiet()


# ---- less than everything ----

def bare(page, size):
    """A model alone: the page says what is missing and fails nowhere."""
    page.open("", *size)
    page.wait("document.querySelector('#missing').checkVisibility()")
    check("--gallery" in page.text("#missing") or "gallery" in page.text("#missing"), f"{page.where}: {page.text('#missing')!r}")
    page.sound("a model alone")
    page.value("location.hash = '#map'")
    page.wait("document.querySelector('#map-wait').textContent.includes('--gallery')")
    page.sound("no map")
    page.value("location.hash = '#classes'")
    page.wait("document.querySelector('#classes-list tbody tr')")
    page.quiet()


def token(page, size):
    page.open("", *size)
    page.wait("document.querySelector('#token-dialog').open")
    page.tab.events = []  # the browser logs the 401
    page.sound("asking for the token")
    page.tab.type("wrong")
    page.tab.key("Enter")
    page.wait("document.querySelector('#token-dialog').open && document.querySelector('#token-words').textContent.includes('not accepted')")
    page.tab.events = []
    page.fill("#token", TOKEN)
    page.tab.key("Enter")
    page.wait("!document.querySelector('#token-dialog').open && document.querySelector('#facts').textContent")
    page.value("location.reload()")
    page.wait("document.querySelector('#facts').textContent")
    check(not page.value("document.querySelector('#token-dialog').open"), f"{page.where}: the token is forgotten")
    page.quiet()
    page.value("sessionStorage.clear()")
    page.open("", *size)
    page.wait("document.querySelector('#token-dialog').open")
    page.click("#token-cancel")
    page.wait("document.querySelector('#lost').checkVisibility()")
    check("token" in page.text("#lost"), f"{page.where}: {page.text('#lost')!r}")


ON_DEMO = (start_and_ask, settings, cards_by_keyboard, make_class, map_by_pointer, map_by_keyboard, map_makes_class, map_moves, looks, classes_list, busy_and_wrong)


def run(koofu, names):
    tab = browser.Browser(browser.find())
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
            each(lost, (lost_and_back,), lost)
            each(Server(koofu, picture_world(koofu, folder), folder), (pictures, words))
            model, file = plain_world(koofu, folder)
            each(Server(koofu, [model], folder), (bare,))
            each(Server(koofu, [model, "--token-file", file], folder), (token,))
        finally:
            tab.close()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not browser.find():
        print("skipped: no Chromium here (Debian: apt install chromium)")
        sys.exit(77)
    sys.exit(run(os.path.abspath(sys.argv[1]), sys.argv[2:]))
