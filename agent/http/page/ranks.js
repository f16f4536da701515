// Ranks: a row each, those in trouble first; of many ranks a strip of cells by node, and the rows folded.
const kRowsMax = 16, kNodesMax = 8, kMinuteMs = 60000;
const kPhases = ['load', 'compute', 'wait'];
const kTroubles = ['stopped', 'held by the kernel', 'holds up', 'slow', 'paused', 'behind'], kBad = 2;  // the first ones are red
const kCodes = { '.': 'train', w: 'wait', v: 'save', e: 'evaluate or start', b: 'behind', s: 'slow', h: 'hold up others', x: 'stopped', '-': 'ended' };

// As the agent says it; one that says nothing of trouble tells what it is made of.
function troubleOf(rank, status) {
  if (rank.trouble !== undefined) return rank.trouble;
  const slow = (status.slow_ranks || []).find((one) => one.rank === rank.rank);
  return rank.stopped ? 'stopped' : rank.paused ? 'paused' : rank.held ? 'held by the kernel' : slow ? 'slow ' + short(slow.ratio, 2) + 'x'
    : ((status.waits_for || {}).ranks || []).includes(rank.rank) ? 'holds up' : '';
}
const severity = (trouble) => { const found = kTroubles.findIndex((one) => trouble.startsWith(one)); return found < 0 ? kTroubles.length : found; };
function troubleText(rank, trouble) {
  const badge = make('span', undefined, 'badge ' + (severity(trouble) < kBad ? 'bad' : 'attention'));
  const words = trouble.replace(/(\d)x$/, '$1×').replace(/^holds up$/, 'holds up others'), lasts = !/^(slow|behind)/.test(trouble) && known(rank.age_seconds);
  return aging(badge, (more) => words + (lasts ? ' ' + duration(rank.age_seconds + more) : ''));
}

// What each rank's phases took: of the last minute as far as it has been seen, else of the round. A job that stands still keeps its last one.
const seen = new Map();
function noteTimes(status, now) {
  if (conditionOf(status).kind === 'stands still') return;
  for (const rank of status.ranks || []) {
    const totals = kPhases.map((phase) => rank[phase + '_seconds'] || 0);
    let past = seen.get(rank.rank) || [];
    if (past.length && past[past.length - 1].totals.some((total, i) => total > totals[i] + 0.001)) past = [];  // another round
    past.push({ now, totals });
    while (past.length > 2 && past[1].now <= now - kMinuteMs) past.shift();
    seen.set(rank.rank, past);
  }
}
function sharesOf(rank) {
  const past = seen.get(rank.rank) || [], last = past[past.length - 1];
  const totals = last ? last.totals : kPhases.map((phase) => rank[phase + '_seconds'] || 0);
  let spent = totals.map((total, i) => total - (past.length > 1 ? past[0].totals[i] : 0));
  if (!spent.some((seconds) => seconds > 0)) spent = totals;
  const sum = spent.reduce((a, b) => a + b, 0);
  return sum > 0 ? spent.map((seconds) => seconds / sum) : null;
}
function timeCells(rank) {
  const shares = sharesOf(rank);
  if (!shares) return ['', ''];
  const whole = shares.map((share) => Math.round(100 * share));
  return [bar(shares.map((share, i) => [kPhases[i], share]), kPhases.map((phase, i) => phase + ' ' + whole[i] + ' %').join(', ')), whole.join(' / ')];
}

// The rank whose failure has ended the round before.
function restarted(status) {
  const past = shown.rounds.filter((round) => round.end !== null && known(round.rank)), last = status.last_failure || past[past.length - 1];
  const number = last && (last.round || last.last);
  return last && known(last.rank) && number + 1 === status.round ? { rank: last.rank, node: last.node || '', text: last.text || last.story } : null;
}
function doesCell(rank, trouble, again) {
  const out = make('span', rank.activity + (rank.collective ? ' (' + rank.collective + ')' : ''));
  if (rank.age_seconds >= 1 && !rank.silent && !trouble) out.append(' ', aging(make('span', '', 'once'), (more) => duration(rank.age_seconds + more)));
  if (trouble) out.append(' ', troubleText(rank, trouble));
  if (again && again.rank === rank.rank && (!again.node || again.node === rank.node)) {
    const badge = make('span', '↻ restarted', 'badge');
    badge.title = again.text;
    out.append(' ', badge);
  }
  return out;
}

function columnsOf(list) {
  const times = list.some((rank) => sharesOf(rank)), steps = list.some((rank) => known(rank.step));
  const furthest = Math.max(0, ...list.map((rank) => rank.step || 0));
  return [
    [['Rank', 'number slim'], (rank) => String(rank.rank)],
    [['Node', 'slim'], (rank) => rank.node],
    [['Does', times ? 'does' : ''], (rank, trouble, again) => doesCell(rank, trouble, again)],
    ...times ? [[['Last minute', 'times'], (rank) => timeCells(rank)[0]], [['%', 'roomy slim once'], (rank) => timeCells(rank)[1]]] : [],
    ...steps ? [[['Step', 'number roomy'], (rank) => whole(rank.step)],
      [['Behind', 'number'], (rank) => known(rank.step) ? (furthest - rank.step ? whole(furthest - rank.step) : '0') : '–']] : [],
    ...list.some((rank) => known(rank.processors)) ? [[['CPU', steps ? 'number roomy' : 'number'], (rank) => percent(rank.processors, 0)]] : [],
    [['Memory', steps ? 'number roomy' : 'number'], (rank) => memory(rank.memory_bytes)],
  ];
}
function rankTable(list, caption, byNode) {
  const status = shown.status, columns = columnsOf(status.ranks), again = restarted(status);
  const row = (rank) => {
    const trouble = troubleOf(rank, status), worst = severity(trouble);
    return { cells: columns.map(([, cell]) => cell(rank, trouble, again)), className: !trouble ? '' : worst < kBad ? 'row-bad' : 'row-attention' };
  };
  const out = table(caption, columns.map(([column]) => column), list.map(row));
  if (!columns.some(([column]) => column[1] === 'times')) out.className = 'narrow';
  if (!byNode) return out;
  const rows = [...out.querySelectorAll('tbody tr')];
  let node = null;
  list.forEach((rank, i) => {
    if (rank.node === node) return;
    node = rank.node;
    const name = make('th', node + ' · ' + count(list.filter((one) => one.node === node).length, 'rank'));
    name.scope = 'rowgroup';
    name.colSpan = columns.length;
    rows[i].before(having(make('tr', undefined, 'group'), name));
  });
  return out;
}

const codeOf = (rank, status) => ({ stopped: 'x', 'held by the kernel': 'x', paused: 'x', 'holds up': 'h', slow: 's', behind: 'b' })[kTroubles[severity(troubleOf(rank, status))]]
  || ({ wait: 'w', save: 'v', evaluate: 'e', start: 'e', end: '-' })[rank.activity] || '.';
function stripOf(status) {
  if (status.strip || status.ranks.length <= kRowsMax) return status.strip || [];
  const nodes = new Map();
  for (const rank of status.ranks) {
    if (!nodes.has(rank.node)) nodes.set(rank.node, { node: rank.node, first: rank.rank, codes: '' });
    nodes.get(rank.node).codes += codeOf(rank, status);
  }
  return [...nodes.values()];
}
const tallyOf = (codes) => Object.entries(kCodes).map(([code, words]) => [code, words, codes.split(code).length - 1]).filter(([, , number]) => number);
const cell = (code) => make('span', code === '.' ? '·' : code, 'cell code-' + (({ '.': 'train', '-': 'ended' })[code] || code));
function nodeCells({ node, first, codes }) {
  const cells = make('span', undefined, 'cells'), tally = tallyOf(codes).map(([, words, number]) => number + ' ' + words).join(', ');
  cells.append(...[...codes].map(cell));
  const out = having(make('div', undefined, 'node'), make('span', node, 'name'), cells);
  out.setAttribute('role', 'img');
  out.title = `${node}, ranks ${first} to ${first + codes.length - 1}: ${tally}`;
  out.setAttribute('aria-label', out.title);
  return out;
}
let stripShown = '';
function strip(status) {
  const nodes = stripOf(status), key = JSON.stringify(nodes);
  if (!show('strip', nodes.length) || key === stripShown) return;
  stripShown = key;
  const legend = make('ul', undefined, 'legend');
  for (const [code, words, number] of tallyOf(nodes.map((node) => node.codes).join(''))) {
    const sign = cell(code);
    sign.setAttribute('aria-hidden', 'true');
    legend.append(having(make('li'), sign, ' ' + number + ' ' + words));
  }
  const longest = (of) => Math.max(...nodes.map((node) => node[of].length)), grid = having(make('div', undefined, 'nodes'), ...nodes.map(nodeCells));
  grid.style.setProperty('--name', Math.min(longest('node'), 16) + 'ch');
  grid.style.setProperty('--ranks', Math.min(longest('codes'), 8));
  fill('strip', legend, grid);
}

function ranks() {
  const status = shown.status, list = status.ranks || [];
  if (!show('s-ranks', list.length)) return;
  const order = (rank) => severity(troubleOf(rank, status));
  const sorted = [...list].sort((a, b) => order(a) - order(b) || a.rank - b.rank), total = status.ranks_total || list.length;
  const again = restarted(status), top = list.length <= kRowsMax ? sorted
    : sorted.filter((rank) => troubleOf(rank, status) || (again && again.rank === rank.rank)).slice(0, kRowsMax);
  const times = list.some((rank) => sharesOf(rank));
  if (show('phases', times)) fill('phases', ...kPhases.map((phase) => having(make('li'), swatch(phase), ' ' + phase)));
  strip(status);
  fill('ranks', top.length ? rankTable(top, 'Ranks') : '');
  if (!show('more', list.length > kRowsMax)) return;
  put(at('h-more'), list.length < total ? `${list.length} of ${whole(total)} ranks by node: those in trouble, and the first ones` : `All ${total} ranks by node`);
  if (at('more').open) fill('folded', rankTable([...list].sort((a, b) => a.rank - b.rank), 'Ranks by node', true));
}

function lines() {
  const status = shown.status, all = (status.ranks || []).filter((rank) => rank.last_output).map((rank) => [rank.last_output, 'rank ' + rank.rank]);
  const one = status.last_output, where = one && [known(one.rank) ? 'rank ' + one.rank : '', one.node].filter(Boolean).join(' on ');
  if (!all.length && one) all.push([one, where]);
  if (!show('s-output', all.length && !known(status.step))) return;
  fill('output', ...all.slice(0, kRowsMax).map(([line, who]) => having(make('p', undefined, 'line'),
    having(make('span', undefined, 'from'), who + ', ', age(line.age_seconds, '', ' ago')), make('code', line.line))));
}

// Of few ranks the rows tell it.
function slowest() {
  const named = new Map((shown.status.slow_ranks || []).map((slow) => [slow.phase + slow.rank, slow.ratio]));
  const rows = (shown.status.slowest || []).map((one) => [one.phase, String(one.rank), one.node, duration(one.seconds), duration(one.median_seconds),
    named.has(one.phase + one.rank) ? make('span', short(named.get(one.phase + one.rank), 2) + '×', 'badge attention') : '']);
  if (show('s-slow', rows.length && (shown.status.ranks || []).length > kRowsMax))
    fill('slow', table('Slowest rank of each phase in this round', [['Phase'], ['Rank', 'number'], ['Node', 'roomy'], ['Time', 'number'], ['Median', 'number'], ['']], rows));
}
// Where some node is not well; of many nodes only those.
function nodes() {
  const silent = new Set(shown.status.silent_nodes || []), all = shown.status.nodes || [];
  const well = (node) => node.state === 'active' && !silent.has(node.name) && !node.reason;
  const many = all.length > kNodesMax, sorted = [...all.filter((node) => !well(node)), ...many ? [] : all.filter(well)].slice(0, 64), why = all.some((node) => node.reason);
  const range = (list) => !list || !list.length ? '–' : list.length > 1 ? list[0] + '–' + list[list.length - 1] : String(list[0]);
  const rows = sorted.map((node) => ({ className: well(node) ? '' : 'row-attention',
    cells: [node.name, node.state + (silent.has(node.name) ? ', no answer' : ''), range(node.ranks), ...why ? [node.reason] : []] }));
  const tallies = {};
  for (const node of all) tallies[node.state] = (tallies[node.state] || 0) + 1;
  const shownHere = show('s-nodes', all.some((node) => !well(node)));
  at('s-slow').classList.toggle('whole', !shownHere);
  at('s-nodes').classList.toggle('whole', at('s-slow').hidden);
  put(at('h-nodes'), 'Nodes: ' + Object.entries(tallies).map(([state, number]) => number + ' ' + state).join(', '));
  fill('nodes', table('Nodes', [['Node'], ['State'], ['Ranks', 'number'], ...why ? [['Why']] : []], rows));
  reachable('nodes', 'table of nodes');
}
