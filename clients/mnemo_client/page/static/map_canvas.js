// Draws the map: every point into one array of pixels, names and the lasso above them; and what a pointer does on it.

import { h } from "./html.js";

/** @typedef {{x: number, y: number, z: number}} Look where one looks: the middle, and how often larger than all */
/** @typedef {{name: string, x: number, y: number, level: number, size: number}} Name */
/** @typedef {{dot: (at: number) => void, hover: (at: number, x: number, y: number) => void, lasso: (line: [number, number][]) => void, moved: (look: Look) => void}} Heard */

const STRIDE = 4;
const PIXELS_MAX = 3_200_000; // of the array; beyond it a screen with small pixels is drawn a little coarser
const [ZOOM_LEAST, ZOOM_MOST] = [0.5, 400];
const MARGIN = 0.88; // of the picture, that all points take at z = 1
const HEAD_HEIGHT = 44; // px, where the title and the controls lie over the picture
const HIT_PX = 9;
const GLIDE_MS = 160;
const NAME_FONTS = ["650 14px", "400 12px", "400 12px"];
const SECOND_LEVEL_ZOOM = 2;
const THIRD_LEVEL_ZOOM = 5;
const ALPHA = { light: [0.58, 0.4], dark: [0.68, 0.4], solid: [0.95, 0.4] }; // with a topic, without one
const ALPHA_OUT = 0.08;

export class MapCanvas {
  /** @param {Heard} heard */
  constructor(heard) {
    this.heard = heard;
    this.dots = h("canvas", { "aria-hidden": "true" });
    this.marks = h("canvas", { "aria-hidden": "true" });
    this.place = h("div.map-place", this.dots, this.marks);
    /** @type {import("./map_points.js").Points | null} */
    this.points = null;
    /** @type {Look} */
    this.look = { x: 0.5, y: 0.5, z: 1 };
    /** @type {Name[]} the largest of each level first */
    this.names = [];
    /** @type {string[]} names of the tokens that colour the kinds */
    this.tokens = ["--t0"];
    /** @type {[number, number][]} */
    this.line = [];
    this.isLassoing = false;
    this.isSolid = false;
    this.reticle = -1;
    this.hovered = -1;
    /** @type {[number, number, number, number][]} where names must not be */
    this.reserved = [];
    this.isAsked = false;
    /** @type {Map<string, number>} */
    this.widths = new Map();
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.place);
    this.themed = new MutationObserver(() => {
      this.readColours();
      this.ask();
    });
    this.themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.schemed = () => {
      this.readColours();
      this.ask();
    };
    this.scheme.addEventListener("change", this.schemed);
    this.followPointer();
    this.readColours();
  }

  stop() {
    this.resized.disconnect();
    this.themed.disconnect();
    this.scheme.removeEventListener("change", this.schemed);
  }

  // Sizes and colours

  resize() {
    const { clientWidth: width, clientHeight: height } = this.place;
    if (!width || !height) return;
    this.width = width;
    this.height = height;
    this.ratio = Math.min(devicePixelRatio || 1, Math.sqrt(PIXELS_MAX / (width * height)));
    for (const canvas of [this.dots, this.marks]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    const context = /** @type {CanvasRenderingContext2D} */ (this.dots.getContext("2d", { alpha: false }));
    this.image = context.createImageData(this.dots.width, this.dots.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.draw(); // at once: a canvas whose size is set is blank
  }

  readColours() {
    const probe = h("i"); // a token of two colours is one of them only where it is used
    document.body.append(probe);
    const style = getComputedStyle(probe);
    const of = (/** @type {string} */ token) => {
      probe.style.setProperty("color", `var(${token})`);
      return style.color;
    };
    this.colours = {
      background: pixelOf(of("--bg")),
      text: of("--text"),
      weak: of("--text-2"),
      ground: of("--bg"),
      accent: of("--accent"),
    };
    const brightness = (this.colours.background & 255) + ((this.colours.background >> 8) & 255);
    this.alpha = this.isSolid ? ALPHA.solid : brightness < 256 ? ALPHA.dark : ALPHA.light;
    this.palette = new Uint32Array(this.tokens.map((token) => pixelOf(of(token))));
    this.font = style.fontFamily;
    probe.remove();
    this.widths.clear();
  }

  /**
   * @param {string[]} tokens by kind
   * @param {boolean} isSolid the tokens lie close together: points are not see-through
   */
  setTokens(tokens, isSolid) {
    this.tokens = tokens;
    this.isSolid = isSolid;
    this.readColours();
    this.ask();
  }

  // From the map to the screen and back

  get scale() {
    const [wide, tall] = [
      (this.width ?? 1) / (this.points?.width ?? 1),
      ((this.height ?? 1) - HEAD_HEIGHT) / (this.points?.height ?? 1),
    ];
    return Math.min(wide, tall) * MARGIN * this.look.z;
  }

  /** The middle of the picture, on the screen. */
  get middle() {
    return /** @type {[number, number]} */ ([(this.width ?? 0) / 2, ((this.height ?? 0) + HEAD_HEIGHT) / 2]);
  }

  /** @param {number} x @param {number} y @returns {[number, number]} */
  toScreen(x, y) {
    const [middleX, middleY] = this.middle;
    return [(x - this.look.x) * this.scale + middleX, (y - this.look.y) * this.scale + middleY];
  }

  /** @param {number} x @param {number} y @returns {[number, number]} */
  toMap(x, y) {
    const [middleX, middleY] = this.middle;
    return [(x - middleX) / this.scale + this.look.x, (y - middleY) / this.scale + this.look.y];
  }

  /**
   * Look elsewhere, at once.
   * @param {Look} look
   */
  lookAt(look) {
    this.look = { x: clamp(look.x, -0.5, 1.5), y: clamp(look.y, -0.5, 1.5), z: clamp(look.z, ZOOM_LEAST, ZOOM_MOST) };
    this.ask();
    this.heard.moved(this.look);
  }

  /**
   * Look elsewhere, gliding unless motion is not wanted.
   * @param {Look} look
   */
  glideTo(look) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.lookAt(look);
    const from = this.look;
    const began = performance.now();
    const step = (/** @type {number} */ now) => {
      const part = Math.min(1, (now - began) / GLIDE_MS);
      const eased = 1 - (1 - part) ** 3;
      this.lookAt({
        x: from.x + (look.x - from.x) * eased,
        y: from.y + (look.y - from.y) * eased,
        z: from.z * (look.z / from.z) ** eased,
      });
      if (part < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /**
   * @param {number} factor
   * @param {number} [x] what stays where it is on the screen
   * @param {number} [y]
   */
  zoomed(factor, x = this.middle[0], y = this.middle[1]) {
    const [mapX, mapY] = this.toMap(x, y);
    const z = clamp(this.look.z * factor, ZOOM_LEAST, ZOOM_MOST);
    const ratio = this.look.z / z;
    return { x: mapX + (this.look.x - mapX) * ratio, y: mapY + (this.look.y - mapY) * ratio, z };
  }

  // Drawing

  ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.draw();
    });
  }

  draw() {
    if (!this.image || !this.pixels) return;
    this.drawPoints(this.pixels, this.dots.width, this.dots.height);
    /** @type {CanvasRenderingContext2D} */ (this.dots.getContext("2d", { alpha: false })).putImageData(
      this.image,
      0,
      0,
    );
    this.drawMarks();
  }

  /** The width of a point in pixels of the screen: 1.3 of many to 2.2 of few, more when one looks closely. */
  get dotWidth() {
    const many = this.points?.count ?? 0;
    const width = many > 50_000 ? 1.3 : many > 5000 ? 1.8 : 2.2;
    return Math.min(
      6,
      Math.max(
        width,
        Math.min(2.2, width * (1 + 0.2 * Math.log2(Math.max(1, this.look.z)))) *
          Math.max(1, Math.sqrt(this.look.z / 8)),
      ),
    );
  }

  /** @param {Uint32Array} pixels @param {number} width @param {number} height */
  drawPoints(pixels, width, height) {
    pixels.fill(this.colours?.background ?? 0);
    const { points, palette } = this;
    if (!points || !palette) return;
    const { data, order } = points;
    const ratio = this.ratio ?? 1;
    const scale = this.scale * ratio;
    const [originX, originY] = [
      this.middle[0] * ratio - this.look.x * scale,
      this.middle[1] * ratio - this.look.y * scale,
    ];
    const usual = this.dotWidth * ratio;
    const [withTopic, without] = (this.alpha ?? ALPHA.light).map((share) => 256 * share);
    for (let nth = 0; nth < order.length; nth += 1) {
      const at = order[nth] * STRIDE;
      const light = data[at + 3];
      const dot = light === 2 ? usual + 0.8 * ratio : usual;
      const left = data[at] * scale + originX - dot / 2;
      const top = data[at + 1] * scale + originY - dot / 2;
      const x0 = Math.floor(left);
      const y0 = Math.floor(top);
      const x1 = Math.floor(left + dot);
      const y1 = Math.floor(top + dot);
      if (x0 < 0 || y0 < 0 || x1 >= width || y1 >= height) continue;
      const kind = data[at + 2];
      const colour = palette[kind];
      const alpha = light === 0 ? 256 * ALPHA_OUT : light === 2 ? 256 : kind === 0 ? without : withTopic;
      const redBlue = colour & 0xff00ff;
      const green = colour & 0x00ff00;
      if (dot > 3) {
        drawCircle(pixels, width, left + dot / 2, top + dot / 2, dot / 2, redBlue, green, alpha);
        continue;
      }
      // A small point is a square that covers parts of pixels: of the first column and row, and of the last.
      const [firstX, firstY] = [x0 === x1 ? dot : x0 + 1 - left, y0 === y1 ? dot : y0 + 1 - top];
      const [lastX, lastY] = [left + dot - x1, top + dot - y1];
      for (let y = y0; y <= y1; y += 1) {
        const tall = alpha * (y === y0 ? firstY : y === y1 ? lastY : 1);
        for (let x = x0; x <= x1; x += 1) {
          blend(pixels, y * width + x, redBlue, green, (tall * (x === x0 ? firstX : x === x1 ? lastX : 1)) | 0);
        }
      }
    }
  }

  drawMarks() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.marks.getContext("2d"));
    const { colours } = this;
    if (!colours) return;
    context.setTransform(this.ratio ?? 1, 0, 0, this.ratio ?? 1, 0, 0);
    context.clearRect(0, 0, this.width ?? 0, this.height ?? 0);
    this.drawNames(context);
    if (this.line.length > 1) {
      context.beginPath();
      for (const [x, y] of this.line) context.lineTo(...this.toScreen(x, y));
      context.closePath();
      context.setLineDash([5, 4]);
      context.lineWidth = 1.5;
      context.strokeStyle = colours.text;
      context.stroke();
      context.setLineDash([]);
    }
    for (const [at, radius] of [
      [this.hovered, 5],
      [this.reticle, 7],
    ]) {
      if (at < 0 || !this.points || at >= this.points.count) continue;
      const [x, y] = this.toScreen(this.points.x(at), this.points.y(at));
      for (const [colour, width] of /** @type {[string, number][]} */ ([
        [colours.ground, 4],
        [colours.text, 2],
      ])) {
        context.beginPath();
        context.arc(x, y, radius, 0, 2 * Math.PI);
        context.lineWidth = width;
        context.strokeStyle = colour;
        context.stroke();
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  drawNames(context) {
    const { colours } = this;
    if (!colours) return;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.lineJoin = "round";
    for (const { name, x, y, level } of this.namesWithRoom(context)) {
      context.font = `${NAME_FONTS[level]} ${this.font}`;
      context.lineWidth = 4;
      context.strokeStyle = colours.ground;
      context.strokeText(name, x, y);
      context.fillStyle = level ? colours.weak : colours.text;
      context.fillText(name, x, y);
    }
  }

  /**
   * Return the names that have room where they belong, with their place on the screen. No two overlap; the larger wins.
   * @param {CanvasRenderingContext2D} context
   */
  namesWithRoom(context) {
    const taken = [...this.reserved];
    const [width, height] = [this.width ?? 0, this.height ?? 0];
    /** @type {Name[]} */
    const shown = [];
    for (const each of this.names) {
      if (each.level === 2 && this.look.z < THIRD_LEVEL_ZOOM) continue;
      const [x, top] = this.toScreen(each.x, each.y);
      const y = top - (each.level ? 3 : 8);
      if (x < 0 || x > width || y < 12 || y > height) continue;
      const half = this.widthOf(context, each) / 2;
      // Before 2x a name of the second level is shown only where there is much room.
      const free = each.level && this.look.z < SECOND_LEVEL_ZOOM ? 10 : 3;
      const box = /** @type {[number, number, number, number]} */ ([
        x - half - free,
        y - 13 - free,
        x + half + free,
        y + 4 + free,
      ]);
      if (box[0] < 0 || box[2] > width) continue;
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]))
        continue;
      taken.push([x - half - 3, y - 14, x + half + 3, y + 5]);
      shown.push({ ...each, x, y });
    }
    return shown;
  }

  /** @param {CanvasRenderingContext2D} context @param {Name} name */
  widthOf(context, { name, level }) {
    const key = `${level} ${name}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      context.font = `${NAME_FONTS[level]} ${this.font}`;
      width = context.measureText(name).width;
      this.widths.set(key, width);
    }
    return width;
  }

  // The pointer

  followPointer() {
    /** @type {Map<number, [number, number]>} */
    const down = new Map();
    let moved = 0;
    const at = (/** @type {MouseEvent} */ event) => {
      const box = this.place.getBoundingClientRect();
      return /** @type {[number, number]} */ ([event.clientX - box.left, event.clientY - box.top]);
    };
    this.place.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.lookAt(this.zoomed(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event)));
      },
      { passive: false },
    );
    this.place.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.place.setPointerCapture(event.pointerId);
      down.set(event.pointerId, at(event));
      moved = 0;
      if (this.isLassoing) this.line = [this.toMap(...at(event))];
      this.hover(-1, 0, 0);
    });
    this.place.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      const before = down.get(event.pointerId);
      if (!before) return this.hover(this.pointAt(x, y), x, y);
      moved += Math.hypot(x - before[0], y - before[1]);
      if (this.isLassoing) {
        this.line.push(this.toMap(x, y));
        this.ask();
      } else if (down.size === 2) {
        const other = [...down].find(([id]) => id !== event.pointerId)?.[1] ?? before;
        const grown =
          Math.hypot(x - other[0], y - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
        this.lookAt(this.zoomed(grown, ...other));
      } else {
        this.lookAt({
          ...this.look,
          x: this.look.x - (x - before[0]) / this.scale,
          y: this.look.y - (y - before[1]) / this.scale,
        });
      }
      down.set(event.pointerId, [x, y]);
    });
    const up = (/** @type {PointerEvent} */ event) => {
      if (!down.delete(event.pointerId)) return;
      if (this.isLassoing && this.line.length > 2) {
        this.isLassoing = false;
        this.heard.lasso(this.line);
      } else if (moved < 4 && event.type === "pointerup") {
        const point = this.pointAt(...at(event));
        if (point >= 0) this.heard.dot(point);
      }
    };
    this.place.addEventListener("pointerup", up);
    this.place.addEventListener("pointercancel", up);
    this.place.addEventListener("pointerleave", () => this.hover(-1, 0, 0));
  }

  /** @param {number} x @param {number} y */
  pointAt(x, y) {
    return this.points?.nearest(...this.toMap(x, y), HIT_PX / this.scale) ?? -1;
  }

  /** @param {number} at @param {number} x @param {number} y */
  hover(at, x, y) {
    if (at === this.hovered) return;
    this.hovered = at;
    this.ask();
    this.heard.hover(at, x, y);
  }
}

/**
 * Lay a colour over a pixel.
 * @param {Uint32Array} pixels
 * @param {number} at
 * @param {number} redBlue
 * @param {number} green
 * @param {number} over from 0 to 256
 */
function blend(pixels, at, redBlue, green, over) {
  const under = 256 - over;
  const below = pixels[at];
  pixels[at] =
    0xff000000 |
    (((Math.imul(redBlue, over) + Math.imul(below & 0xff00ff, under)) >>> 8) & 0xff00ff) |
    (((Math.imul(green, over) + Math.imul(below & 0x00ff00, under)) >>> 8) & 0x00ff00);
}

/**
 * @param {Uint32Array} pixels
 * @param {number} width of the picture
 * @param {number} middleX
 * @param {number} middleY
 * @param {number} radius
 * @param {number} redBlue
 * @param {number} green
 * @param {number} alpha
 */
function drawCircle(pixels, width, middleX, middleY, radius, redBlue, green, alpha) {
  for (let y = Math.floor(middleY - radius); y <= Math.floor(middleY + radius); y += 1) {
    for (let x = Math.floor(middleX - radius); x <= Math.floor(middleX + radius); x += 1) {
      const share = clamp(radius + 0.5 - Math.hypot(x + 0.5 - middleX, y + 0.5 - middleY), 0, 1);
      if (share) blend(pixels, y * width + x, redBlue, green, (alpha * share) | 0);
    }
  }
}

/** @param {number} value @param {number} least @param {number} most */
const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

/**
 * Return a colour as a pixel of an image (in the order of bytes of all machines that run a browser).
 * @param {string} colour as it is computed, such as rgb(250, 251, 250)
 */
function pixelOf(colour) {
  const [red, green, blue] = (colour.match(/\d+/g) ?? []).map(Number);
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}
