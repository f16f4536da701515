// Pace and loss over time or steps, with what happened as thin lines, and a cursor that both charts share.
// A sample is [time, step, steps per second, loss, useful share], a mark [time, kind, text].
const kCharts = [
  { id: 'pace', name: 'Steps per second', index: 2, words: paceText, fromZero: true },
  { id: 'loss', name: 'Loss', index: 3, words: lossText, fromZero: false },
];
const kHigh = 190, kTop = 20, kBottom = 22, kRight = 12, kLogFrom = 30, kSnapshotApart = 48, kWordWide = 6.3;
// The word at a mark's line; those first in the list keep theirs where two would overlap.
const kMarkWords = { failure: 'failure', still: 'stands still', straggler: 'straggler', resize: 'resize', restart: 'restart', snapshot: 'snapshot' };
const view = { byStep: false, cursor: null };  // the cursor is a sample's time

// The step that the job had at that time, for marks; null: none was known.
function stepAt(time) {
  let last = null;
  for (const sample of shown.samples) if (known(sample[1]) && (sample[0] <= time || last === null)) last = sample[1];
  return last;
}

function extent(values) {
  let least = Infinity, most = -Infinity;
  for (const value of values) { least = Math.min(least, value); most = Math.max(most, value); }
  return [least, most];
}

// From values to pixels. `points` are the samples that have both coordinates.
function scalesOf(chart, points, wide) {
  const [least, most] = extent(points.map((sample) => sample[chart.index]));
  const log = !chart.fromZero && least > 0 && most / least > kLogFrom;
  let low = chart.fromZero ? 0 : least, high = most;
  if (high <= low) [low, high] = chart.fromZero ? [0, 1] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
  const step = roundStep((high - low) / 4);
  if (!log) {  // from one tick to another
    low = Math.floor(low / step + 1e-9) * step;
    high = Math.ceil(high / step - 1e-9) * step;
  }
  if (log) [low, high] = [logTicks(low / 10, low).pop(), logTicks(high, 10 * high)[0]];
  const ticks = log ? logTicks(low, high).filter((_, i, all) => all.length < 8 || /^[0.]*1/.test(String(all[i]))) : numberTicks(low, high, step);
  const left = 12 + kWordWide * Math.max(...ticks.map((value) => tickText(value, log).length), 2);
  const [first, last] = view.byStep ? extent(points.map((sample) => sample[1])) : [points[0][0], Math.max(points[points.length - 1][0], shown.now)];
  const share = log ? (value) => Math.log(value / low) / Math.log(high / low) : (value) => (value - low) / (high - low);
  return {
    log, ticks, left, first, last, wide,
    x: (value) => left + (wide - left - kRight) * (value - first) / Math.max(last - first, 1),
    y: (value) => kTop + (kHigh - kTop - kBottom) * (1 - share(value)),
  };
}
function tickText(value, log) {
  if (value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e6)) return Number(value.toPrecision(3)).toExponential();
  return value.toLocaleString('en', { maximumSignificantDigits: 4 });
}

function axes(svg, scales) {
  const right = scales.wide - kRight, bottom = kHigh - kBottom;
  for (const value of scales.ticks) {
    const y = scales.y(value).toFixed(1);
    svg.append(draw('path', { class: 'grid', d: `M${scales.left} ${y}H${right}` }),
      draw('text', { x: scales.left - 6, y: Number(y) + 4, 'text-anchor': 'end' }, tickText(value, scales.log)));
  }
  const number = Math.max(2, Math.floor((right - scales.left) / 90));
  const ticks = view.byStep ? numberTicks(scales.first, scales.last, roundStep(Math.max((scales.last - scales.first) / number, 1))).map((step) => [step, whole(step)])
    : timeTicks(scales.first, scales.last, number);
  for (const [value, words] of ticks) {
    const x = scales.x(value), half = words.length * kWordWide / 2;
    svg.append(draw('path', { class: 'axis', d: `M${x.toFixed(1)} ${bottom}v4` }));
    if (x + half <= scales.wide && x - half >= 0) svg.append(draw('text', { x: x.toFixed(1), y: kHigh - 4, 'text-anchor': 'middle' }, words));
  }
  svg.append(draw('path', { class: 'axis', d: `M${scales.left} ${bottom}H${right}` }));
}

// A line for each mark; of snapshots that are close together a short one. Returns the marks with their places.
function markLines(svg, scales) {
  const places = [], words = draw('g', { class: 'marks' });
  for (const [time, kind, text] of shown.marks) {
    const value = view.byStep ? stepAt(time) : time;
    if (value !== null && value >= scales.first && value <= scales.last) places.push({ x: scales.x(value), kind, text });
  }
  const snapshots = places.filter((place) => place.kind === 'snapshot').length;
  const close = snapshots > (scales.wide - scales.left) / kSnapshotApart;
  for (const { x, kind } of places)
    svg.append(draw('path', { class: 'mark ' + kind, d: kind === 'snapshot' && close ? `M${x.toFixed(1)} ${kHigh - kBottom}v-6` : `M${x.toFixed(1)} ${kTop - 4}V${kHigh - kBottom}` }));
  const taken = [];
  for (const kind of Object.keys(kMarkWords)) {
    for (const place of places.filter((one) => one.kind === kind)) {
      if (kind === 'snapshot' && close) continue;
      const half = kMarkWords[kind].length * kWordWide / 2 + 3, middle = Math.min(Math.max(place.x, scales.left + half - 3), scales.wide - half);
      if (taken.some(([from, to]) => middle + half > from && middle - half < to)) continue;
      taken.push([middle - half, middle + half]);
      words.append(draw('text', { class: kind, x: middle.toFixed(1), y: 11, 'text-anchor': 'middle' }, kMarkWords[kind]));
    }
  }
  svg.append(words);
  return places;
}

// Drawn anew where a value is missing, and by steps where steps are done again.
function curve(svg, chart, scales) {
  let line = '', area = '', start = null, before = null, end = 0;
  const bottom = kHigh - kBottom;
  const close = () => { if (start !== null && chart.fromZero) area += `L${end} ${bottom}H${start}Z`; start = null; };
  for (const sample of shown.samples) {
    const across = sample[view.byStep ? 1 : 0], value = sample[chart.index];
    if (!known(across) || !known(value)) { close(); before = null; continue; }
    const jumps = before === null || (view.byStep && across < before);
    if (jumps) close();
    const x = scales.x(across).toFixed(1), y = scales.y(value).toFixed(1), part = (jumps ? 'M' : 'L') + x + ' ' + y;
    line += part;
    if (chart.fromZero) area += part;
    if (jumps) start = x;
    end = x;
    before = across;
  }
  close();
  if (chart.fromZero) svg.append(draw('path', { class: 'area', d: area }));
  svg.append(draw('path', { class: 'curve', d: line }));
}

// The sample that the cursor is at, else the last one.
function chosen(chart) {
  const points = chart.points;
  return points.find((sample) => sample[0] === view.cursor) || points[points.length - 1];
}
function markNear(chart, x) {
  const near = chart.places.filter((place) => Math.abs(place.x - x) < 5);
  return near.length ? near[near.length - 1] : null;
}
function showCursor(chart) {
  const sample = chosen(chart), last = sample === chart.points[chart.points.length - 1];
  const x = chart.scales.x(sample[view.byStep ? 1 : 0]), mark = view.cursor === null ? null : markNear(chart, x);
  const value = chart.words(sample[chart.index]), where = clock(sample[0]) + (known(sample[1]) ? ' · step ' + whole(sample[1]) : '');
  chart.cursor.replaceChildren(draw('circle', { class: 'dot', cx: x.toFixed(1), cy: chart.scales.y(sample[chart.index]).toFixed(1), r: 3.5 }));
  if (view.cursor !== null) chart.cursor.prepend(draw('path', { class: 'cursor', d: `M${x.toFixed(1)} ${kTop}V${kHigh - kBottom}` }));
  chart.svg.classList.toggle('told', Boolean(mark));
  if (mark) chart.cursor.append(markText(chart, mark, x));
  chart.readout.replaceChildren(make('span', where + ' '), make('b', value));
  const plot = chart.plot;
  plot.setAttribute('aria-valuemax', String(chart.points.length - 1));
  plot.setAttribute('aria-valuenow', String(chart.points.indexOf(sample)));
  plot.setAttribute('aria-valuetext', (last ? 'last, ' : '') + where + ': ' + value + (mark ? '; ' + mark.text : ''));
}
// The whole text in the place of all words.
function markText(chart, mark, x) {
  const room = Math.floor((chart.scales.wide - 4) / kWordWide), text = mark.text.length > room ? mark.text.slice(0, room - 1) + '…' : mark.text;
  const half = text.length * kWordWide / 2, middle = Math.min(Math.max(x, half), chart.scales.wide - half);
  return draw('text', { class: 'told ' + mark.kind, x: middle.toFixed(1), y: 11, 'text-anchor': 'middle' }, text);
}
function moveCursor(time) {
  view.cursor = time;
  for (const chart of kCharts) if (chart.points.length > 1) showCursor(chart);
}
function hover(chart, event) {
  const across = view.byStep ? 1 : 0, box = chart.plot.getBoundingClientRect();
  let best = null;
  for (const sample of chart.points)
    if (best === null || Math.abs(chart.scales.x(sample[across]) - event.clientX + box.left) <= Math.abs(chart.scales.x(best[across]) - event.clientX + box.left)) best = sample;
  if (best) moveCursor(best[0]);
}
function pressed(chart, event) {
  const points = chart.points, now = points.indexOf(chosen(chart)), last = points.length - 1, far = Math.ceil(points.length / 10);
  const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - far, PageUp: now + far, Home: 0, End: last }[event.key];
  if (event.key === 'Escape') return moveCursor(null);
  if (to === undefined) return;
  event.preventDefault();
  moveCursor(points[Math.min(Math.max(to, 0), last)][0]);
}

function prepareCharts() {
  for (const chart of kCharts) {
    chart.points = [];
    chart.plot = make('div', undefined, 'plot');
    chart.readout = make('p', undefined, 'readout');
    for (const [name, value] of Object.entries({ tabindex: 0, role: 'slider', 'aria-label': chart.name + ', sample by sample', 'aria-valuemin': 0, 'aria-valuenow': 0, 'aria-orientation': 'horizontal' }))
      chart.plot.setAttribute(name, value);
    chart.plot.addEventListener('pointermove', (event) => hover(chart, event));
    chart.plot.addEventListener('pointerleave', () => moveCursor(null));
    chart.plot.addEventListener('keydown', (event) => pressed(chart, event));
    chart.plot.addEventListener('blur', () => moveCursor(null));
    fill(chart.id, having(make('div', undefined, 'head'), make('h3', chart.name), chart.readout), chart.plot);
  }
  for (const [id, byStep] of [['by-time', false], ['by-step', true]]) {
    at(id).addEventListener('click', () => {
      view.byStep = byStep;
      at('by-time').setAttribute('aria-pressed', String(!byStep));
      at('by-step').setAttribute('aria-pressed', String(byStep));
      charts();
    });
  }
}
function charts() {
  const across = view.byStep ? 1 : 0;
  for (const chart of kCharts) {
    chart.points = shown.samples.filter((sample) => known(sample[chart.index]) && known(sample[across]));
    if (!show(chart.id, chart.points.length > 1)) chart.points = [];
  }
  if (!show('s-charts', kCharts.some((chart) => chart.points.length))) return;
  for (const chart of kCharts) if (chart.points.length) drawChart(chart);
}
function drawChart(chart) {
  const wide = Math.max(chart.plot.clientWidth, 200);
  chart.scales = scalesOf(chart, chart.points, wide);
  chart.svg = draw('svg', { viewBox: `0 0 ${wide} ${kHigh}`, 'aria-hidden': 'true' });
  axes(chart.svg, chart.scales);
  curve(chart.svg, chart, chart.scales);
  chart.places = markLines(chart.svg, chart.scales);
  chart.cursor = draw('g', {});
  chart.svg.append(chart.cursor);
  chart.plot.replaceChildren(chart.svg);
  showCursor(chart);
}

// The last values, without axes.
function sparkline(index) {
  const values = shown.samples.slice(-90).map((sample) => sample[index]).filter(known);
  if (values.length < 2) return '';
  const most = Math.max(...values, 1e-9), svg = draw('svg', { class: 'spark', viewBox: '0 0 100 30', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const points = values.map((value, i) => (100 * i / (values.length - 1)).toFixed(1) + ' ' + (28 - 25 * value / most).toFixed(1));
  return having(svg, draw('path', { class: 'area', d: 'M0 30L' + points.join('L') + 'L100 30Z' }), draw('path', { class: 'curve', d: 'M' + points.join('L') }));
}
