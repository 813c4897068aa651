// Asking for a token.

import { get, Problem, token } from "./api";
import { h } from "./dom";
import { copyable, type Page } from "./parts";

export function loginPage(why: string, done: () => void): Page {
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", spellcheck: "false", required: true, "aria-describedby": "wrong", placeholder: "weir_\u2026" });
  const wrong = h("p", { id: "wrong", class: "wrong", role: "alert" }, why);
  const form = h("form", {
    class: "login card",
    submit: async (event: Event) => {
      event.preventDefault();
      wrong.textContent = "";
      token.set(input.value.trim());
      try {
        await get("openapi.json", {}, AbortSignal.timeout(10_000)); // every identity may
        done();
      } catch (failure) {
        token.set("");
        wrong.textContent = failure instanceof Problem && failure.status === 401 ? "This server does not accept the token." : "The server does not answer. Try again in a moment.";
        input.select();
        input.focus();
      }
    },
  },
    h("h1", { tabindex: -1 }, "Token"),
    h("p", {}, "This server needs a token with role read. It is kept until this tab is closed. On the server, this command makes one:"),
    copyable("weir token create NAME --role read"),
    h("label", { for: "token" }, "Token"), input, wrong,
    h("button", { type: "submit" }, "Open"));
  return { title: "Token", element: form, close: () => undefined };
}
