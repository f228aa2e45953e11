// The points of the map in one typed array, and a grid to find them by place.

const STRIDE = 4; // x, y, kind (what colours it), light (0 out, 1 as it is, 2 chosen)
const CELLS = 160; // of the grid, along each side

export class Points {
  /** @param {number[] | Float32Array} x @param {number[] | Float32Array} y */
  constructor(x, y) {
    this.count = x.length;
    this.data = new Float32Array(this.count * STRIDE);
    const [left, width] = extent(x);
    const [top, height] = extent(y);
    const scale = 1 / Math.max(width, height, 1e-9);
    this.width = Math.max(0.05, width * scale);
    this.height = Math.max(0.05, height * scale);
    // The larger side is 1 and the middle 0.5: directions and units of a map mean nothing.
    for (let at = 0; at < this.count; at += 1) {
      this.data[at * STRIDE] = 0.5 + (x[at] - left - width / 2) * scale;
      this.data[at * STRIDE + 1] = 0.5 + (y[at] - top - height / 2) * scale;
      this.data[at * STRIDE + 3] = 1;
    }
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    this.members = new Uint32Array(this.count);
    this.buildGrid();
    /** @type {Uint32Array} in which they are drawn: the last lies on top */
    this.order = new Uint32Array(this.count);
  }

  /** @param {number} at */
  x(at) {
    return this.data[at * STRIDE];
  }
  /** @param {number} at */
  y(at) {
    return this.data[at * STRIDE + 1];
  }

  buildGrid() {
    const cells = new Uint16Array(this.count);
    for (let at = 0; at < this.count; at += 1) {
      cells[at] = cell(this.y(at)) * CELLS + cell(this.x(at));
      this.starts[cells[at] + 1] += 1;
    }
    for (let at = 0; at < CELLS * CELLS; at += 1) this.starts[at + 1] += this.starts[at];
    const filled = this.starts.slice();
    for (let at = 0; at < this.count; at += 1) {
      this.members[filled[cells[at]]] = at;
      filled[cells[at]] += 1;
    }
  }

  /**
   * Set what colours each point and which are chosen, and the order of drawing: what is out below, kind 0 next.
   * @param {(at: number) => number} kindOf
   * @param {(at: number) => 0 | 1 | 2} lightOf
   */
  paint(kindOf, lightOf) {
    const layers = new Uint32Array(5);
    const layerOf = new Uint8Array(this.count);
    for (let at = 0; at < this.count; at += 1) {
      const [kind, light] = [kindOf(at), lightOf(at)];
      this.data[at * STRIDE + 2] = kind;
      this.data[at * STRIDE + 3] = light;
      layerOf[at] = light === 0 ? 0 : light === 2 ? 3 : kind === 0 ? 1 : 2;
      layers[layerOf[at] + 1] += 1;
    }
    for (let at = 0; at < 4; at += 1) layers[at + 1] += layers[at];
    for (let at = 0; at < this.count; at += 1) {
      this.order[layers[layerOf[at]]] = at;
      layers[layerOf[at]] += 1;
    }
  }

  /**
   * Return the nearest point that is not out, within a distance, or -1.
   * @param {number} x
   * @param {number} y
   * @param {number} most
   */
  nearest(x, y, most) {
    let best = -1;
    let least = most * most;
    const [left, right, top, bottom] = [cell(x - most), cell(x + most), cell(y - most), cell(y + most)];
    for (let row = top; row <= bottom; row += 1) {
      for (let at = this.starts[row * CELLS + left]; at < this.starts[row * CELLS + right + 1]; at += 1) {
        const point = this.members[at] * STRIDE;
        if (this.data[point + 3] === 0) continue;
        const far = (this.data[point] - x) ** 2 + (this.data[point + 1] - y) ** 2;
        if (far < least) {
          least = far;
          best = this.members[at];
        }
      }
    }
    return best;
  }

  /**
   * Return the nearest point in a direction from a place: within a quarter circle, the near and straight ones first.
   * @param {number} x
   * @param {number} y
   * @param {number} dx
   * @param {number} dy
   * @param {number} self a point that is not meant
   */
  toward(x, y, dx, dy, self) {
    let best = -1;
    let least = Infinity;
    for (let at = 0; at < this.count; at += 1) {
      const point = at * STRIDE;
      if (at === self || this.data[point + 3] === 0) continue;
      const [ax, ay] = [this.data[point] - x, this.data[point + 1] - y];
      const along = ax * dx + ay * dy;
      const aside = Math.abs(ax * dy - ay * dx);
      if (along <= 1e-6 || aside > along) continue;
      const far = along + 1.5 * aside;
      if (far < least) {
        least = far;
        best = at;
      }
    }
    return best;
  }

  /**
   * Return the points within a closed line.
   * @param {[number, number][]} line
   */
  inside(line) {
    /** @type {number[]} */
    const found = [];
    const [left, right] = [Math.min(...line.map(([x]) => x)), Math.max(...line.map(([x]) => x))];
    const [top, bottom] = [Math.min(...line.map(([, y]) => y)), Math.max(...line.map(([, y]) => y))];
    for (let at = 0; at < this.count; at += 1) {
      const [x, y] = [this.x(at), this.y(at)];
      if (x < left || x > right || y < top || y > bottom) continue;
      let isIn = false;
      for (let one = 0, other = line.length - 1; one < line.length; other = one, one += 1) {
        const [[x1, y1], [x2, y2]] = [line[one], line[other]];
        if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) isIn = !isIn;
      }
      if (isIn) found.push(at);
    }
    return found;
  }

  /**
   * Return where the name of some points stands: over the half of them that lies about their middle, at its top edge.
   * @param {number[]} points
   */
  place(points) {
    const x = median(points.map((at) => this.x(at)));
    const y = median(points.map((at) => this.y(at)));
    const far = points.map((at) => Math.hypot(this.x(at) - x, this.y(at) - y));
    const reach = median(far) * 1.2;
    const near = points.filter((_, index) => far[index] <= reach);
    const ys = near.map((at) => this.y(at)).sort((one, other) => one - other);
    return { x: median(near.map((at) => this.x(at))), y, top: ys[Math.floor(ys.length * 0.03)] };
  }
}

/** @param {number[]} values */
function median(values) {
  return [...values].sort((one, other) => one - other)[values.length >> 1];
}

/** @param {number} value */
const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(value * CELLS)));

/** @param {number[] | Float32Array} values */
function extent(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return values.length ? [least, most - least] : [0, 1];
}
