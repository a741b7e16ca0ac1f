// A colour per class, the same on cards, bars and the map.

let names = [];
let numbers = new Map();

export function setClasses(list) {
  names = list;
  numbers = new Map(list.map((name, i) => [name, i]));
}

export const classNames = () => names;

export function addName(name) {
  if (numbers.has(name)) return;
  numbers.set(name, names.length);
  names = [...names, name];
}

// OKLCH to sRGB: evenly spaced hues look evenly spaced and equally bright.
function rgb(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((x) => {
    const value = Math.min(Math.max(x, 0), 1);
    return Math.round(255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055));
  });
}

// Up to twelve classes are spaced evenly around the circle; more follow the golden angle, at three lightness levels.
export function classColour(number, dark) {
  if (number < 0) return dark ? 'rgb(120 126 134)' : 'rgb(150 156 164)';
  const few = names.length <= 12;
  const hue = few ? (2 * Math.PI * number) / Math.max(names.length, 1) + 0.6 : number * 2.399963 + 0.6;
  const level = few ? number % 2 : number % 3;
  const lightness = (dark ? [0.74, 0.65, 0.83] : [0.6, 0.7, 0.5])[level];
  return `rgb(${rgb(lightness, dark ? 0.125 : 0.14, hue).join(' ')})`;
}

export const nameColour = (name, dark) => classColour(numbers.get(name) ?? -1, dark);

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

// Sets --class of an element to the colour of a class, now and whenever the theme changes.
export function tint(element, name) {
  element.dataset.tint = name;
  element.style.setProperty('--class', nameColour(name, isDark()));
}

export function tintAll() {
  for (const element of document.querySelectorAll('[data-tint]')) tint(element, element.dataset.tint);
}
