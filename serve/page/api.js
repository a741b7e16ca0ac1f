// Requests to the server: the token, retries when it is busy, error messages.

const MAX_TRIES = 6;
let token = read();
let asking = null; // one question for the token, shared by all requests that wait for it
let lost = false;

// Set by the page: asks for a token, and shows that the server is lost, back or busy.
export const hooks = { askToken: async () => null, lost() {}, found() {}, busy() {} };

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

function read() {
  try { return sessionStorage.getItem('koofu-token') || ''; } catch { return ''; }
}

async function newToken(used) {
  if (token !== used) return; // another request got a new token meanwhile
  asking ||= hooks.askToken(used !== '').finally(() => { asking = null; });
  const given = await asking;
  if (given === null) throw new Refused('The server requires a token.', 401);
  token = given;
  try { sessionStorage.setItem('koofu-token', token); } catch { /* kept in memory alone */ }
}

const wait = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });

async function send(path, options) {
  try {
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(path, { ...options, headers });
    if (lost) hooks.found();
    lost = false;
    return response;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    if (!lost) {
      lost = true;
      hooks.lost();
      look();
    }
    throw new Refused('The server does not respond.', 0);
  }
}

// Polls a lost server until it is back.
async function look() {
  while (lost) {
    await wait(2);
    try { await send('/healthz', {}); } catch { /* still away */ }
  }
}

async function words(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered ${response.status} ${response.statusText}`.trim() + '.';
  }
}

async function request(path, options = {}) {
  for (let tries = 1; ; tries++) {
    const used = token;
    const response = await send(path, options);
    if (response.ok) return response;
    if (response.status === 401) {
      await newToken(used);
    } else if (response.status === 429 && tries < MAX_TRIES) {
      const seconds = Math.min(Math.max(Number(response.headers.get('Retry-After')) || 1, 0.1), 30);
      hooks.busy(seconds);
      await wait(seconds);
    } else {
      throw new Refused(await words(response), response.status);
    }
  }
}

const json = async (path, options) => (await request(path, options)).json();
const post = (path, body, signal) => json(path, {
  method: 'POST', signal, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
});

// Sends pictures with the names of their files, which commands and errors then mention.
function upload(path, pictures, fields, signal) {
  const body = new FormData();
  for (const { blob, name } of pictures) body.append('images', blob, name);
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  return json(path, { method: 'POST', signal, body });
}

// A query is {kind: 'picture', blob, name}, {kind: 'words', words} or {kind: 'row', row}.
function ask(path, query, settings, signal) {
  if (query.kind === 'picture') return upload(path, [query], settings, signal);
  const input = query.kind === 'row' ? { row_numbers: [query.row] } : { texts: [query.words] };
  return post(path, { ...input, ...settings }, signal);
}

export const info = () => json('/v1/info');
export const map = (space, max) => json(`/v1/map?${new URLSearchParams({ space, max })}`);
export const classify = (query, top, signal) => ask('/v1/classify', query, { top }, signal);
export const search = (query, k, space, signal) => ask('/v1/search', query, { k, space }, signal);
export const classifyRows = (rows) => post('/v1/classify', { row_numbers: rows, top: 1 });
export const searchRows = (rows, k, space) => post('/v1/search', { row_numbers: rows, k, space });
export const classes = () => json('/v1/classes');
export const addClass = (name, { pictures, ...body }) => (pictures ? upload('/v1/classes', pictures, { name }) : post('/v1/classes', { name, ...body }));
export const removeClass = (name) => request(`/v1/classes/${encodeURIComponent(name)}`, { method: 'DELETE' });

// Pictures of rows, as blobs, since an <img> could not send the token. The latest are cached.
const MAX_PICTURES = 600;
const kept = new Map();
let running = 0;
const queue = [];

async function next() {
  if (running >= 6 || !queue.length) return;
  running++;
  const { path, done, failed } = queue.shift();
  try {
    done(await (await request(path)).blob());
  } catch (error) {
    kept.delete(path);
    failed(error);
  } finally {
    running--;
    next();
  }
}

function picture(row, size) {
  const path = `/v1/images/${row}?size=${size}`;
  if (!kept.has(path)) {
    if (kept.size >= MAX_PICTURES) kept.delete(kept.keys().next().value);
    kept.set(path, new Promise((done, failed) => { queue.push({ path, done, failed }); }));
    next();
  }
  return kept.get(path);
}

// Loads the picture of a row into an <img>: the given one or a new one.
export async function load(row, size, image = new Image()) {
  const url = URL.createObjectURL(await picture(row, size));
  try {
    image.src = url;
    await image.decode();
    return image;
  } finally {
    URL.revokeObjectURL(url);
  }
}

export async function showPicture(image, row, size) {
  try {
    await load(row, size, image);
  } catch (error) {
    image.classList.add('broken');
    image.alt = error instanceof Refused ? error.message : 'This picture cannot be shown.';
  }
}
