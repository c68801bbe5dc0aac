// The console: the frame around the pages, and the login.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ended, unreachable } from "./lib/api";
import { announced } from "./lib/parts";
import { route, to } from "./lib/route";
import { onState } from "./lib/state";
import { logout, may, resume, session } from "./lib/session";
import { theme, themes } from "./lib/theme";
import { Login } from "./pages/login";
import { nowhere, pages } from "./pages";

function App() {
  const [, draw] = useState({});
  onState(() => draw({}));
  useEffect(() => { resume(); }, []);
  if (session.value === undefined) return <p class="boot" role="status">{unreachable.value ? "The broker does not answer. Trying again …" : "Loading …"}</p>;
  return session.value === null ? <Login why={ended.value} /> : <Shell />;
}

function Shell() {
  const { path } = route.value, name = path[0] ?? "overview";
  const page = pages.find(p => p.path === name) ?? nowhere;
  const key = path.join("/");
  // A new page begins at its top, and its heading is what a screen reader reads first.
  useEffect(() => { scrollTo(0, 0); document.querySelector<HTMLElement>("main")!.focus({ preventScroll: true }); }, [key]);
  return <>
    <a class="skip" href="#main" onClick={e => { e.preventDefault(); document.querySelector("main")!.focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href={to("overview")}>Seb</a>
      <nav aria-label="Pages">{pages.filter(p => p.name && (!p.needs || p.needs.some(([operation, resource]) => may(operation, resource)))).map(p =>
        <a href={to(p.path)} key={p.path} aria-current={p.path === name ? "page" : undefined}>{p.name}</a>)}</nav>
      <div class="who">
        <label><span class="unseen">Colours</span><select value={theme.value} onChange={e => { theme.value = e.currentTarget.value as typeof theme.value; }}>
          {themes.map(([value, name]) => <option value={value} key={value}>{name}</option>)}</select></label>
        <span title="The token of this session">{session.value!.principal}</span>
        <button type="button" class="quiet" onClick={() => logout()}>Log out</button>
      </div>
    </header>
    {unreachable.value && <p class="banner" role="alert">The broker does not answer. What is shown may be old; the page goes on when it is back.</p>}
    {session.value!.read_only && <p class="banner info">This broker is read-only: it follows another one and takes no writes.</p>}
    <main id="main" tabIndex={-1}><page.view key={page.path} path={path.slice(1)} /></main>
    <div class="unseen" role="log" aria-live="polite">{announced.value}</div>
  </>;
}

// No form is sent by the browser.
addEventListener("submit", e => e.preventDefault());
render(<App />, document.getElementById("app")!);
