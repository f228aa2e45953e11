// Areas by size: rectangles as square as they can be.

/** @typedef {{x: number, y: number, width: number, height: number}} Box */

/**
 * Return the box of each size within a box, the largest first. Sizes must be in falling order and above 0.
 * @param {number[]} sizes
 * @param {Box} box
 * @returns {Box[]}
 */
export function treemap(sizes, box) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const scale = total ? (box.width * box.height) / total : 0;
  /** @type {Box[]} */
  const boxes = [];
  let left = { ...box };
  let at = 0;
  while (at < sizes.length) {
    const side = Math.min(left.width, left.height);
    let end = at + 1;
    let sum = sizes[at] * scale;
    // Take in the next as long as the worst of the row becomes no longer and thinner.
    while (end < sizes.length) {
      const next = sum + sizes[end] * scale;
      if (worst(sizes[at] * scale, sizes[end] * scale, next, side) > worst(sizes[at] * scale, sizes[end - 1] * scale, sum, side)) break;
      sum = next;
      end += 1;
    }
    const isWide = left.width >= left.height;
    const thick = side > 0 ? sum / side : 0;
    let along = 0;
    for (; at < end; at += 1) {
      const length = thick > 0 ? (sizes[at] * scale) / thick : 0;
      boxes.push(isWide ? { x: left.x, y: left.y + along, width: thick, height: length } : { x: left.x + along, y: left.y, width: length, height: thick });
      along += length;
    }
    left = isWide ? { x: left.x + thick, y: left.y, width: left.width - thick, height: left.height }
      : { x: left.x, y: left.y + thick, width: left.width, height: left.height - thick };
  }
  return boxes;
}

/**
 * Return the longest shape of a row, as the ratio of its sides.
 * @param {number} largest
 * @param {number} smallest
 * @param {number} sum
 * @param {number} side
 */
function worst(largest, smallest, sum, side) {
  const square = side * side;
  return Math.max((square * largest) / (sum * sum), (sum * sum) / (square * smallest));
}
