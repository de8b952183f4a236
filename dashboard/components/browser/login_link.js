// Keep a link in this tab while its visitor is at a provider of logins.
const KEY = "posenc.login";
const LONGEST = 15 * 60 * 1000;  // milliseconds until somebody who left is not expected back
const left = Symbol.for("posenc.login");  // this page is being left: what it keeps is for the next

const kept = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
};
const keep = (value) => {
  try {
    if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
    else sessionStorage.removeItem(KEY);
  } catch {}  // a browser that keeps nothing comes back to the start page
};

export default ({ data, setTriggerValue }) => {
  if (data.leaving) {
    window[left] = true;
    keep({ link: location.href, at: Date.now(), leaving: data.leaving });
    setTriggerValue("kept", true);
    return;
  }
  const was = window[left] ? null : kept();
  if (!was) return;
  keep(null);
  if (was.back || was.link === location.href) {
    if (was.leaving === "in" && !data.known) setTriggerValue("refused", true);
    return;
  }
  const here = location.pathname.replace(/[/]*$/, "/");
  if (here !== data.root || location.search || !(Date.now() - was.at < LONGEST)) return;
  const link = new URL(was.link);
  const ours = link.origin === location.origin && link.pathname.startsWith(data.root);
  if (!ours || link.pathname.includes("//")) return;
  keep({ ...was, back: true });
  location.replace(link.href);
};
