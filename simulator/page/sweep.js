'use strict';
// Points of a sweep: time against memory, and a table.
const {grid, points, model} = data;
const done = points.filter((point) => !point.error);
let coloured = 0;     // index of the axis that colours show
let logarithmic = false;
let chosen = null;

const nameOf = (point) =>
  grid.map((axis, i) => `${axis.key}=${point.values[i]}`).join(', ');
const SWEEP_HUES = ['#4878a8', '#e8912d', '#6fb3a8', '#c8372d', '#8d7cb8',
                    '#94a84e', '#c59fc9', '#7a8591', '#c9a227', '#5f9ed1'];
const hue = (point) => {
  const at = grid[coloured].values.indexOf(point.values[coloured]);
  return SWEEP_HUES[at % SWEEP_HUES.length];
};

// Most models have tokens; others count images or samples.
const unit = [...new Set(done.map((p) => p.unit || 'tokens'))].join(' or ');
const rate = (point) => point.batch ? count(point.tokens_per_s).trim() : '';

function choose(point) {
  chosen = point;
  drawPlot();
  drawTable();
  const row = document.querySelector('tr.chosen');
  if (row) row.scrollIntoView({block: 'nearest'});
}

function scale(values, from, to, log) {
  let low = Math.min(...values), high = Math.max(...values);
  if (log) {
    low = Math.log(low) - .05;
    high = Math.log(high) + .05;
    return {at: (v) => from + (Math.log(v) - low) / (high - low) * (to - from),
            ticks: [1, 2, 5].flatMap((f) => [...Array(13).keys()].map(
              (p) => f * Math.pow(10, p - 3))).filter((v) =>
              Math.log(v) >= low && Math.log(v) <= high)};
  }
  // The points fill the plot; 0 is there where it is near.
  const room = (high - low || high || 1) * .06;
  low = low < (high - low) / 4 ? 0 : Math.max(0, low - room);
  high += room;
  const step = niceStep(high - low, 9), ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) {
    ticks.push(v);
  }
  return {at: (v) => from + (v - low) / (high - low) * (to - from), ticks};
}

const plot = el('div', {class: 'panel'});
function drawPlot() {
  const width = Math.max(600, plot.clientWidth - 24), height = 420;
  const root = svg('svg', {width, height});
  plot.replaceChildren(root);
  if (done.length === 0) return;
  // In the units of the table.
  const most = (key) => Math.max(...done.map((p) => p[key]));
  const [perTime, timeName] = TIME_UNITS[unitOf(most('makespan_us'))];
  const byteUnit = byteUnitOf(most('peak_bytes'));
  const perBytes = Math.pow(1024, byteUnit);
  const x = scale(done.map((p) => p.makespan_us / perTime), 70, width - 20,
                  logarithmic);
  const y = scale(done.map((p) => p.peak_bytes / perBytes), height - 44, 24,
                  logarithmic);
  for (const tick of x.ticks) {
    root.append(
      svg('line', {x1: x.at(tick), x2: x.at(tick), y1: 14, y2: height - 44,
                   class: 'grid'}),
      svg('text', {x: x.at(tick), y: height - 26, 'text-anchor': 'middle'},
          +tick.toPrecision(6)));
  }
  for (const tick of y.ticks) {
    root.append(
      svg('line', {x1: 70, x2: width - 20, y1: y.at(tick), y2: y.at(tick),
                   class: 'grid'}),
      svg('text', {x: 62, y: y.at(tick) + 4, 'text-anchor': 'end'},
          +tick.toPrecision(6)));
  }
  root.append(
    svg('text', {x: width - 20, y: height - 8, 'text-anchor': 'end'},
        'makespan, ' + timeName),
    svg('text', {x: 74, y: 12}, 'peak memory, ' + BYTE_UNITS[byteUnit]));
  // Points of other work or another machine have a front of their own.
  const fronts = new Map();
  for (const point of done.filter((p) => p.pareto)) {
    const kind = JSON.stringify(point.values.filter(
      (_, i) => /^(machine|expert-capacity|dim\..*|set\..*)$/.test(grid[i].key)));
    fronts.set(kind, [...(fronts.get(kind) || []), point]);
  }
  for (const front of fronts.values()) {
    const places = front.sort((a, b) => a.makespan_us - b.makespan_us)
      .map((p) => `${x.at(p.makespan_us / perTime)},` +
        y.at(p.peak_bytes / perBytes));
    root.append(svg('polyline', {points: places.join(' '),
                                 class: 'front'}));
  }
  for (const point of done) {
    const dot = svg('circle', {
      cx: x.at(point.makespan_us / perTime),
      cy: y.at(point.peak_bytes / perBytes),
      r: point === chosen ? 8 : point.pareto ? 6 : 4.5,
      fill: point.fits ? hue(point) : 'var(--panel)',
      stroke: point === chosen || (point.fits && point.pareto) ?
        'var(--ink)' : hue(point),
      'stroke-width': 1.4, 'fill-opacity': .85});
    dot.onmousemove = (event) => showTip(event, nameOf(point), [
      ['makespan', time(point.makespan_us)],
      [unit + ' a second', rate(point)],
      ['bubble', percent(point.bubble)],
      ['exposed', time(point.exposed_comm_us)],
      ['MFU', percent(point.mfu)],
      ['peak memory', bytes(point.peak_bytes)],
      ['fits', point.fits ? '' : 'no, a device has ' +
        bytes(point.capacity_bytes)],
      ['Pareto front', point.pareto ? 'yes' : ''],
    ]);
    dot.onmouseleave = hideTip;
    dot.onclick = () => choose(point);
    root.append(dot);
  }
}

const legend = el('div', {class: 'legend'});
function drawLegend() {
  legend.replaceChildren(
    ...grid[coloured].values.map((value, i) => el('span', {},
      el('i', {style: `background: ${SWEEP_HUES[i % SWEEP_HUES.length]}`}),
      `${grid[coloured].key}=${value}`)),
    el('span', {}, 'outlined and joined: Pareto front; hollow: does not fit' +
      (done.some((p) => p.tie) ? '; ~: a tie, another point of the same ' +
        'work differs by less than the noise of the search' : '')));
}

const rows = el('div', {class: 'points'});
function drawTable() {
  const number = (key, show) => ({
    head: key[0], value: (p) => p.error ? undefined : p[key[1]],
    show: (p) => p.error ? '' : show(p[key[1]])});
  const note = (p) => p.error || (!p.fits ? 'does not fit: ' +
    bytes(p.peak_bytes - p.capacity_bytes) + ' too much' :
    p.pareto ? 'Pareto front' : '');
  const time = timesLike(Math.max(0, ...done.map((p) => p.makespan_us)));
  const peak = bytesLike(Math.max(0, ...done.map((p) => p.peak_bytes)));
  rows.replaceChildren(table([
    ...grid.map((axis, i) => ({head: axis.key, text: true,
                               value: (p) => p.values[i]})),
    number(['devices', 'devices'], String),
    {head: 'makespan', value: (p) => p.error ? undefined : p.makespan_us,
     show: (p) => p.error ? '' : time(p.makespan_us) + (p.tie ? ' ~' : '')},
    {head: unit + '/s', value: (p) => p.error ? undefined : p.tokens_per_s,
     show: (p) => p.error ? '' : rate(p)},
    number(['lower bound', 'lower_bound_us'], time),
    number(['bubble', 'bubble'], percent),
    number(['exposed', 'exposed_comm_us'], time),
    number(['MFU', 'mfu'], percent),
    number(['by formula', 'formula'], percent),
    number(['peak memory', 'peak_bytes'], peak),
    number(['tiles', 'tiles'], (tiles) => tiles || ''),
    {head: '', text: true, wide: true, value: note},
  ], points, {most: points.length, row: (point, line) => {
    line.classList.toggle('chosen', point === chosen);
    line.classList.toggle('off', !!point.error || !point.fits);
    line.onclick = () => choose(point);
  }}));
  rows.firstChild.style.maxHeight = 'none';
}

const best = done.filter((point) => point.fits)
  .sort((a, b) => a.makespan_us - b.makespan_us)[0];
page.append(
  el('h1', {}, model),
  el('div', {class: 'soft'},
     `${some(points.length, 'point')}, ${done.length} simulated, ` +
     `${done.filter((point) => point.fits).length} fit`),
  best ? el('div', {class: 'cards'},
            card(time(best.makespan_us), 'fastest that fits', nameOf(best)),
            card(rate(best), `its ${unit} a second`),
            card(percent(best.mfu), 'its MFU'),
            card(bytes(best.peak_bytes), 'its peak memory')) : '',
  el('ul', {class: 'notes'},
     ...(data.notes || []).map((note) => el('li', {}, note))),
  el('h2', {}, 'Time against memory'),
  el('div', {class: 'bar'},
     el('label', {}, 'colours: ', el('select', {onchange: (event) => {
       coloured = event.target.selectedIndex;
       drawLegend();
       drawPlot();
     }}, ...grid.map((axis) => el('option', {}, axis.key)))),
     el('label', {}, el('input', {type: 'checkbox', onchange: (event) => {
       logarithmic = event.target.checked;
       drawPlot();
     }}), ' logarithmic')),
  legend, plot, el('h2', {}, 'Points'), rows);
drawLegend();
drawTable();
drawPlot();
addEventListener('resize', drawPlot);
document.body.dataset.ready = 'yes';
