// Keeps the page up to date: fetches it anew and puts the fresh part in place. Without it, the page reloads itself.
'use strict';

(() => {
  const period = 2000;
  const stale = document.getElementById('stale');
  let seen = new Date();
  let busy = false;

  // What the reader has done to the old part is done to the new one.
  function replace(fresh) {
    const old = document.getElementById('page');
    const focused = document.activeElement ? document.activeElement.id : '';
    for (const kept of old.querySelectorAll('[id]')) {
      const twin = fresh.querySelector('#' + CSS.escape(kept.id));
      if (!twin) continue;
      if (kept.open) twin.open = true;
      if (kept.scrollLeft) twin.dataset.left = kept.scrollLeft;
    }
    old.replaceWith(fresh);
    for (const moved of fresh.querySelectorAll('[data-left]')) moved.scrollLeft = moved.dataset.left;
    if (focused) document.getElementById(focused)?.focus({preventScroll: true});
  }

  async function turn() {
    if (document.hidden || busy || !getSelection().isCollapsed) return;
    busy = true;
    try {
      const answer = await fetch(location.pathname, {cache: 'no-store', signal: AbortSignal.timeout(5000)});
      if (!answer.ok) throw new Error('status ' + answer.status);
      const read = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const fresh = read.getElementById('page');
      if (!fresh) throw new Error('an answer that is not this page');
      replace(document.adoptNode(fresh));
      document.title = read.title;
      document.body.classList.remove('old');
      stale.hidden = true;
      seen = new Date();
    } catch (problem) {
      stale.textContent = 'No answer since ' + seen.toLocaleTimeString() + ' (' + problem.message +
        '). What you see is how it was then; the process may have ended.';
      stale.hidden = false;
      document.body.classList.add('old');
    } finally {
      busy = false;
    }
  }

  setInterval(turn, period);
  document.addEventListener('visibilitychange', turn);
})();
