// The frame of all pages: where the reader is, the view of that page, theme and time zone.

import "./style.css";
import { Problem, token, watch, type State } from "./api";
import { attr, fill, h, name, text } from "./dom";
import { clock, zone } from "./format";
import { keep, kept } from "./kept";
import { keyPage } from "./key";
import { limitsPage } from "./limits";
import { logPage } from "./log";
import { loginPage } from "./login";
import { nodesPage } from "./nodes";
import { overviewPage } from "./overview";
import { mark, type Page } from "./parts";
import { here, link, type Place } from "./place";
import { sitePage } from "./site";
import { search } from "./search";
import { whyPage } from "./why";

interface Shown<T> { page: Page; /** of the view; "": there is none */ path: string; params: Record<string, string | string[]>; view(of: T): void }

const pages: Record<Place["page"], (place: Place) => Shown<never>> = { overview: overviewPage, key: keyPage, limits: limitsPage, log: logPage, nodes: nodesPage, site: sitePage, why: whyPage, unknown: unknownPage };
const root = document.documentElement;
const main = h("main", { id: "main" });
const status = h("span", { class: "status", role: "status" }, h("span", { class: "word" }));
const fresh = h("time", { class: "fresh" });
const refused = h("p", { class: "refused", role: "alert", hidden: true });
const tabs = ([["overview", "Overview"], ["site", "Sites"], ["limits", "Limits"], ["log", "Live"], ["nodes", "Cluster"]] as const).map(([page, title]) => [page, h("a", { href: link(page) }, title)] as const);
const leave = h("button", { type: "button", class: "plain", hidden: true, click: () => { token.set(""); show(); } }, "Forget token");

/** unknownPage is for an address that leads nowhere: somebody typed it, or a link was cut. */
function unknownPage(place: Place): Shown<unknown> {
  const element = h("div", { class: "page" }, h("h1", { tabindex: -1 }, "No such page"),
    h("p", {}, "There is no page ", h("code", {}, name(`#/${place.name}`)), ". The field above finds keys by their beginning."),
    h("p", {}, h("a", { class: "button", href: link("overview") }, "Overview of all keys")));
  return { page: { title: "No such page", element, close: () => undefined }, path: "", params: {}, view: () => undefined };
}

let close = () => {};
let first = true;
let alarms = 0;

function say(state: State) {
  const wrong = state === "live" && alarms > 0;
  attr(status, "data-alarms", wrong ? "" : null);
  attr(status, "data-state", state);
  text(status.firstElementChild!, { connecting: "Connecting", live: wrong ? `Live, ${alarms} ${alarms === 1 ? "alarm" : "alarms"}` : "Live", lost: "Connection lost: trying again" }[state]);
  attr(main, "data-state", state);
}

function show() {
  close();
  const place = here();
  const made = pages[place.page](place) as Shown<unknown>;
  for (const [page, tab] of tabs) attr(tab, "aria-current", page === place.page || (page === "limits" && place.page === "why") ? "page" : null);
  refused.hidden = true;
  attr(document.body, "data-public", null);
  leave.hidden = !token.get();
  put(made.page);
  if (!made.path) {
    attr(status, "data-state", null);
    text(status.firstElementChild!, "");
    attr(main, "data-state", null);
    close = made.page.close;
    return;
  }
  const end = watch<{ as_of?: number; at?: number; all?: unknown; alarms?: unknown[]; cluster?: { now: number; alarms: unknown[] } }>(made.path, made.params, {
    state: say,
    view(of) {
      refused.hidden = true;
      if (of.all || of.cluster) alarms = (of.alarms ?? of.cluster?.alarms ?? []).length; // other views have none
      say("live");
      text(fresh, clock(of.at ?? of.cluster?.now ?? of.as_of ?? 0));
      made.view(of);
    },
    problem(problem) {
      if (problem.status === 401) return login(problem);
      refused.hidden = false;
      text(refused, problem.message);
    },
  });
  close = () => {
    end();
    made.page.close();
  };
}

function login(problem: Problem) {
  close();
  close = () => {};
  const had = token.get() !== "";
  token.set("");
  leave.hidden = true;
  attr(status, "data-state", null);
  text(status.firstElementChild!, "");
  text(fresh, "");
  attr(document.body, "data-public", ""); // nothing else is shown
  put(loginPage(had ? `The token is no longer good: ${problem.message}.` : "", show));
  document.getElementById("token")?.focus();
}

function put(page: Page) {
  document.title = `${page.title} \u00b7 Weir`;
  fill(main, refused, page.element);
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true }); // who can't see learns that the page is another
  first = false;
  scrollTo(0, 0);
}

const themes = ["auto", "light", "dark"];
const theme = () => kept("weir theme") || "auto";
const changed = () => dispatchEvent(new Event("weir theme"));
const themeButton = h("button", { type: "button", class: "plain", click: () => { keep("weir theme", themes[(themes.indexOf(theme()) + 1) % themes.length]!); paint(); } });
const zoneButton = h("button", { type: "button", class: "plain", click: () => { keep("weir zone", zone() === "UTC" ? "" : "UTC"); paint(); } });

function paint() {
  attr(root, "data-theme", theme() === "auto" ? null : theme());
  text(themeButton, `Theme: ${theme()}`);
  text(zoneButton, `Time: ${zone() === "UTC" ? "UTC" : "local"}`);
  changed();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
fill(document.body,
  h("a", { class: "skip", href: "#main", click: (e: Event) => { e.preventDefault(); main.querySelector("h1")?.focus(); } }, "Skip to the page"),
  h("header", { class: "bar" },
    h("a", { class: "brand", href: link("overview") }, mark(), "Weir"),
    h("nav", { class: "pages", "aria-label": "Pages" }, ...tabs.map(([, tab]) => tab)),
    search(), h("span", { class: "live" }, status, fresh)),
  main,
  h("footer", {}, themeButton, zoneButton, leave, h("a", { href: "docs" }, "HTTP API")));
attr(document.body, "class", "ready");
paint();
addEventListener("hashchange", show);
show();
