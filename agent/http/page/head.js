// The band on top, the large figures, and what is small below them; of a report its failure and what it is of.
const kSigns = { good: 'M7.5 12.5l3 3 6-7', busy: 'M7.5 12h.01M12 12h.01M16.5 12h.01', attention: 'M12 7v6M12 16.5v.01', bad: 'M8.5 8.5l7 7M15.5 8.5l-7 7', over: 'M8.5 8.5h7v7h-7z', done: 'M7.5 12.5l3 3 6-7', lost: 'M9.5 9.5a2.5 2.5 0 1 1 3.4 2.3c-.7.3-.9.7-.9 1.5M12 16.5v.01' };
const kColours = { good: '#1a7f37', busy: '#0969da', attention: '#b35900', bad: '#c6212e', over: '#57606a', done: '#57606a', lost: '#57606a' };
const kSilentHint = ['This script reports no steps. Started with ', 'ddprun --watch=see', ', a Python script that uses PyTorch shows steps, pace and hangs here, without a change to it.'];

function stateText(status) {
  if (status.problem) return 'unknown: ' + status.problem;
  return (status.state || 'unknown') + (status.round ? ', round ' + status.round : '') + (status.error ? ': ' + status.error : '');
}
// How the job is; of an agent that does not say it, what its state says.
function conditionOf(status) {
  if (status.condition) return status.condition;
  const level = { running: 'good', starting: 'busy', over: 'over', succeeded: 'over', failed: 'bad' }[status.state] || 'attention';
  return { kind: status.problem ? 'unknown' : status.state || 'unknown', level: status.problem ? 'attention' : level, seconds: null, why: '', text: stateText(status) };
}
// Its sentence, with an age that grows.
function conditionText(condition, more) {
  if (!known(condition.seconds) || !more) return condition.text;
  return condition.text.replace(/ for \d[\d.]* (s|min|h|d)( \d+ (s|min|h))?/, ' for ' + duration(condition.seconds + more));
}

function sign(level) {
  const svg = draw('svg', { viewBox: '0 0 24 24' });
  return having(svg, draw('circle', { cx: 12, cy: 12, r: 10.5, class: 'ring' }), draw('path', { d: kSigns[level], class: 'glyph' }));
}
function icon(level) {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><circle cx="12" cy="12" r="12" fill="${kColours[level]}"/>`
    + `<path d="${kSigns[level]}" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round"/></svg>`;
  const link = make('link');
  Object.assign(link, { id: 'icon', rel: 'icon', href: 'data:image/svg+xml,' + encodeURIComponent(svg) });
  at('icon').replaceWith(link);
}

// "48.4 %" and "22 min": what is known of it.
function progressParts(status) {
  const [done, left] = status.progress ? status.progress.text.split(', ') : [];
  if (done) return { done, left: left ? left.replace(/ left$/, '') : '' };
  if (!known(status.step) || !(status.total_steps > 0)) return null;
  return { done: (Math.floor(1000 * status.step / status.total_steps) / 10) + ' %', left: '' };
}
function facts(status) {
  const progress = progressParts(status), out = [];
  if (known(status.step)) out.push('step ' + whole(status.step) + (known(status.total_steps) ? ' of ' + whole(status.total_steps) : ''));
  if (progress) out.push(progress.done);
  if (progress && progress.left && !over) out.push(progress.left + ' left');
  return out;
}
function about(status) {
  const out = [], nodes = (status.nodes || []).filter((node) => node.state === 'active').length;
  const program = (status.program || '').split('/').pop();
  if (program && program !== status.run_id) out.push(program);
  if (known(status.world_size) && status.world_size) out.push(count(status.world_size, 'rank') + (nodes ? ' on ' + count(nodes, 'node') : ''));
  if (status.round) out.push('round ' + status.round);
  if (status.finished) out.push('report of ' + date(shown.now));
  return out.join(' · ');
}

// Only another kind of state is announced: not each second's words.
let announced = '', signShown = '';
function head() {
  const status = shown.status, name = status.run_id || 'ddprun', condition = over || conditionOf(status), lost = Boolean(gone) && !over;
  const well = condition.level === 'over' && /well|succeeded/.test(condition.text);
  const level = lost ? 'lost' : well ? 'done' : kSigns[condition.level] ? condition.level : 'attention', progress = progressParts(status);
  put(at('job'), name);
  put(at('about'), about(status));
  const running = condition.level === 'good' && progress ? ' ' + progress.done : '';
  document.title = (lost ? 'no contact' : condition.kind + running) + ' · ' + name;
  at('band').dataset.level = level;
  if (signShown !== level) {
    fill('sign', sign(level));
    icon(level);
    signShown = level;
  }
  const words = lost ? 'no contact; ' + clock(shown.now) + ': ' + condition.text : '';
  const sentence = aging(make('b'), (more) => words || conditionText(condition, more));
  fill('state', sentence, ...facts(status).flatMap((fact) => ['\u00a0· ', make('span', fact)]));
  const key = lost ? 'no contact' : condition.kind;
  if (key !== announced) put(at('said'), name + ': ' + (words || condition.text));
  announced = key;
  at('contact').hidden = !lost;
  put(at('contact'), lost ? gone + ' The values are of ' + clock(shown.now) + '. It is tried again each second.' : '');
}

function figure(label, value, unit, below, more, className) {
  const out = make('div', undefined, 'figure card ' + (className || ''));
  const number = having(make('p', undefined, 'value'), value, unit ? make('span', ' ' + unit, 'unit') : '');
  return having(out, make('p', label, 'label'), having(make('div', undefined, 'row'), number, more), make('p', below, 'below'));
}
function ring(share) {
  const length = 2 * Math.PI * 15, svg = draw('svg', { class: 'share', viewBox: '0 0 36 36', 'aria-hidden': 'true' });
  return having(svg, draw('circle', { class: 'track', cx: 18, cy: 18, r: 15 }),
    draw('circle', { class: 'part', cx: 18, cy: 18, r: 15, 'stroke-dasharray': `${(length * share).toFixed(2)} ${length.toFixed(2)}`, transform: 'rotate(-90 18 18)' }));
}
function progressFigure(status) {
  const progress = progressParts(status);
  if (!progress) return known(status.step) ? figure('Step', whole(status.step), '', status.finished ? '' : 'how many there will be is not told') : null;
  const share = status.progress ? status.progress.done_share : status.step / status.total_steps;
  return having(figure('Progress', progress.done, '', 'step ' + whole(status.step) + ' of ' + whole(status.total_steps)), bar([['productive', share]]));
}
function timeFigure(status, condition) {
  const report = status.report, progress = progressParts(status);
  const seconds = report ? (report.ended - report.began) / 1000 : null;
  if (known(seconds)) return figure('Took', duration(seconds), '', 'from ' + clock(report.began, seconds < 600) + ' to ' + clock(report.ended, seconds < 600));
  if (status.finished || over || !progress) return null;
  if (!progress.left) return figure('Time left', '–', '', condition.kind === 'stands still' ? 'while it stands still' : 'not known yet');
  const end = shown.now + 1000 * status.progress.seconds_left, today = new Date(end).toDateString() === new Date(shown.now).toDateString();
  return figure('Time left', progress.left, '', 'until about ' + (today ? '' : new Date(end).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' }) + ', ') + clock(end, false));
}
function paceFigure(status) {
  const pace = status.steps_per_second;
  if (!known(pace)) return null;
  const before = [...shown.samples].reverse().find((sample) => sample[2] > 0);
  const below = pace > 0 ? duration(1 / pace).replace(/^0\.\d s$/, Math.round(1000 / pace) + ' ms') + ' a step' : before ? paceText(before[2]) + ' before' : 'no step is done';
  return figure(status.finished ? 'Pace at the end' : 'Pace', paceText(pace), 'steps/s', below, sparkline(2), pace > 0 || status.finished ? '' : 'attention');
}
function usefulFigure(status) {
  const time = status.time || {};
  return known(time.useful_share) ? figure('Useful share', percent(time.useful_share), '', 'of ' + duration(time.total), ring(time.useful_share)) : null;
}
function silentFigures(status) {
  const ranks = status.ranks, used = ranks.filter((rank) => known(rank.processors)), largest = ranks.reduce((a, b) => b.memory_bytes > a.memory_bytes ? b : a);
  const sum = (list, field) => list.reduce((total, rank) => total + rank[field], 0);
  const runs = make('span'), line = status.last_output;
  return [
    figure('Runs for', aging(runs, (more) => duration(status.state_seconds + more)), '', 'since ' + clock(shown.now - 1000 * status.state_seconds)),
    used.length ? figure('CPU', sum(used, 'processors').toFixed(1), 'cores', 'of ' + count(ranks.length, 'rank')) : null,
    figure('Memory', memory(sum(ranks, 'memory_bytes')), '', 'largest: ' + memory(largest.memory_bytes) + ', rank ' + largest.rank),
    line ? figure('Last line of output', age(line.age_seconds), 'ago', 'on ' + line.node) : null,
  ];
}
const isSilent = (status) => (status.ranks || []).length > 0 && status.ranks.every((rank) => rank.silent) && status.activity !== 'start';

function smallFacts(status) {
  const out = [], restarts = status.restarts || {};
  const add = (name, wide, ...values) => out.push(having(make('div', undefined, wide ? 'wide' : ''), make('dt', name), having(make('dd'), ...values)));
  if (known(status.loss)) add('Loss', false, lossText(status.loss));
  if (known(status.snapshot_step)) add('Snapshot', false, 'step ' + whole(status.snapshot_step), ...known(status.snapshot_age_seconds) ? [', ', age(status.snapshot_age_seconds, '', ' ago')] : []);
  const byCause = Object.entries(restarts.by_cause || {}).filter(([, times]) => times).map(causeText);
  if (known(restarts.charged)) add('Restarts', false, restarts.charged + ' of ' + restarts.limit + (byCause.length ? ' (' + byCause.join(', ') + ')' : ''));
  if (known(status.state_seconds) && !isSilent(status) && !over) add('In this state', false, age(status.state_seconds));
  if (status.starts > 1) add('Starts of the job', false, String(status.starts));
  if (status.answered_by && (status.nodes || []).length > 1) add('Told by', false, status.answered_by);
  if (status.waits_for && status.waits_for.text && !status.condition) add('Waits for', true, status.waits_for.text);
  return out;
}
function now() {
  const status = shown.status, silent = isSilent(status), condition = over || conditionOf(status);
  put(at('h-now'), status.finished ? 'At the end' : over ? 'Last' : 'Now');
  const figures = (silent ? silentFigures(status) : [progressFigure(status), timeFigure(status, condition), paceFigure(status), usefulFigure(status)]).filter(Boolean);
  fill('figures', ...figures);
  at('figures').dataset.number = figures.length;
  const small = smallFacts(status);
  fill('now', ...small);
  show('figures', figures.length);
  show('now', small.length);
  show('s-now', figures.length + small.length);
  if (show('silent', silent && !status.finished && /(\.py|^)$/.test(status.program || ''))) fill('silent', kSilentHint[0], make('code', kSilentHint[1]), kSilentHint[2]);
  const last = status.last_failure;
  if (show('lately', last && last.age_seconds < 600)) fill('lately', make('b', 'Round ' + last.round + ' has failed '), age(last.age_seconds, '', ' ago'), ': ' + last.text + '.');
}

// What a report is of, its failure first.
function report() {
  const of = shown.status.report;
  if (!show('s-report', of)) return;
  put(at('h-report'), of.failure ? 'Why it failed' : 'The job');
  fill('failure', ...of.failure ? [having(make('pre'), of.failure)] : []);
  const pairs = [['Command', having(make('code'), of.command)], ['Began', date(of.began)], ['Ended', date(of.ended)], ['Host', of.host], ['Ranks', whole(of.ranks)]];
  fill('report', ...pairs.filter(([, value]) => value).map(([name, value]) => having(make('div', undefined, name === 'Command' ? 'wide' : ''), make('dt', name), having(make('dd'), value))));
  at('failure').className = of.failure ? 'failure' : '';
  reachable('failure', 'the failure');
}
