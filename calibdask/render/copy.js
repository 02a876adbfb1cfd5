document.querySelectorAll(".copy button").forEach((button) => {
  const code = button.parentElement.nextElementSibling;
  button.hidden = false;
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(code);
    try { await navigator.clipboard.writeText(code.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "Copied";
  });
});
