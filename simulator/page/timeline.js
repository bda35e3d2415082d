'use strict';
// The tracks of one profile. All timelines and memory curves of a page share a
// View: the part of the step that is seen, and how ops are coloured.
const GUTTER = 128;  // px on the left, for names
const ROW = 26;     // px of a track

class View {
  constructor(end) {
    this.end = end;
    this.from = 0;
    this.to = end;
    this.colour = 'limit';
    this.critical = false;
    this.weights = true;  // are part of memory curves
    this.match = null;  // a test of ops, or null
    this.listeners = [];
  }
  changed() { this.listeners.forEach((listener) => listener()); }
  set(from, to) {
    const least = this.end * 1e-6;
    const length = Math.min(Math.max(to - from, least), this.end);
    this.from = Math.min(Math.max(from, 0), this.end - length);
    this.to = this.from + length;
    this.changed();
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    const length = (this.to - this.from) * factor;
    const share = (at - this.from) / (this.to - this.from);
    this.set(at - share * length, at + (1 - share) * length);
  }
  x(us, width) {
    return GUTTER + (us - this.from) / (this.to - this.from) *
      (width - GUTTER);
  }
  us(x, width) {
    return this.from + (x - GUTTER) / (width - GUTTER) * (this.to - this.from);
  }
}

const LIMITS = {
  math: ['#4878a8', 'arithmetic'], memory: ['#6fb3a8', 'device memory'],
  latency: ['#b3bec8', 'fixed latency'], link: ['#e8912d', 'links'],
};
const HUES = ['#4878a8', '#6fb3a8', '#8d7cb8', '#c59fc9', '#94a84e', '#5f9ed1',
              '#b08968', '#7a8591', '#a3c4e0', '#cfc06a'];
const COMM_HUES = ['#e8912d', '#d1605e', '#c9a227', '#a4572b', '#e7a5a0'];

// What an op is coloured by and named in the legend.
function category(op, by) {
  if (op.axes) return op.op + ' over ' + op.axes;
  if (by === 'limit') return (LIMITS[op.limit] || [0, op.limit])[1] || op.op;
  if (by === 'source') return op.source || 'unknown';
  return op.op;
}

// Category -> colour for all ops of the page, most time first.
function colours(profiles, by) {
  const total = new Map();
  for (const profile of profiles) {
    for (const op of profile.ops) {
      const key = category(op, by);
      const entry = total.get(key) || {us: 0, comm: !!op.axes, op};
      entry.us += op.end_us - op.start_us;
      total.set(key, entry);
    }
  }
  const sorted = [...total].sort((a, b) => b[1].us - a[1].us);
  const fixed = (entry) =>
    by === 'limit' && !entry.comm && LIMITS[entry.op.limit];
  const taken = new Set(
    sorted.map(([, entry]) => (fixed(entry) || [])[0]).filter(Boolean));
  const next = unused(HUES, taken), nextComm = unused(COMM_HUES, taken);
  return new Map(sorted.map(([key, entry]) =>
    [key, fixed(entry) ? fixed(entry)[0] : entry.comm ? nextComm() : next()]));
}

// Gives those of `hues` that are not taken, then others, none of them twice.
function unused(hues, taken) {
  const left = hues.filter((hue) => !taken.has(hue));
  let made = 0;
  return () => left.shift() ||
    `hsl(${Math.round(40 + 137.5 * made)} 38% ${38 + 9 * (made++ % 3)}%)`;
}

// Names streams: "compute stream 2" for "compute2", "collectives: tp".
function streamName(profile, index) {
  const names = profile.streams, name = names[index];
  const ops = profile.ops.filter((op) => op.stream === index);
  if (ops.length > 0 && ops.every((op) => op.axes)) {
    return 'collectives: ' + name;
  }
  const match = /^compute(\d*)$/.exec(name);
  if (!match) return name;
  return names.includes('compute2') ? 'compute stream ' + (match[1] || 1) :
    'compute stream';
}

// Union of the intervals of ops, ascending.
function union(ops) {
  const merged = [];
  for (const op of [...ops].sort((a, b) => a.start_us - b.start_us)) {
    const last = merged[merged.length - 1];
    if (last && op.start_us <= last[1]) last[1] = Math.max(last[1], op.end_us);
    else merged.push([op.start_us, op.end_us]);
  }
  return merged;
}

// a without b; both ascend.
function without(a, b) {
  const left = [];
  let j = 0;
  for (let [from, to] of a) {
    while (j < b.length && b[j][1] <= from) ++j;
    for (let k = j; k < b.length && b[k][0] < to; ++k) {
      if (b[k][0] > from) left.push([from, b[k][0]]);
      from = Math.max(from, b[k][1]);
    }
    if (from < to) left.push([from, to]);
  }
  return left;
}

class Timeline {
  constructor(profile, view, palette) {
    this.profile = profile;
    this.view = view;
    this.palette = palette;
    this.rows = profile.streams.map(() => []);
    for (const op of profile.ops) this.rows[op.stream].push(op);
    this.names = profile.streams.map((_, i) => streamName(profile, i));
    for (const op of profile.ops) this.addQueues(op);
    for (const row of this.rows) row.sort((a, b) => a.start_us - b.start_us);
    const compute = union(profile.ops.filter((op) => !op.axes));
    const comm = union(profile.ops.filter((op) => op.axes));
    this.exposed = without(comm, compute);
    this.idle = without(without([[0, profile.makespan_us]], compute), comm);
    this.hovered = null;
    this.height = 22 + ROW * this.rows.length + 18;
    this.node = canvas(this.height, (c, w) => this.draw(c, w));
    view.listeners.push(() => this.node.redraw());
    this.listen();
  }

  // What the queues of an overlap do, in rows below those of the streams.
  addQueues(overlap) {
    for (const step of overlap.steps || []) {
      const name = 'overlap: ' + step.queue;
      let row = this.names.indexOf(name, this.profile.streams.length);
      if (row < 0) {
        row = this.names.push(name) - 1;
        this.rows.push([]);
      }
      this.rows[row].push({
        ...step, op: step.copy ? 'copy' : 'piece', type: overlap.name,
        critical: overlap.critical, colour: step.copy ? '#e8912d' : '#4878a8'});
    }
  }

  draw(c, width) {
    c.clearRect(0, 0, width, this.height);
    this.axis(c, width);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, width - GUTTER, this.height);
    c.clip();
    this.rows.forEach((row, i) => this.track(c, width, row, 22 + ROW * i));
    this.strip(c, width, 22 + ROW * this.rows.length + 4);
    this.arrow(c, width);
    c.restore();
    c.fillStyle = colour('ink');
    c.textAlign = 'right';
    this.names.forEach((name, i) =>
      c.fillText(name, GUTTER - 10, 22 + ROW * i + ROW / 2, GUTTER - 14));
    c.fillStyle = colour('soft');
    c.fillText('exposed', GUTTER - 10, 22 + ROW * this.rows.length + 9);
    c.textAlign = 'left';
  }

  axis(c, width) {
    const {view} = this;
    const step = niceStep(view.to - view.from, Math.max(2, width / 130));
    const [unit, name] = TIME_UNITS[unitOf(view.to)];
    const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
    c.fillStyle = colour('soft');
    c.strokeStyle = colour('grid');
    c.beginPath();
    for (let us = Math.ceil(view.from / step) * step; us <= view.to;
         us += step) {
      const x = Math.round(view.x(us, width)) + .5;
      c.moveTo(x, 16);
      c.lineTo(x, this.height);
      if (x < width - 60) {
        c.fillText((us / unit).toFixed(digits) + ' ' + name, x + 3, 9);
      }
    }
    c.stroke();
  }

  track(c, width, row, top) {
    const {view} = this;
    let filled = -1;  // right edge of what is drawn, for ops below a pixel
    for (let i = this.firstVisible(row); i < row.length; ++i) {
      const op = row[i];
      if (op.start_us > view.to) break;
      const x = view.x(op.start_us, width);
      const right = view.x(op.end_us, width);
      if (right < filled + .4 && right - x < .4) continue;
      filled = Math.max(right, x + .4);
      const dim = (view.critical && !op.critical) ||
        (view.match && !view.match(op));
      c.globalAlpha = dim ? .16 : 1;
      c.fillStyle = op.colour || this.palette.get(category(op, view.colour));
      c.fillRect(x, top + 2, Math.max(right - x - (right - x > 3 ? .6 : 0), .6),
                 ROW - 5);
      if (op.critical) {
        c.fillStyle = colour('ink');
        c.fillRect(x, top + ROW - 3, Math.max(right - x, .6), 1.6);
      }
      if (op === this.hovered) {
        c.strokeStyle = colour('ink');
        c.strokeRect(x + .5, top + 2.5, Math.max(right - x - 1, 1), ROW - 6);
      }
      this.label(c, op, Math.max(x, GUTTER), Math.min(right, width), top);
    }
    c.globalAlpha = 1;
  }

  label(c, op, x, right, top) {
    const room = right - x - 8;
    if (room < 30) return;
    const fits = Math.floor(room / 6.4);  // of this font, about
    // The whole name, or less of it: "o_proj.t0" of "layer3.o_proj.t0".
    const text = [op.name, op.name.replace(/^[^.]*\./, ''), op.op].find(
      (name) => name.length <= fits);
    if (!text) return;
    c.fillStyle = '#fff';
    c.fillText(text, x + 4, top + ROW / 2 - .5);
  }

  // Where nothing but communication runs, and where nothing does.
  strip(c, width, top) {
    const {view} = this;
    for (const [list, hue] of [[this.idle, colour('idle')],
                               [this.exposed, colour('mark')]]) {
      c.fillStyle = hue;
      for (const [from, to] of list) {
        if (to < view.from || from > view.to) continue;
        const x = view.x(from, width);
        c.fillRect(x, top, Math.max(view.x(to, width) - x, .5), 9);
      }
    }
  }

  // From the hovered collective to the op that waited for it.
  arrow(c, width) {
    const op = this.hovered;
    if (!op || op.wait === undefined) return;
    const to = this.profile.ops[op.wait];
    const y = (o) => 22 + ROW * o.stream + ROW / 2;
    c.strokeStyle = colour('ink');
    c.beginPath();
    c.moveTo(this.view.x(op.end_us, width), y(op));
    c.lineTo(this.view.x(to.start_us, width), y(to));
    c.stroke();
    c.beginPath();
    c.arc(this.view.x(to.start_us, width), y(to), 3, 0, 7);
    c.fillStyle = colour('ink');
    c.fill();
  }

  // Index of the first op that ends after the left edge.
  firstVisible(row) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].end_us < this.view.from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  opAt(x, y) {
    const row = this.rows[Math.floor((y - 22) / ROW)];
    if (!row || x < GUTTER) return null;
    const width = this.node.clientWidth;
    const us = this.view.us(x, width);
    const slack = (this.view.to - this.view.from) / width * 2;
    let best = null;
    for (let i = this.firstVisible(row); i < row.length; ++i) {
      const op = row[i];
      if (op.start_us > us + slack) break;
      const off = Math.max(op.start_us - us, us - op.end_us, 0);
      if (off <= slack && (!best || off < best.off)) best = {op, off};
    }
    return best && best.op;
  }

  listen() {
    const {node} = this;
    panAndZoom(node, this.view);
    node.addEventListener('mousemove', (event) => {
      const op = event.buttons ? null : this.opAt(event.offsetX, event.offsetY);
      if (op !== this.hovered) {
        this.hovered = op;
        node.redraw();
      }
      if (op) this.tell(event, op);
      else hideTip();
    });
    node.addEventListener('mouseleave', () => {
      this.hovered = null;
      node.redraw();
      hideTip();
    });
    node.addEventListener('dblclick', (event) => {
      const op = this.opAt(event.offsetX, event.offsetY);
      const length = op && op.end_us - op.start_us;
      if (op) this.view.set(op.start_us - 4 * length, op.end_us + 4 * length);
    });
  }

  tell(event, op) {
    const us = op.end_us - op.start_us;
    showTip(event, op.name, [
      ['op', op.op + (op.axes ? ' over ' + op.axes : '')],
      ['type', op.type],
      ['time', `${time(us)}, at ${time(op.start_us)}`],
      ['alone', op.alone_us > 0 && us > op.alone_us * 1.001 ?
        `${time(op.alone_us)}, slowed ${(us / op.alone_us).toFixed(2)} times` :
        ''],
      ['payload', op.axes && op.bytes ? bytes(op.bytes) : ''],
      ['bound by', op.limit],
      ['held up by', op.waited_for],
      ['not hidden', op.exposed_us ?
        `${time(op.exposed_us)}: ${op.exposed_by}` : ''],
      ['estimate', op.source],
      ['critical path', op.critical ? 'yes' : ''],
    ]);
  }
}

// Wheel: zoom; drag: pan.
function panAndZoom(node, view) {
  node.addEventListener('wheel', (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = event.deltaX / node.clientWidth * (view.to - view.from);
      view.set(view.from + by, view.to + by);
    } else {
      view.zoom(Math.exp(event.deltaY * .0022),
                view.us(event.offsetX, node.clientWidth));
    }
  }, {passive: false});
  node.addEventListener('pointerdown', (event) => {
    node.setPointerCapture(event.pointerId);
    const start = event.clientX, {from, to} = view;
    node.onpointermove = (move) => {
      const by = (start - move.clientX) / (node.clientWidth - GUTTER) *
        (to - from);
      if (Math.abs(start - move.clientX) > 2) view.set(from + by, to + by);
    };
    node.onpointerup = node.onpointercancel = () => {
      node.onpointermove = null;
    };
  });
}
