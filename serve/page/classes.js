// The Classes view: all classes, which of them were added, and a form for a new one.

import { $, broken, called, commands, complain, make, number, plural } from './dom.js';
import * as api from './api.js';
import * as selection from './selection.js';
import { tint } from './colours.js';

const MAX_SHOWN = 500;
let info;
let list = [];

function line(item) {
  const row = make('tr', {},
    make('th', { scope: 'row' }, make('i', { className: 'dot', 'aria-hidden': 'true' }), make('span', { className: 'name', title: item.name }, broken(called(item.name))),
      item.added ? make('span', { className: 'badge' }, 'added') : null),
    make('td', {}, item.rows === null || item.rows === undefined ? '' : number(item.rows)),
    make('td', {}, item.added ? make('button', { type: 'button', className: 'quiet', 'aria-label': `Delete the class ${called(item.name)}`, onclick: () => selection.remove(item.name) }, 'Delete') : null));
  tint(row, item.name);
  return row;
}

function draw() {
  const find = $('classes-find').value.trim().toLowerCase();
  const wanted = list.filter((item) => `${item.name}\n${called(item.name)}`.toLowerCase().includes(find));
  wanted.sort((a, b) => b.added - a.added);
  const body = make('tbody', {}, ...wanted.slice(0, MAX_SHOWN).map(line));
  const added = list.filter((item) => item.added).length;
  const say = find ? `${number(wanted.length)} of ${plural(list.length, 'class', 'classes')}` : plural(list.length, 'class', 'classes');
  $('classes-list').replaceChildren(
    make('p', { className: 'soft small', role: 'status' }, added ? `${say}, ${number(added)} added` : say),
    make('div', { className: 'panel' }, make('table', {},
      make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Class'), make('th', { scope: 'col' }, 'Rows'), make('td', {}))), body)));
  if (wanted.length > MAX_SHOWN) $('classes-list').append(make('p', { className: 'soft small' }, `${number(wanted.length - MAX_SHOWN)} more; find them by name.`));
}

// Reloads the classes and returns them.
export async function renew() {
  const answer = await api.classes();
  list = answer.classes;
  draw();
  commands($('classes-commands'), [answer.command]);
  return list;
}

export function start(given) {
  info = given;
  $('named-form').hidden = !(info.can.add_class_by_name ?? (info.can.add_class && info.can.text));
  $('classes-find').oninput = draw;
  $('named-form').onsubmit = async (event) => {
    event.preventDefault();
    const name = $('named').value.trim();
    if (name && await selection.makeClass(name, { text: true }, 'its name')) $('named').value = '';
  };
}

export function enter() {
  renew().catch(complain);
}
