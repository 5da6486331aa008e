"use strict";
// A page that is open follows the log: it is told that something took effect, fetches itself again
// and exchanges the parts that are marked. Without this script it is loaded again by hand.
(() => {
  const LEAST = 500; // milliseconds between two fetches

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  // Exchange parts by their ids; whoever was open stays open, and the focus stays where it was.
  const exchange = (other) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = other.getElementById(part.id);
      if (fresh && !part.contains(document.activeElement)) {
        part.replaceWith(document.adoptNode(fresh));
      } else if (fresh && part.outerHTML !== fresh.outerHTML && !part.matches(":focus-within")) {
        part.replaceWith(document.adoptNode(fresh));
      }
    }
    document.dispatchEvent(new Event("larc:change"));
  };

  let waiting = false, last = 0;
  const refresh = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(async () => {
      waiting = false;
      last = Date.now();
      try {
        const answer = await fetch(location.href, { credentials: "same-origin" });
        if (!answer.ok || answer.redirected) { location.reload(); return; }
        const other = parse(await answer.text());
        // The first label brings charts that were not there.
        const empty = document.getElementById("nothing");
        if (empty && !other.getElementById("nothing")) { location.reload(); return; }
        exchange(other);
      } catch { /* the server is away; the next change tells us when it is back */ }
    }, Math.max(0, LEAST - (Date.now() - last)));
  };

  const listen = () => {
    const address = document.body.dataset.changes;
    if (!address || !window.EventSource) return;
    const sign = document.getElementById("live");
    let seen = null;
    const source = new EventSource(address);
    source.addEventListener("open", () => { sign.hidden = false; });
    source.addEventListener("error", () => { sign.hidden = true; });
    source.addEventListener("change", (event) => {
      if (seen !== null && seen !== event.data) refresh();
      if (seen === null && document.body.dataset.seen !== event.data) refresh();
      seen = event.data;
    });
    addEventListener("pagehide", () => source.close());
  };

  // Forms of the playground are sent without leaving the page.
  const swap = async (event) => {
    const form = event.target;
    if (!form.matches("form[data-swap]")) return;
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const main = document.getElementById("main");
    if (main.getAttribute("aria-busy") === "true") return;
    main.setAttribute("aria-busy", "true");
    const label = event.submitter && event.submitter.getAttribute("aria-label");
    const steps = document.getElementById("steps");
    try {
      const answer = await fetch(form.action, { method: "POST", body: fields, credentials: "same-origin" });
      const other = parse(await answer.text());
      const open = [...document.querySelectorAll("details[open]")].map((one) => one.id);
      const fresh = document.adoptNode(other.getElementById("main"));
      const count = fresh.querySelector("#steps");
      if (steps && count) count.value = steps.value;
      main.replaceWith(fresh);
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      if (answer.ok) history.replaceState(null, "", answer.url);
      const again = label && [...fresh.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === label);
      (again || fresh.querySelector("button"))?.focus();
    } catch {
      form.submit();
    }
  };

  document.addEventListener("submit", swap);
  listen();
})();
