// State of the page as a whole, such as its address. When it changes, the page is drawn again.

let draw = () => {}, asked = false;

/** onState says how the page is drawn again. */
export function onState(page: () => void) { draw = page; }

/** State is a value that parts of the page show. onChange is called with each new one. */
export class State<T> {
  private now: T;
  onChange?: (value: T) => void;

  constructor(first: T) { this.now = first; }

  get value() { return this.now; }

  set value(next: T) {
    if (next === this.now) return;
    this.now = next;
    this.onChange?.(next);
    if (!asked) queueMicrotask(() => { asked = false; draw(); });
    asked = true; // changes that come together are drawn once
  }
}
