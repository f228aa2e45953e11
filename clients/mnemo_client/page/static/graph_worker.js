// Places the nodes of a graph: they push each other away, edges pull them together. Beside the page, so that it never waits.

/** @typedef {{sizes: number[], edges: [number, number, number][], key: string}} Asked edges: from, to, strength from 0 to 1 */

const ROUNDS = 400;
const COOLING = 0.985;

/** @param {Asked} asked */
function layout({ sizes, edges }) {
  const number = sizes.length;
  const x = new Float64Array(number);
  const y = new Float64Array(number);
  // A spiral: the same every time, so that a graph that has not changed looks as it did.
  for (let at = 0; at < number; at += 1) {
    const [angle, far] = [at * 2.39996, 14 * Math.sqrt(at + 0.5)];
    x[at] = far * Math.cos(angle);
    y[at] = far * Math.sin(angle);
  }
  const dx = new Float64Array(number);
  const dy = new Float64Array(number);
  let step = 24;
  for (let round = 0; round < ROUNDS; round += 1) {
    dx.fill(0);
    dy.fill(0);
    for (let one = 0; one < number; one += 1) {
      for (let other = one + 1; other < number; other += 1) push(one, other);
      dx[one] -= x[one] * 0.02; // toward the middle, so that parts without an edge stay in the picture
      dy[one] -= y[one] * 0.03;
    }
    for (const [from, to, strength] of edges) {
      const [ax, ay] = [x[to] - x[from], y[to] - y[from]];
      const far = Math.hypot(ax, ay) || 0.01;
      const pull = ((far - 60 - sizes[from] - sizes[to]) * (0.04 + 0.1 * strength)) / far;
      dx[from] += ax * pull;
      dy[from] += ay * pull;
      dx[to] -= ax * pull;
      dy[to] -= ay * pull;
    }
    for (let at = 0; at < number; at += 1) {
      const far = Math.hypot(dx[at], dy[at]);
      const scale = far > step ? step / far : 1;
      x[at] += dx[at] * scale;
      y[at] += dy[at] * scale;
    }
    step *= COOLING;
  }
  const places = new Float32Array(2 * number);
  for (let at = 0; at < number; at += 1) {
    places[2 * at] = x[at];
    places[2 * at + 1] = y[at];
  }
  return places;

  /** @param {number} one @param {number} other */
  function push(one, other) {
    const [ax, ay] = [x[one] - x[other], y[one] - y[other]];
    const square = ax * ax + ay * ay + 0.01;
    const least = sizes[one] + sizes[other] + 30;
    const force = 900 / square + (square < least * least ? (least / Math.sqrt(square) - 1) * 0.5 : 0);
    dx[one] += ax * force;
    dy[one] += ay * force;
    dx[other] -= ax * force;
    dy[other] -= ay * force;
  }
}

const scope = /** @type {any} */ (self);
scope.onmessage = (/** @type {MessageEvent<Asked>} */ event) => {
  const places = layout(event.data);
  scope.postMessage({ key: event.data.key, places }, [places.buffer]);
};
