'use strict';
// Live bytes over time, under the timeline of the same profile.
class MemoryCurve {
  constructor(profile, view, most) {
    this.memory = profile.memory;
    this.view = view;
    this.end = profile.makespan_us;
    this.most = most;
    this.height = 110;
    this.node = canvas(this.height, (c, w) => this.draw(c, w));
    view.listeners.push(() => this.node.redraw());
    panAndZoom(this.node, view);
    this.node.addEventListener('mousemove', (event) => this.tell(event));
    this.node.addEventListener('mouseleave', hideTip);
  }

  // The capacity is drawn where the curve comes near it. Without weights the
  // scale begins at them.
  rescale() {
    const capacity = this.memory.capacity_bytes;
    const near = capacity && capacity < this.most * 2;
    this.base = this.view.weights ? 0 : this.memory.weight_bytes;
    this.top = near ? Math.max(capacity, this.most) : this.most;
    if (!this.view.weights) this.top = this.memory.peak_bytes;
    this.top += (this.top - this.base) * .12;
  }

  y(count) {
    const share = (count - this.base) / (this.top - this.base);
    return this.height - 4 - share * (this.height - 8);
  }

  draw(c, width) {
    this.rescale();
    const {view, memory, height} = this;
    c.clearRect(0, 0, width, height);
    c.textAlign = 'right';
    c.fillStyle = colour('soft');
    const step = Math.pow(2, Math.ceil(Math.log2((this.top - this.base) / 4)));
    for (let at = Math.ceil(this.base / step) * step; at < this.top;
         at += step) {
      c.fillText(bytes(at), GUTTER - 8, Math.max(7, this.y(at)));
      c.fillStyle = colour('grid');
      c.fillRect(GUTTER, this.y(at), width - GUTTER, 1);
      c.fillStyle = colour('soft');
    }
    c.textAlign = 'left';
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, width - GUTTER, height);
    c.clip();
    this.area(c, width);
    c.fillStyle = 'rgba(72, 120, 168, .35)';
    const weights = this.y(memory.weight_bytes);
    c.fillRect(GUTTER, weights, view.x(this.end, width) - GUTTER,
               height - 4 - weights);
    if (memory.capacity_bytes && memory.capacity_bytes < this.top) {
      c.fillStyle = colour('mark');
      c.fillRect(GUTTER, this.y(memory.capacity_bytes), width, 1);
      c.fillText('capacity', GUTTER + 4, this.y(memory.capacity_bytes) + 8);
    }
    const peak = view.x(memory.peak_us, width);
    c.fillStyle = colour('ink');
    c.beginPath();
    c.arc(peak, this.y(memory.peak_bytes), 3, 0, 7);
    c.fill();
    const text = 'peak ' + bytes(memory.peak_bytes);
    const right = peak + 100 < width;
    c.textAlign = right ? 'left' : 'right';
    c.fillText(text, peak + (right ? 7 : -7),
               Math.max(7, this.y(memory.peak_bytes) - 6));
    c.restore();
    c.textAlign = 'left';
  }

  // Within a pixel column the highest point counts, so that no peak is lost.
  area(c, width) {
    const {view} = this;
    const base = this.height - 4;
    c.fillStyle = colour('live');
    c.strokeStyle = '#4878a8';
    c.beginPath();
    c.moveTo(GUTTER - 1, base);
    let last = GUTTER - 1, level = 0, highest = 0;
    for (const [us, live] of this.memory.points) {
      if (us > view.to) break;
      const x = Math.max(view.x(us, width), GUTTER - 1);
      if (x > last + 1) {
        c.lineTo(last, this.y(highest));
        c.lineTo(last, this.y(level));
        c.lineTo(x, this.y(level));
        last = x;
        highest = live;
      }
      level = live;
      highest = Math.max(highest, live);
    }
    const end = view.x(this.end, width);
    c.lineTo(last, this.y(highest));
    c.lineTo(last, this.y(level));
    c.lineTo(end, this.y(level));
    c.lineTo(end, base);
    c.fill();
    c.stroke();
  }

  tell(event) {
    const us = this.view.us(event.offsetX, this.node.clientWidth);
    const points = this.memory.points;
    let low = 0, high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= us) low = middle + 1;
      else high = middle;
    }
    if (low === 0 || us > this.end || event.buttons) return hideTip();
    const live = points[low - 1][1];
    showTip(event, bytes(live) + ' live', [
      ['at', time(us)],
      ['weights', bytes(this.memory.weight_bytes)],
      ['others', bytes(live - this.memory.weight_bytes)],
    ]);
  }
}
