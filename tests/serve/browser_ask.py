"""Tests of the page: asking by rows, pictures and words, settings, new classes."""

import base64
import os
import shutil
import subprocess

from browser_page import check, check_export, shoot
from browser_servers import PICTURES


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
    """Raw or Koo-Fu, how many neighbours; what the words mean."""
    page.open("#ask/row/17", *size)
    page.wait("document.querySelectorAll('.card').length === 24")
    first = page.text("#cards")
    page.click("#space label:first-of-type")
    page.wait(f"!document.querySelector('[aria-busy]') && document.querySelector('#cards').innerText !== {first!r}")
    check(page.value("document.querySelector('input[name=space]:checked').value") == "raw", f"{page.where}: not raw")
    page.value("(() => { const s = document.querySelector('#count'); s.value = '12'; s.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.wait("document.querySelectorAll('.card').length === 12")
    page.click(".foot summary")
    for word in ("Row", "Ask", "Koo-Fu"):
        check(f"\n{word}\n" in page.text(".foot"), f"{page.where}: {word} is not explained")
    check(page.count(".command") == 0, f"{page.where}: the demo has no files for commands")
    page.sound("words explained")


def commands(page, size, server):
    """Each command that the page prints is copied as it is, and runs in the folder of the server; so do those of the API's page."""
    env = {**os.environ, "PATH": f"{os.path.dirname(server.command[0])}:{os.environ['PATH']}"}
    shutil.copy(PICTURES[0], os.path.join(server.folder, "photo.png"))
    page.open("", *size)
    page.wait("document.querySelector('.card')")
    page.tab.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    choose(page, os.path.join(server.folder, "photo.png"))
    ran = []
    for place, view, many in (("#ask/picture/0", "ask", 2), ("#ask/words/a%20small%20cat", "ask", 1), ("#ask/row/7", "ask", 2), ("#map", "map", 1),
                              ("#classes", "classes", 1), ("api", "operations", 20)):
        if place == "api":
            page.open(place, *size)
        page.value(f"location.hash = '{place}'")
        page.wait(f"!document.querySelector('[aria-busy]') && document.querySelectorAll('#view-{view} .command code, #{view} .command code').length >= {many}")
        page.settled()
        page.click(f"#view-{view} .command button, #{view} .command button")
        page.wait("[...document.querySelectorAll('.command button')].some((e) => e.textContent === 'Copied')")
        copied = page.tab.call("Runtime.evaluate", expression="navigator.clipboard.readText()", awaitPromise=True, returnByValue=True)["result"].get("value")
        lines = page.value(f"[...document.querySelectorAll('#view-{view} .command code, #{view} .command code')].map((e) => e.textContent)")
        check(copied == lines[0], f"{page.where}: copied {copied}")
        check(all(line.startswith(("koofu ", "curl ")) for line in lines), f"{page.where}: {lines}")
        if "words" in place:
            check(all(" search " in line for line in lines), f"{page.where}: words are for search alone: {lines}")
        ran += lines
    for line in ran:
        own = line.replace("/tmp/koofu-gallery", server.folder + "/koofu-gallery").replace("/tmp/koofu-added", server.folder + "/koofu-added").replace("curl -s ", "curl -sS --fail-with-body ")
        done = subprocess.run(["sh", "-c", own], cwd=server.folder, env=env, capture_output=True, check=False)
        check(done.returncode == 0 and (done.stdout or " -o " in line or "DELETE" in line), f"{page.where}: {line}: {done.stdout[:200]} {done.stderr.decode()}")
    subprocess.run(["curl", "-sS", "-X", "DELETE", server.url + "/v1/classes/koala"], check=True)
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
    """Some rows become a class, which is used at once; undone, made again, deleted in two ways, refused twice."""
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
    page.value("for (let i = 0; i < 2; i++) document.querySelector('#toasts').append(document.querySelector('.toast').cloneNode(true))")
    page.sound("three messages")
    shoot(page, "toasts", "ask", size, "light")
    page.value("while (document.querySelectorAll('.toast').length > 1) document.querySelector('#toasts').lastChild.remove()")
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
    page.expected.append("status of 409")
    page.click(".card:nth-child(1) .tick")
    page.fill("#class-name", known)
    page.tab.key("Enter")
    page.wait("document.querySelector('.toast.bad')")
    check("already" in page.text(".toast.bad"), f"{page.where}: refused with {page.text('.toast.bad')!r}")
    page.fill("#class-name", "to be deleted")
    page.tab.key("Enter")
    page.wait("document.querySelector('.bars .badge, .toast.good')")
    page.value("location.hash = '#classes'")
    page.wait("document.querySelector('#classes-list .badge')")
    page.sound("added class in the list")
    page.click("#classes-list td button")
    page.wait("!document.querySelector('#classes-list .badge')")
    page.quiet()


def choose(page, path):
    node = page.tab.call("DOM.getDocument")["root"]["nodeId"]
    file = page.tab.call("DOM.querySelector", nodeId=node, selector="#file")["nodeId"]
    page.tab.call("DOM.setFileInputFiles", nodeId=file, files=[path])


def pictures(page, size):
    """Dropped, pasted, chosen; several at once become a class; a file that is not a picture is reported."""
    page.open("", *size)
    page.wait("document.querySelector('.card')")
    check("Drop" in page.text("#drop-words"), f"{page.where}: {page.text('#drop-words')!r}")
    page.sound("start with an encoder")
    choose(page, PICTURES[0])
    page.wait("location.hash === '#ask/picture/0' && document.querySelector('.bars')")
    check(page.value("document.querySelector('#shown img').naturalWidth") > 0, f"{page.where}: the picture is not shown")
    page.settled()
    check(page.count(".face img") == 24 and page.count("img.broken") == 0, f"{page.where}: pictures of neighbours are missing")
    page.sound("a chosen picture")
    give = """((kind, names, type) => { const d = new DataTransfer();
      for (const name of names) d.items.add(new File([Uint8Array.from(atob(window.bytes), (c) => c.charCodeAt(0))], name, {type}));
      if (kind === 'paste') window.dispatchEvent(new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true}));
      else { for (const step of ['dragenter', 'dragover', 'drop']) { document.querySelector('#drop').dispatchEvent(new DragEvent(step, {dataTransfer: d, bubbles: true, cancelable: true}));
        if (step === 'dragover') window.veiled = document.querySelector('#veil').checkVisibility(); } } })"""
    page.value(f"window.bytes = {base64.b64encode(open(PICTURES[0], 'rb').read()).decode()!r}")
    page.value(f"{give}('drop', ['dropped.png'], 'image/png')")
    page.wait("location.hash === '#ask/picture/1' && document.querySelector('#shown').innerText.includes('dropped.png') && !document.querySelector('[aria-busy]')")
    check(page.value("window.veiled") and page.count("#veil") == 0, f"{page.where}: the page does not say that it can be dropped")
    page.value(f"{give}('paste', ['pasted.png'], 'image/png')")
    page.wait("location.hash === '#ask/picture/2' && document.querySelector('#shown').innerText.includes('pasted.png') && !document.querySelector('[aria-busy]')")
    page.sound("pasted")
    for i, name in enumerate(("d41d8cd98f00b204e9800998ecf8427e1234567890.jpg", "3f2504e0-4f89-11d3-9a0c-0305e82c3301.png", "\u202egnp.exe.png"), 3):
        page.value(f"{give}('drop', [{name!r}], 'image/png')")
        page.wait(f"location.hash === '#ask/picture/{i}' && document.querySelector('.bars') && document.querySelector('#shown').innerText.includes({name[1:]!r})")
        page.sound(name)
    page.quiet()
    page.value(f"{give}('drop', ['story.txt'], 'text/plain')")
    page.wait("document.querySelector('.toast.bad')?.textContent.includes('story.txt: not a JPEG, PNG or WebP picture')")
    page.value(f"{give}('drop', ['moving.gif'], 'image/gif')")
    page.wait("document.querySelector('.toast.bad')?.textContent.includes('moving.gif')")
    check(page.count(".toast.bad") == 1, f"{page.where}: the complaint about an earlier file stays")
    page.value("location.hash = '#ask/row/1'")
    page.wait("document.querySelector('#shown').innerText.includes('Row 1') && !document.querySelector('[aria-busy]')")
    check(page.count(".toast.bad") == 0, f"{page.where}: the complaint stays")
    page.expected.append("status of 422")
    page.value("window.kept = window.bytes, window.bytes = btoa('GIF89a')")
    page.value(f"{give}('drop', ['torn.png'], 'image/png')")
    page.wait("document.querySelector('#answer .failure')?.textContent.startsWith('torn.png: ')")
    page.value("window.bytes = window.kept")
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
    page.wait("location.hash === '#ask/picture/7'")
    page.quiet()


def words(page, size):
    """Words as queries; a class is made from its name."""
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
