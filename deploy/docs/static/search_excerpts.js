// The first paragraph of a class or function below its name in the results of a search, where Sphinx shows none.
"use strict";

const _pages = new Map();

const _page = (address) => {
  if (!_pages.has(address)) {
    const parsed = fetch(address)
      .then((response) => response.text())
      .then((text) => new DOMParser().parseFromString(text, "text/html"));
    _pages.set(address, parsed);
  }
  return _pages.get(address);
};

const _addExcerpt = async (result) => {
  const link = new URL(result.querySelector("a").href);
  const anchor = decodeURIComponent(link.hash.slice(1));
  const page = await _page(link.pathname);
  const paragraph = page.getElementById(anchor)?.parentElement.querySelector("dd > p");
  if (!paragraph) return;
  const excerpt = result.appendChild(document.createElement("p"));
  excerpt.className = "context";
  excerpt.textContent = paragraph.textContent;
};

document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (!results) return;
  const observer = new MutationObserver((changes) => {
    const added = changes.flatMap((change) => [...change.addedNodes]);
    added.filter((node) => node.matches?.("li.kind-object")).forEach(_addExcerpt);
  });
  observer.observe(results, { childList: true, subtree: true });
});
