"use strict";
// The charts of a stream, from what the page holds as JSON. Colours are the page's own.
(() => {
  const COLOURS = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6"];
  const drawn = new Map();

  const read = () => JSON.parse(document.getElementById("series").textContent);

  // The mean of a label and those before it; at the beginning, of those there are.
  const smooth = (values, window) => values.map((_, at) => {
    let sum = 0, count = 0;
    for (let i = Math.max(0, at - window + 1); i <= at; i++) {
      if (values[i] !== null) { sum += values[i]; count += 1; }
    }
    return count ? sum / count : null;
  });

  const resolved = (name) => {
    // A custom property may hold light-dark(): only a real property is resolved.
    const probe = document.getElementById("main");
    const before = probe.style.outlineColor;
    probe.style.outlineColor = `var(${name})`;
    const colour = getComputedStyle(probe).outlineColor;
    probe.style.outlineColor = before;
    return colour;
  };
  const faded = (colour, part) => colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${part})`);

  const frame = (extra) => {
    const soft = resolved("--soft"), rule = resolved("--rule");
    const axis = { stroke: soft, grid: { stroke: rule, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      height: 240,
      scales: { x: { time: false } },
      cursor: { drag: { setScale: false } },
      legend: { live: true },
      axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], space: 60 }, { ...axis, size: 46 }],
      ...extra,
    };
  };

  const digits = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

  const LOOKS = {
    loss: (data) => {
      const window = Math.max(3, Math.min(50, Math.round(data.labels.length / 15)));
      const columns = data.lines.map((line) => smooth(data.losses[line.name], window));
      return {
        data: [data.labels, ...columns],
        options: frame({
          series: [{ label: "label" }, ...data.lines.map((line, at) => ({
            label: line.title, stroke: resolved(line.colour), width: at ? 1.5 : 2.5,
            dash: line.part === "best" ? [5, 4] : undefined,
            value: (_, value) => digits(value), points: { show: data.labels.length < 3 },
          }))],
          scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(0.1, high * 1.08)] } },
        }),
      };
    },
    weights: (data) => {
      const names = Object.keys(data.weights);
      const stacked = [];
      let below = data.labels.map(() => 0);
      for (const name of names) {
        below = below.map((value, at) => value + data.weights[name][at]);
        stacked.push(below);
      }
      return {
        data: [data.labels, ...stacked],
        options: frame({
          series: [{ label: "label" }, ...names.map((name, at) => ({
            label: name, stroke: resolved(COLOURS[at % 7]), width: 1,
            fill: faded(resolved(COLOURS[at % 7]), 0.55),
            value: (_, __, ___, index) => (index === null ? "–" : `${(100 * data.weights[name][index]).toFixed(0)} %`),
            points: { show: data.labels.length < 3 },
          }))],
          bands: names.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })),
          scales: { x: { time: false }, y: { range: [0, 1] } },
        }),
      };
    },
    regret: (data) => {
      const bound = data.labels.map(() => data.bound);
      return {
        data: [data.labels, data.regret, bound],
        options: frame({
          series: [
            { label: "label" },
            { label: "regret", stroke: resolved("--s0"), width: 2.5, value: (_, value) => digits(value), points: { show: data.labels.length < 3 } },
            { label: "bound", stroke: resolved("--s1"), width: 1.5, dash: [6, 4], value: (_, value) => digits(value), points: { show: false } },
          ],
        }),
      };
    },
  };

  const draw = () => {
    const data = read();
    for (const box of document.querySelectorAll("[data-chart]")) {
      const { data: columns, options } = LOOKS[box.dataset.chart](data);
      drawn.get(box)?.destroy();
      drawn.set(box, new uPlot({ width: Math.max(200, box.clientWidth), ...options }, columns, box));
    }
    document.body.dataset.drawn = String(data.labels.length);
  };

  const resize = () => {
    for (const [box, chart] of drawn) chart.setSize({ width: Math.max(200, box.clientWidth), height: chart.height });
  };

  if (document.querySelector("[data-chart]")) {
    draw();
    document.addEventListener("larc:change", draw);
    document.addEventListener("larc:theme", draw);
    addEventListener("resize", resize);
  }
})();
