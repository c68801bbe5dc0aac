import { toJSON, type Record } from "./content.js";
import { NotBroker, SebError, errorOf, invalid, noAnswer } from "./errors.js";
import { readPage, type Page } from "./read.js";
import { timerMax, type CallOptions, type Transport } from "./transport.js";
import type { Group, OffsetEntry, OffsetResults, Topic } from "./types.js";

export interface ConsumerOptions extends CallOptions {
  /** Default: all; with follow also partitions that are added later. */
  partitions?: number[];
  /** Where a partition without a committed offset begins: "earliest" (default) or "latest", which is committed at once. */
  start?: "earliest" | "latest";
  /** Waits for new records at the end. Without it the consumer ends at the end of each partition. */
  follow?: boolean;
  /** Seconds between commits; default 1. 0: only commit commits. */
  commitEvery?: number;
  /** Bounds one fetch of a partition, which is kept in memory; default 1 MiB. */
  maxBytes?: number;
}

/** Milliseconds between two looks for new partitions. */
const partitionsEvery = 30_000;

/** An answer that the reader of a partition hands to next. */
interface Fetched {
  partition: number;
  page: Page;
  at: number; // records that next has returned
  done: () => void;
}

/**
 * Reads a topic for a consumer group: the partitions concurrently, each in order from the group's committed offset.
 * A record is finished when next returns the following one, or by done. Only finished records are committed, so after
 * a crash the group reads every unfinished record again, and possibly some finished ones (at least once).
 *
 * Call next, done or the iterator from one place at a time.
 */
export class Consumer implements AsyncIterable<Record> {
  readonly #t: Transport;
  readonly #group: string;
  readonly #topic: string;
  readonly #o: ConsumerOptions;
  readonly #abort = new AbortController();
  readonly #readers = new Map<number, Promise<void>>();
  readonly #finished = new Map<number, number>();
  readonly #committed = new Map<number, number>();
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #queue: Fetched[] = [];
  #current?: Fetched;
  #failed?: unknown;
  #reading = 0;
  #wake: () => void = () => {};
  #committing: Promise<void> = Promise.resolve();

  private constructor(t: Transport, group: string, topic: string, o: ConsumerOptions) {
    [this.#t, this.#group, this.#topic, this.#o] = [t, group, topic, o];
  }

  /** Begins to read a topic for a group. */
  static async open(t: Transport, group: string, topic: string, o: ConsumerOptions): Promise<Consumer> {
    if (!["earliest", "latest"].includes(o.start ?? "earliest")) throw invalid('start: want "earliest" or "latest"');
    const every = 1000 * (o.commitEvery ?? 1);
    if (!(every >= 0)) throw invalid("commitEvery: want seconds, 0 or more");
    const k = new Consumer(t, group, topic, o);
    const from = await k.#start(o.signal);
    o.signal?.addEventListener("abort", k.#stop, { once: true });
    if (o.signal?.aborted) k.#stop();
    k.#read(from);
    if (o.follow && !o.partitions) k.#every(partitionsEvery, async () => k.#read(await k.#start(k.#abort.signal)));
    if (every > 0) k.#every(every, () => k.commit());
    return k;
  }

  readonly #stop = () => {
    this.#abort.abort();
    [...this.#queue, this.#current].forEach((f) => f?.done());
    this.#wake();
  };

  /** Calls f periodically. The timer does not keep the process alive. */
  #every(ms: number, f: () => Promise<unknown>): void {
    const timer = setInterval(() => void f().catch((e) => this.#fail(e)), Math.min(ms, timerMax));
    (timer as { unref?: () => void }).unref?.();
    this.#timers.push(timer);
  }

  #fail(error: unknown): void {
    if (!this.#abort.signal.aborted) this.#failed ??= error;
    this.#wake();
  }

  #read(from: Map<number, number>): void {
    for (const [partition, offset] of from) {
      if (this.#readers.has(partition)) continue;
      this.#reading++;
      const ended = () => {
        this.#reading--;
        this.#wake();
      };
      this.#readers.set(partition, this.#readPartition(partition, offset).catch((e) => this.#fail(e)).then(ended));
    }
  }

  async #readPartition(partition: number, offset: number): Promise<void> {
    const { signal } = this.#abort, follow = this.#o.follow ?? false;
    for (let end = Infinity; offset < end && !signal.aborted; ) {
      const page = await readPage(this.#t, { topic: this.#topic, partition, offset, follow, maxBytes: this.#o.maxBytes ?? 1 << 20, signal });
      if (!follow && end === Infinity) end = page.end;
      if (page.resume > offset && !signal.aborted) {
        await new Promise<void>((done) => {
          this.#queue.push({ partition, page, at: 0, done });
          this.#wake();
        });
      } else if (!follow) return;
      offset = page.resume;
    }
  }

  /** The offset at which the group continues in each partition. */
  async #start(signal?: AbortSignal): Promise<Map<number, number>> {
    const topic = await this.#t.json<Topic>({ method: "GET", path: "/topic", query: { "topic-name": this.#topic }, signal }, "name");
    const there = new Map(topic.partitions.map((p) => [p.partition, p]));
    const from = new Map((await offsets(this.#t, this.#group, this.#topic, signal)).map((o) => [o.partition, o.offset]));
    // A group with committed offsets reads new partitions from their start, so that it misses no records.
    const latest = this.#o.start === "latest" && from.size === 0;
    const out = new Map<number, number>(), begin: OffsetEntry[] = [];
    for (const partition of this.#o.partitions ?? there.keys()) {
      const p = there.get(partition);
      if (!p) throw errorOf({ ...noAnswer("none", undefined), code: "unknown_partition", detail: `topic ${this.#topic} has ${there.size} partitions` });
      if (latest) begin.push({ topic: this.#topic, partition, offset: p.next_offset, expected_offset: -1 });
      out.set(partition, from.get(partition) ?? (latest ? p.next_offset : p.start_offset));
    }
    try {
      // Without this commit a crash before the first commit would skip the records that arrived meanwhile.
      await commitOffsets(this.#t, this.#group, begin, { signal });
    } catch (error) {
      // Another consumer of the group started at the same time and has committed offsets.
      if (error instanceof SebError && (error.code === "offset_mismatch" || error.offsets?.length)) return this.#start(signal);
      throw error;
    }
    return out;
  }

  /**
   * Finishes the previous record and returns the next one of any partition. undefined: all partitions are read to
   * their end, or the signal is aborted.
   */
  async next(): Promise<Record | undefined> {
    this.done();
    for (;;) {
      if (this.#failed !== undefined) throw this.#failed;
      if (this.#abort.signal.aborted) return undefined;
      const f = (this.#current ??= this.#queue.shift());
      if (f) {
        const r = f.page.records[f.at];
        if (r) {
          f.at++;
          return r;
        }
        this.#finished.set(f.partition, f.page.resume);
        this.#current = undefined;
        f.done();
      } else if (this.#reading === 0) return undefined;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Record, void, void> {
    for (let r = await this.next(); r; r = await this.next()) yield r;
  }

  /** Finishes the last record that next returned. */
  done(): void {
    const f = this.#current;
    if (f && f.at > 0) this.#finished.set(f.partition, f.page.records[f.at - 1]!.offset + 1);
  }

  /** Commits all finished records, and returns when that is durable. */
  commit(): Promise<void> {
    // One after the other, so that an older commit cannot overtake a newer one.
    const run = this.#committing.then(() => this.#commit());
    this.#committing = run.catch(() => {});
    return run;
  }

  async #commit(): Promise<void> {
    const list = [...this.#finished].filter(([p, offset]) => (this.#committed.get(p) ?? -1) < offset);
    await commitOffsets(this.#t, this.#group, list.map(([partition, offset]) => ({ topic: this.#topic, partition, offset })), {});
    for (const [p, offset] of list) this.#committed.set(p, offset);
  }

  /** Ends the consumer and commits the finished records, unless commitEvery is 0. It may be called twice. */
  async close(): Promise<void> {
    this.#stop();
    this.#o.signal?.removeEventListener("abort", this.#stop);
    this.#timers.forEach((timer) => clearInterval(timer));
    await Promise.all(this.#readers.values());
    if (this.#o.commitEvery !== 0) await this.commit();
  }
}

/** The committed offsets of a group in a topic. */
export async function offsets(t: Transport, group: string, topic?: string, signal?: AbortSignal): Promise<Group["offsets"]> {
  return (await t.json<Group>({ method: "GET", path: "/offsets", query: { group, "topic-name": topic }, signal }, "offsets")).offsets;
}

/** Stores offsets of a group, each of the next record to read. */
export async function commitOffsets(t: Transport, group: string, list: readonly OffsetEntry[], o: CallOptions): Promise<void> {
  if (list.length === 0) return;
  await t.call({
    method: "PUT", path: "/offsets", query: { group }, headers: { "Content-Type": "application/json" }, body: toJSON("offsets", { offsets: list }),
    write: true, idempotent: list.every((e) => e.expected_offset === undefined || e.expected_offset === null), signal: o.signal,
  }, async (answer) => {
    const got = (await answer.json<OffsetResults>("offsets")).offsets.length;
    if (got !== list.length) throw new NotBroker(`not the answer of a broker: ${got} of ${list.length} offsets acknowledged`);
  });
}
