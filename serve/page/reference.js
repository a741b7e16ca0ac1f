// The page of the API: openapi.json, to be read by people. Each example runs as it is printed.

import { $, command, make } from './dom.js';

let described;
let model = 'model'; // the name that /v2 knows it by

const resolve = (part) => (part?.$ref ? part.$ref.split('/').slice(1).reduce((at, key) => at[key], described) : part ?? {});

// ---- types ----

function kind(given) {
  const schema = resolve(given);
  let words = schema.format === 'binary' ? 'file' : schema.type ?? 'any';
  if (schema.enum) words = schema.enum.map((value) => `“${value}”`).join(' or ');
  if (schema.oneOf) words = schema.oneOf.map(kind).join(' or ');
  if (schema.type === 'array') words = kind(schema.items).replace(/^(.* .*)$/, '($1)') + '[]';
  return schema.nullable ? `${words} or null` : words;
}

function limits({ minimum, maximum, maxItems, default: value }) {
  const said = [];
  if (maximum !== undefined) said.push(`From ${minimum} to ${maximum}.`);
  if (maxItems !== undefined) said.push(`At most ${maxItems}.`);
  if (value !== undefined) said.push(`Default: ${value}.`);
  return said.join(' ');
}

// A line for each field, those of objects inside with their paths: results[].classes[].score.
function lines(given, path = '') {
  const schema = resolve(given);
  if (schema.type === 'array') return lines(schema.items, `${path}[]`);
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const field = resolve(inner);
    const place = path ? `${path}.${name}` : name;
    const about = [field.description, limits(field)].filter(Boolean).join(' ');
    return [make('tr', {}, make('th', { scope: 'row' }, make('code', {}, place)), make('td', {}, kind(field)), make('td', {}, about)), ...lines(field, place)];
  });
}

function table(title, rows) {
  if (!rows.length) return null;
  return make('details', {}, make('summary', {}, title), make('div', { className: 'wide', tabIndex: 0, role: 'group', 'aria-label': title }, make('table', {}, make('tbody', {}, ...rows))));
}

const parameterLine = ({ name, in: place, description, schema }) => make('tr', {},
  make('th', { scope: 'row' }, make('code', {}, place === 'query' ? `?${name}=` : `{${name}}`)), make('td', {}, kind(schema)),
  make('td', {}, [description, limits(schema)].filter(Boolean).join(' ')));

// ---- examples ----

function curl(method, path, operation, type, body) {
  const example = (name) => operation.parameters.find((parameter) => parameter.name === name).example ?? model;
  const words = ['curl -s'];
  if (method !== 'get' && !body) words.push(`-X ${method.toUpperCase()}`);
  words.push(location.origin + path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(example(name))));
  if (type === 'application/json') words.push(`-H 'Content-Type: ${type}' -d '${JSON.stringify(body)}'`);
  if (type === 'multipart/form-data') for (const [name, value] of Object.entries(body)) words.push(`-F ${name}=${value}`);
  return words.join(' ');
}

// A body without an example depends on the model, such as the rows of infer.
function examples(method, path, operation) {
  const bodies = Object.entries(operation.requestBody?.content ?? {}).filter(([, { example }]) => example);
  if (operation.requestBody) return bodies.map(([type, { example }]) => command(curl(method, path, operation, type, example)));
  const file = Object.keys(operation.responses[200]?.content ?? {})[0]?.startsWith('image/');
  return [command(curl(method, path, operation) + (file ? ' -o picture' : ''))];
}

// ---- operations ----

function errors(responses) {
  const refused = Object.entries(responses).filter(([code]) => code >= 400).map(([code, response]) => `${code}: ${resolve(response).description}`);
  return make('details', {}, make('summary', {}, 'Errors'), make('ul', {}, ...refused.map((words) => make('li', {}, words))));
}

function article(method, path, operation) {
  const { operationId, summary, parameters = [], requestBody, responses } = operation;
  const bodies = Object.entries(requestBody?.content ?? {});
  const answer = Object.values(Object.entries(responses).find(([code]) => code < 300)[1].content ?? {})[0];
  const others = bodies.filter(([, { schema }]) => !resolve(schema).properties).map(([type]) => type);
  const parts = [
    table('Parameters', parameters.map(parameterLine)),
    ...bodies.map(([type, { schema }]) => table(`Body, as ${type}`, lines(schema))),
    others.length ? make('p', { className: 'soft small' }, `Or a file as it is: ${others.join(', ')}.`) : null,
    answer ? table('Answer', lines(answer.schema)) : null,
    errors(responses),
  ];
  return make('article', { className: 'panel', id: operationId }, make('h2', {}, make('code', {}, `${method.toUpperCase()} ${path}`)),
    make('p', {}, `${summary}.`), ...examples(method, path, operation), ...parts);
}

async function begin() {
  described = await (await fetch('/openapi.json')).json();
  const models = await fetch('/v1/models'); // may need a token
  if (models.ok) model = (await models.json()).data[0].id;
  $('about').textContent = described.info.description;
  const all = Object.entries(described.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => [method, path, operation]));
  $('contents').replaceChildren(...all.map(([method, path, { operationId }]) => make('li', {}, make('a', { href: `#${operationId}` }, `${method.toUpperCase()} ${path}`))));
  $('operations').replaceChildren(...all.map((one) => article(...one)));
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

begin();
