'use strict';
// The page of one step, or of two, which have names: before and after.
const {profiles, differences, names, heading: title} = data;
const last = profiles[profiles.length - 1];
const two = profiles.length > 1;

const where = (profile) => [
  profile.machine && 'on ' + profile.machine,
  `${profile.devices} device${profile.devices === 1 ? '' : 's'}`,
  profile.mesh].filter(Boolean).join(', ');

// "batch 4, 64 tokens, bf16", "batch 4, images of 32 x 32, f32".
function shape(profile) {
  const {batch, tokens, dtype, image} = profile.step || {};
  return !batch ? '' : [
    'batch ' + batch,
    tokens.length && tokens.join(' and ') +
      (tokens.join() === '1' ? ' token' : ' tokens'),
    image && 'images of ' + image.join(' x '),
    dtype].filter(Boolean).join(', ');
}

// The file without its folder, or a built-in model's name.
const shortName = (model) => model.replace(/^.*\/(?=[^/,]+\/[^/]+$)/, '');

function heading() {
  if (title) {
    page.append(el('h2', {}, title));
    return;
  }
  // Before is the same model.
  const first = profiles[0].model.replace(/, partitioned$/, '');
  const models = last.model === first ? [first] :
    profiles.map((profile) => profile.model);
  const facts = [...new Set(profiles.map((profile) =>
    [where(profile), shape(profile)].filter(Boolean).join('; ')))];
  page.append(
    el('h1', {title: models.join('\n')},
       models.map(shortName).join(' \u2192 ')),
    el('div', {class: 'soft'}, facts.join(' \u2192 ')));
}

// "1.36x faster", of the last step against the first; none where they tie or
// are steps of unlike devices.
function gain() {
  if (!two || apart) return null;
  const ratio = profiles[0].makespan_us / last.makespan_us;
  const than = `than ${names[0]} (${time(profiles[0].makespan_us)})`;
  const text = (factor) => factor.toFixed(2) + 'x';
  if (ratio >= 1.005) return card(text(ratio) + ' faster', than);
  if (ratio <= 1 / 1.005) return card(text(1 / ratio) + ' slower', than);
  return card('as fast', than.replace('than', 'as'));
}

function cards() {
  const bound = last.lower_bound_us;
  const capacity = last.memory.capacity_bytes;
  const needs = last.memory.device_bytes || last.memory.peak_bytes;
  const libraries = last.memory.device_bytes - last.memory.arena_bytes;
  const unit = unitOfStep(last);
  const list = [
    card(time(last.makespan_us), two ? names[1] : 'a step'),
    gain(),
    last.tokens_per_s ? card(count(last.tokens_per_s), unit + ' a second') :
      null,
    bound ? card(time(bound), 'lower bound',
                 'gap ' + percent(last.makespan_us / bound - 1)) : null,
    card(percent(last.bubble), 'bubble', 'no computation runs'),
    card(time(last.exposed_comm_us), 'exposed communication',
         'of ' + time(last.comm_us)),
    last.mfu ? card(percent(last.mfu), 'MFU') : null,
    last.power ? card(megahertz(last.power.clock_mhz), 'clock',
      watts(last.power.watts) + (last.power.clock_mhz < last.power.most_mhz ?
        ', at the limit of power' : '')) : null,
    needs ? card(bytes(needs), 'memory of the device',
      [!capacity ? '' : needs > capacity ?
        'DOES NOT FIT: ' + bytes(needs - capacity) + ' more than ' +
        bytes(capacity) : percent(needs / capacity) + ' of ' + bytes(capacity),
       libraries > needs / 10 ? bytes(libraries) + ' of it libraries' : '',
      ].filter(Boolean).join('; ')) : null,
  ];
  page.append(el('div', {class: 'cards'}, ...list));
  const notes = last.notes || [];
  if (notes.length > 0) {
    page.append(el('ul', {class: 'notes'},
                   ...notes.map((note) => el('li', {}, note))));
  }
}

function change(before, after, lessIsBetter = true) {
  if (!before) return '';
  const share = (after - before) / before;
  const text = (share > 0 ? '+' : '') + percent(share);
  if (Math.abs(share) < 5e-4 || lessIsBetter === null) return text;
  return el('span', {class: share < 0 === lessIsBetter ? 'good' : 'mark'},
            text);
}

// All axes that communicate before or after.
const exposedAxes = () => [...new Set(profiles.flatMap((profile) =>
  profile.exposed.map((entry) => entry.axes)))];

// What traces do not say is zero there.
const NOT_IN_TRACES = true;

function unitOfStep(profile) {
  return (profile.step || {}).unit || 'tokens';
}

function totals() {
  const time = timesLike(Math.max(...profiles.map((p) => p.makespan_us)));
  const rows = [
    ['makespan', (p) => p.makespan_us, time],
    [unitOfStep(last) + ' a second',
     (p) => p.tokens_per_s || 0, count, false, NOT_IN_TRACES],
    ['lower bound', (p) => p.lower_bound_us, time, true, NOT_IN_TRACES],
    ['computation', (p) => p.compute_us, time],
    ['communication', (p) => p.comm_us, time],
    ['exposed communication', (p) => p.exposed_comm_us, time],
    ...exposedAxes().map((axes) => ['\u2003over ' + axes, (p) =>
      p.exposed.find((entry) => entry.axes === axes)?.exposed_us || 0, time]),
    ['bubble', (p) => p.bubble, percent],
    ['MFU', (p) => p.mfu, percent, false, NOT_IN_TRACES],
    ['clock', (p) => (p.power || {}).clock_mhz || 0, megahertz, false,
     NOT_IN_TRACES],
    ['power of a device', (p) => (p.power || {}).watts || 0, watts, true,
     NOT_IN_TRACES],
    ['energy for a ' + unitOfStep(last).slice(0, -1),
     (p) => (p.power || {}).joules_per_token || 0, energy, true, NOT_IN_TRACES],
    ['peak memory', (p) => p.memory.peak_bytes, bytes, true, NOT_IN_TRACES],
    ['ops', (p) => p.ops.length, String, null],
    ['collectives', (p) => p.collectives, String, null],
  ];
  const [before, after] = profiles;
  const known = (row, p) => !row[4] || row[1](p) !== 0;
  const shown = (row, p) => known(row, p) ? row[2](row[1](p)) : '\u2013';
  page.append(el('div', {class: 'narrow'}, table([
    {head: '', text: true, value: (row) => row[0]},
    {head: names[0], value: (row) => row[1](before),
     show: (row) => shown(row, before)},
    {head: names[1], value: (row) => row[1](after),
     show: (row) => shown(row, after)},
    {head: 'change', value: (row) => row[1](after) / row[1](before),
     show: (row) => known(row, before) && known(row, after) ?
       change(row[1](before), row[1](after), row[3]) : ''},
  ], rows)));
}

function controls(views, recolour) {
  const all = (act) => () => views.forEach(act);
  const changed = all((view) => view.changed());
  const found = el('span', {class: 'soft'});
  const search = el('input', {type: 'search', placeholder: 'find ops: q_proj',
    oninput: () => {
      const text = search.value.trim().toLowerCase();
      const match = text && ((op) => op.name.toLowerCase().includes(text) ||
        op.op.toLowerCase().includes(text));
      views.forEach((view) => view.match = match);
      const hits = text ? last.ops.filter(match) : [];
      const us = hits.reduce((sum, op) => sum + op.end_us - op.start_us, 0);
      found.textContent = text ? `${some(hits.length, 'op')}, ${time(us)}` : '';
      changed();
    }});
  const by = el('select', {onchange: () => {
    views.forEach((view) => view.colour = by.value);
    recolour();
  }}, ...[['limit', 'what bounds them'], ['op', 'op'], ['source', 'estimate']]
    .map(([value, text]) => el('option', {value}, text)));
  by.value = views[0].colour;
  const critical = el('input', {type: 'checkbox', onchange: () => {
    views.forEach((view) => view.critical = critical.checked);
    changed();
  }});
  const weights = el('input', {type: 'checkbox', onchange: () => {
    views.forEach((view) => view.weights = weights.checked);
    changed();
  }});
  weights.checked = true;
  const button = (text, act) => el('button', {onclick: act}, text);
  return el('div', {class: 'bar'},
    el('label', {}, 'colours: ', by),
    el('label', {}, critical, ' critical path only'),
    el('label', {}, weights, ' weights in memory'),
    search, found,
    button('+', all((view) => view.zoom(.5))),
    button('\u2212', all((view) => view.zoom(2))),
    button('whole step', all((view) => view.set(0, view.end))),
    el('span', {class: 'soft'}, 'wheel: zoom, drag: move, double click: to op'));
}

// On unlike devices: neither one scale nor a comparison op by op would tell.
const apart = Math.max(...profiles.map((p) => p.makespan_us)) >
  10 * Math.min(...profiles.map((p) => p.makespan_us));

// One for all profiles, or one for each.
function makeViews() {
  const ends = profiles.map((p) => p.makespan_us * 1.005);
  const views = (apart ? ends : [Math.max(...ends)])
    .map((end) => new View(end));
  // What bounds an op is not measured.
  const known = profiles.every((p) => p.ops.some((op) => op.limit));
  views.forEach((view) => view.colour = known ? 'limit' : 'op');
  return views;
}

function timelines() {
  const views = makeViews();
  const palette = new Map();
  const legend = el('div', {class: 'legend'});
  const sideBySide = profiles.some((p) => p.streams.includes('compute2')) ?
    [el('span', {}, 'The compute streams of a device run side by side; which ' +
        'of them has most of the work means nothing.')] : [];
  function recolour() {
    palette.clear();
    for (const [key, hue] of colours(profiles, views[0].colour)) {
      palette.set(key, hue);
    }
    const extra = [['var(--ink)', 'underlined: critical path'],
                   ['var(--mark)', 'exposed communication'],
                   ['var(--idle)', 'idle']];
    legend.replaceChildren(
      ...[...palette].slice(0, 16).map(([key, hue]) => [hue, key])
        .concat(extra).map(([hue, text]) =>
          el('span', {}, el('i', {style: `background: ${hue}`}), text)),
      ...sideBySide);
    views.forEach((view) => view.changed());
  }
  page.append(el('h2', {}, 'Timeline' + (views.length > 1 ?
                ', each to a scale of its own' : '')),
              controls(views, recolour), legend);
  const most = Math.max(...profiles.map((p) => p.memory.peak_bytes));
  profiles.forEach((profile, i) => {
    const name = two ? el('div', {class: 'name'},
      [names[i] + ': ' + shortName(profile.model), where(profile),
       time(profile.makespan_us)].filter(Boolean).join(', ')) : null;
    const view = views[i] || views[0];
    page.append(el('div', {class: 'panel'}, name,
      new Timeline(profile, view, palette).node,
      profile.memory.points.length ?
        new MemoryCurve(profile, view, most).node : null));
  });
  recolour();
}

// "layer12.q_proj" -> "layer*.q_proj"; types keep their digits.
const pattern = (name) => name.replace(/[A-Za-z0-9]+/g, (word) =>
  /^(bf16|f8|f16|f32|f64|i8|i16|i32|i64|u8)$/.test(word) ? word :
    word.replace(/\d+/g, '*'));

// Rows of the same op of all layers as one; other members are numbers.
function byPattern(rows) {
  const sums = new Map();
  for (const row of rows) {
    const key = pattern(row.name) + ' ' + row.op;
    const sum = sums.get(key);
    if (!sum) {
      sums.set(key, {...row, name: pattern(row.name)});
      continue;
    }
    for (const [name, value] of Object.entries(row)) {
      if (typeof value === 'number') sum[name] += value;
    }
  }
  return [...sums.values()];
}

function differenceTable() {
  const us = (key) => (row) => row[key] ? row[key].toFixed(1) : '';
  const holder = el('div');
  const together = el('input', {type: 'checkbox', onchange: fill});
  together.checked = true;
  const change = (row) => row.after_us - row.before_us;
  function fill() {
    const rows = together.checked ? byPattern(differences) : differences;
    holder.replaceChildren(table(columns, rows, {sort: 4}));
  }
  const columns = [
      {head: 'op', text: true, value: (row) => row.name},
      {head: 'kind', text: true, value: (row) => row.op},
      {head: names[0], value: (row) => row.before_us, show: us('before_us')},
      {head: names[1], value: (row) => row.after_us, show: us('after_us')},
      {head: 'change', value: (row) => Math.abs(change(row)),
       show: (row) => (change(row) > 0 ? '+' : '') + change(row).toFixed(1)},
      {head: 'ops', value: (row) => row.after_count,
       show: (row) => `${row.before_count} \u2192 ${row.after_count}`},
      {head: 'critical ' + names[0], value: (row) => row.before_critical_us,
       show: us('before_critical_us')},
      {head: 'critical ' + names[1], value: (row) => row.after_critical_us,
       show: us('after_critical_us')},
      {head: 'critical change', value: (row) =>
        row.after_critical_us - row.before_critical_us,
       show: (row) => (row.after_critical_us - row.before_critical_us)
         .toFixed(1)},
    ];
  page.append(el('h2', {}, 'Ops that changed'), el('div', {class: 'bar'},
    el('span', {class: 'soft'}, 'tiles of an op together; times in \u00b5s'),
    el('label', {}, together, ' layers together')), holder);
  fill();
}

// Ops by what they are.
function groups() {
  const holder = el('div');
  const by = el('select', {onchange: fill}, el('option', {}, 'op'),
                el('option', {}, 'name, * for any number'));
  function fill() {
    holder.replaceChildren(groupTable(by.selectedIndex === 0 ?
      (op) => op.op + (op.axes ? ' over ' + op.axes : '') :
      (op) => pattern(op.name)));
  }
  fill();
  return el('div', {}, el('h2', {}, 'Ops'),
            el('div', {class: 'bar'}, el('label', {}, 'by: ', by)), holder);
}

function groupTable(keyOf) {
  const rows = new Map();
  for (const op of last.ops) {
    const key = keyOf(op);
    const row = rows.get(key) || {key, count: 0, us: 0, alone: 0, critical: 0};
    const us = op.end_us - op.start_us;
    ++row.count;
    row.us += us;
    row.alone += op.alone_us || us;
    if (op.critical) row.critical += us;
    rows.set(key, row);
  }
  const time = timesLike(Math.max(0, ...[...rows.values()].map((r) => r.us)));
  return table([
    {head: 'op', text: true, value: (row) => row.key},
    {head: 'count', value: (row) => row.count},
    {head: 'time', value: (row) => row.us, show: (row) => time(row.us)},
    {head: 'of makespan', value: (row) => row.us,
     show: (row) => percent(row.us / last.makespan_us)},
    {head: 'slowed by others', value: (row) => row.us - row.alone,
     show: (row) => time(Math.max(0, row.us - row.alone))},
    {head: 'critical', value: (row) => row.critical,
     show: (row) => percent(row.critical / last.makespan_us)},
  ], [...rows.values()], {sort: 2});
}

function critical() {
  const ops = last.ops.filter((op) => op.critical);
  if (ops.length === 0) return null;
  const at = timesLike(last.makespan_us);
  const time = timesLike(Math.max(...ops.map((op) => op.end_us - op.start_us)));
  return el('div', {}, el('h2', {}, 'Critical path'), table([
    {head: 'op', text: true, value: (op) => op.name},
    {head: 'at', value: (op) => op.start_us, show: (op) => at(op.start_us)},
    {head: 'time', value: (op) => op.end_us - op.start_us,
     show: (op) => time(op.end_us - op.start_us)},
    {head: 'bound by', text: true, value: (op) => op.limit || ''},
    {head: 'held up by', text: true, value: (op) => op.waited_for || ''},
  ], ops, {sort: 2}));
}

// Collectives that nothing hides, and why, the same of all layers as one.
function exposure() {
  const rows = new Map();
  for (const op of last.ops) {
    if (!op.exposed_us) continue;
    const name = `${pattern(op.name)} over ${op.axes}`;
    const key = [name, op.exposed_by].join();
    const row = rows.get(key) || {name, why: op.exposed_by, count: 0, us: 0};
    ++row.count;
    row.us += op.exposed_us;
    rows.set(key, row);
  }
  if (rows.size === 0) return null;
  const time = timesLike(Math.max(...[...rows.values()].map((row) => row.us)));
  return el('div', {}, el('h2', {}, 'Communication that nothing hides'), table([
    {head: 'collective', text: true, value: (row) => row.name},
    {head: 'limited by', text: true, value: (row) => row.why},
    {head: 'count', value: (row) => row.count},
    {head: 'exposed', value: (row) => row.us, show: (row) => time(row.us)},
  ], [...rows.values()], {sort: 3}));
}

function peakTable() {
  const {at_peak: buffers, peak_us: at} = last.memory;
  if (buffers.length === 0) return null;
  const kinds = new Map();
  for (const buffer of buffers) {
    kinds.set(buffer.kind, (kinds.get(buffer.kind) || 0) + buffer.bytes);
  }
  const sorted = [...kinds].sort((a, b) => b[1] - a[1]);
  const share = (count) => 100 * count / last.memory.peak_bytes + '%';
  const unit = bytesLike(Math.max(...buffers.map((row) => row.bytes)));
  return el('div', {},
    el('h2', {}, `Alive at the peak, at ${time(at)}`),
    el('div', {class: 'shares'}, ...sorted.map(([, count], i) =>
      el('i', {style: `width: ${share(count)}; background: ${HUES[i]}`}))),
    el('div', {class: 'legend'}, ...sorted.map(([kind, count], i) =>
      el('span', {}, el('i', {style: `background: ${HUES[i]}`}),
         `${kind} ${bytes(count)}`))),
    table([
      {head: 'value', text: true, value: (row) => row.name},
      {head: 'type', text: true, value: (row) => row.type},
      {head: 'kind', text: true, value: (row) => row.kind},
      {head: 'bytes', value: (row) => row.bytes,
       show: (row) => unit(row.bytes)},
    ], buffers, {sort: 3}));
}

function shares(title, rows, note) {
  const time = timesLike(last.makespan_us);
  return rows.length === 0 ? null : el('div', {}, el('h2', {}, title),
    el('div', {class: 'soft'}, note),
    table([
      {head: '', text: true, value: (row) => row.name || row.axes},
      {head: 'time', value: (row) => row.us ?? row.comm_us,
       show: (row) => time(row.us ?? row.comm_us)},
      {head: 'of makespan', value: (row) => row.us ?? row.comm_us, show: (row) =>
        percent((row.us ?? row.comm_us) / last.makespan_us)},
      ...(rows[0].exposed_us === undefined ? [] :
        [{head: 'exposed', value: (row) => row.exposed_us,
          show: (row) => time(row.exposed_us)}]),
    ], rows));
}

heading();
cards();
if (two && !apart) totals();
timelines();
if (two && !apart) differenceTable();
page.append(
  el('div', {class: 'columns'}, groups(), exposure(), critical(), peakTable(),
     el('div', {},
        shares('Communication', last.exposed, 'by mesh axes'),
        shares('What the makespan rests on', last.sources,
               'the critical path by how its ops were estimated'),
        shares('Load of the resources', last.resources,
               'how long each would be busy, used to the full'))));
document.body.dataset.ready = 'yes';
