'use strict';
// What all pages use: elements, numbers as text, tables, the tip at the mouse.
const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (key.startsWith('on')) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

function svg(tag, attrs, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attrs)) {
    node.setAttribute(key, value);
  }
  if (text !== undefined) node.textContent = text;
  return node;
}

const percent = (part) => (100 * part).toFixed(1) + ' %';

// As ir/support/units.h has them.
const TIME_UNITS = [[1, 'us'], [1e3, 'ms'], [1e6, 's']];
const unitOf = (us) =>
  Math.abs(us) < 999.95 ? 0 : Math.abs(us) < 999.95e3 ? 1 : 2;
function time(us) {
  const unit = unitOf(us), count = us / TIME_UNITS[unit][0];
  return count.toFixed(unit > 0 && Math.abs(count) < 9.995 ? 2 : 1) + ' ' +
    TIME_UNITS[unit][1];
}

// A column of a table of times, in the unit of the largest.
function timesLike(largest) {
  const unit = unitOf(largest);
  const digits = unit > 0 && largest / TIME_UNITS[unit][0] < 99.995 ? 2 : 1;
  return (us) => (us / TIME_UNITS[unit][0]).toFixed(digits) + ' ' +
    TIME_UNITS[unit][1];
}

function count(number) {
  const prefixes = ['', 'k ', 'M ', 'G ', 'T ', 'P '];
  let prefix = 0;
  for (; number >= 1000 && prefix + 1 < prefixes.length; ++prefix) {
    number /= 1000;
  }
  return +number.toPrecision(3) + ' ' + prefixes[prefix];
}

// "1 op", "2 ops".
const some = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

// A colour of the page, which is dark where the reader's system is.
const styles = getComputedStyle(document.documentElement);
const colour = (name) => styles.getPropertyValue('--' + name).trim();
const redraws = [];  // what draws with colours
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
  redraws.forEach((redraw) => redraw()));

const BYTE_UNITS = ['bytes', 'KiB', 'MiB', 'GiB'];
function byteUnitOf(count) {
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit + 1 < BYTE_UNITS.length) {
    count /= 1024;
    ++unit;
  }
  return unit;
}
// A column of a table of bytes, in the unit of the largest.
function bytesLike(largest) {
  const unit = byteUnitOf(largest), size = Math.pow(1024, unit);
  const digits = unit === 0 ? 0 : largest / size < 99.995 ? 2 : 1;
  return (count) => (count / size).toFixed(digits) + ' ' + BYTE_UNITS[unit];
}
const bytes = (count) => bytesLike(Math.abs(count))(count);

const megahertz = (mhz) => mhz.toFixed(0) + ' MHz';
const watts = (w) => w.toFixed(0) + ' W';
function energy(joules) {
  const units = ['\u00b5J', 'mJ', 'J'];
  let count = joules * 1e6, unit = 0;
  for (; count >= 999.5 && unit + 1 < units.length; ++unit) count /= 1000;
  return +count.toPrecision(3) + ' ' + units[unit];
}

// Steps of 1, 2 and 5 times a power of ten; about `count` of them in `length`.
function niceStep(length, count) {
  const power = Math.pow(10, Math.floor(Math.log10(length / count)));
  return power * [1, 2, 5, 10].find((f) => f * power * count >= length);
}

// Columns: {head, value(row), show(row), text: true for words}. A click on a
// head sorts; `sort` is the column to begin with, descending.
function table(columns, rows, options = {}) {
  const body = el('tbody');
  const heads = columns.map((column) =>
    el('th', {class: column.text ? 'text' : ''}, column.head));
  let order = {column: options.sort, down: true};
  function fill() {
    let sorted = rows;
    if (order.column !== undefined) {
      const value = columns[order.column].value;
      sorted = [...rows].sort((a, b) => {
        const x = value(a), y = value(b);
        if (x === undefined || y === undefined) {
          return (x === undefined) - (y === undefined);
        }
        const less = typeof x === 'string' ?
          x.localeCompare(y, undefined, {numeric: true}) : x - y;
        return order.down ? -less : less;
      });
    }
    heads.forEach((head, i) => {
      head.classList.toggle('down', i === order.column && order.down);
      head.classList.toggle('up', i === order.column && !order.down);
    });
    body.replaceChildren(...sorted.slice(0, options.most || 500).map((row) => {
      const line = el('tr', {}, ...columns.map((column) => {
        const shown = column.show ? column.show(row) : column.value(row);
        return el('td', {class: (column.text ? 'text ' : '') +
                                (column.wide ? 'wide' : ''),
                         title: column.text ? column.value(row) : ''},
                  shown ?? '');
      }));
      if (options.row) options.row(row, line);
      return line;
    }));
  }
  heads.forEach((head, i) => {
    head.onclick = () => {
      const down = order.column === i ? !order.down : !columns[i].text;
      order = {column: i, down};
      fill();
    };
  });
  fill();
  return el('div', {class: 'scroll'},
            el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body));
}

function card(value, name, note) {
  return el('div', {class: 'card'}, el('b', {}, value),
            el('span', {}, name + (note ? ', ' + note : '')));
}

const tip = el('div', {id: 'tip'});
document.body.append(tip);
// Rows are [name, text]; those without text are left out.
function showTip(event, title, rows) {
  const list = el('div');
  for (const [name, text] of rows) {
    if (text) list.append(el('span', {}, name), el('em', {style:
      'font-style: normal'}, text));
  }
  tip.replaceChildren(el('b', {}, title), list);
  tip.style.display = 'block';
  const left = event.clientX + 16 + tip.offsetWidth < innerWidth ?
    event.clientX + 16 : event.clientX - 16 - tip.offsetWidth;
  const top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 6);
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = Math.max(4, top) + 'px';
}
function hideTip() { tip.style.display = 'none'; }

// A canvas of that height that draws itself sharply whenever its width
// changes: `draw(context, width, height)`.
function canvas(height, draw) {
  const node = el('canvas', {style: `height: ${height}px`});
  const context = node.getContext('2d');
  node.redraw = () => {
    const width = node.clientWidth, scale = devicePixelRatio || 1;
    if (width === 0) return;
    node.width = Math.round(width * scale);
    node.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    draw(context, width, height);
  };
  new ResizeObserver(node.redraw).observe(node);
  redraws.push(node.redraw);
  return node;
}
