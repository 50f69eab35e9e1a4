// Draws the LaTeX that the pages contain, without a network, and scrolls the navigation to the page.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".formula"))
    katex.render(element.textContent, element, {
      displayMode: element.classList.contains("display"),
      throwOnError: false,
      strict: false,
    });
  const sidebar = document.querySelector(".sidebar-scroll");
  const current = sidebar?.querySelector(".current-page > a");
  const below = current && current.getBoundingClientRect().top - sidebar.getBoundingClientRect().top;
  if (below > sidebar?.clientHeight - 60)
    sidebar.scrollBy({ top: below - sidebar.clientHeight / 2, behavior: "instant" });
});
