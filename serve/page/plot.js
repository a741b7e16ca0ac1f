// The map on its canvas: a camera, points, class names and, when zoomed in, pictures.

import { classColour, isDark } from './colours.js';
import { called } from './dom.js';
import * as api from './api.js';
import { boundsOf, inside, nearest } from './layout.js';

const MARGIN = 24; // pixels around the points when all are shown
const NEAR = 3.5; // zoom factor from which pictures or ids are shown
const MAX_PICTURES = 500;
const MAX_NAME = 36; // characters of a class on the canvas
const ease = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

function short(name) {
  const all = [...name];
  return all.length > MAX_NAME ? `${all.slice(0, MAX_NAME - 1).join('')}…` : name;
}

export class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext('2d');
    this.camera = { x: 0, y: 0, zoom: 1 };
    this.pictures = new Map(); // row → picture, or null while loading
    this.sprites = new Map();
    this.here = null; // {xs, ys}: where points are now
    this.bounds = { x: 0, y: 0, width: 2, height: 2 }; // of all points, in all spaces
    this.focus = -1;
    this.pointed = -1;
    this.only = -1; // the only class shown; −1: all
    this.lasso = [];
    this.isSelected = () => false;
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  // data: {rows, ids, classes (numbers), names, spaces: {koofu: {xs, ys, medians}, raw: …}, images}
  show(data, space) {
    this.data = data;
    this.space = space;
    this.here = { xs: data.spaces[space].xs.slice(), ys: data.spaces[space].ys.slice() };
    this.bounds = boundsOf(Object.values(data.spaces));
    this.all();
    this.resize();
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    this.redraw();
  }

  recolour() {
    this.sprites.clear();
    this.redraw();
  }

  redraw() {
    if (this.waiting || !this.here) return;
    this.waiting = true;
    requestAnimationFrame((now) => {
      this.waiting = false;
      this.draw(now);
    });
  }

  // ---- camera ----

  // Pixels per unit of the map.
  get scale() {
    const { width, height } = this.bounds;
    return this.camera.zoom * Math.min((this.width - 2 * MARGIN) / width, (this.height - 2 * MARGIN) / height);
  }

  toScreen(x, y) {
    return [(x - this.camera.x) * this.scale + this.width / 2, (y - this.camera.y) * this.scale + this.height / 2];
  }

  toMap(x, y) {
    return [(x - this.width / 2) / this.scale + this.camera.x, (y - this.height / 2) / this.scale + this.camera.y];
  }

  pan(dx, dy) {
    this.camera.x -= dx / this.scale;
    this.camera.y -= dy / this.scale;
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const [mx, my] = this.toMap(x, y);
    this.camera.zoom = Math.min(Math.max(this.camera.zoom * factor, 0.5), 400);
    const [nx, ny] = this.toMap(x, y);
    this.camera.x += mx - nx;
    this.camera.y += my - ny;
    this.redraw();
  }

  // Towards the focused point, otherwise to where most visible points are, never into empty space.
  zoomIn(factor) {
    if (!this.here) return;
    const i = this.focus >= 0 ? this.focus : this.middle();
    this.zoom(factor, ...this.toScreen(this.here.xs[i], this.here.ys[i]));
    this.reveal(i);
  }

  // The point nearest to the medians of the visible points.
  middle() {
    const seen = this.inView();
    const median = (values) => seen.map((i) => values[i]).sort((p, q) => p - q)[seen.length >> 1];
    const [x, y] = seen.length ? [median(this.here.xs), median(this.here.ys)] : [this.camera.x, this.camera.y];
    return nearest(this.here, x, y, 1)[0];
  }

  all() {
    this.camera = { x: this.bounds.x, y: this.bounds.y, zoom: 1 };
    this.redraw();
  }

  // Moves the window just enough to show point i.
  reveal(i) {
    const [x, y] = this.toScreen(this.here.xs[i], this.here.ys[i]);
    const edge = 40;
    this.pan(Math.min(0, this.width - edge - x) + Math.max(0, edge - x), Math.min(0, this.height - edge - y) + Math.max(0, edge - y));
  }

  // ---- finding points ----

  pick(x, y, reach = 14) {
    if (!this.here) return -1;
    const [mx, my] = this.toMap(x, y);
    const [i] = nearest(this.here, mx, my, 1);
    if (i === undefined) return -1;
    const [px, py] = this.toScreen(this.here.xs[i], this.here.ys[i]);
    return Math.hypot(px - x, py - y) <= Math.max(reach, this.near ? this.side / 2 : 0) ? i : -1;
  }

  within(polygon) {
    const found = [];
    for (let i = 0; i < this.here.xs.length; i++) if (inside(this.here.xs[i], this.here.ys[i], polygon)) found.push(i);
    return found;
  }

  inView() {
    const [x0, y0] = this.toMap(0, 0);
    const [x1, y1] = this.toMap(this.width, this.height);
    return this.within([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]);
  }

  // ---- the transition between spaces ----

  moveTo(space) {
    if (space === this.space) return;
    const from = { xs: this.here.xs.slice(), ys: this.here.ys.slice() };
    this.space = space;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.move = { from, begun: null, length: still ? 0 : 1100 };
    this.redraw();
  }

  advance(now) {
    const { from } = this.move;
    const to = this.data.spaces[this.space];
    this.move.begun ??= now;
    const t = this.move.length ? Math.min((now - this.move.begun) / this.move.length, 1) : 1;
    const part = ease(t);
    for (let i = 0; i < from.xs.length; i++) {
      this.here.xs[i] = from.xs[i] + part * (to.xs[i] - from.xs[i]);
      this.here.ys[i] = from.ys[i] + part * (to.ys[i] - from.ys[i]);
    }
    if (t === 1) this.move = null;
  }

  // ---- drawing ----

  get near() {
    return this.camera.zoom >= NEAR && !this.move;
  }

  get side() {
    return Math.min(40 + 6 * Math.log2(this.camera.zoom), 72);
  }

  // A dot of class k, drawn once and copied.
  sprite(k, radius, dim) {
    const key = `${k} ${radius} ${dim}`;
    if (this.sprites.has(key)) return this.sprites.get(key);
    if (this.sprites.size > 4000) this.sprites.clear();
    const size = Math.ceil((2 * radius + 2) * this.ratio);
    const stamp = document.createElement('canvas');
    stamp.width = stamp.height = size;
    const pen = stamp.getContext('2d');
    pen.scale(this.ratio, this.ratio);
    pen.globalAlpha = dim ? 0.13 : 0.88;
    pen.fillStyle = classColour(k, this.dark);
    pen.strokeStyle = this.paper;
    pen.lineWidth = 0.6;
    pen.beginPath();
    pen.arc(size / this.ratio / 2, size / this.ratio / 2, radius, 0, 2 * Math.PI);
    pen.fill();
    if (!dim) pen.stroke();
    this.sprites.set(key, stamp);
    return stamp;
  }

  draw(now) {
    if (this.move) this.advance(now);
    const style = getComputedStyle(this.canvas);
    [this.ink, this.paper, this.accent] = [style.color, style.backgroundColor, style.caretColor];
    this.dark = isDark();
    const pen = this.pen;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const seen = this.drawPoints(pen);
    if (this.near) this.drawNear(pen, seen);
    if (!this.move && (!this.near || !this.data.images)) this.drawNames(pen);
    this.drawMarks(pen, seen);
    this.drawLasso(pen);
    if (this.move) this.redraw();
  }

  get radius() {
    const crowd = Math.min(Math.max(60 / Math.sqrt(this.here.xs.length), 0.55), 1.6);
    return Math.round(2 * Math.min(2.9 * crowd * this.camera.zoom ** 0.28, 7)) / 2;
  }

  drawPoints(pen) {
    const radius = this.radius;
    const seen = [];
    const { classes } = this.data;
    for (const front of this.only < 0 ? [true] : [false, true]) {
      for (let i = 0; i < this.here.xs.length; i++) {
        const [x, y] = this.toScreen(this.here.xs[i], this.here.ys[i]);
        if (x < -40 || y < -40 || x > this.width + 40 || y > this.height + 40) continue;
        if (this.only >= 0 && (classes[i] === this.only) !== front) continue;
        seen.push([i, x, y]);
        const stamp = this.sprite(classes[i], radius, !front);
        const size = stamp.width / this.ratio;
        pen.drawImage(stamp, x - size / 2, y - size / 2, size, size);
      }
    }
    return seen;
  }

  // Pictures, or ids without pictures, as many as fit without overlap; a grid of cells makes the test fast.
  drawNear(pen, seen) {
    const pictures = this.data.images;
    const side = this.side;
    const cell = pictures ? [side + 6, side + 6] : [110, 26];
    const taken = new Map(); // cell → position of its picture
    const hides = (x, y, column, line) => {
      for (let c = column - 1; c <= column + 1; c++) {
        for (let l = line - 1; l <= line + 1; l++) {
          const other = taken.get(`${c} ${l}`);
          if (other && Math.abs(other[0] - x) < cell[0] && Math.abs(other[1] - y) < cell[1]) return true;
        }
      }
      return false;
    };
    for (const [i, x, y] of seen) {
      if (this.only >= 0 && this.data.classes[i] !== this.only) continue;
      const column = Math.floor(x / cell[0]);
      const line = Math.floor(y / cell[1]);
      if (hides(x, y, column, line)) continue;
      taken.set(`${column} ${line}`, [x, y]);
      if (pictures) this.drawPicture(pen, i, x, y, side);
      else this.drawText(pen, this.data.ids?.[i] ?? `row ${this.data.rows[i]}`, x, y + 14, 11, false);
    }
  }

  drawPicture(pen, i, x, y, side) {
    const image = this.picture(this.data.rows[i]);
    if (!image) return;
    const half = side / 2;
    pen.save();
    pen.beginPath();
    pen.roundRect(x - half, y - half, side, side, 6);
    pen.fillStyle = this.paper;
    pen.fill();
    pen.clip();
    const scale = Math.max(side / image.width, side / image.height);
    pen.drawImage(image, x - (image.width * scale) / 2, y - (image.height * scale) / 2, image.width * scale, image.height * scale);
    pen.restore();
    pen.lineWidth = 2;
    pen.strokeStyle = classColour(this.data.classes[i], this.dark);
    pen.beginPath();
    pen.roundRect(x - half, y - half, side, side, 6);
    pen.stroke();
  }

  picture(row) {
    if (this.pictures.has(row)) return this.pictures.get(row);
    if (this.pictures.size >= MAX_PICTURES) this.pictures.delete(this.pictures.keys().next().value);
    this.pictures.set(row, null);
    api.load(row, 96).then((image) => {
      this.pictures.set(row, image);
      this.redraw();
    }).catch(() => {}); // no picture: the dot stays
    return null;
  }

  drawText(pen, text, x, y, size, bold) {
    pen.font = `${bold ? 600 : 400} ${size}px ${getComputedStyle(this.canvas).fontFamily}`;
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    pen.lineJoin = 'round';
    pen.lineWidth = 3.5;
    pen.strokeStyle = this.paper;
    pen.fillStyle = this.ink;
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }

  // Class names at the medians of their points; largest classes first, without overlap.
  drawNames(pen) {
    const places = this.data.spaces[this.space].medians.map((place, k) => ({ ...place, k })).filter((place) => place.size);
    places.sort((a, b) => (b.k === this.only) - (a.k === this.only) || b.size - a.size || a.k - b.k);
    const boxes = [];
    pen.font = `600 12px ${getComputedStyle(this.canvas).fontFamily}`;
    for (const { x, y, k } of places) {
      const name = short(called(this.data.names[k]));
      const [px, py] = this.toScreen(x, y);
      if (px < 0 || py < 0 || px > this.width || py > this.height || (this.only >= 0 && k !== this.only)) continue;
      const half = pen.measureText(name).width / 2 + 6;
      const middle = Math.min(Math.max(px, half), this.width - half);
      const line = Math.min(Math.max(py, 10), this.height - 10);
      if (boxes.some((box) => Math.abs(box.x - middle) < box.half + half && Math.abs(box.y - line) < 19)) continue;
      boxes.push({ x: middle, y: line, half });
      this.drawText(pen, name, middle, line, 12, true);
    }
  }

  drawMarks(pen, seen) {
    const radius = this.radius;
    pen.lineWidth = 1.8;
    pen.strokeStyle = this.ink;
    pen.beginPath();
    for (const [i, x, y] of seen) {
      if (!this.isSelected(this.data.rows[i])) continue;
      pen.moveTo(x + radius + 1.5, y);
      pen.arc(x, y, radius + 1.5, 0, 2 * Math.PI);
    }
    pen.stroke();
    for (const i of [this.pointed, this.focus]) {
      if (i < 0) continue;
      const [x, y] = this.toScreen(this.here.xs[i], this.here.ys[i]);
      pen.strokeStyle = this.accent;
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.arc(x, y, radius + 5, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  drawLasso(pen) {
    if (this.lasso.length < 2) return;
    pen.beginPath();
    for (const [x, y] of this.lasso) pen.lineTo(...this.toScreen(x, y));
    pen.closePath();
    pen.strokeStyle = this.accent;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.globalAlpha = 0.12;
    pen.fillStyle = this.accent;
    pen.fill();
    pen.globalAlpha = 1;
  }
}
