// The page of koofu serve: what the server can do, switching views, theme, token, lost servers.

import { $, announce, make, nameClasses, number, plural, toast } from './dom.js';
import * as api from './api.js';
import * as ask from './ask.js';
import * as classes from './classes.js';
import * as map from './map.js';
import * as selection from './selection.js';
import { addName, setClasses, tintAll } from './colours.js';

const views = { ask, map, classes };
const titles = { ask: 'Ask', map: 'Map', classes: 'Classes' };
let current = null;
let info;

// ---- theme ----

function showTheme() {
  const theme = document.documentElement.dataset.theme ?? 'system';
  $('theme').setAttribute('aria-label', `Theme: ${theme}`);
  $('theme').title = `Theme: ${theme}`;
}

function nextTheme() {
  const order = ['system', 'light', 'dark'];
  const root = document.documentElement;
  const theme = order[(order.indexOf(root.dataset.theme ?? 'system') + 1) % 3];
  if (theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme;
  try { localStorage.setItem('koofu-theme', theme); } catch { /* for this visit alone */ }
  showTheme();
  repaint();
  announce(`Theme: ${theme}`);
}

function repaint() {
  tintAll();
  if (current) map.retint();
}

// ---- token, lost and busy servers ----

function askToken(wrong) {
  const dialog = $('token-dialog');
  $('token-words').textContent = wrong ? 'That token was not accepted. Please try again.' : 'It is in the file that koofu serve was started with (--token-file).';
  $('token').value = '';
  dialog.showModal();
  return new Promise((done) => {
    $('token-form').onsubmit = () => done($('token').value.trim());
    $('token-cancel').onclick = () => dialog.close();
    dialog.onclose = () => done(null); // after a submit, the promise is already settled
  });
}

api.hooks.askToken = askToken;
api.hooks.lost = () => {
  $('lost').textContent = 'The server does not respond. The page continues when it is back.';
  $('lost').hidden = false;
};
api.hooks.found = () => {
  $('lost').hidden = true;
  toast('The server is back.', { kind: 'good' });
  if (!current) begin();
};
api.hooks.busy = (seconds) => toast(`The server is busy; trying again in ${plural(Math.ceil(seconds), 'second')}.`, { seconds });

// ---- views ----

function route() {
  const [view, kind, ...rest] = location.hash.slice(1).split('/');
  const name = views[view] ? view : 'ask';
  for (const other of Object.keys(views)) $(`view-${other}`).hidden = other !== name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${titles[name]} · koofu`;
  if (current && current !== name) {
    scrollTo(0, 0);
    announce(titles[name]);
  }
  current = name;
  views[name].enter(kind, rest.join('/'));
}

// A class was added (name) or removed (null): all views show it at once.
async function classesChanged(name) {
  const list = await classes.renew();
  if (name) addName(name);
  info.model.classes = list.length;
  showFacts();
  ask.setAdded(list.filter((item) => item.added).map((item) => item.name));
  await Promise.all([ask.run(name), map.renew()]);
}

function showFacts() {
  const { model, gallery } = info;
  const parts = [plural(model.classes, 'class', 'classes'), model.dim === model.dim_in ? plural(model.dim, 'dimension') : `${number(model.dim)} of ${plural(model.dim_in, 'dimension')}`];
  if (gallery) parts.push(`${plural(gallery.rows, 'row')} in the gallery`);
  $('facts').replaceChildren(make('b', {}, model.path_name), ` ${parts.join(' · ')}`);
  $('missing').hidden = !info.missing.length;
  $('missing').textContent = info.missing.map((words) => words.charAt(0).toUpperCase() + words.slice(1).replace(/\.?$/, '.')).join(' ');
}

async function begin() {
  let list;
  try {
    [info, list] = await Promise.all([api.info(), api.classes()]);
  } catch (error) {
    if (error.status) {
      $('lost').textContent = error.message;
      $('lost').hidden = false;
    }
    return;
  }
  nameClasses(list.classes);
  setClasses(list.classes.map((item) => item.name));
  ask.setAdded(list.classes.filter((item) => item.added).map((item) => item.name));
  showFacts();
  selection.start(info, classesChanged);
  for (const view of Object.values(views)) view.start(info);
  addEventListener('hashchange', route);
  route();
}

$('theme').onclick = nextTheme;
$('skip').onclick = (event) => {
  event.preventDefault();
  $('main').focus();
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
showTheme();
begin();
