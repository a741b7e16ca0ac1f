// Geometry of the map: both spaces in one frame, points in a lasso, nearest points.

// Scales points into the square from −1 to 1, keeping proportions; outliers may lie outside.
export function normalise(xs, ys) {
  const n = xs.length;
  const order = (values) => Float64Array.from(values).sort();
  const sx = order(xs);
  const sy = order(ys);
  const low = Math.floor(0.005 * (n - 1));
  const high = Math.ceil(0.995 * (n - 1));
  const cx = (sx[low] + sx[high]) / 2;
  const cy = (sy[low] + sy[high]) / 2;
  const half = Math.max(sx[high] - sx[low], sy[high] - sy[low]) / 2 || 1;
  return { xs: Float32Array.from(xs, (x) => (x - cx) / half), ys: Float32Array.from(ys, (y) => (y - cy) / half) };
}

// Rotates, and if that is closer mirrors, points to best match others of the same rows, so that the transition between
// spaces is as short as possible: the orthogonal Procrustes problem in two dimensions.
export function turnTowards(points, target) {
  let a = 0, b = 0, c = 0, d = 0;
  for (let i = 0; i < points.xs.length; i++) {
    a += points.xs[i] * target.xs[i];
    b += points.xs[i] * target.ys[i];
    c += points.ys[i] * target.xs[i];
    d += points.ys[i] * target.ys[i];
  }
  const turn = Math.hypot(a + d, b - c);
  const mirror = Math.hypot(a - d, b + c);
  const flip = mirror > turn ? -1 : 1;
  const angle = flip > 0 ? Math.atan2(b - c, a + d) : Math.atan2(b + c, a - d);
  const cos = Math.cos(angle);
  const sin = Math.sin(angle);
  return {
    xs: points.xs.map((x, i) => cos * x - flip * sin * points.ys[i]),
    ys: points.xs.map((x, i) => sin * x + flip * cos * points.ys[i]),
  };
}

// The middle and the size of the rectangle around all points of all spaces.
export function boundsOf(spaces) {
  const range = (lists) => lists.flatMap((list) => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))]);
  const [xs, ys] = [range(spaces.map((points) => points.xs)), range(spaces.map((points) => points.ys))];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  return { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left || 1, height: bottom - top || 1 };
}

// Positions of class names: the medians of their points.
export function medians(points, classes, count) {
  const members = Array.from({ length: count }, () => []);
  classes.forEach((k, i) => { if (k >= 0) members[k].push(i); });
  return members.map((list) => {
    if (!list.length) return null;
    const middle = (values) => list.map((i) => values[i]).sort((p, q) => p - q)[list.length >> 1];
    return { x: middle(points.xs), y: middle(points.ys), size: list.length };
  });
}

// Whether (x, y) is inside the polygon, by the even-odd rule.
export function inside(x, y, polygon) {
  let odd = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i];
    const [xj, yj] = polygon[j];
    if ((yi > y) !== (yj > y) && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}

// The numbers of the n points nearest to (x, y), nearest first.
export function nearest(points, x, y, n) {
  const far = Float64Array.from(points.xs, (px, i) => (px - x) ** 2 + (points.ys[i] - y) ** 2);
  const best = [];
  for (let i = 0; i < far.length; i++) {
    if (best.length === n && far[i] >= far[best[n - 1]]) continue;
    let at = best.length;
    while (at > 0 && far[best[at - 1]] > far[i]) at--;
    best.splice(at, 0, i);
    if (best.length > n) best.pop();
  }
  return best;
}

// The point nearest to point i within 45 degrees of a direction, or −1.
export function step(points, i, dx, dy) {
  let best = -1;
  let least = Infinity;
  for (let j = 0; j < points.xs.length; j++) {
    const x = points.xs[j] - points.xs[i];
    const y = points.ys[j] - points.ys[i];
    const along = x * dx + y * dy;
    const across = Math.abs(x * dy - y * dx);
    if (j === i || along <= 1e-7 || across > along) continue;
    const far = along + 2 * across;
    if (far < least) {
      least = far;
      best = j;
    }
  }
  return best;
}
