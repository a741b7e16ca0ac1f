// The classes of one query as bars, with the margin and 'unknown'.

import { broken, called, make, percent, score } from './dom.js';
import { tint } from './colours.js';
import * as selection from './selection.js';

// The length of a class's bar, from 0 to 1: its probability, or its score relative to the best.
// For distances, smaller is better.
function share(item, best, distance) {
  if (item.probability !== undefined && item.probability !== null) return item.probability;
  const part = distance ? best.score / item.score : item.score / best.score;
  return Number.isFinite(part) ? Math.min(Math.max(part, 0), 1) : Number(item === best);
}

function bar(item, length, isNew, added) {
  const fill = make('i', {});
  fill.style.inlineSize = `${(100 * length).toFixed(1)}%`;
  const row = make('tr', { className: isNew ? 'new' : '' },
    make('th', { scope: 'row' }, make('span', { className: 'name' }, broken(called(item.class))),
      added ? make('span', { className: 'badge' }, 'added') : null,
      added ? make('button', { type: 'button', className: 'quiet icon', 'aria-label': `Delete the class ${called(item.class)}`, onclick: () => selection.remove(item.class) }, '×') : null,
      make('span', { className: 'track', 'aria-hidden': 'true' }, fill)),
    make('td', {}, score(item.score)),
    item.probability === undefined || item.probability === null ? null : make('td', {}, percent(item.probability)));
  tint(row, item.class);
  return row;
}

// added: names of added classes; fresh: the class that was just made.
export function answerBars(result, model, added, fresh) {
  const box = document.createDocumentFragment();
  const best = result.classes[0];
  const distance = model.metric === 'euclidean';
  const [word, beyond] = distance ? ['distance', 'above'] : ['score', 'below'];
  const limit = model.reject ?? null;
  if (result.unknown) {
    box.append(make('p', { className: 'verdict unknown' }, make('b', {}, 'Unknown'),
      ` The best ${word}, ${score(best.score)}, is ${beyond} the threshold${limit !== null ? ` of ${score(limit)}` : ''}.`));
  } else {
    const verdict = make('p', { className: 'verdict' }, make('i', { className: 'dot', 'aria-hidden': 'true' }), make('b', {}, broken(called(best.class))));
    tint(verdict, best.class);
    box.append(verdict);
  }
  const sure = best.probability !== undefined && best.probability !== null;
  box.append(make('table', { className: 'bars' },
    make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Class'), make('th', { scope: 'col' }, distance ? 'Distance' : 'Score'),
      sure ? make('th', { scope: 'col' }, 'Probability') : null)),
    make('tbody', {}, ...result.classes.map((item) => bar(item, share(item, best, distance), item.class === fresh, added.has(item.class))))));
  const facts = [`Margin to the second: ${score(result.margin)}`];
  if (limit !== null && !result.unknown) facts.push(`unknown ${beyond} ${score(limit)}`);
  box.append(make('p', { className: 'soft small' }, facts.join(' · ')));
  return box;
}
