// Shows a job: {now, status, samples, rounds, marks}, from the agent's /live or, in a report's file, from the element "data".
const kSamplesMax = 1024, kSilentMs = 30000, kRetryMs = 1000;
const shown = { now: 0, status: {}, samples: [], rounds: [], marks: [] };
let live = null, gone = '', over = null, heard = 0, received = 0, taken = 0, follows = false;

// Seconds since the last update, where time goes on: not in a report, without contact, or after the job's end.
function elapsed() {
  return follows && !gone && !over && shown.now ? (performance.now() - taken) / 1000 : 0;
}

function showAll() {
  ages = [];
  head();
  at('content').hidden = !shown.now;
  if (!shown.now) return;
  report();
  now();
  ranks();
  lines();
  charts();
  rounds();
  slowest();
  nodes();
}

function take(event, data) {
  if (event === 'ended') {
    over = data.condition || { kind: 'ended', level: 'over', seconds: null, why: '', text: data.text };
    return showAll();
  }
  over = null;
  gone = '';
  taken = performance.now();
  shown.now = data.now;
  shown.status = data.status;
  if (event === 'whole') seen.clear();
  for (const field of ['samples', 'rounds', 'marks']) shown[field] = data[field] || (event === 'whole' ? [] : shown[field]);
  if (data.sample) shown.samples.push(data.sample);
  if (shown.samples.length > kSamplesMax) shown.samples = shown.samples.filter((_, i, all) => i % 2 === 0 || i + 1 === all.length);
  noteTimes(data.status, data.now);
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
  if (shown.now) showAll();
  else put(at('state'), gone);
  setTimeout(follow, kRetryMs);
}
function ask(wrong) {
  sessionStorage.removeItem('ddprun-token');
  if (wrong) at('asked').textContent = 'That was not the job\'s metrics token. It is in the file of --metrics-token-file.';
  at('ask').hidden = false;
  put(at('state'), 'needs a token');
  at('token').focus();
}
at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem('ddprun-token', at('token').value.trim());
  at('token').value = '';
  at('ask').hidden = true;
  put(at('state'), 'connecting');
  follow();
});

prepareCharts();
at('more').addEventListener('toggle', () => { if (shown.now) ranks(); });
window.addEventListener('resize', () => { if (shown.now) showAll(); });
const inside = at('data').textContent;
if (inside) {
  take('whole', JSON.parse(inside));
} else {
  follows = true;
  setInterval(() => { if (live && Date.now() - heard > kSilentMs) live.abort(); }, 5000);
  setInterval(growAges, 1000);
  follow();
}
