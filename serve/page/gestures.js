// Mouse, touch and keys on the map.

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const distance = ([a, b]) => Math.hypot(a.x - b.x, a.y - b.y);
const middle = ([a, b]) => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });

// on: {tool() → 'move' | 'lasso', point(i, x, y), click(i, event), lasso(points, add)}
export function listenToPointer(plot, on) {
  const { canvas } = plot;
  const down = new Map(); // pressed pointers, by id
  let moved = false;
  let drawing = false;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    const p = at(event);
    down.set(event.pointerId, p);
    if (down.size === 1) {
      moved = false;
      drawing = on.tool() === 'lasso' || event.shiftKey;
      plot.lasso = drawing ? [plot.toMap(p.x, p.y)] : [];
    } else { // a second finger starts a pinch
      drawing = false;
      plot.lasso = [];
      moved = true;
    }
    on.point(-1);
  });

  canvas.addEventListener('pointermove', (event) => {
    const p = at(event);
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType === 'mouse') on.point(plot.pick(p.x, p.y), p.x, p.y);
      return;
    }
    if (down.size === 1 && !moved && Math.hypot(p.x - before.x, p.y - before.y) < 4) return;
    moved = true;
    if (down.size === 2) {
      const old = [...down.values()];
      down.set(event.pointerId, p);
      const now = [...down.values()];
      const [m, n] = [middle(old), middle(now)];
      plot.pan(n.x - m.x, n.y - m.y);
      plot.zoom(distance(now) / Math.max(distance(old), 1), n.x, n.y);
      return;
    }
    down.set(event.pointerId, p);
    if (drawing) {
      plot.lasso.push(plot.toMap(p.x, p.y));
      plot.redraw();
    } else if (down.size === 1) {
      plot.pan(p.x - before.x, p.y - before.y);
    }
  });

  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    const p = at(event);
    if (event.type === 'pointerup' && !moved) on.click(plot.pick(p.x, p.y, event.pointerType === 'mouse' ? 14 : 24), event);
    if (drawing && moved && plot.lasso.length > 2 && event.type === 'pointerup') on.lasso(plot.within(plot.lasso), event.shiftKey && on.tool() === 'lasso');
    if (!down.size) {
      plot.lasso = [];
      drawing = false;
      plot.redraw();
    }
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => on.point(-1));
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const p = at(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    plot.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) * (event.ctrlKey ? 0.01 : 0.0022)), p.x, p.y);
  }, { passive: false });
  canvas.addEventListener('dblclick', (event) => {
    const p = at(event);
    plot.zoom(2, p.x, p.y);
  });
}

// on: {step(dx, dy), select(), open(), clear()}
export function listenToKeys(plot, on) {
  plot.canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) plot.pan(-60 * arrow[0], -60 * arrow[1]);
    else if (arrow) on.step(...arrow);
    else if (event.key === '+' || event.key === '=') plot.zoomIn(1.4);
    else if (event.key === '-' || event.key === '_') plot.zoom(1 / 1.4);
    else if (event.key === '0') plot.all();
    else if (event.key === 'x' || event.key === 'X' || event.key === ' ') on.select();
    else if (event.key === 'Enter') on.open();
    else if (event.key === 'Escape') on.clear();
    else return;
    event.preventDefault();
  });
}
