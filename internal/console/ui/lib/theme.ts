// Dark or light: as the system, or as the person chose.

import { effect, signal } from "@preact/signals";

export const themes = [["", "As the system"], ["light", "Light"], ["dark", "Dark"]] as const;

/** theme is the choice; "" follows the system. */
export const theme = signal<"" | "light" | "dark">((localStorage.getItem("seb-theme") as "light" | "dark" | null) ?? "");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("seb-theme", theme.value);
});

/** dark reports whether the page is dark now. */
export function dark(): boolean { return theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; }
