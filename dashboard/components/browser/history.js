// Keep one step of history per page, however often its address changes.
export default () => {
  const patched = Symbol.for("posenc.history");
  if (history[patched]) return;
  history[patched] = true;
  const push = history.pushState.bind(history);
  history.pushState = (state, unused, url) => {
    const same = new URL(url ?? location.href, location.href).pathname === location.pathname;
    if (same) history.replaceState(state, unused, url);
    else push(state, unused, url);
  };
};
