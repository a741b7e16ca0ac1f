"""Tests of the page: the map, by mouse, finger and keyboard."""

import time

from browser_page import ALSO, DESKTOP, check, check_export, wait_for

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
    loop = [(x + w * 0.4, y - h * 0.45), (x + w * 0.05, y - h * 0.45), (x + w * 0.05, y + h * 0.45), (x + w * 0.4, y + h * 0.45)]
    path = [(a + (c - a) * i / 4, b + (d - b) * i / 4) for (a, b), (c, d) in zip(loop, loop[1:] + loop[:1]) for i in range(4)]
    page.click("#tool label:nth-of-type(2)")
    page.box("#plot")
    if size == DESKTOP:
        page.tab.drag(path)
    else:
        page.tab.touch([[p] for p in path])
    page.wait("document.querySelector('#tray').checkVisibility()")
    some = selected(page)
    total = page.value("[...document.querySelectorAll('#legend .soft')].reduce((sum, e) => sum + Number(e.textContent), 0)")
    check(some < 0.7 * total, f"{page.where}: a lasso around the right half takes {some} of {total}")
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
    page.wait("document.querySelector('#live').textContent")
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


# Coloured pixels within a few of the edge of the map: a dot that is cut off there, or hidden beyond it.
AT_EDGE = """(() => { const c = document.querySelector('#plot'), w = c.width, h = c.height, d = c.getContext('2d').getImageData(0, 0, w, h).data;
  let n = 0; for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) n += d[4 * (y * w + x) + 3] > 100 && Math.min(x, y, w - 1 - x, h - 1 - y) < 6; return n; })()"""


def map_shows_all(page, size):
    """'All' shows every point in both spaces, at each size, even after the window has changed; no point lies at the edge or beyond."""
    for width, height in (ALSO[size], size):
        open_map(page, (width, height), still=True)
        for space in ("koofu", "raw"):
            page.value(f"document.querySelector('#map-space input[value={space}]').click()")
            page.value("document.querySelector('#zoom-in').click(), document.querySelector('#zoom-all').click()")
            frame(page)
            check(page.value(AT_EDGE) == 0, f"{page.where}: points at the edge of the {space} map")
            page.click("#take-view")
            page.wait("document.querySelector('#tray-open').textContent")
            check(selected(page) == 2160, f"{page.where}: {selected(page)} of 2160 points are in view in {space}")
            page.click("#clear")
    page.quiet()
