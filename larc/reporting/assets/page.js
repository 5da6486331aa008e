// Values where a chart is pointed at, touched, or walked through with the arrow keys; light or dark.
"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  let shown = null;

  const hide = () => {
    if (!shown) return;
    shown.classList.remove("shown");
    shown.ownerSVGElement.classList.remove("pointing");
    shown = null;
    tip.hidden = true;
  };

  const show = (mark) => {
    if (mark === shown) return;
    hide();
    shown = mark;
    const chart = mark.ownerSVGElement;
    mark.classList.add("shown");
    if (!chart.classList.contains("along")) chart.classList.add("pointing");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = new DOMPoint(mark.dataset.x, mark.dataset.y).matrixTransform(chart.getScreenCTM());
    const box = tip.getBoundingClientRect();
    const width = root.clientWidth;
    const left = Math.max(8, Math.min(at.x - box.width / 2, width - box.width - 8));
    const above = at.y - box.height - 14;
    tip.style.transform = `translate(${left}px, ${above > 8 ? above : at.y + 16}px)`;
  };

  for (const chart of document.querySelectorAll("svg.chart")) {
    // From here on the titles are shown by this script; the browser's own would come second.
    const title = chart.querySelector(":scope > title");
    const desc = chart.querySelector(":scope > desc");
    chart.setAttribute("aria-label", `${title.textContent}. ${desc.textContent}`);
    title.remove();
    const marks = [...chart.querySelectorAll(".m")];
    for (const mark of marks) {
      const own = mark.querySelector("title");
      mark.dataset.tip = own.textContent;
      own.remove();
    }
    // Along lines only left and right count; on rows, which are wide, mostly up and down.
    const along = chart.classList.contains("along");
    const rows = chart.classList.contains("rows");
    const nearest = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY);
      const place = at.matrixTransform(chart.getScreenCTM().inverse());
      let best = null;
      let least = along ? Infinity : 48;
      for (const mark of marks) {
        const dx = (mark.dataset.x - place.x) * (rows ? 0.05 : 1);
        const dy = (mark.dataset.y - place.y) * (along ? 0 : 1);
        const distance = Math.hypot(dx, dy);
        if (distance < least) [best, least] = [mark, distance];
      }
      if (best) show(best);
      else hide();
    };
    chart.addEventListener("pointermove", nearest);
    chart.addEventListener("pointerdown", nearest);
    chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !marks.length) return;
      event.preventDefault();
      const now = marks.indexOf(shown);
      const next = now < 0 && step < 0 ? marks.length - 1 : now + step;
      show(marks[Math.min(Math.max(next, 0), marks.length - 1)]);
    });
  }
  document.addEventListener("pointerdown", (event) => event.target.closest("svg.chart") || hide());
  addEventListener("scroll", hide, { passive: true });
  addEventListener("resize", hide);

  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  root.classList.add("live");
})();
