// Elements, numbers and messages. Text from the server is inserted as text, never as markup.

// Characters that are not seen but change what is seen - controls, directions of text - are shown as U+FFFD, as koofu
// report does. Joiners between letters stay.
const HIDDEN = /(?!(?<=\P{ASCII})[\u200C\u200D](?=\P{ASCII})|[\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const seen = (text) => (typeof text === 'string' ? text.replace(HIDDEN, '\uFFFD') : text);

// What classes are called, by label (koofu serve --names).
let names = new Map();
export function nameClasses(list) {
  names = new Map(list.map((item) => [item.name, item.display_name ?? item.name]));
}
export const called = (label) => seen(names.get(label) ?? label);

export const $ = (id) => document.getElementById(id);

// make('li', {className: 'card', onclick: f}, 'text', child): 'aria-…', 'data-…' and 'for' are attributes.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.includes('-') || name === 'for' || name === 'role' || name === 'scope') element.setAttribute(name, seen(value));
    else element[name] = seen(value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(seen));
  return element;
}

export const number = (n) => Number(n).toLocaleString('en-GB');
export const score = (x) => (x < 0 ? '−' : '') + Math.abs(x).toFixed(Math.abs(x) < 100 ? 3 : Math.abs(x) < 1000 ? 1 : 0);
export const percent = (p) => `${p > 0.9995 && p < 1 ? '> 99.9' : (100 * p).toFixed(1)} %`;
// A name, whose direction stays its own. It is broken at its separators, inside a word only if that is too long.
export const broken = (name) => make('bdi', {}, ...name.split(/(?<=[_/-])|(?=\.\w{2,5}$)/).flatMap((part, i) => (i ? [make('wbr'), part] : [part])));
export const plural = (n, one, many = one + 's') => `${number(n)} ${n === 1 ? one : many}`;

// For screen readers.
export function announce(text) {
  $('live').textContent = '';
  requestAnimationFrame(() => { $('live').textContent = seen(text); });
}

// A message above the view, which makes room for it, with at most one action. words: text, or a list of texts and elements.
export function toast(words, { kind = '', action = null, seconds = 8 } = {}) {
  const box = make('div', { className: `toast ${kind}` }, make('p', {}, ...[words].flat()));
  const away = () => box.remove();
  if (action) {
    box.append(make('button', { type: 'button', className: 'quiet', onclick: () => { away(); action.run(); } }, action.name));
  }
  box.append(make('button', { type: 'button', className: 'quiet icon', 'aria-label': 'Dismiss', onclick: away }, '×'));
  while ($('toasts').children.length > 2) $('toasts').firstChild.remove();
  $('toasts').append(box);
  setTimeout(away, seconds * 1000);
}

export const complain = (error) => {
  if (error.name !== 'AbortError') toast(error.message, { kind: 'bad', seconds: 12 });
};

// The complaints about an earlier question go with the next one.
export function forget() {
  for (const box of $('toasts').querySelectorAll('.bad')) box.remove();
}

async function copy(text, code) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard API outside a secure context
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand('copy')) return false;
  }
  return true;
}

// A command line with a copy button.
export function command(line) {
  const code = make('code', { tabIndex: 0 }, line);
  const button = make('button', { type: 'button', className: 'quiet', 'aria-label': `Copy the command ${line}` }, 'Copy');
  button.onclick = async () => {
    const done = await copy(line, code);
    button.textContent = done ? 'Copied' : 'Press Ctrl+C';
    announce(done ? 'Copied' : 'Selected; press Control and C');
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  };
  return make('div', { className: 'command' }, code, button);
}

// The command lines equivalent to a view.
export function commands(place, lines) {
  const wanted = lines.filter(Boolean);
  place.replaceChildren();
  if (wanted.length) place.append(make('h2', {}, 'The same on the command line, where koofu serve was started'), ...wanted.map(command));
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
