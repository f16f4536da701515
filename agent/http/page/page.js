'use strict';
// Shows a job: {now, status, samples, rounds}, from the agent's /live or, in a report's file, from the element "data".
// Samples are [time, step, steps per second, loss, useful share]. All text goes in by textContent.
(() => {
  const kTimeKinds = [
    ['productive', 'training and evaluation that count'], ['start', 'starting workers'], ['restore', 'data, snapshot, process group'],
    ['save', 'waiting for snapshots'], ['lost_work', 'steps done again'], ['hang', 'hangs'], ['stop', 'stopping workers'],
    ['waiting', 'waiting for nodes, back-off'],
  ];
  const kSamplesMax = 1024, kRoundRowsMax = 50, kSilentMs = 30000, kRetryMs = 1000;
  const kSvg = 'http://www.w3.org/2000/svg';
  const at = (id) => document.getElementById(id);
  const shown = { now: 0, status: {}, samples: [], rounds: [] };
  let live = null, gone = '', ended = '', heard = 0, received = 0;

  // Text and elements.
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
  const soft = (text) => make('p', text, 'soft');
  const known = (value) => typeof value === 'number' && Number.isFinite(value);
  function short(value, digits = 3) {
    if (!known(value)) return '–';
    const size = Math.abs(value);
    if (size > 0 && size < 0.001) return value.toExponential(digits - 1);
    return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(digits)));
  }
  // As rendezvous/base/loss_text.h has it: four digits.
  function lossText(value) {
    if (!known(value)) return '–';
    const text = value.toExponential(3), power = Number(text.split('e')[1]);
    return power < -4 || power > 3 ? text.replace(/([-+])(\d)$/, (_, sign, digit) => sign + '0' + digit) : value.toFixed(3 - power);
  }
  function duration(seconds) {
    if (!known(seconds)) return '–';
    if (seconds < 60) return (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + ' s';
    if (seconds < 3600) return Math.floor(seconds / 60) + ' min ' + Math.floor(seconds % 60) + ' s';
    if (seconds < 86400) return Math.floor(seconds / 3600) + ' h ' + Math.floor(seconds % 3600 / 60) + ' min';
    return Math.floor(seconds / 86400) + ' d ' + Math.floor(seconds % 86400 / 3600) + ' h';
  }
  const memory = (bytes) => !bytes ? '–' : bytes < 2 ** 30 ? Math.round(bytes / 2 ** 20) + ' MiB' : (bytes / 2 ** 30).toFixed(1) + ' GiB';
  const clock = (ms) => new Date(ms).toTimeString().slice(0, 8);
  const percent = (share) => known(share) ? (100 * share).toFixed(1) + ' %' : '–';
  const count = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');

  // `columns`: [heading, right-aligned, only where there is room].
  function table(caption, columns, rows) {
    const out = make('table'), head = make('tr');
    out.setAttribute('aria-label', caption);
    const classes = columns.map(([, right, roomy]) => (right ? 'number ' : '') + (roomy ? 'roomy' : ''));
    columns.forEach(([heading], i) => {
      const cell = make('th', heading, classes[i]);
      cell.scope = 'col';
      head.append(cell);
    });
    const top = make('thead'), body = make('tbody');
    top.append(head);
    for (const row of rows) {
      const line = make('tr');
      row.forEach((value, i) => {
        const cell = make('td', undefined, classes[i]);
        value instanceof Node ? cell.append(value) : cell.textContent = value;
        line.append(cell);
      });
      body.append(line);
    }
    out.append(top, body);
    return out;
  }

  // Charts.
  let wide = 560;
  const kHigh = 150, kLeft = 52, kBottom = 20, kTop = 8;
  function chart(id, index, name, words = short) {
    wide = Math.max(at(id).clientWidth, 200);
    const points = shown.samples.filter((sample) => known(sample[index]));
    if (points.length < 2) return at(id).replaceChildren(soft(points.length ? name + ': ' + words(points[0][index]) : 'not known (yet)'));
    const from = points[0][0], to = Math.max(points[points.length - 1][0], from + 1);
    let least = Math.min(...points.map((p) => p[index])), most = Math.max(...points.map((p) => p[index]));
    if (index === 2) least = 0;
    if (most <= least) { most = least + (Math.abs(least) || 1); }
    const x = (time) => kLeft + (wide - kLeft - 8) * (time - from) / (to - from);
    const y = (value) => kTop + (kHigh - kTop - kBottom) * (most - value) / (most - least);
    const last = points[points.length - 1];
    const svg = draw('svg', { viewBox: `0 0 ${wide} ${kHigh}`, role: 'img',
      'aria-label': `${name} from ${clock(from)} to ${clock(to)}: from ${words(least)} to ${words(most)}, last ${words(last[index])}` });
    svg.append(draw('path', { class: 'axis', d: `M${kLeft} ${kTop}V${kHigh - kBottom}H${wide - 8}` }));
    for (const value of [least, most])
      svg.append(draw('text', { x: kLeft - 6, y: y(value) + (value === most ? 8 : 0), 'text-anchor': 'end' }, words(value)));
    svg.append(draw('text', { x: kLeft, y: kHigh - 5 }, clock(from)), draw('text', { x: wide - 8, y: kHigh - 5, 'text-anchor': 'end' }, clock(to)));
    const shape = points.map((p, i) => (i ? 'L' : 'M') + x(p[0]).toFixed(1) + ' ' + y(p[index]).toFixed(1)).join('');
    svg.append(draw('path', { class: 'curve', d: shape }), draw('circle', { class: 'dot', cx: x(last[0]), cy: y(last[index]), r: 3 }));
    at(id).replaceChildren(svg, soft('Last: ' + words(last[index])));
  }

  const causes = (round) => Object.entries(round.causes || {}).map(([cause, times]) => cause + (times > 1 ? ' × ' + times : '')).join(', ');
  const numbers = (round) => round.first === round.last ? String(round.first) : round.first + '–' + round.last;
  // A bar for each round, and a triangle where one ended.
  function timeline() {
    const rounds = shown.rounds;
    if (!rounds.length) {
      at('rounds').replaceChildren();
      return at('timeline').replaceChildren(soft('No round has been formed.'));
    }
    wide = Math.max(at('timeline').clientWidth, 200);
    const from = rounds[0].start, to = Math.max(shown.now, from + 1), high = 62;
    const x = (time) => 8 + (wide - 16) * (Math.min(Math.max(time, from), to) - from) / (to - from);
    const svg = draw('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': count(rounds[rounds.length - 1].last, 'round') + ' over time; the table has them' });
    for (const round of rounds) {
      const begin = x(round.start), end = x(round.end === null ? to : round.end);
      const bar = draw('rect', { class: 'round', x: begin, y: 16, width: Math.max(end - begin, 1), height: 18 });
      bar.append(draw('title', {}, 'round ' + numbers(round) + (causes(round) ? ', ended by ' + causes(round) : '')));
      svg.append(bar);
      if (end - begin > 24) svg.append(draw('text', { x: begin + 4, y: 29 }, numbers(round)));
      if (round.end !== null && causes(round)) svg.append(draw('path', { class: 'cause', d: `M${end} 16l-5 -9h10z` }));
    }
    svg.append(draw('text', { x: 8, y: 52 }, clock(from)), draw('text', { x: wide - 8, y: 52, 'text-anchor': 'end' }, clock(to)));
    at('timeline').replaceChildren(svg, soft('A triangle is the end of a round; the table says why.'));
    const rows = rounds.slice(-kRoundRowsMax).reverse().map((round) => [numbers(round), clock(round.start),
      duration(((round.end === null ? shown.now : round.end) - round.start) / 1000), round.end === null ? 'runs' : causes(round) || '–']);
    const list = make('div', undefined, 'tall');
    list.tabIndex = 0;
    list.setAttribute('role', 'region');
    list.setAttribute('aria-label', 'table of rounds');
    list.append(table('Rounds', [['Round'], ['Began'], ['Lasted', true], ['Ended by']], rows));
    at('rounds').replaceChildren(list);
    if (rounds.length > kRoundRowsMax) list.append(soft(`The last ${kRoundRowsMax} of ${rounds.length} are listed.`));
  }

  function bar(share, other) {
    const svg = draw('svg', { viewBox: '0 0 100 12', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    svg.append(draw('rect', { class: other ? 'fill other' : 'fill', x: 0, y: 1, width: Math.max(100 * share, share > 0 ? 0.5 : 0), height: 10 }));
    const out = make('div', undefined, 'bar');
    out.append(svg);
    return out;
  }
  function times() {
    const time = shown.status.time;
    if (!time || !known(time.total)) return at('time').replaceChildren(soft('not known (yet)'));
    const share = (seconds) => time.total > 0 ? seconds / time.total : 0;
    const named = kTimeKinds.filter(([kind]) => known(time[kind]));
    at('time').replaceChildren(table('Where the time went', [['Kind'], ['Time', true], ['Share', true], [''], ['What', false, true]],
      named.map(([kind, words]) => [kind, duration(time[kind]), percent(share(time[kind])), bar(share(time[kind]), kind !== 'productive'), words])));
  }

  function stateText(status) {
    if (status.problem) return 'unknown: ' + status.problem;
    return status.state + (status.round ? ', round ' + status.round : '') + (status.error ? ': ' + status.error : '');
  }
  function now() {
    const status = shown.status, restarts = status.restarts || {}, list = [];
    const add = (name, value, wide) => {
      const group = make('div', undefined, wide ? 'wide' : '');
      group.append(make('dt', name), make('dd', value));
      list.push(group);
    };
    if (known(status.state_seconds)) add('In this state for', duration(status.state_seconds));
    add('Useful share (ETTR)', percent(status.time && status.time.useful_share));
    const silent = (status.ranks || []).length && status.ranks.every((rank) => rank.silent);
    add('Step', silent ? 'not told; --watch=see tells it of a Python script' : short(status.step) + (known(status.total_steps) ? ' of ' + short(status.total_steps) : ''));
    if (status.progress) add('Progress', status.progress.text);
    add('Steps per second', short(status.steps_per_second));
    add('Loss', lossText(status.loss));
    add('Snapshot', known(status.snapshot_step) ? 'step ' + short(status.snapshot_step) +
      (known(status.snapshot_age_seconds) ? ', ' + duration(status.snapshot_age_seconds) + ' ago' : '') : '–');
    if (known(status.world_size)) add('Ranks', short(status.world_size));
    const byCause = Object.entries(restarts.by_cause || {}).filter(([, times]) => times).map(([cause, times]) => cause.replace(/_/g, ' ') + ' ' + times);
    if (known(restarts.charged)) add('Restarts', restarts.charged + ' of ' + restarts.limit + (byCause.length ? ' (' + byCause.join(', ') + ')' : ''));
    if (known(status.starts)) add('Starts of the job', String(status.starts));
    if (status.answered_by) add('Told by', status.answered_by);
    const line = status.last_output;
    if (line && !known(status.step)) add('Last line of output', 'at ' + clock(shown.now - 1000 * line.age_seconds) +
      (known(line.rank) && status.ranks.length > 1 ? ', rank ' + line.rank : '') + ((status.nodes || []).length > 1 ? ' on ' + line.node : '') + ': ' + line.line, true);
    if (status.waits_for && status.waits_for.text) add('Waits for', status.waits_for.text, true);
    at('now').replaceChildren(...list);
  }

  function slowest() {
    const named = new Map((shown.status.slow_ranks || []).map((slow) => [slow.phase + slow.rank, slow.ratio]));
    const rows = (shown.status.slowest || []).map((one) => [one.phase, String(one.rank), one.node, duration(one.seconds), duration(one.median_seconds),
      named.has(one.phase + one.rank) ? 'slow: ' + short(named.get(one.phase + one.rank)) + ' × the median' : '']);
    at('slow').replaceChildren(rows.length ? table('Slowest ranks by phase',
      [['Phase'], ['Rank', true], ['Node', false, true], ['Time', true], ['Median', true], ['']], rows) : soft('not known (yet)'));
  }

  function nodes() {
    const silent = new Set(shown.status.silent_nodes || []);
    const all = shown.status.nodes || [];
    const rows = all.slice(0, 64).map((node) => [node.name, node.state + (silent.has(node.name) ? ', no answer' : ''),
      node.ranks && node.ranks.length ? (node.ranks.length > 1 ? node.ranks[0] + '–' + node.ranks[node.ranks.length - 1] : String(node.ranks[0])) : '–', node.reason || '']);
    const tallies = {};
    for (const node of all) tallies[node.state] = (tallies[node.state] || 0) + 1;
    const words = Object.entries(tallies).map(([state, n]) => n + ' ' + state).join(', ');
    const list = make('div', undefined, 'tall');
    list.tabIndex = 0;
    list.setAttribute('role', 'region');
    list.setAttribute('aria-label', 'table of nodes');
    list.append(table('Nodes', [['Node'], ['State'], ['Ranks', true], ['Why']], rows));
    at('nodes').replaceChildren(soft((words || 'not known (yet)') + (all.length > 64 ? '; the first 64 are listed' : '')), list);
  }

  function ranks() {
    const list = shown.status.ranks || [], total = shown.status.ranks_total || list.length;
    const furthest = Math.max(0, ...list.map((rank) => rank.step || 0));
    at('cut').hidden = total <= list.length;
    at('cut').textContent = `${list.length} of ${total} ranks are listed: those that others wait for, slow and stopped ones, and the first ones.`;
    at('ranks').replaceChildren(table('Ranks', [['Rank', true], ['Node'], ['Does'], ['Since', true, true], ['Step', true], ['Behind', true], ['CPU', true, true], ['Memory', true, true]],
      list.map((rank) => [String(rank.rank), rank.node, rank.activity + (rank.collective ? ' (' + rank.collective + ')' : '') +
        (rank.paused ? ', paused' : rank.stopped ? ', stopped by a signal' : ''), duration(rank.age_seconds), short(rank.step),
      known(rank.step) ? short(furthest - rank.step) : '–', percent(rank.processors), memory(rank.memory_bytes)])));
  }

  function put(element, text) { if (element.textContent !== text) element.textContent = text; }
  // Only the state is announced, and only when its words change: not each second.
  let announced = '';
  function head() {
    const status = shown.status, name = status.run_id || 'ddprun';
    put(at('job'), name);
    document.title = name + (ended ? ' – ended' : gone ? ' – no contact' : status.state ? ' – ' + status.state : '');
    const key = [status.state, status.round, status.problem, ended].join();
    if (key !== announced) at('state').textContent = ended || stateText(status);
    announced = key;
    at('contact').hidden = !gone || Boolean(ended);
    put(at('contact'), gone ? gone + (shown.now ? ' The values are of ' + clock(shown.now) + '.' : '') + ' It is tried again each second.' : '');
  }
  function showAll() {
    head();
    at('content').hidden = !shown.now;
    if (!shown.now) return;
    const text = shown.status;
    now();
    chart('pace', 2, 'Steps per second');
    chart('loss', 3, 'Loss', lossText);
    timeline();
    times();
    at('s-slow').hidden = at('s-nodes').hidden = at('s-ranks').hidden = Boolean(text.finished);
    if (text.finished) return;
    slowest();
    nodes();
    ranks();
  }

  function take(event, data) {
    if (event === 'ended') {
      ended = data.text;
      return showAll();
    }
    ended = gone = '';
    shown.now = data.now;
    shown.status = data.status;
    if (data.samples) shown.samples = data.samples;
    if (data.sample) shown.samples.push(data.sample);
    if (shown.samples.length > kSamplesMax) shown.samples = shown.samples.filter((_, i, all) => i % 2 === 0 || i + 1 === all.length);
    if (data.rounds) shown.rounds = data.rounds;
    document.documentElement.dataset.events = String(++received);
    showAll();
  }

  // Server-sent events by fetch(), which can send the token; EventSource cannot.
  function parseEvents(text) {
    const blocks = text.split('\n\n');
    const rest = blocks.pop();
    for (const block of blocks) {
      let event = 'message';
      const lines = [];
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) event = line.slice(7);
        if (line.startsWith('data: ')) lines.push(line.slice(6));
      }
      if (lines.length) take(event, JSON.parse(lines.join('\n')));
    }
    return rest;
  }
  async function read(token) {
    live = new AbortController();
    const answer = await fetch('live', { headers: token ? { Authorization: 'Bearer ' + token } : {}, signal: live.signal, cache: 'no-store', credentials: 'omit' });
    if (answer.status === 401) return 'token';
    if (answer.status !== 200) throw new Error((await answer.text()).trim());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = '';;) {
      const { value, done } = await reader.read();
      if (done) return 'end';
      heard = Date.now();
      rest = parseEvents(rest + value);
    }
  }
  async function follow() {
    const token = sessionStorage.getItem('ddprun-token');
    let how = '';
    heard = Date.now();
    try {
      how = await read(token);
    } catch (error) {
      how = error.message.startsWith('503') ? error.message : 'end';
    }
    if (how === 'token') return ask(Boolean(token));
    gone = how === 'end' ? 'The agent is gone or out of reach.' : 'The agent refuses: ' + how;
    head();
    if (!shown.now) at('state').textContent = gone;
    setTimeout(follow, kRetryMs);
  }
  function ask(wrong) {
    sessionStorage.removeItem('ddprun-token');
    if (wrong) at('asked').textContent = 'That was not the job\'s metrics token. It is in the file of --metrics-token-file.';
    at('ask').hidden = false;
    at('state').textContent = 'needs a token';
    at('token').focus();
  }
  at('ask').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem('ddprun-token', at('token').value.trim());
    at('token').value = '';
    at('ask').hidden = true;
    at('state').textContent = 'connecting';
    follow();
  });

  window.addEventListener('resize', () => { if (shown.now) showAll(); });
  const data = at('data').textContent;
  if (data) return take('whole', JSON.parse(data));
  setInterval(() => { if (live && Date.now() - heard > kSilentMs) live.abort(); }, 5000);
  follow();
})();
