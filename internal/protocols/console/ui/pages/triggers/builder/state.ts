// The state of the builder and what its buttons do.

import { useEffect, useState } from "preact/hooks";
import { at, call, Problem, stringify } from "../../../lib/api";
import { asProblem, useAction } from "../../../lib/load";
import { announce } from "../../../lib/parts";
import { replace, route, to } from "../../../lib/route";
import { may } from "../../../lib/session";
import type { Spec, Stored, Trigger } from "../types";
import { examine, reasonsOf, useFaults } from "./checks";
import { useHistory } from "./history";
import { useParsed } from "./parse";
import { specOf, type Settings } from "./settings";
import { boxes, unfinished, type Path, type Tree } from "./tree";
import { baseOf, drop, put, useWork, type Work } from "./work";

/** How is a way to save: as a draft, which is paused; started; or as before, paused or not. */
export type How = "draft" | "start" | "save";

/** statusOf is the state of a trigger that is saved in a way; undefined: as before. */
const statusOf: Record<How, string | undefined> = { draft: "paused", start: "active", save: undefined };

/** Chosen is what a person decides when saving. */
export type Chosen = Pick<Settings, "backfill" | "carry">;

/** SavedAs is what was saved last. */
export interface SavedAs { of: Stored; how: How }

/** just is that of a new trigger, for the page that opens then. */
let just: SavedAs | undefined;

function begin(loaded?: Trigger): Work {
  const base = baseOf(loaded), { expr, topic = "", fire = "once", cooldown = "", text } = route.value.query;
  return loaded ? { base, settings: base.settings, begun: true } : { base, settings: { ...base.settings, topic, fire, cooldown }, typed: expr, begun: !!(expr || text) };
}

/**
 * useBuilder has the work on a trigger, or without an ID on a new one. draft: the trigger is paused and
 * has sent nothing. first is a selector of what takes the focus when the work begins.
 */
export function useBuilder(id: string | undefined, loaded: Trigger | undefined, draft: boolean) {
  const key = id ?? `new ${route.value.query.expr ?? ""}`, [work, set] = useWork(key, () => begin(loaded)), { settings, typed, base } = work;
  const h = useHistory(key, base), parsed = useParsed(h, typed, text => set(w => w.typed === text ? { typed: undefined } : {}));
  const [path, select] = useState<Path>(), [isDraft, setDraft] = useState(draft), action = useAction();
  const [saved, setSaved] = useState(() => just?.of.id === id ? just : undefined), [asking, ask] = useState<How>(), [conflict, collide] = useState<{ trigger?: Trigger }>(), [mine, keep] = useState<{ settings: Settings; text: string; tree: Tree }>();
  const dirty = work.begun && (typed !== undefined || h.text !== base.text || stringify(h.tree) !== stringify(base.tree) || stringify(settings) !== stringify(base.settings));
  const [first, lead] = useState(""), [restored, restore] = useState(dirty && !route.value.query.expr);

  const name = id ?? settings.id, checked = useFaults(name, settings, parsed.answer?.text, !id, work.begun && may("write", "trigger"));

  const adopt = (t: Trigger) => {
    const b = baseOf(t);
    set(() => ({ base: b, settings: b.settings, typed: undefined }));
    if (b.text !== h.text || stringify(b.tree) !== stringify(h.tree)) h.type(b.text, b.tree);
  };
  useEffect(() => {
    just = undefined;
    if (!loaded) return;
    if (!dirty) adopt(loaded);
    else if (loaded.tag !== base.trigger?.tag) collide({ trigger: loaded });
  }, []);
  const touched = () => { setSaved(undefined); action.clear(); };

  const store = async (how: How, chosen: Chosen, from?: Trigger) => {
    const answer = await parsed.now();
    const spec: Spec = { expr: answer.text, ...specOf({ ...settings, ...chosen }), status: statusOf[how] };
    // Only a new version reads the history again. This one would not be new.
    if (how === "start" && isDraft && from && !from.carry_fired) from = await put(name, { ...spec, carry_fired: true, status: "paused" }, from);
    return put(name, spec, from);
  };
  const save = async (how: How, chosen: Chosen, from?: Trigger) => {
    let of: Stored;
    try {
      of = await store(how, chosen, from);
    } catch (e) {
      const p = asProblem(e);
      if (p.status !== 412 && !(p.status === 404 && id)) throw e;
      ask(undefined);
      if (!id) throw new Problem(412, p.code, `The trigger ${settings.id} exists. Edit it, or choose another ID.`);
      collide({ trigger: await call<Trigger>("GET", at`/triggers/${id}`).catch(e => { if (e.status !== 404) throw e; return undefined; }) });
      return announce("It was changed elsewhere");
    }
    const done = { of, how };
    announce(`Stored as version ${of.version}`);
    if (!id) {
      just = done;
      drop(key);
      return replace(to("triggers", of.id, { edit: "yes" }));
    }
    const b = baseOf(of);
    set(() => ({ base: { ...b, tree: h.tree, text: h.text }, settings: b.settings }));
    ask(undefined); collide(undefined); keep(undefined); setSaved(done);
    setDraft(how === "draft" || how === "save" && isDraft);
  };

  return {
    id, h, settings, typed, base, checked, path, select, action, saved, asking, ask, conflict, mine, isDraft, dirty, first, ...parsed,
    save: (chosen: Chosen) => action.run(() => save(asking!, chosen, base.trigger)),
    begun: work.begun, open: unfinished(h.tree), restored: restored && dirty,
    /** start begins a new trigger from a template, or without one with the text. */
    start: (tree?: Tree, fire?: string) => {
      set(w => ({ begun: true, settings: { ...w.settings, fire: fire ?? w.settings.fire } }));
      lead(tree ? ".panel input" : "textarea");
      if (!tree) return;
      h.edit(tree);
      select(boxes(tree)[0]);
    },
    edit: (tree: Tree, path?: Path, merge?: string) => {
      if (typed !== undefined) set(() => ({ typed: undefined }));
      h.edit(tree, merge);
      if (path) select(path);
      touched();
    },
    type: (typed: string) => { set(() => ({ typed })); touched(); },
    undo: () => { if (typed !== undefined) set(() => ({ typed: undefined })); else h.undo(); },
    change: (c: Partial<Settings>) => { set(w => ({ settings: { ...w.settings, ...c } })); touched(); },
    discard: () => {
      set(() => ({ settings: base.settings, typed: undefined, begun: !!id }));
      h.type(base.text, base.tree);
      restore(false);
      announce("Discarded");
    },
    /** submit saves a draft, or asks what else a person has to know. */
    submit: (how: How) => action.run(async () => {
      const found = await examine(name, settings, (await parsed.now()).text, !id), [first] = reasonsOf(found, settings);
      checked.found(found);
      if (first) throw new Error(`${first.label}: ${first.text}`);
      if (how !== "draft") ask(how);
      else await save(how, { backfill: settings.backfill, carry: true }, base.trigger);
    }),
    /** overwrite saves over what is stored now; takeStored takes that, and takeMine goes back. */
    overwrite: () => action.run(() => save(isDraft && conflict!.trigger?.status !== "active" ? "draft" : "save", settings, conflict!.trigger)),
    takeStored: () => { keep({ settings, text: h.text, tree: h.tree }); adopt(conflict!.trigger!); collide(undefined); },
    takeMine: () => { set(() => ({ settings: mine!.settings })); h.type(mine!.text, mine!.tree); keep(undefined); },
  };
}

/** State is that of the builder. */
export type State = ReturnType<typeof useBuilder>;
