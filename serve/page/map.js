// The Map view: the gallery as points, in the raw or the Koo-Fu space.

import { $, announce, broken, called, commands, make, number, percent, plural } from './dom.js';
import * as api from './api.js';
import * as selection from './selection.js';
import { addName, classNames, isDark, nameColour, tint } from './colours.js';
import { medians, nearest, normalise, step, turnTowards } from './layout.js';
import { listenToKeys, listenToPointer } from './gestures.js';
import { Plot } from './plot.js';

const MAX_POINTS = 5000;
const MAX_LEGEND = 80;
const MAX_SAMPLED = 250;
const NEIGHBOURS = 10;
const NEAREST = 5; // listed for a point
const BATCH = 250; // rows per request for answers
let info;
let plot;
let data = null;
let loading = null;

const item = (i) => ({ row: data.rows[i], id: data.ids?.[i] ?? null, label: data.labels[i] });
const chosen = (name) => document.querySelector(`input[name=${name}]:checked`).value;

// ---- loading ----

function spread(answer) {
  return normalise(answer.points.map((p) => p[1]), answer.points.map((p) => p[2]));
}

async function load() {
  $('map-wait').textContent = 'Drawing the map …';
  const koofu = await api.map('koofu', MAX_POINTS);
  const raw = info.gallery.raw ? await api.map('raw', MAX_POINTS) : null;
  koofu.classes.forEach(addName);
  const numbers = new Map(classNames().map((name, k) => [name, k]));
  data = {
    rows: koofu.points.map((p) => p[0]),
    labels: koofu.points.map((p) => koofu.classes[p[3]] ?? null),
    ids: koofu.ids ?? null,
    images: info.gallery.images,
    total: koofu.rows_total,
    axes: koofu.axes,
    command: koofu.command,
    answers: null,
    numbers,
    spaces: { koofu: spread(koofu) },
  };
  if (raw) data.spaces.raw = turnTowards(spread(raw), data.spaces.koofu);
  $('map-wait').textContent = '';
}

async function answers() {
  if (data.answers) return;
  const found = [];
  for (let i = 0; i < data.rows.length; i += BATCH) {
    const answer = await api.classifyRows(data.rows.slice(i, i + BATCH));
    found.push(...answer.results.map((r) => r.classes[0].class));
    $('map-wait').textContent = `Asking for ${number(data.rows.length)} answers: ${Math.round((100 * found.length) / data.rows.length)} %`;
  }
  found.forEach(addName);
  data.numbers = new Map(classNames().map((name, k) => [name, k]));
  data.answers = found;
  $('map-wait').textContent = '';
}

// The figure above the map: in each space, the share of the nearest rows that have the same label. From a sample.
async function agreement() {
  const step = Math.max(1, Math.floor(data.rows.length / MAX_SAMPLED));
  const sample = data.rows.map((row, i) => [row, data.labels[i]]).filter(([, label], i) => label !== null && i % step === 0).slice(0, MAX_SAMPLED);
  if (!sample.length) return;
  const share = {};
  for (const space of Object.keys(data.spaces)) {
    const answer = await api.searchRows(sample.map(([row]) => row), NEIGHBOURS, space);
    const same = answer.results.map((result, i) => result.neighbours.filter((n) => n.label === sample[i][1]).length / result.neighbours.length);
    share[space] = same.reduce((a, b) => a + b, 0) / same.length;
  }
  data.agreement = share;
  story();
}

function story() {
  const share = data.agreement;
  if (!share) return;
  const part = (space, name) => make(plot.space === space ? 'b' : 'span', {}, `${name} ${percent(share[space])}`);
  $('figure').replaceChildren('Neighbours of the same class: ', ...(share.raw === undefined ? [] : [part('raw', 'raw'), ' → ']), part('koofu', 'Koo-Fu'));
  $('figure').title = `Among the ${NEIGHBOURS} nearest rows in all dimensions, from a sample of rows`;
}

// Colours, names and legend, by label or by answer.
async function paint() {
  if ($('paint').value === 'answer') {
    try {
      await answers();
    } catch (error) {
      $('map-wait').textContent = error.message;
      return;
    }
  }
  const names = $('paint').value === 'answer' ? data.answers : data.labels;
  data.names = classNames();
  data.classes = Int32Array.from(names, (name) => data.numbers.get(name) ?? -1);
  for (const space of Object.values(data.spaces)) space.medians = medians(space, data.classes, data.names.length);
  if (plot.data) plot.recolour();
  else plot.show(data, 'koofu');
  legend();
}

// ---- the point, the legend and the note ----

function showTip(i, x, y) {
  plot.pointed = i;
  plot.redraw();
  const tip = $('tip');
  tip.hidden = i < 0;
  if (i < 0) return;
  const it = item(i);
  const words = make('div', {}, make('b', {}, broken(called(it.label) ?? 'no label')), make('span', { className: 'soft' }, broken(it.id ?? `row ${it.row}`)));
  tip.replaceChildren(words);
  if (data.images) {
    const image = make('img', { alt: '', width: 64, height: 64 });
    api.showPicture(image, it.row, 96);
    tip.prepend(image);
  }
  tint(tip, it.label ?? '');
  tip.classList.toggle('leftwards', x > plot.width / 2);
  tip.style.left = `${x}px`;
  tip.style.top = `${Math.min(Math.max(y, 40), plot.height - 40)}px`;
}

function pointLink(i) {
  const it = item(i);
  const link = make('a', { href: `#ask/row/${it.row}` }, make('i', { className: 'dot', 'aria-hidden': 'true' }), it.id ?? `row ${it.row}`);
  const li = make('li', {}, link, make('span', { className: 'soft' }, called(it.label) ?? ''));
  tint(li, it.label ?? '');
  return li;
}

function showPoint(i) {
  plot.focus = i;
  plot.redraw();
  if (i < 0) return;
  const it = item(i);
  const near = nearest(data.spaces[plot.space], data.spaces[plot.space].xs[i], data.spaces[plot.space].ys[i], NEAREST + 1).filter((j) => j !== i);
  const head = make('div', { className: 'head' });
  if (data.images) {
    const image = make('img', { alt: '', width: 72, height: 72 });
    api.showPicture(image, it.row, 96);
    head.append(image);
  }
  const about = [broken(called(it.label) ?? 'no label')];
  if (data.answers && data.answers[i] !== it.label) about.push(' · answer: ', broken(called(data.answers[i])));
  head.append(make('div', {}, make('b', {}, broken(it.id ?? `row ${it.row}`)), make('span', { className: 'soft' }, ...about), make('span', { className: 'soft' }, `row ${it.row}`)));
  const select = make('button', { type: 'button', 'aria-pressed': String(selection.has(it.row)) }, selection.has(it.row) ? 'Selected' : 'Select');
  select.onclick = () => selection.toggle(it);
  $('point').replaceChildren(head,
    make('div', { className: 'ends' }, make('a', { className: 'button', href: `#ask/row/${it.row}` }, 'Search with it'), select),
    make('h3', {}, 'Nearest on the map'), make('ul', { className: 'near' }, ...near.slice(0, NEAREST).map(pointLink)));
  announce(`${called(it.label) ?? 'no label'}, ${it.id ?? `row ${it.row}`}${selection.has(it.row) ? ', selected' : ''}`);
}

function legend() {
  const counts = new Map();
  for (const k of data.classes) if (k >= 0) counts.set(k, (counts.get(k) ?? 0) + 1);
  const find = $('legend-find').value.trim().toLowerCase();
  const all = [...counts].filter(([k]) => called(data.names[k]).toLowerCase().includes(find)).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  $('legend-find').hidden = counts.size <= 12;
  $('legend').replaceChildren(...all.slice(0, MAX_LEGEND).map(([k, count]) => {
    const button = make('button', { type: 'button', className: 'quiet', 'aria-pressed': String(plot.only === k) },
      make('i', { className: 'dot', 'aria-hidden': 'true' }), make('span', { className: 'name' }, broken(called(data.names[k]))), make('span', { className: 'soft' }, number(count)));
    button.onclick = () => {
      plot.only = plot.only === k ? -1 : k;
      plot.redraw();
      for (const other of $('legend').querySelectorAll('button')) other.setAttribute('aria-pressed', 'false');
      button.setAttribute('aria-pressed', String(plot.only === k));
      announce(plot.only === k ? `Only ${called(data.names[k])}` : 'All classes');
    };
    const li = make('li', {}, button);
    tint(li, data.names[k]);
    return li;
  }));
  if (all.length > MAX_LEGEND) $('legend').append(make('li', { className: 'soft small' }, `and ${plural(all.length - MAX_LEGEND, 'more class', 'more classes')}`));
}

function note() {
  const shown = data.rows.length === data.total ? plural(data.total, 'row') : `${number(data.rows.length)} of ${plural(data.total, 'row')}`;
  const where = plot.space === 'koofu' ? `in the Koo-Fu space: ${data.axes}` : 'as the encoder gave them: the leading directions of the raw rows';
  $('plot-note').textContent = `${shown}, ${where}.`;
}

// ---- the view ----

function listen() {
  listenToPointer(plot, {
    tool: () => chosen('tool'),
    point: showTip,
    click: (i) => showPoint(i),
    lasso: (list, add) => selection.take(list.map(item), add),
  });
  listenToKeys(plot, {
    step(dx, dy) {
      if (!data) return;
      const points = data.spaces[plot.space];
      const to = plot.focus < 0 ? nearest(points, plot.camera.x, plot.camera.y, 1)[0] : step(points, plot.focus, dx, dy);
      if (to === undefined || to < 0) return;
      showPoint(to);
      plot.reveal(to);
    },
    select() { if (plot.focus >= 0) selection.toggle(item(plot.focus)); },
    open() { if (plot.focus >= 0) location.hash = `#ask/row/${data.rows[plot.focus]}`; },
    clear() {
      showPoint(-1);
      selection.clear();
    },
  });
  $('zoom-in').onclick = () => plot.zoomIn(1.6);
  $('zoom-out').onclick = () => plot.zoom(1 / 1.6);
  $('zoom-all').onclick = () => plot.all();
  $('take-view').onclick = () => { if (data) selection.take(plot.inView().map(item), false); };
  $('map-space').onchange = () => {
    if (!data) return;
    plot.moveTo(chosen('map-space'));
    note();
    story();
    announce(plot.space === 'koofu' ? 'The Koo-Fu space' : 'The raw space');
  };
  $('paint').onchange = () => { if (data) paint(); };
  $('legend-find').oninput = legend;
  selection.watch(() => {
    plot.redraw();
    if (data && plot.focus >= 0) showPoint(plot.focus);
  });
}

export function start(given) {
  info = given;
  plot = new Plot($('plot'));
  plot.isSelected = selection.has;
  $('map-space').hidden = !info.gallery?.raw;
  listen();
}

// Answers are outdated once a class is added or removed.
export async function renew() {
  if (!data) return;
  data.answers = null;
  if ($('paint').value === 'answer') await paint();
}

export function retint() {
  plot.recolour();
}

export async function enter() {
  if (!info.can.map) {
    $('map-wait').textContent = 'There is no gallery to draw: start koofu serve with --gallery.';
    return;
  }
  if (data) return;
  loading ||= load().then(() => {
    const answerable = info.can.classify_rows !== false;
    $('paint').parentElement.hidden = !answerable;
    if (answerable && data.labels.every((label) => label === null)) $('paint').value = 'answer';
    return paint();
  });
  try {
    await loading;
    note();
    commands($('map-commands'), [data.command]);
    agreement().catch(() => {}); // optional: the map works without it
  } catch (error) {
    $('map-wait').textContent = error.message;
  } finally {
    loading = null;
  }
}
