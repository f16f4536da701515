// Ticks of axes, at round values. Pure.

// The round number at or above `rough`: 1, 2 or 5 times a power of ten.
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999) * power;
}
function numberTicks(least, most, step) {
  const out = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most + step * 1e-9; ++i) out.push(Number((i * step).toPrecision(12)));
  return out;
}
// 1, 2 and 5 times powers of ten.
function logTicks(least, most) {
  const out = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); ++power)
    for (const digit of [1, 2, 5]) out.push(Number((digit * 10 ** power).toPrecision(3)));
  return out.filter((value) => value >= 0.999 * least && value <= 1.001 * most);
}
const kTimeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((seconds) => 1000 * seconds);
// Of local time: [milliseconds, words].
function timeTicks(from, to, number) {
  const rough = (to - from) / number, days = Math.ceil(rough / 86400000) * 86400000;
  const step = kTimeSteps.find((one) => one >= rough) || days, offset = 60000 * new Date(from).getTimezoneOffset(), out = [];
  const words = (ms) => step < 86400000 ? clock(ms, step < 60000) : new Date(ms).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) out.push([time, words(time)]);
  return out;
}
