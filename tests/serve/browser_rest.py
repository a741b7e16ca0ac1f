"""Tests of the page: its looks, the list of classes, servers that are busy, lost, bare or closed."""

import json

from browser_page import ALSO, check, shoot
from browser_servers import EVIL, LONG, TOKEN


def looks(page, size):
    """Both themes, by the system and by the switch; the smallest phone; all views."""
    for own, scheme in ((ALSO[size], "light"), (size, "light"), (size, "dark")):
        for place, there in (("#ask/row/17", ".bars"), ("#map", "#legend li"), ("api", "#operations article"), ("#classes", "#classes-list tbody tr")):
            page.open(place, *own, scheme=scheme)
            page.wait(f"document.querySelector('{there}')")
            page.value("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
            page.sound("look")
            shoot(page, "look", place, own, scheme)
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.value(paper)
    page.click("#theme")
    page.wait(f"{paper} !== '{dark}' && document.querySelector('#theme').ariaLabel.includes('light')")
    page.reload()
    page.wait("document.documentElement.dataset.theme === 'light' && document.querySelector('#classes-list tbody tr')")
    page.click("#theme")
    page.wait(f"{paper} === '{dark}'")
    page.click("#theme")
    page.wait("!document.documentElement.dataset.theme")
    page.quiet()


def classes_list(page, size):
    page.open("#classes", *size)
    page.wait("document.querySelectorAll('#classes-list tbody tr').length > 5")
    name = page.text("#classes-list tbody tr:nth-child(4) .name")
    page.fill("#classes-find", name)
    page.wait("document.querySelectorAll('#classes-list tbody tr').length < 5")
    check(name in page.text("#classes-list"), f"{page.where}: {name} is not found")
    page.sound("found")


def hard_names(page, size):
    """Names that are long, have no separators or set the direction of text: all stay in their boxes, and nothing hidden reaches the page."""
    added = json.dumps(EVIL + LONG)
    for own in (size, ALSO[size]):
        for place, there in (("#ask/row/0", ".bars"), ("#ask/row/12", ".bars"), ("#ask/row/24", ".bars"), ("#map", "#legend li:nth-child(12)"), ("#classes", "#classes-list tbody tr")):
            page.open(place, *own)
            page.wait(f"document.querySelector('{there}')")
            page.sound("hard names")
            shoot(page, "hard", place, own, "light")
    page.value("location.hash = '#map'")
    page.wait("document.querySelector('#legend li')")
    names = page.value("[...document.querySelectorAll('#legend .name')].map((e) => e.textContent)")
    check(LONG in names and EVIL.replace("\u202e", "\ufffd").replace("\u2066", "\ufffd") in names, f"{page.where}: {names}")
    page.value("fetch('/v1/classes', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify("
               f"{{name: {added}, row_numbers: [24, 25]}})}}).then((r) => {{ window.made = r.status; }})")
    page.wait("window.made === 201")
    page.open("#classes", *size)
    page.wait("document.querySelector('#classes-list .badge')")
    page.sound("a hard name added")
    badge = page.value("(() => { const r = document.createRange(), e = document.querySelector('#classes-list .badge'); r.selectNodeContents(e);"
                       " return getComputedStyle(e.previousElementSibling.firstElementChild).unicodeBidi; })()")
    check(badge == "isolate", f"{page.where}: names are not isolated: {badge}")
    page.value("location.hash = '#ask/row/24'")
    page.wait("document.querySelector('.bars .badge')")
    page.sound("asked for it")
    page.click(".bars .badge + button")
    page.wait("document.querySelector('.toast')")
    page.sound("it is gone")


def busy_and_wrong(page, size):
    """429 is retried; an error, or a missing row, is shown in words."""
    page.open("#ask/row/17", *size)
    page.wait("document.querySelector('.bars')")
    page.value("""(() => { const real = fetch; let n = 0; window.fetch = (...a) => n++ < 3 ? Promise.resolve(new Response(
      '{"error":{"message":"full","type":"overloaded","code":429}}', {status: 429, headers: {'Retry-After': '1'}})) : real(...a); })()""")
    page.value("location.hash = '#ask/row/18'")
    page.wait("document.querySelector('.toast')?.textContent.includes('busy')")
    page.wait("document.querySelector('#shown').innerText.includes('Row 18') && !document.querySelector('[aria-busy]')")
    page.quiet()
    page.expected += ["status of 404", "status of 422"]
    page.value("location.hash = '#ask/row/99999999'")
    page.wait("document.querySelector('#answer .failure')")
    check(len(page.text("#answer .failure")) > 10, f"{page.where}: {page.text('#answer .failure')!r}")
    page.sound("refused")


def lost_and_back(page, size, server):
    page.open("#ask/row/17", *size)
    page.wait("document.querySelector('.bars')")
    page.settled()
    page.quiet()
    page.expected += ["ERR_SOCKET_NOT_CONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "status of 429", "status of 503"]
    server.stop()
    page.value("location.hash = '#ask/row/18'")
    page.wait("document.querySelector('#lost').checkVisibility()")
    page.sound("lost")
    server.start()
    page.wait("!document.querySelector('#lost').checkVisibility()")
    page.value("location.hash = '#ask/row/19'")
    page.wait("document.querySelector('#shown').innerText.includes('Row 19')")
    page.quiet()


def bare(page, size):
    """A model alone: the page says what is missing and fails nowhere."""
    page.open("", *size)
    page.wait("document.querySelector('#missing').checkVisibility()")
    check("--gallery" in page.text("#missing") or "gallery" in page.text("#missing"), f"{page.where}: {page.text('#missing')!r}")
    check("Nothing can be asked here" in page.text("#view-ask") and "nearest" not in page.text("#view-ask"), f"{page.where}: {page.text('#view-ask')!r}")
    page.sound("a model alone")
    shoot(page, "bare", "ask", size, "light")
    page.value("location.hash = '#map'")
    page.wait("document.querySelector('#map-wait').textContent.includes('--gallery')")
    page.sound("no map")
    page.value("location.hash = '#classes'")
    page.wait("document.querySelector('#classes-list tbody tr')")
    page.quiet()


def token(page, size):
    page.expected.append("status of 401")
    page.open("", *size)
    page.wait("document.querySelector('#token-dialog').open")
    page.sound("asking for the token")
    page.tab.type("wrong")
    page.tab.key("Enter")
    page.wait("document.querySelector('#token-dialog').open && document.querySelector('#token-words').textContent.includes('not accepted')")
    page.fill("#token", TOKEN)
    page.tab.key("Enter")
    page.wait("!document.querySelector('#token-dialog').open && document.querySelector('#facts').textContent")
    page.reload()
    page.wait("document.querySelector('#facts').textContent")
    check(not page.value("document.querySelector('#token-dialog').open"), f"{page.where}: the token is forgotten")
    page.quiet()
    page.value("sessionStorage.clear()")
    page.open("", *size)
    page.wait("document.querySelector('#token-dialog').open")
    page.click("#token-cancel")
    page.wait("document.querySelector('#lost').checkVisibility()")
    check("token" in page.text("#lost"), f"{page.where}: {page.text('#lost')!r}")
