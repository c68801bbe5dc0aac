// The panel of each kind of box, and faults at their boxes: accessible, and within 320 px, also at 200 % of 640 px.
import { blank, boxes, panel } from "../builder.mjs";

export const name = "builder-panels";

const kinds = {
  "steps with times, counts, filters and an absence on an arrow": 'p_a[plan = "pro" AND (n > 3 OR NOT ok = true)] THEN (NOT p_b) THEN (count(p_c) >= 3 WITHIN 2 days) THEN (NOT p_d AFTER 1h WITHIN 1d12h)',
  "groups in groups": "(p_a AND (p_b OR (p_c THEN p_d))) THEN (NOT (p_a OR p_b) WITHIN 3 days)",
  "a double NOT": "p_a AND (NOT (NOT p_b))",
  "a name without blanks": `"${"p".repeat(249)}" THEN "<img src=x onerror=alert(1)> فاتورة"`,
};

export async function run(t) {
  t.allow(/400|404/);
  const wide = t, narrow = await t.login(t.key), zoomed = await t.fresh({ viewport: { width: 640, height: 800 }, deviceScaleFactor: 2 });
  await zoomed.enter();
  for (const w of [narrow, zoomed]) w.allow(/400|404/);
  await narrow.page.setViewportSize({ width: 320, height: 700 });
  for (const [what, expr] of Object.entries(kinds)) {
    for (const w of [wide, narrow, zoomed]) {
      await blank(w, "&expr=" + encodeURIComponent(expr));
      await boxes(w).nth(1).waitFor();
      for (let i = 0, n = await boxes(w).count(); i < n; i++) {
        await boxes(w).nth(i).focus();
        await w.page.keyboard.press("Enter");
        await panel(w).waitFor();
        const state = `${what}, box ${i + 1}`;
        t.ok(await w.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${state} is wider than ${w.page.viewportSize().width} px`);
        if (w === wide) await w.axe(state);
      }
      if (w !== wide) await w.axe(`${what} at ${w.page.viewportSize().width} px`);
    }
  }
  // A time without a step before it is a fault.
  for (const w of [wide, narrow]) {
    await blank(w, "&expr=" + encodeURIComponent("p_a THEN ((p_b WITHIN 2 days) AND p_c)"));
    await boxes(w).nth(1).waitFor();
    await boxes(w).first().press("Delete");
    await w.page.locator(".drawing").getByText("WITHIN has no starting point").waitFor();
    t.equal(await w.page.locator(".drawing [aria-invalid=true]").allInnerTexts().then(all => all.map(text => text.split("\n")[0])), ["p_b"], "the box of a fault");
    await w.axe("a fault at a box");
  }
  await narrow.close();
  await zoomed.close();
}
