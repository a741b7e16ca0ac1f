// The selected rows of all views, and the tray at the bottom: make a class from them, or export them.

import { $, announce, broken, called, complain, download, make, plural, toast } from './dom.js';
import * as api from './api.js';

const MAX_SHOWN = 200;
const rows = new Map(); // row number → {row, id, label}
const watchers = [];
let canAdd = false;
let open = false;
let changed = () => {};

export const has = (row) => rows.has(row);
export const size = () => rows.size;
export const watch = (f) => watchers.push(f);

function tell() {
  draw();
  for (const f of watchers) f();
}

export function toggle(item) {
  if (rows.has(item.row)) rows.delete(item.row);
  else rows.set(item.row, item);
  announce(`${plural(rows.size, 'row')} selected`);
  tell();
}

export function take(items, add) {
  if (!add) rows.clear();
  for (const item of items) rows.set(item.row, item);
  announce(`${plural(rows.size, 'row')} selected`);
  tell();
}

export function clear() {
  rows.clear();
  announce('Nothing is selected');
  tell();
}

// whenChanged(name): a class was added or removed, so answers must be requested again.
export function start(info, whenChanged) {
  canAdd = info.can.add_class;
  changed = whenChanged;
  build();
}

export async function remove(name) {
  try {
    await api.removeClass(name);
    toast(['Class “', broken(name), '” is gone.']);
    await changed(null);
  } catch (error) {
    complain(error);
  }
}

// Makes a class and highlights it; true on success.
export async function makeClass(name, body, from) {
  try {
    await api.addClass(name, body);
    toast(['Class “', broken(name), `” is in use, made from ${from}.`], { kind: 'good', action: { name: 'Undo', run: () => remove(name) } });
    await changed(name);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

async function submit(event) {
  event.preventDefault();
  const field = $('class-name');
  const name = field.value.trim();
  if (!name) return;
  const made = await makeClass(name, { row_numbers: [...rows.keys()] }, plural(rows.size, 'row'));
  if (!made) return;
  field.value = '';
  clear();
}

const cell = (text) => String(text ?? '').replace(/[\t\r\n]+/g, ' ');

function exportRows() {
  const lines = ['row\tid\tlabel', ...[...rows.values()].map((r) => `${r.row}\t${cell(r.id)}\t${cell(r.label)}`)];
  download('rows.tsv', 'text/tab-separated-values', lines.join('\n') + '\n');
  announce(`${plural(rows.size, 'row')} exported`);
}

function build() {
  const form = make('form', { className: 'field', id: 'class-form', onsubmit: submit },
    make('label', { for: 'class-name' }, 'New class'),
    make('input', { id: 'class-name', type: 'text', required: true, maxLength: 200, autocomplete: 'off', placeholder: 'its name' }),
    make('button', { type: 'submit', className: 'main' }, 'Make class'));
  form.hidden = !canAdd;
  $('tray').append(
    make('div', { className: 'line' },
      make('button', { type: 'button', className: 'quiet count', id: 'tray-open', 'aria-expanded': 'false', 'aria-controls': 'tray-list', onclick: () => { open = !open; draw(); } }),
      form,
      make('div', { className: 'ends' },
        make('button', { type: 'button', id: 'export', onclick: exportRows }, 'Export TSV'),
        make('button', { type: 'button', className: 'quiet', id: 'clear', onclick: clear }, 'Clear'))),
    make('ul', { id: 'tray-list', 'aria-label': 'Selected rows', hidden: true }));
}

function draw() {
  $('tray').hidden = rows.size === 0;
  document.body.classList.toggle('has-tray', rows.size > 0);
  $('tray-open').textContent = `${plural(rows.size, 'row')} selected`;
  $('tray-open').setAttribute('aria-expanded', String(open));
  $('tray-list').hidden = !open;
  $('tray-list').replaceChildren();
  if (!open) return;
  for (const item of [...rows.values()].slice(0, MAX_SHOWN)) {
    $('tray-list').append(make('li', {},
      make('a', { href: `#ask/row/${item.row}` }, item.id || `row ${item.row}`),
      make('span', { className: 'soft' }, called(item.label) ?? ''),
      make('button', { type: 'button', className: 'quiet icon', 'aria-label': `Deselect row ${item.row}`, onclick: () => toggle(item) }, '×')));
  }
  if (rows.size > MAX_SHOWN) {
    $('tray-list').append(make('li', { className: 'soft' }, `and ${plural(rows.size - MAX_SHOWN, 'more row')}; export them to see all`));
  }
}
