// What conversations talk about together, as a graph.

import { call } from "../../api.js";
import { withTable } from "../../controls.js";
import { count, counted } from "../../format.js";
import { drawGraph, graphTable } from "../../graph.js";
import { fill, h } from "../../html.js";

/** @typedef {import("../../app.js").Page} Page */

const NODES = 300;

/**
 * Read the graph and draw it into a place.
 * @param {Page} page
 * @param {HTMLElement} place
 */
export const showTogether = (page, place) => drawTogether(page, place).catch((error) => page.fail(error));

/** @param {Page} page @param {HTMLElement} place */
async function drawTogether(page, place) {
  const graph = await call("GET /v1/graph", { namespace: page.namespace, relation: "co_occurs", limit: NODES });
  let chosenNode = "";
  const head = h("h3.grow", "What is talked about together");
  if (!graph.nodes.length) {
    return fill(
      place,
      head,
      h(
        "p.meta",
        "Nothing yet: this grows from conversations that agents have recorded, as what they talk about is recalled together.",
      ),
    );
  }
  const nodes = graph.nodes.map((each) => ({
    id: each.id,
    name: each.label || "(no words of it may be shown)",
    size: each.members,
  }));
  const edges = graph.edges.map((edge) => ({ from: edge.source, to: edge.target, weight: edge.weight }));
  const picture = h("div.graph-place");
  const table = withTable(picture, () =>
    graphTable(nodes, edges, ["about", "turns", "talked about together with (times)"]),
  );
  const said = h("p.meta", { role: "status" });
  const draw = async () => {
    const left = await drawGraph(picture, nodes, edges, {
      label: `${count(nodes.length)} topics of conversations, ${counted(edges.length, "pair")} talked about together`,
      selected: chosenNode,
      choose: (id) => {
        chosenNode = chosenNode === id ? "" : id;
        draw().catch((error) => page.fail(error));
      },
    });
    const chosen = nodes.find((node) => node.id === chosenNode);
    const others = edges.filter((edge) => chosen && (edge.from === chosen.id || edge.to === chosen.id)).length;
    fill(
      said,
      chosen
        ? [
            h("b", { dir: "auto" }, chosen.name),
            ` · ${counted(chosen.size, "turn")} · together with ${count(others)} others`,
          ]
        : [
            edges.length ? "" : "No two were recalled together yet. ",
            left || graph.total > nodes.length
              ? `The ${count(nodes.length - left)} with most connections of ${count(graph.total)}. `
              : "",
            "Size: turns; width: times together.",
          ],
    );
  };
  fill(place, h("div.row", head, table.toggle), picture, table.place, said);
  await draw();
}
