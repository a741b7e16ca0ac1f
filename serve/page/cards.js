// Rows of the gallery as cards: picture or label, score, tick box. One card is in the tab order; arrow keys move to
// the others.

import { broken, called, make, score } from './dom.js';
import { tint } from './colours.js';
import * as api from './api.js';
import * as selection from './selection.js';

function face(item) {
  if (!item.image) return make('span', { className: 'face words' }, make('span', {}, broken(called(item.label) ?? item.id ?? `row ${item.row}`)));
  const image = make('img', { alt: '', width: 160, height: 160, decoding: 'async' });
  api.showPicture(image, item.row, 192);
  return make('span', { className: 'face' }, image);
}

// Ids are often paths, so their ends are shown.
const short = (name) => name.slice(name.lastIndexOf('/') + 1) || name;

function card(item, self) {
  const name = item.id || `row ${item.row}`;
  const open = make('a', { className: 'open', href: `#ask/row/${item.row}`, tabIndex: -1 },
    face(item),
    make('span', { className: 'label' }, make('i', { className: 'dot', 'aria-hidden': 'true' }), make('b', {}, broken(called(item.label) ?? '—'))),
    make('span', { className: 'under' }, make('span', { className: 'id', title: name }, short(name) + (item.row === self ? ' · this row' : '')),
      item.score === undefined ? null : make('span', { className: 'score' }, score(item.score))));
  const tick = make('input', { type: 'checkbox', tabIndex: -1, checked: selection.has(item.row), 'aria-label': `Select ${name}` });
  tick.onchange = () => selection.toggle(item);
  const li = make('li', { className: 'card' }, open, make('label', { className: 'tick' }, tick));
  li.dataset.row = item.row;
  tint(li, item.label ?? '');
  return li;
}

const parts = (li) => [li.querySelector('.open'), li.querySelector('input')];

function enable(list, li) {
  for (const other of list.children) for (const part of parts(other)) part.tabIndex = other === li ? 0 : -1;
}

function columns(list) {
  const top = list.firstElementChild.offsetTop;
  const first = [...list.children].findIndex((li) => li.offsetTop > top);
  return first < 0 ? list.children.length : first;
}

function onKey(event, list) {
  const li = event.target.closest('.card');
  if (!li || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'x' || event.key === 'X') {
    event.preventDefault();
    li.querySelector('input').click();
    return;
  }
  const cards = [...list.children];
  const at = cards.indexOf(li);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns(list), ArrowUp: at - columns(list), Home: 0, End: cards.length - 1 }[event.key];
  if (to === undefined || !cards[to]) return;
  event.preventDefault();
  enable(list, cards[to]);
  parts(cards[to])[event.target.matches('input') ? 1 : 0].focus();
}

// items: [{row, id, label, score, image}]; self: the row that was the query, if any.
export function showCards(list, items, self) {
  list.replaceChildren(...items.map((item) => card(item, self)));
  if (items.length) enable(list, list.firstElementChild);
  list.onkeydown = (event) => onKey(event, list);
  list.onfocusin = (event) => {
    const li = event.target.closest('.card');
    if (li) enable(list, li);
  };
}

export function refreshTicks(list) {
  for (const li of list.children) {
    const on = selection.has(Number(li.dataset.row));
    li.querySelector('input').checked = on;
    li.classList.toggle('on', on);
  }
}
