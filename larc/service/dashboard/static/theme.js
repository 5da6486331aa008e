"use strict";
// Before anything is drawn: the theme that was chosen here, if one was.
(() => {
  const root = document.documentElement;
  let chosen = null;
  try { chosen = localStorage.getItem("larc-theme"); } catch { /* not allowed: the system's */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  root.classList.add("script");
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("larc-theme", root.dataset.theme); } catch { /* for this page only */ }
      document.dispatchEvent(new Event("larc:theme"));
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new Event("larc:theme"));
  });
})();
