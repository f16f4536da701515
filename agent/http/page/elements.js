// Text and elements. All text goes in by textContent.
const kSvg = 'http://www.w3.org/2000/svg';
const at = (id) => document.getElementById(id);

function make(tag, text, className) {
  const out = document.createElement(tag);
  if (text !== undefined) out.textContent = text;
  if (className) out.className = className;
  return out;
}
function draw(tag, attributes, text) {
  const out = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  if (text !== undefined) out.textContent = text;
  return out;
}
function having(element, ...children) {
  element.append(...children.filter((child) => child !== '' && child !== null && child !== undefined));
  return element;
}
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const show = (id, shown) => { at(id).hidden = !shown; return shown; };
const soft = (text) => make('p', text, 'soft');

const known = (value) => typeof value === 'number' && Number.isFinite(value);
function short(value, digits = 3) {
  if (!known(value)) return '–';
  const size = Math.abs(value);
  if (size > 0 && size < 0.001) return value.toExponential(digits - 1);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(digits)));
}
// Of steps per second: three digits, so that it does not change its width.
function paceText(value) {
  if (!known(value)) return '–';
  return value > 0 && value < 1000 && value >= 0.001 ? value.toPrecision(3) : short(value);
}
const whole = (value) => known(value) ? Math.round(value).toLocaleString('en') : '–';
// As rendezvous/base/loss_text.h has it: four digits.
function lossText(value) {
  if (!known(value)) return '–';
  const text = value.toExponential(3), power = Number(text.split('e')[1]);
  return power < -4 || power > 3 ? text.replace(/([-+])(\d)$/, (_, sign, digit) => sign + '0' + digit) : value.toFixed(3 - power);
}
// As rendezvous/base/duration_text.h has it.
function duration(seconds) {
  if (!known(seconds)) return '–';
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (seconds < 60) return Math.round(seconds) + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min ' + Math.floor(seconds % 60) + ' s';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h ' + Math.floor(seconds % 3600 / 60) + ' min';
  return Math.floor(seconds / 86400) + ' d ' + Math.floor(seconds % 86400 / 3600) + ' h';
}
const memory = (bytes) => !bytes ? '–' : bytes < 2 ** 30 ? Math.round(bytes / 2 ** 20) + ' MiB' : (bytes / 2 ** 30).toFixed(1) + ' GiB';
const percent = (share, digits = 1) => known(share) ? (100 * share).toFixed(digits) + ' %' : '–';
const count = (n, what) => whole(n) + ' ' + what + (n === 1 ? '' : 's');
const two = (number) => String(number).padStart(2, '0');
function clock(ms, withSeconds = true) {
  const time = new Date(ms);
  return two(time.getHours()) + ':' + two(time.getMinutes()) + (withSeconds ? ':' + two(time.getSeconds()) : '');
}
const kDate = { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' };
const date = (ms) => new Date(ms).toLocaleString('en-GB', kDate);

// Ages grow between two updates: each is an element and its text, of the seconds since the last one.
let ages = [];
function aging(element, text) {
  ages.push([element, text]);
  element.textContent = text(elapsed());
  return element;
}
function growAges() {
  ages = ages.filter(([element]) => element.isConnected);
  for (const [element, text] of ages) put(element, text(elapsed()));
}
const age = (seconds, before = '', after = '') => known(seconds)
  ? aging(make('span'), (more) => before + duration(seconds + more) + after) : '–';

// Keeps an element that is looked at: its children are replaced, not itself. `children`: also of one that a focus may be in.
const fill = (id, ...children) => at(id).replaceChildren(...children);

// `columns`: [heading, classes]: number is right-aligned, roomy only where there is room, slim as narrow as it can be.
// A row may be {cells, className}.
function table(caption, columns, rows) {
  const out = make('table'), head = make('tr');
  out.setAttribute('aria-label', caption);
  columns.forEach(([heading, classes]) => {
    const cell = make(heading ? 'th' : 'td', heading, classes);
    if (heading) cell.scope = 'col';
    head.append(cell);
  });
  const body = make('tbody');
  for (const row of rows) {
    const line = make('tr', undefined, row.className);
    (row.cells || row).forEach((value, i) => line.append(having(make('td', undefined, columns[i][1]), value)));
    body.append(line);
  }
  return having(out, having(make('thead'), head), body);
}
// One that may scroll in itself: then the keyboard reaches it.
function reachable(id, label) {
  const scrolls = at(id).scrollHeight > at(id).clientHeight + 1 || at(id).scrollWidth > at(id).clientWidth + 1;
  const names = { tabindex: '0', role: 'region', 'aria-label': label };
  for (const [name, value] of Object.entries(names)) scrolls ? at(id).setAttribute(name, value) : at(id).removeAttribute(name);
}
