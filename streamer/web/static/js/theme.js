// Runs before the page is painted, so that it never flashes in the wrong colours.
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const saved = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const apply = (choice) => {
    const dark = choice ? choice === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    window.dispatchEvent(new Event("themechange"));
  };
  apply(saved());
  system.addEventListener("change", () => apply(saved()));
  const NEXT = { "": "light", light: "dark", dark: "" };
  const NAMES = { "": "as the system", light: "light", dark: "dark" };
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = (choice) => {
      button.title = button.ariaLabel = `Colours: ${NAMES[choice]}`;
    };
    name(saved() ?? "");
    button.addEventListener("click", () => {
      const choice = NEXT[saved() ?? ""];
      try {
        if (choice) localStorage.setItem("theme", choice);
        else localStorage.removeItem("theme");
      } catch {
        // a browser without storage: for this page only
      }
      name(choice);
      apply(choice);
    });
  });
})();
