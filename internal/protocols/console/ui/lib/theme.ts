// Dark or light: as the system, or as the person chose.

import { State } from "./state";

export const themes = [["", "As the system"], ["light", "Light"], ["dark", "Dark"]] as const;

/** theme is the choice; "" follows the system. */
export const theme = new State<"" | "light" | "dark">((localStorage.getItem("seb-theme") as "light" | "dark" | null) ?? "");

function show(chosen: string) {
  document.documentElement.dataset.theme = chosen;
  localStorage.setItem("seb-theme", chosen);
}
theme.onChange = show;
show(theme.value);

/** dark reports whether the page is dark now. */
export function dark(): boolean { return theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; }
