// Runs before the first paint, so that the page never flashes in the wrong theme.
(function () {
  try {
    const theme = localStorage.getItem('koofu-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is disabled: use the system's theme.
  }
})();
