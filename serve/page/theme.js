// Runs before the first paint, so that the page does not flash in the wrong theme.
(function () {
  try {
    const theme = localStorage.getItem('koofu-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is switched off: the system's theme it is.
  }
})();
