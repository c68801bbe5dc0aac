// Pages that are loaded when they are opened.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Loading, Note } from "./parts";

type More = typeof import("../pages/more");
type PropsOf<C> = C extends ComponentType<infer P> ? P : never;

let loaded: More | undefined;

/** later returns a component of more.ts by its name. */
export function later<N extends keyof More>(name: N): ComponentType<PropsOf<More[N]>> {
  return props => {
    const [, again] = useState(0), [failed, fail] = useState(false);
    useEffect(() => { if (!loaded) import("../pages/more").then(m => { loaded = m; again(1); }, () => fail(true)); }, []);
    if (failed) return <Note kind="warn">This part of the console cannot be loaded: the broker does not answer, or it was replaced by another version. Reload the page.</Note>;
    if (!loaded) return <Loading />;
    const View = loaded[name] as unknown as ComponentType<typeof props>;
    return <View {...props} />;
  };
}
