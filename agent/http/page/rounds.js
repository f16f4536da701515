// Rounds as a story, and where the time went: one set of colours, of the kinds in docs/events.md.
const kTimeKinds = [
  ['productive', 'training and evaluation that count'], ['start', 'starting workers'], ['restore', 'data, snapshot, process group'],
  ['save', 'waiting for snapshots'], ['lost_work', 'steps done again'], ['hang', 'hangs'], ['stop', 'stopping workers'],
  ['waiting', 'waiting for nodes, back-off'],
];
const kInRound = ['start', 'restore', 'productive', 'save', 'lost_work', 'hang', 'stop', 'waiting'];
const kRoundRowsMax = 50, kLeastSeconds = 0.05;  // what would be 0.0 s is none
const swatch = (kind) => make('span', undefined, 'swatch ' + kind);
const several = { crash: 'crashes', out_of_memory: 'times out of memory', lost_node: 'lost nodes' };
function causeText([cause, times]) {
  const words = cause.replace(/_/g, ' ');
  return times + ' ' + (times === 1 ? words : several[cause] || words + 's');
}
const numbers = (round) => round.first === round.last ? 'round ' + round.first : 'rounds ' + round.first + '–' + round.last;
function endOf(round) {
  if (round.story) return round.story;
  if (round.end === null) return over ? 'ended' : 'runs';
  const causes = Object.entries(round.causes || {});
  if (round.first === round.last) return causes.length ? causes[0][0].replace(/_/g, ' ') : 'ended';
  return causes.map(causeText).join(', ');
}
const lasted = (round) => ((round.end === null ? shown.now : round.end) - round.start) / 1000;

// A round's time by kind, in the order in which most of it passes, as shares of it. Nothing is known: one part of no kind.
function parts(round) {
  const spent = kInRound.map((kind) => [kind, (round.spent || {})[kind] || 0]).filter(([, seconds]) => seconds >= kLeastSeconds);
  const total = spent.reduce((sum, [, seconds]) => sum + seconds, 0);
  return total > 0 ? spent.map(([kind, seconds]) => [kind, seconds / total]) : [['unknown', 1]];
}
function timeline() {
  const rounds = shown.rounds, wide = Math.max(at('timeline').clientWidth, 200), high = 48;
  const from = rounds[0].start, to = Math.max(shown.now, from + 1), last = rounds[rounds.length - 1].last;
  const x = (time) => wide * (Math.min(Math.max(time, from), to) - from) / (to - from);
  const svg = draw('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': count(last, 'round') + ' over time; the lists below have them' });
  for (const round of rounds) {
    const begin = x(round.start), end = Math.max(x(round.end === null ? to : round.end), begin + 2), inside = end - begin - Math.min(1.5, (end - begin) / 5);
    const group = having(draw('g', {}), draw('title', {}, numbers(round) + ' · ' + duration(lasted(round)) + ' · ' + endOf(round)));
    let left = begin;
    for (const [kind, share] of parts(round)) {
      group.append(draw('rect', { class: 'kind ' + kind, x: left.toFixed(2), y: 14, width: (inside * share).toFixed(2), height: 16 }));
      left += inside * share;
    }
    const name = rounds.length > 1 || end - begin > 200 ? numbers(round) : '';
    if (name.length * kWordWide < end - begin - 4) group.append(draw('text', { x: begin.toFixed(1), y: 10 }, name));
    svg.append(group);
  }
  for (const [time, words] of timeTicks(from, to, Math.max(2, Math.floor(wide / 110)))) {
    const middle = x(time), half = words.length * kWordWide / 2;
    if (middle >= half && middle <= wide - half) svg.append(draw('text', { x: middle.toFixed(1), y: high - 4, 'text-anchor': 'middle' }, words));
    svg.append(draw('path', { class: 'axis', d: `M${middle.toFixed(1)} 31v4` }));
  }
  fill('timeline', svg);
}

function story(round) {
  const out = make('li'), failed = round.story || Object.keys(round.causes || {}).some((cause) => cause !== 'not known');
  const long = round.end === null ? aging(make('span'), (more) => duration(lasted(round) + more)) : make('span', duration(lasted(round)));
  const again = (round.spent || {}).lost_work, text = make('span', endOf(round), failed && round.end !== null ? 'why' : '');
  having(out, make('b', numbers(round)), ' · ', long, ' · ', text);
  return again >= kLeastSeconds ? having(out, ' · ' + duration(again) + ' of work done again') : out;
}
function rounds() {
  if (!show('s-rounds', shown.rounds.length || shown.status.time)) return;
  show('timeline', shown.rounds.length);
  show('rounds', shown.rounds.length);
  if (shown.rounds.length) timeline();
  const list = make('ol', undefined, 'stories');
  list.append(...shown.rounds.slice(-kRoundRowsMax).reverse().map(story));
  fill('rounds', list, shown.rounds.length > kRoundRowsMax ? soft(`The last ${kRoundRowsMax} of ${shown.rounds.length} are listed.`) : '');
  at('rounds').parentElement.classList.toggle('single', shown.rounds.length < 2);
  reachable('rounds', 'rounds, the newest first');
  times();
}
function times() {
  const time = shown.status.time || {};
  const spent = kTimeKinds.filter(([kind]) => time[kind] >= kLeastSeconds), total = time.total || 0;
  if (!show('s-time', spent.length)) return;
  const rows = spent.map(([kind, words]) => [having(make('span', undefined, 'named'), swatch(kind), make('span', kind.replace('_', ' '))), duration(time[kind]),
    percent(time[kind] / total), bar([[kind, time[kind] / total]]), words]);
  fill('time', table('Where the time went', [['Kind'], ['Time', 'number'], ['Share', 'number'], ['', 'roomy shares'], ['What', 'roomy what']], rows));
}

// Parts side by side, each [class, share of the whole].
function bar(parts, words) {
  const out = make('span', undefined, 'bar');
  for (const [kind, share] of parts) {
    const part = make('span', undefined, 'kind ' + kind);
    part.style.width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(1) + '%';
    out.append(part);
  }
  if (words) {
    out.setAttribute('role', 'img');
    out.setAttribute('aria-label', words);
    out.title = words;
  }
  return out;
}
