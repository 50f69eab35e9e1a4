// Draws the LaTeX that the pages contain, without a network.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".formula"))
    katex.render(element.textContent, element, {
      displayMode: element.classList.contains("display"),
      throwOnError: false,
      strict: false,
    });
});
