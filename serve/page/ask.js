// The Ask view: from a picture, words or a row to classes and nearest rows.

import { $, announce, broken, called, commands, complain, forget, make, plural } from './dom.js';
import * as api from './api.js';
import * as selection from './selection.js';
import { answerBars } from './answer.js';
import { refreshTicks, showCards } from './cards.js';

const TOP = 5;
const SAMPLES = 12;
const TYPES = ['image/jpeg', 'image/png', 'image/webp'];
const pictures = []; // dropped so far; the URL holds their numbers, so that 'back' works
let info;
let query = null;
let latest = null; // AbortController of the current query
let added = new Set();

const space = () => document.querySelector('input[name=space]:checked').value;

export function setAdded(names) {
  added = new Set(names);
}

// ---- the query ----

function showQuery(own) {
  const figure = $('shown');
  figure.hidden = !query;
  $('drop-hint').hidden = Boolean(query) || !info.can.picture;
  figure.replaceChildren();
  if (!query) return;
  let caption = [];
  if (query.kind === 'picture') {
    figure.append(make('img', { src: query.url, alt: `Your picture, ${query.name}` }));
    caption = [make('b', {}, broken(query.name)), make('span', {}, 'your picture')];
  } else if (query.kind === 'words') {
    figure.append(make('blockquote', { dir: 'auto' }, query.words));
    caption = ['Words'];
  } else {
    if (info.gallery.images) {
      const image = make('img', { alt: `Picture of row ${query.row}`, width: 224, height: 224 });
      api.showPicture(image, query.row, 384);
      figure.append(image);
    } else {
      figure.append(make('blockquote', {}, broken(called(own?.label) ?? `Row ${query.row}`)));
    }
    caption = [make('b', {}, `Row ${query.row}`), own?.id, called(own?.label)].filter(Boolean).map((part) => (part.nodeType ? part : make('span', {}, broken(part))));
  }
  figure.append(make('figcaption', {}, ...caption));
}

function showStrip() {
  const strip = $('strip');
  const group = query?.kind === 'picture' ? pictures.filter((p) => p.group === query.group) : [];
  strip.hidden = group.length < 2;
  strip.replaceChildren();
  if (strip.hidden) return;
  for (const p of group) {
    strip.append(make('li', {}, make('a', { href: `#ask/picture/${p.number}`, 'aria-current': p === query ? 'true' : null, 'aria-label': p.name, title: p.name },
      make('img', { src: p.url, alt: '', width: 48, height: 48 }))));
  }
  if (!info.can.add_class) return;
  const form = make('form', { className: 'field' },
    make('input', { type: 'text', required: true, maxLength: 200, 'aria-label': 'Name of a class made from these pictures', placeholder: 'name of the class', autocomplete: 'off' }),
    make('button', { type: 'submit' }, 'Make class'));
  form.onsubmit = async (event) => {
    event.preventDefault();
    await selection.makeClass(form.elements[0].value.trim(), { pictures: group }, plural(group.length, 'picture'));
  };
  strip.append(make('li', { className: 'wide' }, form));
}

// ---- asking ----

const classifiable = () => query.kind !== 'row' || info.can.classify_rows !== false;

function showFound(answer) {
  const found = answer.results[0];
  const self = query.kind === 'row' ? query.row : -1;
  const items = found.neighbours;
  $('found-title').textContent = 'Nearest in the gallery';
  $('found-note').replaceChildren(...(found.vote ? ['Their vote: ', broken(called(found.vote))] : []));
  showCards($('cards'), items, self);
  refreshTicks($('cards'));
  return found.query ?? items.find((item) => item.row === self);
}

// fresh: the class that was just made, to be highlighted.
export async function run(fresh) {
  if (!query) return;
  latest?.abort();
  const turn = new AbortController();
  latest = turn;
  $('view-ask').setAttribute('aria-busy', 'true');
  const [classified, found] = await Promise.allSettled([
    classifiable() ? api.classify(query, TOP, turn.signal) : null,
    info.can.search ? api.search(query, Number($('count').value), space(), turn.signal) : null,
  ]);
  if (turn !== latest) return;
  $('view-ask').removeAttribute('aria-busy');
  const said = [];
  let own;
  if (classified.value) {
    const result = classified.value.results[0];
    $('answer').replaceChildren(answerBars(result, info.model, added, fresh));
    said.push(result.unknown ? 'Unknown' : called(result.classes[0].class));
  } else {
    const words = classified.reason?.message ?? 'Rows of this gallery cannot be classified, only used as queries: start koofu serve with --rows.';
    $('answer').replaceChildren(make('p', { className: 'failure' }, words));
  }
  if (found.status === 'rejected') {
    $('cards').replaceChildren();
    $('found-title').textContent = 'Nearest in the gallery';
    $('found-note').textContent = found.reason.message;
  } else if (found.value) {
    own = showFound(found.value);
    said.push(`${plural(found.value.results[0].neighbours.length, 'neighbour')} shown`);
  }
  showQuery(own);
  commands($('ask-commands'), [classified.value?.command, found.value?.command]);
  announce(said.join('. '));
}

async function showSamples() {
  $('found-title').textContent = 'Start with one of these rows';
  $('found-note').textContent = '';
  const rows = new Set();
  while (rows.size < Math.min(SAMPLES, info.gallery.rows)) rows.add(Math.floor(Math.random() * info.gallery.rows));
  try {
    const asked = [...rows];
    const answer = await api.searchRows(asked, 1, 'koofu');
    if (query) return;
    const items = answer.results.map((result, i) => {
      const own = result.query ?? { row: asked[i], image: info.gallery.images ? `/v1/images/${asked[i]}` : null };
      return { row: own.row, id: own.id, label: own.label, image: own.image };
    });
    showCards($('cards'), items, -1);
    refreshTicks($('cards'));
  } catch (error) {
    complain(error);
  }
}

// ---- dropping, pasting and choosing pictures ----

function takeFiles(files) {
  forget();
  if (!info.can.picture) {
    complain(new Error(info.missing[0] ?? 'This server takes no pictures.'));
    return;
  }
  const good = [...files].filter((file) => TYPES.includes(file.type));
  const bad = [...files].filter((file) => !TYPES.includes(file.type)).map((file) => file.name || 'what was pasted');
  if (bad.length) complain(new Error(`${bad.slice(0, 3).join(', ')}${bad.length > 3 ? ` and ${bad.length - 3} more` : ''}: not a JPEG, PNG or WebP picture.`));
  if (!good.length) return;
  const group = pictures.length;
  for (const file of good) {
    pictures.push({ kind: 'picture', number: pictures.length, group, blob: file, name: file.name || 'pasted picture', url: URL.createObjectURL(file) });
  }
  location.hash = `#ask/picture/${group}`;
}

function listen() {
  let depth = 0;
  const carries = (event) => event.dataTransfer?.types.includes('Files');
  addEventListener('dragenter', (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth++;
    $('veil').hidden = false;
  });
  addEventListener('dragleave', (event) => {
    if (carries(event) && --depth <= 0) {
      depth = 0;
      $('veil').hidden = true;
    }
  });
  addEventListener('dragover', (event) => { if (carries(event)) event.preventDefault(); });
  addEventListener('drop', (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    $('veil').hidden = true;
    takeFiles(event.dataTransfer.files);
  });
  addEventListener('paste', (event) => {
    const files = event.clipboardData?.files ?? [];
    if (files.length) {
      event.preventDefault();
      takeFiles(files);
    }
  });
  $('file').onchange = () => {
    takeFiles($('file').files);
    $('file').value = '';
  };
}

// ---- the view ----

export function start(given) {
  info = given;
  const rows = info.gallery?.rows ?? 0;
  $('drop').classList.toggle('closed', !info.can.picture);
  $('choose').hidden = !info.can.picture;
  $('drop-words').textContent = 'Drop a picture here, paste one, or';
  $('drop-hint').hidden = !info.can.picture;
  $('words-form').hidden = !info.can.text;
  $('row-form').hidden = !rows;
  $('row').max = rows - 1;
  $('row').placeholder = rows ? `0 – ${rows - 1}` : '';
  document.querySelector('#view-ask .right').hidden = !info.can.search;
  if (!info.can.picture && !info.can.text && !rows) {
    $('ask-help').textContent = 'Nothing can be asked here without an encoder or a gallery. Programs can send rows: see API.';
    $('answer-panel').hidden = true;
  }
  $('words-form').onsubmit = (event) => {
    event.preventDefault();
    const words = $('words').value.trim();
    if (words) location.hash = `#ask/words/${encodeURIComponent(words)}`;
  };
  $('row-form').onsubmit = (event) => {
    event.preventDefault();
    location.hash = `#ask/row/${Number($('row').value)}`;
  };
  $('random').onclick = () => { location.hash = `#ask/row/${Math.floor(Math.random() * rows)}`; };
  $('space').onchange = () => run();
  $('count').onchange = () => run();
  selection.watch(() => refreshTicks($('cards')));
  listen();
}

export function enter(kind, value) {
  if (kind !== 'picture') forget();
  query = null;
  if (kind === 'row' && info.gallery && /^\d+$/.test(value)) query = { kind, row: Number(value) };
  else if (kind === 'words' && value) query = { kind, words: decodeURIComponent(value) };
  else if (kind === 'picture') query = pictures[Number(value)] ?? null;
  $('row').value = query?.kind === 'row' ? query.row : '';
  $('words').value = query?.kind === 'words' ? query.words : '';
  $('space').hidden = !query || !info.gallery?.raw;
  $('count').parentElement.hidden = !query;
  showQuery();
  showStrip();
  if (query) {
    run();
    return;
  }
  latest?.abort();
  latest = null;
  $('answer').replaceChildren(make('p', { className: 'soft' }, 'The nearest classes appear here.'));
  commands($('ask-commands'), []);
  if (info.can.search) showSamples();
}
