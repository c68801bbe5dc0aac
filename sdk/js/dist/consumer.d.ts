import { type Record } from "./content.js";
import { type CallOptions, type Transport } from "./transport.js";
import type { Group, OffsetEntry } from "./types.js";
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
/**
 * Reads a topic for a consumer group: the partitions concurrently, each in order from the group's committed offset.
 * A record is finished when next returns the following one, or by done. Only finished records are committed, so after
 * a crash the group reads every unfinished record again, and possibly some finished ones (at least once).
 *
 * Call next, done or the iterator from one place at a time.
 */
export declare class Consumer implements AsyncIterable<Record> {
    #private;
    private constructor();
    /** Begins to read a topic for a group. */
    static open(t: Transport, group: string, topic: string, o: ConsumerOptions): Promise<Consumer>;
    /**
     * Finishes the previous record and returns the next one of any partition. undefined: all partitions are read to
     * their end, or the signal is aborted.
     */
    next(): Promise<Record | undefined>;
    [Symbol.asyncIterator](): AsyncGenerator<Record, void, void>;
    /** Finishes the last record that next returned. */
    done(): void;
    /** Commits all finished records, and returns when that is durable. */
    commit(): Promise<void>;
    /** Ends the consumer and commits the finished records, unless commitEvery is 0. It may be called twice. */
    close(): Promise<void>;
}
/** The committed offsets of a group in a topic. */
export declare function offsets(t: Transport, group: string, topic?: string, signal?: AbortSignal): Promise<Group["offsets"]>;
/** Stores offsets of a group, each of the next record to read. */
export declare function commitOffsets(t: Transport, group: string, list: readonly OffsetEntry[], o: CallOptions): Promise<void>;
