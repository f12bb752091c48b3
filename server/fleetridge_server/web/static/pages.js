// Comforts only: every page works without this file.
"use strict";

// A filter takes effect as soon as it is chosen.
for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement) form.requestSubmit();
  });
}

// A form that changes something is sent once, however often its button is clicked.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// What is done cannot be taken back by the back button.
for (const button of document.querySelectorAll("button[data-sure]")) {
  button.addEventListener("click", (event) => {
    if (!window.confirm(button.dataset.sure)) event.preventDefault();
  });
}

// Pointing at a gpu in a table shows the same gpu in the charts, and the other way round.
const marks = new Map();
for (const link of document.querySelectorAll("a.fr-mark, tbody th > a")) {
  const key = link.getAttribute("href");
  if (!key || !key.startsWith("/ui/gpus/")) continue;
  if (!marks.has(key)) marks.set(key, []);
  marks.get(key).push(link);
}
function pointed(event) {
  const link = event.target instanceof Element && event.target.closest("a.fr-mark, tbody th > a");
  const same = link ? marks.get(link.getAttribute("href")) || [] : [];
  for (const other of same) other.classList.toggle("pointed", event.type === "mouseover" || event.type === "focusin");
}
for (const type of ["mouseover", "mouseout", "focusin", "focusout"]) document.addEventListener(type, pointed);
